"""What readers see: terminals of 80 columns, pages that ask nobody for anything, and names as they are written."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest

from shortcut_guardrail.calibration import Calibration, CurvePoint
from shortcut_guardrail.evaluation import Evaluation
from shortcut_guardrail.metrics import GroupAccuracy, TokenRecall, exact_interval
from shortcut_guardrail.report.html import render_comparison
from shortcut_guardrail.report.terminal import interval, number, print_audit, print_demo, print_evaluations, print_fit

NAN = float("nan")


def group(name: str, n: int, right: int) -> GroupAccuracy:
    return GroupAccuracy(name, n, right / n if n else NAN, exact_interval(right, n))


def evaluation(*names: str, recall: bool = True, accuracy: float = 0.5) -> Evaluation:
    groups = tuple(group(name, 10 * i, 7 * i) for i, name in enumerate(names))
    recalls = {k: TokenRecall(0.9, 0.1 * k, 20) for k in (1, 3, 10)} if recall else {}
    return Evaluation(123, accuracy, 0.4, 0.6, groups, 0.31, 0.32, recalls, 2)


def candidate(text: str, pulls_to: str | None = "positive") -> SimpleNamespace:
    return SimpleNamespace(text=text, count=12, flip_rate=0.25, mean_change=-0.1234, pulls_to=pulls_to, mean_rank=1.5)


def audit(*candidates: SimpleNamespace, n_truncated: int = 0) -> SimpleNamespace:
    return SimpleNamespace(n=40, candidates=candidates, mstps=0.512, n_truncated=n_truncated)


def point(strength: float, accuracy: float) -> CurvePoint:
    return CurvePoint(strength, accuracy, accuracy, exact_interval(int(40 * accuracy), 40), 5, 2, 0.45)


CALIBRATION = Calibration(0.3, 40, "accuracy", (point(0.0, 0.5), point(0.3, 0.75), point(1.0, 0.7)))
HOSTILE = [
    "<script>alert(1)</script>",
    "[red]x[/red]",
    "a & b \" '",
    ":smile:",
    "[/]",
    "<img src=http://evil.example/x>",
]


@pytest.fixture(autouse=True)
def _narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("FORCE_COLOR", raising=False)


def lines_of(capsys) -> list[str]:
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    return lines


def without_breaks(lines: list[str]) -> str:
    """The words of a table whose cells may be folded."""
    return "".join("".join(lines).split())


def test_numbers():
    assert [number(0.12345), number(-0.5, signed=True), number(NAN), number(None)] == ["0.123", "-0.500", "-", "-"]
    assert number(0.5, signed=True) == "+0.500"
    assert [interval(0.1, 0.954), interval(NAN, NAN)] == ["0.10 to 0.95", "-"]


def test_an_audit(capsys):
    print_audit(audit(candidate("honestly"), candidate("soup", None), n_truncated=1))
    lines = lines_of(capsys)
    row = next(line.split() for line in lines if "honestly" in line)
    assert row == ["honestly", "12", "0.250", "-0.123", "positive"]
    assert next(line.split() for line in lines if "soup" in line)[-1] == "-"
    text = " ".join(" ".join(lines).split())
    assert "40 texts, 2 candidate tokens; MSTPS 0.512." in text
    assert "not a verdict. 1 text was longer than the model takes and cut." in text


def test_an_audit_shows_the_first_fifteen(capsys):
    print_audit(audit(*(candidate(f"word{i}") for i in range(30))))
    printed = "\n".join(lines_of(capsys))
    assert "word14" in printed
    assert "word15" not in printed
    assert "were longer" not in printed


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_shown_as_they_are_on_a_terminal(capsys, name):
    print_audit(audit(candidate(name)))
    assert any(name in line for line in lines_of(capsys))
    print_audit(audit(candidate("honestly", pulls_to=name)))
    assert any(name in line for line in lines_of(capsys))
    print_evaluations({name: evaluation(name, name)})
    assert without_breaks(lines_of(capsys)).count("".join(name.split())) >= 3


@pytest.mark.parametrize("n_models", [1, 2, 3])
@pytest.mark.parametrize("length", [5, 30, 90])
def test_scores_fit_80_columns(capsys, n_models, length):
    label = ("a long label, with words " * 9)[:length].strip()
    names = [f"{label} {how} shortcut" for how in ("without", "with")]
    print_evaluations(
        {model: evaluation(*names, accuracy=0.5) for model in ("base", "guarded", "retrained")[:n_models]}
    )
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


def fit_report(n_truncated: int = 0) -> SimpleNamespace:
    training = SimpleNamespace(
        n_trained=30, n_texts=32, n_steps=6, seconds=48.2, losses=(1.849, 1.367), relative_change=0.0123
    )
    return SimpleNamespace(training=training, n_truncated=n_truncated)


def test_a_fit_and_its_curve(capsys):
    print_fit(fit_report(3), CALIBRATION, 0.3, stated=False)
    lines = lines_of(capsys)
    text = " ".join(" ".join(lines).split())
    assert "Adapted on 30 of 32 texts in 6 steps (48 s): loss 1.849 to 1.367, weights changed by 1.23%." in text
    assert "3 texts were longer than the model takes and cut." in text
    assert [line.split()[0] for line in lines if "chosen" in line and "0.750" in line] == ["0.3"]
    assert "Strength 0.3, chosen on 40 labelled rows by accuracy." in text
    assert "exactly as the base" not in text


def test_strength_0_is_said_to_be_the_base_model(capsys):
    print_fit(fit_report(), Calibration(0.0, 40, "accuracy", (point(0.0, 0.5),)), 0.0, stated=False)
    text = " ".join(capsys.readouterr().out.split())
    assert "No strength scored higher than 0, so the guarded model answers exactly as the base model does." in text


@pytest.mark.parametrize(("stated", "words"), [(True, "Strength 1 (as stated)."), (False, "(fixed, not calibrated).")])
def test_a_strength_that_was_not_chosen(capsys, stated, words):
    print_fit(fit_report(), None, 1.0, stated=stated)
    assert words in capsys.readouterr().out


def test_the_demo_table(capsys):
    result = SimpleNamespace(
        evaluations={"base": evaluation("a", "b"), "guarded": evaluation("a", "b", accuracy=0.7)},
        audits={name: audit(candidate("[red]honestly"), candidate("soup")) for name in ("base", "guarded")},
        corpus=SimpleNamespace(shortcut="honestly"),
        calibration=CALIBRATION,
        seconds={"fit": 1.2},
    )
    print_demo(result)
    lines = lines_of(capsys)
    assert next(line.split() for line in lines if line.strip().startswith("accuracy"))[1:] == ["0.500", "0.700"]
    assert "[red]honestly" in "".join(lines)


# HTML


class _Page(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        if tag not in ("meta", "img", "link", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def page_of(*names: str, model: str = "base") -> str:
    return render_comparison(
        title=f"title {names[0]}",
        introduction=[f"introduction {name}" for name in names],
        evaluations={model: evaluation("empty", *names), "guarded": evaluation("empty", *names)},
        audits={model: audit(*(candidate(name, pulls_to=name) for name in names))},
        calibration=CALIBRATION,
        notes=list(names),
    )


def test_whatever_came_from_data_is_escaped():
    page = page_of(*HOSTILE, model="<b>model</b>")
    parsed = _Page(page)
    assert not parsed.open
    assert "script" not in parsed.tags
    assert "img" not in parsed.tags
    assert "b" not in parsed.tags
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    text = "".join(parsed.text)
    assert all(name in text for name in (*HOSTILE, "<b>model</b>"))


def test_a_page_asks_no_other_machine_for_anything():
    page = page_of("honestly", "soup")
    assert not re.search(r"https?:|//|url\(|@import", page)
    parsed = _Page(page)
    assert not {name for name, _ in parsed.attributes} & {"src", "href", "srcset", "action", "data", "poster"}
    assert not set(parsed.tags) & {"script", "link", "img", "iframe", "object", "form", "base"}


def test_a_page_shows_the_numbers():
    text = " ".join("".join(_Page(page_of("honestly")).text).split())
    for part in ("123 labelled texts", "0.700 (0.35 to 0.93)", "0.900 (chance 0.300)", "0.3 (chosen)", "-0.123"):
        assert part in text
    assert "empty0--honestly100.700" in "".join(text.split())
    assert "1 (chosen)" not in text


def test_a_page_without_calibration_has_no_curve():
    page = render_comparison(
        title="t", introduction=[], evaluations={"a": evaluation("x", "y")}, audits={}, calibration=None
    )
    assert "Debiasing strength" not in page
    assert "Debiasing strength" in page_of("a")
