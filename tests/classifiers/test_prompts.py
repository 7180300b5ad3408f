from __future__ import annotations

import pytest

from shortcut_guardrail.classifiers.prompts import Prompt, make_prompts, phrases
from shortcut_guardrail.errors import ConfigError

LABELS = ["negative", "positive"]


def test_a_prompt_stops_where_the_label_begins():
    prompt = Prompt("Text: {text}\nLabel: {label}", ("bad", "good"))
    assert prompt.before_label("fine soup") == "Text: fine soup\nLabel:"
    assert prompt.after_label() == (" bad", " good")


def test_braces_in_a_text_stay_what_they_are():
    prompt = Prompt("{text} of {labels}: {label}", ("bad", "good"))
    assert prompt.before_label("{labels} {label} {x}") == "{labels} {label} {x} of bad or good:"


def test_examples_come_first():
    (prompt,) = make_prompts(["{text} is {label}"], LABELS, {"positive": "great"}, [("soup", "positive")])
    assert prompt.before_label("bread") == "soup is great\n\nbread is"


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{text}: {label}", "a\nSecond text: b:"),
        ("{text_pair} after {text}: {label}", "b after a:"),
    ],
)
def test_pairs(template, expected):
    assert Prompt(template, ("x", "y")).before_label(("a", "b")) == expected


def test_a_label_that_begins_another_is_closed():
    assert Prompt("{text} {label}", ("toxic", "toxic insult")).after_label() == (" toxic\n", " toxic insult\n")
    assert Prompt("{text} {label}", ("toxic", "insult")).after_label() == (" toxic", " insult")


def test_by_name_the_description_stands_in_the_list():
    (prompt,) = make_prompts(["{labels}? {text} {label}"], ["0", "1"], {"0": "bad", "1": "good"}, [], by_name=True)
    assert prompt.phrases == ("0", "1")
    assert prompt.before_label("x") == "0 (bad) or 1 (good)? x"


def test_what_is_said_for_a_label():
    assert phrases(["not_toxic", "TOXIC"], {}) == ("not toxic", "toxic")
    assert phrases(["LABEL_0", "b"], {"LABEL_0": " a  bad\nreview"}) == ("a bad review", "b")


@pytest.mark.parametrize(
    ("labels", "descriptions", "said"),
    [
        (LABELS, {"postive": "good"}, "Did you mean 'positive'?"),
        (LABELS, {"positive": "the same", "negative": "The same"}, "described by the same words"),
        (["LABEL_0", "LABEL_1"], {"LABEL_1": "good"}, "The label LABEL_0 says nothing"),
        (["0", "1"], {}, "The label 0, 1 says nothing"),
        (LABELS, {"positive": " "}, "says nothing"),
    ],
)
def test_labels_that_cannot_be_said(labels, descriptions, said):
    with pytest.raises(ConfigError, match=said.replace("?", r"\?")):
        phrases(labels, descriptions)


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{txt} {label}", "A prompt has {txt}, but only"),
        ("{text}", "end with"),
        ("{label} {text}", "end with"),
        ("is {label}", "must hold"),
    ],
)
def test_templates_that_cannot_be_asked(template, said):
    with pytest.raises(ConfigError, match=said):
        Prompt(template, ("a", "b"))


def test_an_example_of_another_label():
    with pytest.raises(ConfigError, match="An example has the label 'neutral'"):
        make_prompts(["{text} {label}"], LABELS, {}, [("soup", "neutral")])
