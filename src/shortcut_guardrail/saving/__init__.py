"""What a guarded folder holds: the record of the run, the model card and the adapter's files."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
