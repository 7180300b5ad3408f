"""Folders that others serve: an ordinary Transformers model or an ONNX file, which predict what the guard predicts."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
