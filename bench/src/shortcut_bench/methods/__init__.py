"""The mitigation methods that the guardrail is compared with, in the harness's one interface.

Training time: JTT, NFL, DFR, Group DRO, LTGR, C2L, InterpoLL, FairFlow, FairFil, DeFI, ensembles with a bias-only
model. Deployment time: Tent, EATA, SAR, DeYO, statistics adaptation, test-time training, BiasWipe. With the guardrail's
label budget: last-layer retraining, 40-shot fine-tuning with and without supervised contrast, prior-shift correction.
Controls: mask averaging, masking the most important token, randomly masked MaskCL, adapters that contrast dropout alone
or reworded texts. What can be had without fine-tuning: the most frequent class, a bag of words, a head on a frozen
encoder, the names of the classes. The guardrail's own strategies that go beyond the paper, and one of them after a
training-time method.
docs/research/methods.md says of each what it is, where it comes from, what is faithful and what differs.

>>> from shortcut_bench import methods
>>> sorted(need.value for need in methods.METHODS["tent"]().needs)
['deployment', 'gradients']
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..systems import System
from .adaptation import Tent
from .attributed import AttributedMaskCL
from .bias_only import BiasOnly
from .biaswipe import GRID, BiasWipe
from .c2l import C2L
from .combined import TrainedThenGuarded
from .controls import MaskAverage, RandomMaskCL, SimCSEAdapter
from .defi import DeFI
from .deyo import DeYO
from .dfr import DFR
from .eata import EATA
from .fairfil import FairFil
from .fairflow import FairFlow
from .group_dro import GroupDRO
from .identify import IdentifyMitigate
from .interpoll import InterpoLL
from .jtt import JTT
from .last_resort import BagOfWords, FrozenHead, MostFrequent, ZeroShot
from .less_learn import LessLearn
from .loading import load_fitted
from .ltgr import LTGR
from .nfl import NFL
from .same_budget import FewShot, LastLayer, PriorShift
from .sar import SAR
from .selection import RULES
from .simclr import SimCLRAdapter
from .stats_shift import StatsShift
from .supcon import SupConSupport
from .targeted import Influential, Named, Targeted, Taught
from .training_words import TrainingWords
from .ttt import MaskedAdaptation, TestTimeTraining

BY_SUPPORT = "support-balanced-accuracy"

METHODS: dict[str, Callable[..., System]] = {
    "most_frequent": MostFrequent,
    "bag_of_words": BagOfWords,
    "frozen_head": FrozenHead,
    "frozen_head-40": partial(FrozenHead, name="frozen_head-40", rows="support"),
    "zero_shot": ZeroShot,
    "jtt": JTT,
    "jtt-sg-paper": partial(JTT, name="jtt-sg-paper", variant="sg-paper"),
    "jtt-grid": JTT.full_grid,
    "nfl": NFL,
    "nfl-co": partial(NFL, name="nfl-co", variant="CO"),
    "nfl-f": partial(NFL, name="nfl-f", variant="F"),
    "nfl-pt": partial(NFL, name="nfl-pt", variant="PT"),
    "dfr": DFR,
    "dfr-sg-paper": partial(DFR, name="dfr-sg-paper", variant="sg-paper"),
    "group_dro": GroupDRO,
    "ltgr": LTGR,
    "c2l": C2L,
    "interpoll": InterpoLL,
    "fairflow": FairFlow,
    "fairfil": FairFil,
    "fairfil-audited": partial(FairFil, name="fairfil-audited", words="audited"),
    "less_learn": LessLearn,
    "identify_mitigate": IdentifyMitigate,
    "defi": DeFI,
    "poe": BiasOnly,
    "poe-bow": partial(BiasOnly, name="poe-bow", bias="bag"),
    "poe-weak": partial(BiasOnly, name="poe-weak", bias="weak"),
    "learned_mixin": partial(BiasOnly, name="learned_mixin", loss="mixin", bias="bag"),
    "bias_reweighting": partial(BiasOnly, name="bias_reweighting", loss="reweight"),
    "poe-bow-40": partial(BiasOnly, name="poe-bow-40", bias="bag", select=BY_SUPPORT),
    "c2l-40": partial(C2L, name="c2l-40", select=BY_SUPPORT),
    "tent": Tent,
    "eata": EATA,
    "eta": partial(EATA, name="eta", fisher_weight=0.0),
    "sar": SAR,
    "deyo": DeYO,
    "deyo-biased": DeYO.biased,
    "stats_shift": StatsShift,
    "stats_shift-mean": partial(StatsShift, name="stats_shift-mean", mean_only=True),
    "ttt": TestTimeTraining,
    "masked_adaptation": MaskedAdaptation,
    "last_layer": LastLayer,
    "few_shot": FewShot,
    "supcon_support": SupConSupport,
    "prior_shift": PriorShift,
    "bias_fit": partial(PriorShift, name="bias_fit", estimate="bias"),
    "prior_shift_em": partial(PriorShift, name="prior_shift_em", estimate="em"),
    "biaswipe": BiasWipe,
    "biaswipe-grid": partial(BiasWipe, name="biaswipe-grid", weights=GRID, in_turn=False),
    "biaswipe-paired": partial(BiasWipe, name="biaswipe-paired", paired=True),
    "biaswipe-unlabelled": partial(BiasWipe, name="biaswipe-unlabelled", templates="deployment"),
    "mask_average": MaskAverage,
    "mask_top1": partial(MaskAverage, name="mask_top1", top_k=1),
    "random_maskcl": RandomMaskCL,
    "simcse_adapter": SimCSEAdapter,
    "simclr_adapter": SimCLRAdapter,
    "guardrail-ig": AttributedMaskCL,
    "guardrail-attention": partial(AttributedMaskCL, name="guardrail-attention", attribution="attention"),
    "guardrail-leave-one-out": partial(AttributedMaskCL, name="guardrail-leave-one-out", attribution="leave-one-out"),
    "guardrail-distill": Targeted,
    "guardrail-distill-40": partial(Targeted, name="guardrail-distill-40", labels=True),
    "guardrail-distill-influential": Influential,
    "guardrail-distill-influential-40": partial(Influential, name="guardrail-distill-influential-40", labels=True),
    "guardrail-distill-named": Named,
    "guardrail-distill-training-words": TrainingWords,
    "guardrail-few-shot": Taught,
    "poe-bow+distill": TrainedThenGuarded,
    "c2l+distill": partial(TrainedThenGuarded, name="c2l+distill", trainer="c2l"),
    "guardrail-mask": partial(Targeted, name="guardrail-mask", strategy="mask"),
    "guardrail-per-input": partial(Targeted, name="guardrail-per-input", per_input=True),
}
"""Every method by name; options are those of its class."""

__all__ = [
    "C2L",
    "DFR",
    "EATA",
    "JTT",
    "LTGR",
    "METHODS",
    "NFL",
    "RULES",
    "SAR",
    "AttributedMaskCL",
    "BagOfWords",
    "BiasOnly",
    "BiasWipe",
    "DeFI",
    "DeYO",
    "FairFil",
    "FairFlow",
    "FewShot",
    "FrozenHead",
    "GroupDRO",
    "IdentifyMitigate",
    "Influential",
    "InterpoLL",
    "LastLayer",
    "LessLearn",
    "MaskAverage",
    "MaskedAdaptation",
    "MostFrequent",
    "Named",
    "PriorShift",
    "RandomMaskCL",
    "SimCLRAdapter",
    "SimCSEAdapter",
    "StatsShift",
    "SupConSupport",
    "Targeted",
    "Taught",
    "Tent",
    "TestTimeTraining",
    "TrainedThenGuarded",
    "TrainingWords",
    "ZeroShot",
    "load_fitted",
]
