"""How a text and the labels are put to a language model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..data import NAMELESS, did_you_mean, enumerated
from ..errors import ConfigError
from ..typing import Text

_FIELD = re.compile(r"\{(\w*)\}")


def phrases(labels: Sequence[str], descriptions: Mapping[str, str]) -> tuple[str, ...]:
    """What is said in place of each label: its description, or its name with spaces for underscores."""
    for name in descriptions:
        if name not in labels:
            raise ConfigError(
                f"A description is given for '{name}', but the model's labels are {enumerated(list(labels))}."
                + did_you_mean(name, labels)
            )
    said = tuple(" ".join(descriptions.get(label, _spoken(label)).split()) for label in labels)
    if blank := [label for label, phrase in zip(labels, said, strict=True) if NAMELESS.fullmatch(phrase)]:
        raise ConfigError(
            f"The label {enumerated(blank)} says nothing to a language model. Name the classes with label_names=, "
            f'or describe each label in a few words, with descriptions=, such as {blank[0]}="a good review".'
        )
    if len({phrase.casefold() for phrase in said}) < len(said):
        raise ConfigError(f"Two labels are described by the same words: {enumerated(list(said))}.")
    return said


def _spoken(label: str) -> str:
    words = label.replace("_", " ")
    return words.lower() if words.isupper() else words


@dataclass(frozen=True)
class Prompt:
    """One way to ask about a text."""

    # the words, with `{text}`, for pairs also `{text_pair}`, for all labels' phrases `{labels}`, and `{label}` last
    template: str
    phrases: tuple[str, ...]  # what is said in place of each label
    examples: tuple[tuple[Text, str], ...] = ()  # texts with the phrase that is right for each
    shown: str = ""  # what `{labels}` becomes; by default the phrases

    def __post_init__(self) -> None:
        fields = _FIELD.findall(self.template)
        if unknown := sorted(set(fields) - {"text", "text_pair", "labels", "label"}):
            raise ConfigError(
                f"A prompt has {{{unknown[0]}}}, but only {{text}}, {{text_pair}}, {{labels}}, {{label}}."
            )
        if "text" not in fields or fields[-1:] != ["label"] or not self.template.endswith("{label}"):
            raise ConfigError(f"A prompt must hold {{text}} and end with {{label}}, but is {self.template!r}.")

    def before_label(self, text: Text) -> str:
        """All that comes before the label, without a space at its end: tokenizers put that to the word after it."""
        examples = "".join(self._filled(text, phrase) + "\n\n" for text, phrase in self.examples)
        return examples + self._filled(text, "").rstrip()

    def after_label(self) -> tuple[str, ...]:
        """The phrases as they go on from `before_label`; closed by a line's end where one begins with another."""
        before = self.template.removesuffix("{label}")
        space = before[len(before.rstrip()) :]
        nested = any(a != b and b.startswith(a) for a in self.phrases for b in self.phrases)
        return tuple(space + phrase + ("\n" if nested else "") for phrase in self.phrases)

    def _filled(self, text: Text, label: str) -> str:
        first, second = (text, "") if isinstance(text, str) else text
        if second and "{text_pair}" not in self.template:
            first = f"{first}\nSecond text: {second}"
        values = {"text": first, "text_pair": second, "labels": self.shown or _listed(self.phrases), "label": label}
        # In one pass over the template, so that braces in a text stay what they are.
        return _FIELD.sub(lambda found: values[found[1]], self.template)


def _listed(names: Sequence[str]) -> str:
    """ "a, b or c"."""
    return f"{', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else "".join(names)


def make_prompts(
    templates: Sequence[str],
    labels: Sequence[str],
    descriptions: Mapping[str, str],
    examples: Sequence[tuple[Text, str]],
    *,
    by_name: bool = False,
) -> tuple[Prompt, ...]:
    """One prompt a template.

    With `by_name` a label's name is the answer, and its description stands beside it in the list of labels.
    """
    said = phrases(labels, descriptions)
    answers = tuple(map(_spoken, labels)) if by_name else said
    answer_of = dict(zip(labels, answers, strict=True))
    for _, label in examples:
        if label not in answer_of:
            raise ConfigError(f"An example has the label '{label}', but the model's are {enumerated(list(labels))}.")
    shown = _listed([f"{a} ({b})" if a != b else a for a, b in zip(answers, said, strict=True)])
    right = tuple((text, answer_of[label]) for text, label in examples)
    return tuple(Prompt(template, answers, right, shown) for template in templates)


def asked_with(prompts: Sequence[Prompt]) -> dict[str, Any]:
    """What prompts say, for a record; they have the same phrases and examples."""
    templates, first = [prompt.template for prompt in prompts], prompts[0]
    return {"prompts": templates, "phrases": list(first.phrases), "examples": [list(one) for one in first.examples]}
