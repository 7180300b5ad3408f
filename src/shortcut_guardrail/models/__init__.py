"""The one place that knows Transformers: the classifier, encoding, loading, packing, precision, several processes."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
