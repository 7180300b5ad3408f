"""The report page in a real headless browser: with mouse, keyboard and address, on a phone, in the dark, on paper."""

import itertools

import pytest

from accessibility import violations
from audits import HOSTILE, NAN, UNDECIDED, UNTESTED, audit, candidate, evaluation, example, labelled, to_review
from shortcut_guardrail.report.html import render_audit, render_comparison

TEXT = "Honestly, the soup was cold and nobody apologised."
ALL, BY_RATE = ["honestly", "lol", "cold", "rare"], ["cold", "honestly", "lol", "rare"]  # what is undefined comes last
ORDER = "[...document.querySelectorAll('tbody.candidate')].filter(r => !r.hidden).map(r => r.dataset.text)"
OPEN = "[...document.querySelectorAll('tbody.candidate.open')].map(r => r.dataset.text)"
SORTED = "[...document.querySelectorAll('th[aria-sort]')].map(h => h.ariaSort).filter(s => s !== 'none')"
EXAMPLES = (example(3, TEXT, "Honestly", "soup", "cold"), example(7, TEXT, "Honestly", "nobody"))
FLAGGED = {"flagged": True, "q_value": 0.0001, "labelled": labelled(), "examples": EXAMPLES}
AUDIT = audit(
    candidate("honestly", "positive", flip_rate=0.7, count=183, **FLAGGED),
    candidate("lol", "positive", flip_rate=0.1, count=9, **UNDECIDED),
    candidate("cold", "negative", flip_rate=0.9, count=20, examples=(example(9, TEXT, "cold", flips=False),)),
    candidate("rare", None, flip_rate=NAN, count=5, **UNTESTED),
)
SHOWN, MORE, TOOLS, EVIDENCE = (f"document.getElementById('{of}')" for of in ("shown", "more", "tools", "evidence-1"))


def choose(page, of, value):
    page.evaluate(f"(s => {{ s.value = '{value}'; s.dispatchEvent(new Event('change')); }})({of})")


def first(selector):
    return f"document.querySelector('{selector}')"


def head(key):
    return first(f"th[data-key={key}] button")


def name(text):
    return first(f"tbody[data-text={text}] .name button")


def seen(page, *expressions):
    return page.evaluate(f"[{', '.join(expressions)}]")


@pytest.fixture
def show(browser, tmp_path):
    """Opens the page of an audit, or another page."""

    def opened(shown=AUDIT, fragment="", **how):
        file = tmp_path / "report.html"
        file.write_text(shown if isinstance(shown, str) else render_audit(shown), encoding="utf-8")
        return browser.open(file, fragment, **how)

    return opened


@pytest.fixture
def page(show):
    return show()


def test_the_order_is_that_of_the_ranking_and_the_mouse_sorts(page):
    assert seen(page, ORDER, SORTED, OPEN, f"{SHOWN}.textContent") == [ALL, ["ascending"], [], "4 candidates"]
    for key, left, way in (
        ("flip_rate", BY_RATE, "descending"),
        ("flip_rate", ["lol", "honestly", "cold", "rare"], "ascending"),
        ("text", BY_RATE, "ascending"),
        ("count", ["honestly", "cold", "lol", "rare"], "descending"),
    ):
        page.click(head(key))
        here = f"{head(key)}.closest('th').getAttribute('aria-sort')"
        assert seen(page, ORDER, SORTED, here) == [left, [way], way], key


def test_sorting_and_opening_with_the_keyboard(page):
    page.evaluate(f"{head('flip_rate')}.focus()")
    page.press("Enter")
    assert seen(page, ORDER, f"document.activeElement === {head('flip_rate')}") == [BY_RATE, True]
    for _ in range(6):  # past five more heads to the first candidate
        page.press("Tab")
    for key, opened in ((" ", ["cold"]), ("Escape", [])):
        page.press(key)
        here = f"{name('cold')}.getAttribute('aria-expanded')"
        expected = [opened, str(bool(opened)).lower(), True]
        assert seen(page, OPEN, here, f"document.activeElement === {name('cold')}") == expected


def test_opening_with_the_mouse_asks_for_nothing_and_a_script_would_be_stopped(page):
    assert not page.evaluate(f"{EVIDENCE}.checkVisibility()")
    page.click(name("honestly"))
    parts = (EVIDENCE, f"{EVIDENCE}.querySelector('mark')")
    assert seen(page, *(f"{of}.checkVisibility()" for of in parts)) == [True, True]
    assert TEXT in page.evaluate(f"{EVIDENCE}.textContent.replace(/⇄| \\([^)]*\\) /g, '')")
    page.click(name("honestly"))
    assert not page.evaluate(f"{EVIDENCE}.checkVisibility()")
    page.click(first('tbody[data-text=cold] [data-label="flip rate"]'))  # anywhere in the row
    assert page.evaluate(OPEN) == ["cold"]
    asked = [event["request"]["url"].partition(":")[0] for event in page.events("Network.requestWillBeSent")]
    assert (asked, page.events("Runtime.exceptionThrown"), page.events("Log.entryAdded")) == (["file"], [], [])
    page.evaluate("window.made = document.createElement('script')")
    page.evaluate("window.made.textContent = 'document.title = 1'; document.body.append(window.made)")
    assert page.evaluate("document.title") == "Shortcut audit"
    assert any("Content Security Policy" in event["entry"]["text"] for event in page.events("Log.entryAdded"))


def test_searching_and_filtering(page):
    page.press("/")
    page.type("OL")
    assert seen(page, ORDER, f"{SHOWN}.textContent") == [["lol", "cold"], "2 of 4 candidates"]
    page.type("x")
    assert seen(page, ORDER, f"{first('#nothing')}.checkVisibility()") == [[], True]
    page.click(first("#reset"))
    assert page.evaluate(ORDER) == ALL
    for of, value, left in (
        ("#status", "flagged", ["honestly"]),
        ("#status", "undecided", ["lol"]),
        ("#pushes", "negative", ["cold"]),
        ("#least", "20", ["honestly", "cold"]),
    ):
        everything = page.evaluate(f"{first(of)}.value")
        choose(page, first(of), value)
        assert page.evaluate(ORDER) == left, value
        choose(page, first(of), everything)


def test_a_long_list_is_shown_in_two_steps(show):
    long = audit(*(candidate(f"word{i:02}") for i in range(40)))
    page = show(long)
    found = seen(page, f"{ORDER}.length", f"{SHOWN}.textContent", f"{MORE}.textContent")
    assert found == [30, "40 candidates", "Show 10 more"]
    page.click(MORE)
    focus = f"document.activeElement === {name('word30')}"
    assert seen(page, f"{ORDER}.length", f"{MORE}.checkVisibility()", focus) == [40, False, True]
    assert show(long, "q=word39").evaluate(ORDER) == ["word39"]
    linked = show(long, "open=word39")
    assert seen(linked, f"{ORDER}.slice(-2)", f"{MORE}.textContent") == [["word29", "word39"], "Show 9 more"]


def test_what_is_in_few_texts_is_hidden_unless_it_is_asked_for(show):
    seldom = audit(candidate("soup", count=5), candidate("tea", count=4))
    page = show(seldom)
    assert seen(page, ORDER, f"{SHOWN}.textContent") == [["soup"], "1 of 2 candidates"]
    choose(page, first("#least"), "1")
    assert seen(page, ORDER, "location.hash") == [["soup", "tea"], "#least=1"]
    page.click(first("#reset"))
    assert (page.evaluate(ORDER), show(seldom, "open=tea").evaluate(ORDER)) == (["soup"], ["soup", "tea"])
    assert show(audit(candidate("tea", count=4))).evaluate(ORDER) == ["tea"]


def test_the_address_holds_the_view(show, page):
    page.click(head("count"))
    page.press("/")
    page.type("ol")
    page.click(name("cold"))
    address = page.evaluate("location.hash.slice(1)")
    assert address == "sort=count&dir=desc&q=ol&open=cold"
    again = seen(show(fragment=address), ORDER, OPEN, f"{first('#search')}.value")
    assert again == [page.evaluate(ORDER), ["cold"], "ol"] == [["cold", "lol"], ["cold"], "ol"]
    for fragment, left in (
        ("status=flagged", ["honestly"]),
        ("status=undecided", ["lol"]),
        ("pushes=negative", ["cold"]),
        ("least=100", ["honestly"]),
        # What makes no sense does no harm.
        *((fragment, ALL) for fragment in ("status=nothing", "sort=constructor&dir=up", "open=%22%3E%3Cb%3E")),
        *((fragment, ALL) for fragment in ("pushes=nothing&least=-1", "candidates")),
        ("q=%", []),
    ):
        page = show(fragment=fragment)
        assert seen(page, ORDER, SORTED) == [left, ["ascending"]], fragment
        assert not page.events("Runtime.exceptionThrown")


def test_what_came_from_data_stays_text(show):
    hostile = [
        candidate(text, text, flagged=True, examples=(example(i, f"before {text} after", text, labels=(text, "x")),))
        for i, text in enumerate(HOSTILE)
    ]
    page = show(render_audit(audit(*hostile, label_names=(HOSTILE[0], "b"))))
    page.click(first("tbody.candidate .name button"))
    made = (f"document.querySelectorAll('{of}').length" for of in ("script", "img", "title:not(svg title, head title)"))
    assert seen(page, "document.title", *made) == ["Shortcut audit", 1, 0, 0]  # "run" if a script in it had run
    assert page.evaluate("[...document.querySelectorAll('.name button')].map(b => b.textContent)") == HOSTILE
    assert page.evaluate(f"{first('#evidence-1 .said')}.textContent").startswith(f"before {HOSTILE[0]}")
    for text in HOSTILE:
        page.evaluate(f"{first('#search')}.value = ''; {first('#search')}.focus()")
        page.type(text)
        assert page.evaluate(ORDER) == [text]


def test_without_script_everything_can_be_read(show):
    page = show(script=False)
    # DevTools may still look at the page; the page itself runs nothing.
    assert seen(page, f"{TOOLS}.checkVisibility()", f"{EVIDENCE}.checkVisibility()") == [False, True]
    page.click(first("#evidence-1 summary"))
    assert page.evaluate(f"{first('#evidence-1 .said')}.checkVisibility()")


def comparison():
    names = ("base", "guarded")
    scores = {name: evaluation("empty", "negative, with shortcut", "positive") for name in names}
    return render_comparison(dict.fromkeys(names, AUDIT), scores, title="A", introduction=["B."])


def test_the_page_is_as_wide_as_the_window_and_sorts_on_a_phone(show):
    long = "a-long-name-" * 6
    wide = audit(candidate(long, long, count=10**7), *AUDIT.candidates)
    for width, shown in itertools.product((320, 768, 1024), (comparison(), wide)):
        page = show(shown, "open=honestly", width=width)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page = show(width=390)
    assert not page.evaluate(f"{first('#candidates-table thead')}.checkVisibility()")
    choose(page, first("#sort-by"), "flip_rate")
    assert page.evaluate(ORDER) == BY_RATE
    page.click(first("#direction"))
    assert page.evaluate(ORDER) == ["lol", "honestly", "cold", "rare"]
    small = page.evaluate(
        "[...document.querySelectorAll('.tools button, .tools input[type=search], .tools select, .name button')]"
        ".filter(e => e.checkVisibility() && e.getBoundingClientRect().height < 40).map(e => e.outerHTML)"
    )
    assert small == []


@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing(show, dark):
    cards = show(to_review(4), dark=dark)
    cards.wait("!!document.querySelector('#question')")
    page = show(comparison(), "open=honestly", dark=dark)
    assert violations(cards) == violations(page) == violations(show(fragment="open=honestly", dark=dark)) == []
    background = "getComputedStyle(document.body).backgroundColor"
    assert (page.evaluate(background) == "rgb(255, 255, 255)") is not dark
    # The partners: what axe is there for is found.
    page.front()
    page.evaluate(f"{first('.said')}.style.color = {background}; {first('main h2')}.outerHTML = '<h4>A</h4>'")
    assert {"color-contrast", "heading-order"} <= {one.partition(" |")[0] for one in violations(page)}


def test_on_paper_the_evidence_of_what_is_flagged_or_undecided_is_open(page):
    page.call("Emulation.setEmulatedMedia", media="print")
    assert seen(page, f"{first('nav')}.checkVisibility()", f"{TOOLS}.checkVisibility()") == [False, False]
    for event, opened in (("beforeprint", ["honestly", "lol"]), ("afterprint", [])):
        page.evaluate(f"window.dispatchEvent(new Event('{event}'))")
        assert page.evaluate(OPEN) == opened


def test_texts_of_either_direction_of_writing(show):
    texts = (example(0, "בכנות, המרק היה קר", "בכנות"), example(1, TEXT, "Honestly"))
    page = show(audit(candidate("בכנות", examples=texts)))
    directions = page.evaluate("[...document.querySelectorAll('#texts .said')].map(p => getComputedStyle(p).direction)")
    assert directions == ["rtl", "ltr"]


def test_every_label_of_a_histogram_lies_within_its_frame(show):
    labels = "[...document.querySelectorAll('svg.wide text')]"
    outside = (
        f"{labels}.filter(t => {{ const b = t.getBBox(); const v = t.ownerSVGElement.viewBox.baseVal;"
        " return b.x < v.x || b.x + b.width > v.x + v.width || b.y < v.y || b.y + b.height > v.y + v.height; })"
    )
    for mstps in (0.0, 0.3, 1.0):
        page = show(audit(candidate("honestly"), mstps=mstps))
        assert f"mean {mstps:.3f}" in page.evaluate(f"{labels}.map(t => t.textContent)")
        assert page.evaluate(f"{outside}.map(t => t.textContent)") == []
