"""Clients that are slow, silent or half gone do not hold a node up."""

import http.client
import socket
import time

import pytest

from node import API, wait_until

NODE_FLAGS = ["--request-timeout=1s", "--idle-timeout=2s"]
HEAD = (b"POST /api/v1/enqueue HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Length: 100\r\n\r\n")
LATEST_S = 25.0  # far above any of the limits, below the defaults


def connect(node):
    s = socket.create_connection(("127.0.0.1", node.port), LATEST_S)
    s.settimeout(LATEST_S)
    return s


def read_all(s):
    """Everything until the server closes; a timeout fails the test."""
    got = b""
    try:
        while chunk := s.recv(65536):
            got += chunk
    except ConnectionResetError:
        pass
    return got


def drip(s, data, gap=0.1):
    """Sends byte by byte until the server has enough of it."""
    s.settimeout(gap)
    got = b""
    for i in range(len(data)):
        try:
            s.sendall(data[i:i + 1])
            chunk = s.recv(65536)
            if chunk == b"":
                return got, True
            got += chunk
        except TimeoutError:
            continue
        except (BrokenPipeError, ConnectionResetError):
            return got, True
    return got, False


def assert_408_or_closed(got):
    if got:
        assert got.startswith(b"HTTP/1.1 408 "), got
        assert b"REQUEST_TIMEOUT" in got


@pytest.fixture(autouse=True)
def still_works(node):
    yield
    with node.client() as c:
        c.enqueue("alive")


def test_body_that_never_arrives(node):
    began = time.monotonic()
    with connect(node) as s:
        s.sendall(HEAD)
        got = read_all(s)
    assert_408_or_closed(got)
    assert 0.8 < time.monotonic() - began < LATEST_S


def test_body_that_stops_half_way(node):
    with connect(node) as s:
        s.sendall(HEAD + b'{"queue":"slow","pay')
        assert_408_or_closed(read_all(s))


def test_body_that_drips(node):
    """Each byte is in time, the whole is not."""
    with connect(node) as s:
        s.sendall(HEAD)
        got, closed = drip(s, b" " * 100)
    assert closed
    assert_408_or_closed(got)


def test_head_that_drips(node):
    began = time.monotonic()
    with connect(node) as s:
        got, closed = drip(s, b"POST /api/v1/enqueue HTTP/1.1\r\nHost: " +
                           b"x" * 500)
    assert closed, "a head may not take for ever"
    assert time.monotonic() - began < LATEST_S
    assert_408_or_closed(got)


def test_head_that_stops(node):
    with connect(node) as s:
        s.sendall(b"POST /api/v1/enqueue HTTP/1.1\r\nHost:")
        assert_408_or_closed(read_all(s))


def test_connection_that_says_nothing(node):
    began = time.monotonic()
    with connect(node) as s:
        assert read_all(s) == b""
    assert time.monotonic() - began < LATEST_S


def test_idle_keep_alive_is_closed(node):
    with connect(node) as s:
        s.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        began = time.monotonic()
        got = read_all(s)
        took = time.monotonic() - began
    assert got.startswith(b"HTTP/1.1 200")
    assert 1.5 < took < LATEST_S, took


def test_client_that_closes_its_half(node):
    """Half-closed after the request: the answer still comes."""
    with connect(node) as s:
        s.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        s.shutdown(socket.SHUT_WR)
        assert read_all(s).startswith(b"HTTP/1.1 200")


def test_client_that_reads_nothing(node):
    """Answers pile up in the socket; others are served meanwhile."""
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.settimeout(1)
        s.connect(("127.0.0.1", node.port))
        request = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
        try:
            for _ in range(200):
                s.sendall(request)
        except (TimeoutError, BrokenPipeError, ConnectionResetError):
            pass
        with node.client() as c:
            for _ in range(50):
                assert c.get("/healthz").status == 200


def test_client_that_leaves_during_its_body(node):
    with node.client() as c:
        before = c.queue("slow")
    for n in range(0, 40, 5):
        with connect(node) as s:
            s.sendall(HEAD + b'{"queue":"slow"}'[:n])
    with node.client() as c:
        assert c.queue("slow") == before


def test_long_poll_is_not_an_idle_connection(node):
    """A parked fetch outlives both limits."""
    with node.client() as c:
        began = time.monotonic()
        assert c.fetch("nothing", timeout=3) is None
        assert time.monotonic() - began > 2.9


def test_many_slow_ones_at_a_time(node):
    crowd = [connect(node) for _ in range(300)]
    for s in crowd:
        s.sendall(HEAD + b"{")
    began = time.monotonic()
    with node.client() as c:
        for _ in range(20):
            c.enqueue("beside")
    assert time.monotonic() - began < LATEST_S
    for s in crowd:
        assert_408_or_closed(read_all(s))
        s.close()
    with node.client() as c:
        wait_until(lambda: c.metrics()["corvo_http_connections"] <= 2, 10,
                   "the connections to be gone")


def test_expect_100_continue(node):
    body = b'{"queue":"expected"}'
    with connect(node) as s:
        s.sendall(b"POST /api/v1/enqueue HTTP/1.1\r\nHost: localhost\r\n"
                  b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n"
                  % len(body))
        assert s.recv(4096).startswith(b"HTTP/1.1 100")
        s.sendall(body)
        r = http.client.HTTPResponse(s)
        r.begin()
        assert r.status == 201
