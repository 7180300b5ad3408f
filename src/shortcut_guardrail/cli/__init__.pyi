from .options import Debug as Debug
from .options import Overwrite as Overwrite
from .running import progress_bars as progress_bars
from .running import stderr as stderr
