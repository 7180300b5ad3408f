"""A chat model behind an OpenAI-compatible endpoint as a classifier."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..data import counted
from ..errors import GuardrailError, GuardrailWarning, RunError
from ..typing import Array, Progress, Text
from .chat_answers import MOST_TOKENS, ChatAnswer, read_answer, sample_scores, token_scores
from .kept import AnswerCache
from .probabilities import fingerprint_of, geometric_mean
from .prompts import Prompt, asked_with
from .protocol import Cost
from .requests import Endpoint, RejectedError, StoppedError
from .settings import EndpointSettings

ENDPOINT_TEMPLATES = (
    "Which of these fits the text: {labels}? Answer with the name of one of them and nothing else.\n\n"
    "Text: {text}\nAnswer: {label}",
)
_TRIED_FOR_LOG_PROBS = 3  # texts
_BYTES_PER_TOKEN = 4
_LOG_PROBS = -1  # in place of the number of a sample


class _Job(NamedTuple):
    """One request: what is asked about, by which prompt, which sample it is, and whether it is asked once more."""

    text: Text
    prompt: int
    sample: int
    again: bool = False


@dataclass
class EndpointClassifier:
    """A chat model and how it is asked."""

    label_names: tuple[str, ...]
    prompts: tuple[Prompt, ...]  # their probabilities are averaged (`geometric_mean`)
    settings: EndpointSettings
    folder: Path | None = None  # where answers are kept; `None` keeps them for the life of the object alone
    _seconds: list[float] = field(default_factory=list)
    _models: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.endpoint = Endpoint(self.settings)
        file = None if self.folder is None else self.folder / f"answers-{self.fingerprint()[:16]}.sqlite"
        self.cache = AnswerCache(file, ChatAnswer)

    @property
    def name(self) -> str:
        """As shown."""
        return self.settings.name

    def fingerprint(self) -> str:
        """Over address, model, prompts and request."""
        asked = [[prompt.before_label("{text}"), *prompt.phrases] for prompt in self.prompts]
        return fingerprint_of({"url": self.endpoint.url, "asked": asked, **self._settings("model")})

    def predict_proba(self, texts: Sequence[Text], *, progress: Progress | None = None, again: bool = False) -> Array:
        """See `Classifier`. Answers are kept as they come, so that a run that was cut short goes on where it stopped.

        What is asked `again` is kept apart, so that a run that goes on does not pay for that twice either.
        """
        try:
            with self.endpoint:
                samples = self._samples(texts, again, ask=True)
                self._ask_all(self._jobs(texts, samples, again), progress)
            prompts = range(len(self.prompts))
            scored = [self._scores(text, at, samples, again) for at in prompts for text in texts]
        except RunError as error:
            kept = f" What was answered is kept in '{self.cache.path}'; run again to go on." if self.cache.path else ""
            raise RunError(f"{error}{kept}") from error
        finally:
            self.cache.close()
        probs = geometric_mean(np.array(scored).reshape(len(self.prompts), len(texts), len(self.label_names)))
        if n := int(np.isnan(probs).any(axis=1).sum()):
            warnings.warn(
                f"'{self.name}' gave no answer that names a label to {n} of {counted(len(texts), 'text')}.",
                GuardrailWarning,
                stacklevel=2,
            )
        return probs

    def cost(self, texts: Sequence[Text]) -> Cost:
        """See `Classifier`. An endpoint that gives no log-probabilities takes `samples` times as many requests."""
        left = self._left(self._jobs(texts, self._samples(texts, False, ask=False), again=False))
        self.cache.close()
        sent = (self.prompts[job.prompt].before_label(job.text).encode() for job in left)
        tokens = sum(-(-len(words) // _BYTES_PER_TOKEN) for words in sent)
        each = [60.0 / self.settings.requests_per_minute] if self.settings.requests_per_minute else []
        each += [sum(self._seconds) / len(self._seconds) / self.settings.parallel] if self._seconds else []
        return Cost(len(texts), tokens, len(left), max(each) * len(left) if each else None if left else 0.0)

    def record(self) -> dict[str, Any]:
        """See `Classifier`; the address and the name of the key's variable, never the key."""
        facts = {"kind": "endpoint", "name": self.name, "fingerprint": self.fingerprint()}
        said = {**asked_with(self.prompts), "labels": self.prompts[0].shown}
        settings = self._settings("model", "url", "api_key_env")
        return {**facts, "answered_by": sorted(self._models), **said, **settings}

    def _settings(self, *more: str) -> dict[str, Any]:
        """Those on which answers depend, and some more."""
        return {name: getattr(self.settings, name) for name in (*more, "answers", "samples", "request")}

    def _jobs(self, texts: Sequence[Text], samples: Sequence[int], again: bool) -> list[_Job]:
        prompts = range(len(self.prompts))
        return [_Job(text, at, sample, again) for text in texts for at in prompts for sample in samples]

    def _samples(self, texts: Sequence[Text], again: bool, *, ask: bool) -> list[int]:
        """[-1] for log-probabilities, 0 to n - 1 for sampled answers.

        Whether log-probabilities come is seen on the first texts, about which the endpoint is asked if `ask`.
        """
        sampled = list(range(self.settings.samples))
        if self.settings.answers != "auto":
            return sampled if self.settings.answers == "samples" else [_LOG_PROBS]
        for job in [_Job(text, 0, _LOG_PROBS, again) for text in texts[:_TRIED_FOR_LOG_PROBS]]:
            if ask and self.cache.get(self._key(job)) is None:
                with suppress(RejectedError):
                    self._ask(job)
            if (answer := self.cache.get(self._key(job))) is not None:
                return [_LOG_PROBS] if answer["tokens"] else sampled
        return sampled if ask else [_LOG_PROBS]

    def _left(self, jobs: Sequence[_Job]) -> list[_Job]:
        """Those without an answer, each once."""
        return [job for key, job in {self._key(job): job for job in jobs}.items() if self.cache.get(key) is None]

    def _ask_all(self, jobs: Sequence[_Job], progress: Progress | None) -> None:
        left = self._left(jobs)
        rejected: list[str] = []
        pool = ThreadPoolExecutor(self.settings.parallel)
        try:
            waiting = {pool.submit(self._ask, job): number for number, job in enumerate(left, start=1)}
            for done, one in enumerate(as_completed(waiting), start=len(jobs) - len(left) + 1):
                try:
                    one.result()
                except RejectedError as error:
                    rejected.append(str(error))
                except StoppedError:
                    continue  # another one says why
                except RunError as error:
                    raise RunError(f"Request {waiting[one]} of {len(left)}: {error}") from error
                if progress is not None:
                    progress("Asking", done, len(jobs))
        finally:
            self.endpoint.stopped.set()  # an error or Ctrl-C waits for no other request's next try
            pool.shutdown(wait=True, cancel_futures=True)
        if rejected and len(rejected) == len(jobs):
            raise RunError(f"'{self.name}' rejects every request: {rejected[0]}.")

    def _ask(self, job: _Job) -> None:
        begun = time.perf_counter()
        try:
            answer = read_answer(self.endpoint.post(self._body(job)), self.endpoint.secret)
        except GuardrailError:
            self.endpoint.stopped.set()
            raise
        self._seconds.append(time.perf_counter() - begun)
        self._models.add(answer["model"])
        self.cache.add(self._key(job), answer)

    def _body(self, job: _Job) -> dict[str, Any]:
        words = self.prompts[job.prompt].before_label(job.text)
        logs = {"temperature": 0.0, "logprobs": True, "top_logprobs": 20}
        how = logs if job.sample == _LOG_PROBS else {"temperature": 1.0}
        own = self.settings.request
        # Newer services take another name for the limit, and refuse both.
        limit = {} if "max_completion_tokens" in own else {"max_tokens": MOST_TOKENS}
        asked = {"model": self.settings.model, "messages": [{"role": "user", "content": words}]}
        return {**asked, **how, **limit, **own}

    def _key(self, job: _Job) -> str:
        asked = {"url": self.endpoint.url, "body": self._body(job), "sample": job.sample, "again": job.again}
        return fingerprint_of(asked)

    def _scores(self, text: Text, at: int, samples: Sequence[int], again: bool) -> Array:
        """Log-probabilities by one prompt, shape (C,); NaN without an answer that names a label."""
        phrases = self.prompts[at].phrases
        kept = [self.cache.get(self._key(_Job(text, at, sample, again))) for sample in samples]
        answers = [answer for answer in kept if answer is not None]
        if samples == [_LOG_PROBS]:
            found = token_scores(answers[0]["tokens"], phrases) if answers else None
        else:
            found = sample_scores([answer["content"] for answer in answers], phrases)
        return np.full(len(phrases), np.nan) if found is None else found
