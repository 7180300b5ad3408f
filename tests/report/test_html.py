"""What readers see: terminals of 80 columns, pages that ask nobody for anything, and names as they are written."""

import re
from html.parser import HTMLParser

import pytest

import audits as made
from audits import HOSTILE, NAN, UNTESTED, audit, candidate, card, evaluation, example
from shortcut_guardrail.audit import Agreement
from shortcut_guardrail.cards import Flip
from shortcut_guardrail.cards.card import Moved
from shortcut_guardrail.report import render_audit, render_comparison, view
from shortcut_guardrail.report.terminal import print_audit, print_evaluations


@pytest.fixture
def printed(monkeypatch, capsys):
    """Prints an audit, or something else, on 80 columns; its lines, each of which has to fit, and its words in one."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("FORCE_COLOR", raising=False)

    def call(result, show=lambda report: print_audit(report.to_dict())):
        show(result)
        lines = capsys.readouterr().out.splitlines()
        # A command stays on one line, so that it can be pasted.
        assert max(len(line) for line in lines if not line.startswith("  shortcut-guardrail ")) <= 80
        return lines, " ".join(" ".join(lines).split())

    return call


def test_a_page_with_function_words_alone_on_its_cards_asks_nothing():
    for word, asks in (("the", False), ("soup", True)):
        flip = Flip.of(0, "positive", "negative", f"{word} was warm")
        cards = (card(word, status="undecided", flips=(flip,), moved=(Moved("positive", "negative", 8),)),)
        report = audit(candidate(word), cards=cards, model="m" * 64, data="d" * 64)
        assert ('id="deck"' in render_audit(report)) == asks
        assert 'id="deck"' not in render_comparison({"one": report, "other": report}, title="Two")


def test_long_names_are_folded_and_numbers_are_not(printed):
    numbers = {"count": 123456, "flip_rate": 1.0, "mean_change": -1.0, "override_rate": 1.0, "flagged": True}
    for length in (1, 120):
        lines, text = printed(audit(candidate("x" * length, "y" * length, **numbers)))
        assert {"123456", "1.000", "0.10-0.50", "0.400"} <= {cell for line in lines for cell in line.split()}
        assert text.count("x") >= length


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", *HOSTILE[1:5]])
def test_names_are_shown_as_they_are_on_a_terminal(printed, name):
    text = printed({name: evaluation(name, name)}, print_evaluations)[1]
    assert "".join(text.split()).count("".join(name.split())) >= 3
    report = audit(candidate(name[:12], pushes_towards=name[:7]), cards=(card(name[:12], pushes_towards=name[:7]),))
    rows = [line.rstrip() for line in printed(report)[0] if name[:12] in line][:2]
    assert [row.endswith(name[:7].rstrip()) for row in rows] == [True, True]


class _Page(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags, self.open, self.text = [], [], []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.text.append(" " * (tag in ("td", "th", "tr", "p", "li", "dd")))  # words of two cells are two words
        self.handle_startendtag(tag, attributes)
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


def words_in(page: str) -> str:
    return " ".join("".join(_Page(page).text).split())


def words_of_audit(*candidates, **values) -> str:
    return words_in(render_audit(audit(*candidates, **values)))


TEXT = "Honestly, the soup was cold and nobody apologised."


def full_audit(*names: str):
    """An audit with everything in it: each name is a candidate, a label and a part of its example."""
    words = []
    for i, name in enumerate(names):
        shown = (example(i, f"before {name} soup after", name, "soup", labels=(name, f"{name}2")),)
        words.append(candidate(name, name, flagged=True, labelled=made.labelled(), examples=shown))
    return audit(
        *words,
        label_names=(*names, "negative"),
        predicted=(5,) * (len(names) + 1),
        notes=names,
        cards=tuple(card(name, pushes_towards=name[:20]) for name in names),
    )


def page_of(*names: str, model: str = "base") -> str:
    return render_comparison(
        title=f"title {names[0]}",
        subtitle=names[-1],
        introduction=[f"introduction {name}" for name in names],
        evaluations=dict.fromkeys((model, "guarded"), evaluation("empty", *names)),
        audits={model: full_audit(*names), "guarded": full_audit(*names[:1])},
        notes=list(names),
    )


def test_whatever_came_from_data_is_escaped():
    page = page_of(*HOSTILE, model="<b>model</b>")
    parsed = _Page(page)
    assert not parsed.open
    counts = [parsed.tags.count(tag) for tag in ("script", "style", "img", "title")]
    assert counts == [1, 1, 0, page.count("<title>")]
    assert all(name in "".join(parsed.text) for name in (*HOSTILE, "<b>model</b>"))
    assert not any(name.startswith("on") for name, _ in parsed.attributes)
    # An attribute holds what the candidate is, quotes included.
    assert {value for name, value in parsed.attributes if name == "data-text"} == set(HOSTILE)
    for name in HOSTILE:
        assert not _Page(render_audit(full_audit(name))).open


def test_a_page_runs_nothing_but_our_own_and_asks_no_other_machine_for_anything():
    page = page_of("honestly", "soup")
    parsed = _Page(page)
    policy = next(value for name, value in parsed.attributes if name == "content" and "default-src" in value)
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert not re.search(r"<[^>]* style=", page)  # the policy would ignore it
    assert not re.search(r"https?:|url\(|@import|fetch\(|XMLHttpRequest|import\(|sendBeacon|WebSocket", page)
    assert not {name for name, _ in parsed.attributes} & {"src", "srcset", "action", "data", "poster"}
    assert all(value.startswith("#") for name, value in parsed.attributes if name == "href")
    assert not set(parsed.tags) & {"link", "img", "iframe", "object", "form", "base"}
    # Links and labels find their target.
    ids = [value for name, value in parsed.attributes if name == "id"]
    assert len(set(ids)) == len(ids)
    pointing = {"href", "for", "aria-labelledby", "aria-controls"}
    targets = {value.lstrip("#") for name, value in parsed.attributes if name in pointing}
    assert {"main", "candidates", "comparison", "scores", "search"} <= targets <= set(ids)


def test_the_page_begins_with_the_finding_an_example_and_what_to_do():
    flip = Flip.of(0, "positive", "negative", "honestly, the <b>soup</b> was cold")
    flagged = card("honestly", status="flagged", flagged=("honestly",), flips=(flip,))
    document = audit(candidate("honestly", flagged=True), cards=(flagged, card(".")), model="m", data="d").to_dict()
    document["about"] = {"model": "models/<b>", "data": "texts.csv", "date": "2026-11-26"}
    page = render_audit(document)
    summary, _ = page[page.index('id="summary"') :].split("<details><summary>Statistics")
    words = words_in(summary)
    parts = ["'models/<b>' was audited", "“honestly” decides 8 of 39 predictions.", "honestly, the <b>soup</b> was"]
    parts += ["Prediction: positive", "____, the", "With the words masked: negative", "What to do next"]
    places = [words.index(part) for part in (*parts, "review audit", "--decisions audit/decisions.json")]
    assert places == sorted(places)
    assert not re.search(r"MSTPS|false-discovery", words)
    assert page.count('<tr id="card-') == 1  # and none of punctuation
    assert "____" not in render_audit(document, redact=True)


def test_the_headline_says_that_a_word_decides_only_where_the_audit_flags_it():
    document = audit(candidate("honestly"), cards=(card("honestly", status="undecided"),)).to_dict()
    words = words_in(render_audit(document))
    assert "Masking “honestly” changes 8 of 39 predictions. The texts do not settle whether" in words
    assert "“honestly” decides" not in words


def test_the_heat_map_is_readable_without_colour():
    page = render_audit(audit(candidate("honestly", examples=(example(3, TEXT, "Honestly", "soup", "cold"),))))
    title = "masking it: -0.62; changes the prediction; attribution rank 1"
    assert f'class="holds l4 named" title="{title}">Honestly<' in page
    assert 'class="holds l2" title="masking it: -0.20; attribution rank 2">soup<' in page
    words = words_in(page)
    rest = ", the soup (-0.20) was cold (-0.10) and nobody"
    assert f"Honestly⇄ (masking it -0.62, changes the prediction) {rest}" in words
    assert "Text 4: positive 0.93 → with “honestly” masked negative 0.88 ⇄ changes (-0.620)" in words


def test_redaction_leaves_the_texts_out():
    shown = (candidate("honestly", examples=(example(3, TEXT, "Honestly", "soup"),)),)
    report = made.to_review(1, candidates=shown)
    assert "nobody" in render_audit(report) == render_audit(report.to_dict())
    assert "clouds" in render_audit(report)  # in texts of the card
    for page in (render_audit(report, redact=True), render_audit(report.to_dict(redact=True))):
        assert not re.search('nobody|soup|clouds|id="texts"', page)
        assert "Text 4: positive 0.93" in words_in(page)
    assert "texts are left out" in render_audit(report, redact=True)


def test_what_is_undefined_is_a_dash():
    undefined = {"agreement": Agreement(NAN, 0, NAN, NAN, (0,) * 20), "sensitivity_histogram": (0,) * 20}
    rare = candidate("rare", None, **UNTESTED, override_rate=NAN)
    page = render_audit(audit(rare, **undefined))
    assert "not tested" in words_in(page)
    shown = [value for name, value in _Page(page).attributes if name not in ("lang", "content")]
    assert not [value for value in (words_in(page), *shown) if re.search(r"\b(nan|None)\b", value or "")]
    empty = words_of_audit(n=0, n_distinct=0, predicted=(0, 0), sensitivity_histogram=(0,) * 20)
    assert "There are no candidates." in empty


def test_a_page_of_many_candidates_is_limited_but_keeps_what_is_flagged(monkeypatch):
    monkeypatch.setattr(view, "MOST_CANDIDATES", 5)
    page = render_audit(audit(*(candidate(f"word{i}") for i in range(20)), candidate("late", flagged=True)))
    assert (page.count('<tbody class="candidate"'), 'data-text="late"' in page) == (6, True)
    assert "The page lists 6 of 21 candidates; more are in audit.json." in words_in(page)
    assert "The page lists" not in words_of_audit(candidate("a"))


def test_bars_have_their_places_and_ticks_are_no_two_of_one_number():
    assert view.meter(0.0, signed=True) == {"x": 48.0, "width": 0.0, "below": False, "whisker": None}
    below = {"x": 24.0, "width": 24.0, "below": True, "whisker": (0.0, 60.0)}
    assert view.meter(-0.5, (-2.0, 0.25), signed=True) == below
    shared, alone = (view.histogram([0, 1], low=0, high=1, most=most) for most in (4, None))
    assert [(label, at) for at, label in shared["y_ticks"]] == [("0", 176.0), ("2", 101.0), ("4", 26.0)]
    assert [(label, at) for at, label in alone["y_ticks"]] == [("0", 176.0), ("1", 26.0)]
    assert [bar["height"] for bar in shared["bars"]] == [0.0, 37.5]
    assert [label for _, label in alone["x_ticks"]] == ["0", "0.25", "0.5", "0.75", "1"]


def test_models_side_by_side_share_axes_and_the_first_of_equal_names_is_compared():
    words = [candidate("x", flip_rate=0.5), candidate("x", flip_rate=0.1), *(candidate(f"w{i}") for i in range(11))]
    one, other = audit(*words, candidate("late", flagged=True)), audit(candidate("x", flip_rate=0.2), mstps=0.1)
    documents = {"one": one.to_dict(), "other": {**other.to_dict(), "sensitivity_histogram": [30] + [0] * 19}}
    rows = {
        row["name"]: [rate and rate["value"] for rate in row["rates"]] for row in view.compared_candidates(documents)
    }
    assert list(rows) == ["x", *(f"w{i}" for i in range(10)), "late"]
    assert (rows["x"], rows["late"]) == ([0.5, 0.2], [0.25, None])
    assert [shown["chart"]["y_ticks"][-1][1] for shown in view.distributions(documents)] == ["30", "30"]
    scores = {name: evaluation("g", accuracy=x).to_dict() for name, x in (("one", 0.5), ("b", 0.1), ("other", 0.8))}
    assert view.comparison_lead(scores, documents) == (
        "From one to other: accuracy 0.500 to 0.800, worst-group accuracy - to -, MSTPS 0.310 to 0.310."
    )
    pair = example(0, "a soup", "soup", text_pair="the soup", segment=1, start=4, end=8)
    (shown,) = audit(candidate("soup", examples=(pair,))).to_dict()["candidates"][0]["examples"]
    sides = [(side["name"], [p.text for p in side["pieces"] if p.named]) for side in view._sides(shown)]
    assert sides == [("text", []), ("second text", ["soup"])]
