"""What a model depends on: audits in memory and in shards, tests of a word against its context, results, conditions.

A candidate is a question put to a person; what is taken for a shortcut is decided in `shortcuts`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
