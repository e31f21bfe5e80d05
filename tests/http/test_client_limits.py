"""Requests per second and connections of one client address.

One request per second: of several that are sent in one piece only the first
is in time, however busy the machine is. Every test asks from an address of its
own.
"""

import contextlib
import gzip
import itertools
import json
import socket
import time

import pytest

from h2client import Client
from node import patience, wait_until
from remote import PACKED, SERVICE, envelope, make

PROXIES = "127.9.0.0/16, ::1"
NODE_FLAGS = ["--client-max-requests-per-second=1",
              "--client-max-connections=2", f"--trusted-proxies={PROXIES}",
              "--access-log=log"]
numbers = itertools.count(10)


@pytest.fixture
def address():
    return f"127.0.0.{next(numbers)}"


@pytest.fixture
def proxy():
    return f"127.9.0.{next(numbers)}"


def connect(node, source):
    return socket.create_connection(("127.0.0.1", node.port), patience(30),
                                    (source, 0))


def get(head="", path="/healthz"):
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{head}\r\n".encode()


def from_(*addresses):
    return get(f"X-Forwarded-For: {', '.join(addresses)}\r\n")


def read(f):
    """(status, headers, body) or None at the end."""
    line = f.readline()
    if not line:
        return None
    headers = {}
    while text := f.readline().strip():
        name, value = text.decode().split(":", 1)
        headers[name.lower()] = value.strip()
    return (int(line.split()[1]), headers,
            f.read(int(headers["content-length"])))


def ask(node, source, *requests):
    """The statuses of requests sent in one piece."""
    with connect(node, source) as s, s.makefile("rb") as f:
        s.sendall(b"".join(requests))
        return [read(f)[0] for _ in requests]


def refused(client, reason):
    return client.metrics()[
        f'corvo_http_client_refused_total{{reason="{reason}"}}']


def refused_by(node, reason):
    """The same of a node that may refuse to tell it for a moment."""
    name = f'corvo_http_client_refused_total{{reason="{reason}"}} '.encode()

    def tell():
        with node.client() as c:
            return [float(x.split()[-1])
                    for x in c.get("/metrics").body.splitlines()
                    if x.startswith(name)]
    return wait_until(tell, 20, "the metrics")[0]


def test_off_by_default(make_node):
    node = make_node().start()
    forged = from_("192.0.2.1")
    assert ask(node, "127.0.0.5", *[forged] * 200) == [200] * 200
    socks = [connect(node, "127.0.0.5") for _ in range(50)]
    for s in socks:
        s.sendall(get())
        assert s.recv(100).startswith(b"HTTP/1.1 200")
        s.close()
    with node.client() as c:
        assert refused(c, "requests") == refused(c, "connections") == 0


def test_too_many_requests_are_refused_and_later_served(node, address):
    with connect(node, address) as s, s.makefile("rb") as f:
        s.sendall(get() + get() + get())
        assert read(f)[0] == 200
        status, headers, body = read(f)
        assert (status, headers["retry-after"]) == (429, "1")
        assert b'"code":"RATE_LIMITED"' in body
        assert b'"retry_after_ms":1000' in body
        assert "connection" not in headers and headers["x-request-id"]
        assert read(f)[0] == 429

        def again():
            s.sendall(get())
            return read(f)[0] == 200
        wait_until(again, 20, "a request to be served again")


def test_a_burst_of_one_second_is_served(make_node):
    node = make_node("--client-max-requests-per-second=50").start()
    statuses = ask(node, "127.0.0.6", *[get()] * 100)
    assert statuses[:50] == [200] * 50
    assert 429 in statuses and set(statuses) == {200, 429}


def test_large_bodies_are_refused_at_their_head(node, address):
    for head in ("Content-Length: 1000000\r\n",
                 "Transfer-Encoding: chunked\r\n"):
        with connect(node, address) as s, s.makefile("rb") as f:
            s.sendall(get() + b"POST /api/v1/enqueue HTTP/1.1\r\nHost: "
                      b"localhost\r\n" + head.encode() + b"\r\n")
            assert read(f)[0] in (200, 429)
            status, headers, body = read(f)
            assert (status, headers["connection"]) == (429, "close")
            assert b"RATE_LIMITED" in body
            assert read(f) is None


def test_bytes_of_bodies_and_answers_count(make_node):
    """An enqueue of 250 kB is 61 requests more; so is what shows it."""
    node = make_node("--client-max-requests-per-second=10").start()
    with connect(node, "127.0.0.9") as s, s.makefile("rb") as f:
        body = b'{"queue":"q","payload":"%s"}' % (b"x" * 250000)
        s.sendall(b"POST /api/v1/enqueue HTTP/1.1\r\nHost: localhost\r\n"
                  b"Content-Length: %d\r\n\r\n" % len(body) + body + get())
        status, _, text = read(f)
        assert status == 201
        assert read(f)[0] == 429
    with connect(node, "127.0.1.9") as s, s.makefile("rb") as f:
        path = f"/api/v1/jobs/{json.loads(text)['job_id']}"
        s.sendall(get(path=path) + get())
        assert read(f)[0] == 200
        assert read(f)[0] == 429


LARGE = '"' + "x" * 200000 + '"'  # packed it is less than a thousand bytes


def test_bytes_of_a_packed_body_count_as_what_they_become(make_node):
    node = make_node("--client-max-requests-per-second=10").start()
    body = gzip.compress(make("EnqueueRequest", queue="q", payload_json=LARGE)
                         .SerializeToString())
    with connect(node, "127.0.0.9") as s, s.makefile("rb") as f:
        s.sendall(f"POST {SERVICE}Enqueue HTTP/1.1\r\nHost: localhost\r\n"
                  "Content-Type: application/proto\r\n"
                  "Content-Encoding: gzip\r\n"
                  f"Content-Length: {len(body)}\r\n\r\n".encode() + body +
                  get())
        assert read(f)[0] == 200
        assert read(f)[0] == 429


def test_bytes_of_a_packed_message_count_as_what_they_become(make_node):
    node = make_node("--client-max-requests-per-second=10").start()
    frame = gzip.compress(make(
        "LifecycleStreamRequest", request_id=1, enqueues=[
            make("LifecycleEnqueueItem", queue="q", payload_json=LARGE)])
        .SerializeToString())
    with Client(node.port, patience(30)) as c:
        i = c.begin("POST", SERVICE + "StreamLifecycle", headers=[
            ("content-type", "application/grpc"), ("te", "trailers"),
            ("grpc-encoding", "gzip")], end=False)
        c.send(i, envelope(PACKED, frame), end=False)
        while not c.answers[i].body:
            assert c.read()
        assert c.ask("GET", "/healthz").status == 429


def test_a_body_beyond_the_rate_is_read_at_the_rate(make_node):
    """40 kB per second, and as much at once: 160 kB take three seconds."""
    node = make_node("--client-max-requests-per-second=10").start()
    body = b'{"queue":"q","payload":"%s"}' % (b"x" * 160000)
    with connect(node, "127.0.0.9") as s, s.makefile("rb") as f:
        began = time.monotonic()
        s.sendall(b"POST /api/v1/enqueue HTTP/1.1\r\nHost: localhost\r\n"
                  b"Content-Length: %d\r\n\r\n" % len(body) + body)
        assert ask(node, "127.0.1.9", get()) == [200]  # others do not wait
        assert read(f)[0] == 201
        assert time.monotonic() - began > 2
    with connect(node, "127.0.0.9") as s:
        s.sendall(b"POST /api/v1/enqueue HTTP/1.1\r\nHost: localhost\r\n"
                  b"Content-Length: %d\r\n\r\n" % len(body) + body)
        node.stop()  # also while one waits


def test_who_goes_on_is_refused_late_and_then_not_let_in(make_node):
    node = make_node("--client-max-requests-per-second=1").start()

    def takes_long():
        """Half of a hundred is told at once, of the others every tenth
        waits for a tenth of a second."""
        began = time.monotonic()
        assert set(ask(node, "127.0.0.6", *[get()] * 160)) <= {200, 429}
        return time.monotonic() - began > 0.5
    wait_until(takes_long, 20, "refusals to be late")

    def is_shut_out():
        with contextlib.ExitStack() as others:
            try:
                for _ in range(30):
                    s = others.enter_context(connect(node, "127.0.0.6"))
                    s.sendall(get() * 10)
                    if s.recv(100) == b"":
                        return True
            except ConnectionError:
                return True
        return False
    wait_until(is_shut_out, 20, "connections to be closed at once")
    assert ask(node, "127.0.1.6", get()) == [200]

    def is_let_in():
        with contextlib.suppress(ConnectionError):
            with connect(node, "127.0.0.6") as s:
                s.sendall(get())
                return s.recv(100).startswith(b"HTTP/1.1 ")
        return None
    wait_until(is_let_in, 20, "to be let in again", every=0.5)


def test_connections_without_a_request_count(make_node):
    node = make_node("--client-max-requests-per-second=5").start()
    for _ in range(10):
        connect(node, "127.0.0.6").close()
    wait_until(lambda: refused_by(node, "requests") > 0, 20,
               "a connection to be one too many")


def test_addresses_do_not_disturb_each_other(node, address):
    assert ask(node, address, get(), get()) == [200, 429]
    assert ask(node, f"127.0.1.{next(numbers)}", get(), get()) == [200, 429]


def test_forwarded_is_ignored_from_who_is_not_trusted(node, address):
    assert ask(node, address, from_("192.0.2.1"), from_("192.0.2.2"),
               from_("192.0.2.3")) == [200, 429, 429]


def test_forwarded_of_a_proxy_is_the_client(node, proxy):
    a, b = "192.0.2.10", "2001:db8:0:1::1"
    assert ask(node, proxy, from_(a), from_(b), from_(a)) == [200, 200, 429]
    # one network of 64 bits, however it is written; and ports
    assert ask(node, proxy, from_("2001:db8:0:2::1"),
               from_("[2001:DB8:0:2::77]:443"), from_("2001:db8:0:3::1"),
               from_("192.0.2.11:5000"), from_("::ffff:192.0.2.11")) == [
                   200, 429, 200, 200, 429]
    wait_until(lambda: "caller=2001:db8:0:1::1" in node.log()
               and f"caller={a}" in node.log(), 10, "the callers in the log")


def test_a_client_cannot_write_itself_another_address(node, proxy):
    """The proxy appends what it saw, to the line or in one of its own."""
    first = from_("198.51.100.1", "192.0.2.20")
    second = from_("198.51.100.2", "192.0.2.20")
    third = get("X-Forwarded-For: 198.51.100.3\r\n"
                "X-Forwarded-For: 192.0.2.20\r\n")
    assert ask(node, proxy, first, second, third) == [200, 429, 429]


def test_a_chain_of_proxies_is_followed(node, proxy):
    chain = from_("192.0.2.30", "127.9.1.1", "::1")
    lines = get("X-Forwarded-For: 198.51.100.9, 192.0.2.30\r\n"
                "X-Forwarded-For: 127.9.1.1\r\n")
    other = from_("192.0.2.31", "127.9.1.1")
    assert ask(node, proxy, chain, lines, other) == [200, 429, 200]
    # all are trusted: the first
    assert ask(node, proxy, from_("127.9.7.1", "127.9.1.1"),
               from_("127.9.7.1"), from_("127.9.7.2")) == [200, 429, 200]


@pytest.mark.parametrize("text", ["", "unknown", "192.0.2.40,", "1.2.3",
                                  "192.0.2.40, _hidden", "::", "[1.2.3.4]",
                                  "192.0.2.40:x", "::1%eth0"])
def test_what_cannot_be_read_counts_for_the_proxy(node, proxy, text):
    first = get()
    assert ask(node, proxy, first, from_(text),
               from_("192.0.2.41", text) if text else get()) == [200, 429, 429]


def test_connections_beyond_the_limit_are_refused(node, address):
    before = refused_by(node, "connections")
    socks = [connect(node, address) for _ in range(2)]
    socks[0].sendall(get())
    assert socks[0].recv(100).startswith(b"HTTP/1.1 ")
    with connect(node, address) as s, s.makefile("rb") as f:
        s.sendall(get())
        status, headers, body = read(f)
        assert (status, headers["retry-after"]) == (429, "1")
        assert b"RATE_LIMITED" in body and b"client_max_connections" in body
        assert read(f) is None
    assert ask(node, f"127.0.1.{next(numbers)}", get()) == [200]
    assert refused_by(node, "connections") > before
    socks.pop().close()

    def is_let_in():
        with connect(node, address) as s, s.makefile("rb") as f:
            s.sendall(get())
            return b"client_max_connections" not in read(f)[2]
    wait_until(is_let_in, 20, "a place for another connection")
    socks.pop().close()


def test_connections_of_proxies_are_not_counted(node, proxy):
    socks = [connect(node, proxy) for _ in range(20)]
    for i, s in enumerate(socks):
        s.sendall(from_(f"192.0.2.{100 + i}"))
        assert s.recv(100).startswith(b"HTTP/1.1 200")
    for s in socks:
        s.close()


def test_a_reload_changes_the_limits(make_node, tmp_path):
    conf = tmp_path / "corvo.conf"
    conf.write_text("")
    node = make_node(f"--config={conf}").start()
    kept = [connect(node, "127.0.0.7") for _ in range(2)]
    for s in kept:
        s.sendall(get())
        assert s.recv(100).startswith(b"HTTP/1.1 200")

    def reload(text):
        n = node.log().count("settings reloaded")
        conf.write_text(text)
        assert node.ask("reload")["ok"]
        wait_until(lambda: node.log().count("settings reloaded") > n, 20,
                   "the reload")

    def is_refused():
        with connect(node, "127.0.0.7") as s, s.makefile("rb") as f:
            s.sendall(get())
            return read(f)[0] == 429

    reload("client_max_connections = 2\n")
    wait_until(is_refused, 20, "the limit of connections")
    reload("client_max_requests_per_second = 1\ntrusted_proxies = ::1\n")
    wait_until(lambda: ask(node, "127.0.0.8", get(), get())[1] == 429, 20,
               "the limit of requests")
    reload("")
    wait_until(lambda: ask(node, "127.0.0.8", *[get()] * 20) == [200] * 20,
               20, "no limit")
    for s in kept:
        s.close()


@pytest.mark.parametrize("text", ["10.0.0.1/8", "nowhere", "10.0.0.0/33",
                                  "::/129", "10.0.0.0/8,,::1"])
def test_networks_that_cannot_be_read_are_refused(make_node, text):
    status, words = make_node().refuses(f"--trusted-proxies={text}")
    assert status != 0 and "--trusted-proxies" in words


def test_a_body_in_chunks_beyond_the_rate_is_read_at_the_rate(make_node):
    """The library has chunks that have come already while it is not to read."""
    node = make_node("--client-max-requests-per-second=40").start()
    pids = node.pids()
    body = b'{"queue":"q"}' + b" " * 400000
    with connect(node, "127.0.0.9") as s, s.makefile("rb") as f:
        s.sendall(b"POST /api/v1/enqueue HTTP/1.1\r\nHost: localhost\r\n"
                  b"Transfer-Encoding: chunked\r\n\r\n")
        s.sendall(b"".join(b"64\r\n%s\r\n" % body[i:i + 100].ljust(100)
                           for i in range(0, len(body), 100)) + b"0\r\n\r\n")
        assert read(f)[0] == 201
    assert node.pids() == pids
