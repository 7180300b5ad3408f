"""What readers see: terminals of 80 columns, pages that ask nobody for anything, and names as they are written."""

import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

import audits as made
from audits import CALIBRATION, HOSTILE, NAN, TOO_FEW, UNDECIDED, UNTESTED, audit, candidate, card, evaluation, example
from shortcut_guardrail import Calibration, FitReport, Repair, Shortcut, Shortcuts, StrengthChoice, preset
from shortcut_guardrail.audit import Agreement, Erasures, GateOutcome
from shortcut_guardrail.audit.insertions import Insertion, Insertions
from shortcut_guardrail.cards import Flip
from shortcut_guardrail.cards.card import Moved
from shortcut_guardrail.mitigation.changes import Change, Changes
from shortcut_guardrail.mitigation.training import AdapterTraining
from shortcut_guardrail.report import render_audit, render_comparison, view
from shortcut_guardrail.report.insertions import LEGEND
from shortcut_guardrail.report.labels import SHOWN_OF_A_LABEL, label_rows, print_labels, render_labels
from shortcut_guardrail.report.terminal import print_audit, print_certificate, print_evaluations, print_repair, words_of
from shortcut_guardrail.strength.certificate import Certificate, CertifiedStrength
from shortcut_guardrail.strength.unsupervised import AgreementPoint, UnlabelledCalibration


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


def row_of(lines: list[str], word: str) -> list[str]:
    return next(line.split() for line in lines if word in line)


def test_an_audit_and_its_first_two_notes(printed):
    shortcut = candidate("honestly", flagged=True, q_value=0.0002, override_rate=0.55)
    lines, text = printed(audit(shortcut, candidate("soup", None, **UNTESTED), n_truncated=1, notes=("A note.",)))
    assert row_of(lines, "honestly") == "! honestly 12 0.250 0.10-0.50 - 0.550 <0.001 positive".split()
    assert row_of(lines, "soup") == "soup 12 0.250 - - 0.100 - -".split()
    assert "40 texts, 2 candidates, 1 of them tested. MSTPS 0.512. 1 text was longer than the model takes and" in text
    assert "1 flagged (!) at a false-discovery rate of 5%, 0 undecided. A note." in text
    assert "Masking “honestly” changes 25% of the predictions of texts that contain it." in text
    report = audit(candidate("honestly"), notes=("Note one.", "Note two.", "Note three."))
    _, text = printed(report)
    assert "Note one. Note two. 1 more note in the report." in text
    assert "Note three." in render_audit(report)
    assert "more note" not in printed(audit(candidate("honestly"), notes=("Note one.",)))[1]


def test_what_decides_most_of_its_texts_is_a_share_of_those_it_was_counted_in(printed):
    word = {"text": "honestly", "verdict": "remove_reliance", "reason": "dominant", "count": 10, "q_value": 0.5}
    phrase = word | {"text": "to be honest", "q_value": None}  # of the 20 distinct ones, since it was not ranked
    read = audit(n=40, n_distinct=20).to_dict() | {"fit_would_take": [word, phrase]}
    _, text = printed(read, print_audit)
    for name, share in (("honestly", "25%"), ("to be honest", "50%")):
        assert f"“{name}” (dominant: overrides most of its texts, which are {share} of all)" in text


def test_an_audit_says_where_a_card_takes_more_than_fit_alone(printed):
    def taken(*words):
        items = [{"text": w, "verdict": "found", "reason": "flagged", "count": 9, "q_value": 0.01} for w in words]
        return printed(made.to_review(2).to_dict() | {"fit_would_take": items}, print_audit)[1]

    assert "A decision about the word group of “w0” would add “w0s”. " in taken("w0")
    assert "would add" not in taken("w0", "w0s")
    assert "would add" not in taken()


def test_what_is_undecided_is_no_all_clear(printed):
    lines, text = printed(audit(candidate("honestly", flip_rate=0.72, **UNDECIDED), candidate("soup")))
    assert row_of(lines, "0.720")[:2] == ["?", "honestly"]
    assert "1 undecided (?): unsettled by the test so far, labels (--label-column) or more texts can" in text
    assert "(!)" not in text
    assert f"? honestly: {TOO_FEW}." in text
    # The partner: where there are labels, they are what to look at.
    told = candidate("honestly", labelled=made.labelled(), **UNDECIDED)
    _, text = printed(audit(told, candidate("soup", flagged=True)))
    assert "1 flagged (!), 1 undecided (?): unsettled by the test so far, see what the labels say below." in text
    assert "By the labels, masking it fixes 9 predictions and breaks 1 (McNemar's p: 0.020)." in text
    # Only the first doubts are explained.
    _, text = printed(audit(*(candidate(f"word{i}", **UNDECIDED) for i in range(9))))
    assert ("9 undecided (?)" in text, text.count("are needed")) == (True, 3)


def test_cards_on_a_terminal(printed):
    words = ("honestly", "to be honest", "to be frank", "candidly", "frankly speaking")
    cards = (card(*words, status="flagged"), card("soup", status="undecided", pushes_towards="negative"), card("tea"))
    lines, text = printed(audit(candidate("word"), cards=cards))
    assert row_of(lines, "soup") == "? soup 12 8 20.5% - negative".split()
    assert (row_of(lines, "tea"), "! honestly, to be honest" in text) == ("tea 12 8 20.5% - positive".split(), True)
    assert "Word group: related words that push towards one class." in text
    # The partner: an audit of a version without them has no table of them.
    assert "card" not in printed(audit(candidate("soup")))[1]
    # Fifteen candidates and ten cards are shown.
    many = audit(*(candidate(f"word{i}") for i in range(30)), cards=tuple(card(f"tea{i}") for i in range(12)))
    text = printed(many)[1]
    there = [word in text for word in ("word14", "word15", "tea9", "tea10", "were longer")]
    assert there == [True, False, True, False, False]


def test_as_many_words_of_a_card_as_fit():
    for words, shown in [
        (["a", "b"], "a, b"),
        (["honestly", "to be frank", "candidly"], "honestly, to be frank +1"),
        (["x" * 40], "x" * 24 + "…"),
        (["x" * 40, "y"], "x" * 21 + "… +1"),
        (["honestly", "y" * 40, "z"], "honestly +2"),
    ]:
        assert words_of(words, 25).plain == shown


def test_every_table_with_what_adding_does_says_what_it_counts(printed):
    report = audit(candidate("honestly"), cards=(card("honestly"),))
    _, text = printed(report)
    assert text.count(LEGEND) == 1
    page = render_audit(report)
    for section in ("cards", "candidates"):
        (shown,) = re.findall(rf'<section id="{section}".*?</section>', page, re.DOTALL)
        assert ("added</th>" in shown, shown.count(LEGEND.replace("'", "&#39;"))) == (True, 1)


def test_cards_on_a_page_are_there_redacted_or_not():
    words = tuple(f"word{i}" for i in range(view.CARD_WORDS + 3))
    report = audit(candidate("honestly"), cards=(card(*words, status="undecided"), card("soup")))
    for page in (render_audit(report), render_audit(report, redact=True)):
        assert page.index('<a href="#cards">Word groups</a>') < page.index('id="cards"') < page.index('id="candidates"')
        assert f'<bdi>word{view.CARD_WORDS - 1}</bdi> <span class="unit">and 3 more</span>' in page
        assert f"<bdi>word{view.CARD_WORDS}</bdi>" not in page
        assert all(part in page for part in (f'<tr id="card-{report.cards[0].id}">', "20.5%"))
    assert 'id="cards"' not in render_audit(audit(candidate("honestly")))
    # Nobody can decide about punctuation, but what the test flags is told.
    marks = [
        card(mark, status=status) for mark, status in (("!!!", "flagged"), ("?", "undecided"), (".", "not_flagged"))
    ]
    marks.append(card("!", "so"))
    page = render_audit(audit(candidate("!!!"), cards=tuple(marks)))
    assert [f'<tr id="card-{one.id}">' in page for one in marks] == [True, False, False, True]


def test_a_page_with_function_words_alone_on_its_cards_asks_nothing():
    for word, asks in (("the", False), ("soup", True)):
        flip = Flip.of(0, "positive", "negative", f"{word} was warm")
        cards = (card(word, status="undecided", flips=(flip,), moved=(Moved("positive", "negative", 8),)),)
        page = render_audit(audit(candidate(word), cards=cards, model="m" * 64, data="d" * 64))
        assert ('id="deck"' in page) == asks


def test_a_table_of_labels_on_a_page_and_in_a_terminal(printed):
    some = (*(card(f"word{i}", status="undecided") for i in range(SHOWN_OF_A_LABEL)), card("tea", status="flagged"))
    documents = {name: audit(cards=cards).to_dict() for name, cards in (("<b>", some), ("y", some[:1]), ("z", ()))}
    rows = label_rows(documents)
    assert [group["words"] for group in rows[0]["word_groups"]][:2] == [["tea"], ["word0"]]
    page = render_labels(rows, fdr=0.05)
    assert re.findall(r'rowspan="(\d)"><a href="(\w+)/report.html"><bdi>(.*?)<', page) == [
        (str(SHOWN_OF_A_LABEL + 1), "b", "&lt;b&gt;"),
        ("1", "y", "y"),
        ("1", "z", "z"),
    ]
    assert ("and 1 more" in page, "nothing is flagged or undecided" in page) == (True, True)
    lines, text = printed(rows, lambda rows: print_labels(rows, fdr=0.05, n_truncated=1))
    assert row_of(lines, "tea") == "<b> 75.0% ! tea 12 8 20.5% positive".split()
    assert (row_of(lines, "z "), "and 1 more" in text) == ("z 75.0% -".split(), True)
    assert "40 texts, 3 labels. 1 text was longer than the model takes and cut." in text


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


def test_scores_of_one_or_two_models(printed):
    for n_models, length in [(1, 5), (2, 5), (1, 90), (2, 90)]:
        label = ("a long label, with words " * 9)[:length].strip()
        names = [f"{label} {how} shortcut" for how in ("without", "with")]
        results = {model: evaluation(*names) for model in ("base", "guarded")[:n_models]}
        lines, text = printed(results, print_evaluations)
        assert "".join(text.split()).count("0.700") == 2 * n_models  # as the worst group, and in its own row
        assert "123 texts. 2 texts were longer than the model takes and cut." in lines
        assert row_of(lines, "balanced accuracy")[2:] == ["0.400"] * n_models
    lines, text = printed({"model": evaluation("empty", "full")}, print_evaluations)
    assert (row_of(lines, "empty"), row_of(lines, "full")[:3]) == (["empty", "0", "-"], ["full", "10", "0.700"])
    # Recall is shown where shortcuts were named.
    assert "shortcut token recall at 3 0.900 by chance 0.300" in text
    assert "recall" not in printed({"model": evaluation("a", "b", recall=False)}, print_evaluations)[1]


def test_a_certificate(printed):
    lines, text = printed(CERTIFICATE, print_certificate)
    rows = [line.split() for line in lines if " of 1000" in line]
    assert rows == ["0.5 7 of 1000 6 3 2 0.012 0.001 certified".split(), "1 9 of 1000 8 1 4 0.200 - certified".split()]
    assert CERTIFICATE.sentence in text


def repair(choice: StrengthChoice, strategy: str = "distill") -> Repair:
    training = AdapterTraining(32, 30, 6, 24, 0.5, (1.849, 1.367), ("query",), 5, 0.1, 0.0123, 48.2)
    word = Shortcut("honestly", "named", n_support=8, fixed=5, broken=2)
    fitted = FitReport(training, preset(strategy), 0, 3, {}, Shortcuts((word,)))
    return Repair(strategy, "It was named.", fitted, choice)


def test_a_repair_and_how_its_strength_was_chosen(printed):
    curve = tuple(AgreementPoint(s, d, 0.9) for s, d in ((0.0, 0.5), (0.3, 0.2), (1.0, 0.125)))
    dial = UnlabelledCalibration(1.0, 32, 20, curve)
    left = replace(CALIBRATION, strength=1.0, without_labels=1.0, p_value=0.5)
    lines, text = printed(repair(StrengthChoice(1.0, "calibrated", left, dial)), print_repair)
    assert next(line.split() for line in lines if "fixed" in line)[-2:] == ["fixed", "broken"]
    assert row_of(lines, "honestly") == "honestly removed you said so - - 5 2".split()
    for said in (
        "Repair: distill, seed 0",
        "trained    6 steps on 30 of 32 texts, 48.2 s",
        "loss       1.849 to 1.367; weights changed by 1.23%",
        "cut        3 texts, longer than the model takes",
        "strength   1 (calibrated)",
        "It was named.",
        "chosen by  unlabelled texts (1); 40 labelled rows do not overrule it (p 0.500)",
    ):
        assert said in lines
    assert [line.split()[:2] for line in lines if line.endswith("chosen")] == [["1", "0.12500"], ["1", "0.700"]]
    assert "exactly what the original" not in text
    seen = Changes(400, 285, 0.7125, (Change(3, "so\x1b[31m bad " + 20 * "and dull ", "glad", "sad" * 20),))
    lines, text = printed(replace(repair(StrengthChoice(1.0, "set")), changes=seen), print_repair)
    assert "changes    285 of 400 predictions (71.3%)" in lines
    (line,) = (line for line in lines if "so[U+001B][31m bad" in line)
    assert re.search(r"dull.*… +glad -> sadsad\S*… *$", line)
    assert max(map(len, lines)) <= 80
    # The partner: labels alone chose the base, for a strategy that knows no words.
    none = Calibration(0.0, 40, "accuracy", (made.point(0.0, 0.5),))
    text = printed(repair(StrengthChoice(0.0, "calibrated", none), "default"), print_repair)[1]
    assert "At strength 0 the repaired model predicts exactly what the original model predicts." in text
    assert "chosen by accuracy on 40 labelled rows" in text
    assert not re.search("Divergence|word or phrase", text)


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


POINTS = (CertifiedStrength(0.5, 7, 6, 3, 2, 0.012, True, 50, None, 0.001),)
POINTS += (CertifiedStrength(1.0, 9, 8, 1, 4, 0.2, True, 50, None),)
CERTIFICATE = Certificate(0.02, 0.95, "net", "exact", 1000, 40, 1, POINTS, in_use=1.0, strength=0.5)


def everything():
    """An audit in which hardly two figures are the same."""
    told = replace(made.labelled(), flips_between_wrong=3)
    added = Insertion(90, 28, 2, 28 / 90, (0.22, 0.41), 0.001, 0.001, found=True)
    shown = (example(3, TEXT, "Honestly", "soup", true_label="negative"),)
    words = (
        candidate("honestly", flagged=True, q_value=0.0002, insertion=added, labelled=told, examples=shown),
        candidate("frankly", "negative", count=1234, labelled=replace(told, p_value=0.0002), **UNDECIDED),
        candidate("rare", None, count=1, **UNTESTED),
    )
    cards = card("honestly", status="flagged", flagged=("honestly",)), card("so", "tea", texts=1200, share=0.5)
    tried = {"insertions": Insertions(9, 1, 700), "erasures": Erasures("cut", 100, 40, 4, 9)}
    counts = {"n": 4000, "n_distinct": 3900, "n_candidates": 2004, "n_truncated": 2, "predicted": (1000, 3000)}
    return audit(*words, cards=cards, notes=("A note.",), answers=4321, seconds=12.3, **tried, **counts)


def test_every_figure_of_a_page_stands_under_its_name():
    audits = {"base": everything(), "other": audit(candidate("grind"), mstps=0.3)}
    scores = {name: evaluation("empty", "full", accuracy=at) for name, at in (("base", 0.5), ("other", 0.25))}
    shown = {"introduction": ["Read this."], "notes": ["The end."], "certificate": CERTIFICATE.to_dict()}
    page = render_comparison(audits, scores, title="A title", subtitle="below", **shown)
    words = words_in(page)
    assert page.count('<span class="flag">flagged</span>') == 2
    assert page.count('<span class="flag open-question">undecided</span>') == 1
    assert re.findall(r'data-status="(\w+)"', page) == ["flagged", "undecided", "not_flagged"]
    full, rate = "0.700, 95 % interval 0.35 to 0.93", "0.250, 95 % interval 0.10 to 0.50"
    told = "With labels (20 texts): accuracy 0.300, and 0.700 with it masked. Masking it fixes 9 predictions and"
    parts = (Path(__file__).parent / "page.txt").read_text(encoding="utf-8").format(full=full, rate=rate, told=told)
    places = [words.find(part) for part in parts.splitlines()]
    assert -1 not in places
    assert places == sorted(places)
    # What the script sorts by, and the bars with their intervals: flip rate, change, overrides, and the test.
    row = 'data-rank="1" data-text="honestly" data-count="12" data-flip_rate="0.25" data-added_rate="0.311111"'
    row += ' data-mean_change="-0.1234" data-override_rate="0.1" data-q_value="0.0002" data-pushes="positive"'
    assert f'{row} data-status="flagged">' in page
    bar = r'<rect class="(\w+)" x="([\d.]+)" y="3" width="([\d.]+)"[^>]*/>'
    bar += r'(?:[^>]*V15"/>)?(?:[^>]*M([\d.]+) 8H([\d.]+)M)?'
    (first,) = re.findall(r'<tbody class="candidate" [^>]*rank="1".*?</tbody>', page, re.DOTALL)
    assert [(of, *map(float, filter(None, at))) for of, *at in re.findall(bar, first)] == [
        *(("holds", 0, 24, 9.6, 48), ("holds", 42.08, 5.92, 33.6, 50.4), ("against", 0, 9.6, 1.92, 28.8)),
        *(("against", 0, 28.8), ("holds", 0, 7.68), ("against", 0, 59.52)),
    ]


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


def test_the_verdict_is_a_sentence():
    words = words_of_audit(candidate("soup"), n_distinct=12)
    said = "None of the 1 tested candidate is shown to override the rest of its texts (false-discovery rate 5%)."
    first = "Masking “soup”, which ranks first, changes the prediction in 25% of 11 texts; it pushes towards pos"
    assert (said in words, first in words) == (True, True)
    assert not re.search("is undecided| of them ", words)
    assert "No candidate could be tested" in words_of_audit(candidate("soup", **UNTESTED))
    # What is undecided without labels.
    words = words_of_audit(candidate("honestly", **UNDECIDED))
    assert "1 is undecided: “honestly”. Labels or more texts can settle this." in words
    assert f"Undecided. {TOO_FEW.capitalize()}. Labels or more" in words


@pytest.mark.parametrize(
    ("flag", "set_p_value", "said", "badge"),
    [
        ("collective", 0.0012, "Overriding the rest of their texts together (p 0.001)", "together"),
        ("alternative_wording", math.nan, "Alternative wordings of what is flagged", "alternative wording"),
    ],
)
def test_what_goes_together_is_said_on_the_page_and_in_the_terminal(printed, flag, set_p_value, said, badge):
    members = [candidate(name, **{flag: True}, **UNDECIDED) for name in ("frankly", "candidly")]
    report = audit(*members, candidate("worst", **UNDECIDED), candidate("soup"), set_p_value=set_p_value)
    page = render_audit(report)
    assert f"{said}: “frankly”, “candidly”." in words_in(page)
    assert "3 are undecided: “worst”, “frankly”, “candidly”." in words_in(page)
    assert page.count(f'<span class="flag open-question">{badge}</span>') == 2
    assert page.count('<span class="flag open-question">undecided</span>') == 1
    lines, text = printed(report)
    assert f"{said} (+)" in text
    assert [line.split()[1] for line in lines if line.startswith(" +")] == ["frankly", "candidly"]
    # What of nothing more is known is explained first.
    assert text.index("? worst:") < text.index("+ frankly:")


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


def test_an_audit_of_phrases_speaks_of_words():
    one = example(0, "so to be honest it rains", "to be honest")
    phrase = candidate("to be honest", unit="phrase", examples=(one,))
    page = render_audit(audit(phrase, candidate("soup", unit="word"), unit="phrase"))
    words = words_in(page)
    assert "A word or phrase that the audit ranks." in words
    assert "how far the most sensitive word moves a prediction" in words
    assert (page.count('<span class="unit">phrase</span>'), "of 2 words and phrases seen" in words) == (1, True)
    # Pairs show both sides.
    pair = example(0, "It rains honestly", "honestly", text_pair="Nobody <b>is</b> wet")
    words = words_of_audit(candidate("honestly", examples=(pair,)))
    assert all(part in words for part in ("text It rains honestly", "second text Nobody <b>is</b> wet"))


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


def test_texts_take_turns_between_candidates():
    many = candidate("honestly", examples=tuple(example(i, TEXT, "Honestly") for i in range(20)))
    one = candidate("soup", examples=(example(50, TEXT, "soup"), example(0, TEXT, "soup")))
    shown = view.audit_view(audit(many, one).to_dict(), redact=False, decided={})["texts"]
    indices = [example["index"] for _, example in shown]
    assert indices[:3] == [0, 50, 1]
    assert len(indices) == len(set(indices)) == view.MOST_TEXTS


def test_models_stand_side_by_side():
    base, guarded = audit(candidate("honestly"), mstps=0.45), audit(candidate("grind"), mstps=0.16)
    # Of three the first and the last are told; of many candidates the first are compared, and what is flagged.
    many = audit(*(candidate(f"word{i}", flagged=i == 19) for i in range(20)), mstps=0.3)
    words = words_in(render_comparison(title="t", audits={"base": base, "half": many, "guarded": guarded}))
    assert "From base to guarded: MSTPS 0.450 to 0.160." in words
    compared = view.compared_candidates({"half": many.to_dict()})
    assert [one["name"] for one in compared] == [f"word{i}" for i in (*range(view.COMPARED_CANDIDATES), 19)]
    # A page without scores or a certificate has neither.
    assert not re.search("Certificate|Scores", render_comparison(title="t"))
    assert "Scores" in page_of("a")


def test_a_change_says_what_the_gate_found():
    outcome = GateOutcome(("mstps went from 0.4 to 0.5; it may increase by 0.02 at most.",), ("a note <b>",))
    old, new = (audit(candidate(name)).to_dict() for name in "ab")
    audits = {"v1 <i>": old, "v2": new}
    words = words_in(render_comparison(audits, title="t", main="v2", outcome_of_gate=outcome))
    assert "Failed. mstps went from 0.4 to 0.5; it may increase by 0.02 at most. a note <b>" in words
    assert all(part in words for part in ("flip rate, v1 <i>", "Candidates, v2"))
    assert "Passed." in words_in(render_comparison(audits, title="t", outcome_of_gate=GateOutcome((), ())))
