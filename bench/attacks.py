"""Clients that mean no good. Each attack is a context manager of a node: it is
under way while the block runs.
"""

import contextlib
import functools
import json
import random
import select
import socket
import struct
import threading

from figures import say, wait_for_view, wait_until

API = "/api/v1"
source = "127.0.0.1"  # where the attackers of this process are


# --- tools of attackers ---------------------------------------------------


def connect(node, receive=None):
    s = socket.socket()
    if receive is not None:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
    s.settimeout(30)
    s.bind((source, 0))
    s.connect(("127.0.0.1", node.port))
    return s


def request(method, path, body=b"", length=None, headers=""):
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    n = len(body) if length is None else length
    return (f"{method} {API}{path} HTTP/1.1\r\nHost: localhost\r\n{headers}"
            f"Content-Length: {n}\r\n\r\n").encode() + body


def reset(s):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()


def send_what_is_taken(socks, data):
    """To all of them at once, until nobody takes any more."""
    left = {s: memoryview(data) for s in socks}
    for s in socks:
        s.setblocking(False)
    while left:
        ready = select.select([], list(left), [], 2)[1]
        if not ready:
            return
        for s in ready:
            try:
                left[s] = left[s][s.send(left[s][:1 << 20]):]
                if not left[s]:
                    del left[s]
            except OSError:
                del left[s]


def first_status(s):
    """Of an answer that is there already, or None."""
    s.setblocking(False)
    try:
        return int(s.recv(64).split()[1])
    except (OSError, IndexError, ValueError):
        return None


def close_all(socks):
    for s in socks:
        s.close()


# --- attacks: each yields while it is under way ---------------------------


@contextlib.contextmanager
def unfinished_bodies(node, n=150, declared=15 << 20):
    """Bodies of which the last byte never comes."""
    socks = [connect(node) for _ in range(n)]
    for s in socks:
        s.sendall(request("POST", "/enqueue/batch", length=declared))
    send_what_is_taken(socks, b" " * (declared - 1))
    yield
    told = [first_status(s) for s in socks]
    say("  answered 429 / 408 / nothing", " / ".join(
        str(told.count(code)) for code in (429, 408, None)))
    close_all(socks)


def fill_for_large_answers(node):
    """Jobs a search answers with 8 MB of, unless they are there."""
    with node.client(timeout=120) as c:
        if c.get(f"{API}/queues/large").status == 200:
            return
        payload = "x" * 250000
        jobs = [{"queue": "large", "payload": payload} for _ in range(10)]

        def enqueue():
            a = c.post(f"{API}/enqueue/batch", {"jobs": jobs})
            assert a.status in (200, 201, 429), a
            return a.status != 429
        for _ in range(4):
            wait_until(enqueue, 30, "the rate of one client", every=0.5)
        wait_until(lambda: c.get("/healthz").status == 200, 30,
                   "the rate of one client", every=0.5)
    wait_for_view(node)


@contextlib.contextmanager
def unread_answers(node, n=100):
    """Searches whose answers of 8 MB nobody reads."""
    fill_for_large_answers(node)
    socks = [connect(node, receive=4096) for _ in range(n)]
    ask = request("POST", "/jobs/search", {"queue": "large", "limit": 40})
    for s in socks:
        s.sendall(ask)
        select.select([s], [], [], 30)
    yield
    told = [first_status(s) for s in socks]
    say("  answered 200 / 429 / nothing", " / ".join(
        str(told.count(code)) for code in (200, 429, None)))
    close_all(socks)


@contextlib.contextmanager
def leaving_workers(node, n=20):
    """Workers that are gone before their long poll has waited for 50 ms."""
    lost = 0
    with node.client(timeout=60) as c:
        for i in range(n):
            s = connect(node)
            s.sendall(request("POST", "/fetch", {
                "queues": ["leaving"], "timeout": 30, "worker_id": f"w{i}",
                "lease_duration": 600}))
            wait_until(lambda: c.metrics()["corvo_parked_fetches"] >= 1, 10,
                       "the fetch to wait", every=0.001)
            s.close()
            c.enqueue("leaving")
            job = c.fetch("leaving", timeout=1)
            if job is None:
                lost += 1
            else:
                c.ack(job)
    say("  jobs lost until their lease ended", f"{lost} of {n}", "0")
    yield


def drip_until(stop, socks, data):
    """A byte now and then to each of them; gone ones are left out."""
    for byte in data:
        if stop.is_set():
            return
        for s in socks:
            with contextlib.suppress(OSError):
                s.send(bytes([byte]))
        stop.wait(0.2)


@contextlib.contextmanager
def background(target, *args):
    stop = threading.Event()
    t = threading.Thread(target=target, args=(stop, *args))
    t.start()
    try:
        yield
    finally:
        stop.set()
        t.join()


@contextlib.contextmanager
def slowloris(node, n=1000):
    """Heads and bodies that come a byte at a time."""
    socks = [connect(node) for _ in range(n)]
    for i, s in enumerate(socks):
        s.setblocking(False)
        s.send(request("POST", "/enqueue", length=1000) if i % 2 else
               b"GET /healthz HTTP/1.1\r\nHost: ")
    with background(drip_until, socks, b"x" * 1000):
        yield
    close_all(socks)


def repeat_until(stop, node, act):
    rng = random.Random(1)
    times = 0
    while not stop.is_set():
        with contextlib.suppress(OSError):
            act(node, rng)
        times += 1
    say("  times", times)


def repeated(act):
    """An attack that does one thing over and over."""
    @contextlib.contextmanager
    def attack(node):
        with background(repeat_until, node, act):
            yield
    attack.__doc__ = act.__doc__
    return attack


def flood(node, rng):
    """Many small requests on one connection, of which no answer is read."""
    with connect(node, receive=4096) as s:
        s.settimeout(0.2)
        for _ in range(200):
            s.sendall(request("GET", "/info") * 50)


def garbage(node, rng):
    """Bytes that are no HTTP, or nearly."""
    with connect(node) as s:
        s.sendall(rng.choice((
            rng.randbytes(5000), b"GET / HTTP/1.1\r\n" + rng.randbytes(500),
            request("POST", "/enqueue", rng.randbytes(300)),
            b"POST / HTTP/1.1\r\nHost: localhost\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
            + b"1" * 20000)))
        s.settimeout(0.05)
        s.recv(4096)


def resets(node, rng):
    """Connections that are reset at any moment of a request."""
    text = rng.choice((request("POST", "/enqueue", {"queue": "reset"}),
                       request("POST", "/fetch", {"queues": ["reset"]}),
                       request("GET", "/events")))
    s = connect(node)
    s.sendall(text[:rng.randrange(len(text) + 1)])
    reset(s)


# --- names that collide ---

FOLD = (1 << 64) - 1
PLAIN = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"


def fold(a, b):
    m = a * b
    return (m & FOLD) ^ (m >> 64)


def word(data):
    return int.from_bytes(data, "little")


@functools.cache
def colliding_ids(n=25000):
    """1 MB of ids with one hash, in a table whose keys are known. The second
    half of their second block undoes what the first has made, so that what
    stands between them is multiplied by nothing."""
    rng = random.Random(1)
    while True:
        start = bytes(rng.choices(PLAIN, k=16))
        undo = fold(word(start[:8]) ^ 0xd1b54a32d192ed03,
                    word(start[8:]) ^ 0x9e3779b97f4a7c15).to_bytes(8, "little")
        if all(c in PLAIN for c in undo):
            return [(start + b"%08d" % i + undo + b"_").decode()
                    for i in range(n)]


def crafted_keys(node, rng):
    """1 MB of names of jobs that fall into one bucket of a hash table without
    a secret."""
    with connect(node) as s:
        s.sendall(request("POST", "/jobs/bulk", {
            "action": "retry", "job_ids": colliding_ids()}))
        s.recv(4096)


def chunk_lines(node, rng):
    """Sizes of chunks that go on for 20 kB, from clients that do not stay."""
    with connect(node) as s:
        s.sendall(b"POST /api/v1/enqueue HTTP/1.1\r\nHost: localhost\r\n"
                  b"Content-Type: application/json\r\n"
                  b"Transfer-Encoding: chunked\r\n\r\n" + b"0" * 20000)
        s.settimeout(0.2)
        s.recv(4096)


ATTACKS = {
    "unfinished_bodies": unfinished_bodies,
    "unread_answers": unread_answers,
    "leaving_workers": leaving_workers,
    "slowloris": slowloris,
    "flood": repeated(flood),
    "garbage": repeated(garbage),
    "resets": repeated(resets),
    "crafted_keys": repeated(crafted_keys),
    "chunk_lines": repeated(chunk_lines),
}
