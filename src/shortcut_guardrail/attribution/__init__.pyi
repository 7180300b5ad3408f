from .occlusion import MaskingEffects as MaskingEffects
from .occlusion import mask_variants as mask_variants
from .occlusion import masking_effects as masking_effects
from .occlusion import predicted_probabilities as predicted_probabilities
from .saliency import Saliency as Saliency
from .saliency import find_important_tokens as find_important_tokens
