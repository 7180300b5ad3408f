"""How much a prediction depends on each token or word: saliency, occlusion, masked variants."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
