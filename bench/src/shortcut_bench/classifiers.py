"""Base classifiers of the benchmark: fine-tuned once, kept on disk, shared by every system that starts from them."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from shortcut_guardrail.data import to_json, write_file, write_folder
from shortcut_guardrail.errors import ModelError
from shortcut_guardrail.models import Precision, TextClassifier, load_model, quiet_transformers, usable_length
from shortcut_guardrail.typing import Progress

from .finetuning import Checkpoints, FinetuneConfig, discard, finetune_classifier

if TYPE_CHECKING:
    from .datasets.types import LabelledTexts

TRAINING_FILE = "training.json"
UNFINISHED_FOLDER = "unfinished"
"""Where in a cache trainings keep their checkpoints."""


@dataclass(frozen=True)
class TrainedClassifier:
    """A fine-tuned sequence classifier and how it came about.

    Attributes:
        model: The Transformers sequence classifier, in evaluation mode, float32. Whoever is handed it leaves it as it
            is: `TextClassifier` works on a copy that shares the weights, and a method that trains copies it first.
        tokenizer: Its tokenizer.
        label_names: The C class names, in the order of the logits.
        max_length: Tokens per input, special tokens included.
        recipe: How it was fine-tuned.
        seed: The seed of its head, the order of its texts and dropout.
        forward_equivalents: What its training cost, in forward passes of one text: 3 a text and epoch.
        seconds: Wall-clock time of its training, whenever that was.
        selection: The figures on the dev set that its learning rate was chosen by, one entry per learning rate tried;
            empty where it was not chosen.
        train_loss: Mean cross-entropy of each epoch, in nats.
    """

    model: Any
    tokenizer: Any
    label_names: tuple[str, ...]
    max_length: int
    recipe: FinetuneConfig
    seed: int
    forward_equivalents: float = 0.0
    seconds: float = 0.0
    selection: tuple[dict[str, float], ...] = ()
    train_loss: tuple[float, ...] = ()

    def text_classifier(self, *, precision: Precision = "float32", batch_size: int = 64) -> TextClassifier:
        """The model ready for prediction and attribution, on weights shared with `model`."""
        return TextClassifier(
            self.model, self.tokenizer, max_length=self.max_length, precision=precision, batch_size=batch_size
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything but model and tokenizer, as JSON types."""
        return {
            "label_names": list(self.label_names),
            "max_length": self.max_length,
            "recipe": self.recipe.to_dict(),
            "seed": self.seed,
            "forward_equivalents": self.forward_equivalents,
            "seconds": self.seconds,
            "selection": [dict(trial) for trial in self.selection],
            "train_loss": list(self.train_loss),
        }


@dataclass(frozen=True)
class Encoder:
    """A pretrained encoder, and what a result says about it.

    Attributes:
        source: Folder or Hub id.
        name: The name to record, free of this machine's folders.
        weights: SHA-256 of the weights file of a local folder; `None` for a Hub id.
    """

    source: str
    name: str
    weights: str | None

    def identity(self) -> dict[str, str | None]:
        """What a run's hash takes of it."""
        return {"name": self.name, "weights": self.weights}

    def tokenizer(self) -> Any:
        """Its tokenizer.

        Raises:
            ModelError: There is none.
        """
        from transformers import AutoTokenizer

        try:
            with quiet_transformers():
                return AutoTokenizer.from_pretrained(self.source)
        except (OSError, ValueError) as error:
            reason = str(error).strip().partition("\n")[0].rstrip(".")
            raise ModelError(f"'{self.name}' has no usable tokenizer: {reason}.") from error


def find_encoder(name: str) -> Encoder:
    """The encoder of that name: `minilm` for the one of the extra `demo`, a folder, or a Hub id.

    Raises:
        ModelError: `minilm` is not installed, or a folder has no safetensors weights.
    """
    from shortcut_guardrail.demo import MINILM_ID, MINILM_SHA256, find_minilm

    if name in ("minilm", MINILM_ID):
        return Encoder(str(find_minilm()), MINILM_ID, MINILM_SHA256)
    folder = Path(name)
    if not folder.is_dir():
        return Encoder(name, name, None)
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ModelError(
            f"'{folder}' holds no .safetensors file. Give the folder of a pretrained encoder, or a Hub id."
        )
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as weights:
            digest.update(hashlib.file_digest(weights, "sha256").digest())
    return Encoder(str(folder), folder.resolve().name, digest.hexdigest())


class ClassifierStore:
    """Fine-tunes classifiers and keeps them: asked for the same rows, recipe and seed again, it loads.

    Args:
        encoder: What is fine-tuned.
        folder: Where classifiers are kept, one folder each; it may be emptied at any time.
        progress: Told how many steps are done.
    """

    def __init__(self, encoder: Encoder, folder: Path, *, progress: Progress | None = None) -> None:
        self.encoder = encoder
        self.folder = folder
        self._progress = progress

    def train(self, rows: LabelledTexts, recipe: FinetuneConfig, seed: int) -> TrainedClassifier:
        """The encoder fine-tuned on these rows.

        Raises:
            DataError: The rows cannot be trained on.
            ModelError: The encoder cannot be loaded as a sequence classifier.
            RunError: The training loss is not finite, or the disk is full.
        """
        folder = self.folder / "classifiers" / self._key(rows, recipe=recipe.to_dict(), seed=seed)
        if not (folder / TRAINING_FILE).exists():
            self._train_into(folder, rows, recipe, seed)
        # Whoever wrote the classifier may have been killed before it came to this.
        discard(self.folder / UNFINISHED_FOLDER / folder.name)
        return _load(folder, recipe, seed)

    def choose_recipe(
        self, train: LabelledTexts, dev: LabelledTexts, recipe: FinetuneConfig, rates: Sequence[float], seed: int
    ) -> tuple[FinetuneConfig, tuple[dict[str, float], ...]]:
        """The recipe with the learning rate whose classifier has the lowest loss on the dev set.

        Loss rather than accuracy: dev sets are small, and a row of 100 is a point of accuracy. The classifiers of the
        other rates are not kept.

        Args:
            train: What they are trained on.
            dev: What they are compared on.
            recipe: Everything but the learning rate.
            rates: The learning rates.
            seed: Seed of all of them.

        Returns:
            The recipe, and for every rate `learning_rate`, `loss` in nats, `accuracy` and `n` on the dev set; nothing
            where there is one rate only.
        """
        if len(rates) == 1:
            return dataclasses.replace(recipe, learning_rate=rates[0]), ()
        key = self._key(train, dev=dev.fingerprint(), recipe=recipe.to_dict(), rates=list(rates), seed=seed)
        file = self.folder / "selections" / f"{key}.json"
        if not file.exists():
            candidates = [dataclasses.replace(recipe, learning_rate=rate) for rate in rates]
            trials = [
                {"learning_rate": candidate.learning_rate, **_dev_figures(self.train(train, candidate, seed), dev)}
                for candidate in candidates
            ]
            write_file(file, to_json({"trials": trials}), overwrite=True)
        trials = json.loads(file.read_text(encoding="utf-8"))["trials"]
        best = min(trials, key=lambda trial: trial["loss"])["learning_rate"]
        for trial in trials:
            if trial["learning_rate"] != best:
                loser = dataclasses.replace(recipe, learning_rate=trial["learning_rate"])
                loser_key = self._key(train, recipe=loser.to_dict(), seed=seed)
                shutil.rmtree(self.folder / "classifiers" / loser_key, ignore_errors=True)
        return dataclasses.replace(recipe, learning_rate=best), tuple(trials)

    def _key(self, rows: LabelledTexts, **rest: Any) -> str:
        identity = {"rows": rows.fingerprint(), "encoder": self.encoder.identity(), **rest}
        return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]

    def _train_into(self, folder: Path, rows: LabelledTexts, recipe: FinetuneConfig, seed: int) -> None:
        result = finetune_classifier(
            rows.texts,
            rows.labels.tolist(),
            encoder=self.encoder.source,
            label_names=rows.label_names,
            config=recipe,
            seed=seed,
            checkpoints=Checkpoints(self.folder / UNFINISHED_FOLDER / folder.name),
            progress=self._progress,
        )

        def fill(target: Path) -> None:
            with quiet_transformers():
                result.model.save_pretrained(target)
                result.tokenizer.save_pretrained(target)
            record = {**result.to_dict(), "rows": len(rows), "forward_equivalents": 3.0 * len(rows) * recipe.epochs}
            (target / TRAINING_FILE).write_text(to_json(record), encoding="utf-8")

        write_folder(folder, fill, key=TRAINING_FILE, overwrite=True)


def _load(folder: Path, recipe: FinetuneConfig, seed: int) -> TrainedClassifier:
    model, tokenizer = load_model(folder)
    record: Mapping[str, Any] = json.loads((folder / TRAINING_FILE).read_text(encoding="utf-8"))
    return TrainedClassifier(
        model=model.eval(),
        tokenizer=tokenizer,
        label_names=tuple(model.config.id2label[i] for i in range(model.config.num_labels)),
        max_length=min(recipe.max_length, usable_length(model, tokenizer, None)),
        recipe=recipe,
        seed=seed,
        forward_equivalents=record["forward_equivalents"],
        seconds=record["seconds"],
        train_loss=tuple(record["train_loss"]),
    )


def _dev_figures(trained: TrainedClassifier, dev: LabelledTexts) -> dict[str, float]:
    classifier = trained.text_classifier()
    logits = torch.from_numpy(classifier.predict_logits(classifier.encode(dev.texts)))
    target = torch.from_numpy(dev.labels)
    return {
        "loss": float(torch.nn.functional.cross_entropy(logits, target)),
        "accuracy": float((logits.argmax(dim=1) == target).float().mean()),
        "n": float(len(dev)),
    }
