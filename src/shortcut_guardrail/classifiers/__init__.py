"""Everything that predicts labels of texts, behind one protocol: encoders, language models, functions and endpoints.

Whether a classifier is audited, repaired or asked as a judge, it is asked for the probability of each label. What
follows from its answers is decided in the rooms above.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
