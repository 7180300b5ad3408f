from .named import Target as Target
from .named import Targets as Targets
from .named import with_said as with_said
from .search import find_targets as find_targets
