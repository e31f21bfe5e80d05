"""Clients that leave at any moment of any kind of request.

Whatever they did, corvo-httpd forgets them: no connection, request, stream or
waiting fetch stays, and the node serves on. The seed is printed;
CORVO_TEST_SEED repeats it.
"""

import contextlib
import json
import os
import random
import select
import socket
import struct
import time

from node import API, wait_until

CLIENTS = 60  # open at a time
ROUNDS = 400


def request(method, path, body=None, headers=""):
    data = b"" if body is None else json.dumps(body).encode()
    return (f"{method} {API}{path} HTTP/1.1\r\nHost: localhost\r\n{headers}"
            f"Content-Length: {len(data)}\r\n\r\n").encode() + data


def kinds(job, bulk):
    """One of every kind, with something to wait for where it can wait."""
    return [
        request("POST", "/enqueue", {"queue": "left", "payload": "x" * 5000}),
        request("POST", "/fetch", {"queues": ["nobody"], "timeout": 60}),
        request("POST", "/fetch/batch", {"queues": ["nobody"], "timeout": 60}),
        request("GET", f"/jobs/{job}?wait=60"),
        request("POST", "/queues/idle/drain?wait=60"),
        request("POST", "/queues/left/clear"),
        request("DELETE", "/queues/left?confirm=true"),
        request("GET", "/queues"),
        request("POST", "/jobs/search", {"queue": "left", "limit": 1000}),
        request("POST", "/jobs/bulk", {"action": "cancel",
                                       "filter": {"queue": "left"}}),
        request("GET", "/events"),
        request("GET", "/events", headers="Last-Event-ID: 1\r\n"),
        request("GET", "/events?queues=none", headers="Last-Event-ID: 1\r\n"),
        request("GET", f"/bulk/{bulk}/progress"),
        request("HEAD", "/events"),
        request("GET", "/metrics"),
        request("GET", "/cluster/events?limit=1000"),
        request("POST", "/admin/verify-view"),
    ]


def leave(rng, s):
    if rng.random() < 0.5:  # with a reset
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                     struct.pack("ii", 1, 0))
    elif rng.random() < 0.5:  # first its half, then the rest
        with contextlib.suppress(OSError):
            s.shutdown(socket.SHUT_WR)
    s.close()


def come(rng, port, texts):
    """Sends one or several requests, or a part of one, and reads a bit."""
    s = socket.create_connection(("127.0.0.1", port), 10)
    text = b"".join(rng.choices(texts, k=rng.choice((1, 1, 1, 3))))
    if rng.random() < 0.3:
        text = text[:rng.randrange(len(text))]
    s.settimeout(10)
    with contextlib.suppress(OSError):
        s.sendall(text)
        if rng.random() < 0.5 and \
                select.select([s], [], [], rng.random() * 0.02)[0]:
            s.recv(rng.choice((1, 100, 100000)))
    return s


def numbers(client):
    m = client.metrics()
    return {name: m[name] for name in (
        "corvo_http_connections", "corvo_http_requests_in_flight",
        "corvo_lifecycle_streams_open", "corvo_waiting_reads")} | {
        "corvo_parked_fetches": client.parked()}


def test_nothing_of_them_stays(node, client):
    seed = int(os.environ.get("CORVO_TEST_SEED", time.time_ns()))
    print("CORVO_TEST_SEED =", seed)
    rng = random.Random(seed)
    before = numbers(client)
    job = client.enqueue("nobody-works")
    client.enqueue("idle")
    client.fetch("idle", lease_duration=3600)
    bulk = client.post(f"{API}/jobs/bulk", {
        "action": "cancel", "job_ids": ["job_x"] * 9 + ["job_y"],
        "rate": 1}).json["bulk_operation_id"]
    texts = kinds(job, bulk)
    here = []
    for _ in range(ROUNDS):
        here.append(come(rng, node.port, texts))
        if len(here) > CLIENTS:
            leave(rng, here.pop(rng.randrange(len(here))))
    assert client.get(f"{API}/info").status == 200
    for s in here:
        leave(rng, s)
    wait_until(lambda: numbers(client) == before, 60,
               f"them to be forgotten: {before}, {numbers(client)}")
    again = client.enqueue("still")
    assert client.fetch("still")["job_id"] == again
