"""A node whose clients want more memory than it has for them: it is bounded,
workers go on, and it comes back.
"""

import contextlib
import select
import socket
from pathlib import Path

from node import API, is_sanitized, wait_until

MIB = 1 << 20
LIMIT = 32 * MIB
NODE_FLAGS = ["--http-max-memory=32MiB", "--answer-timeout=2s"]
# what a process needs besides, and requests that are being worked on
BESIDE = 48 * MIB
NOTHING = MIB


def used(client):
    return client.metrics()["corvo_http_memory_bytes"]


def resident(node):
    """Bytes of corvo-httpd; a sanitizer keeps what is freed."""
    if is_sanitized():
        return 0
    status = Path(f"/proc/{node.pids()['httpd-0']}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) << 10


def connect(node, receive=None):
    s = socket.socket()
    if receive:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
    s.settimeout(60)
    s.connect(("127.0.0.1", node.port))
    return s


def push(socks, data):
    """To all of them at once, until nobody takes any more."""
    left = {s: memoryview(data) for s in socks}
    for s in socks:
        s.setblocking(False)
    while left and (ready := select.select([], list(left), [], 1)[1]):
        for s in ready:
            with contextlib.suppress(OSError):
                left[s] = left[s][s.send(left[s][:MIB]):]
                if left[s]:
                    continue
            del left[s]


def work_on(client):
    client.enqueue("beside")
    client.ack(client.fetch("beside", timeout=30))
    assert client.get("/healthz").status == 200


def assert_bounded(node, client, before):
    work_on(client)
    assert used(client) <= LIMIT
    assert resident(node) <= before + LIMIT + BESIDE


def wait_given_back(node, client, before):
    wait_until(lambda: used(client) < NOTHING, 20, "it to be given back")
    wait_until(lambda: resident(node) <= before + BESIDE / 3, 10,
               "resident memory to be given back")
    work_on(client)


def test_unfinished_bodies_and_resident_memory(node, client):
    work_on(client)
    before, pids = resident(node), node.pids()
    socks = [connect(node) for _ in range(40)]
    for s in socks:
        s.sendall(b"POST /api/v1/enqueue/batch HTTP/1.1\r\n"
                  b"Host: localhost\r\n"
                  b"Content-Length: %d\r\n\r\n" % (15 * MIB))
    push(socks, b" " * (15 * MIB - 1))
    assert_bounded(node, client, before)
    for s in socks:
        s.close()
    wait_given_back(node, client, before)
    assert node.pids() == pids


def test_unread_answers_and_resident_memory(node, client):
    payload = "x" * 200000
    for _ in range(20):
        client.enqueue("large", payload=payload)
    ask = client.post(f"{API}/jobs/search", {"queue": "large", "limit": 20})
    assert ask.status == 200 and len(ask.body) > 20 * 200000
    before, pids = resident(node), node.pids()
    socks = [connect(node, receive=4096) for _ in range(30)]
    for s in socks:
        body = b'{"queue": "large", "limit": 20}'
        s.sendall(b"POST /api/v1/jobs/search HTTP/1.1\r\n"
                  b"Host: localhost\r\n"
                  b"Content-Length: %d\r\n\r\n" % len(body) + body)
    select.select([socks[0]], [], [], 60)
    assert_bounded(node, client, before)
    # they stay, and do not read: their answers do not
    wait_given_back(node, client, before)
    for s in socks:
        s.close()
    assert node.pids() == pids
