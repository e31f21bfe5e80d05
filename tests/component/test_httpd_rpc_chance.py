"""corvo-httpd alone: streams of frames by chance, in every protocol, and bytes
by chance where HTTP/2 should be.

Whatever comes is answered or ended, and who asks afterwards is served; the
sanitizers look. CORVO_TEST_ROUNDS: more of them; CORVO_TEST_SEED: the same.
"""

import base64
import gzip
import os
import random

import pytest

from h2client import DATA, END_STREAM, Client, Raw, frame
from httpd_fixture import PATIENCE, node
from remote import SERVICE, envelope, make

ROUNDS = int(os.environ.get("CORVO_TEST_ROUNDS", 60))
LIFECYCLE = SERVICE + "StreamLifecycle"
TYPES = ["application/grpc+proto", "application/grpc+json",
         "application/connect+proto", "application/connect+json",
         "application/grpc-web+proto", "application/grpc-web-text+proto",
         "application/grpc", "application/json", "text/plain"]
QUEUES = ["q", "jobs", "overload", "full", "noleader", "garbage", ""]


@pytest.fixture(scope="module")
def h():
    with node("--request-timeout=1s", "--answer-timeout=1s",
              "--op-timeout=1s", "--stream-max-fps=0") as httpd:
        yield httpd


@pytest.fixture
def chance():
    seed = os.environ.get("CORVO_TEST_SEED") or random.randrange(2**32)
    print(f"CORVO_TEST_SEED={seed}")
    return random.Random(int(seed))


def some(r, most, make_one):
    return [make_one() for _ in range(r.randrange(most + 1))]


def message(r):
    """A frame that means something."""
    job = r.choice(["job_1", "job_lost", "job_missing", ""])
    m = make(
        "LifecycleStreamRequest", request_id=r.randrange(2**64),
        queues=some(r, 2, lambda: r.choice(QUEUES)),
        fetch_count=r.choice([0, 0, 1, 3, -1, 2**31 - 1]),
        wait_ms=r.choice([0, 0, 1, 20]),
        worker_id=r.choice(["", "w", "x" * 5000]),
        push_cancels=r.random() < 0.1,
        idempotency_key=r.choice(["", "", "k"]),
        acks=some(r, 3, lambda: make("AckBatchItem", job_id=job)),
        fails=some(r, 2, lambda: make("LifecycleFailItem", job_id=job)),
        heartbeats=some(r, 2, lambda: make("LifecycleHeartbeatItem",
                                           job_id=job)),
        enqueues=some(r, 3, lambda: make(
            "LifecycleEnqueueItem", queue=r.choice(QUEUES),
            payload_json=r.choice(["", "{}", "{", "[1]"]))))
    return m.SerializeToString()


def changed(r, data):
    data = bytearray(data)
    for _ in range(r.randrange(4)):
        at = r.randrange(len(data) + 1)
        what = r.randrange(3)
        if what == 0:
            data[at:at + 1] = bytes([r.randrange(256)])
        elif what == 1:
            del data[at:at + r.randrange(9)]
        else:
            data[at:at] = r.randbytes(r.randrange(9))
    return bytes(data)


def body(r):
    out = b""
    for _ in range(r.randrange(1, 12)):
        m = message(r)
        if r.random() < 0.3:
            m = changed(r, m)
        packed = r.random() < 0.2
        out += envelope(int(packed), gzip.compress(m) if packed else m)
    return changed(r, out) if r.random() < 0.3 else out


def is_served(h):
    assert h.request("GET", "/healthz").status == 200


def test_streams(h, chance):
    r = chance
    for _ in range(ROUNDS):
        with Client(h.port, PATIENCE) as c:
            begun = []
            for _ in range(r.randrange(1, 5)):
                kind = r.choice(TYPES)
                headers = [("content-type", kind), ("te", "trailers")]
                if r.random() < 0.8:
                    name = "connect-content-encoding" if "connect" in kind \
                        else "grpc-encoding"
                    headers.append((name, "gzip"))
                if r.random() < 0.2:
                    headers.append(("grpc-timeout", r.choice(
                        ["1S", "1n", "x", "99999999H"])))
                data = body(r)
                if "text" in kind:
                    data = base64.b64encode(data)
                i = c.begin("POST", LIFECYCLE, headers=headers, end=False)
                while data:
                    n = r.randrange(1, len(data) + 1)
                    c.send(i, data[:n], end=n == len(data))
                    data = data[n:]
                begun.append(i)
            for i in begun:
                if r.random() < 0.2 and not c.is_over(i):
                    c.reset(i)
                else:
                    c.answer(i)
                    assert c.is_over(i)
    is_served(h)


def test_frames_of_http2(h, chance):
    """Good ones, of which some bytes are others."""
    r = chance
    for _ in range(ROUNDS):
        with Raw(h.port, PATIENCE) as c:
            out = b""
            for i in range(1, r.randrange(2, 12), 2):
                out += c.request(i, False, LIFECYCLE, "POST", [
                    ("content-type", "application/grpc")])
                out += frame(DATA, END_STREAM, i, body(r)[:16000])
                out += frame(r.randrange(12), r.randrange(256),
                             r.randrange(12), r.randbytes(r.randrange(40)))
            c.send(changed(r, out))
            c.sock.shutdown(1)
            for _ in c.frames():
                pass
    is_served(h)
