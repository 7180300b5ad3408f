"""Who can give a second opinion on a text: language models, classifiers, functions and endpoints behind one protocol.

A source is asked for the log-probability of each of the deployed model's labels; what follows from its answers is
decided in the rooms above.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
