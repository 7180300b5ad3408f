"""What folders hold: a guard's record of the run, model card and adapter, and what an audit found."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
