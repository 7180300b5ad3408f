from .folder import Loaded as Loaded
from .folder import load_guarded as load_guarded
from .folder import save_guarded as save_guarded
from .model_card import what_labels_said as what_labels_said
from .record import GUARDRAIL_FILE as GUARDRAIL_FILE
from .record import GuardrailRecord as GuardrailRecord
from .record import is_guarded_folder as is_guarded_folder
from .record import library_versions as library_versions
