"""The command line: one file a command, each of which parses, makes one call and prints.

What several commands share is in `options`; how errors, warnings and progress are shown is in `running`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
