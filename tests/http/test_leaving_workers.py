"""Workers that leave in the first moments of a long poll, and whose jobs go to
others at once, with no attempt used.
"""

import json
import socket
import struct

import pytest

from node import API, wait_until

WORKERS = 20


def ask(node, path, queue, **members):
    """A worker that asks for jobs; not sent yet is what is corked."""
    data = json.dumps({"queues": [queue], "timeout": 30, "worker_id": "gone",
                       "lease_duration": 600, **members}).encode()
    s = socket.create_connection(("127.0.0.1", node.port), 30)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
    s.sendall(f"POST {API}{path} HTTP/1.1\r\nHost: localhost\r\n"
              f"Content-Length: {len(data)}\r\n\r\n".encode() + data)
    return s


def leave(s, reset):
    if reset:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                     struct.pack("ii", 1, 0))
    s.close()


def take(client, queue, n):
    """The ids of n jobs, each handed out as if for the first time."""
    got = set()
    while len(got) < n:
        job = client.fetch(queue, timeout=30, worker_id="here")
        assert job is not None, f"{n - len(got)} jobs are lost"
        assert job["attempt"] == 1
        client.ack(job)
        got.add(job["job_id"])
    return got


@pytest.mark.parametrize("reset", [False, True])
def test_a_job_that_comes_when_the_worker_has_left(node, client, reset):
    """Its fetch waits, and nobody watches its socket yet."""
    queue = f"late-{reset}"
    for _ in range(WORKERS):
        s = ask(node, "/fetch", queue)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)
        wait_until(lambda: client.parked() >= 1, 10,
                   "the fetch to wait", every=0.001)
        leave(s, reset)
        job_id = client.enqueue(queue)
        assert take(client, queue, 1) == {job_id}


@pytest.mark.parametrize("path,n", [("/fetch", 1), ("/fetch/batch", 5)])
def test_a_worker_that_leaves_with_its_request(node, client, path, n):
    """The end comes in the same segment: nothing is handed out."""
    queue = "there" + path.replace("/", "-")
    for _ in range(WORKERS):
        ids = {client.enqueue(queue) for _ in range(n)}
        with ask(node, path, queue, count=n) as s:
            s.shutdown(socket.SHUT_WR)
            assert s.recv(65536) == b"", "a job for a client that has left"
        assert take(client, queue, n) == ids


def test_jobs_whose_answer_could_not_be_sent(node, client):
    """More than the kernel takes for a client that does not read."""
    payload = "x" * 200000
    ids = {client.enqueue("large", payload=payload) for _ in range(40)}
    s = ask(node, "/fetch/batch", "large", count=40)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)
    assert s.recv(1) == b"H"
    leave(s, reset=True)
    assert take(client, "large", 40) == ids
