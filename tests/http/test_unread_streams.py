"""Clients of event streams that never read: what they hold is within the
budget, they are cut off, and others go on; they can resume."""

import contextlib
import http.client

from node import API, wait_until
from sse import EventStream

MIB = 1 << 20
LIMIT = 16 * MIB
NODE_FLAGS = ["--http-max-memory=16MiB", "--client-max-connections=0"]
CLIENTS = 280
EVENTS = 4000  # more than the kernel keeps for a client that does not read


def last_of(stream):
    """Its last event. One that had no room for the reason ends without it."""
    last = {}
    with contextlib.suppress(http.client.IncompleteRead):
        for last in stream.events():
            pass
    return last


def test_streams_that_nobody_reads(node, client):
    for _ in range(EVENTS // 1000):
        a = client.post(f"{API}/enqueue/batch", {
            "jobs": [{"queue": "unread"}] * 1000})
        assert a.status == 201, a
    with contextlib.ExitStack() as stack:
        slow = []
        for _ in range(CLIENTS):
            s = EventStream(node.port, last_id=0, receive_buffer=4096,
                            timeout=120)
            stack.callback(s.close)
            assert s.status == 200
            slow.append(s)
            used = client.metrics()["corvo_http_memory_bytes"]
            assert used <= LIMIT, f"{used} for {len(slow)} clients"
        wait_until(lambda: "takes nothing for 2 s" in node.log(), 60,
                   "slow ones to be cut off")
        wait_until(lambda: client.metrics()["corvo_http_memory_bytes"]
                   < LIMIT * 7 / 8, 60, "room")
        good = EventStream(node.port, last_id=0, timeout=120)
        stack.callback(good.close)
        good.until(lambda e: e["seq"] >= EVENTS)
        one = next(s for s in slow if last_of(s).get("code") == "SLOW_READER")
        again = EventStream(node.port, last_id=one.last_id, timeout=120)
        stack.callback(again.close)
        assert again.take(1)[0]["seq"] == one.last_id + 1
    client.enqueue("after")
