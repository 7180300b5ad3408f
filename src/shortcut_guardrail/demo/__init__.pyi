from .corpus import SHORTCUT as SHORTCUT
from .run import METRICS_FILE as METRICS_FILE
from .run import DemoResult as DemoResult
from .run import run_demo as run_demo
from .run import write_demo as write_demo
from .training import MINILM_ID as MINILM_ID
from .training import MINILM_SHA256 as MINILM_SHA256
from .training import find_minilm as find_minilm
