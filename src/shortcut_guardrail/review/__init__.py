"""A person decides the cards of an audit: what is asked next, the answers and their file, a local server.

It needs no model: what a card shows and asks about stands in the audit.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
