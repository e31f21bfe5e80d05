#!/usr/bin/env python3
"""A process is stopped and started again beside requests whose rest never
comes: how long it takes.

  half_requests.py [KIND ...]        no name: all of them

For each kind of half request there are a few of them, and beside them each
process is restarted by `corvo restart`, and then the node is stopped: a line
has the seconds until the old process is gone and until the new one is ready,
each the median of a few rounds. At the end stand the same without half
requests, and the longest of each column; all have to be below LATEST_S.
"""

import contextlib
import json
import socket
import subprocess
import sys
import time
from pathlib import Path

from figures import (SOURCE, head, let_pass, median, running_node, say, verdict,
                     wait_until)
from node import API, is_alive

sys.path.insert(0, str(SOURCE / "tests" / "http"))

import test_half_requests as halves  # noqa: E402

EACH = 20  # requests of a kind
ROUNDS = 3
EVENTS = 2000  # that clients of SSE could read
NAMES = ["httpd-0", "raftd", "viewd", "sched"]
LATEST_S = 1.0
FLAGS = ["--request-timeout=4m", "--idle-timeout=4m"]


def sse_unread(node):
    """An event stream that is never read, with more than fits a socket."""
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.connect(("127.0.0.1", node.port))
    s.sendall(f"GET {API}/events?after=0 HTTP/1.1\r\nHost: localhost\r\n"
              "Accept: text/event-stream\r\n\r\n".encode())
    return s


def long_poll(node):
    """A fetch that waits for a job."""
    body = json.dumps({"queues": ["none"], "worker_id": "w", "timeout": 60})
    return halves.connect(node, f"POST {API}/fetch HTTP/1.1\r\n"
                          "Host: localhost\r\nContent-Length: "
                          f"{len(body)}\r\n\r\n{body}".encode())


def on_sockets(node, data):
    """A connection to each socket of the node's own."""
    with contextlib.ExitStack() as stack:
        for path in sorted(Path(node.data).rglob("*-*.sock")):
            s = stack.enter_context(socket.socket(socket.AF_UNIX))
            s.connect(str(path))
            s.sendall(data)
        return stack.pop_all()


def local_silent(node):
    """Who says nothing on them."""
    return on_sockets(node, b"")


def local_garbage(node):
    """Who says what nobody knows there."""
    return on_sockets(node, b"\0SP\0\0\x7f\0\0")


def local_half(node):
    """The beginning of what a process would say."""
    return on_sockets(node, b"\0SP\0")


KINDS = {f.__name__: f for f in [*halves.ALL, sse_unread, long_poll,
                                 local_silent, local_garbage, local_half]}


def restart(node, name):
    """Seconds until the process is gone, and until another one is ready."""
    old, gone = node.pids()[name], None

    def is_back():
        nonlocal gone
        if gone is None and not is_alive(old):
            gone = time.monotonic() - began
        p = node.ps(name)
        return (gone is not None and p["state"] == "ready" and
                p["pid"] not in (0, old))

    began = time.monotonic()
    with subprocess.Popen([node.corvo, "restart", name, "--data-dir",
                           str(node.data)], stdout=subprocess.DEVNULL) as p:
        wait_until(is_back, 60, f"{name} to be back", every=0.002)
        back = time.monotonic() - began
        assert p.wait() == 0
    return gone, back


def stop(node):
    began = time.monotonic()
    node.process.terminate()
    assert node.process.wait(60) == 0
    return time.monotonic() - began


def measure(kind):
    """{what: seconds} beside requests of that kind."""
    ret = {}
    with running_node(*FLAGS) as node, contextlib.ExitStack() as stack:
        with node.client() as c:
            for _ in range(EVENTS // 100):
                assert c.post(f"{API}/enqueue/batch", {"jobs": [
                    {"queue": "q", "payload": "x" * 1000}] * 100}).status == 201
        for name in [*NAMES, "node"]:
            for _ in range(EACH if kind else 0):
                stack.enter_context(kind(node))
            wait_until(node.is_ready, 60, "the node to be ready")
            let_pass(0.1)  # what was sent last is read
            if name == "node":
                ret["node stops"] = stop(node)
            else:
                gone, back = restart(node, name)
                ret[f"{name} gone"], ret[f"{name} back"] = gone, back
    return ret


def median_of(kind):
    rounds = [measure(kind) for _ in range(ROUNDS)]
    return {what: median([r[what] for r in rounds]) for what in rounds[0]}


def main(*names):
    head("half requests: seconds until a process is gone, and another is ready")
    rows = {name: median_of(KINDS[name]) for name in names or KINDS}
    rows["none"] = median_of(None)
    worst = {what: max(row[what] for row in rows.values())
             for what in rows["none"]}
    for name, row in [*rows.items(), ("worst", worst)]:
        say(name, " ".join(f"{s:.2f}" for s in row.values()))
    say("columns", ", ".join(worst))
    say("longest", f"{max(worst.values()):.3f} s", f"< {LATEST_S:g} s")
    good = max(worst.values()) < LATEST_S
    verdict(good)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
