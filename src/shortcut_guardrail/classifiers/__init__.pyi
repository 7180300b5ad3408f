from .opening import open_classifiers as open_classifiers
from .probabilities import log_probs as log_probs
from .protocol import Classifier as Classifier
from .protocol import Cost as Cost
from .protocol import require as require
