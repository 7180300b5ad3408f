from .named import Reason as Reason
from .named import Shortcut as Shortcut
from .named import Shortcuts as Shortcuts
from .named import Verdict as Verdict
from .named import with_said as with_said
from .search import find_shortcuts as find_shortcuts
