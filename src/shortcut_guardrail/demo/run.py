"""The demo: plant a shortcut, watch a classifier fall for it, audit, repair, compare.

Three models are compared: the `original`, which fell for the shortcut; `paper`, repaired by the paper's method,
whose strength a support set chooses; and `repaired`, the original repaired as `fit` does by default, from texts alone.
"""

import csv
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..audit import AuditReport
from ..data import enumerated, to_json, write_folder
from ..display import template
from ..errors import GuardrailWarning
from ..evaluation import Evaluation
from ..guardrail import ShortcutGuardrail
from ..mitigation import Repair
from ..models import quiet_transformers
from ..report import render_comparison
from ..saving import library_versions
from ..typing import Progress
from .corpus import LABEL_NAMES, SHORTCUT, SIZES, DemoCorpus, Part, make_corpus
from .training import MINILM_ID, Recipe, find_minilm, train_classifier

METRICS_FILE = "metrics.json"
METRICS_SCHEMA_VERSION = 2
MEASURED = 100
"""Texts on which MSTPS is measured: it takes ten times as long as an answer."""
AUDITED = 200
"""Deployment texts on which the page shows what each model depends on, for the same reason. The repair reads all."""


@dataclass(frozen=True)
class DemoResult:
    """Everything the demo's table and files show.

    Attributes:
        biased: The fine-tuned classifier that fell for the shortcut, and its tokenizer.
        repairs: `paper` and `repaired`.
        audits: `original`, `paper` and `repaired`, on the first deployment texts.
        evaluations: The same three on labelled texts of the same kind, which chose nothing.
        in_distribution: The same three on labelled texts in which the shortcut still goes along with the label.
    """

    corpus: DemoCorpus
    biased: tuple[Any, Any]
    seed: int
    repairs: dict[str, Repair]
    audits: dict[str, AuditReport]
    evaluations: dict[str, Evaluation]
    in_distribution: dict[str, Evaluation]
    seconds: dict[str, float]

    @property
    def found(self) -> str:
        """What the default repair found, a sentence."""
        return f"In {len(self.corpus.deployment.texts)} texts without labels the audit found {enumerated(self.words)}."

    @property
    def words(self) -> list[str]:
        """What the default repair took for shortcuts."""
        return list(self.repairs["repaired"].fitted.shortcuts.words)

    def to_dict(self) -> dict[str, Any]:
        """What `metrics.json` holds."""
        return {
            "schema_version": METRICS_SCHEMA_VERSION,
            "data": "synthetic reviews generated for this demo",
            "encoder": MINILM_ID,
            "shortcut": SHORTCUT,
            "seed": self.seed,
            "sizes": {name: len(part.texts) for name, part in vars(self.corpus).items()},
            **{name: evaluation.to_dict() for name, evaluation in self.evaluations.items()},
            "in_distribution": {name: evaluation.to_dict() for name, evaluation in self.in_distribution.items()},
            "words_found": self.words,
            "repairs": {name: repair.to_dict() for name, repair in self.repairs.items()},
            "seconds": {stage: round(seconds, 2) for stage, seconds in self.seconds.items()},
            "versions": library_versions(),
        }


def run_demo(
    *,
    seed: int = 0,
    device: str | None = None,
    progress: Progress | None = None,
    sizes: Mapping[str, int] = SIZES,
    encoder: Path | None = None,
    recipe: Recipe | None = None,
) -> DemoResult:
    """Run all stages. Nothing is tuned on the rows that are reported.

    Args:
        encoder: Folder of the pretrained encoder; `None` finds MiniLM.
    """
    corpus, recipe, seconds = make_corpus(seed=seed, sizes=sizes), recipe or Recipe(), dict[str, float]()

    @contextmanager
    def stage(name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        seconds[name] = time.perf_counter() - started

    with stage("finetune"):
        where = encoder or find_minilm()
        biased = train_classifier(
            corpus.train, encoder=where, recipe=recipe, seed=seed, device=device, progress=progress
        )
    systems = {
        name: ShortcutGuardrail(*biased, device=device, max_length=recipe.max_length, precision="auto")
        for name in ("original", "paper", "repaired")
    }
    texts, support, repairs, audits = list(corpus.deployment.texts), corpus.support, {}, {}
    with stage("repair"):
        repairs["repaired"] = systems["repaired"].repair(texts, seed=seed, progress=progress)
    with stage("repair as in the paper"), warnings.catch_warnings():
        # So few steps change next to nothing; the table and the page show how many, and how much.
        warnings.filterwarnings("ignore", "This run is predicted", GuardrailWarning)
        labelled = (list(support.texts), list(support.labels))
        repairs["paper"] = systems["paper"].repair(texts, labelled, strategy="paper", seed=seed, progress=progress)
    for name, guard in systems.items():
        with stage(f"audit {name}"):
            audits[name] = guard.audit(texts[:AUDITED], unit="word", progress=progress)
    with stage("evaluate"):
        reversed_ = {name: _scores(guard, corpus.reversed, MEASURED, progress) for name, guard in systems.items()}
        in_distribution = {name: _scores(guard, corpus.in_distribution, 0, progress) for name, guard in systems.items()}
    return DemoResult(corpus, biased, seed, repairs, audits, reversed_, in_distribution, seconds)


def _scores(guard: ShortcutGuardrail, part: Part, measured: int, progress: Progress | None) -> Evaluation:
    with warnings.catch_warnings():
        # Negative reviews with the shortcut are rare where it goes along with the label; nothing is said of them there.
        warnings.filterwarnings("ignore", "Small groups", GuardrailWarning)
        scored: dict[str, Any] = {"sensitivity": measured or "none", "progress": progress}
        return guard.evaluate(list(part.texts), list(part.labels), shortcuts=[SHORTCUT], **scored)


def write_demo(result: DemoResult, out: Path, *, overwrite: bool = False) -> None:
    """Write `report.html` and `metrics.json`, and what it takes to go on by hand; whole or not at all.

    Beside the two: `biased-model/`, `deployment.csv` (texts), and, with labels, `support.csv`, `test.csv` (the
    correlation is reversed) and `in-distribution.csv`.
    """
    page = render_comparison(
        title="Shortcut Guardrail demo: a model before and after its repair",
        introduction=template("demo/introduction.j2").render(result=result, shortcut=SHORTCUT).strip().split("\n\n"),
        evaluations=result.evaluations,
        audits=result.audits,
        notes=["All texts of this demo are synthetic; its numbers say nothing about real reviews."],
    )
    metrics = to_json(result.to_dict())

    def fill(folder: Path) -> None:
        (folder / "report.html").write_text(page, encoding="utf-8")
        (folder / METRICS_FILE).write_text(metrics, encoding="utf-8")
        write_inputs(folder, result.corpus, result.biased)

    write_folder(out, fill, key=METRICS_FILE, overwrite=overwrite)


def write_inputs(folder: Path, corpus: DemoCorpus, biased: tuple[Any, Any]) -> None:
    """Write the classifier and the texts, into a folder that is there."""
    with quiet_transformers():
        for part in biased:
            part.save_pretrained(folder / "biased-model")
    _write_csv(folder / "deployment.csv", corpus.deployment, labelled=False)
    _write_csv(folder / "support.csv", corpus.support)
    _write_csv(folder / "test.csv", corpus.reversed)
    _write_csv(folder / "in-distribution.csv", corpus.in_distribution)


def _write_csv(file: Path, part: Part, *, labelled: bool = True) -> None:
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["text", "label"] if labelled else ["text"])
        for text, label in zip(part.texts, part.labels, strict=True):
            writer.writerow([text, LABEL_NAMES[label]] if labelled else [text])
