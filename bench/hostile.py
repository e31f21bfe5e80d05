#!/usr/bin/env python3
"""Clients that mean no good, one kind at a time, and what they cost.

  hostile.py [ATTACK ...]        none: all of ATTACKS

Each attack has a node of its own. An honest client asks for /healthz and runs
jobs beside it. The memory is corvo-httpd's: before, at most during the attack,
and SETTLE_S after the attackers have gone.
"""

import contextlib
import json
import random
import resource
import select
import socket
import struct
import sys
import threading
import time
from pathlib import Path

from figures import (head, let_pass, median, running_node, say,
                     wait_for_view, wait_until)

API = "/api/v1"
HOLD_S = 8     # how long attackers stay
SETTLE_S = 10  # and how long memory has to come back


# --- tools of attackers ---------------------------------------------------


def connect(node, receive=None):
    s = socket.socket()
    if receive is not None:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
    s.settimeout(30)
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
    """Jobs a search answers with 8 MB of."""
    with node.client(timeout=120) as c:
        payload = "x" * 250000
        for _ in range(4):
            a = c.post(f"{API}/enqueue/batch", {"jobs": [
                {"queue": "large", "payload": payload} for _ in range(10)]})
            assert a.status in (200, 201), a
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
    while not stop.is_set():
        with contextlib.suppress(OSError):
            act(node, rng)


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


def crafted_keys(node, rng):
    """Members of objects and names of jobs that fall into few hash buckets
    of a table without a secret."""
    with connect(node) as s:
        s.sendall(request("POST", "/jobs/bulk-get", {"job_ids": [
            f"job_{i << 20:020x}" for i in range(1000)]}))
        s.sendall(request("POST", "/enqueue", {
            "queue": "keys", "tags": {f"k{i << 16}": "v" for i in range(500)}}))
        s.settimeout(1)
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
}


# --- what it costs --------------------------------------------------------


def memory_mb(pid, name="VmRSS"):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"no {name} of {pid}")


def forget_peak(pid):
    Path(f"/proc/{pid}/clear_refs").write_text("5")


class Honest:
    """A client that works on while others attack."""

    def __init__(self, node):
        self.node = node
        self.stop = threading.Event()
        self.took = []
        self.failed = []
        self.thread = threading.Thread(target=self.run)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()

    def one(self, c):
        began = time.monotonic()
        c.enqueue("honest")
        job = c.fetch("honest", timeout=5)
        c.ack(job)
        assert c.get("/healthz").status == 200
        self.took.append(time.monotonic() - began)

    def run(self):
        while not self.stop.is_set():
            try:
                with self.node.client(timeout=10) as c:
                    while not self.stop.is_set():
                        self.one(c)
                        self.stop.wait(0.02)
            except (AssertionError, OSError, TypeError) as e:
                self.failed.append(repr(e)[:200])
                self.stop.wait(0.1)

    def say(self):
        if not self.took:
            say("  honest rounds", "none")
            return
        took = sorted(self.took)
        say("  honest rounds, p50 / p99",
            f"{len(took)}, {median(took) * 1e3:.0f} / "
            f"{took[len(took) * 99 // 100] * 1e3:.0f} ms")
        say("  honest failures", f"{len(self.failed)}", "0")
        for why in self.failed[:3]:
            say("   ", why)


def measure(name):
    head(f"H  {name}: {' '.join(ATTACKS[name].__doc__.split())}")
    with running_node() as node:
        pid = node.pids()["httpd-0"]
        before = memory_mb(pid)
        forget_peak(pid)
        with Honest(node) as honest, ATTACKS[name](node):
            let_pass(HOLD_S)
        now = node.pids()["httpd-0"]
        say("  httpd restarted", "no" if now == pid else "yes", "no")
        peak = memory_mb(now, "VmHWM")
        let_pass(SETTLE_S)
        say("  httpd memory before / most / after",
            f"{before:.0f} / {peak:.0f} / {memory_mb(now):.0f} MB")
        honest.say()


def main(*names):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    for name in names or ATTACKS:
        measure(name)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


if __name__ == "__main__":
    main(*sys.argv[1:])
