"""corvo-httpd alone: more connections than there are places for.

httpd_fixture.py starts it with a raftd and a viewd of canned answers.
"""

import contextlib
import itertools
import json
import select
import socket
import struct
import threading
import time
from pathlib import Path

import pytest

from h2client import (DATA, END_STREAM, PING, RST_STREAM, WINDOW_UPDATE,
                      Client, Raw, frame)
from httpd_fixture import (PATIENCE, is_closed, node, read_answer, send,
                           wait_until)

PLACES = 20


@pytest.fixture
def h():
    with node(f"--max-connections={PLACES}", "--request-timeout=5s") as httpd:
        yield httpd


@pytest.fixture
def steady():
    """Only others end what does not go on."""
    with node(f"--max-connections={PLACES}", "--request-timeout=1h",
              "--answer-timeout=1h") as httpd:
        yield httpd


@pytest.fixture
def stack():
    with contextlib.ExitStack() as s:
        yield s


def open_idle(h, stack):
    """A connection that has asked something, and now waits."""
    s = stack.enter_context(h.connect())
    send(s, "GET", "/api/v1/info")
    assert read_answer(s.makefile("rb"))[0] == 200
    return s


def open_busy(h, stack, queue):
    s = stack.enter_context(h.connect())
    send(s, "POST", "/api/v1/fetch", {"queues": [queue]})
    h.backend.wait("request", "fetch", queues=[queue])
    return s


def open_silent(h, stack):
    return stack.enter_context(h.connect())


def is_open(s):
    """It answers."""
    send(s, "GET", "/healthz")
    answer = read_answer(s.makefile("rb"))
    return answer is not None and answer[0] == 200


def metric(h, name):
    text = h.request("GET", "/metrics").body.decode()
    return float(next(x for x in text.splitlines()
                      if x.startswith(name + " ")).split()[1])


def test_the_one_that_is_idle_for_longest_makes_room(h, stack):
    idle = [open_idle(h, stack) for _ in range(PLACES)]
    assert is_open(idle[0])  # and so it is not the one
    s = open_silent(h, stack)
    assert is_open(s)
    assert is_closed(idle[1])
    assert all(is_open(x) for x in idle[2:] + idle[:1] + [s])


def test_then_the_one_that_is_silent_for_longest(h, stack):
    busy = [open_busy(h, stack, f"b{i}") for i in range(PLACES - 3)]
    silent = [open_silent(h, stack) for _ in range(3)]
    # an HTTP/1 request and one of HTTP/2: each takes the place of one
    assert is_open(open_silent(h, stack))
    assert is_closed(silent[0])
    busy.append(open_busy(h, stack, "last"))  # of the one that is idle now
    with Client(h.port, PATIENCE) as c:
        assert c.ask("GET", "/healthz").status == 200
    assert is_closed(silent[1])
    for i, s in enumerate(busy[:3]):
        h.post("/enqueue", {"queue": f"b{i}"})
        assert read_answer(s.makefile("rb"))[0] == 200


def test_silent_ones_hold_up_nobody(h, stack):
    """However many there are, also those that send half a preface."""
    for i in range(5 * PLACES):
        s = open_silent(h, stack)
        if i % 2:
            s.sendall(b"PRI * HTTP/2.0")
    for _ in range(PLACES):
        assert h.post("/enqueue", {"queue": "q"}).status == 201


def test_when_all_are_at_work_newcomers_are_told(h, stack):
    busy = [open_busy(h, stack, f"w{i}") for i in range(PLACES)]
    for _ in range(3):
        r = h.post("/enqueue", {"queue": "q"})
        assert r.error() == (429, "OVERLOADED")
        assert r.headers["Retry-After"] == "1"
        assert "max_connections" in r.json()["error"]
        with Client(h.port, PATIENCE) as c:
            a = c.ask("POST", "/api/v1/enqueue", {"queue": "q"})
            assert a.error() == (429, "OVERLOADED")
            assert c.is_ended()
    for path in ("/healthz", "/readyz"):
        r = h.request("GET", path)
        assert r.status in (200, 503) and r.headers["Connection"] == "close"
        with Client(h.port, PATIENCE) as c:
            assert c.ask("GET", path).status == r.status
    busy.pop().close()  # one place is free
    wait_until(lambda: h.post("/enqueue", {"queue": "q"}).status == 201,
               "a place")
    assert metric(h, "corvo_http_connections_extra_total") >= 8


def test_those_that_are_told_and_stay_hold_up_nobody(h, stack):
    """There are few places for them, and they lose them to others."""
    for i in range(PLACES):
        open_busy(h, stack, f"s{i}")
    for _ in range(100):
        s = open_silent(h, stack)
        send(s, "POST", "/api/v1/enqueue", {"queue": "q"})
        status, _, body = read_answer(s.makefile("rb"))
        assert status == 429 and json.loads(body)["code"] == "OVERLOADED"
    assert h.request("GET", "/healthz").status == 200


def test_requests_of_http_2_are_counted_as_connections_are(h, stack):
    """Else one connection could have as many as it likes."""
    clients = [stack.enter_context(Client(h.port, PATIENCE))
               for _ in range(2)]
    ids = [c.begin("POST", "/api/v1/fetch", {"queues": ["h2-places"]})
           for c in clients for _ in range(PLACES // 2)]
    assert len(ids) == PLACES
    h.backend.wait("request", "fetch", count=PLACES, queues=["h2-places"])
    a = clients[0].ask("POST", "/api/v1/enqueue", {"queue": "q"})
    assert a.error() == (429, "OVERLOADED")
    # an idle connection is closed in order
    assert h.post("/enqueue", {"queue": "h2-places"}).status == 201


PROBES = 32  # that have places of their own
NO_WINDOW = struct.pack(">HI", 4, 0)  # as a setting, for each stream
LARGE_WINDOW = struct.pack(">HI", 4, 1 << 30)


def crowd(h, stack, n=PLACES):
    """So many places are taken, the last ones, by requests that wait."""
    clients = [stack.enter_context(Client(h.port, PATIENCE))
               for _ in range(2)]
    for i in range(n):
        clients[i % 2].begin("POST", "/api/v1/fetch", {"queues": ["crowd"]})
    h.backend.wait("request", "fetch", count=n, queues=["crowd"])
    assert clients[0].ask("POST", "/api/v1/enqueue", {"queue": "q"}).error() \
        == (429, "OVERLOADED")
    return clients


def odd(n):
    return range(1, 2 * n, 2)


def test_probes_that_do_not_come_completely_are_few(steady, stack):
    """They make room for each other, and are refused then."""
    crowd(steady, stack)
    with Raw(steady.port, PATIENCE) as half:
        half.send(b"".join(half.request(i, end=False) for i in odd(100)))
        refused = []
        for kind, _, stream, _ in half.frames():
            refused += [stream] if kind == RST_STREAM else []
            if len(refused) == 100 - PROBES:
                break
        assert refused == list(odd(100 - PROBES))  # the oldest
        with Client(steady.port, PATIENCE) as c:
            for path in ("/healthz", "/readyz"):
                assert c.ask("GET", path).status in (200, 503)


def test_probes_whose_answers_nobody_reads_hold_up_no_others(steady, stack):
    crowd(steady, stack)
    with Raw(steady.port, PATIENCE, settings=NO_WINDOW) as deaf:
        deaf.send(b"".join(deaf.request(i) for i in odd(100)))
        with Client(steady.port, PATIENCE) as c:
            wait_until(lambda: c.ask("GET", "/healthz").status == 200,
                       "a probe to be answered")


def test_what_has_a_body_is_no_probe(steady, stack):
    crowd(steady, stack)
    with Client(steady.port, PATIENCE) as c:
        assert c.ask("GET", "/healthz", b"x" * 1024).status == 200
        i = c.begin("GET", "/healthz", b"x" * 1024, end=False)
        c.send(i, b"x", end=False)
        assert c.answer(i).error() == (429, "OVERLOADED")


def test_answers_nobody_reads_make_room(steady, stack):
    """Their clients let nothing of them come."""
    with Raw(steady.port, PATIENCE, settings=NO_WINDOW) as deaf:
        deaf.send(b"".join(deaf.request(i, path="/api/v1/info")
                           for i in odd(PLACES + 2)))
        with Client(steady.port, PATIENCE) as c:
            wait_until(lambda: c.ask("POST", "/api/v1/enqueue",
                                     {"queue": "q"}).status == 201, "a place")
            # whoever reads is left alone
            assert c.ask("GET", "/api/v1/info").status == 200
        ended = next(f for f in deaf.frames() if f[0] == RST_STREAM)
        assert ended[2] == 1  # the oldest


DEAF = 5 * PLACES  # streams
REFUSALS = 128  # that are told why, at a time
REFUSED_STREAM = 7


def is_served(c):
    a = c.ask("POST", "/api/v1/enqueue", {"queue": "q"})
    return a.headers.get(":status") == "201"


def test_a_crowd_nobody_reads_holds_up_nobody(steady, stack):
    """However many they are: those that were refused have no place."""
    with Raw(steady.port, PATIENCE, settings=NO_WINDOW) as deaf:
        deaf.send(b"".join(deaf.request(i, path="/api/v1/info")
                           for i in odd(DEAF)))
        with Client(steady.port, PATIENCE) as c:
            wait_until(lambda: is_served(c), "a place")
            deaf.send(frame(PING, payload=bytes(8)))
            ended = [f for f in itertools.takewhile(
                lambda f: f[0] != PING, deaf.frames()) if f[0] == RST_STREAM]
            assert len(ended) == 1  # which is enough for one
            for _ in range(PLACES):
                assert is_served(c)


def reopen(s, n, over):
    """Asks again for each that is ended, until over is set or it is."""
    for kind, _, _, _ in s.frames():
        if over.is_set():
            return
        if kind == RST_STREAM:
            n += 2
            if not s.send(s.request(n, path="/api/v1/info")):
                return


def test_a_crowd_that_comes_again_holds_up_nobody(steady, stack):
    """Each that is ended is opened again at once."""
    deaf = stack.enter_context(
        Raw(steady.port, PATIENCE, settings=NO_WINDOW))
    deaf.send(b"".join(deaf.request(i, path="/api/v1/info")
                       for i in odd(DEAF)))
    over = threading.Event()
    t = threading.Thread(target=reopen, args=(deaf, 2 * DEAF - 1, over))
    t.start()
    try:
        with Client(steady.port, PATIENCE) as c:
            for _ in range(5):
                wait_until(lambda: is_served(c), "a place")
    finally:
        over.set()
        deaf.sock.shutdown(socket.SHUT_RDWR)
        t.join()


def test_more_than_can_be_told_are_refused_at_once(steady, stack):
    """They can be asked again elsewhere: nothing of them was done."""
    crowd(steady, stack)
    deaf = [stack.enter_context(
        Raw(steady.port, PATIENCE, settings=NO_WINDOW)) for _ in range(2)]
    for s in deaf:
        s.send(b"".join(s.request(i, path="/api/v1/info")
                        for i in odd(REFUSALS)))
    refused = next(f for f in deaf[1].frames() if f[0] == RST_STREAM)
    assert refused[3] == struct.pack(">I", REFUSED_STREAM)


def stuck(h, receive=4096):
    """A connection that reads nothing of what fits its windows."""
    s = Raw(h.port, PATIENCE, settings=LARGE_WINDOW, receive=receive)
    s.send(frame(WINDOW_UPDATE, payload=struct.pack(">I", 1 << 30)))
    return s


def test_a_connection_nobody_reads_makes_room(steady, stack):
    """What was taken of answers to the end waits for its socket."""
    deaf = [stack.enter_context(stuck(steady)) for _ in range(PLACES // 4)]
    for s in deaf:  # more than the kernel keeps
        s.send(b"".join(s.request(i, path="/openapi.json")
                        for i in odd(PLACES)))
    c = stack.enter_context(Client(steady.port, PATIENCE))
    wait_until(lambda: c.ask("POST", "/api/v1/enqueue",
                             {"queue": "q"}).status == 201, "a place")


def test_who_reads_slowly_but_steadily_is_left_alone(steady, stack):
    """Though the kernel keeps so much for it that it takes nothing more for
    longer than others are given."""
    slow = stack.enter_context(stuck(steady, 256 << 10))
    body = json.dumps({"queue": "large"}).encode()
    slow.send(slow.request(1, False, "/api/v1/jobs/search", "POST") +
              frame(DATA, END_STREAM, 1, body))
    while len(slow.held) < 1000:  # then it has its place
        slow.held += slow.sock.recv(1000)
    c = crowd(steady, stack, PLACES - 1)[0]
    until = time.monotonic() + 4
    while time.monotonic() < until:  # 400 KB a second
        slow.held += slow.sock.recv(20_000)
        assert not is_served(c)
        select.select([], [], [], 0.05)
    got = 0
    for kind, flags, stream, payload in slow.frames():
        assert kind != RST_STREAM
        got += len(payload) if kind == DATA else 0
        if kind == DATA and flags & END_STREAM:
            break
    assert got >= 7 << 20


def test_a_stream_without_events_is_left_alone(steady, stack):
    """It has nothing to send, and is not stalled for that."""
    quiet = Client(steady.port, PATIENCE)
    stack.enter_context(quiet)
    i = quiet.begin("GET", "/api/v1/events")
    while not quiet.answers[i].body:
        assert quiet.read()
    with Raw(steady.port, PATIENCE, settings=NO_WINDOW) as deaf:
        deaf.send(b"".join(deaf.request(k, path="/api/v1/info")
                           for k in odd(PLACES)))
        with Client(steady.port, PATIENCE) as c:
            wait_until(lambda: c.ask("POST", "/api/v1/enqueue",
                                     {"queue": "q"}).status == 201, "a place")
            for _ in range(PLACES):
                assert c.ask("GET", "/healthz").status == 200
    assert quiet.ask("GET", "/healthz").status == 200
    assert not quiet.is_over(i)


def test_a_silent_connection_is_cut_after_a_time(stack):
    with node("--request-timeout=1s") as h:
        s = open_silent(h, stack)
        half = open_silent(h, stack)
        half.sendall(b"PRI * HTTP/2.0\r\n")
        assert is_closed(s) and is_closed(half)


def test_processes_that_share_a_socket_do_not_wake_each_other(h):
    """The kernel is asked for that, from the first connection on."""
    def lines():
        for f in Path(f"/proc/{h.proc.pid}/fdinfo").glob("*"):
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                yield from f.read_text().splitlines()

    def exclusive():
        return [line for line in lines() if line.startswith("tfd:") and
                int(line.split("events:")[1].split()[0], 16) & 1 << 28]

    assert h.request("GET", "/healthz").status == 200
    assert len(exclusive()) == 1
    assert h.request("GET", "/healthz").status == 200
