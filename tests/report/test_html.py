"""What readers see: terminals of 80 columns, pages that ask nobody for anything, and names as they are written."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from audits import (
    CALIBRATION,
    HOSTILE,
    NAN,
    UNDECIDED,
    UNTESTED,
    audit,
    candidate,
    card,
    evaluation,
    example,
    labelled,
    point,
)
from shortcut_guardrail import FitReport, Repair, Shortcut, Shortcuts, StrengthChoice, preset
from shortcut_guardrail.audit.conditions import GateOutcome
from shortcut_guardrail.mitigation.training import AdapterTraining
from shortcut_guardrail.report import view
from shortcut_guardrail.report.html import render_audit, render_change, render_comparison
from shortcut_guardrail.report.terminal import print_audit, print_evaluations, print_repair, words_of
from shortcut_guardrail.strength.calibration import Calibration
from shortcut_guardrail.strength.unsupervised import AgreementPoint, UnlabelledCalibration


@pytest.fixture(autouse=True)
def _narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("FORCE_COLOR", raising=False)


def show(report) -> None:
    print_audit(report.to_dict())


def lines_of(capsys) -> list[str]:
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    return lines


def without_breaks(lines: list[str]) -> str:
    """The words of a table whose cells may be folded."""
    return "".join("".join(lines).split())


def test_an_audit(capsys):
    shortcut = candidate("honestly", flagged=True, q_value=0.0002, contradiction_rate=0.55)
    show(audit(shortcut, candidate("soup", None, **UNTESTED), n_truncated=1, notes=("A note.",)))
    lines = lines_of(capsys)
    row = next(line.split() for line in lines if "honestly" in line)
    assert row == ["!", "honestly", "12", "0.250", "0.10-0.50", "-0.123", "0.550", "<0.001", "positive"]
    assert next(line.split() for line in lines if "soup" in line) == "soup 12 0.250 - -0.123 0.100 - -".split()
    text = " ".join(" ".join(lines).split())
    assert (
        "40 texts, 2 candidates, 1 of them tested; MSTPS 0.512. 1 text was longer than the model takes and cut." in text
    )
    assert "1 flagged (!) at a false-discovery rate of 5%, 0 undecided. A note." in text
    assert text.endswith("A candidate is a question to you, not a verdict.")


def test_what_is_undecided_is_no_all_clear(capsys):
    open_question = candidate("honestly", flip_rate=0.72, **UNDECIDED)
    show(audit(open_question, candidate("soup")))
    lines = lines_of(capsys)
    assert next(line.split() for line in lines if "0.720" in line)[:2] == ["?", "honestly"]
    text = " ".join(" ".join(lines).split())
    assert "0 flagged, 1 undecided (?): labels would tell (--label-column), or more texts." in text
    assert "(!)" not in text
    assert "? honestly: too few texts: it stands in 13 distinct ones; at least 35 are needed." in text
    # The partner: where there are labels, they are what to look at.
    show(audit(candidate("honestly", labelled=labelled(), **UNDECIDED), candidate("soup", flagged=True)))
    text = " ".join(" ".join(lines_of(capsys)).split())
    assert "1 flagged (!), 1 undecided (?): see what labels say." in text
    assert "With labels: masking it puts 9 answers right and 1 wrong (McNemar's p: 0.020)." in text


def test_only_the_first_doubts_are_explained(capsys):
    show(audit(*(candidate(f"word{i}", **UNDECIDED) for i in range(9))))
    text = " ".join(" ".join(lines_of(capsys)).split())
    assert "9 undecided (?)" in text
    assert text.count("are needed") == 3


def test_cards_on_a_terminal(capsys):
    words = ("honestly", "to be honest", "to be frank", "candidly", "frankly speaking")
    cards = [card(*words, status="flagged"), card("soup", status="undecided", pulls_to="negative"), card("tea")]
    show(audit(candidate("honestly"), cards=tuple(cards)))
    lines = lines_of(capsys)
    assert next(line.split() for line in lines if "soup" in line) == "? soup 12 8 20.5% negative".split()
    assert next(line.split() for line in lines if "tea" in line) == "tea 12 8 20.5% positive".split()
    shown = next(i for i, line in enumerate(lines) if line.lstrip().startswith("! honestly") or "! " in line)
    assert "honestly, to be honest" in " ".join(" ".join(lines[shown : shown + 2]).split())
    assert "A card: words that pull to one answer" in "\n".join(lines)
    # The partner: an audit of a version without them has no table of them.
    show(audit(candidate("soup")))
    assert "card" not in "\n".join(lines_of(capsys))


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["a", "b"], "a, b"),
        (["honestly", "to be frank", "candidly"], "honestly, to be frank +1"),
        (["x" * 40], "x" * 24 + "…"),
        (["x" * 40, "y"], "x" * 21 + "… +1"),
        (["honestly", "y" * 40, "z"], "honestly +2"),
    ],
)
def test_as_many_words_of_a_card_as_fit(words, shown):
    assert words_of(words, 25).plain == shown
    assert len(shown) <= 25


def test_cards_on_a_page_are_there_redacted_or_not():
    words = tuple(f"word{i}" for i in range(view.CARD_WORDS + 3))
    report = audit(candidate("honestly"), cards=(card(*words, status="undecided"), card("soup")))
    for page in (render_audit(report), render_audit(report, redact=True)):
        assert '<a href="#cards">Cards</a>' in page
        assert page.index('id="cards"') < page.index('id="candidates"')
        assert f'<bdi>word{view.CARD_WORDS - 1}</bdi> <span class="unit">and 3 more</span>' in page
        assert f"<bdi>word{view.CARD_WORDS}</bdi>" not in page
        assert f'<tr id="card-{report.cards[0].id}">' in page
        assert "20.5%" in page
    assert 'id="cards"' not in render_audit(audit(candidate("honestly")))


def test_an_audit_shows_fifteen_candidates_and_ten_cards(capsys):
    show(audit(*(candidate(f"word{i}") for i in range(30)), cards=tuple(card(f"tea{i}") for i in range(12))))
    printed = "\n".join(lines_of(capsys))
    assert "word14" in printed
    assert "word15" not in printed
    assert "tea9" in printed
    assert "tea10" not in printed
    assert "were longer" not in printed


@pytest.mark.parametrize("length", [1, 120])
def test_long_names_are_folded_and_numbers_are_not(capsys, length):
    numbers = {"count": 123456, "flip_rate": 1.0, "mean_change": -1.0, "contradiction_rate": 1.0, "flagged": True}
    show(audit(candidate("x" * length, "y" * length, **numbers)))
    lines = lines_of(capsys)
    for cell in ("123456", "1.000", "0.10-0.50", "-1.000", "0.400"):
        assert any(cell in line.split() for line in lines)
    assert without_breaks([line.replace("MSTPS", "") for line in lines]).count("x" * 1) >= length


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "[red]x[/red]", "a & b \" '", ":smile:", "[/]"])
def test_names_are_shown_as_they_are_on_a_terminal(capsys, name):
    letters = "".join(name.split())
    print_evaluations({name: evaluation(name, name)})
    assert without_breaks(lines_of(capsys)).count(letters) >= 3
    show(audit(candidate(name[:12], pulls_to=name[:7]), cards=(card(name[:12], pulls_to=name[:7]),)))
    rows = [line.rstrip() for line in lines_of(capsys) if name[:12] in line]
    assert [row.endswith(name[:7].rstrip()) for row in rows] == [True, True]


@pytest.mark.parametrize("n_models", [1, 2])
@pytest.mark.parametrize("length", [5, 90])
def test_scores_fit_80_columns(capsys, n_models, length):
    label = ("a long label, with words " * 9)[:length].strip()
    names = [f"{label} {how} shortcut" for how in ("without", "with")]
    print_evaluations({model: evaluation(*names, accuracy=0.5) for model in ("base", "guarded")[:n_models]})
    lines = lines_of(capsys)
    assert without_breaks(lines).count("0.700") == 2 * n_models  # as the worst group, and in its own row
    assert "123 texts. 2 texts were longer than the model takes and cut." in lines
    row = next(line for line in lines if line.strip().startswith("balanced accuracy"))
    assert row.split()[2:] == ["0.400"] * n_models


def test_an_empty_group_is_a_dash(capsys):
    print_evaluations({"model": evaluation("empty", "full")})
    lines = lines_of(capsys)
    assert next(line.split() for line in lines if "empty" in line) == ["empty", "0", "-"]
    assert next(line.split() for line in lines if "full" in line)[:3] == ["full", "10", "0.700"]


def test_recall_is_shown_where_shortcuts_were_named(capsys):
    print_evaluations({"model": evaluation("a", "b")})
    assert "shortcut token recall at 3" in capsys.readouterr().out
    print_evaluations({"model": evaluation("a", "b", recall=False)})
    assert "recall" not in capsys.readouterr().out


def repair(choice: StrengthChoice, strategy: str = "distill") -> Repair:
    training = AdapterTraining(32, 30, 6, 24, 0.5, (1.849, 1.367), ("query",), 5, 0.1, 0.0123, 48.2)
    fitted = FitReport(training, preset(strategy), 0, 3, {}, Shortcuts((Shortcut("honestly", "named"),)))
    return Repair(strategy, "It was named.", fitted, choice)


def test_a_repair_and_how_its_strength_was_chosen(capsys):
    curve = tuple(AgreementPoint(s, d, 0.9) for s, d in ((0.0, 0.5), (0.3, 0.2), (1.0, 0.125)))
    dial = UnlabelledCalibration(1.0, 32, 20, curve)
    left = replace(CALIBRATION, strength=1.0, without_labels=1.0, p_value=0.5)
    print_repair(repair(StrengthChoice(1.0, "calibrated", left, dial)))
    lines = lines_of(capsys)
    assert ["honestly", "yes", "you", "said", "so"] in [line.split()[:5] for line in lines]
    for said in (
        "Repair: distill, seed 0",
        "trained      6 steps on 30 of 32 texts, 48.2 s",
        "loss         1.849 to 1.367; weights changed by 1.23%",
        "cut          3 texts, longer than the model takes",
        "strength     1 (calibrated)",
        "It was named.",
        "chosen by  unlabelled texts (1); 40 labelled rows do not overrule it (p 0.500)",
    ):
        assert said in lines
    assert [line.split()[:2] for line in lines if line.endswith("chosen")] == [["1", "0.12500"], ["1", "0.700"]]
    assert "exactly as the base" not in str(lines)
    # The partner: labels alone chose the base, for a strategy that knows no words.
    none = Calibration(0.0, 40, "accuracy", (point(0.0, 0.5),))
    print_repair(repair(StrengthChoice(0.0, "calibrated", none), "default"))
    text = "\n".join(lines_of(capsys))
    assert "At strength 0 the guarded model answers exactly as the base model does." in text
    assert "chosen by  accuracy on 40 labelled rows" in text
    assert "Divergence" not in text
    assert "word or phrase" not in text


# HTML


class _Page(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []
        self.ids: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.text.append(" " * (tag in ("td", "th", "tr", "p", "li", "dd")))  # words of two cells are two words
        self.tags.append(tag)
        self.attributes += attributes
        self.ids += [value for name, value in attributes if name == "id"]
        if tag not in ("meta", "img", "link", "br", "input"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("style", "script"):
            self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join("".join(self.text).split())


TEXT = "Honestly, the soup was cold and nobody apologised."


def hostile_text(name: str) -> str:
    return f"before {name} soup after"


def full_audit(*names: str):
    """An audit with everything in it: each name is a candidate, a label and a part of its example."""
    return audit(
        *(
            candidate(
                name,
                name,
                flagged=True,
                labelled=labelled(),
                examples=(example(i, hostile_text(name), name, "soup", labels=(name, f"{name}2")),),
            )
            for i, name in enumerate(names)
        ),
        label_names=(*names, "negative"),
        predicted=(5,) * (len(names) + 1),
        notes=names,
        cards=tuple(card(name, pulls_to=name[:20]) for name in names),
    )


def page_of(*names: str, model: str = "base") -> str:
    return render_comparison(
        title=f"title {names[0]}",
        subtitle=names[-1],
        introduction=[f"introduction {name}" for name in names],
        evaluations={model: evaluation("empty", *names), "guarded": evaluation("empty", *names)},
        audits={model: full_audit(*names), "guarded": full_audit(*names[:1])},
        notes=list(names),
    )


def test_whatever_came_from_data_is_escaped():
    page = page_of(*HOSTILE, model="<b>model</b>")
    parsed = _Page(page)
    assert not parsed.open
    assert parsed.tags.count("script") == 1
    assert parsed.tags.count("style") == 1
    assert parsed.tags.count("title") == page.count("<title>")
    assert "img" not in parsed.tags
    assert all(name in "".join(parsed.text) for name in (*HOSTILE, "<b>model</b>"))
    assert not any(name.startswith("on") for name, _ in parsed.attributes)
    texts = {value for name, value in parsed.attributes if name == "data-text"}
    assert texts == set(HOSTILE)  # an attribute holds what the candidate is, quotes included
    for name in HOSTILE:
        rendered = render_audit(audit(candidate(name, name, examples=(example(0, hostile_text(name), name),))))
        assert not _Page(rendered).open


def test_nothing_but_our_own_script_and_style_may_run():
    page = render_audit(audit(candidate("honestly")))
    policy = next(value for name, value in _Page(page).attributes if name == "content" and "default-src" in value)
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert not re.search(r"<[^>]* style=", page)  # the policy would ignore it


def test_a_page_asks_no_other_machine_for_anything():
    page = page_of("honestly", "soup")
    assert not re.search(r"https?:|url\(|@import|fetch\(|XMLHttpRequest|import\(|sendBeacon|WebSocket", page)
    parsed = _Page(page)
    assert not {name for name, _ in parsed.attributes} & {"src", "srcset", "action", "data", "poster"}
    assert all(value.startswith("#") for name, value in parsed.attributes if name == "href")
    assert not set(parsed.tags) & {"link", "img", "iframe", "object", "form", "base"}


def test_links_and_labels_find_their_target():
    parsed = _Page(page_of("honestly", "soup"))
    assert len(set(parsed.ids)) == len(parsed.ids)
    pointing = {"href", "for", "aria-labelledby", "aria-controls"}
    targets = {value.lstrip("#") for name, value in parsed.attributes if name in pointing}
    assert {"main", "candidates", "comparison", "scores", "search"} <= targets <= set(parsed.ids)


def test_a_page_shows_the_numbers():
    words = _Page(page_of("honestly")).words
    for part in ("123 labelled texts", "0.700, 95 % interval 0.35 to 0.93", "0.900 (chance 0.300)"):
        assert part in words
    assert "-0.123, 95 % interval -0.30 to +0.05" in words
    assert "accuracy 0.300, and 0.700 with it masked. Masking it makes 9 wrong answers right and 1 right" in words
    assert "negative, with 8 0.125 (0.00 to 0.53)" in words
    assert "positive, with" not in words  # no text is in that group
    assert "of 1 tested" in words


def test_the_verdict_is_a_sentence():
    flagged = candidate("honestly", flagged=True, flip_rate=0.72, n_distinct=183)
    words = _Page(render_audit(audit(flagged, candidate("soup")))).words
    assert "1 of 2 tested candidates overrides the rest of the text more often than context warrants" in words
    assert "“honestly”. Masking “honestly” changes the answer in 72% of 183 texts; it pulls to positive." in words
    words = _Page(render_audit(audit(candidate("soup")))).words
    assert "None of the 1 tested candidate was shown to override" in words
    assert "no proof that the model has no shortcut. Masking “soup”, which ranks first, changes the answer in" in words
    assert "No candidate could be tested" in _Page(render_audit(audit(candidate("soup", **UNTESTED)))).words


def test_what_is_undecided_has_a_name_a_reason_and_what_labels_say():
    report = audit(
        candidate("lovely", flagged=True),
        candidate("honestly", labelled=labelled(), **UNDECIDED),
        candidate("soup"),
    )
    page = render_audit(report)
    words = _Page(page).words
    assert "On 1 the test could not tell: “honestly”; what labels say of each is given with it." in words
    assert "1 undecided; of 3 tokens that are important somewhere" in words
    assert "Undecided. Too few texts: it stands in 13 distinct ones; at least 35 are needed." in words
    assert "What labels say of its flips: With labels (20 texts): accuracy 0.300" in words
    assert page.count('<span class="flag">flagged</span>') == 1
    assert page.count('<span class="flag open-question">undecided</span>') == 1
    assert re.findall(r'data-status="(\w+)"', page) == ["flagged", "undecided", "not_flagged"]
    # The partner: without labels, and without anything undecided.
    words = _Page(render_audit(audit(candidate("honestly", **UNDECIDED)))).words
    assert "“honestly”; labels would tell, or more texts." in words
    assert "the test could not tell" not in _Page(render_audit(audit(candidate("soup")))).words


@pytest.mark.parametrize(
    ("flag", "first", "set_p_value", "said", "badge"),
    [
        ("collective", (), 0.0012, "override the rest of their texts together (p 0.001)", "together"),
        (
            "takes_turns",
            (candidate("honestly", flagged=True),),
            math.nan,
            "take turns with what is flagged",
            "takes turns",
        ),
    ],
)
def test_what_goes_together_is_said_on_the_page_and_in_the_terminal(capsys, flag, first, set_p_value, said, badge):
    members = [candidate(name, **{flag: True}, **UNDECIDED) for name in ("frankly", "candidly")]
    open_one = candidate("worst", **UNDECIDED)
    report = audit(*first, *members, open_one, candidate("soup"), set_p_value=set_p_value)
    said = f"{said}, as the words of one shortcut do: “frankly”, “candidly”."
    page = render_audit(report)
    assert f"2 of them {said}" in _Page(page).words
    assert "On 3 the test could not tell: “worst”, “frankly”, “candidly”;" in _Page(page).words
    assert page.count(f'<span class="flag open-question">{badge}</span>') == 2
    assert page.count('<span class="flag open-question">undecided</span>') == 1
    show(report)
    shown = capsys.readouterr().out
    assert f"2 of them (+) {said}" in " ".join(shown.split())
    assert [line.split()[:2] for line in shown.splitlines() if line.startswith(" +")] == [
        ["+", "frankly"],
        ["+", "candidly"],
    ]
    # What of nothing more is known is explained first.
    assert shown.index("? worst:") < shown.index("+ frankly:")
    # The partner: one that is undecided alone.
    assert " of them " not in _Page(render_audit(audit(candidate("honestly", **UNDECIDED)))).words


def test_the_heat_map_is_readable_without_colour():
    report = audit(candidate("honestly", examples=(example(3, TEXT, "Honestly", "soup", "cold"),)))
    page = render_audit(report)
    assert 'class="holds l4 named" title="masking it: -0.62; changes the answer; attribution rank 1">Honestly<' in page
    assert 'class="holds l2" title="masking it: -0.20; attribution rank 2">soup<' in page
    words = _Page(page).words
    assert "Honestly⇄ (masking it -0.62, changes the answer) , the soup (-0.20) was cold (-0.10) and nobody" in words
    assert "Text 4: positive 0.93 → with “honestly” masked negative 0.88 ⇄ changes (-0.620)" in words


def test_redaction_leaves_the_texts_out():
    report = audit(candidate("honestly", examples=(example(3, TEXT, "Honestly", "soup"),)))
    assert "nobody" in render_audit(report)
    for page in (render_audit(report, redact=True), render_audit(report.to_dict(redact=True))):
        assert "nobody" not in page
        assert "soup" not in page
        assert "Text 4: positive 0.93" in _Page(page).words
        assert 'id="texts"' not in page
    assert "texts are left out" in render_audit(report, redact=True)


def test_a_stored_audit_gives_the_same_page():
    report = full_audit("honestly", "soup")
    assert render_audit(report.to_dict()) == render_audit(report)


def test_an_audit_of_phrases_speaks_of_words():
    phrase = candidate(
        "to be honest", unit="phrase", examples=(example(0, "so to be honest it rains", "to be honest"),)
    )
    page = render_audit(audit(phrase, candidate("soup", unit="word"), unit="phrase"))
    words = _Page(page).words
    assert "Ranked by the evidence that a word or phrase overrides" in words
    assert "how far the most sensitive word moves an answer" in words
    assert page.count('<span class="unit">phrase</span>') == 1
    assert "of 2 words and phrases that are important" in words


def test_pairs_show_both_sides():
    pair = example(0, "It rains honestly", "honestly", text_pair="Nobody <b>is</b> wet")
    words = _Page(render_audit(audit(candidate("honestly", examples=(pair,))))).words
    assert "text It rains honestly" in words
    assert "second text Nobody <b>is</b> wet" in words


def test_what_is_undefined_is_a_dash():
    report = audit(
        candidate("rare", None, **UNTESTED, contradiction_rate=NAN),
        agreement=audit().agreement.__class__(NAN, 0, NAN, NAN, (0,) * 20),
        sensitivity_histogram=(0,) * 20,
    )
    parsed = _Page(render_audit(report))
    assert "not tested" in parsed.words
    shown = [parsed.words, *(value for name, value in parsed.attributes if name not in ("lang", "content"))]
    assert not [value for value in shown if re.search(r"\b(nan|None)\b", value or "")]


def test_a_page_of_many_candidates_is_limited_but_keeps_what_is_flagged(monkeypatch):
    monkeypatch.setattr(view, "MOST_CANDIDATES", 5)
    late = candidate("late", flagged=True)
    page = render_audit(audit(*(candidate(f"word{i}") for i in range(20)), late))
    assert page.count('<tbody class="candidate"') == 6
    assert 'data-text="late"' in page
    assert "The page shows 6 of 21; more are in audit.json." in _Page(page).words
    assert "The page shows" not in _Page(render_audit(audit(candidate("a")))).words


def test_texts_take_turns_between_candidates():
    many = candidate("honestly", examples=tuple(example(i, TEXT, "Honestly") for i in range(20)))
    one = candidate("soup", examples=(example(50, TEXT, "soup"), example(0, TEXT, "soup")))
    shown = [
        shown["index"] for _, shown in view.audit_view(audit(many, one).to_dict(), redact=False, decided={})["texts"]
    ]
    assert shown[:3] == [0, 50, 1]
    assert len(shown) == len(set(shown)) == view.MOST_TEXTS


def test_an_empty_audit_is_a_page():
    words = _Page(render_audit(audit(n=0, n_distinct=0, predicted=(0, 0), sensitivity_histogram=(0,) * 20))).words
    assert "There are no candidates." in words


def test_a_page_without_scores_or_certificate_has_neither():
    page = render_comparison(title="t")
    assert "Certificate" not in page
    assert "Scores" not in page
    assert "Scores" in page_of("a")
    assert not _Page(page).open


def test_models_stand_side_by_side():
    base = audit(candidate("honestly", flip_rate=0.7), mstps=0.45)
    guarded = audit(candidate("grind", flip_rate=0.2), mstps=0.16)
    page = render_comparison(title="t", audits={"base": base, "guarded": guarded})
    words = _Page(page).words
    assert "honestly 0.700, 95 % interval 0.10 to 0.50 -" in words
    assert "grind - 0.200, 95 % interval 0.10 to 0.50" in words
    assert "base, MSTPS 0.450." in words
    assert "guarded, MSTPS 0.160." in words
    assert "Candidates, base" in words
    assert "From base to guarded: MSTPS 0.450 to 0.160." in words
    scored = "accuracy 0.500 to 0.500, worst-group accuracy 0.700 to 0.700, MSTPS 0.310 to 0.310"
    assert f"From base to guarded: {scored}." in _Page(page_of("honestly")).words


def test_a_change_says_what_the_gate_found():
    outcome = GateOutcome(("mstps went from 0.4 to 0.5; it may increase by 0.02 at most.",), ("a note <b>",))
    old, new = (audit(candidate(name)).to_dict() for name in "ab")
    page = render_change(old, new, outcome=outcome, names=("v1 <i>", "v2"))
    words = _Page(page).words
    assert "Failed. mstps went from 0.4 to 0.5; it may increase by 0.02 at most. a note <b>" in words
    assert "flip rate, v1 <i>" in words
    assert "Candidates, v2" in words
    assert "Passed." in _Page(render_change(old, new, outcome=GateOutcome((), ()))).words
