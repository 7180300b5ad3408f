"""A person decides the cards of an audit in the browser: what is shown, the answers and their file, a local server.

It needs no model: what a card shows and asks about stands in the audit. It has no rules of its own either: what is
asked next, and what follows from answers, `decisions` says.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
