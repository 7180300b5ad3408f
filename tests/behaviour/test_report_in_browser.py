"""The report page in a real headless browser: with mouse, keyboard and address, on a phone, in the dark, on paper."""

import itertools

import pytest

from audits import HOSTILE, NAN, UNDECIDED, UNTESTED, audit, candidate, evaluation, example, labelled
from shortcut_guardrail.report.html import render_audit, render_comparison

TEXT = "Honestly, the soup was cold and nobody apologised."
ORDER = "[...document.querySelectorAll('tbody.candidate')].filter(r => !r.hidden).map(r => r.dataset.text)"
SORTED = (
    "[...document.querySelectorAll('th[aria-sort]')].map(h => h.getAttribute('aria-sort')).filter(s => s !== 'none')"
)
OPEN = "[...document.querySelectorAll('tbody.candidate.open')].map(r => r.dataset.text)"


def head(key):
    return f"document.querySelector('th[data-key={key}] button')"


def choose(page, select, value):
    page.evaluate(f"(s => {{ s.value = '{value}'; s.dispatchEvent(new Event('change')); }})({select})")


def by_id(of):
    return f"document.getElementById('{of}')"


def name(text):
    return f"document.querySelector('tbody[data-text=\"{text}\"] .name button')"


def some_audit():
    return audit(
        candidate(
            "honestly",
            "positive",
            flip_rate=0.7,
            count=183,
            flagged=True,
            q_value=0.0001,
            labelled=labelled(),
            examples=(example(3, TEXT, "Honestly", "soup", "cold"), example(7, TEXT, "Honestly", "nobody")),
        ),
        candidate("lol", "positive", flip_rate=0.1, count=9, **UNDECIDED),
        candidate("cold", "negative", flip_rate=0.9, count=20, examples=(example(9, TEXT, "cold", flips=False),)),
        candidate("rare", None, flip_rate=NAN, count=1, **UNTESTED),
    )


@pytest.fixture
def page_file(tmp_path):
    path = tmp_path / "report.html"
    path.write_text(render_audit(some_audit()), encoding="utf-8")
    return path


@pytest.fixture
def page(browser, page_file):
    return browser.open(page_file)


def test_the_page_starts_in_the_order_of_the_ranking(page):
    assert page.evaluate(ORDER) == ["honestly", "lol", "cold", "rare"]
    assert page.evaluate(SORTED) == ["ascending"]
    assert page.evaluate(OPEN) == []
    assert page.evaluate(f"{by_id('shown')}.textContent") == "4 candidates"


def test_sorting_with_the_mouse(page):
    page.click(head("flip_rate"))
    assert page.evaluate(ORDER) == ["cold", "honestly", "lol", "rare"]  # what is undefined comes last
    assert page.evaluate("document.querySelector('th[data-key=flip_rate]').getAttribute('aria-sort')") == "descending"
    page.click(head("flip_rate"))
    assert page.evaluate(ORDER) == ["lol", "honestly", "cold", "rare"]
    assert page.evaluate(SORTED) == ["ascending"]
    page.click(head("text"))
    assert page.evaluate(ORDER) == ["cold", "honestly", "lol", "rare"]
    page.click(head("count"))
    assert page.evaluate(ORDER) == ["honestly", "cold", "lol", "rare"]


def test_sorting_and_opening_with_the_keyboard(page):
    page.evaluate(f"{head('flip_rate')}.focus()")
    page.press("Enter")
    assert page.evaluate(ORDER)[0] == "cold"
    assert page.evaluate(f"document.activeElement === {head('flip_rate')}")
    for _ in range(5):  # past four more heads to the first candidate
        page.press("Tab")
    assert page.evaluate(f"document.activeElement === {name('cold')}")
    page.press(" ")
    assert page.evaluate(OPEN) == ["cold"]
    assert page.evaluate(f"{name('cold')}.getAttribute('aria-expanded')") == "true"
    page.press("Escape")
    assert page.evaluate(OPEN) == []
    assert page.evaluate(f"document.activeElement === {name('cold')}")


def test_opening_with_the_mouse(page):
    evidence = by_id("evidence-1")
    assert page.evaluate(f"{evidence}.checkVisibility()") is False
    page.click(name("honestly"))
    assert page.evaluate(f"{evidence}.checkVisibility()") is True
    assert TEXT in page.evaluate(f"{evidence}.textContent.replace(/⇄| \\([^)]*\\) /g, '')")
    assert page.evaluate(f"{evidence}.querySelector('mark').checkVisibility()") is True
    page.click(name("honestly"))
    assert page.evaluate(f"{evidence}.checkVisibility()") is False
    page.click("document.querySelector('tbody[data-text=cold] [data-label=\"flip rate\"]')")  # anywhere in the row
    assert page.evaluate(OPEN) == ["cold"]


def test_searching_and_filtering(page):
    page.press("/")
    assert page.evaluate("document.activeElement.id") == "search"
    page.type("OL")
    assert page.evaluate(ORDER) == ["lol", "cold"]
    assert page.evaluate(f"{by_id('shown')}.textContent") == "2 of 4 candidates"
    page.type("x")
    assert page.evaluate(ORDER) == []
    assert page.evaluate(f"{by_id('nothing')}.checkVisibility()") is True
    page.click(by_id("reset"))
    assert page.evaluate(ORDER) == ["honestly", "lol", "cold", "rare"]
    choose(page, by_id("status"), "flagged")
    assert page.evaluate(ORDER) == ["honestly"]
    choose(page, by_id("status"), "undecided")
    assert page.evaluate(ORDER) == ["lol"]
    choose(page, by_id("status"), "")
    choose(page, by_id("pulls"), "negative")
    assert page.evaluate(ORDER) == ["cold"]
    choose(page, by_id("pulls"), "")
    choose(page, by_id("least"), "20")
    assert page.evaluate(ORDER) == ["honestly", "cold"]


def test_a_long_list_is_shown_in_two_steps(browser, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(render_audit(audit(*(candidate(f"word{i:02}") for i in range(40)))), encoding="utf-8")
    page = browser.open(path)
    assert len(page.evaluate(ORDER)) == 30
    assert page.evaluate(f"{by_id('shown')}.textContent") == "40 candidates"
    assert page.evaluate(f"{by_id('more')}.textContent") == "Show 10 more"
    page.click(by_id("more"))
    assert len(page.evaluate(ORDER)) == 40
    assert page.evaluate(f"{by_id('more')}.checkVisibility()") is False
    assert page.evaluate(f"document.activeElement === {name('word30')}")
    assert browser.open(path, "q=word39").evaluate(ORDER) == ["word39"]
    linked = browser.open(path, "open=word39")
    assert linked.evaluate(ORDER)[-2:] == ["word29", "word39"]
    assert linked.evaluate(f"{by_id('more')}.textContent") == "Show 9 more"


def test_the_address_holds_the_view(browser, page_file, page):
    page.click(head("count"))
    page.evaluate(f"{by_id('search')}.focus()")
    page.type("ol")
    page.click(name("cold"))
    fragment = page.evaluate("location.hash.slice(1)")
    assert fragment == "sort=count&dir=desc&q=ol&open=cold"
    again = browser.open(page_file, fragment)
    assert again.evaluate(ORDER) == page.evaluate(ORDER) == ["cold", "lol"]
    assert again.evaluate(OPEN) == ["cold"]
    assert again.evaluate(f"{by_id('search')}.value") == "ol"
    assert browser.open(page_file, "status=flagged").evaluate(ORDER) == ["honestly"]
    assert browser.open(page_file, "status=undecided").evaluate(ORDER) == ["lol"]
    assert len(browser.open(page_file, "status=nothing").evaluate(ORDER)) == 4
    assert browser.open(page_file, "pulls=negative").evaluate(ORDER) == ["cold"]
    assert browser.open(page_file, "least=100").evaluate(ORDER) == ["honestly"]


@pytest.mark.parametrize(
    "fragment", ["sort=constructor&dir=up", "open=%22%3E%3Cb%3E", "q=%", "pulls=nothing&least=-1", "candidates"]
)
def test_an_address_that_makes_no_sense_does_no_harm(browser, page_file, fragment):
    page = browser.open(page_file, fragment)
    assert page.evaluate("document.querySelectorAll('tbody.candidate').length") == 4
    assert page.evaluate(SORTED) == ["ascending"]
    assert not page.events("Runtime.exceptionThrown")


def test_what_came_from_data_stays_text(browser, tmp_path):
    hostile = [
        candidate(text, text, flagged=True, examples=(example(i, f"before {text} after", text, labels=(text, "x")),))
        for i, text in enumerate(HOSTILE)
    ]
    path = tmp_path / "report.html"
    path.write_text(
        render_audit(audit(*hostile, label_names=(HOSTILE[0], "b")), title=HOSTILE[0]),
        encoding="utf-8",
    )
    page = browser.open(path)
    page.click("document.querySelector('tbody.candidate .name button')")
    assert page.evaluate("document.title") == HOSTILE[0]  # "run" if the script in it had run
    assert page.evaluate("document.querySelectorAll('script').length") == 1
    assert page.evaluate("document.querySelectorAll('img').length") == 0
    assert page.evaluate("document.querySelectorAll('svg title, head title').length") == page.evaluate(
        "document.querySelectorAll('title').length"
    )
    names = page.evaluate("[...document.querySelectorAll('.name button')].map(b => b.textContent)")
    assert names == HOSTILE
    shown = page.evaluate("document.querySelector('#evidence-1 .said').textContent")
    assert shown.startswith(f"before {HOSTILE[0]}")
    for text in HOSTILE:
        page.evaluate(f"{by_id('search')}.value = ''; {by_id('search')}.focus()")
        page.type(text)
        assert page.evaluate(ORDER) == [text]


def test_nothing_is_asked_for_and_nothing_is_complained_about(page):
    page.click(head("flip_rate"))
    page.click(name("honestly"))
    asked = [event["request"]["url"].partition(":")[0] for event in page.events("Network.requestWillBeSent")]
    assert asked == ["file"]
    assert not page.events("Runtime.exceptionThrown")
    assert not page.events("Log.entryAdded")  # where a breach of the page's own policy would be


def test_the_policy_would_stop_a_script(page):
    page.evaluate("window.made = document.createElement('script')")
    page.evaluate("window.made.textContent = 'document.title = 1'; document.body.append(window.made)")
    assert page.evaluate("document.title") == "Shortcut audit"
    assert any("Content Security Policy" in event["entry"]["text"] for event in page.events("Log.entryAdded"))


def test_without_script_everything_can_be_read(browser, page_file):
    page = browser.open(page_file, script=False)
    # DevTools may still look at the page; the page itself runs nothing.
    assert page.evaluate("document.documentElement.classList.contains('js')") is False
    assert page.evaluate(f"{by_id('tools')}.checkVisibility()") is False
    assert page.evaluate(f"{by_id('evidence-1')}.checkVisibility()") is True
    page.click("document.querySelector('#evidence-1 summary')")
    assert page.evaluate("document.querySelector('#evidence-1 .said').checkVisibility()") is True


def comparison():
    return render_comparison(
        title="Base against guarded",
        introduction=["What was done."],
        evaluations={name: evaluation("empty", "negative, with shortcut", "positive") for name in ("base", "guarded")},
        audits={name: some_audit() for name in ("base", "guarded")},
    )


@pytest.mark.parametrize("width", [320, 768, 1024])
def test_the_page_is_as_wide_as_the_window(browser, tmp_path, width):
    path = tmp_path / "report.html"
    path.write_text(comparison(), encoding="utf-8")
    page = browser.open(path, "open=honestly", width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    long = "a-long-name-" * 6
    path.write_text(render_audit(audit(candidate(long, long, count=10**7), *some_audit().candidates)), encoding="utf-8")
    assert browser.open(path, width=width).evaluate("document.documentElement.scrollWidth") <= width


def test_on_a_phone_it_sorts_too(browser, page_file):
    page = browser.open(page_file, width=390)
    assert page.evaluate("document.querySelector('#candidates-table thead').checkVisibility()") is False
    choose(page, by_id("sort-by"), "flip_rate")
    assert page.evaluate(ORDER) == ["cold", "honestly", "lol", "rare"]
    page.click(by_id("direction"))
    assert page.evaluate(ORDER) == ["lol", "honestly", "cold", "rare"]
    small = page.evaluate(
        "[...document.querySelectorAll('.tools button, .tools input[type=search], .tools select, .name button')]"
        ".filter(e => e.checkVisibility() && e.getBoundingClientRect().height < 40).map(e => e.outerHTML)"
    )
    assert small == []


CONTRASTS = """(() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgb = c => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = c; canvas.fillRect(0, 0, 1, 1);
                     return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const linear = v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = c => { const [r, g, b] = rgb(c).map(v => linear(v / 255)); return .2126 * r + .7152 * g + .0722 * b; };
  const behind = e => { while (e && rgb(getComputedStyle(e).backgroundColor)[3] === 0) e = e.parentElement;
                        return e ? getComputedStyle(e).backgroundColor : 'white'; };
  const poor = [];
  for (const e of document.querySelectorAll('body *')) {
    if (e.closest('svg, script, option') || !e.checkVisibility()) continue;
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
    const [a, b] = [light(getComputedStyle(e).color), light(behind(e))];
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) poor.push([e.outerHTML.slice(0, 80), ratio]);
  }
  return poor;
})()"""


@pytest.mark.parametrize("dark", [False, True])
def test_every_text_stands_out_from_what_is_behind_it(browser, tmp_path, dark):
    path = tmp_path / "report.html"
    path.write_text(comparison(), encoding="utf-8")
    page = browser.open(path, "open=honestly", dark=dark)
    assert page.evaluate(CONTRASTS) == []
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") is not dark
    page.evaluate("document.querySelector('.said').style.color = getComputedStyle(document.body).backgroundColor")
    assert page.evaluate(CONTRASTS)  # so that we know that it can fail


def test_controls_have_names_and_headings_have_an_order(browser, page_file):
    page = browser.open(page_file, "open=honestly")
    nodes = page.call("Accessibility.getFullAXTree")["nodes"]
    named = {"button", "searchbox", "checkbox", "combobox", "link", "image", "table", "region", "search"}
    roles = {node["role"]["value"] for node in nodes}
    assert {"button", "searchbox", "combobox", "link", "banner", "main", "navigation"} <= roles
    found = [node for node in nodes if node["role"]["value"] in named and not node.get("ignored")]
    assert [node["role"]["value"] for node in found if not node["name"]["value"].strip()] == []
    levels = page.evaluate("[...document.querySelectorAll('h1, h2, h3')].map(h => Number(h.tagName[1]))")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(later - earlier <= 1 for earlier, later in itertools.pairwise(levels))


def test_on_paper_the_evidence_of_what_is_flagged_or_undecided_is_open(page):
    page.call("Emulation.setEmulatedMedia", media="print")
    assert page.evaluate("document.querySelector('nav').checkVisibility()") is False
    assert page.evaluate("document.querySelector('#tools').checkVisibility()") is False
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(OPEN) == ["honestly", "lol"]
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(OPEN) == []
    assert page.call("Page.printToPDF")["data"]


def test_texts_of_either_direction_of_writing(browser, tmp_path):
    hebrew = "בכנות, המרק היה קר"
    path = tmp_path / "report.html"
    texts = (example(0, hebrew, "בכנות"), example(1, TEXT, "Honestly"))
    path.write_text(render_audit(audit(candidate("בכנות", examples=texts))), encoding="utf-8")
    page = browser.open(path)
    directions = page.evaluate("[...document.querySelectorAll('#texts .said')].map(p => getComputedStyle(p).direction)")
    assert directions == ["rtl", "ltr"]


@pytest.mark.parametrize("mstps", [0.0, 0.3, 1.0])
def test_every_label_of_a_histogram_lies_within_its_frame(browser, tmp_path, mstps):
    path = tmp_path / "report.html"
    path.write_text(render_audit(audit(candidate("honestly"), mstps=mstps)), encoding="utf-8")
    outside = (
        "[...document.querySelectorAll('svg.wide text')].filter(t => { const b = t.getBBox();"
        " const v = t.ownerSVGElement.viewBox.baseVal;"
        " return b.x < v.x || b.x + b.width > v.x + v.width || b.y < v.y || b.y + b.height > v.y + v.height; })"
        ".map(t => t.textContent)"
    )
    opened = browser.open(path)
    labels = opened.evaluate("[...document.querySelectorAll('svg.wide text')].map(t => t.textContent)")
    assert f"mean {mstps:.3f}" in labels
    assert opened.evaluate(outside) == []
