"""The experiment `theory`: the paper's bounds beside exact values, in a world small enough to enumerate.

`run` computes four series (training size, coarseness of the learner, shortcut strength, deployment texts) and returns
them as a JSON-able result; `draw` turns such a result into one page of figures. Nothing is random, so the same versions
give the same numbers.
"""

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from .bounds import ceiling_gap, identification_bounds, sharp_fano_bound
from .information import (
    FloatArray,
    bayes_error,
    conditional_entropy,
    conditional_mutual_information,
    mutual_information,
)
from .world import (
    FLOAT_STEP,
    EnumeratedWorld,
    World,
    enumerate_world,
    structures,
    text_distribution,
    with_deployment_texts,
    without_labels,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "theory"
BASE_WORLD = World(num_tokens=3, train_size=5, shortcut_strength=0.9, step=2.0, l2=0.1)
TRAIN_SIZES = (0, 1, 2, 3, 4, 5, 6, 7)
STEPS = (FLOAT_STEP, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
STEP_TRAIN_SIZES = (3, 5, 7)
STRENGTHS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 1.0)
DEPLOYMENT_TRAIN_SIZE = 4
DEPLOYMENT_SIZES = (0, 1, 2, 3, 4)
SKEWED_LABEL_SHARE = 0.27
"""Label share of the skewed deployment set: 73 % in one class, as in the reversed GoEmotions test set."""


def rho(identified: float) -> float:
    """The performance function of the figures: .35 if S* is never identified, .85 if always, a smooth step between."""
    return 0.35 + 0.5 * (3 * identified**2 - 2 * identified**3)


def rho_derivative(identified: float) -> float:
    """The derivative of `rho`."""
    return 3.0 * (identified - identified**2)


def run(world: World = BASE_WORLD) -> dict[str, Any]:
    """Computes every series of the experiment, in about a minute on one core.

    Args:
        world: What stays fixed while one setting varies.

    Returns:
        JSON-able: `config` and the series `by_train_size`, `by_step`, `by_strength` (rows of `describe_world`) and
        `by_deployment_texts` (rows of `describe_deployment`).
    """
    return {
        "config": asdict(world),
        "by_train_size": [describe_world(replace(world, train_size=size)) for size in TRAIN_SIZES],
        "by_step": [
            describe_world(replace(world, train_size=size, step=step)) for size in STEP_TRAIN_SIZES for step in STEPS
        ],
        "by_strength": [describe_world(replace(world, shortcut_strength=strength)) for strength in STRENGTHS],
        "by_deployment_texts": _deployment_series(replace(world, train_size=DEPLOYMENT_TRAIN_SIZE)),
    }


def describe_world(world: World) -> dict[str, Any]:
    """Information, best possible errors, bounds and ceilings of one world, in bits.

    Returns:
        The world's settings; `information` and `bayes_error` of four observers (the training set, the parameters, the
        model's answers, a one-token audit); `bounds` (the paper's, training set against parameters); `sharp_bounds`
        (Fano without simplification); `ceilings` and the performance `rho` at the true errors.
    """
    enumerated = enumerate_world(world)
    observers = _observers(enumerated)
    bounds = identification_bounds(enumerated.train_joint, enumerated.parameters_joint)
    errors = {name: bayes_error(joint) for name, joint in observers.items()}
    return {
        "world": asdict(world),
        "num_training_sets": enumerated.train_joint.shape[1],
        "num_models": len(enumerated.parameters),
        "information": {name: mutual_information(joint) for name, joint in observers.items()},
        "bayes_error": errors,
        "bounds": bounds.to_dict(),
        "sharp_bounds": {
            side: sharp_fano_bound(conditional_entropy(observers[observer]), len(enumerated.train_joint))
            for side, observer in (("train", "training set"), ("deploy", "parameters"))
        },
        "ceilings": ceiling_gap(bounds, rho, rho_derivative=rho_derivative).to_dict(),
        "best_performance": {name: rho(1 - error) for name, error in errors.items()},
    }


def describe_deployment(enumerated: EnumeratedWorld, deployment: FloatArray, size: int) -> dict[str, float]:
    """What the parameters together with `size` deployment texts tell about S*, in bits.

    Args:
        enumerated: A world.
        deployment: One deployment text under each structure, shape (K, cells).
        size: Number of texts.

    Returns:
        `information` and `bayes_error` of (parameters, texts), and `beyond_parameters`, I(S*; texts | parameters): zero
        exactly when S* -> parameters -> (parameters, texts) is a Markov chain, as the paper assumes.
    """
    joint = with_deployment_texts(enumerated, deployment, size)
    observed = joint.reshape(len(joint), -1)
    return {
        "information": mutual_information(observed),
        "bayes_error": bayes_error(observed),
        "beyond_parameters": conditional_mutual_information(joint),
    }


def deployment_settings(world: World) -> dict[str, FloatArray]:
    """Deployment texts by name, as `text_distribution` describes them: two that do not depend on S*, three that do."""
    shortcuts = structures(world.num_tokens)
    removed = text_distribution(shortcuts, 0.0)
    reversed_labelled = text_distribution(shortcuts, -world.shortcut_strength)
    skewed = text_distribution(shortcuts, -world.shortcut_strength, label_1_share=SKEWED_LABEL_SHARE)
    return {
        "shortcut removed, no labels": without_labels(removed),
        "shortcut removed, labelled": removed,
        "reversed, no labels": without_labels(reversed_labelled),
        "reversed, no labels, skewed classes": without_labels(skewed),
        "reversed, labelled": reversed_labelled,
    }


def _deployment_series(world: World) -> list[dict[str, Any]]:
    enumerated = enumerate_world(world)
    train = {
        "train_information": mutual_information(enumerated.train_joint),
        "train_bayes_error": bayes_error(enumerated.train_joint),
    }
    return [
        {"deployment": name, "num_texts": size, "world": asdict(world)}
        | train
        | describe_deployment(enumerated, deployment, size)
        for name, deployment in deployment_settings(world).items()
        for size in DEPLOYMENT_SIZES
    ]


def _observers(enumerated: EnumeratedWorld) -> dict[str, FloatArray]:
    return {
        "training set": enumerated.train_joint,
        "parameters": enumerated.parameters_joint,
        "answers": enumerated.answers_joint,
        "one-token audit": enumerated.audit_joint,
    }


def draw(result: dict[str, Any]) -> "Figure":
    """One page with six panels out of a result of `run`.

    Raises:
        ConfigError: matplotlib is not installed.
        DataError: `result` is no result of this experiment.
    """
    from .figures import theory_page

    return theory_page(result)
