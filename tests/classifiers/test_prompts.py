import re

import pytest

from shortcut_guardrail.classifiers.prompts import Prompt, make_prompts, phrases
from shortcut_guardrail.errors import ConfigError

LABELS = ["negative", "positive"]


def test_a_prompt_stops_where_the_label_begins():
    for template, text, expected in (
        ("Text: {text}\nLabel: {label}", "fine soup", "Text: fine soup\nLabel:"),
        # Braces in a text stay what they are.
        ("{text} of {labels}: {label}", "{labels} {label} {x}", "{labels} {label} {x} of bad or good:"),
        ("{text}: {label}", ("a", "b"), "a\nSecond text: b:"),
        ("{text_pair} after {text}: {label}", ("a", "b"), "b after a:"),
    ):
        prompt = Prompt(template, ("bad", "good"))
        assert (prompt.before_label(text), prompt.after_label()) == (expected, (" bad", " good"))


def test_what_is_said_for_labels_and_before_a_text():
    assert Prompt("{text} {label}", ("toxic", "toxic insult")).after_label() == (" toxic\n", " toxic insult\n")
    (prompt,) = make_prompts(["{text} is {label}"], LABELS, {"positive": "great"}, [("soup", "positive")])
    assert prompt.before_label("bread") == "soup is great\n\nbread is"
    (prompt,) = make_prompts(["{labels}? {text} {label}"], ["0", "1", "c"], {"0": "bad", "1": "good"}, [], by_name=True)
    assert (prompt.phrases, prompt.before_label("x")) == (("0", "1", "c"), "0 (bad), 1 (good) or c? x")
    (prompt,) = make_prompts(["{text}: {label}"], ["0", "1"], {"0": "bad", "1": "good"}, [("soup", "1")], by_name=True)
    assert prompt.before_label("x") == "soup: 1\n\nx:"
    assert phrases(["not_toxic", "TOXIC", "Fine"], {}) == ("not toxic", "toxic", "Fine")
    assert phrases(["LABEL_0", "b"], {"LABEL_0": " a  bad\nreview"}) == ("a bad review", "b")


def test_what_cannot_be_asked():
    for template, labels, descriptions, examples, said in (
        ("{text} {label}", LABELS, {"postive": "good"}, [], "Did you mean 'positive'?"),
        ("{text} {label}", LABELS, {"positive": "the same", "negative": "The same"}, [], "described by the same words"),
        ("{text} {label}", ["LABEL_0", "LABEL_1"], {"LABEL_1": "good"}, [], "The label LABEL_0 says nothing"),
        ("{text} {label}", ["0", "1"], {}, [], "The label 0, 1 says nothing"),
        ("{text} {label}", LABELS, {"positive": " "}, [], "says nothing"),
        ("{text} {label}", LABELS, {}, [("soup", "neutral")], "An example has the label 'neutral'"),
        ("{txt} {label}", LABELS, {}, [], "A prompt has {txt}, but only"),
        *[("{text}", LABELS, {}, [], "end with"), ("{label} {text}", LABELS, {}, [], "end with")],
        ("is {label}", LABELS, {}, [], "must hold"),
    ):
        with pytest.raises(ConfigError, match=re.escape(said)):
            make_prompts([template], labels, descriptions, examples)
