"""Which words and phrases are treated as shortcuts, and why: named, found, or decided by labels."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
