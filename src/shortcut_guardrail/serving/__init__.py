"""Folders for serving: an ordinary Transformers model or an ONNX file, with the predictions of the repaired model."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
