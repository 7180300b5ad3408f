"""What the tables say of a kind of system beside its numbers: the paper's table of positioning, and what tuned it.

Whether a system is for deployment alone and needs no annotation follows from what it is handed (`systems.Need`); how it
goes about it does not, so that is written down here.
"""

from __future__ import annotations

from collections.abc import Mapping

PER_INPUT_ATTRIBUTION = frozenset(
    {
        *("ltgr", "c2l", "mask_average", "mask_top1", "guardrail", "guardrail-paper"),
        *("c2l-40", "identify_mitigate", "fairfil-audited", "defi"),
        *("poe-bow+distill", "c2l+distill"),
        *("guardrail-distill", "guardrail-distill-40", "guardrail-distill-named"),
        *("guardrail-distill-influential", "guardrail-distill-influential-40", "guardrail-distill-training-words"),
        *("guardrail-mask", "guardrail-per-input", "guardrail-ig", "guardrail-attention", "guardrail-leave-one-out"),
    }
)
"""Kinds of systems that ask of single texts which of their tokens matter, as the paper's table of positioning says."""

APPROACHES: Mapping[str, str] = {
    "erm": "Fine-tuning",
    "oracle": "Shortcut removed from the test texts",
    "clean": "Shortcut removed from the training texts",
    # The paper's words, of its table of positioning.
    **dict.fromkeys(("jtt", "jtt-sg-paper", "jtt-grid"), "Error-based retraining"),
    **dict.fromkeys(("nfl", "nfl-co"), "Weight regularization"),
    **dict.fromkeys(("dfr", "dfr-sg-paper"), "Last-layer retraining"),
    "group_dro": "Worst-group reweighting",
    "ltgr": "Attribution-guided training",
    **dict.fromkeys(("c2l", "c2l-40"), "Contrastive learning"),
    "tent": "Entropy minimization",
    **dict.fromkeys(("guardrail", "guardrail-paper"), "Gradient-based attribution + Masked contrastive learning"),
    # In its manner, for what it does not list.
    "interpoll": "Interpolation with minority texts",
    "identify_mitigate": "Attention + Words masked in training",
    "defi": "Attributions orthogonal to those of a teacher of sensitive words",
    "less_learn": "Reweighting by words that go with labels",
    "fairflow": "Undecided answers to destroyed texts",
    "fairfil": "Named words + Contrastive filter",
    "fairfil-audited": "Audit + Contrastive filter",
    **dict.fromkeys(("poe", "poe-bow", "poe-weak", "poe-bow-40"), "Product of experts with a bias-only model"),
    "poe-bow+distill": "Product of experts, then Audit + Counterfactual distillation",
    "c2l+distill": "Contrastive learning, then Audit + Counterfactual distillation",
    "learned_mixin": "Learned mixin with a bias-only model",
    "bias_reweighting": "Reweighting by a bias-only model",
    "nfl-f": "Frozen encoder",
    "nfl-pt": "Frozen encoder + Prompt tuning",
    **dict.fromkeys(("eata", "eta"), "Entropy minimization on selected texts"),
    "sar": "Entropy minimization + Flat minima",
    **dict.fromkeys(("deyo", "deyo-biased"), "Entropy minimization on texts whose answer needs their order"),
    **dict.fromkeys(("stats_shift", "stats_shift-mean"), "Feature statistics of the training texts"),
    "ttt": "Masked words in training and at deployment",
    "masked_adaptation": "Masked words at deployment",
    "last_layer": "Last-layer retraining on the support set",
    "few_shot": "Fine-tuning on the support set",
    "supcon_support": "Fine-tuning with supervised contrast on the support set",
    **dict.fromkeys(("prior_shift", "prior_shift_em"), "Class prior correction"),
    "bias_fit": "Class bias correction",
    "most_frequent": "Most frequent class",
    "bag_of_words": "Words without an encoder",
    **dict.fromkeys(("frozen_head", "frozen_head-40"), "Head on a frozen encoder"),
    "zero_shot": "Likeness to the names of the classes",
    **dict.fromkeys(
        ("biaswipe", "biaswipe-grid", "biaswipe-paired", "biaswipe-unlabelled"), "Named words + Weights zeroed"
    ),
    "mask_average": "Averaging over masked variants",
    "mask_top1": "Masking the most important token",
    "random_maskcl": "Masked contrastive learning at random",
    "simcse_adapter": "Contrastive learning over dropout",
    "simclr_adapter": "Contrastive learning over deleted and swapped words",
    "guardrail-ig": "Integrated gradients + Masked contrastive learning",
    "guardrail-attention": "Attention + Masked contrastive learning",
    "guardrail-leave-one-out": "Leave-one-out attribution + Masked contrastive learning",
    **dict.fromkeys(("guardrail-distill", "guardrail-distill-40"), "Audit + Counterfactual distillation"),
    **dict.fromkeys(
        ("guardrail-distill-influential", "guardrail-distill-influential-40"),
        "Audit + Influential words + Counterfactual distillation",
    ),
    "guardrail-distill-named": "Named words + Counterfactual distillation",
    "guardrail-distill-training-words": "Audit + Words of the training rows + Counterfactual distillation",
    "guardrail-mask": "Audit + Masking at prediction",
    "guardrail-per-input": "Audit + Counterfactual distillation, per input",
    "guardrail-few-shot": "Adapter fine-tuned on the support set",
}
"""How a kind of system mitigates, in a few words: the last column of the paper's table of positioning."""

_TRIED_ON = frozenset({"goemo-st", "goemo-syn", "yelp-st", "yelp-syn"})

SETTLED_ON: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(
        ("guardrail-distill", "guardrail-mask", "guardrail-per-input", "guardrail-distill-named"), _TRIED_ON
    ),
    "guardrail-distill-influential": _TRIED_ON,
    "guardrail-distill-training-words": _TRIED_ON,
    **dict.fromkeys(("poe-bow+distill", "c2l+distill"), _TRIED_ON),
    **dict.fromkeys(("guardrail-distill-40", "guardrail-distill-influential-40"), _TRIED_ON | {"amazon-testbed"}),
    "biaswipe-paired": frozenset({"goemo-st"}),  # thought of when two draws of `biaswipe` had very different scores
}
"""Kinds of systems some of whose options people settled while they saw the answers to scored rows, and of which data
sets these were (docs/research/strategies-measured.md): what a rule that reads test labels is to a program,
this is to a person."""

CHOSEN_BESIDE: Mapping[str, frozenset[str]] = dict.fromkeys(
    (
        *("guardrail", "guardrail-few-shot", "guardrail-ig", "guardrail-attention", "guardrail-leave-one-out"),
        *("random_maskcl", "simcse_adapter", "simclr_adapter"),
    ),
    frozenset({"goemo-st"}),
)
"""Kinds of systems whose rate and steps, or how far they move weights, were chosen on labelled rows of a data set with
the shortcut reversed that nobody is scored on (docs/research/defaults.md): other rows, but of the shift that the scored
ones show."""
