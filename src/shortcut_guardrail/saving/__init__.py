"""The content of folders: a repaired model's record, model card and adapter, and the results of an audit."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
