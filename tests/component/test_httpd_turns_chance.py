"""corvo-httpd alone: large bodies and large answers by chance, in every way
there is to ask, from clients that leave at any moment; and stops in the middle
of it.

Whatever comes is answered or ended, and nothing is left of who is gone: no
memory, no request under way, no stream. The sanitizers look.
CORVO_TEST_ROUNDS: more of them; CORVO_TEST_SEED: the same.
"""

import base64
import contextlib
import gzip
import json
import os
import random
import re
import signal
import socket
import struct

import pytest
from hyperframe.frame import GoAwayFrame

from h2client import Client
from httpd_fixture import PATIENCE, node, read_answer, wait_until
from remote import SERVICE, envelope, make

ROUNDS = int(os.environ.get("CORVO_TEST_ROUNDS", 6))
FLAGS = ["--op-timeout=300ms", "--stream-max-fps=0", "--shutdown-timeout=1s"]
MEMORY = ["--http-max-memory=64MiB", "--http-max-memory=1GiB"]
NOTHING = 256 << 10
QUEUES = ["q", "q", "jobs", "large", "middle", "overload", "garbage", "silent",
          ""]


@pytest.fixture
def chance():
    seed = os.environ.get("CORVO_TEST_SEED") or random.randrange(2**32)
    print(f"CORVO_TEST_SEED={seed}")
    return random.Random(int(seed))


# --- what is asked ---------------------------------------------------------


def padding(r):
    """Members that mean nothing: sometimes so many that reading takes long."""
    n = r.choice([0, 10, 2000, 2000, 40000])
    return {f"m{i:06}": 1 for i in range(n)}


def job(r):
    return {"queue": r.choice(QUEUES), "payload": r.choice([
        {}, "x" * r.choice([1, 30000]), padding(r), ["\n" * 100] * 300])}


def document(r):
    """(path, body) of HTTP and JSON."""
    kind = r.randrange(7)
    if kind == 0:
        return "/enqueue", {**job(r), **padding(r)}
    if kind == 1:
        return "/enqueue/batch", {"jobs": [job(r)] * r.randrange(40)}
    if kind == 2:
        return "/jobs/search", {"queue": r.choice(QUEUES), **padding(r)}
    if kind == 3:
        return "/fetch", {"queues": [r.choice(QUEUES)], **padding(r),
                          "timeout": r.choice(["0s", "20ms", "500ms"])}
    if kind == 4:
        return "/jobs/bulk", {
            "action": r.choice(["retry", "cancel"]), "job_ids":
            [f"job_{i % 3000}" for i in range(r.randrange(9000))]}
    if kind == 5:
        return f"/webhooks/{r.choice(QUEUES) or 'q'}", padding(r)
    return "/ack/batch", {"acks": [{"job_id": "job_1", **padding(r)}]}


def frame_of(r, is_json):
    m = make(
        "LifecycleStreamRequest", request_id=r.randrange(2**63),
        queues=[r.choice(QUEUES)], fetch_count=r.choice([0, 0, 1, 3]),
        wait_ms=r.choice([0, 0, 20, 500]), worker_id="w",
        push_cancels=r.random() < 0.2,
        idempotency_key=r.choice(["", "", "k"]),
        acks=[make("AckBatchItem", job_id="job_1")] * r.choice([0, 1, 400]),
        enqueues=[make(
            "LifecycleEnqueueItem", queue=r.choice(QUEUES),
            payload_json=r.choice(["{}", json.dumps(padding(r)), "{"]),
            depends_on=["#0"] * r.choice([0, 0, 3, 256]))]
        * r.choice([0, 1, 30, 1000]))
    if is_json:
        return json.dumps({"requestId": "1", "queues": ["q"], **padding(r),
                           "enqueues": [{"queue": "q"}] * 50}).encode()
    return m.SerializeToString()


def packed(r, data):
    is_packed = r.random() < 0.5
    return envelope(int(is_packed), gzip.compress(data, 1) if is_packed
                    else data)


def call(r):
    """(path, type, body) of a remote call."""
    kind = r.choice(["application/grpc", "application/connect+json",
                     "application/connect+proto", "application/grpc-web",
                     "application/grpc-web-text", "application/json"])
    is_json = kind.endswith("json")
    if r.random() < 0.5 and kind not in ("application/grpc-web-text",
                                         "application/json"):
        return SERVICE + "StreamLifecycle", kind, b"".join(
            packed(r, frame_of(r, is_json)) for _ in range(r.randrange(1, 6)))
    if is_json or "connect" in kind:
        return SERVICE + "Enqueue", "application/json", json.dumps(
            {"queue": r.choice(QUEUES), **padding(r)}).encode()
    m = make("EnqueueRequest", queue=r.choice(QUEUES),
             payload_json=json.dumps(padding(r))).SerializeToString()
    body = packed(r, m)
    return SERVICE + "Enqueue", kind, \
        base64.b64encode(body) if kind.endswith("text") else body


# --- who asks --------------------------------------------------------------


def reset(s):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                 struct.pack("ii", 1, 0))
    s.close()


class Http1:
    def __init__(self, h, r):
        self.sock, self.r, self.is_event = h.connect(), r, r.random() < 0.1
        if self.is_event:
            self.left = (b"GET /api/v1/events HTTP/1.1\r\nHost: localhost"
                         b"\r\n\r\n")
            return
        if r.random() < 0.3:
            path, kind, body = call(r)
        else:
            path, body = document(r)
            path, kind, body = "/api/v1" + path, "application/json", \
                json.dumps(body).encode()
        coding = "grpc-encoding: gzip\r\nconnect-content-encoding: gzip\r\n" \
            if "json" not in kind else ""
        self.left = (f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{coding}"
                     f"Content-Type: {kind}\r\nContent-Length: {len(body)}"
                     "\r\n\r\n").encode() + body

    def step(self):
        """False: there is nothing more to send."""
        n = self.r.choice([1000, 100000, 1 << 24])
        with contextlib.suppress(ConnectionError):
            self.sock.sendall(self.left[:n])
        self.left = self.left[n:]
        return bool(self.left)

    def end(self, leaves):
        if leaves and self.r.random() < 0.7:
            reset(self.sock)
            return
        with self.sock:
            if not leaves and not self.is_event and not self.left:
                with contextlib.suppress(ConnectionResetError):
                    answer = read_answer(self.sock.makefile("rb"))
                    assert answer is None or 200 <= answer[0] < 600


class Http2:
    def __init__(self, h, r):
        self.r = r
        self.client = Client(h.port, PATIENCE)
        # by which the library takes the connection for closed
        self.client.h2._frame_dispatch_table[GoAwayFrame] = \
            lambda frame: ([], [])
        self.todo = []
        for _ in range(r.randrange(1, 5)):
            if r.random() < 0.5:
                path, body = document(r)
                self.begin("/api/v1" + path, "application/json",
                           json.dumps(body).encode())
            else:
                self.begin(*call(r))

    def begin(self, path, kind, body):
        headers = [("content-type", kind), ("te", "trailers")]
        if "json" not in kind or "+" in kind:
            headers += [("grpc-encoding", "gzip"),
                        ("connect-content-encoding", "gzip")]
        i = self.client.begin("POST", path, headers=headers, end=False)
        self.todo.append([i, body, False])

    def step(self):
        left = [t for t in self.todo if not t[2]]
        if not left:
            return False
        with contextlib.suppress(ConnectionError):
            one = self.r.choice(left)
            i, body, _ = one
            if self.r.random() < 0.1 or self.client.is_over(i):
                one[2] = True
                if not self.client.is_over(i):
                    self.client.reset(i)
                return True
            n = self.r.choice([1000, 50000, 1 << 24])
            one[1], one[2] = body[n:], n >= len(body)
            self.client.send(i, body[:n], end=one[2])
            return True
        return False

    def end(self, leaves):
        if leaves and self.r.random() < 0.5:
            reset(self.client.sock)
            return
        with self.client:
            for i, _, is_whole in self.todo:
                if not is_whole or leaves or self.client.is_over(i):
                    continue
                with contextlib.suppress(ConnectionResetError):
                    self.client.answer(i)
                    assert self.client.is_over(i) or self.client.closed


def mix(h, r, n):
    """They come, send and go in any order; yields after each step."""
    begun = [r.choice([Http1, Http2])(h, r) for _ in range(n)]
    while begun:
        one = r.choice(begun)
        if not one.step() or r.random() < 0.15:
            begun.remove(one)
            one.end(leaves=bool(r.random() < 0.6 or begun))
        yield begun


# --- what is left ----------------------------------------------------------


def number(text, name):
    return float(re.search(rf"^{name} (\S+)$", text, re.MULTILINE)[1])


def is_empty(h):
    a = h.get("/metrics")
    if a.status == 429:
        return False
    assert a.status == 200
    text = a.body.decode()
    return number(text, "corvo_http_memory_bytes") < NOTHING and \
        number(text, "corvo_http_requests_in_flight") == 1 and \
        number(text, "corvo_lifecycle_streams_open") == 0 and \
        number(text, "corvo_rpc_streams_open") == 0 and \
        number(text, "corvo_lifecycle_frames_inflight") == 0 and \
        number(text, "corvo_http_broken_requests_total") == 0


@pytest.mark.parametrize("memory", MEMORY)
def test_nothing_is_left_of_who_is_gone(memory, chance):
    with node(*FLAGS, memory) as h:
        for _ in range(ROUNDS):
            for _ in mix(h, chance, chance.randrange(1, 7)):
                pass
            assert h.request("GET", "/healthz").status == 200
        wait_until(lambda: is_empty(h), "all of it to be over")


def test_a_stop_in_the_middle_of_it(chance):
    for _ in range(max(ROUNDS // 2, 1)):
        with node(*FLAGS, chance.choice(MEMORY)) as h:
            steps = mix(h, chance, chance.randrange(3, 10))
            for _ in range(chance.randrange(2, 30)):
                begun = next(steps, [])
            h.proc.send_signal(signal.SIGTERM)
            for one in begun:
                if chance.random() < 0.5:
                    with contextlib.suppress(OSError):
                        while one.step():
                            pass
            assert h.proc.wait(PATIENCE) == 0, h.logged()
            for one in begun:
                one.end(leaves=True)
