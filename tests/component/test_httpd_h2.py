"""corvo-httpd alone: the same requests and streams by HTTP/2.

httpd_fixture.py starts it with a raftd and a viewd of canned answers.
"""

import json
import os
import signal
import socket
import struct
import subprocess

import h2.exceptions
import pytest

from h2client import (DATA, END_STREAM, PING, PREFACE, RST_STREAM, SETTINGS,
                      Client, Raw, frame)
from httpd_fixture import PATIENCE, node, wait_until

API = "/api/v1"


@pytest.fixture(scope="module")
def h():
    with node() as httpd:
        yield httpd


@pytest.fixture
def c(h):
    with Client(h.port, PATIENCE) as client:
        yield client


# --- the same routes -------------------------------------------------------

HEADERS = ("content-type", "allow", "retry-after", "x-corvo-index",
           "x-corvo-ignored")


@pytest.mark.parametrize("method,path,body", [
    ("GET", "/healthz", None),
    ("GET", "/readyz", None),
    ("GET", "/openapi.json", None),
    ("POST", API + "/enqueue", {"queue": "q", "payload": {"a": [1, None]}}),
    ("POST", API + "/enqueue", {"queue": "q", "nonsense": 1}),
    ("POST", API + "/enqueue", {}),
    ("POST", API + "/enqueue", None),
    ("POST", API + "/enqueue/batch", {"jobs": [{"queue": "q"}] * 3}),
    ("POST", API + "/fetch", {"queues": ["jobs"], "timeout": 0}),
    ("POST", API + "/fetch", {"queues": ["none"], "timeout": 0}),
    ("GET", API + "/jobs/nope", None),
    ("GET", API + "/queues?limit=3&unknown=1", None),
    ("GET", API + "/queues?limit=x", None),
    ("GET", API + "/queues?", None),
    ("GET", "/nowhere", None),
    ("DELETE", API + "/enqueue", None),
    ("OPTIONS", API + "/enqueue", None),
    ("PATCH", API + "/queues/a%2Fb", {"max_concurrency": 2}),
])
def test_a_route_answers_as_by_http_1(h, c, method, path, body):
    """Numbers of ids and times apart."""
    def plain(text):
        return [(k, type(v)) for k, v in sorted(json.loads(text).items())] \
            if text.startswith(b"{") else text[:1]

    one = h.request(method, path, body)
    two = c.ask(method, path, body)
    assert two.status == one.status
    assert plain(two.body) == plain(one.body)
    for a, name in ((one, "Content-Length"), (two, "content-length")):
        assert a.headers.get(name, "0") == str(len(a.body))
    for name in HEADERS:
        assert (name in two.headers) == (one.headers[name] is not None), name
    assert two.headers["x-request-id"] and two.headers["date"]


def test_head_has_a_length_and_no_body(c):
    a = c.ask("HEAD", "/healthz")
    assert a.status == 200 and a.body == b""
    assert int(a.headers["content-length"]) > 10


def test_many_requests_at_once(h, c):
    ids = [c.begin("POST", API + "/enqueue", {"queue": "q", "payload": i})
           for i in range(100)]
    for i, stream in enumerate(ids):
        a = c.answer(stream)
        assert a.status == 201 and a.json()["job"]["payload"] == i


def test_a_waiting_fetch_holds_up_nobody(h, c):
    waits = c.begin("POST", API + "/fetch", {"queues": ["slow-h2"]})
    h.backend.wait("request", "fetch", queues=["slow-h2"])
    for _ in range(20):
        assert c.ask("GET", "/healthz").status == 200
    assert not c.answers[waits].over
    assert c.ask("POST", API + "/enqueue", {"queue": "slow-h2"}).status == 201
    assert c.answer(waits).json()["job_id"] == "job_fetched"


def test_large_bodies_and_answers(h, c):
    """Beyond every window, both ways."""
    payload = "x" * 200_000
    a = c.ask("POST", API + "/enqueue/batch",
              {"jobs": [{"queue": "q", "payload": payload}] * 20})
    assert a.status == 201 and len(a.json()["job_ids"]) == 20
    a = c.ask("GET", "/openapi.json")
    assert a.body == h.request("GET", "/openapi.json").body
    assert len(a.body) > 65536


def test_a_body_too_large_is_refused_before_it_has_come(c):
    i = c.begin("POST", API + "/enqueue", headers=[
        ("content-length", str(17 << 20))], end=False)
    assert c.answer(i).error() == (413, "BODY_TOO_LARGE")
    i = c.begin("POST", API + "/enqueue", b"x" * (17 << 20))
    assert c.answer(i).error() == (413, "BODY_TOO_LARGE")
    assert c.ask("GET", "/healthz").status == 200


def test_a_packed_body_is_refused_before_it_has_come(c):
    i = c.begin("POST", API + "/enqueue", headers=[
        ("content-encoding", "gzip")], end=False)
    assert c.answer(i).error() == (415, "UNSUPPORTED_ENCODING")


def kinds_until_pong(raw, name):
    """Of the frames that come before the answer to a ping, and its own."""
    raw.send(frame(PING, 0, 0, name))
    kinds = []
    for kind, _, _, payload in raw.frames():
        kinds.append(kind)
        if kind == PING and payload == name:
            return kinds
    raise AssertionError(kinds)


def test_a_refusal_waits_for_a_small_body(h):
    """Else what is left of it would be refused in its own way, and there are
    clients that take that for the answer."""
    with Raw(h.port, PATIENCE) as raw:
        raw.send(raw.request(1, False, API + "/enqueue", "POST", [
            ("content-length", "2"), ("content-encoding", "gzip")]))
        for name in (b"the head", b"and then"):
            assert DATA not in kinds_until_pong(raw, name)
        raw.send(frame(DATA, END_STREAM, 1, b"{}"))
        kinds = [*kinds_until_pong(raw, b"the body"),
                 *kinds_until_pong(raw, b"the rest")]
        assert DATA in kinds and RST_STREAM not in kinds


@pytest.mark.parametrize("headers,error", [
    ([("x-long", "y" * 9000)], (431, "HEAD_TOO_LARGE")),
    ([(f"x-{i}", "y") for i in range(120)], (431, "HEAD_TOO_LARGE")),
    ([("content-encoding", "gzip")], (415, "UNSUPPORTED_ENCODING")),
    ([("host", "elsewhere")], (400, "BAD_REQUEST")),
])
def test_heads_that_are_refused(c, headers, error):
    i = c.begin("POST", API + "/enqueue", {"queue": "q"}, headers)
    assert c.answer(i).error() == error
    assert c.ask("GET", "/healthz").status == 200


@pytest.mark.parametrize("path", ["/a b", "nowhere", "", "http://a/b"])
def test_what_can_be_no_path_is_an_error_of_the_protocol(c, path):
    assert c.ask("GET", path).reset == 1  # PROTOCOL_ERROR
    assert c.ask("GET", "/healthz").status == 200


@pytest.mark.parametrize("path,error", [
    ("/\\", (404, "NOT_FOUND")),
    ("/" + "p" * 5000, (414, "URI_TOO_LONG")),
    (API + "/queues?" + "&".join(f"a{i}=1" for i in range(200)),
     (431, "HEAD_TOO_LARGE")),
])
def test_paths_that_are_refused(c, path, error):
    assert c.ask("GET", path).error() == error


def test_requests_of_other_hosts_are_refused(c):
    i = c.begin("GET", API + "/queues", authority="evil.example")
    assert c.answer(i).error() == (421, "MISDIRECTED")


def test_curl_asks_by_prior_knowledge(h):
    p = subprocess.run(
        ["curl", "-sS", "--http2-prior-knowledge", "-w", "%{http_version}",
         f"http://127.0.0.1:{h.port}{API}/enqueue", "-d", '{"queue": "q"}'],
        check=True, capture_output=True, timeout=PATIENCE)
    assert b'"job_id"' in p.stdout and p.stdout.endswith(b"2")


def test_the_preface_may_come_in_pieces(h):
    with h.connect() as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(len(PREFACE)):
            s.sendall(PREFACE[i:i + 1])
        s.sendall(frame(SETTINGS))
        assert s.recv(9)[3] == SETTINGS


# --- streams, and clients that leave ---------------------------------------


def test_an_event_stream(h, c):
    i = c.begin("GET", API + "/events")
    j = c.begin("GET", API + "/events", headers=[("last-event-id", "1")])
    while c.answers[j].body.count(b"event: ") < 2:
        c.read()
    assert c.answers[i].headers["content-type"] == "text/event-stream"
    assert b"id: 3\n\n" in c.answers[i].body
    assert c.ask("GET", "/healthz").status == 200
    c.reset(i)
    c.reset(j)
    assert c.ask("GET", "/healthz").status == 200
    wait_until(lambda: b"corvo_lifecycle_streams_open 0\n" in
               h.request("GET", "/metrics").body, "the streams to be gone")


def numbers(h):
    lines = h.get("/metrics").body.decode().splitlines()
    pairs = (x.rsplit(" ", 1) for x in lines if not x.startswith("#"))
    return {name: float(value) for name, value in pairs}


def test_a_fetch_that_is_taken_back_is_cancelled(h, c):
    before = len(h.backend.seen("cancel"))
    i = c.begin("POST", API + "/fetch", {"queues": ["taken-back"]})
    h.backend.wait("request", "fetch", queues=["taken-back"])
    c.reset(i)
    h.backend.wait("cancel", count=before + 1)
    assert c.ask("GET", "/healthz").status == 200


def test_fetches_of_a_client_that_left_are_cancelled(h):
    before = len(h.backend.seen("cancel"))
    with Client(h.port, PATIENCE) as c:
        for i in range(5):
            c.begin("POST", API + "/fetch", {"queues": [f"h2-left-{i}"]})
        for i in range(5):
            h.backend.wait("request", "fetch", queues=[f"h2-left-{i}"])
    h.backend.wait("cancel", count=before + 5)


@pytest.mark.parametrize("path", ["/enqueue", "/fetch", "/webhooks/unwanted"])
@pytest.mark.parametrize("leaves", ["stream", "connection"])
def test_a_request_that_is_taken_back_while_it_is_read(h, leaves, path):
    """Nothing is done for it, and nothing of it stays."""
    body = b'{"%s": "%s"}' % (
        b'queues": ["unwanted"], "x' if path == "/fetch"
        else b'queue": "unwanted", "payload', b"\\n" * (1 << 18))
    for _ in range(10):
        with Client(h.port, PATIENCE) as c:
            i = c.begin("POST", API + path, body[:-1], end=False)
            # its end, and that nobody waits for it, in one
            c.h2.send_data(i, body[-1:], end_stream=True)
            if leaves == "stream":
                c.h2.reset_stream(i, 8)
            else:
                c.h2.close_connection()
            c.flush()
            if leaves == "stream":
                assert c.ask("GET", "/healthz").status == 200
    wait_until(lambda: numbers(h)["corvo_http_memory_bytes"] < 1 << 18,
               "its memory")
    assert numbers(h)["corvo_http_requests_in_flight"] == 1  # this one
    assert not h.backend.seen("request", "enqueue", queue="unwanted")
    assert not h.backend.seen("request", "fetch", queues=["unwanted"])


def test_more_than_a_connection_may_have_at_once(h):
    """Those beyond are refused in a way that says: send it again."""
    body = json.dumps({"queues": ["many-h2"]}).encode()
    with Raw(h.port, PATIENCE) as c:
        for i in range(1, 257, 2):
            c.send(c.request(i, False, API + "/fetch", "POST") +
                   frame(DATA, END_STREAM, i, body))
        h.backend.wait("request", "fetch", count=128, queues=["many-h2"])
        c.send(c.request(257))
        refused = next(f for f in c.frames() if f[0] == RST_STREAM)
        assert refused[2:] == (257, struct.pack(">I", 7))  # REFUSED_STREAM


def test_a_drain_ends_connections_in_order():
    with node() as h, Client(h.port, PATIENCE) as c:
        waits = c.begin("POST", API + "/fetch", {"queues": ["drained"]})
        h.backend.wait("request", "fetch", queues=["drained"])
        os.kill(h.proc.pid, signal.SIGTERM)
        assert c.answer(waits).status == 204
        while c.read():
            pass
        assert c.gone == 0
        assert h.proc.wait(PATIENCE) == 0


def test_a_drain_ends_a_connection_that_always_asks():
    """From some moment on its requests are not taken; it is told so."""
    with node() as h, Client(h.port, PATIENCE) as c:
        asked = [c.begin("GET", "/healthz")]
        os.kill(h.proc.pid, signal.SIGTERM)
        while c.gone is None or h.proc.poll() is None:
            try:
                asked.append(c.begin("GET", "/healthz"))
                a = c.answer(asked[-2])
            except (OSError, h2.exceptions.ProtocolError):
                break
            if not a.over:
                break
            assert a.status == 200
        assert h.proc.wait(PATIENCE) == 0


def test_the_access_log_names_the_protocol(tmp_path):
    log = tmp_path / "access"
    with node(f"--access-log={log}") as h:
        with Client(h.port, PATIENCE) as c:
            assert c.ask("GET", "/healthz").status == 200
        assert h.request("GET", "/readyz").status in (200, 503)
        wait_until(lambda: log.read_text().count("\n") == 2, "two lines")
    two, one = log.read_text().splitlines()
    assert '"GET /healthz HTTP/2" 200' in two
    assert '"GET /readyz HTTP/1.1"' in one
