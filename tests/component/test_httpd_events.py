"""corvo-httpd alone: what streams of events ask of raftd, and when."""

import socket
import sys
from pathlib import Path

import pytest

from httpd_fixture import PATIENCE, is_closed, node, read_answer, send

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from h2client import Client  # noqa: E402
from remote import SERVICE, envelope, make  # noqa: E402
from sse import EventStream  # noqa: E402

LOG_EVENTS = 3  # in the log of the fake raftd


@pytest.fixture
def h():
    with node() as httpd:
        yield httpd


def asked(h, waiting):
    """Questions for events, those that wait for news or the others."""
    return [e["body"]["after_seq"] for e in h.backend.seen("request", "events")
            if (e["body"].get("wait_ns", 0) > 0) == waiting]


def test_all_streams_share_one_question(h):
    streams = [EventStream(h.port) for _ in range(10)]
    for s in streams:
        assert s.read()[0].id == LOG_EVENTS
    h.backend.wait("request", "events", after_seq=LOG_EVENTS, limit=4096)
    assert asked(h, waiting=True) == [LOG_EVENTS]
    # and one that is behind reads by itself, and then shares it, too
    with EventStream(h.port, last_id=1) as late:
        assert [e["seq"] for e in late.take(2)] == [2, 3]
    assert asked(h, waiting=True) == [LOG_EVENTS]
    for s in streams:
        s.close()


def test_nothing_is_asked_while_nobody_watches(h):
    for _ in range(3):
        with EventStream(h.port) as s:
            s.read()
            h.backend.wait("request", "events", limit=4096)
        # the question that waits is taken back
        h.backend.wait("cancel")
        h.backend.forget()
        h.get("/info")
        assert not h.backend.seen("request", "events")


def test_a_stream_waits_for_raftd_to_come_back(h):
    with EventStream(h.port) as s:
        s.read()
        h.backend.wait("request", "events", limit=4096)
        h.backend.kill()
        h.backend.start()
        again = h.backend.wait("request", "events", count=2, limit=4096)
        assert [e["resend"] for e in again] == [False, True]
        with EventStream(h.port, last_id=0) as other:
            assert [e["seq"] for e in other.take(3)] == [1, 2, 3]


def test_a_refusal_of_raftd_is_answered(h):
    with EventStream(h.port, last_id=LOG_EVENTS + 1) as s:
        assert s.status == 429
        assert s.refusal()["code"] == "OVERLOADED"


def test_a_client_of_http_1_0(h):
    with h.connect() as s:
        s.sendall(b"GET /api/v1/events?last_event_id=2 HTTP/1.0\r\n\r\n")
        got = b""
        while b"event: started\n" not in got:
            got += s.recv(65536)
        assert b"chunked" not in got
        assert got.endswith(b"\n\n")


LONG_LOG, LONG_EVENTS, PAGE = 1000000, 20000, 256  # see fake_log.h


def wait_for_rest(h):
    """Until nothing more is asked for while others are answered."""
    before = -1
    while len(asked(h, waiting=False)) > before:
        before = len(asked(h, waiting=False))
        for _ in range(10):
            assert h.get("/metrics").status == 200


@pytest.mark.parametrize("path", [
    "/api/v1/bulk/bulk_long/progress",
    f"/api/v1/events?last_event_id={LONG_LOG}"])
def test_what_was_read_ahead_is_not_kept_for_who_does_not_read(h, path):
    """It is read anew from where the client is, which is inside of a page."""
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.settimeout(PATIENCE)
        s.connect(("127.0.0.1", h.port))
        send(s, "GET", path)
        h.backend.wait("request", "events")
        wait_for_rest(h)
        last, got = f"\nid: {LONG_LOG + LONG_EVENTS}\n".encode(), b""
        while last not in got:
            got = got[-len(last):] + s.recv(65536)
    behind = [n for n in asked(h, waiting=False) if n >= LONG_LOG]
    assert len(behind) >= LONG_EVENTS // PAGE
    assert any((n - LONG_LOG) % PAGE for n in behind)


def test_a_large_head_leaves_room_for_frames(h):
    with h.connect() as s:
        send(s, "GET", "/api/v1/events?last_event_id=0",
             extra="X-Padding: " + "x" * 6000 + "\r\n")
        got = b""
        while got.count(b"event: started\n") < LOG_EVENTS:
            got += s.recv(65536)


def test_the_connection_is_kept_when_a_stream_was_refused(h):
    with h.connect() as s:
        f = s.makefile("rb")
        send(s, "GET", "/api/v1/events?types=nope")
        assert read_answer(f)[0] == 400
        send(s, "GET", "/api/v1/info")
        assert read_answer(f)[0] == 200


def test_nothing_follows_the_head_of_a_head_request(h):
    with h.connect() as s:
        send(s, "HEAD", "/api/v1/events")
        send(s, "GET", "/api/v1/info")
        f = s.makefile("rb")
        status, headers, _ = read_answer(f)
        assert status == 200
        assert headers["content-type"] == "text/event-stream"
        assert read_answer(f)[0] == 200


def test_a_client_that_closes_half_is_gone(h):
    with h.connect() as s:
        send(s, "GET", "/api/v1/events")
        s.shutdown(1)  # SHUT_WR: it will never ask again
        assert is_closed(s)


def long_subscription():
    """It names the one job of the log, and is longer than a body may be to be
    kept when the answer has begun."""
    m = make("SubscribeRequest", last_event_id=1, job_ids=[
        *(f"{i:064}" for i in range(255)), "job_1"])
    data = m.SerializeToString() + b"\x80\x08\x00"  # a field nobody knows
    assert len(data) > 16 << 10
    return envelope(0, data)


@pytest.mark.parametrize("is_2", [False, True], ids=["1.1", "2"])
def test_a_filter_outlives_the_request_it_came_in(h, is_2):
    """The events come after the body has gone."""
    body = long_subscription()
    kind = "application/connect+proto"
    if is_2:
        with Client(h.port, PATIENCE) as c:
            i = c.begin("POST", SERVICE + "Subscribe", body,
                        [("content-type", kind)])
            while c.answers[i].body.count(b"job_1") < LOG_EVENTS - 1:
                assert c.read()
        return
    got = b""
    with h.connect() as s:
        s.sendall(f"POST {SERVICE}Subscribe HTTP/1.1\r\nHost: localhost\r\n"
                  f"Content-Type: {kind}\r\n"
                  f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        while got.count(b"job_1") < LOG_EVENTS - 1:
            piece = s.recv(65536)
            assert piece
            got += piece
