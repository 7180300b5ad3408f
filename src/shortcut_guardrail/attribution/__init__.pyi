from .masking import mask_variants as mask_variants
from .occlusion import MaskingEffects as MaskingEffects
from .occlusion import masking_effects as masking_effects
from .saliency import Saliency as Saliency
from .saliency import find_important_tokens as find_important_tokens
from .units import find_important_units as find_important_units
from .units import span_effects as span_effects
