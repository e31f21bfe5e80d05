"""More calls of push queues at a time than one heartbeat has room for."""

import collections
import contextlib
import selectors
import socket
import threading
import time

import pytest

from node import API, running, wait_until

CALLS = 2300  # a heartbeat has room for 2,048 jobs
LEASE_S = 8


class Silent:
    """A receiver that takes calls, and answers none before it is told to."""

    def __init__(self):
        self.calls = collections.Counter()
        self.answering = False
        self.ended = False
        self.heads = {}
        self.selector = selectors.DefaultSelector()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self.listener.setblocking(False)
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.serve)

    def serve(self):
        while not self.ended:
            for key, _ in self.selector.select(0.05):
                if key.fileobj is self.listener:
                    self.accept()
                else:
                    self.read(key.fileobj)
            if self.answering:
                self.answer()

    def accept(self):
        with contextlib.suppress(BlockingIOError):
            while True:
                s, _ = self.listener.accept()
                s.setblocking(False)
                self.heads[s] = b""
                self.selector.register(s, selectors.EVENT_READ)

    def read(self, s):
        try:
            data = s.recv(65536)
        except OSError:
            data = b""
        if not data:
            self.selector.unregister(s)
            self.heads.pop(s)
            s.close()
            return
        self.heads[s] += data
        for line in self.heads[s].split(b"\r\n"):
            name, _, value = line.partition(b": ")
            if name.lower() == b"x-corvo-job-id":
                self.calls[value.decode()] += 1
                self.heads[s] = b"told"

    def answer(self):
        for s, head in self.heads.items():
            if head == b"told":
                self.heads[s] = b""
                with contextlib.suppress(OSError):
                    s.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended = True
        self.thread.join()
        for s in self.heads:
            s.close()
        self.listener.close()
        self.selector.close()


@pytest.fixture(scope="module")
def node():
    with running(f"--push-max-calls={CALLS}",
                 f"--push-host-concurrency={CALLS}",
                 f"--lease-duration={LEASE_S}s") as n:
        yield n


def test_all_keep_their_leases(node, client, queue):
    with Silent() as s:
        a = client.request("PATCH", f"{API}/queues/{queue}", {
            "push": {"url": f"http://127.0.0.1:{s.port}/",
                     "timeout": "5m", "concurrency": CALLS}})
        assert a.status == 200, a
        a = client.post(f"{API}/enqueue/batch", {
            "jobs": [{"queue": queue, "payload": n} for n in range(CALLS)]})
        assert a.status in (200, 201), a
        wait_until(lambda: len(s.calls) == CALLS, 60, "all calls to be made")
        longer = time.monotonic() + 1.5 * LEASE_S
        wait_until(lambda: time.monotonic() > longer or
                   max(s.calls.values()) > 1, 2 * LEASE_S, "leases to end")
        assert set(s.calls.values()) == {1}
        s.answering = True

        def counts():
            return client.get(f"{API}/queues/{queue}").json
        wait_until(lambda: counts()["completed"] == CALLS, 60,
                   "all jobs to be completed")
        assert set(s.calls.values()) == {1}
