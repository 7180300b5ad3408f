"""The paper's theory (its Section 5 and Appendix B) as executable checks.

`information` computes entropy and mutual information of finite distributions; `bounds` the Fano bounds, the performance
ceilings and their gap; `world` enumerates a world in which all of it can be compared with the truth. The experiments
`theory` and `theory-bridge` are in `experiment` and `bridge`.
"""

from .bounds import (
    CeilingGap,
    FanoBound,
    IdentificationBounds,
    ceiling_gap,
    fano_bound,
    identification_bounds,
    mean_value_point,
    performance_ceiling,
    sharp_fano_bound,
)
from .information import (
    bayes_error,
    check_channel,
    check_distribution,
    compose,
    conditional_entropy,
    conditional_mutual_information,
    entropy,
    joint_distribution,
    mutual_information,
    one_bit,
    push_forward,
)
from .world import (
    EnumeratedWorld,
    World,
    enumerate_world,
    structures,
    text_distribution,
    with_deployment_texts,
    without_labels,
)

__all__ = [
    "CeilingGap",
    "EnumeratedWorld",
    "FanoBound",
    "IdentificationBounds",
    "World",
    "bayes_error",
    "ceiling_gap",
    "check_channel",
    "check_distribution",
    "compose",
    "conditional_entropy",
    "conditional_mutual_information",
    "entropy",
    "enumerate_world",
    "fano_bound",
    "identification_bounds",
    "joint_distribution",
    "mean_value_point",
    "mutual_information",
    "one_bit",
    "performance_ceiling",
    "push_forward",
    "sharp_fano_bound",
    "structures",
    "text_distribution",
    "with_deployment_texts",
    "without_labels",
]
