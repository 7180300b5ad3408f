"""The strategies that remove reliance on shortcuts, each a repaired model (`Guard`) at any strength.

Masked contrastive learning, distillation and few-shot training share one loop over LoRA layers; masking trains nothing.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
