"""The class `ShortcutGuardrail`: audit, fit, calibrate, predict, evaluate, save, load."""

from __future__ import annotations

import copy
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from .audit import (
    AuditReport,
    SampledAudit,
    ShardedAudit,
    answers_needed,
    audit_in_shards,
    audit_sample,
    audit_texts,
    model_digest,
    texts_fingerprint,
)
from .classifiers import Classifier, Cost, require, word_reader
from .config import (
    AuditConfig,
    CertifyConfig,
    GuardrailConfig,
    SaliencyConfig,
    Unit,
    check_seed,
    check_strength,
    preset,
)
from .data import (
    LabelNames,
    Texts,
    TextSource,
    Thresholds,
    check_texts,
    read_thresholds,
    text_hash,
    warn_without_names,
)
from .decisions import Answers, AuditedCards, Decisions, Questions, ask, check_total
from .display import Shown, Summary, shown_progress, some
from .errors import ConfigError, DataError, GuardrailWarning
from .evaluation import (
    NOT_MEASURED,
    SIDES,
    Evaluation,
    SensitivityOn,
    ShortcutIn,
    at_threshold_of,
    effects_of,
    important_tokens,
    sampled_rows,
    score,
    shortcut_tokens,
    summarize_sensitivity,
)
from .mitigation import (
    AdapterGuard,
    FitReport,
    Fitted,
    Repair,
    RepairStrategy,
    RepairStrength,
    Support,
    Wanted,
    answers_by_strength,
    certify_guard,
    check_same_length,
    choose_on_labels,
    choose_unlabelled,
    encode_support,
    fit_guard,
    repair_model,
    search_shortcuts,
    uses_shortcuts,
)
from .models import (
    EncodedTexts,
    Joining,
    Precision,
    Reader,
    TextClassifier,
    Windowing,
    check_same,
    load_model,
    n_processes,
    progress_from,
    rows_by_turns,
    warn_of_controls,
)
from .saving import (
    Base,
    GuardrailRecord,
    from_hub,
    is_guarded_folder,
    library_versions,
    load_guarded,
    open_audit,
    path_from,
    place_of,
    save_guarded,
    segmenter_of,
)
from .serving import Export, Format, check_exportable, export_guard, push_to_hub
from .shortcuts import Shortcuts
from .strength import Calibration, Certificate, StrengthChoice, UnlabelledCalibration, texts_to_label
from .text import (
    Cut,
    Segmenter,
    WordFinder,
    WordLock,
    check_words,
    open_segmenter,
    text_key,
    warn_of_absent,
)
from .threads import one_at_a_time
from .typing import Array, Capability, Erasure, Head, Progress, Text

_TEXTS_AT_ONCE = 1024


def _read(decisions: Decisions | str | Path | None) -> Decisions | None:
    return Decisions.from_file(decisions) if isinstance(decisions, str | Path) else decisions


class ShortcutGuardrail(Shown):
    """Finds the words that a text classifier depends on, and repairs the classifier without its training data.

    Several threads may share one object; their calls run one after the other. The methods have in common:

    - `texts` are N texts, or (text, pair) tuples. `labels` are their labels, all names or all class ids. `support` is a
      few labelled texts and their labels.
    - `strength` lies in [0, 1]. 0 is the original model, and `None` is the strength in use.
    - The same `seed` gives the same result.
    - `progress=True` shows a bar for each stage on stderr (tqdm's; `TQDM_DISABLE=1` turns it off). A function is called
      with the stage, the number of finished items and the total.
    - `DataError` is raised if a text is empty or has no ordinary token, if a label is unknown, or if the numbers of
      texts and labels differ.
    - `ConfigError` is raised if an option is out of range, or if a method needs a repaired model and there is none.

    Args:
        model: A Transformers sequence classifier on an encoder or a decoder. It is not changed; its weights are shared,
            not copied. Without a mask token words are cut out instead of masked.
        tokenizer: Its fast tokenizer.
        head: `softmax` or `sigmoid`; `None` reads it from the model's configuration.
        label: For a model that can give a text several labels: the label that is audited and repaired. The classes are
            then "not LABEL" and "LABEL"; the repair keeps the other labels (see docs/howto/models.md).
        thresholds: The probability from which a text has a label, if it is not 0.5 (see `data.Thresholds`).
        max_length: Tokens per input; `None` takes the model's maximum. Longer texts are truncated and counted.
        windows: Read longer texts in windows of that many tokens, and take the `mean` of their logits, or the `max`.
        overlap: Tokens that a window shares with the one before.
        batch_size: Sequences per forward pass outside training.
        device: E.g. `cpu` or `cuda:1`; `None` takes a GPU if there is one.
        precision: Number format of matrix products: `float32`, `bfloat16`, or `auto`. `auto` takes bfloat16 if the
            hardware supports it, which is faster and changes predictions slightly.
        packing: Whether sequences are put one after another without padding, if the model's family allows it.
        label_names: Names of the classes in place of the model's own (see `data.LabelNames`).
        segmenter: How words are split in scripts without spaces: `jieba`, `fugashi`, `pythainlp`, `icu`,
            `module:function`, or a function from a text to its words or their spans. Otherwise each character is a
            word.

    Raises:
        ModelError: The model or tokenizer lacks something; the sentence says what.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        head: Head | None = None,
        label: str | None = None,
        thresholds: Thresholds | None = None,
        max_length: int | None = None,
        windows: Joining | None = None,
        overlap: int = 64,
        batch_size: int = 32,
        device: str | torch.device | None = None,
        precision: Precision = "float32",
        packing: bool = True,
        label_names: LabelNames | None = None,
        segmenter: str | Cut | None = None,
    ) -> None:
        self._base: Reader = TextClassifier(
            model,
            tokenizer,
            head=head,
            label=label,
            thresholds=thresholds,
            max_length=max_length,
            windows=None if windows is None else Windowing(windows, overlap),
            batch_size=batch_size,
            device=device,
            precision=precision,
            packing=packing,
        ).named(label_names)
        self._lock = WordLock(open_segmenter(segmenter))
        # With an adapter on it, the model that its name stands for is another one.
        named = self._base.name and self._base.merged is None
        self._base_name: str | None = place_of(self._base.name) if named else None
        self._revision: str | None = None
        self._fitted: Fitted | None = None
        self._choice = StrengthChoice()

    @classmethod
    def around(
        cls,
        classifier: str | Path | Classifier | Callable[[Any], Any] | Any,
        label_names: Sequence[str] | None = None,
        *,
        segmenter: str | Cut | None = None,
        cache: str | Path | None = None,
    ) -> ShortcutGuardrail:
        """Audit and repair any classifier: audits and repairs cut words out of its texts.

        Args:
            classifier: A function from N texts to class probabilities of shape (N, C), an object with such a
                `predict_proba`, or a value of `decide --with`: `module:function`, a TOML file, a folder or a Hub id.
            label_names: The C classes, in the order of the columns; by default the classifier's `label_names` or
                `classes_`.
            segmenter: See the class.
            cache: Folder in which predictions of models and endpoints are kept, so that none is paid for twice.

        Raises:
            ConfigError: The classes are not known.
        """
        name = place_of(classifier) if isinstance(classifier, str | Path) else None
        reader, words = word_reader(classifier, label_names, cache=cache), open_segmenter(segmenter)
        return cls._made(reader, name, None, None, StrengthChoice(), segmenter=words)

    @classmethod
    def _made(
        cls,
        base: Reader,
        name: str | None,
        revision: str | None,
        fitted: Fitted | None,
        choice: StrengthChoice,
        *,
        segmenter: Segmenter | None,
    ) -> ShortcutGuardrail:
        guard = cls.__new__(cls)
        guard._base, guard._base_name, guard._revision, guard._fitted = base, name, revision, fitted
        guard._lock, guard._choice = WordLock(segmenter), choice
        return guard

    @classmethod
    def from_pretrained(
        cls,
        source: str | Path,
        *,
        base: str | Path | Any | None = None,
        revision: str | None = None,
        head: Head | None = None,
        label: str | None = None,
        thresholds: Thresholds | None = None,
        max_length: int | None = None,
        windows: Joining | None = None,
        overlap: int = 64,
        batch_size: int = 32,
        device: str | torch.device | None = None,
        precision: Precision = "float32",
        packing: bool = True,
        label_names: LabelNames | None = None,
        segmenter: str | Cut | None = None,
        allow_pickle: bool = False,
        trust_remote_code: bool = False,
        verify: bool = False,
        cache: str | Path | None = None,
    ) -> ShortcutGuardrail:
        """Load a classifier, or a repaired model that `save_pretrained` wrote. Other arguments: see the class.

        Args:
            source: Folder or Hub id. A repaired model's folder has its `label`, `label_names` and `segmenter`, too.
            base: The original model of a repaired one or of a PEFT adapter, if it is not where the folder says: a
                folder, a Hub id, or, for a repaired model, a model in memory or what `around` takes.
            revision: Branch, tag or commit on the Hub.
            allow_pickle: Also read weights in formats that can run code when opened.
            trust_remote_code: Run modelling code that comes with the model.
            verify: Compare every file of the folder with the hash in its manifest; sizes are always compared.
            cache: For a repaired model made by `around`: folder in which predictions are kept.

        Raises:
            ModelError: Nothing usable is there, or the adapter was trained on other weights than the original model's.
        """
        options: dict[str, Any] = {"batch_size": batch_size, "device": device}
        options |= {"precision": precision, "packing": packing}
        thresholds, words = None if thresholds is None else read_thresholds(thresholds), open_segmenter(segmenter)
        reading: dict[str, Any] = {"head": head, "label": label, "thresholds": thresholds, "max_length": max_length}
        loading = {"allow_pickle": allow_pickle, "trust_remote_code": trust_remote_code}
        found = Path(source) if is_guarded_folder(source) else from_hub(source, revision)
        if found is not None:
            own = revision if found == Path(source) else None  # else it is that of the guard
            reading["windows"] = None if windows is None else Windowing(windows, overlap)
            how: dict[str, Any] = {"label_names": label_names, "options": options, "loading": loading, "cache": cache}
            words = words or segmenter_of(found)
            with WordLock(words):
                loaded = load_guarded(found, base=base, revision=own, reading=reading, verify=verify, **how)
            return cls._made(*loaded, segmenter=words)
        if base is not None and not isinstance(base, str | Path):
            raise ConfigError(f"base= must be a folder or Hub id for '{source}', or give ShortcutGuardrail the model.")
        model, tokenizer = load_model(source, base=base, revision=revision, **loading)
        options |= {"label_names": label_names, "windows": windows, "overlap": overlap, "segmenter": words}
        guard = cls(model, tokenizer, **reading, **options)
        guard._base_name, guard._revision = place_of(source), revision
        return guard

    def _summary(self) -> Summary:
        name = (self._base_name or "").removeprefix(f"{Path.cwd()}/")
        place = "" if name in ("", self._kind) else f" from {name}"
        facts = {"model": f"{self._kind}{place}", "classes": some(self.label_names)}
        if self.label is not None:
            facts["label"] = f"{self.label}, of {some(self.labels)}"
        if self._fitted is None:
            facts["strategy"] = "none yet: call fit or repair"
        else:
            facts["strategy"] = self._fitted.config.strategy
            facts["strength"] = f"{self._choice.strength:g} ({self._choice.source})"
            if uses_shortcuts(self._fitted.config):
                facts["shortcuts"] = some(self.shortcuts.words)
        if certificate := self._choice.certificate:
            facts["certified"] = (
                f"loss of at most {100 * certificate.margin:.10g}% with {100 * certificate.confidence:.10g}% confidence"
            )
        return Summary("ShortcutGuardrail", facts)

    @property
    def label_names(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the probabilities."""
        return self._base.label_names

    @property
    def label(self) -> str | None:
        """The label that is audited and repaired, for a model that can give a text several; else `None`."""
        return self._base.heads.label

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of such a model, in the order of `label_probabilities`; the classes of any other."""
        return self.label_names if self.label is None else self._base.heads.labels

    @property
    def thresholds(self) -> tuple[float, ...]:
        """The probability from which a text has each of these labels; empty for a softmax head."""
        return self._base.heads.thresholds

    def about(self, label: str) -> ShortcutGuardrail:
        """The same model for another of its labels, without its certificate, which is about one label."""
        if self.label is None:
            raise ConfigError(f"'{self.name}' has one question, so that there is no other to ask.")
        twin, base = copy.copy(self), cast(TextClassifier, self._base).about(label)
        twin._base, twin._fitted = base, None if self._fitted is None else self._fitted.around(base)
        twin._choice = replace(self._choice, certificate=None)
        return twin

    @property
    def name(self) -> str:
        """Name of the original model, as shown."""
        return self._base_name or self._kind

    @property
    def _kind(self) -> str:
        model = getattr(self._base, "plain_model", None)
        return self._base.name if model is None else type(model).__name__

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What the original model can do besides predicting; see `classifiers.require`."""
        return self._base.capabilities

    @property
    def is_paid(self) -> bool:
        """Whether predictions come from an endpoint, so that each may cost something."""
        return bool(self._base.record()["kind"] == "endpoint")

    @property
    def max_length(self) -> int:
        """Tokens per input, special tokens included."""
        return self._base.max_length

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` was called, or a repaired model loaded."""
        return self._fitted is not None

    @property
    def debias_strength(self) -> float:
        """The strength in use, in [0, 1]; 0 before `fit`."""
        return self._choice.strength

    @debias_strength.setter
    def debias_strength(self, strength: float) -> None:
        self._require_fitted()
        self._choice = self._choice.moved(check_strength(float(strength)), "set")

    @property
    def shortcuts(self) -> Shortcuts:
        """The words and phrases that were considered; none for plain `maskcl` and for `few-shot`."""
        return Shortcuts() if self._fitted is None else self._fitted.shortcuts

    @property
    def certificate(self) -> dict[str, Any] | None:
        """What `certify` showed, as `Certificate.to_dict` gives it; `None` if the strength in use is not certified."""
        certificate = self._choice.certificate
        return None if certificate is None else certificate.to_dict()

    @property
    def peft_model(self) -> Any:
        """The PEFT model, at full strength; a `ConfigError` for `mask`, which trains no adapter."""
        guard = self._require_fitted().guard
        if not isinstance(guard, AdapterGuard):
            raise ConfigError("The strategy 'mask' trains no adapter, so there is no PEFT model.")
        return guard.adapted.model

    def _require_fitted(self) -> Fitted:
        if self._fitted is None:
            raise ConfigError("There is no adapter yet. Call fit(texts) first, or load a folder that fit wrote.")
        return self._fitted

    @one_at_a_time
    def audit(
        self,
        texts: Texts,
        *,
        labels: Sequence[str | int] | None = None,
        unit: Unit = "phrase",
        top_k: int = 10,
        fdr: float = 0.05,
        config: AuditConfig | None = None,
        strength: float | None = None,
        taken: bool = False,
        progress: Progress | bool | None = None,
    ) -> AuditReport:
        """Find what the model depends on: important units per text, ranked and tested candidates, MSTPS.

        Args:
            labels: If they are known, candidates show how many predictions they fix and break.
            unit: `phrase` (words, and those that act together), `word` (whole words) or `token` (the paper's).
            top_k: Important units per text.
            fdr: The false-discovery rate of flagged candidates.
            config: The whole configuration, instead of the three above.
            taken: Say what `find_shortcuts` would take, too (`would_take`). Not of a model that is repaired already,
                of tokens, or within a budget.
        """
        progress = shown_progress(progress)
        config = config or AuditConfig(unit=unit, top_k=top_k, fdr=fdr)
        ids = None if labels is None else self.label_ids(labels)
        with self._at_strength(strength) as classifier:
            encoded = self._encode(texts, progress)
            if ids is not None:
                check_same_length(encoded, ids)
            classifier = classifier.remembering()
            report = audit_texts(classifier, encoded, config, labels=ids, progress=progress)
            return self._with_taken(report, classifier, encoded, config, progress) if taken else report

    @one_at_a_time
    def answers_needed(self, texts: Texts, config: AuditConfig | None = None) -> tuple[int, int]:
        """The least and most predictions that an audit of any classifier needs, without phrases and word groups.

        Repeated texts are counted again, although they are predicted once. Nothing is predicted here.
        """
        return answers_needed(self._base.encode(check_texts(texts)), config or AuditConfig())

    @one_at_a_time
    def audit_in_shards(
        self,
        source: TextSource,
        folder: str | Path,
        *,
        config: AuditConfig | None = None,
        resume: bool = False,
        strength: float | None = None,
        map_shards: Callable[..., Iterable[Any]] | None = None,
        progress: Progress | bool | None = None,
    ) -> ShardedAudit:
        """An audit of a corpus of any size: one shard is in memory at a time, and finished shards stay in a folder.

        Args:
            source: The texts, e.g. `FileTexts("texts.csv")`.
            folder: Where the shards are kept. It is not removed.
            resume: Continue an interrupted audit in the folder.
            map_shards: What computes shards in place of `map`, in other processes for example. The function that it is
                given can be pickled. Results may come in any order. Only for words and tokens (docs/howto/cluster.md).

        Raises:
            ConfigError: The folder has an audit of something else, or has one and `resume` is not set.
        """
        progress = shown_progress(progress)
        with self._at_strength(strength) as reader:
            how: dict[str, Any] = {"resume": resume, "map_shards": map_shards, "progress": progress}
            return audit_in_shards(reader, source, config or AuditConfig(), Path(folder), **how)

    @one_at_a_time
    def audit_sample(
        self,
        source: TextSource,
        size: int,
        *,
        config: AuditConfig | None = None,
        seed: int = 0,
        strength: float | None = None,
        taken: bool = False,
        progress: Progress | bool | None = None,
    ) -> SampledAudit:
        """The same for a sample of a large corpus: random texts, and then more that contain words which change
        predictions in these (docs/howto/large-files.md).

        Args:
            source: The texts, e.g. `FileTexts("texts.csv")`, with their labels where it has them.
            size: Distinct texts to audit, about.
            seed: Another one samples other texts.
            taken: See `audit`.

        Raises:
            ConfigError: `size` is below 100.
            DataError: The source holds no text, or was changed while it was read.
        """
        progress = shown_progress(progress)
        config = config or AuditConfig()
        with self._at_strength(strength) as reader:
            reader = reader.remembering()
            found = audit_sample(reader, source, size, config, seed=seed, progress=progress)
            if not taken:
                return found
            report = self._with_taken(found.report, reader, found.report.encoded, config, progress)
            return replace(found, report=report)

    def _with_taken(
        self,
        report: AuditReport,
        classifier: Reader,
        encoded: EncodedTexts,
        config: AuditConfig,
        progress: Progress | None,
    ) -> AuditReport:
        if self.is_fitted or report.unit == "token" or config.budget:
            return report
        found = search_shortcuts(classifier, encoded, preset("distill"), report=report, progress=progress)
        return replace(report, would_take=tuple(item for item in found.items if item.reliance_removed))

    @one_at_a_time
    def find_shortcuts(
        self,
        texts: Texts,
        *,
        config: str | GuardrailConfig = "distill",
        support: Support | None = None,
        decisions: Decisions | str | Path | None = None,
        report: AuditReport | str | Path | None = None,
        progress: Progress | bool | None = None,
    ) -> Shortcuts:
        """The words and phrases that `mask` and `distill` would treat as shortcuts; nothing is changed.

        Args:
            config: A preset's name or a configuration; its `shortcuts` has the rules.
            support: Clears and confirms candidates.
            decisions: On word groups of an audit of the original model, or their file.
            report: The result of `audit` for these texts and the original model, or the folder that the command wrote.
                Its findings are used, and nothing is audited again. Its unit, `top_k` and `fdr` come before the
                configuration's defaults.

        Raises:
            ConfigError: The decisions were made for another model. The report is of another model, of other texts, of
                tokens, or made with other settings than those of the configuration.
            DataError: The folder has no complete audit.
        """
        progress = shown_progress(progress)
        config = preset(config) if isinstance(config, str) else config
        report = None if report is None else self.audited(report, texts)
        return search_shortcuts(
            self._base,
            self._encode(texts, progress, report),
            config,
            support=encode_support(self._base, support),
            decisions=_read(decisions),
            report=report,
            progress=progress,
        )

    def audited(self, report: AuditReport | str | Path, texts: Texts) -> AuditReport:
        """The audit of these texts by the original model; an audit that is read from its folder has no `inputs`.

        Raises:
            DataError: The folder has no audit, or a file is damaged or missing.
            ConfigError: It is an audit of another model, with another `max_length`, or of other texts.
        """
        report = open_audit(Path(report)) if isinstance(report, str | Path) else report
        AuditedCards.of(report).check(model=self.fingerprint(strength=0), data=self.data_fingerprint(texts))
        return report

    def _encode(self, texts: Texts, progress: Progress | None, report: AuditReport | None = None) -> EncodedTexts:
        """The texts as tokens; as an audit kept them."""
        if report is not None and report.inputs is not None:
            return report.encoded
        return self._base.encode(check_texts(texts), progress=progress)

    @one_at_a_time
    def fingerprint(self, *, strength: float | None = None) -> str:
        """A hash of the model at a strength."""
        with self._at_strength(strength) as classifier:
            return model_digest(classifier)

    def data_fingerprint(self, texts: Texts) -> str:
        """A hash of texts in their order, by which their audit is recognised."""
        return texts_fingerprint([text_key(text) for text in texts])

    @one_at_a_time
    def questions(
        self,
        audit: AuditReport | Questions | str | Path,
        texts: Texts | None = None,
        *,
        cards: str = "undecided",
        n: int = 40,
        n_total: int | None = None,
        answers: Answers | None = None,
        decisions: Decisions | str | Path | None = None,
        shortcuts: Iterable[str] = (),
        seed: int = 0,
        labels: Sequence[str | int | None] | None = None,
        strength: float | None = None,
        progress: Progress | bool | None = None,
    ) -> Questions:
        """Questions about the word groups of an audit, for people or classifiers; see `decide`.

        Prediction changes are counted with flagged, decided and named words masked; see `decisions.asking`.

        Args:
            audit: The result of `audit`, the folder that the command wrote (`Questions.save` writes there, and its
                predictions are used again), or earlier questions. Questions that were asked before come last.
            texts: The audited texts; needed unless `audit` has them.
            cards: `undecided`, which the audit does not flag; `all`; or words and ids with commas between. Groups of
                function words or punctuation alone have to be named.
            n: Texts for each word group that a person is asked about; 0 for all. Classifiers are asked about all.
            n_total: Texts for all groups: at first sixteen each, most prediction changes first.
            answers: People's answers so far; without them those in the folder.
            decisions: On word groups of the audit, or their file.
            shortcuts: Words that are shortcuts.
            labels: The label of each text, `None` if unknown. Labelled texts need no answer; they must be a random
                sample.

        Raises:
            ConfigError: The audit is of another model or of other texts, a group is unknown, or n_total is too small.
            DataError: The folder has no audit, or there are no texts.
        """
        progress, n_total = shown_progress(progress), check_total(n_total)
        before = Questions.so_far(audit)
        if answers is None and isinstance(audit, str | Path):
            answers = Answers.from_folder(audit)
        kept = audit.inputs if isinstance(audit, AuditReport) else None
        texts = texts if texts is not None or kept is None else kept.encoded.texts
        if texts is None:
            raise DataError("texts= is missing: this audit does not keep all of its texts. Give those audited.")
        before.audited.check(model=self.fingerprint(strength=strength), data=self.data_fingerprint(texts))
        encoded = self._encode(texts, progress) if kept is None else kept.encoded
        report = open_audit(Path(audit)) if isinstance(audit, str | Path) else audit
        probs = report.probs if isinstance(report, AuditReport) else None
        prints = (before.audited.model, self.fingerprint(strength=0), self._base.fingerprint())
        known = {row: label for row, label in enumerate(labels or ()) if label is not None}
        names = [before.audited.labels[i] for i in self.label_ids(list(known.values()))]
        warn_without_names(before.audited.labels)
        asks: dict[str, Any] = {"answers": answers, "decisions": _read(decisions), "shortcuts": shortcuts}
        asks |= {"cards": cards, "n": n, "n_total": n_total, "seed": check_seed(seed), "progress": progress}
        asks |= {"labels": dict(zip(known, names, strict=True)), "models": tuple(dict.fromkeys(prints)), "probs": probs}
        with self._at_strength(strength) as classifier:
            return ask(before, classifier.named(before.audited.labels), encoded, **asks)

    @one_at_a_time
    def fit(
        self,
        texts: Texts,
        *,
        config: str | GuardrailConfig = "default",
        seed: int = 0,
        support: Support | None = None,
        shortcuts: Shortcuts | None = None,
        progress: Progress | bool | None = None,
    ) -> FitReport:
        """Train the repair on unlabelled deployment texts. The strength is the configured one until another is chosen.

        Args:
            texts: At least two distinct ones for `maskcl`.
            config: A preset's name (see `preset`) or a configuration.
            support: Clears and confirms shortcuts. The same rows can choose the strength (`calibrate`), but cannot
                certify. `few-shot` learns from nothing else, and chooses the strength by cross-validation.
            shortcuts: The result of `find_shortcuts`, if it is known. `support` then decides nothing; what the
                configuration's `shortcuts` names or keeps still holds.
        """
        self._fitted, report, self._choice = fit_guard(
            self._base,
            texts,
            preset(config) if isinstance(config, str) else config,
            seed=check_seed(seed),
            support=encode_support(self._base, support),
            shortcuts=shortcuts,
            progress=shown_progress(progress),
        )
        return report

    @one_at_a_time
    def repair(
        self,
        texts: Texts,
        support: Support | None = None,
        *,
        strategy: RepairStrategy = "auto",
        strength: RepairStrength = None,
        shortcuts: Sequence[str] = (),
        keep: Sequence[str] = (),
        not_alone: Sequence[str] = (),
        decisions: Decisions | str | Path | None = None,
        report: AuditReport | str | Path | None = None,
        config: GuardrailConfig | Mapping[str, Any] | None = None,
        seed: int = 0,
        progress: Progress | bool | None = None,
    ) -> Repair:
        """The whole repair, as the command `fit` does it: find shortcuts, train, and choose the strength.

        Args:
            support: As in `fit`.
            strategy: How; `paper` is `maskcl` with the paper's numbers, `auto` takes what words and labels support.
            strength: `auto` chooses without labels. `None` does so for `mask` and `distill`, else it chooses on labels.
            shortcuts: Words and phrases that are shortcuts.
            keep: Words and phrases that are not.
            not_alone: Words and phrases that may count together with the rest of a text, and must not decide alone.
            decisions: On word groups of an audit of this model, or their file; see docs/howto/decide.md.
            report: As in `find_shortcuts`. Names of its classes hold on.
            config: A whole configuration, whose strategy `auto` takes, or changes to the strategy's preset.

        Raises:
            NothingToRepairError: Neither words nor labels support a repair; nothing is changed.
            ConfigError: Options contradict each other, or one needs another.
        """
        progress = shown_progress(progress)
        report = None if report is None else self.audited(report, texts)
        if report is not None and self.label_names == self._base.own_label_names:
            self._base = self._base.named(report.label_names)
        self._fitted, repair = repair_model(
            self._base,
            self._encode(texts, progress, report),
            Wanted(strategy, strength, shortcuts, keep, not_alone, config),
            support=encode_support(self._base, support),
            decisions=_read(decisions),
            audited=report,
            seed=check_seed(seed),
            progress=progress,
        )
        self._choice = repair.choice
        return repair

    @one_at_a_time
    def calibrate(
        self,
        support_texts: Texts,
        support_labels: Sequence[str | int],
        *,
        without_labels: UnlabelledCalibration | None = None,
        progress: Progress | bool | None = None,
    ) -> Calibration:
        """Choose the strength on a few labelled rows: the smallest of those with the best score.

        Args:
            support_texts: 40 in the paper.
            without_labels: The result of `calibrate_without_labels` for this repair. Its strength stays, unless the
                labels are evidence against it; see `choose_strength`.

        Raises:
            DataError: The rows are fewer than two, have one class only, or trained the adapter.
            ConfigError: `without_labels` is of another repair; see also `choose_strength`.
        """
        fitted, support = self._require_fitted(), encode_support(self._base, (support_texts, support_labels))
        assert support is not None
        self._choice = choose_on_labels(
            fitted, support, without_labels=without_labels, progress=shown_progress(progress)
        )
        assert self._choice.calibration is not None
        return self._choice.calibration

    @one_at_a_time
    def calibrate_without_labels(
        self, texts: Texts, *, at_most: int = 256, progress: Progress | bool | None = None
    ) -> UnlabelledCalibration:
        """Choose the strength whose predictions are closest to the original model's without the shortcuts.

        The texts of `fit` can be used. A random sample of `at_most` of them is predicted at strengths of the grid, from
        the largest down, until two smaller ones are further away than the best.

        Raises:
            ConfigError: The repair learned from labels.
        """
        fitted = self._require_fitted()
        chosen = choose_unlabelled(self._base, fitted, texts, at_most=at_most, progress=shown_progress(progress))
        self._fitted = replace(fitted, unlabelled=chosen)
        self._choice = StrengthChoice(chosen.strength, "agreement", unlabelled=chosen)
        return chosen

    @one_at_a_time
    def certify(
        self,
        texts: Texts,
        labels: Sequence[str | int],
        *,
        unlabelled: Texts,
        config: CertifyConfig | None = None,
        kept: str | Path | None = None,
        progress: Progress | bool | None = None,
    ) -> Certificate:
        """Show that the repaired model is no worse than the original one by more than a margin.

        If the strength in use is not certified, it is replaced by the certified one that fixes most labelled
        predictions; 0, the original model, is always certified. Labels that chose the strength may be used, since the
        statement holds for all strengths at once. Labels that decided about shortcuts may not. The strength that texts
        without labels chose is tested, and half of it; if labels chose it, or you did, all of the grid are tested
        (`CalibrationConfig.strengths`). Choose it before you call `to_label`.

        Args:
            texts: A random sample of the deployment's texts, or of those that `to_label` names; may be empty.
            unlabelled: Deployment texts that `fit` has not seen.
            config: Margin and confidence.
            kept: A file for the predictions on `unlabelled`, as in `to_label`; they are then not computed again.

        Raises:
            ConfigError: The grid has no strength above 0.
            DataError: There is no unlabelled text, or labelled ones decided about shortcuts.
        """
        fitted = self._require_fitted()
        if not fitted.text_hashes:
            warnings.warn(
                "The repaired model was saved without hashes of texts, so nothing can tell whether these texts had a "
                "part in it. The certificate is only valid for texts that had none.",
                GuardrailWarning,
                stacklevel=3,
            )
        found, self._choice = certify_guard(
            self._base,
            fitted,
            self._choice,
            labelled=(texts, labels),
            unlabelled=unlabelled,
            config=config or CertifyConfig(),
            kept=None if kept is None else Path(kept),
            progress=shown_progress(progress),
        )
        return found

    @one_at_a_time
    def to_label(
        self,
        unlabelled: Texts,
        n: int,
        *,
        seed: int = 0,
        kept: str | Path | None = None,
        progress: Progress | bool | None = None,
    ) -> list[int]:
        """Deployment texts to label for `certify`: a random sample of those whose predictions differ, in random order.

        You may label only the first ones. Choose how many before you see a label.

        Args:
            unlabelled: Deployment texts that `fit` has not seen.
            n: How many at most, at least 1.
            kept: A file for the predictions at each strength, which take most of the time. Those of the same model and
                texts are read, others are replaced. It contains no text.
        """
        if n < 1:
            raise ConfigError(f"n must be at least 1, but is {n}.")
        file = None if kept is None else Path(kept)
        _, answers = answers_by_strength(
            self._base, self._require_fitted(), self._choice, unlabelled, kept=file, progress=shown_progress(progress)
        )
        return [int(i) for i in texts_to_label(answers[0], answers[1:], n, seed=check_seed(seed))]

    def label_ids(self, labels: Sequence[str | int], **where: Any) -> Array:
        """Class ids of labels given as names or as ids, shape (n,); for `where` see `data.label_ids`."""
        return self._base.label_ids(labels, **where)

    @one_at_a_time
    def predict_proba(
        self,
        texts: Texts,
        *,
        strength: float | Sequence[float] | Array | None = None,
        progress: Progress | bool | None = None,
        again: bool = False,
    ) -> Array:
        """Class probabilities, shape (N, C), float32, in the order of `label_names`.

        For a label with a threshold other than 0.5 they are shifted, so that the larger one is the prediction;
        `label_probabilities` are not. `again` has no effect; see `classifiers.Classifier`.

        Args:
            strength: One, or one for each text.
        """
        answers = self._answers(texts, strength, progress)[:, self._base.heads.place]
        return cast(Array, torch.from_numpy(answers).softmax(dim=-1).numpy())

    @one_at_a_time
    def label_probabilities(
        self,
        texts: Texts,
        *,
        strength: float | Sequence[float] | Array | None = None,
        progress: Progress | bool | None = None,
    ) -> Array:
        """The probability of each of K `labels`, shape (N, K), float32; for a softmax head the same as `predict_proba`.

        A text has the labels whose probability is above their threshold.

        Args:
            strength: See `predict_proba`.
        """
        probs = self._base.heads.probabilities(torch.from_numpy(self._answers(texts, strength, progress)))
        return cast(Array, (probs[:, 0] if self._base.head == "softmax" else probs[..., 1]).numpy())

    def _answers(self, texts: Texts, strength: Any, progress: Progress | bool | None) -> Array:
        """Logits of all questions of the head, shape (N, Q, C)."""
        progress, heads = shown_progress(progress), self._base.heads
        texts = check_texts(texts)
        logits, done = np.empty((len(texts), heads.n_questions, len(self.label_names)), dtype=np.float32), 0
        for one, rows in _groups(strength, len(texts)):
            self._check_shared(texts, one)
            with self._at_strength(one) as classifier:
                # Piece by piece, so that the tokens of a long file are never all in memory.
                answer = partial(_answered, classifier, [texts[row] for row in rows])
                told = progress_from(done, len(texts), progress)
                (logits[rows],) = rows_by_turns(len(rows), _TEXTS_AT_ONCE, answer, told)
            done += len(rows)
        return logits

    def _check_shared(self, texts: Texts, strength: float | None) -> None:
        """Refuse to answer texts together with processes that have others, or another model."""
        if n_processes() > 1:
            check_same("model", self.fingerprint(strength=strength))
            check_same("texts", self.data_fingerprint(texts))

    def predict(
        self,
        texts: Texts,
        *,
        strength: float | Sequence[float] | Array | None = None,
        progress: Progress | bool | None = None,
    ) -> list[str]:
        """The name of the most probable class of each text; see `predict_proba`."""
        probs = self.predict_proba(texts, strength=strength, progress=progress)
        return [self.label_names[i] for i in probs.argmax(axis=1)]

    def cost(self, texts: Texts) -> Cost:
        """What predictions for N texts cost, measured on a few of them."""
        return self._base.cost(check_texts(texts))

    @one_at_a_time
    def count_truncated(self, texts: Texts) -> int:
        """How many of the texts are longer than the model reads, and are truncated."""
        return sum(
            int(self._encode(texts[start : start + _TEXTS_AT_ONCE], None).truncated.sum())
            for start in range(0, len(texts), _TEXTS_AT_ONCE)
        )

    @one_at_a_time
    def evaluate(
        self,
        texts: Texts,
        labels: Sequence[str | int],
        *,
        shortcuts: Sequence[str] = (),
        shortcut_in: ShortcutIn = "text",
        top_k: int = 10,
        sensitivity: SensitivityOn = 500,
        strength: float | None = None,
        like: Evaluation | None = None,
        seed: int = 0,
        progress: Progress | bool | None = None,
    ) -> Evaluation:
        """Score the repaired model on labelled texts, by group if shortcuts are named.

        Args:
            shortcuts: Words and phrases. A text's group is its label and whether it contains any of them.
            shortcut_in: Which side of a pair is searched for them: `text`, `pair` or `both`.
            top_k: Important tokens per text.
            sensitivity: The size of the random sample on which MSTPS and shortcut token recall are measured; `all`, or
                `none`. A text takes some ten times as long there as a prediction.
            like: The scores of another model on the same texts. With two classes, each is then predicted as often as
                there, by another threshold. The remaining difference is more than a threshold can do.
        """
        progress = shown_progress(progress)
        ids = self.label_ids(labels)
        finder = WordFinder(check_words(shortcuts)) if shortcuts else None
        strength = self._choice.strength if strength is None else check_strength(strength)
        measurable = "gradients" in self._base.capabilities
        rows = sampled_rows(len(texts), sensitivity if measurable else "none", check_seed(seed))
        encoded = self._encode(texts, progress)
        check_same_length(encoded, ids)
        if like is not None and (len(self.label_names) != 2 or like.n != len(encoded)):
            raise ConfigError(
                f"like= is for two classes and the same texts, but there are {len(self.label_names)} classes, and "
                f"{like.n} texts there and {len(encoded)} here. Leave it out."
            )
        self._warn_about_support_rows(encoded.texts)
        warn_of_controls(encoded)
        warn_of_absent(shortcuts, encoded, sides=SIDES[shortcut_in])
        tokens = None if finder is None else shortcut_tokens(encoded, finder, shortcut_in)
        measured, sample, config, of_base = NOT_MEASURED, encoded.select(rows), SaliencyConfig(top_k=top_k), None
        self._check_shared(texts, strength)
        if len(rows) and self.is_fitted and strength > 0:  # else the evaluated model is the base
            of_base = important_tokens(cast(TextClassifier, self._base), sample, config, progress).positions
        with self._at_strength(strength) as classifier:
            (logits,) = rows_by_turns(len(encoded), _TEXTS_AT_ONCE, partial(_predicted, classifier, encoded), progress)
            predictions, threshold = logits.argmax(axis=1), None
            if like is not None:
                predictions, threshold = at_threshold_of(logits, like.predicted)
            if len(rows):
                saliency = important_tokens(cast(TextClassifier, classifier), sample, config, progress)
                erasure: Erasure = "cut" if classifier.mask_token_id is None else "mask"
                effects = partial(effects_of, classifier, sample, erasure=erasure, progress=progress)
                own, base = effects(saliency.positions), None if of_base is None else effects(of_base)
                held = None if tokens is None else [tokens[i] for i in rows]
                measured = summarize_sensitivity(sample, saliency, own, base_effects=base, shortcut_tokens=held)
        of: dict[str, Any] = {"shortcut_tokens": tokens, "sensitivity": measured, "threshold": threshold}
        return score(encoded, predictions, ids, self.label_names, **of)

    def _warn_about_support_rows(self, texts: Texts) -> None:
        seen = {*self._choice.rows, *self.shortcuts.rows}
        shared = sum(text_hash(text) in seen for text in texts) if seen else 0
        if shared:
            learned = self._require_fitted().strategy.learns_from_labels
            warnings.warn(
                f"{shared} of the {len(texts)} evaluated texts were in the support set that "
                f"{'trained the adapter' if learned else 'chose the strength'}; leave them out for an unbiased score.",
                GuardrailWarning,
                stacklevel=3,
            )

    @contextmanager
    def _at_strength(self, strength: float | None) -> Iterator[Reader]:
        """The classifier at a strength; the original model if there is no adapter."""
        if self._fitted is None and not strength:
            yield self._base
            return
        strength = self._choice.strength if strength is None else check_strength(strength)
        with self._require_fitted().guard.at(strength) as classifier:
            yield classifier

    @one_at_a_time
    def record(self) -> GuardrailRecord:
        """The content of `guardrail.json`."""
        fitted, choice = self._require_fitted(), self._choice
        if fitted.label != self.label:
            raise ConfigError(
                f"This repair was fitted for the label '{fitted.label}', and is asked about '{self.label}' here. Save "
                f"or export it as about('{fitted.label}')."
            )
        base: Base = {"name": self._base_name, "revision": self._revision, "fingerprint": self._base.fingerprint()}
        if self._base.merged is not None:
            base["merged"] = self._base.merged
        return GuardrailRecord(
            strategy=fitted.config.strategy,
            plain_peft_equivalent=fitted.guard.plain_peft_equivalent,
            base_model=base,
            label_names=self.label_names,
            head=self._base.head,
            label=fitted.label,
            thresholds=self._base.heads.own_thresholds,
            segmenter=None if (words := self._lock.segmenter) is None else words.name,
            max_length=self.max_length,
            windows=self._base.windows,
            precision=self._base.precision,
            config=fitted.config,
            debias_strength=choice.strength,
            strength_source=choice.source,
            calibration=choice.calibration,
            unlabelled_calibration=choice.unlabelled,
            certificate=choice.certificate,
            shortcuts=fitted.shortcuts.items,
            shortcut_rows=fitted.shortcuts.rows,
            support_hashes=choice.rows,
            seed=fitted.seed,
            training=fitted.training,
            seconds={stage: round(seconds, 3) for stage, seconds in fitted.seconds.items()},
            versions=library_versions(),
            text_hashes=fitted.text_hashes,
            erasure="mask" if "adapts" in self._base.capabilities else "cut",
        )

    @one_at_a_time
    def save_pretrained(
        self,
        folder: str | Path,
        *,
        overwrite: bool = False,
        text_hashes: bool = True,
        beside: Mapping[str, str] | None = None,
    ) -> None:
        """Write a PEFT adapter folder with the strength folded into `lora_alpha`, the record and a model card.

        The strategy `mask` has no adapter: its folder has the record, the model card and the tokenizer, and an earlier
        adapter there is removed.

        Args:
            folder: It is written completely or not at all. Other files in an existing folder are kept.
            overwrite: Whether an existing repaired model may be replaced.
            text_hashes: Whether to keep hashes of the texts that were used. Short texts can be guessed from them
                (docs/reference/privacy.md). Without them nobody can see that a text is used again.
            beside: Further files of the folder, by name.

        Raises:
            ConfigError: The folder exists and has no repaired model, or may not be replaced.
            RunError: The disk is full, or the like.
        """
        record = self.record()
        way = path_from(Path(folder), self._base_name)
        record = replace(record, base_model=record.base_model | {"from_folder": way})
        fitted = self._require_fitted()
        if not text_hashes:
            fitted, record = replace(fitted, texts=frozenset()), record.without_text_hashes()
        save_guarded(Path(folder), self._base, fitted, record, overwrite=overwrite, beside=beside)

    def push_to_hub(
        self,
        repo_id: str,
        *,
        private: bool = True,
        license: str | None = None,
        revision: str | None = None,
        token: str | None = None,
        text_hashes: bool = True,
    ) -> str:
        """Save the repaired model and put it on the Hub. For the folder of an export, see `serving.push_to_hub`.

        Args:
            text_hashes: See `save_pretrained`.

        Returns:
            The address of the commit.
        """
        with tempfile.TemporaryDirectory() as beside:
            self.save_pretrained(Path(beside) / "guard", text_hashes=text_hashes)
            how: dict[str, Any] = {"private": private, "license": license, "revision": revision, "token": token}
            return push_to_hub(Path(beside) / "guard", repo_id, **how)

    @one_at_a_time
    def export(
        self,
        folder: str | Path,
        *,
        format: Format = "merged",
        texts: Texts | None = None,
        strength: float | None = None,
        int8: bool = False,
        overwrite: bool = False,
    ) -> Export:
        """Write a folder for serving without this library, once its predictions equal the repaired model's.

        Args:
            format: `merged`, a Transformers model that contains the adapter, or `onnx`, a file for ONNX Runtime.
            texts: Texts to compare on; synthetic ones are added up to 64.
            strength: In [0, 1]; `None` is the one in use.
            int8: Also write `model_int8.onnx` with 8-bit weights. Its predictions are compared but may differ.
            overwrite: Whether an earlier export may be replaced.

        Raises:
            ConfigError: No ordinary model can represent this repair, or a package is missing.
            RunError: The predictions differ by more than 1e-4; nothing is written.
        """
        record = self.record()
        if strength is not None and strength != record.debias_strength:
            record = replace(record, debias_strength=check_strength(strength), certificate=None)
        check_exportable(record, format, int8=int8)
        how: dict[str, Any] = {"format": format, "int8": int8, "overwrite": overwrite}
        require(self._base, "adapts", "an export")
        with self._at_strength(record.debias_strength) as classifier:
            compared = [] if texts is None else check_texts(texts)
            return export_guard(cast(TextClassifier, classifier), record, Path(folder), texts=compared, **how)


def _answered(reader: Reader, texts: Sequence[Text], rows: Array, progress: Progress | None) -> tuple[Array]:
    encoded = reader.encode(cast(Texts, [texts[row] for row in rows]))
    return (reader.predict_answers(encoded, progress=progress),)


def _predicted(reader: Reader, encoded: EncodedTexts, rows: Array, progress: Progress | None) -> tuple[Array]:
    return (reader.predict_logits(encoded.select(rows), progress=progress),)


def _groups(strength: Any, n: int) -> list[tuple[Any, Array]]:
    """The strengths of N texts, one for all or one for each, and the rows that each of them holds for."""
    given = np.asarray(strength, dtype=object)
    if given.ndim == 0:
        return [(strength, np.arange(n))]
    each = [check_strength(one.item() if isinstance(one, np.generic) else one) for one in given.tolist()]
    if len(each) != n:
        raise ConfigError(f"strength must be one number or one for each text, but there are {len(each)} for {n} texts.")
    return [(one, np.flatnonzero(np.equal(each, one))) for one in dict.fromkeys(each)]
