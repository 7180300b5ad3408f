"""A chat model behind an OpenAI-compatible endpoint as a classifier."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import numpy as np

from ..data import counted
from ..errors import GuardrailError, GuardrailWarning, RunError
from ..typing import Array, Progress, Text
from .kept import AnswerCache
from .probabilities import fingerprint_of, geometric_mean, log_softmax
from .prompts import Prompt, asked_with
from .protocol import Cost
from .requests import Endpoint, RejectedError
from .settings import Settings

ENDPOINT_TEMPLATES = (
    "Which of these fits the text: {labels}? Answer with the name of one of them and nothing else.\n\n"
    "Text: {text}\nAnswer: {label}",
)
_DEFAULT_SAMPLES = 5
_MOST_TOKENS = 16  # of an answer
_TRIED_FOR_LOG_PROBS = 3  # texts
_BYTES_PER_TOKEN = 4


class _Job(NamedTuple):
    """One request: a text's row, and which sample it is; -1 for log-probabilities."""

    row: int
    prompt: int
    sample: int


@dataclass
class EndpointClassifier:
    """A chat model and how it is asked.

    Attributes:
        name: As shown.
        label_names: The labels.
        endpoint: Where requests go.
        cache: What was answered before.
        prompts: Their probabilities are averaged (`geometric_mean`).
        settings: Of the TOML file.
    """

    name: str
    label_names: tuple[str, ...]
    endpoint: Endpoint
    cache: AnswerCache
    prompts: tuple[Prompt, ...]
    settings: Settings
    _again: bool = False
    _seconds: list[float] = field(default_factory=list)
    _models: set[str] = field(default_factory=set)

    def fingerprint(self) -> str:
        """Over address, model, prompts and request."""
        return _fingerprint(self.endpoint.url, self.settings, self.prompts)

    def predict_proba(self, texts: Sequence[Text], *, progress: Progress | None = None, again: bool = False) -> Array:
        """See `Classifier`. Answers are kept as they come, so that a run that was cut short goes on where it stopped.

        What is asked `again` is kept apart, so that a run that goes on does not pay for that twice either.

        Raises:
            RunError: The endpoint cannot be reached, or rejects every request.
            ConfigError: It refuses the key, the address or the model.
        """
        self._again = again
        try:
            samples = self._samples(texts) or self._find_samples(texts)
            jobs = [_Job(*one) for one in self._jobs(len(texts), samples)]
            self._ask_all(texts, jobs, progress)
        except RunError as error:
            kept = f" What was answered is kept in '{self.cache.path}'; run again to go on." if self.cache.path else ""
            raise RunError(f"{error}{kept}") from error
        finally:
            self.cache.close()
        parts = [self._of_prompt(texts, at, samples) for at in range(len(self.prompts))]
        probs = geometric_mean(parts)
        if n := int(np.isnan(probs).any(axis=1).sum()):
            warnings.warn(
                f"'{self.name}' gave no answer that names a label to {n} of {counted(len(texts), 'text')}.",
                GuardrailWarning,
                stacklevel=2,
            )
        return probs

    def cost(self, texts: Sequence[Text]) -> Cost:
        """See `Classifier`. An endpoint that gives no log-probabilities takes `samples` times as many requests."""
        self._again = False
        jobs = self._jobs(len(texts), self._samples(texts) or [-1])
        left = [job for job in jobs if self._key(texts, job) not in self.cache]
        sent = (self.prompts[job.prompt].before_label(texts[job.row]).encode() for job in left)
        tokens = sum(-(-len(words) // _BYTES_PER_TOKEN) for words in sent)
        per_minute = self.settings.get("requests_per_minute")
        each = [60.0 / per_minute] if per_minute else []
        each += [sum(self._seconds) / len(self._seconds) / self._parallel] if self._seconds else []
        return Cost(len(texts), tokens, len(left), max(each) * len(left) if each else None if left else 0.0)

    def record(self) -> dict[str, Any]:
        """See `Classifier`; the address and the name of the key's variable, never the key."""
        first = self.prompts[0]
        said = {**asked_with(self.prompts), "labels": first.shown}
        known = ("url", "answers", "samples", "api_key_env", "request")
        settings = {key: self.settings.values[key] for key in known if key in self.settings.values}
        facts = {"kind": "endpoint", "name": self.name, "fingerprint": self.fingerprint()}
        return {**facts, "model": self.settings.target, "answered_by": sorted(self._models), **said, **settings}

    @property
    def _parallel(self) -> int:
        return int(self.settings.get("parallel", 4))

    @property
    def _sampled(self) -> list[int]:
        return list(range(self.settings.get("samples", _DEFAULT_SAMPLES)))

    def _jobs(self, n: int, samples: Sequence[int]) -> list[_Job]:
        return [_Job(row, at, sample) for row in range(n) for at in range(len(self.prompts)) for sample in samples]

    def _samples(self, texts: Sequence[Text]) -> list[int]:
        """[-1] for log-probabilities, 0 to n - 1 for sampled answers, empty where that is not known yet."""
        how = self.settings.get("answers", "auto")
        if how != "auto":
            return [-1] if how == "log-probabilities" else self._sampled
        keys = [self._key(texts, _Job(row, 0, -1)) for row in range(min(_TRIED_FOR_LOG_PROBS, len(texts)))]
        kept = [self.cache[key] for key in keys if key in self.cache]
        if not kept:
            return []
        return [-1] if any(answer["tokens"] for answer in kept) else self._sampled

    def _find_samples(self, texts: Sequence[Text]) -> list[int]:
        """Ask about the first texts with log-probabilities, to see whether any come."""
        self.endpoint.stopped.clear()
        for row in range(min(_TRIED_FOR_LOG_PROBS, len(texts))):
            try:
                self._ask(texts, _Job(row, 0, -1))
            except RejectedError:
                continue
            return self._samples(texts)
        return self._sampled

    def _ask_all(self, texts: Sequence[Text], jobs: Sequence[_Job], progress: Progress | None) -> None:
        left = list({self._key(texts, job): job for job in jobs if self._key(texts, job) not in self.cache}.values())
        rejected: list[str] = []
        self.endpoint.stopped.clear()
        pool = ThreadPoolExecutor(self._parallel)
        try:
            waiting = [pool.submit(self._ask, texts, job) for job in left]
            for done, one in enumerate(as_completed(waiting), start=len(jobs) - len(left) + 1):
                try:
                    one.result()
                except RejectedError as error:
                    rejected.append(str(error))
                if progress is not None:
                    progress("Asking", done, len(jobs))
        finally:
            self.endpoint.stopped.set()  # an error or Ctrl-C waits for no other request's next try
            pool.shutdown(wait=True, cancel_futures=True)
            self.endpoint.stopped.clear()
        if rejected and len(rejected) == len(jobs):
            raise RunError(f"'{self.name}' rejects every request: {rejected[0]}.")

    def _ask(self, texts: Sequence[Text], job: _Job) -> None:
        begun = time.perf_counter()
        try:
            answer = _kept(self.endpoint.post(self._body(texts, job)))
        except GuardrailError:
            self.endpoint.stopped.set()
            raise
        self._seconds.append(time.perf_counter() - begun)
        self._models.add(answer["model"])
        self.cache.add(self._key(texts, job), answer)

    def _body(self, texts: Sequence[Text], job: _Job) -> dict[str, Any]:
        words = self.prompts[job.prompt].before_label(texts[job.row])
        how = {"temperature": 1.0} if job.sample >= 0 else {"temperature": 0.0, "logprobs": True, "top_logprobs": 20}
        body = {"model": self.settings.target, "messages": [{"role": "user", "content": words}], **how}
        own: Mapping[str, Any] = self.settings.get("request", {})
        # Newer services take another name for the limit, and refuse both.
        limit = {} if "max_completion_tokens" in own else {"max_tokens": _MOST_TOKENS}
        return {**body, **limit, **own}

    def _key(self, texts: Sequence[Text], job: _Job) -> str:
        asked = {"url": self.endpoint.url, "body": self._body(texts, job), "sample": job.sample, "again": self._again}
        return fingerprint_of(asked)

    def _of_prompt(self, texts: Sequence[Text], at: int, samples: Sequence[int]) -> Array:
        phrases = self.prompts[at].phrases
        scores = np.full((len(texts), len(phrases)), np.nan)
        for row in range(len(texts)):
            keys = [self._key(texts, _Job(row, at, sample)) for sample in samples]
            answers = [self.cache[key] for key in keys if key in self.cache]
            found = token_scores(answers[0]["tokens"], phrases) if samples == [-1] and answers else None
            if samples != [-1]:
                found = sample_scores([answer["content"] for answer in answers], phrases)
            if found is not None:
                scores[row] = found
        return scores


class _Answer(TypedDict):
    """What is kept of a response: its words, who gave it, and by token the likely ones with log-probabilities."""

    content: str
    model: str
    tokens: tuple[tuple[str, tuple[tuple[str, float], ...]], ...]


def _kept(response: Mapping[str, Any]) -> dict[str, Any]:
    """What is read of a response; a choice that is missing or malformed is an answer without words."""
    choices = response.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    message, logs = choice.get("message"), choice.get("logprobs")
    content = message.get("content") if isinstance(message, dict) else None
    steps = logs.get("content") if isinstance(logs, dict) else None
    tokens = [_step(one) for one in steps] if isinstance(steps, list) else []
    answered = {"content": content[:200] if isinstance(content, str) else "", "model": str(response.get("model", ""))}
    return {**answered, "tokens": [one for one in tokens if one is not None][:_MOST_TOKENS]}


def _step(values: Any) -> list[Any] | None:
    """A token of the answer with the likely ones in its place: [token, [[token, log-probability], ...]]."""
    if not isinstance(values, dict):
        return None
    places = [*(values.get("top_logprobs") or []), values]
    likely = {
        str(one["token"]): float(one["logprob"])
        for one in places
        if isinstance(one, dict) and "token" in one and isinstance(one.get("logprob"), int | float)
    }
    finite = [[token, value] for token, value in likely.items() if math.isfinite(value)]
    return [str(values.get("token", "")), finite]


def _plain(words: str) -> str:
    return words.casefold().lstrip(" \t\r\n\"'*`([{")


def _fitting(said: str, answers: Sequence[str]) -> list[int]:
    """The answers that what was said so far may become, or the longest that it has become already."""
    words = _plain(said)
    ahead = [i for i, answer in enumerate(answers) if answer.startswith(words)]
    if ahead:
        return ahead
    behind = [i for i, answer in enumerate(answers) if words.startswith(answer)]
    return [max(behind, key=lambda i: len(answers[i]))] if behind else []


def token_scores(tokens: Sequence[Any], phrases: Sequence[str]) -> Array | None:
    """Log-probabilities of labels, shape (C,), from an answer's tokens and the likely ones in their places.

    Along the answer, each likely token is counted for the label that it leaves as the only one; what several labels
    begin with is followed to the token where they part. A label that is not among the likely ones gets what is left
    there, at most the least of them.

    Returns:
        `None` if no label is among the likely ones.
    """
    answers = [_plain(phrase) for phrase in phrases]
    mass = np.zeros(len(answers))
    said, before, least = "", 0.0, 0.0
    for token, likely in tokens:
        least = min([before + value for _, value in likely], default=before)
        for other, value in likely:
            fits = _fitting(said + other, answers)
            if len(fits) == 1:
                mass[fits[0]] += math.exp(before + value)
        said, before = said + token, before + dict(likely).get(token, 0.0)
        if len(_fitting(said, answers)) <= 1:
            break
    else:
        if _plain(said).strip() in answers:
            mass[answers.index(_plain(said).strip())] += math.exp(before)
    if not mass.any():
        return None
    floor = min(math.exp(least), float(mass[mass > 0].min()))
    return np.asarray(log_softmax(np.log(np.maximum(mass, floor))[None])[0])


def sample_scores(contents: Sequence[str], phrases: Sequence[str]) -> Array | None:
    """Log-probabilities of labels from sampled answers, shape (C,), with half an answer added to each.

    Returns:
        `None` if no answer names a label, or each names several.
    """
    answers = [_plain(phrase) for phrase in phrases]
    counts = np.zeros(len(answers))
    for content in contents:
        named = [i for i, answer in enumerate(answers) if _plain(content).startswith(answer)]
        if named:
            counts[max(named, key=lambda i: len(answers[i]))] += 1
    return np.log((counts + 0.5) / (counts.sum() + 0.5 * len(counts))) if counts.any() else None


def open_endpoint(
    settings: Settings, labels: tuple[str, ...], prompts: tuple[Prompt, ...], cache: Path | None
) -> EndpointClassifier:
    """The classifier that a TOML file describes.

    Raises:
        ConfigError: The address or the key cannot be used.
    """
    url = settings.values["url"].rstrip("/")
    url = url if url.endswith("/chat/completions") else f"{url}/chat/completions"
    endpoint = Endpoint(
        url,
        api_key_env=settings.get("api_key_env"),
        timeout=settings.get("timeout", 60.0),
        retries=settings.get("retries", 6),
        per_minute=settings.get("requests_per_minute"),
        allow_http=settings.get("allow_http", False),
    )
    fingerprint = _fingerprint(url, settings, prompts)
    file = None if cache is None else cache / f"answers-{fingerprint[:16]}.jsonl"
    return EndpointClassifier(settings.name, labels, endpoint, AnswerCache(file, _Answer), prompts, settings)


def _fingerprint(url: str, settings: Settings, prompts: Sequence[Prompt]) -> str:
    asked = [[prompt.before_label("{text}"), *prompt.phrases] for prompt in prompts]
    how = {key: settings.get(key) for key in ("answers", "samples", "request")}
    return fingerprint_of({"url": url, "model": settings.target, "asked": asked, **how})
