"""corvo-httpd alone: clients of HTTP/2 that mean harm.

Each costs bounded memory and is ended, and who asks beside it is answered.
httpd_fixture.py starts it with a raftd and a viewd of canned answers.
"""

import contextlib
import json
import struct

import hpack
import pytest

from h2client import (CONTINUATION, DATA, END_HEADERS, END_STREAM,
                      ENHANCE_YOUR_CALM, GOAWAY, HEADERS, PING, PRIORITY,
                      RST_STREAM, SETTINGS, WINDOW_UPDATE, Client, Raw, frame,
                      head)
from httpd_cost import GROWN_MAX_KB, bounded, ended, held, metric
from httpd_fixture import PATIENCE, node, wait_until

API = "/api/v1"
FLOOD = 20_000  # frames
PADDED = 8  # a flag
BUDGET_KB = 32 << 10  # for answers that wait


@pytest.fixture(scope="module")
def h():
    with node("--request-timeout=2s", "--answer-timeout=2s",
              f"--http-max-memory={BUDGET_KB}KiB") as httpd:
        with Client(httpd.port, PATIENCE) as c:  # what is made once is made
            c.ask("GET", "/openapi.json")
        yield httpd


def flood(h, make, reason):
    """Sends what make gives until it is ended, as it must be."""
    before = ended(h, reason)
    with bounded(h, f"flood, ended for {reason}"), \
            Raw(h.port, PATIENCE) as c:
        sent = 0
        for n in range(FLOOD // 100):
            if not c.send(b"".join(make(c, 100 * n + i) for i in range(100))):
                break
            sent += 100
        code = c.ended_with()
        print(f"{sent} of {FLOOD} frames were taken")
        # a reset may overtake the word that says why
        assert code in (ENHANCE_YOUR_CALM, None)
        assert ended(h, reason) == before + 1


# --- floods ---------------------------------------------------------------


def test_requests_that_are_taken_back_at_once(h):
    flood(h, lambda c, n: c.request(2 * n + 1, path=API + "/queues") +
          frame(RST_STREAM, 0, 2 * n + 1, struct.pack(">I", 8)), "resets")


def test_requests_that_make_the_server_take_them_back(h):
    """A body longer than its head says is an error of that stream."""
    flood(h, lambda c, n: c.request(2 * n + 1, False, API + "/enqueue", "POST",
                                    [("content-length", "1")]) +
          frame(DATA, 0, 2 * n + 1, b"long"), "resets")


@pytest.mark.parametrize("make", [
    lambda c, n: frame(PING, payload=struct.pack(">Q", n)),
    lambda c, n: frame(SETTINGS, payload=struct.pack(">HI", 4, 65535 + n)),
    lambda c, n: frame(SETTINGS),
    lambda c, n: frame(PRIORITY, 0, 2 * n + 1, struct.pack(">IB", 0, 7)),
    lambda c, n: frame(WINDOW_UPDATE, payload=struct.pack(">I", 1)),
    lambda c, n: frame(0x77, payload=b"unknown"),
    lambda c, n: (c.request(1, False, API + "/enqueue", "POST") if n == 0
                  else frame(DATA, 0, 1)),
    lambda c, n: (c.request(1, False, API + "/enqueue", "POST") if n == 0
                  else frame(DATA, PADDED, 1, b"\0")),
], ids=["ping", "settings", "empty settings", "priority", "window", "unknown",
        "empty data", "padding"])
def test_frames_that_ask_for_nothing(h, make):
    flood(h, make, "frames")


def test_a_head_in_ever_more_pieces(h):
    """Not even the first pieces are kept for long."""
    with bounded(h, "continuations"), Raw(h.port, PATIENCE) as c:
        c.send(frame(HEADERS, END_STREAM, 1, head()))
        piece = hpack.Encoder().encode([("x-a", "b" * 1000)])
        for _ in range(2000):
            if not c.send(frame(CONTINUATION, 0, 1, piece)):
                break
        assert c.ended_with() != 0


# a value that nobody may send is left out of the head, but is looked at
VALUES = pytest.mark.parametrize("end", ["", "\x01"], ids=["good", "malformed"])


@VALUES
def test_a_head_that_unpacks_to_far_more(h, end):
    """4 KB in the table, named by one byte again and again."""
    before = ended(h, "head")
    with bounded(h, "a packed head"), Raw(h.port, PATIENCE) as c:
        e = hpack.Encoder()
        first = e.encode([(":method", "GET"), (":path", "/healthz"),
                          (":scheme", "http"), (":authority", "localhost")])
        # literal with indexing, then the index of it
        long = (b"\x40" + hpack.hpack.encode_integer(3, 7) + b"x-a" +
                hpack.hpack.encode_integer(3900 + len(end), 7) +
                b"y" * 3900 + end.encode())
        again = b"\xbe" * 12_000
        c.send(frame(HEADERS, END_STREAM | END_HEADERS, 1,
                     bytes(first) + long + again))
        assert c.ended_with() in (ENHANCE_YOUR_CALM, None)
    assert ended(h, "head") == before + 1


@VALUES
def test_trailers_that_unpack_to_far_more(h, end):
    """The head before them is a good one."""
    before = ended(h, "head")
    with bounded(h, "trailers"), Raw(h.port, PATIENCE) as c:
        enc = hpack.Encoder()
        c.send(frame(HEADERS, END_HEADERS, 1,
                     head(API + "/enqueue", "POST", encoder=enc)))
        c.send(frame(DATA, 0, 1, b'{"queue": "trailers"}'))
        trailers = [("x", "y" * 3000 + end)]
        block = enc.encode(trailers, huffman=False)
        again = enc.encode(trailers, huffman=False)
        assert len(again) == 1  # a place in the table
        c.send(frame(HEADERS, END_HEADERS | END_STREAM, 1,
                     block + again * 10000))
        assert c.ended_with() in (ENHANCE_YOUR_CALM, None)
    assert ended(h, "head") == before + 1
    assert not h.backend.seen("request", "enqueue", queue="trailers")


def test_a_head_that_is_never_done(h):
    before = ended(h, "slow")
    with bounded(h, "half a head"), Raw(h.port, PATIENCE) as c:
        c.send(frame(HEADERS, END_STREAM, 1, head()))
        assert c.ended_with() in (ENHANCE_YOUR_CALM, None)
    assert ended(h, "slow") == before + 1


# --- windows, and half of everything --------------------------------------


def test_answers_that_nobody_takes(h):
    """No window at all: the answers wait for as long as for slow readers."""
    no_window = struct.pack(">HI", 4, 0)
    with Raw(h.port, PATIENCE, no_window) as c:
        with bounded(h, "100 answers without a window",
                     BUDGET_KB + GROWN_MAX_KB):
            c.send(b"".join(c.request(i, path="/openapi.json")
                            for i in range(1, 201, 2)))
            over = set()
            for kind, _, stream, _ in c.frames():
                assert kind not in (DATA, GOAWAY)
                if kind == RST_STREAM:
                    over.add(stream)
                if len(over) == 100:
                    break
        wait_until(lambda: held(h) < 1 << 20, "the memory to be free")
        c.send(c.request(201))  # and the connection is still good
        assert any(f[2] == 201 for f in c.frames())


def test_bodies_that_never_come(h):
    with bounded(h, "100 requests without bodies"), \
            Client(h.port, PATIENCE) as c:
        ids = [c.begin("POST", API + "/enqueue", end=False)
               for _ in range(100)]
        for i in ids:
            assert c.answer(i).error() == (408, "REQUEST_TIMEOUT")
        assert c.ask("GET", "/healthz").status == 200


def test_bodies_that_come_byte_by_byte(h):
    """They count from their head on, and not from their last byte."""
    with Client(h.port, PATIENCE) as c:
        i = c.begin("POST", API + "/enqueue", end=False)
        while not c.answers[i].over:
            c.h2.send_data(i, b" ")
            c.flush()
            c.ask("GET", "/healthz")
        assert c.answers[i].error() == (408, "REQUEST_TIMEOUT")


def test_a_client_that_reads_nothing(h):
    """Its answers fill the socket; then nothing more of it is read."""
    with bounded(h, "requests of a client that reads nothing",
                 BUDGET_KB + GROWN_MAX_KB), \
            Raw(h.port, PATIENCE, struct.pack(">HI", 4, 2**31 - 1)) as c:
        c.sock.settimeout(1)
        c.send(frame(WINDOW_UPDATE, payload=struct.pack(
            ">I", 2**31 - 1 - 65535)))
        with contextlib.suppress(TimeoutError):
            for i in range(1, 40_001, 2):
                if not c.send(c.request(i, path="/openapi.json")):
                    break
        c.sock.settimeout(PATIENCE)
        wait_until(lambda: metric(h, "corvo_http2_connections") == 0,
                   "it to be cut off")


def test_frames_larger_than_agreed(h):
    with Raw(h.port, PATIENCE) as c:
        c.send(c.request(1, False, API + "/enqueue", "POST") +
               frame(DATA, 0, 1, b"x" * 20_000))
        assert c.ended_with() == 6  # FRAME_SIZE_ERROR


def test_more_than_the_window(h):
    with Raw(h.port, PATIENCE) as c:
        body = json.dumps({"queues": ["slow-window"]}).encode()
        c.send(c.request(1, False, API + "/fetch", "POST") +
               frame(DATA, END_STREAM, 1, body))
        c.send(c.request(3, False, API + "/enqueue", "POST"))
        c.send(frame(DATA, END_STREAM, 1, b"more"))
        assert c.ended_with() == 5  # STREAM_CLOSED


def test_an_upgrade_is_no_way_around(h):
    """Of HTTP/1: it is answered in HTTP/1."""
    r = h.request("GET", "/healthz", headers={
        "Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c",
        "HTTP2-Settings": "AAMAAABkAAQAAP__"})
    assert r.status == 200
