"""Requests of which the rest never comes: they make room for others, they have
an end, and nobody waits for them when a process stops."""

import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import time

import pytest

from h2client import (DATA, END_HEADERS, HEADERS, Client, Raw, frame, head)
from node import API, CORVO, wait_until
from remote import SERVICE, envelope
from sse import EventStream
from waiting import patience

PLACES = 40
GRPC = (("content-type", "application/grpc"), ("te", "trailers"))
LIFECYCLE = SERVICE + "StreamLifecycle"
HEALTH = "/grpc.health.v1.Health/Check"
NODE_FLAGS = [f"--max-connections={PLACES}", "--request-timeout=4m"]


def connect(node, data=b""):
    s = socket.create_connection(("127.0.0.1", node.port), 60)
    s.sendall(data)
    return s


def half_line(node):
    """Half a request line."""
    return connect(node, b"GET /healthz HT")


def half_head(node):
    """A head that does not end."""
    return connect(node, b"GET / HTTP/1.1\r\nX: ")


def half_second_head(node):
    """The same after a request that was answered."""
    s = connect(node, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert s.recv(4096).startswith(b"HTTP/1.1 200")
    s.sendall(b"GET / HTTP/1.1\r\nX: ")
    return s


def half_body(node):
    return connect(node, b"POST /api/v1/enqueue HTTP/1.1\r\nHost: localhost\r\n"
                         b"Content-Length: 100\r\n\r\n{")


def half_chunk(node):
    return connect(node, b"POST /api/v1/enqueue HTTP/1.1\r\nHost: localhost\r\n"
                         b"Transfer-Encoding: chunked\r\n\r\n5\r\n{")


def half_preface(node):
    return connect(node, b"PRI * HTTP/2.0\r\n")


def raw_of(node, data):
    raw = Raw(node.port, 60)
    raw.send(data)
    return raw.sock


def h2_half_head(node):
    block = head("/healthz")
    return raw_of(node, frame(HEADERS, 0, 1, block[:2]))


def h2_half_frame(node):
    return raw_of(node, frame(HEADERS, END_HEADERS, 1, head())[:-1])


def h2_half_body(node):
    return raw_of(node, frame(HEADERS, END_HEADERS, 1,
                              head(f"{API}/enqueue", "POST"))
                  + frame(DATA, 0, 1, b"{"))


def stream_without_message(node):
    return raw_of(node, frame(HEADERS, END_HEADERS, 1,
                              head(LIFECYCLE, "POST", GRPC)))


def stream_with_half_a_message(node):
    return raw_of(node, frame(HEADERS, END_HEADERS, 1,
                              head(LIFECYCLE, "POST", GRPC))
                  + frame(DATA, 0, 1, struct.pack(">BI", 0, 100) + b"x"))


CONNECTIONS = [half_line, half_head, half_second_head, half_preface,
               h2_half_head, h2_half_frame, half_body, half_chunk]
ALL = CONNECTIONS + [h2_half_body, stream_without_message,
                     stream_with_half_a_message]


def named(kinds):
    return pytest.mark.parametrize("kind", kinds, ids=lambda k: k.__name__)


@named(CONNECTIONS)
def test_what_has_come_in_part_makes_room_for_others(node, kind):
    with contextlib.ExitStack() as stack:
        for _ in range(3 * PLACES):
            stack.enter_context(kind(node))
        for _ in range(5):
            with node.client() as c:
                assert c.get("/healthz").status == 200
                c.enqueue("beside")
                c.ack(c.fetch("beside"))


def test_a_body_that_makes_room_is_told_so(node):
    with contextlib.ExitStack() as stack:
        first, *_ = [stack.enter_context(half_body(node))
                     for _ in range(2 * PLACES)]
        answer = first.recv(65536)
        assert answer.startswith(b"HTTP/1.1 429"), answer
        assert json.loads(answer.split(b"\r\n\r\n", 1)[1])["code"] == \
            "OVERLOADED"
        assert first.recv(1) == b""


@named([h2_half_body, stream_without_message])
def test_streams_of_which_only_the_head_has_come(node, kind):
    """More of them than there may be requests: others are still served."""
    path = LIFECYCLE if kind is stream_without_message else f"{API}/enqueue"
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            raw = stack.enter_context(Raw(node.port, 60))
            raw.send(b"".join(frame(HEADERS, END_HEADERS, 2 * i + 1,
                                    head(path, "POST", GRPC))
                              for i in range(100)))
        for _ in range(5):
            with Client(node.port, 60) as c:
                assert c.ask("GET", "/healthz").status == 200
                assert c.ask("POST", f"{API}/enqueue",
                             {"queue": "beside"}).status == 201


def test_probes_have_a_place_where_all_are_at_work(make_node):
    node = make_node("--max-connections=4", "--client-max-connections=0")
    node.start()
    with Client(node.port, 60) as c:
        for i in range(8):
            c.begin("POST", f"{API}/fetch",
                    {"queues": ["none"], "worker_id": f"w{i}", "timeout": 60})
        assert wait_until(lambda: c.ask("GET", f"{API}/info").status == 429,
                          20, "the crowd")
        assert c.ask("GET", "/healthz").status == 200
        assert c.ask("GET", "/readyz").status == 200
        a = c.ask("POST", HEALTH, envelope(0, b""), GRPC)
        assert a.headers["grpc-status"] == "0", a.headers


def test_a_stream_without_a_message_has_an_end(make_node):
    node = make_node("--request-timeout=1s")
    node.start()
    with Client(node.port, 60) as c:
        i = c.begin("POST", LIFECYCLE, headers=GRPC, end=False)
        assert c.answer(i).headers["grpc-status"] == "4"  # its time is over


# --- stopping ---


@pytest.fixture
def halves(make_node):
    """A node with half requests of each kind, and streams that are open."""
    node = make_node("--request-timeout=4m", "--idle-timeout=4m")
    node.start()
    with contextlib.ExitStack() as stack:
        for kind in ALL:
            for _ in range(3):
                stack.enter_context(kind(node))
        stack.enter_context(EventStream(node.port))
        yield node


@pytest.mark.parametrize("name", ["httpd-0", "raftd", "viewd", "sched"])
def test_a_process_is_started_again_beside_half_requests(halves, name):
    node = halves
    before = node.pids()
    began = time.monotonic()
    # a signal of ours means nothing to it: it heeds the supervisor alone
    restart = subprocess.Popen([CORVO, "restart", name, "--data-dir",
                                str(node.data)], stdout=subprocess.DEVNULL)
    wait_until(lambda: node.pids().get(name) not in (None, before[name]), 20,
               "the process to be another", every=0.01)
    assert time.monotonic() - began < 10
    wait_until(node.is_ready, 60, "the node to be ready")
    assert restart.wait(patience(60)) == 0
    if name == "httpd-0":
        assert "refused what had not come completely" in node.log()
    with node.client() as c:
        c.enqueue("after")
    assert {p: i for p, i in node.pids().items() if p != name} == \
        {p: i for p, i in before.items() if p != name}


def test_a_node_stops_beside_half_requests(halves):
    began = time.monotonic()
    halves.stop()
    assert time.monotonic() - began < 20
    assert "refused what had not come completely" in halves.log()
    assert "killed" not in halves.log()


def test_what_had_not_come_is_told_so(make_node):
    node = make_node("--request-timeout=4m")
    node.start()
    kinds = [half_head, half_body, half_chunk]
    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(kind(node)) for kind in kinds]
        raw = stack.enter_context(Raw(node.port, 60))
        raw.send(frame(HEADERS, END_HEADERS, 1, head(f"{API}/enqueue", "POST"))
                 + frame(DATA, 0, 1, b"{"))
        with node.client() as c:
            wait_until(lambda: c.metrics()["corvo_http_connections"] > 4, 20,
                       "all to be there")
        node.process.terminate()
        for s in socks:
            answer = s.recv(65536)
            assert answer.startswith(b"HTTP/1.1 503"), answer
            body = answer.split(b"\r\n\r\n", 1)[1]
            assert json.loads(body)["code"] == "SHUTTING_DOWN"
        assert b"SHUTTING_DOWN" in b"".join(
            payload for kind, *_, payload in raw.frames() if kind == DATA)
        assert node.process.wait(patience(20)) == 0
