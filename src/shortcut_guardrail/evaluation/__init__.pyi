from .groups import by_label as by_label
from .groups import by_shortcut as by_shortcut
from .scoring import Evaluation as Evaluation
from .scoring import ShortcutIn as ShortcutIn
from .scoring import evaluate_audited as evaluate_audited
from .scoring import shortcut_tokens as shortcut_tokens
