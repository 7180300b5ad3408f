"""Find and repair shortcut learning in deployed text classifiers.

>>> from shortcut_guardrail import ShortcutGuardrail
"""

import lazy_loader

# PyTorch and Transformers take seconds to import; the command line's --help must not wait for them.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

__version__ = "0.1.0"
