"""Scores on labelled rows, by group: label and presence of a shortcut."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
