"""The debiasing strength: its choice with labels and without, and its certificate.

Functions of logits and labels only; nothing here runs a model.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
