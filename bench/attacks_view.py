"""Clients that ask the view for too much. Each attack is a context manager of a
node: it is under way while the block runs. They come from an address of their
own, so that turns of clients (corvo-viewd/service_turns.c) show.
"""

import contextlib
import http.client
import json
import socket
import threading

from attacks import API
from figures import say, wait_until

ATTACKER = "127.0.0.66"
JOBS = 20000
# Sixteen prefixes of words that each job has a hundred of, in all.
LETTERS = "abcdefghijklmnop"
WORDS = " ".join(f"w{c}rd" for c in LETTERS * 6)
PREFIXES = " ".join(f"w{c}*" for c in LETTERS)


def fill(node):
    """Jobs that a search has to read for a while, unless they are there."""
    with node.client(timeout=120) as c:
        if c.get(f"{API}/queues/searched").status == 200:
            return
        job = {"queue": "searched", "payload": {"n": 1, "t": WORDS}}
        for _ in range(JOBS // 1000):
            a = c.post(f"{API}/enqueue/batch", {"jobs": [job] * 1000})
            assert a.status in (200, 201), a
        wait_until(lambda: c.post(f"{API}/jobs/search", {
            "queue": "searched", "limit": 1}).json["total"] == JOBS, 60,
            "the view to have all jobs")


@contextlib.contextmanager
def askers(node, n, method, path, body):
    """So many ask for it again and again."""
    stop = threading.Event()
    told = {}

    def ask():
        while not stop.is_set():
            c = http.client.HTTPConnection("127.0.0.1", node.port, timeout=60,
                                           source_address=(ATTACKER, 0))
            try:
                c.request(method, f"{API}{path}",
                          None if body is None else json.dumps(body))
                a = c.getresponse()
                a.read()
                told[a.status] = told.get(a.status, 0) + 1
                if a.status == 429:
                    stop.wait(0.05)
            except (OSError, http.client.HTTPException):
                stop.wait(0.05)
            finally:
                c.close()

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(n)]
    for t in threads:
        t.start()
    try:
        yield
    finally:
        stop.set()
        for t in threads:
            t.join(65)
        say("  answered", ", ".join(f"{k}: {v}" for k, v in
                                    sorted(told.items())) or "nothing")


@contextlib.contextmanager
def long_searches(node):
    """Thirty-two searches that find nothing and take all the time they get."""
    fill(node)
    with askers(node, 32, "POST", "/jobs/search",
                {"payload_contains": "zzz", "time_budget": "10s"}):
        yield


@contextlib.contextmanager
def prefixes(node):
    """Full text of as many prefixes as may be, each of which all jobs have."""
    fill(node)
    with askers(node, 16, "POST", "/jobs/search", {"text": PREFIXES}):
        yield


@contextlib.contextmanager
def comparisons(node):
    """verify-view, again and again by eight at a time."""
    fill(node)
    with askers(node, 8, "POST", "/admin/verify-view", None):
        yield


@contextlib.contextmanager
def strangers(node):
    """40 connections to the socket of viewd that say nothing, or nonsense, and
    a viewd that is killed meanwhile."""
    path = node.data / "run" / "viewd-httpd-0.sock"
    socks = []
    for i in range(40):
        s = socket.socket(socket.AF_UNIX)
        s.setblocking(False)
        with contextlib.suppress(OSError):
            s.connect(str(path))
            if i % 2:
                s.send(b"GET / HTTP/1.1\r\n\r\n")
        socks.append(s)
    yield
    for s in socks:
        s.close()


ATTACKS = {
    "long_searches": long_searches,
    "prefixes": prefixes,
    "comparisons": comparisons,
    "strangers": strangers,
}
