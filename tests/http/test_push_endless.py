"""Receivers whose answers do not end, or come in the smallest of pieces: they
are cut off, long before their time is up, and delay nobody."""

import contextlib
import socket
import threading

import pytest

from node import API, wait_until

TIMEOUT_S = 600  # of a call; nobody waits for it here
HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
ROOM = 64 << 10  # what may be on its way to somebody who reads no more


class Endless:
    """Answers each call with the beginning, and then the rest for ever."""

    def __init__(self, begin, rest):
        self.begin, self.rest = begin, rest
        self.sent = []  # bytes of each answer that was cut off
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, ROOM)
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                s, _ = self.listener.accept()
                threading.Thread(target=self.serve, args=(s,),
                                 daemon=True).start()

    def serve(self, s):
        n = 0
        with contextlib.suppress(ConnectionError), s:
            s.recv(65536)
            n += s.send(self.begin)
            while True:
                n += s.send(self.rest)
        self.sent.append(n)


@pytest.fixture
def receiver(client, queue):
    made = []

    def make(begin, rest):
        r = Endless(begin, rest)
        made.append(r)
        a = client.request("PATCH", f"{API}/queues/{queue}", {"push": {
            "url": f"http://127.0.0.1:{r.port}/",
            "timeout": f"{TIMEOUT_S}s"}})
        assert a.status == 200, a
        return r

    yield make
    for r in made:
        r.listener.close()
    client.request("DELETE", f"{API}/queues/{queue}?confirm=true")


def ended(client, job_id, state):
    def look():
        job = client.job(job_id)
        return job if job["state"] == state else None
    return wait_until(look, 30, f"{job_id} to be {state}")


def test_bodies_in_the_smallest_pieces(client, node, receiver, queue):
    """A chunk of a byte is as much work as one of a kilobyte."""
    r = receiver(HEAD, b"1\r\nx\r\n" * 10000)
    ids = [client.enqueue(queue, max_retries=1) for _ in range(30)]
    for i in ids:
        job = ended(client, i, "completed")
        assert job["response"]["status"] == 200
        assert job["response"]["truncated"], job
        assert "result" not in job  # the beginning of it is none
    wait_until(lambda: len(r.sent) == len(ids), what="all to be cut off")
    assert max(r.sent) < 6 << 20, r.sent
    assert node.ps("sched")["restarts"] == 0


def test_trailers_that_do_not_end(client, node, receiver, queue):
    """The library keeps what it was sent of them."""
    r = receiver(HEAD + b"1\r\nx\r\n0\r\n", b"X-More: y\r\n" * 10000)
    job_id = client.enqueue(queue, max_retries=1)
    job = ended(client, job_id, "dead")
    assert "the answer has too many headers" in job["errors"][0]["error"], job
    wait_until(lambda: r.sent, what="it to be cut off")
    assert max(r.sent) < 6 << 20, r.sent
    assert node.ps("sched")["restarts"] == 0
