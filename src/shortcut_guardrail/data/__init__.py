"""Reading tables of texts, writing whole or not at all, messages that quote data, fingerprints of texts."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
