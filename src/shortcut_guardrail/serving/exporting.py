"""From a guard to a folder that others serve. Nothing is written before its predictions are those of the guard.

`merged` is an ordinary Transformers model. `onnx` is a file for ONNX Runtime, made by `torch.onnx.export` with
TorchDynamo. TorchScript was left out: it tells inputs apart by their place, so that the tokenizer's order gives wrong
predictions without a word. Transformers' own exporter is as right and slower, and writes a second file of weights.
"""

from __future__ import annotations

import copy
import json
import logging
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
import torch

from ..data import Texts, to_json, write_folder
from ..display import template
from ..errors import ConfigError, ModelError
from ..models import TextClassifier, load_model, quiet_transformers, save_tokenizer
from ..saving import GuardrailRecord, card_metadata, first_line, library_versions
from ..typing import Array, Text
from .parity import Logits, Parity, check, compare, made_up, probabilities

Format = Literal["merged", "onnx"]
FORMATS: tuple[Format, ...] = get_args(Format)
EXPORT_FILE = "export.json"
ONNX_FILE, INT8_FILE = "model.onnx", "model_int8.onnx"

_ONE_FILE = 1_500_000_000
"""Bytes of weights that go into an ONNX file itself; it takes 2 GiB at most."""


@dataclass(frozen=True)
class Export:
    """A finished export; `export.json` in its folder.

    Attributes:
        strength: The strength of the repair, which the weights now contain.
        base_model: Name, revision and fingerprint of the original model.
        parity: How its predictions differ from the repaired model's.
        int8: The same for the quantised file; `None` if none was made.
        sizes: Bytes, by file of weights.
        versions: Of the packages that wrote it.
    """

    format: Format
    strength: float
    base_model: Mapping[str, Any]
    label_names: tuple[str, ...]
    max_length: int
    parity: Parity
    int8: Parity | None
    sizes: Mapping[str, int]
    versions: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)


def check_exportable(record: GuardrailRecord, format: str, *, int8: bool) -> None:
    """Refuse what no ordinary model can do, and what is not installed.

    Raises:
        ConfigError: The sentence says what to do.
    """
    if format not in FORMATS:
        raise ConfigError(f"format must be {' or '.join(FORMATS)}, but is {format!r}.")
    if int8 and format != "onnx":
        raise ConfigError(f"int8 is for the format onnx, but the format is {format}.")
    if not record.plain_peft_equivalent:
        masks = record.strategy == "mask"
        why = "masks words of a text" if masks else "leaves texts without a shortcut to the original model"
        instead = "with strategy='distill'" if masks else "without per_input"
        raise ConfigError(
            f"This repair {why}, which no ordinary model does. Serve it with this library (docs/howto/serve.md), or "
            f"fit one {instead} and export that."
        )
    if record.windows is not None:
        raise ConfigError(
            "This model reads long texts in windows, which no ordinary model does. Serve it with this library "
            "(docs/howto/serve.md), or fit one without windows= and export that."
        )
    missing = [name for name in ("onnx", "onnxscript", "onnxruntime") if find_spec(name) is None]
    if format == "onnx" and missing:
        raise ConfigError(
            f"The format onnx needs {' and '.join(missing)}. Install it all with `pip install "
            "'shortcut-guardrail[onnx]'`."
        )


def export_guard(
    classifier: TextClassifier,
    record: GuardrailRecord,
    folder: Path,
    *,
    texts: Sequence[Text],
    format: Format,
    int8: bool,
    overwrite: bool,
) -> Export:
    """Write the folder of an exported guard, whole or not at all. See `ShortcutGuardrail.export`.

    Args:
        classifier: The guard at its strength, with the adapter in its layers.
    """
    new = made_up(texts, classifier.tokenizer, [item.text for item in record.shortcuts])
    compared = [*dict.fromkeys(texts), *new]
    answers = torch.from_numpy(classifier.predict_answers(classifier.encode(cast(Texts, compared)))).double()
    expected = classifier.heads.probabilities(answers).numpy()
    expected = expected[:, 0] if record.head == "softmax" else expected
    done: list[Export] = []

    def parity_of(logits: Logits, tokenizer: Any, usual: float | None) -> tuple[Parity, float]:
        found, seconds = probabilities(logits, tokenizer, compared, head=record.head, max_length=record.max_length)
        relative = None if usual is None else seconds / usual
        return compare(found, expected, n_made_up=len(new), relative_time=relative), seconds

    def fill(target: Path) -> None:
        with tempfile.TemporaryDirectory() as beside:
            merged = target if format == "merged" else Path(beside) / "merged"
            _write_merged(classifier, record, merged)
            model, tokenizer = load_model(str(merged))
            parity, usual = parity_of(_of_model(model.eval()), tokenizer, None)
            check(parity, "merged model")
            quantised = None
            if format == "onnx":
                _write_onnx(model, tokenizer, compared, target / ONNX_FILE, record.max_length)
                for file in merged.iterdir():
                    if file.suffix != ".safetensors":
                        shutil.copy(file, target)
                parity, _ = parity_of(_of_onnx(target / ONNX_FILE), tokenizer, usual)
                check(parity, "ONNX file")
                if int8:
                    _quantise(target)
                    quantised, _ = parity_of(_of_onnx(target / INT8_FILE), tokenizer, usual)
        weights = (file for pattern in ("*.safetensors", "*.onnx*") for file in target.glob(pattern))
        sizes = {file.name: file.stat().st_size for file in sorted(weights)}
        how = record.debias_strength, record.base_model, record.label_names, record.max_length
        done.append(Export(format, *how, parity, quantised, sizes, library_versions()))
        (target / EXPORT_FILE).write_text(to_json(done[0].to_dict()), encoding="utf-8")
        library = "onnx" if format == "onnx" else "transformers"
        metadata = card_metadata(record, library=library, relation="finetune", tags=[])
        name = record.base_model["name"] or "A classifier"
        original = Path(name).name if Path(name).is_absolute() else name  # the card may go where the path means nothing
        shown = {"export": done[0], "record": record, "metadata": metadata, "original": original}
        card = template("serving/card.md.j2").render(**shown)
        (target / "README.md").write_text(card, encoding="utf-8")

    write_folder(folder, fill, key=EXPORT_FILE, overwrite=overwrite)
    return done[0]


def _write_merged(classifier: TextClassifier, record: GuardrailRecord, target: Path) -> None:
    """A Transformers folder: weights, the tokenizer with the guard's length, and a configuration that says all."""
    tokenizer = copy.deepcopy(classifier.tokenizer)
    tokenizer.model_max_length = record.max_length
    with quiet_transformers():
        classifier.plain_model.save_pretrained(target)
        save_tokenizer(tokenizer, target)
    file = target / "config.json"
    config = json.loads(file.read_text(encoding="utf-8"))
    one = record.head == "sigmoid"
    config["problem_type"] = "multi_label_classification" if one else "single_label_classification"
    if not one:
        config["id2label"] = dict(enumerate(record.label_names))
        config["label2id"] = {name: i for i, name in enumerate(record.label_names)}
    file.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _write_onnx(model: Any, tokenizer: Any, texts: Sequence[Text], file: Path, max_length: int) -> None:
    """The model as an ONNX file whose batches may be of any size and length."""
    two = texts[:2]
    first = [text if isinstance(text, str) else text[0] for text in two]
    second = None if isinstance(two[0], str) else [text[1] for text in two]
    batch = dict(tokenizer(first, second, padding=True, truncation=True, max_length=max_length, return_tensors="pt"))
    axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("sequence", max=max_length)}
    size = sum(weight.numel() * weight.element_size() for weight in model.parameters())
    with _errors_only("torch.onnx"), _errors_only("onnxscript"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what they say is about upstream's own code
        try:
            torch.onnx.export(
                model,
                (),
                file,
                kwargs=batch,
                dynamo=True,
                dynamic_shapes=dict.fromkeys(batch, axes),
                input_names=list(batch),
                output_names=["logits"],
                external_data=size > _ONE_FILE,
                verbose=False,
            )
        except torch.onnx.errors.OnnxExporterError as error:
            raise ModelError(
                f"PyTorch cannot write a {type(model).__name__} as an ONNX file. Export it with the format merged."
            ) from error


def _quantise(target: Path) -> None:
    """Weights as 8-bit integers, activations quantised as they come."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with _errors_only(None):  # ONNX Runtime warns of a step that dynamic quantisation does not need
        try:
            quantize_dynamic(target / ONNX_FILE, target / INT8_FILE, weight_type=QuantType.QInt8)
        except Exception as error:  # seen: shapes that an older PyTorch wrote and onnx infers otherwise
            raise ModelError(
                f"ONNX Runtime cannot quantise this model: {first_line(error)}. Export without int8, or with newer "
                "versions of torch, onnx and onnxruntime."
            ) from error


@contextmanager
def _errors_only(logger: str | None) -> Iterator[None]:
    """Within the block a logger, `None` for the root, keeps its warnings to itself."""
    log = logging.getLogger(logger)
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)


def _of_model(model: Any) -> Logits:
    def run(batch: Mapping[str, Any]) -> Array:
        with torch.inference_mode():
            logits: Array = model(**{name: torch.from_numpy(ids) for name, ids in batch.items()}).logits.numpy()
        return logits

    return run


def _of_onnx(file: Path) -> Logits:
    from onnxruntime import InferenceSession

    session = InferenceSession(file, providers=["CPUExecutionProvider"])
    names = [put.name for put in session.get_inputs()]

    def run(batch: Mapping[str, Any]) -> Array:
        return np.asarray(session.run(["logits"], {name: batch[name] for name in names})[0])

    return run
