"""Receivers of push queues that mean no good. Each attack is a context manager
of a node: it is under way while the block runs.
"""

import collections
import contextlib
import selectors
import socket
import threading

from attacks import API
from figures import say, wait_until

CALLS = 900  # of the 1,024 that a node makes at a time


class Receiver:
    """Takes calls, counts them by job, and does with each what it is told."""

    def __init__(self, on_call):
        self.on_call = on_call
        self.calls = collections.Counter()
        self.ended = threading.Event()
        self.selector = selectors.DefaultSelector()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self.listener.setblocking(False)
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.socks = set()
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.serve, daemon=True)

    def serve(self):
        while not self.ended.is_set():
            for key, _ in self.selector.select(0.05):
                if key.fileobj is self.listener:
                    self.accept()
                else:
                    self.read(key.fileobj)

    def accept(self):
        with contextlib.suppress(BlockingIOError):
            while True:
                s, _ = self.listener.accept()
                s.setblocking(False)
                self.socks.add(s)
                self.selector.register(s, selectors.EVENT_READ)

    def drop(self, s):
        self.selector.unregister(s)
        self.socks.discard(s)
        s.close()

    def read(self, s):
        try:
            data = s.recv(65536)
        except OSError:
            data = b""
        if not data:
            self.drop(s)
            return
        for line in data.split(b"\r\n"):
            name, _, value = line.partition(b": ")
            if name.lower() == b"x-corvo-job-id":
                self.calls[value] += 1
                self.on_call(self, s)
                return

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()
        for s in self.socks:
            s.close()
        self.listener.close()


@contextlib.contextmanager
def receiver(node, on_call, **members):
    with Receiver(on_call) as r, node.client(timeout=60) as c:
        a = c.request("PATCH", f"{API}/queues/pushed", {
            "push": {"url": f"http://127.0.0.1:{r.port}/", "timeout": "60s",
                     "concurrency": CALLS, **members}})
        assert a.status == 200, a
        a = c.post(f"{API}/enqueue/batch", {"jobs": [
            {"queue": "pushed", "payload": n} for n in range(CALLS)]})
        assert a.status in (200, 201), a
        wait_until(lambda: len(r.calls) >= 64, 30, "some calls to be made")
        yield
        more = sum(n > 1 for n in r.calls.values())
        say("  calls, of jobs that were called twice",
            f"{sum(r.calls.values())}, {more}")
        c.request("DELETE", f"{API}/queues/pushed?confirm=true")


@contextlib.contextmanager
def silent(node):
    """A receiver that takes all calls and never answers."""
    with receiver(node, lambda r, s: None):
        yield


@contextlib.contextmanager
def endless(node):
    """One whose answers never end."""
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"

    def on_call(_, s):
        with contextlib.suppress(OSError):
            s.send(head)
            for _ in range(64):
                s.send(chunk)
    with receiver(node, on_call):
        yield


@contextlib.contextmanager
def hanging_up(node):
    """One that hangs up on each call, whose job is tried again at once."""
    with receiver(node, lambda r, s: r.drop(s)):
        yield


ATTACKS = {
    "silent_receiver": silent,
    "endless_answers": endless,
    "hanging_up": hanging_up,
}
