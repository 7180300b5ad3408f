"""Word groups: words that push towards one class, and the texts whose prediction changes when they are masked."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
