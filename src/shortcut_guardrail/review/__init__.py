"""The page on which a person decides about word groups, their answers and file, and its local server.

It needs no model, since all stands in the audit, and has no rules of its own, since `decisions` says what follows.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
