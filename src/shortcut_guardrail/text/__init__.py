"""Words and phrases of texts: what a word is, the finder of words, edits of texts, duplicates."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
