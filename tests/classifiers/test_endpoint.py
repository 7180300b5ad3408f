"""Chat models behind an endpoint: what is read of answers, trouble, secrets, and runs that are cut short."""

import base64
import functools
import itertools
import json
import logging
import sqlite3
import time
import traceback
from collections import Counter
from contextlib import closing
from dataclasses import replace
from email.utils import formatdate
from urllib.parse import quote

import numpy as np
import pytest

from classifiers.chat_server import P_POSITIVE, by_words, chat, raw, served, without_log_probs
from shortcut_guardrail.classifiers import open_classifiers
from shortcut_guardrail.classifiers.chat_answers import read_answer, sample_scores, token_scores
from shortcut_guardrail.classifiers.requests import Endpoint
from shortcut_guardrail.classifiers.secret import Secret
from shortcut_guardrail.classifiers.settings import EndpointSettings
from shortcut_guardrail.errors import ConfigError, GuardrailWarning, RunError

LABELS = ["negative", "positive"]
TEXTS = [f"a {'good' if i % 3 else 'cold'} soup, number {i}" for i in range(12)]
GOOD = np.array(["good" in text for text in TEXTS])
waits: list[float] = []


def opened(folder, url, more="", *, cache=True, labels=LABELS, **options):
    file = folder / "judge.toml"
    file.write_text(f'kind = "endpoint"\nmodel = "m"\nurl = "{url}"\n{more}\n', encoding="utf-8")
    (source,) = open_classifiers([file], labels, cache=folder / "kept" if cache else None, **options)
    source.endpoint._sleep = waits.append
    return source


@pytest.fixture(autouse=True)
def no_waits():
    waits.clear()


def test_log_probabilities_where_they_are_given(tmp_path, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")  # which does not lead back to this machine
    with served() as asked:
        source = opened(tmp_path, asked.url)
        cost = source.cost(TEXTS)
        assert (cost.calls, cost.seconds, asked.bodies) == (12, None, [])
        asks = "Which of these fits the text: negative or positive? Answer with the name of one of them"
        assert cost.tokens == sum(-(-len(f"{asks} and nothing else.\n\nText: {text}\nAnswer:") // 4) for text in TEXTS)
        told = []
        found = source.predict_proba(TEXTS, progress=lambda *now: told.append(now))
        np.testing.assert_allclose(found[:, 1], np.where(GOOD, P_POSITIVE, 1 - P_POSITIVE))
        assert told[-1] == ("Asking", 12, 12)
        body = asked.bodies[0]
        assert (body["model"], body["temperature"], body["logprobs"], body["top_logprobs"]) == ("m", 0.0, True, 20)
        assert ("negative or positive" in body["messages"][0]["content"], body["max_tokens"]) == (True, 16)
        assert "Authorization" not in asked.headers[0]
        np.testing.assert_array_equal(source.predict_proba(TEXTS), found)
        assert (len(asked.bodies), source.cost(TEXTS).calls) == (12, 0)
        assert opened(tmp_path, asked.url).cost(TEXTS).seconds == 0, "all of it is kept"
        assert 0 < source.cost([*TEXTS, "new"]).seconds < 60
        record = json.loads(json.dumps(source.record()))
        assert (record["kind"], record["answered_by"], record["url"]) == ("endpoint", ["served-1"], asked.url)
        assert (record["labels"], record["phrases"], record["model"]) == ("negative or positive", LABELS, "m")
        assert source.predict_proba([]).shape == (0, 2)


def rejects_log_probs(text, body):
    if "logprobs" in body:
        return 400, {}, {"error": {"message": "logprobs is not supported"}}
    return by_words(text, body)


@pytest.mark.parametrize(("reply", "found_out_by"), [(without_log_probs, 1), (rejects_log_probs, 3)])
def test_sampled_answers_where_there_are_none(tmp_path, reply, found_out_by):
    with served(reply) as asked:
        found = opened(tmp_path, asked.url, "samples = 3").predict_proba(TEXTS)
        assert Counter(body["temperature"] for body in asked.bodies) == {1.0: 36, 0.0: found_out_by}
        np.testing.assert_array_equal(found[:, 1] > found[:, 0], GOOD)
        np.testing.assert_allclose(found.max(axis=1), 3.5 / 4)


def test_dropped_rows_are_nan_and_counted(tmp_path):
    replies = {"1": (200, {}, {"choices": []}), "2": (200, {}, chat("I cannot", {"I": 1.0})), "3": (422, {}, {})}
    with served(lambda text, body: replies.get(text.split()[-1], by_words(text, body))) as asked:
        source = opened(tmp_path, asked.url)
        with pytest.warns(GuardrailWarning, match="gave no answer that names a label to 3 of 12 texts"):
            found = source.predict_proba(TEXTS)
        assert (np.flatnonzero(np.isnan(found).all(axis=1)).tolist(), np.isnan(found).sum()) == ([1, 2, 3], 6)
        again, told = (
            opened(tmp_path, asked.url),
            [],
        )  # asks about the rest alone, and that all of it is rejected stops nothing
        replies |= dict.fromkeys("12", (413, {}, {}))
        with pytest.warns(GuardrailWarning, match="gave no answer that names a label to 3 of 12 texts"):
            np.testing.assert_array_equal(again.predict_proba(TEXTS, progress=lambda *now: told.append(now)), found)
        assert told == [("Asking", 12, 12)]  # what is kept is done


def test_what_is_asked_can_be_described(tmp_path):
    more = "[request]\nmax_completion_tokens = 9\ntop_logprobs = 5\n[descriptions]\n1 = 'a good review'"
    with served(lambda text, body: (200, {}, chat("1", {"1": 0.75, "0": 0.25}))) as asked:
        source = opened(tmp_path, asked.url, more, labels=["0", "1"], descriptions={"0": "a bad one", "1": "none"})
        np.testing.assert_allclose(source.predict_proba(["x"]), [[0.25, 0.75]])
        (body,) = asked.bodies
        assert "0 (a bad one) or 1 (a good review)" in body["messages"][0]["content"]
        assert (body["max_completion_tokens"], body["top_logprobs"], "max_tokens" in body) == (9, 5, False)
        other = opened(tmp_path, asked.url, more, labels=["0", "1"], descriptions={"0": "awful"})
        assert source.fingerprint() != other.fingerprint()
        told = ("", 'answers = "samples"', "samples = 3", "[request]\ntop_logprobs = 5")
        assert len({opened(tmp_path, asked.url, one).fingerprint() for one in told}) == 4
        of = [replace(source, settings=replace(source.settings, **{name: "https://a"})) for name in ("model", "url")]
        assert len({one.fingerprint() for one in (source, *of)}) == 3


def test_asked_twice_it_is_paid_twice_and_no_more(tmp_path):
    seen = Counter()

    def changes(text, body):
        seen[text] += 1
        return by_words("good" if seen[text] > 1 and text == TEXTS[0] else text, body)

    with served(changes) as asked:
        for _ in range(2):
            source = opened(tmp_path, asked.url)
            first, second = source.predict_proba(TEXTS), source.predict_proba(TEXTS, again=True)
            np.testing.assert_array_equal(np.flatnonzero(first.argmax(axis=1) != second.argmax(axis=1)), [0])
            assert len(asked.bodies) == 24
    (tmp_path / "alone").mkdir()
    with served() as asked:
        source = opened(tmp_path / "alone", asked.url, cache=False)
        assert np.array_equal(source.predict_proba(TEXTS[:2]), source.predict_proba(TEXTS[:2]))
        assert (len(asked.bodies), [path.name for path in (tmp_path / "alone").iterdir()]) == (2, ["judge.toml"])


TWO, THREE, HALF = ["toxic", "toxic insult"], ["not toxic", "not clear", "toxic"], {" clear": 0.5, " toxic": 0.5}


def likely(*steps):
    return [[token, [[t, float(np.log(p))] for t, p in places.items()]] for token, places in steps]


def test_an_answers_tokens():
    for tokens, phrases, expected in (
        (likely((" Pos", {" Pos": 0.6, "positive": 0.2, "neg": 0.2}), ("itive", {"itive": 1.0})), LABELS, [0.2, 0.8]),
        (likely(('"', {'"': 1.0}), ("negative", {"negative": 0.9, "positive": 0.1})), LABELS, [0.9, 0.1]),
        # What they begin with alike tells nothing; the token where they part does.
        (likely(("not", {"not": 0.9, "toxic": 0.1}), (" clear", HALF)), THREE, [0.45, 0.45, 0.1]),
        (likely(("not", {"not": 0.5}), (" clear", {" clear": 0.9, " so": 0.1})), THREE, np.array([1, 9, 1]) / 11),
        (likely(("not", {"not": 0.9, "toxic": 0.1}), (" clear", {" clear": 1})), THREE, np.array([1, 9, 1]) / 11),
        # At the end of the answer the whole label counts, and the longer one gets what is left.
        (likely(("toxic", {"toxic": 1}), ("</s>", {"</s>": 0.7, " insult": 0.3})), TWO, [0.7, 0.3]),
        (likely(("toxic", {"toxic": 0.8, "toxin": 0.1})), TWO, [8 / 9, 1 / 9]),
        # A label that is not listed has at most as much as the least that is.
        (likely(("positive", {"positive": 0.9, "the": 0.05})), LABELS, [0.05 / 0.95, 0.9 / 0.95]),
    ):
        np.testing.assert_allclose(np.exp(token_scores(tokens, phrases)), expected)
        assert token_scores(likely(("maybe", {"maybe": 0.9, "perhaps": 0.1})), phrases) is None
        assert token_scores([], phrases) is None


def test_sampled_answers_are_counted():
    found = sample_scores([" Positive.", "positive", "**negative**", "I think so"], LABELS)
    np.testing.assert_allclose(np.exp(found), [1.5 / 4, 2.5 / 4])
    np.testing.assert_allclose(np.exp(sample_scores(["toxic insult"], TWO)), [0.25, 0.75])
    np.testing.assert_allclose(np.exp(sample_scores(["not clear"], THREE)), [0.2, 0.6, 0.2])
    assert sample_scores(["no", ""], LABELS) is None


def test_a_busy_server_is_asked_again_when_it_says(tmp_path):
    later = formatdate(time.time() + 30, usegmt=True)
    replies = [(429, {"Retry-After": "7"}, {}), (503, {"Retry-After": later}, b"busy"), (500, {}, b"")]
    replies += [(429, {"Retry-After": "-3"}, {}), (429, {"Retry-After": formatdate(0, usegmt=True)}, {})]  # long ago
    replies += [*((status, {}, b"") for status in (408, 409, 425, 502, 504, 529)), (429, {"Retry-After": "600"}, {})]
    with served(lambda text, body: replies.pop(0) if replies else by_words(text, body)) as asked:
        assert not np.isnan(opened(tmp_path, asked.url, "retries = 20").predict_proba(TEXTS[:1])).any()
        assert len(asked.bodies) == 13
    assert (waits[0], *waits[3:5], waits[-1]) == (7, 0, 0, 600)
    assert 20 < waits[1] <= 30
    for at, least in {2: 2, 5: 16, 6: 30, 10: 30}.items():  # doubled, up to a minute
        assert least <= waits[at] <= 2 * least


def test_a_server_that_stays_busy_stops_the_run_and_keeps_what_came(tmp_path):
    def half(text, body):
        return by_words(text, body) if int(text.split()[-1]) < 5 else (429, {}, {"error": {"message": "no quota"}})

    said = r"^Request 5 of 11: .* tried 3 times: status 429 no quota\. What was answered is kept .* run again to go on"
    with served(half) as asked:
        one, other = (opened(tmp_path, asked.url, "retries = 2\nparallel = 1") for _ in range(2))
        with pytest.raises(RunError, match=said):
            one.predict_proba(TEXTS)
        assert len(asked.bodies) == 5 + 3
        assert other.cost(TEXTS).calls == 7  # two runs share what was answered


def test_who_stops_the_others_says_why(tmp_path):
    texts = [f"soup {i}" for i in range(2000)]
    with served(lambda text, body: (200, {}, b"<html>")) as asked:
        source = opened(tmp_path, asked.url, 'answers = "log-probabilities"', cache=False)
        with pytest.raises(RunError, match=r"Request \d of 2000: .* something else than a JSON object"):
            source.predict_proba(texts)
        assert len(asked.bodies) <= 4


def test_timeouts_and_closed_doors_are_tried_again(tmp_path):
    pauses = [0.5, 0.0]

    def slow_once(text, body):
        time.sleep(pauses.pop(0))
        return by_words(text, body)

    with served(slow_once) as asked:
        opened(tmp_path, asked.url, "timeout = 0.2").predict_proba(TEXTS[:1])
        assert len(asked.bodies) == 2
    with pytest.raises(RunError, match=r"did not answer, tried 2 times: .*refused"):
        opened(tmp_path, asked.url, "retries = 1").predict_proba(["another"])


@pytest.mark.parametrize(
    ("reply", "kind", "said"),
    [
        ((401, {}, {"error": "wrong key sk-secret"}), ConfigError, r"refuses \(status 401 wrong key \*\*\*"),
        ((404, {}, {"error": "x" * 999}), ConfigError, r"\(status 404 x{289}\)\. Check url"),
        ((307, {"Location": "http://127.0.0.1:1/"}, b""), ConfigError, "redirects elsewhere, which is not followed"),
        ((400, {}, {"error": {"message": "bad request"}}), RunError, "rejects every request: status 400 bad request"),
        ((429, {"Retry-After": "9999"}, {}), RunError, "asks to wait 9999 seconds"),
        ((200, {}, b"<html>"), RunError, "something else than a JSON object"),
        ((200, {}, [1]), RunError, "something else than a JSON object"),
    ],
)
def test_what_trying_again_does_not_fix(tmp_path, monkeypatch, reply, kind, said):
    monkeypatch.setenv("JUDGE_KEY", "sk-secret")
    with served(lambda text, body: reply) as asked:
        with pytest.raises(kind, match=said) as caught:
            opened(tmp_path, asked.url, 'api_key_env = "JUDGE_KEY"').predict_proba(TEXTS[:4])
        assert "sk-secret" not in str(caught.value)
        assert waits == []


def test_no_faster_than_allowed_and_as_many_side_by_side_as_are(tmp_path):
    together, now = [], Counter()

    def slow(text, body):
        now["on"] += 1
        together.append(now["on"])
        time.sleep(0.1)
        now["on"] -= 1
        return by_words(text, body)

    with served(slow) as asked:
        source = opened(tmp_path, asked.url, "parallel = 3")
        source.predict_proba(TEXTS)
        assert 1 < max(together) <= 3
        assert source.cost([f"so {text}" for text in TEXTS]).seconds < 0.1 * len(TEXTS)
        source = opened(tmp_path, asked.url, "requests_per_minute = 6\nparallel = 1", cache=False)
        assert source.cost(TEXTS).seconds == 120
        source.predict_proba(TEXTS[:4])
        assert (len(waits), waits[-1]) == (3, pytest.approx(30, abs=5))
        assert source.cost(TEXTS).seconds == 80, "as many as are allowed, however fast it answers"


def test_the_key_is_sent_and_shows_nowhere(tmp_path, monkeypatch):
    monkeypatch.setenv("JUDGE_KEY", "sk-secret")
    with served() as asked:
        source = opened(tmp_path, asked.url, 'api_key_env = "JUDGE_KEY"')
        source.predict_proba(TEXTS)
        assert {headers["Authorization"] for headers in asked.headers} == {"Bearer sk-secret"}
        (kept,) = (tmp_path / "kept").iterdir()
        shown = kept.read_bytes() + f"{source.record()} {source!r}".encode()
        assert b"served-1" in shown
        assert not [secret for secret in (*TEXTS, "sk-secret") if secret.encode() in shown]


KEY = "sk-s3cret/A+b&c-0123456789"
HEADER = f"Bearer {KEY}"
CODED = base64.b64encode(f"Authorization: {HEADER}, and more".encode()).decode()
PIECES = [KEY[i : i + 4] for i in range(0, len(KEY), 4)]


def in_pieces(pieces):
    answer, steps = chat("Bearer"), [{"token": piece, "logprob": -0.1} for piece in pieces]
    return answer | {"choices": [answer["choices"][0] | {"logprobs": {"content": steps}}]}


def http(status, content, header=b""):
    return b"HTTP/1.1 %s\r\n%sContent-Length: %d\r\n\r\n%s" % (status, header, len(content), content)


ECHOES = {
    "answer": http(b"200 OK", json.dumps(chat(f"positive {HEADER}")).encode()),
    "cut short": http(b"200 OK", json.dumps(chat(HEADER[:-4])).encode()),
    "model": http(b"200 OK", json.dumps(chat("positive") | {"model": HEADER}).encode()),
    "Base64": http(b"200 OK", json.dumps(chat(CODED)).encode()),
    "tokens": http(b"200 OK", json.dumps(in_pieces(PIECES)).encode()),
    "first tokens": http(b"200 OK", json.dumps(in_pieces(PIECES[:3])).encode()),
    "error": http(b"401 No", json.dumps({"error": {"message": f"wrong: {HEADER}"}}).encode()),
    "error of another kind": http(b"422 No", json.dumps({"detail": [{KEY: [quote(KEY, safe=""), CODED]}]}).encode()),
    "error in hexadecimal": http(b"400 No", json.dumps({"error": KEY.encode().hex()}).encode()),
    "busy": http(b"503 No", json.dumps({"error": HEADER}).encode()),
    "reason": http(b"401 " + HEADER.encode(), b""),
    "header": http(b"403 No", b"", f"X-Got: {HEADER}\r\n".encode()),
    "no HTTP": http(b"200 OK", b"{}", f"{HEADER}\r\n".encode()),
}


@pytest.mark.parametrize("echo", ECHOES.values(), ids=ECHOES)
@pytest.mark.filterwarnings("ignore:.*gave no answer that names a label")
def test_a_key_that_is_sent_back_is_written_nowhere(tmp_path, monkeypatch, caplog, echo):
    monkeypatch.setenv("JUDGE_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    asked, written = [], ""
    with raw(lambda request: [asked.append(request) or echo]) as url:
        source = opened(tmp_path, url, 'api_key_env = "JUDGE_KEY"\nretries = 1\nparallel = 1\nsamples = 1')
        try:
            source.predict_proba(TEXTS[:1])
        except (ConfigError, RunError):
            written += traceback.format_exc()
    assert HEADER.encode() in asked[0]
    written += "".join(path.read_bytes().decode("latin-1") for path in (tmp_path / "kept").glob("*"))
    written += f"{caplog.text} {source.record()} {source!r} {vars(source.endpoint)}"
    assert "POST" in written
    everywhere = "".join(character for character in written if character not in ' ",[]').lower()
    parts = [KEY[:8], KEY[-8:], quote(KEY[-9:], safe=""), CODED[26:40], CODED[-28:-20], KEY.encode().hex()[:16]]
    assert not [part for part in parts if part.lower() in everywhere]
    assert not logging.getLogger("httpx2").filters  # a logger of others is left as it was


def test_a_key_is_taken_out_of_names_and_values_at_any_depth():
    secret, value = Secret(KEY), {f"about {KEY}": [{"a": {KEY: 1}}, f"{KEY}!", 2.5, None]}
    assert secret.out_of_json(value) == {"about ***": [{"a": {"***": 1}}, "***!", 2.5, None]}
    with pytest.raises(ValueError, match="nested too deeply"):
        secret.out_of_json(functools.reduce(lambda inner, _: [inner], range(65), "x"))


def test_a_key_that_is_a_word_is_taken_out_where_it_stands_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("JUDGE_KEY", "it")
    with served(lambda text, body: (200, {}, chat("positive, it is"))) as asked:
        found = opened(tmp_path, asked.url, 'api_key_env = "JUDGE_KEY"').predict_proba(TEXTS[:1])
    assert found[0, 1] > 0.5
    (kept,) = (tmp_path / "kept").iterdir()
    assert b"positive, *** is" in kept.read_bytes()


def in_bytes(content):
    return lambda _: (content[i : i + 1] for i in range(len(content)))


ENDLESS = {
    "goes on saying 100": lambda _: itertools.repeat(b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
    "a header byte by byte": in_bytes(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 1000),
    "an answer byte by byte": in_bytes(http(b"200 OK", b" " * 1000)),
    "chunks without an end": lambda _: itertools.chain(
        [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"], itertools.repeat(b"1\r\n \r\n")
    ),
    "nothing": lambda _: itertools.repeat(b""),
}


@pytest.mark.parametrize("reply", ENDLESS.values(), ids=ENDLESS)
def test_an_answer_has_to_be_there_in_time_to_its_end(tmp_path, reply):
    began = time.monotonic()
    with raw(reply, pause=0.02) as url, pytest.raises(RunError, match=r"tried 2 times: no whole answer in 0\.3 sec"):
        opened(tmp_path, url, "timeout = 0.3\nretries = 1\nparallel = 1").predict_proba(TEXTS[:1])
    assert time.monotonic() - began < 3
    # The partner: one that is slow, but there in time.
    with raw(in_bytes(http(b"200 OK", json.dumps(chat("positive")).encode())), pause=0.0005) as url:
        assert opened(tmp_path, url, "timeout = 5").predict_proba(TEXTS[:1])[0, 1] > 0.5


def test_an_answer_without_measure_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("shortcut_guardrail.classifiers.requests._MOST_BYTES", 10_000)
    endless = lambda _: itertools.chain([b"HTTP/1.1 200 OK\r\n\r\n"], itertools.repeat(b" " * 1000))  # noqa: E731
    with raw(endless) as url, pytest.raises(RunError, match="answered with more than 10,000 bytes"):
        opened(tmp_path, url).predict_proba(TEXTS[:1])


DEEP = [b"[" * 100_000 + b"]" * 100_000, b'{"choices": ' * 100_000, b'{"error": ' * 500 + b"1" + b"}" * 500]
SPOILT_ANSWERS = [
    *((http(status, deep), said) for deep in DEEP for status, said in (
        (b"200 OK", "with something else than a JSON object"), (b"404 No", r"refuses \(status 404\)"))),
    (http(b"401 No", b'{"error": "\\u001b[31mred\\u202e"}'), r"status 401 \[U\+001B\]\[31mred\[U\+202E\]\)"),
    (http(b"401 No", '{"error": {"message": "\x9b2J"}}'.encode()), r"status 401 \[U\+009B\]2J"),
    (b"HTTP/1.1 200 OK\r\nA\x1b]0;x\x07: \x1b[2J\r\n\r\n", "tried 2 times: "),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "said"), SPOILT_ANSWERS)
def test_what_is_said_of_a_spoilt_answer_is_a_sentence_without_escapes(tmp_path, answer, said):
    with raw(lambda _: [answer]) as url, pytest.raises((ConfigError, RunError), match=said) as caught:
        opened(tmp_path, url, "retries = 1").predict_proba(TEXTS[:1])
    assert str(caught.value).isprintable()


def test_of_an_answer_the_beginning_is_kept():
    steps = [{"token": f"{i}", "logprob": -1, "top_logprobs": [{"token": "no", "logprob": -2}]} for i in range(20)]
    choice = {"message": {"content": "x" * 300}, "logprobs": {"content": steps}}
    found = read_answer({"model": "\x1b" + "m" * 300, "choices": [choice]}, Secret(""))
    assert (found["content"], found["model"]) == ("x" * 200, "[U+001B]" + "m" * 192)
    assert found["tokens"] == [[f"{i}", [["no", -2.0], [f"{i}", -1.0]]] for i in range(16)]


def test_numbers_out_of_range_are_no_answer(tmp_path):
    answer = in_pieces(["positive"])
    answer["choices"][0]["logprobs"]["content"][0]["logprob"] = -(10**400)
    with served(lambda text, body: (200, {}, answer)) as asked, pytest.warns(GuardrailWarning, match="gave no answer"):
        opened(tmp_path, asked.url, 'answers = "log-probabilities"').predict_proba(TEXTS[:1])


@pytest.mark.parametrize(
    ("url", "key", "said"),
    [
        ("http://example.org/v1", None, "is not encrypted"),
        ("http://127.0.0.1.example.org/v1", None, "is not encrypted"),
        ("https://me:sk-secret@example.org/v1", None, "must hold no user name or password"),
        ("https://a.org?key=sk-secret", None, r"nothing from '\?' or '#' on"),
        ("https://me:sk-secret@a\nb", None, "must hold no user name or password"),
        ("https://a.org/#sk-secret", None, "nothing from"),
        *((url, None, "must be an address") for url in ("ftp://example.org", "https://a\nb")),
        ("https://example.org/v1", "NO_SUCH_KEY", "NO_SUCH_KEY .* is not set"),
        ("https://example.org/v1", "sk-secret", "The environment variable that api_key_env names is not set"),
        ("https://example.org/v1", "ODD_KEY", "holds something that can be no key"),
    ],
)
def test_addresses_and_keys_that_cannot_be_used(monkeypatch, url, key, said):
    monkeypatch.setenv("ODD_KEY", "sk-secret\nX: y")
    with pytest.raises(ConfigError, match=said) as caught:
        Endpoint(EndpointSettings(model="m", url=url, api_key_env=key))
    assert "sk-secret" not in str(caught.value)
    for usable in ("http://example.org", "http://127.0.0.1:8000", "http://[::1]/v1", "http://localhost"):
        Endpoint(EndpointSettings(model="m", url=usable, allow_http="example" in usable))


SPOILT = [("{", "is no kept answer"), ('{"content": 1}', r"answer\.content|missing")]


@pytest.mark.parametrize(("answer", "said"), SPOILT)
def test_a_spoilt_cache_is_named(tmp_path, answer, said):
    with served() as asked:
        opened(tmp_path, asked.url).predict_proba(TEXTS[:2])
        (kept,) = (tmp_path / "kept").iterdir()
        with closing(sqlite3.connect(kept)) as file, file:
            file.execute("UPDATE answers SET answer = ?", (answer,))
        with pytest.raises(RunError, match=said) as caught:
            opened(tmp_path, asked.url).predict_proba(TEXTS[:2])
        assert str(kept) in str(caught.value)
        kept.write_bytes(b"{}\n" * 1000)
        with pytest.raises(RunError, match=r"holds no kept answers .* Delete it"):
            opened(tmp_path, asked.url).cost(TEXTS)
