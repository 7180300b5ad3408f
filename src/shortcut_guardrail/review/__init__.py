"""A person decides the cards of an audit in the browser: what is shown, the answers and their file, a local server.

It needs no model, since all stands in the audit, and has no rules of its own, since `decisions` says what follows.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
