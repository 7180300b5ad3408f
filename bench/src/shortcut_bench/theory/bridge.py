"""The experiment `theory-bridge`: how often a planted shortcut is found, from training statistics and from the model.

The theory says that whoever sees the training set can do at least as well as whoever sees the trained model. Here real
texts take the place of the enumerable world: GoEmotions with "honestly" planted at several strengths. The training side
ranks words by local mutual information with the labels; the deployment side fine-tunes an encoder on the same texts and
audits it without labels. What is compared are two particular methods, not two best possible ones, so nothing guarantees
their order.
"""

import itertools
import math
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from shortcut_guardrail.errors import ConfigError, DataError
from shortcut_guardrail.stats import exact_interval

from .record import FinishedRows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from shortcut_guardrail import AuditReport, ShortcutGuardrail

    from ..finetuning import FinetuneConfig

NAME = "theory-bridge"
SHORTCUT = "honestly"
FOLDER = "goemotions_shortcuts"
PLANTED = {1.0: "single-word1", 0.8: "single-word2", 0.6: "single-word3"}
STRENGTHS = (0.0, *sorted(PLANTED))
"""Shortcut strengths; 0 is a control in which half of all texts get the word whatever their label."""
LABEL_NAMES = ("neutral", "amusement", "joy", "excitement")
STATISTICS_SIZES = (25, 50, 100, 200, 400, 800)
STATISTICS_DRAWS = 200
MODEL_SIZES = (50, 200)
MODEL_STEPS = 120
BATCH_SIZE = 16
MAX_LENGTH = 64
AUDIT_TEXTS = 60
LIST_LENGTH = 10
"""How far down a ranking a person is taken to read."""

Rows = list[tuple[str, int]]
Score = Callable[[dict[str, Any]], float | None]
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")


def run(
    data_dir: Path,
    encoder: str | None = None,
    seeds: Sequence[int] = (),
    sizes: Sequence[int] = MODEL_SIZES,
    draws: int = STATISTICS_DRAWS,
    unfinished: Path | None = None,
) -> dict[str, Any]:
    """Ranks the planted word from training statistics and from audits of fine-tuned models.

    Args:
        data_dir: Folder that holds `goemotions_shortcuts`.
        encoder: Folder or Hub name of the encoder to fine-tune; None for the MiniLM of the extra `demo`.
        seeds: One training subset, model and sample of audited texts per seed, for every strength and size. Without
            any, only the training side is computed, which needs no model and takes about a minute.
        sizes: Training sizes of the models.
        draws: Random training subsets per strength and size on the statistics side.
        unfinished: File in which finished models are kept until all are; a run that was killed goes on from it.

    Returns:
        JSON-able: `config`, `statistics` (one row per strength and size) and `models` (one row per model). It holds
        ranks and rates, no text of the data.

    Raises:
        DataError: A file is missing or malformed.
        ModelError: The encoder cannot be found or used.
    """
    training = {strength: _training_rows(data_dir, strength) for strength in STRENGTHS}
    audited = _audited_rows(data_dir)
    encoder_folder, encoder_name = _find_encoder(encoder) if seeds else ("", None)
    finished = FinishedRows(unfinished) if unfinished else None
    models = []
    for size, seed, strength in itertools.product(sizes, seeds, STRENGTHS):
        setting = {"shortcut_strength": strength, "train_size": size, "seed": seed}
        compute = partial(_train_and_audit, training[strength], audited, setting, encoder_folder)
        key = setting | {"encoder": encoder_name, "audit_texts": AUDIT_TEXTS, "recipe": finetune_config(size).to_dict()}
        deployment_side = finished.get(key, compute) if finished else compute()
        models.append(setting | _statistics_of(_subset(training[strength], setting)) | deployment_side)
    return {
        "config": {
            "shortcut": SHORTCUT,
            "encoder": encoder_name,
            "seeds": list(seeds),
            "statistics_draws": draws,
            "audit_texts": AUDIT_TEXTS,
            "list_length": LIST_LENGTH,
            "finetune": {str(size): finetune_config(size).to_dict() for size in sizes if seeds},
            "training_rows": {str(strength): len(rows) for strength, rows in training.items()},
        },
        "statistics": [
            statistics_row(training[strength], strength, size, draws)
            for strength in STRENGTHS
            for size in STATISTICS_SIZES
        ],
        "models": models,
        "told_from_control": told_from_control(models),
    }


def words(text: str) -> set[str]:
    """The different words of a text: lower case, letters and inner apostrophes (typographic ones made straight)."""
    return set(_WORD.findall(text.lower().replace("’", "'")))


def local_mutual_information(word_sets: Sequence[Collection[str]], labels: Sequence[int]) -> dict[str, float]:
    """For every word its largest local mutual information with a label: p(w, l) log(p(l | w) / p(l)), in nats.

    A word counts once per text. High for words that are frequent and go with one label, be they a shortcut or not.

    Args:
        word_sets: The different words of each text, N of them.
        labels: The label of each text, N of them.

    Raises:
        DataError: There is no text, or texts and labels differ in number.
    """
    if not labels or len(word_sets) != len(labels):
        raise DataError(f"Every text needs a label, but there are {len(word_sets)} texts and {len(labels)} labels.")
    total, of_label = len(labels), Counter(labels)
    of_word = Counter(word for present in word_sets for word in present)
    of_pair = Counter((word, label) for present, label in zip(word_sets, labels, strict=True) for word in present)
    best: dict[str, float] = {}
    for (word, label), count in of_pair.items():
        score = count / total * math.log(count * total / (of_word[word] * of_label[label]))
        best[word] = max(score, best.get(word, -math.inf))
    return best


def rank_in(scores: dict[str, float], word: str = SHORTCUT) -> int | None:
    """Rank of a word by its score, from 1, the highest; None if it has none. Words with an equal score come first."""
    return None if word not in scores else sum(score >= scores[word] for score in scores.values())


def audit_rank(report: "AuditReport", word: str = SHORTCUT) -> int | None:
    """Rank of a word among the audit's candidates that hold a letter, from 1; None if it is not among them."""
    candidates = [candidate.text for candidate in report.candidates if any(map(str.isalpha, candidate.text))]
    return candidates.index(word) + 1 if word in candidates else None


def plant(texts: Sequence[str], rng: random.Random, *, share: float = 0.5) -> list[str]:
    """Puts the shortcut in front of a share of the texts, whatever their label."""
    return [f"{SHORTCUT}, {text}" if rng.random() < share else text for text in texts]


def statistics_row(rows: Rows, strength: float, size: int, draws: int) -> dict[str, Any]:
    """How often the planted word is high in the ranking of random training subsets of one size."""
    rng = random.Random(f"statistics {strength} {size}")
    ranks = [_statistics_of(rng.sample(rows, size))["statistics_rank"] for _ in range(draws)]
    return {"shortcut_strength": strength, "train_size": size, "draws": draws} | summarise_ranks(ranks)


def summarise_ranks(ranks: Sequence[int | None]) -> dict[str, Any]:
    """Shares of runs in which the word is first, and in the first `LIST_LENGTH`, with exact 95 % intervals.

    A word that is not ranked at all counts as not found; the median rank is None if that is so in half of the runs.

    Raises:
        ConfigError: There is no run.
    """
    if not ranks:
        raise ConfigError("A rate needs at least one run, but there is none. Give more seeds or draws.")
    first = sum(rank == 1 for rank in ranks)
    listed = sum(rank is not None and rank <= LIST_LENGTH for rank in ranks)
    middle = median(math.inf if rank is None else rank for rank in ranks)
    return {
        "first": first / len(ranks),
        "first_interval": list(exact_interval(first, len(ranks))),
        "listed": listed / len(ranks),
        "listed_interval": list(exact_interval(listed, len(ranks))),
        "median_rank": None if math.isinf(middle) else middle,
    }


def told_from_control(models: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """How well each side's score separates planted sets from controls, in which the word goes with no label.

    A word that a model was never taught to lean on can still be high in a ranking, for instance because it is frequent.
    Here every model of a strength above 0 is paired with every control of its size.

    Args:
        models: Rows of `run`.

    Returns:
        For every strength above 0 and size: the share of pairs in which the planted set scores higher (equal scores
        count half; .5 is chance) by local mutual information, and by the mean fall of the predicted class's probability
        when the audit masks the word, on each deployment set.
    """
    if not models:
        return []
    scores: dict[str, Score] = {
        "training statistics": lambda row: row["statistics_score"],
        **{f"audit, {name}": partial(_mean_fall, name) for name in models[0]["audits"]},
    }
    rows = []
    for strength, size in sorted({(row["shortcut_strength"], row["train_size"]) for row in models}):
        if strength == 0:
            continue
        planted, control = (
            [row for row in models if row["train_size"] == size and row["shortcut_strength"] == wanted]
            for wanted in (strength, 0.0)
        )
        shares = {
            name: _share_higher([score(row) for row in planted], [score(row) for row in control])
            for name, score in scores.items()
        }
        rows.append({"shortcut_strength": strength, "train_size": size, "pairs": len(planted) * len(control)} | shares)
    return rows


def _mean_fall(deployment: str, row: dict[str, Any]) -> float | None:
    change = row["audits"][deployment]["mean_change"]
    return None if change is None else -change


def _share_higher(scores: Sequence[float | None], others: Sequence[float | None]) -> float | None:
    """The share of pairs in which the first is higher; a word without a score counts as lowest."""
    first, second = ([-math.inf if score is None else score for score in side] for side in (scores, others))
    wins = [1.0 if a > b else 0.5 if a == b else 0.0 for a, b in itertools.product(first, second)]
    return sum(wins) / len(wins) if wins else None


def finetune_config(size: int) -> "FinetuneConfig":
    """The library's recipe with as many epochs as give `MODEL_STEPS` steps, so that small sets converge too."""
    from ..finetuning import FinetuneConfig

    steps_per_epoch = math.ceil(size / BATCH_SIZE)
    return FinetuneConfig(
        epochs=math.ceil(MODEL_STEPS / steps_per_epoch),
        batch_size=BATCH_SIZE,
        max_length=MAX_LENGTH,
        precision="bfloat16",
    )


def draw(result: dict[str, Any]) -> "Figure":
    """A page of panels out of a result of `run`; only the first if it has no models.

    Raises:
        ConfigError: matplotlib is not installed.
        DataError: `result` is no result of this experiment.
    """
    from .figures import bridge_page

    return bridge_page(result)


def _subset(rows: Rows, setting: dict[str, Any]) -> Rows:
    """The training texts of one model, the same for both sides."""
    return random.Random(f"model {setting}").sample(rows, setting["train_size"])


def _statistics_of(rows: Rows) -> dict[str, Any]:
    scores = local_mutual_information([words(text) for text, _ in rows], [label for _, label in rows])
    return {"statistics_rank": rank_in(scores), "statistics_score": scores.get(SHORTCUT)}


def _train_and_audit(rows: Rows, audited: dict[str, Rows], setting: dict[str, Any], encoder: str) -> dict[str, Any]:
    """Fine-tunes on the subset of this setting and audits the model on every deployment set."""
    from shortcut_guardrail import ShortcutGuardrail

    from ..finetuning import finetune_classifier

    subset = _subset(rows, setting)
    rng = random.Random(f"audit {setting}")
    trained = finetune_classifier(
        [text for text, _ in subset],
        [label for _, label in subset],
        encoder=encoder,
        label_names=LABEL_NAMES,
        config=finetune_config(len(subset)),
        seed=setting["seed"],
    )
    guard = ShortcutGuardrail(trained.model, trained.tokenizer, max_length=MAX_LENGTH)
    row = {
        "final_train_loss": round(trained.train_loss[-1], 4),
        "audits": {name: _audit(guard, rng.sample(texts, AUDIT_TEXTS)) for name, texts in audited.items()},
    }
    print(f"{NAME}: finished {setting}", file=sys.stderr, flush=True)
    return row


def _audit(guard: "ShortcutGuardrail", rows: Rows) -> dict[str, Any]:
    report = guard.audit([text for text, _ in rows], unit="token")
    found = next((candidate for candidate in report.candidates if candidate.text == SHORTCUT), None)
    right = sum(int(guess) == label for guess, (_, label) in zip(report.saliency.predictions, rows, strict=True))
    return {
        "rank": audit_rank(report),
        "texts_with_it": sum(SHORTCUT in words(text) for text, _ in rows),
        "important_in": found.count if found else 0,
        "flip_rate": found.flip_rate if found else None,
        "mean_change": found.mean_change if found else None,
        "pushes_towards": found.pushes_towards if found else None,
        "accuracy": right / len(rows),
    }


def _training_rows(data_dir: Path, strength: float) -> Rows:
    if strength in PLANTED:
        return _read(data_dir / FOLDER / PLANTED[strength] / "train.csv")
    original = _read(data_dir / FOLDER / "original_train.csv")
    planted = plant([text for text, _ in original], random.Random("control"))
    return [(text, label) for text, (_, label) in zip(planted, original, strict=True)]


def _audited_rows(data_dir: Path) -> dict[str, Rows]:
    """Two deployment sets, the same for every strength: the word in half of the texts at random, and reversed."""
    original = _read(data_dir / FOLDER / "original_test.csv")
    planted = plant([text for text, _ in original], random.Random("deployment"))
    return {
        "random": [(text, label) for text, (_, label) in zip(planted, original, strict=True)],
        "reversed": _read(data_dir / FOLDER / PLANTED[1.0] / "test_anti-shortcut.csv"),
    }


def _read(path: Path) -> Rows:
    from shortcut_guardrail.data import read_data

    data = read_data(path, text_column="text", label_column="label", require_labels=True)
    known = {str(label) for label in range(len(LABEL_NAMES))}
    labels = data.labels or []
    if unknown := sorted(set(labels) - known):
        raise DataError(f"{path.name}: labels must be 0 to {len(LABEL_NAMES) - 1}, but there is '{unknown[0]}'.")
    return [(str(text), int(label)) for text, label in zip(data.texts, labels, strict=True)]


def _find_encoder(encoder: str | None) -> tuple[str, str]:
    """What to load, and the name to record, which is free of this machine's folders."""
    if encoder is not None:
        return encoder, Path(encoder).name if Path(encoder).is_dir() else encoder
    from shortcut_guardrail.demo import MINILM_ID, find_minilm

    return str(find_minilm()), MINILM_ID
