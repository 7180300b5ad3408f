"""The demo: a corpus made by code, the small encoder it needs, and the story that is told with them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
