"""What the server refuses: every rule that keeps others out has a request that is answered without it."""

import http.client
import json
import socket
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress

import pytest

from audits import to_review
from shortcut_guardrail.review.server import MOST_BYTES, MOST_OPEN, Page, ReviewServer
from shortcut_guardrail.review.session import Session
from shortcut_guardrail.review.shown import make_deck

DECK = make_deck(to_review(2).to_dict())
W0, W1 = (card.id for card in DECK.cards)


@contextmanager
def running(session, page="<!doctype html><p>page", **how):
    server = ReviewServer(session, Page(page, "default-src 'none'"), **how)
    with ThreadPoolExecutor() as threads:
        threads.submit(server.run)
        try:
            yield server
        finally:
            server.stop()


@pytest.fixture
def session(tmp_path) -> Session:
    return Session(DECK, tmp_path / "decisions.json", "anna")


@pytest.fixture
def server(session):
    with running(session) as started:
        yield started


def ask(server, method="GET", path="/api/review", body=None, *, drop=(), repeat=(), **headers):
    """A request as the page sends it, but for what is changed."""
    content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    sent = {"Host": server.hosts[0], "Authorization": f"Bearer {server.token}"}
    if method == "POST":
        sent |= {"Origin": f"http://{server.hosts[0]}", "Content-Type": "application/json"}
        sent |= {"Content-Length": str(len(content))}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    for name in (*sent, *repeat):
        if name not in drop:
            connection.putheader(name, sent[name])
    connection.endheaders(content)
    answer = connection.getresponse()
    found = answer.read()
    connection.close()
    return answer.status, dict(answer.getheaders()), found


def keep(server, card=W0, **how):
    body = {"card": card, "decision": "keep", "revision": server.session.revision}
    return ask(server, "POST", "/api/answer", body, **how)


def refused(server, status, answer):
    """Nothing was said but why, and nothing was saved."""
    assert (answer[0], set(json.loads(answer[2]))) == (status, {"error"})
    assert not server.session.file.exists()


def test_what_the_page_asks_is_answered(server):
    assert ask(server, path="/", drop=("Authorization",))[::2] == (200, b"<!doctype html><p>page")
    found = json.loads(ask(server, path="/api/review")[2])
    assert [card["id"] for card in found["deck"]["cards"]] == [W0, W1]
    assert json.loads(keep(server)[2])["said"] == {W0: "keep"}
    assert ask(server, path="/api/decisions")[2] == server.session.content()
    assert json.loads(ask(server, "POST", "/api/undo", {"revision": 1})[2])["said"] == {}
    host = server.hosts[1]  # localhost is this machine too
    assert keep(server, Host=host, Origin=f"http://{host}")[0] == 200


def test_another_host_is_not_answered(server):
    port = server.port
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", "127.0.0.1:1", f"LOCALHOST.:{port}", ""):
        refused(server, 421, ask(server, path="/", Host=host))
        refused(server, 421, keep(server, Host=host, Origin=f"http://{host}"))
    refused(server, 421, ask(server, drop=("Host",)))
    refused(server, 421, ask(server, repeat=("Host",)))


def test_without_the_token_no_data_is_answered_and_nothing_is_done(server):
    for token in ("", "Bearer ", "Bearer x", "Basic {0}", "{0}", "Bearer {0}x", "Bearer é"):
        given = token.format(server.token).encode().decode("latin-1")
        for path in ("/api/review", "/api/decisions", "/api/other", "/?x"):
            refused(server, 403, ask(server, path=path, Authorization=given))
    for path in ("/api/answer", "/api/undo", "/api/stop"):
        refused(server, 403, ask(server, "POST", path, {"revision": 0}, drop=("Authorization",)))
    assert ask(server)[0] == 200  # it still runs


def test_it_listens_here_alone_and_the_token_has_256_bits_and_is_another_one_each_time(session, server):
    assert server.socket.getsockname()[0] == "127.0.0.1"
    assert len(server.token) == 43  # of six bits each
    with running(session) as other:
        assert other.token != server.token
    assert server.address == f"http://127.0.0.1:{server.port}/#{server.token}"


def test_another_origin_sends_nothing_and_another_content_type_is_not_read(server):
    origins = "http://evil.example", "https://{host}", "http://localhost:{port}", "http://127.0.0.1", "null", ""
    for origin in origins:
        refused(server, 403, keep(server, Origin=origin.format(host=server.hosts[0], port=server.port)))
    refused(server, 403, keep(server, drop=("Origin",)))
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-8", ""):
        refused(server, 415, keep(server, Content_Type=kind))
    refused(server, 415, keep(server, drop=("Content-Type",)))


def test_a_megabyte_is_read_and_no_more_and_nothing_of_unknown_length(server):
    body = json.dumps({"card": W0, "decision": "keep", "revision": 0}).encode()
    for length in (str(MOST_BYTES + 1), "9" * 5000):
        refused(server, 413, ask(server, "POST", "/api/answer", body, Content_Length=length))
    for length in ("", "-1", "1e3", "0x10", "٣"):
        refused(server, 411, keep(server, Content_Length=length.encode().decode("latin-1")))
    refused(server, 411, keep(server, Transfer_Encoding="chunked"))
    assert ask(server, "POST", "/api/answer", body.ljust(MOST_BYTES))[0] == 200


def request(server, body=b"", path="/", more=""):
    head = f"POST {path} HTTP/1.1\r\nHost: {server.hosts[0]}\r\nOrigin: http://{server.hosts[0]}\r\n"
    head += f"Authorization: Bearer {server.token}\r\nContent-Type: application/json\r\n{more}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def seconds_until_dropped(server, sent):
    """How long a connection lasts on which bytes come one by one, and how long the longest answer beside it took."""
    began, longest = time.monotonic(), 0.0
    with socket.create_connection(("127.0.0.1", server.port), timeout=0.05) as connection, suppress(OSError):
        for at in range(200):
            connection.sendall(sent[at : at + 1])
            with suppress(TimeoutError):
                if not connection.recv(1):
                    break
            asked = time.monotonic()
            assert ask(server)[0] == 200
            longest = max(longest, time.monotonic() - asked)
    return time.monotonic() - began, longest


BODY = json.dumps({"card": W0, "decision": "keep", "revision": 0}).encode()


@pytest.mark.parametrize("at", ["nothing", "request line", "header", "body", "whole body but its end"])
def test_who_sends_a_byte_now_and_then_is_dropped_and_nobody_waits_for_them(session, at):
    with running(session, slow=0.6) as server:
        whole = request(server, BODY.ljust(500), "/api/answer")
        until = {"header": whole.index(b"Origin"), "body": len(whole) - 500, "whole body but its end": len(whole) - 400}
        # A client of its own sends the beginning at once.
        with socket.create_connection(("127.0.0.1", server.port)) as beside:
            beside.sendall(whole[: until.get(at, 0)])
            lasted, longest = seconds_until_dropped(server, b"" if at == "nothing" else whole)
            beside.settimeout(2)
            with suppress(ConnectionError):
                assert not beside.recv(1)
    assert 0.5 < lasted < 3
    assert longest < 0.5
    assert not session.file.exists()


def test_who_does_not_read_an_answer_is_dropped(session):
    with running(session, page="x" * 20_000_000, slow=0.3) as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=5) as connection:
            connection.sendall(f"GET / HTTP/1.1\r\nHost: {server.hosts[0]}\r\n\r\n".encode())
            time.sleep(0.2)
            assert len(server._opened) == 1
            while server._opened:
                time.sleep(0.05)
        assert ask(server)[0] == 200


def test_many_connections_keep_nobody_out(session):
    with running(session, slow=60) as server, ExitStack() as opened:
        for _ in range(4 * MOST_OPEN):
            opened.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        began = time.monotonic()
        assert keep(server)[0] == 200
        assert time.monotonic() - began < 5
        assert len(server._opened) <= MOST_OPEN + 2


def test_a_huge_head_and_a_body_that_is_cut_short_are_refused(server):
    for status, sent in (
        (414, b"GET /" + b"x" * 70_000),
        (431, b"GET / HTTP/1.1\r\nX: " + b"x" * 70_000),
        (431, b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"\r\n"),
        (400, request(server, BODY + b" ", "/api/answer")[:-1]),
    ):
        with socket.create_connection(("127.0.0.1", server.port), timeout=5) as connection:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            assert int(connection.recv(100).split()[1]) == status
    assert not server.session.file.exists()


def test_what_is_no_answer_is_refused_and_a_stale_one_told_where_things_stand(server):
    damaged = b"{", b"\xff", b"[" * 100_000, b"[]", b"{}", b'{"revision": "0"}'
    for body in (*damaged, {"revision": 0}, {"revision": 0, "card": 3}):
        refused(server, 400, ask(server, "POST", "/api/answer", body))
    keep(server)
    before = server.session.file.read_bytes()
    status, _, content = ask(server, "POST", "/api/answer", {"card": W1, "decision": "keep", "revision": 0})
    state = json.loads(content)
    assert (status, state["revision"], state["said"]) == (409, 1, {W0: "keep"})
    assert (ask(server, "POST", "/api/undo", {"revision": 0})[0], server.session.file.read_bytes()) == (409, before)


def test_two_tabs_at_once_lose_nothing(server):
    # Both send for the same revision, over and over: what is confirmed is in the file.
    def tab(card):
        for _ in range(10):
            while keep(server, card)[0] != 200:
                pass

    with ThreadPoolExecutor() as threads:
        list(threads.map(tab, (W0, W1)))
    events = json.loads(server.session.file.read_text())["review"]["events"]
    assert Counter(event["card"] for event in events) == {W0: 10, W1: 10}


def test_a_full_disk_is_said(server, monkeypatch):
    def full(*_args, **_how):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    answer = keep(server)
    refused(server, 507, answer)
    why = f"Not saved. '{server.session.file}' could not be written: the disk is full."
    assert json.loads(answer[2])["error"].startswith(why)
    assert server.session.state()["said"] == {}
    monkeypatch.undo()
    assert keep(server)[0] == 200, "the answer can be given again"
    # So is a file that cannot be read any more.
    server.session.file.unlink()
    server.session.file.mkdir()
    status, _, content = keep(server, W1)
    assert status in (400, 500)
    assert json.loads(content)["error"].startswith("Not saved")


def test_every_answer_says_what_a_browser_may_do_with_it(server):
    told = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY"}
    told |= {"Content-Security-Policy": "default-src 'none'", "Cache-Control": "no-store"}
    asked = {("GET", "/"): 200, ("GET", "/api/review"): 200, ("GET", "/nothing"): 404, ("POST", "/nothing"): 404}
    for (method, path), expected in (asked | {("OPTIONS", "/api/answer"): 501, ("DELETE", "/"): 501}).items():
        status, headers, _ = ask(server, method, path, {"revision": 0} if method == "POST" else None)
        assert (status, headers) == (expected, headers | told)
        assert not [name for name in headers if name.lower().startswith("access-control")]


def test_it_stops_when_it_is_told_to(session):
    server = ReviewServer(session, Page("", ""))
    with ThreadPoolExecutor() as threads:
        was_idle = threads.submit(server.run)
        assert ask(server, "POST", "/api/stop", {})[0] == 200
        assert was_idle.result(10) is False
    with pytest.raises(OSError, match="refused"):
        ask(server)


def test_a_connection_that_was_opened_before_is_not_answered_after_it_stopped(session):
    with running(session) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
        connection.connect()
        ask(server)  # by now the other one is taken too
    headers = {"Authorization": f"Bearer {server.token}", "Origin": f"http://{server.hosts[0]}"}
    body = json.dumps({"card": W0, "decision": "keep", "revision": 0})
    connection.request("POST", "/api/answer", body, headers | {"Content-Type": "application/json"})
    with pytest.raises(ConnectionError):
        connection.getresponse()
    connection.close()
    assert not session.file.exists()


def test_it_stops_after_an_idle_time_and_who_is_not_let_in_does_not_keep_it_awake(session):
    server = ReviewServer(session, Page("", ""), idle=0.8)
    with ThreadPoolExecutor() as threads:
        was_idle = threads.submit(server.run)
        for _ in range(3):  # longer than the idle time, but never idle
            time.sleep(0.4)
            assert ask(server)[0] == 200
        before = server.last
        for refused_one in ({"Host": "evil.example"}, {"drop": ("Authorization",)}):
            ask(server, **refused_one)
        assert server.last == before
        assert was_idle.result(10) is True
