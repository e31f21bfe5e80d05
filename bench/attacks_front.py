"""Clients that make corvo-httpd work for little: packed messages, bodies that
take long to read, requests that never come completely, streams nobody reads.
Each attack is a context manager of a node: it is under way while the block
runs.
"""

import contextlib
import gzip
import random
import struct

from attacks import (API, background, close_all, connect, request)

SERVICE = "/corvo.v1.WorkerService/"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS = 0, 1, 4
END_HEADERS = 4


# --- tools of attackers ---------------------------------------------------


def frame(kind, flags=0, stream=0, payload=b""):
    return (struct.pack(">I", len(payload))[1:]
            + struct.pack(">BBI", kind, flags, stream) + payload)


def text(name):
    return bytes([len(name)]) + name.encode()


def block(path, *more):
    """A head of a POST, as HPACK has it without its tables."""
    fields = ((":method", "POST"), (":path", path), (":scheme", "http"),
              (":authority", "localhost"), *more)
    return b"".join(b"\0" + text(n) + text(v) for n, v in fields)


def h2(node):
    s = connect(node)
    s.sendall(PREFACE + frame(SETTINGS))
    return s


def call(name, body):
    """A packed call by HTTP/1.1."""
    return (f"POST {SERVICE}{name} HTTP/1.1\r\nHost: localhost\r\n"
            "Content-Type: application/proto\r\nContent-Encoding: gzip\r\n"
            f"Content-Length: {len(body)}\r\n\r\n").encode() + body


def unknown_field(data):
    size, n = b"", len(data)
    while n >= 128:
        size, n = size + bytes([n % 128 | 128]), n // 128
    return b"\xc2\xb8\x02" + size + bytes([n]) + data


def zeros():
    """15 MiB in 16 kB."""
    return gzip.compress(unknown_field(bytes(15 << 20)))


def words():
    """15 MiB in no less than a hundredth of it."""
    rng = random.Random(1)
    some = b"".join(rng.randbytes(16) + bytes(1008) for _ in range(256))
    return gzip.compress(unknown_field(some * ((15 << 20) // len(some))))


def members(n=900000):
    return ('{"queue": "large", '
            + ", ".join(f'"m{i:06}": 1' for i in range(n)) + "}").encode()


def go_on(stop, node, act):
    while not stop.is_set():
        with contextlib.suppress(OSError):
            act(node)


@contextlib.contextmanager
def by_many(node, act, n):
    """So many attackers, each over and over."""
    with contextlib.ExitStack() as stack:
        for _ in range(n):
            stack.enter_context(background(go_on, node, act))
        yield


def send_and_wait(data):
    def act(node):
        with connect(node) as s:
            s.sendall(data)
            s.recv(4096)
    return act


# --- attacks: each yields while it is under way ---------------------------


@contextlib.contextmanager
def packed_zeros(node):
    """Calls of 16 kB that would be 15 MiB."""
    with by_many(node, send_and_wait(call("Enqueue", zeros())), 20):
        yield


@contextlib.contextmanager
def packed_words(node):
    """Calls of 15 MiB, packed as well as may be."""
    with by_many(node, send_and_wait(call("Enqueue", words())), 10):
        yield


@contextlib.contextmanager
def packed_streams(node):
    """Streams of packed messages, 40 at a time on a connection."""
    data = words()
    data = struct.pack(">BI", 1, len(data)) + data
    head = block(SERVICE + "StreamLifecycle",
                 ("content-type", "application/grpc"), ("te", "trailers"),
                 ("grpc-encoding", "gzip"))

    def act(node):
        with h2(node) as s:
            ids = range(1, 81, 2)
            s.sendall(b"".join(frame(HEADERS, END_HEADERS, i, head)
                               for i in ids))
            for at in range(0, min(len(data), 49152), 16384):
                s.sendall(b"".join(frame(DATA, 0, i, data[at:at + 16384])
                                   for i in ids))
            s.settimeout(1)
            while s.recv(65536):
                pass
    with by_many(node, act, 4):
        yield


@contextlib.contextmanager
def many_members(node):
    """Bodies with 900,000 members nothing is done with."""
    body = members()
    with by_many(node, send_and_wait(request("POST", "/enqueue", body)), 4):
        yield


@contextlib.contextmanager
def many_ids(node):
    """Bulk operations on 400,000 jobs that are not there."""
    body = ('{"action": "retry", "dry_run": true, "job_ids": ['
            + ", ".join(f'"job_{i:020}"' for i in range(400000))
            + '], "action": "retry"}').encode()
    with by_many(node, send_and_wait(request("POST", "/jobs/bulk", body)), 4):
        yield


@contextlib.contextmanager
def half_heads(node, n=10100):
    """Heads of HTTP/1.1 that do not end."""
    socks = []
    for _ in range(n):
        with contextlib.suppress(OSError):
            s = connect(node)
            socks.append(s)
            s.sendall(b"GET / HTTP/1.1\r\nX: ")
    yield
    close_all(socks)


@contextlib.contextmanager
def half_heads_h2(node, n=10100):
    """The same of HTTP/2."""
    part = PREFACE + frame(SETTINGS) + frame(HEADERS, 0, 1, b"\0")
    socks = []
    for _ in range(n):
        with contextlib.suppress(OSError):
            s = connect(node)
            socks.append(s)
            s.sendall(part)
    yield
    close_all(socks)


def open_streams(node, path, conns=90, streams=127):
    head = block(path, ("content-type", "application/grpc"))
    data = b"".join(frame(HEADERS, END_HEADERS, 2 * i + 1, head)
                    for i in range(streams))
    socks = [h2(node) for _ in range(conns)]
    for s in socks:
        s.sendall(data)
    return socks


@contextlib.contextmanager
def half_requests_h2(node):
    """Requests of HTTP/2 without their bodies: more than may be under way."""
    socks = open_streams(node, API + "/enqueue")
    yield
    close_all(socks)


@contextlib.contextmanager
def streams_without_message(node):
    """Streams of messages of which only the head comes."""
    socks = open_streams(node, SERVICE + "StreamLifecycle")
    yield
    close_all(socks)


def fill_log(node, number=20000):
    with node.client(timeout=120) as c:
        for _ in range(number // 1000):
            a = c.post(f"{API}/enqueue/batch",
                       {"jobs": [{"queue": "events"}] * 1000})
            assert a.status == 201, a


@contextlib.contextmanager
def unread_events(node, n=4000):
    """Event streams from the begin of the log that nobody reads."""
    fill_log(node)
    ask = request("GET", "/events?last_event_id=0")
    socks = []
    for _ in range(n):
        s = connect(node, receive=4096)
        socks.append(s)
        s.sendall(ask)
    yield
    close_all(socks)


ATTACKS = {
    "packed_zeros": packed_zeros,
    "packed_words": packed_words,
    "packed_streams": packed_streams,
    "many_members": many_members,
    "many_ids": many_ids,
    "half_heads": half_heads,
    "half_heads_h2": half_heads_h2,
    "half_requests_h2": half_requests_h2,
    "streams_without_message": streams_without_message,
    "unread_events": unread_events,
}
