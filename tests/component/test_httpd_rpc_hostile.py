"""corvo-httpd alone: remote calls of clients that mean harm.

Each costs bounded memory and gets the code of its protocol, and who asks
beside it is answered. httpd_fixture.py starts it with a raftd and a viewd of
canned answers.
"""

import base64
import contextlib
import gzip
import json
import random
import struct

import pytest

from h2client import (DATA, END_STREAM, HEADERS, RST_STREAM, WINDOW_UPDATE,
                      Client, Raw, frame)
from httpd_cost import GROWN_MAX_KB, bounded, ended, held, metric
from httpd_fixture import PATIENCE, node, wait_until
from remote import SERVICE, envelope, envelopes, make

LIFECYCLE = SERVICE + "StreamLifecycle"
BUDGET_KB = 32 << 10
BODY = 16 << 20  # bytes a message may have
ONE_BODY_KB = 3 * BODY >> 10  # packed, unpacked, and while a buffer grows
STREAMS = 1500
INVALID, EXHAUSTED = "3", "8"  # codes of gRPC
GRPC = [("content-type", "application/grpc+proto"), ("te", "trailers")]
PACKED = [*GRPC, ("grpc-encoding", "gzip")]


@pytest.fixture(scope="module")
def h():
    with node("--request-timeout=2s", "--answer-timeout=2s",
              f"--http-max-memory={BUDGET_KB}KiB",
              f"--stream-max-open={STREAMS}", "--stream-max-fps=0") as httpd:
        with Client(httpd.port, PATIENCE) as c:  # what is made once is made
            ask(c, envelope(0, ping(1)))
        yield httpd


def ping(n):
    return make("LifecycleStreamRequest", request_id=n).SerializeToString()


def ask(c, body, headers=GRPC, path=LIFECYCLE):
    return c.ask("POST", path, body, headers)


def is_served(h):
    """A stream that means no harm."""
    with Client(h.port, PATIENCE) as c:
        a = ask(c, envelope(0, ping(7)))
        assert a.headers["grpc-status"] == "0"
        assert envelopes(a.body) == [(0, ping(7))]
    return True


def open_streams(h):
    return metric(h, "corvo_rpc_streams_open")


# --- messages -------------------------------------------------------------


def packable(size):
    """Bytes that make a fiftieth when they are packed."""
    rng = random.Random(1)
    block = bytes(1024) + b"".join(rng.randbytes(16) + bytes(1008)
                                   for _ in range(1024))
    return (block * (size // len(block) + 1))[:size]


def test_a_message_made_of_nothing(h):
    """It is unpacked to a hundred times its size at most."""
    packed = gzip.compress(bytes(BODY - 1000), 9)
    with bounded(h, "zeros", 200 * len(packed) // 1024 + GROWN_MAX_KB), \
            Client(h.port, PATIENCE) as c:
        a = ask(c, envelope(1, packed), PACKED)
        assert a.headers["grpc-status"] == EXHAUSTED


@pytest.mark.parametrize("size", [BODY - 1000, BODY + 1, 8 * BODY],
                         ids=["fits", "a byte more", "eight times"])
def test_a_message_that_unpacks_to_far_more(h, size):
    """It is unpacked as far as a message may be long."""
    packed = gzip.compress(packable(size), 6)
    print(f"{len(packed)} bytes for {size}")
    with bounded(h, "a packed message", ONE_BODY_KB), \
            Client(h.port, PATIENCE) as c:
        a = ask(c, envelope(1, packed), PACKED)
        assert a.headers["grpc-status"] == ("0" if size < BODY else EXHAUSTED)
    with bounded(h, "a packed body", ONE_BODY_KB), \
            Client(h.port, PATIENCE) as c:
        a = ask(c, packed, [("content-type", "application/proto"),
                            ("content-encoding", "gzip")], SERVICE + "Enqueue")
        assert a.json()["code"] == ("invalid_argument" if size < BODY else
                                    "resource_exhausted")


def test_many_packed_messages_at_once(h):
    """They are unpacked one after the other."""
    packed = gzip.compress(bytes(2 * BODY), 6)
    with bounded(h, "30 packed messages", ONE_BODY_KB + BUDGET_KB), \
            Client(h.port, PATIENCE) as c:
        ids = [c.begin("POST", LIFECYCLE, envelope(1, packed), PACKED)
               for _ in range(30)]
        for i in ids:
            assert c.answer(i).headers["grpc-status"] == EXHAUSTED
    assert is_served(h)


@pytest.mark.parametrize("length", [BODY + 1, 2**31, 2**32 - 1])
def test_an_envelope_that_announces_too_much(h, length):
    """It is refused for its head; nothing is made ready for the rest."""
    with bounded(h, f"{length} bytes announced"), \
            Client(h.port, PATIENCE) as c:
        i = c.begin("POST", LIFECYCLE, struct.pack(">BI", 0, length), GRPC,
                    end=False)
        a = c.answer(i)
        assert a.headers["grpc-status"] == EXHAUSTED
        assert "16 MiB" in a.headers["grpc-message"]


@pytest.mark.parametrize("body", [
    envelope(4, b""), envelope(0x80, b""), envelope(1, b"x"),
    b"\0\0\0", struct.pack(">BI", 0, 100) + b"short",
], ids=["flags", "trailers", "packed", "half a head", "half a message"])
def test_envelopes_nobody_can_mean(h, body):
    with Client(h.port, PATIENCE) as c:
        assert ask(c, body).headers["grpc-status"] == INVALID


@pytest.mark.parametrize("message", [
    b"\x0b" * 100_000,                      # groups in groups
    b"\x42\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",  # a length too long
    b"\x42\x00" * 200_000,                  # jobs of two bytes
    b"\x3a\x00" * 200_000,                  # acks
    b"\x12\x01\xff",                        # no UTF-8
    b"\xf8\xff\xff\xff\x0f\x01" * 100_000,  # fields nobody knows
], ids=["groups", "length", "jobs", "acks", "utf-8", "unknown"])
def test_bad_protobuf_is_told_and_costs_little(h, message):
    with bounded(h, "bad protobuf", 4 * GROWN_MAX_KB), \
            Client(h.port, PATIENCE) as c:
        a = ask(c, envelope(0, message) + envelope(0, ping(9)))
        assert a.headers["grpc-status"] == "0"
        assert len(envelopes(a.body)) == 2  # the stream goes on


def test_json_that_is_deep_or_long(h):
    for text in (b"[" * 1_000_000, b'{"a":' * 1_000_000,
                 b'{"queues":["' + b"x" * 15_000_000 + b'"]}'):
        with bounded(h, "JSON", ONE_BODY_KB):
            a = h.request("POST", SERVICE + "Fetch", text,
                          {"Content-Type": "application/json"})
            assert a.status == 400
            assert json.loads(a.body)["code"] == "invalid_argument"


def test_text_that_is_no_base64(h):
    for body in (b"=" * 10_000_000, b"A" * 10_000_001,
                 base64.b64encode(struct.pack(">BI", 0, 2**32 - 1))):
        with bounded(h, "gRPC-Web as text", ONE_BODY_KB):
            a = h.request("POST", SERVICE + "Fetch", body,
                          {"Content-Type": "application/grpc-web-text"})
            *_, (flags, trailers) = envelopes(base64.b64decode(a.body))
            assert flags == 0x80 and b"grpc-status: 0" not in trailers


# --- streams --------------------------------------------------------------


def test_messages_that_are_never_finished(h):
    """Together they may hold the budget; who waits too long is ended."""
    most = BUDGET_KB + ONE_BODY_KB
    piece = bytes(1 << 20)
    with bounded(h, "60 unfinished messages of 8 MiB", most), \
            contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(h.port, PATIENCE))
                   for _ in range(6)]
        begun = [(c, c.begin("POST", LIFECYCLE,
                             struct.pack(">BI", 0, BODY - 1), GRPC, end=False))
                 for c in clients for _ in range(10)]
        for _ in range(8):
            for c, i in begun:
                c.send(i, piece, end=False)
        over = [c.answer(i) for c, i in begun]
        for a in over:
            assert a.headers["grpc-status"] != "0"
    wait_until(lambda: held(h) < 1 << 20, "the memory to be free")
    assert is_served(h)


def lifecycle_head(c, stream):
    return c.request(stream, False, LIFECYCLE, "POST", GRPC)


def test_thousands_of_streams(h):
    """As many as may be stay open, for a few KB each; others are told."""
    per_connection = 100
    n = STREAMS // per_connection
    refused, cost = 0, []
    with contextlib.ExitStack() as stack, \
            bounded(h, f"{STREAMS} streams", 12 * STREAMS):
        before = held(h)
        for _ in range(n + 2):
            c = stack.enter_context(Raw(h.port, PATIENCE))
            c.send(b"".join(
                lifecycle_head(c, 2 * i + 1) +
                frame(DATA, 0, 2 * i + 1, envelope(0, ping(i + 1)))
                for i in range(per_connection)))
            heads = 0
            for kind, flags, _, payload in c.frames():
                heads += kind in (DATA, RST_STREAM) or bool(
                    kind == HEADERS and flags & END_STREAM)
                refused += kind == HEADERS and bool(flags & END_STREAM)
                if heads == per_connection:
                    break
            cost.append(held(h) - before)
        assert open_streams(h) == STREAMS
        assert refused == 2 * per_connection
        print(f"{cost[n - 1] / STREAMS:.0f} bytes counted for each")
    wait_until(lambda: open_streams(h) == 0, "the streams to be ended")
    assert is_served(h)


def test_streams_that_are_taken_back_at_once(h):
    before = ended(h, "resets")
    with bounded(h, "streams taken back"), Raw(h.port, PATIENCE) as c:
        for n in range(200):
            if not c.send(b"".join(
                    lifecycle_head(c, 2 * i + 1) +
                    frame(DATA, 0, 2 * i + 1, envelope(0, ping(1))[:4]) +
                    frame(RST_STREAM, 0, 2 * i + 1, struct.pack(">I", 8))
                    for i in range(100 * n, 100 * n + 100))):
                break
        c.ended_with()
    assert ended(h, "resets") == before + 1
    wait_until(lambda: open_streams(h) == 0, "the streams to be ended")


def test_answers_that_are_never_read(h):
    """Nothing more is read of it; then it is cut off."""
    before = metric(h, "corvo_lifecycle_frames_total")
    job = make("LifecycleStreamRequest", request_id=2**60,
               enqueues=[make("LifecycleEnqueueItem", queue="q")] * 8)
    body = envelope(0, job.SerializeToString()) * 1100
    assert len(body) < 65535  # it keeps to the window it knows
    with bounded(h, "answers to 110,000 frames that nobody reads",
                 BUDGET_KB + GROWN_MAX_KB), \
            Raw(h.port, PATIENCE, struct.pack(">HI", 4, 2**31 - 1),
                receive=4096) as c:
        c.send(frame(WINDOW_UPDATE, payload=struct.pack(
            ">I", 2**31 - 1 - 65535)))
        for i in range(1, 201, 2):
            c.send(lifecycle_head(c, i) + b"".join(
                frame(DATA, 0, i, body[at:at + 16384])
                for at in range(0, len(body), 16384)))
        wait_until(lambda: metric(h, "corvo_http2_connections") == 0,
                   "it to be cut off")
    read = metric(h, "corvo_lifecycle_frames_total") - before
    print(f"{read:.0f} frames were read")
    assert read < 50_000  # the kernel alone holds some megabytes of answers
    wait_until(lambda: open_streams(h) == 0, "the streams to be ended")


def test_large_jobs_that_nobody_takes(h):
    """7 MiB each; a client without a window is not given more than fits."""
    with bounded(h, "answers without a window", BUDGET_KB + 2 * ONE_BODY_KB), \
            Raw(h.port, PATIENCE, struct.pack(">HI", 4, 0)) as c:
        fetch = make("LifecycleStreamRequest", request_id=1, fetch_count=1,
                     queues=["large"]).SerializeToString()
        n = 30
        c.send(b"".join(lifecycle_head(c, 2 * i + 1) +
                        frame(DATA, 0, 2 * i + 1, envelope(0, fetch))
                        for i in range(n)))
        wait_until(lambda: len(h.backend.seen("request", "fetch")) >= n,
                   "the fetches")
        # what does not fit goes back at once
        h.backend.wait("request", "fail", requeue=True)
    wait_until(lambda: held(h) < 1 << 20, "the memory to be free")
    assert is_served(h)


def test_frames_of_little_that_become_much(h):
    """Jobs of two bytes, behind a frame that is not answered for long: what
    does not fit is refused, and not kept."""
    first = make("LifecycleStreamRequest", enqueues=[
        make("LifecycleEnqueueItem", queue="silent")]).SerializeToString()
    body = envelope(0, first) + envelope(0, b"\x42\x00" * 5000)
    before = metric(h, "corvo_lifecycle_frames_total")
    with Raw(h.port, PATIENCE) as c:
        for i in range(1, 100, 2):
            c.send(lifecycle_head(c, i) + frame(DATA, 0, i, body))
        wait_until(lambda: metric(h, "corvo_lifecycle_frames_total") - before
                   == 100, "all frames to be read")
        most = held(h)
    print(f"{most / 1024:.0f} KB held")
    assert most < 2 * BUDGET_KB << 10
    wait_until(lambda: held(h) < 1 << 20, "the memory to be free")


def test_what_a_frame_asks_for_is_counted(h):
    """As it came, and as it is sent on."""
    job = make("LifecycleEnqueueItem", queue="silent",
               payload_json='"' + "x" * 250_000 + '"')
    m = make("LifecycleStreamRequest", enqueues=[job] * 16)
    with Client(h.port, PATIENCE) as c:
        c.begin("POST", LIFECYCLE, envelope(0, m.SerializeToString()), GRPC)
        wait_until(lambda: held(h) > 2 * 4_000_000, "it to be counted twice")
    wait_until(lambda: held(h) < 1 << 20, "the memory to be free")


@pytest.mark.parametrize("queue, count, flags", [
    ("jobs", 100, 1), ("large", 1, 0)])
def test_a_large_answer_is_not_packed(h, queue, count, flags):
    """It would hold up everybody else."""
    m = make("FetchBatchRequest", queues=[queue], count=count)
    with Client(h.port, PATIENCE) as c:
        a = ask(c, envelope(0, m.SerializeToString()),
                [*GRPC, ("grpc-accept-encoding", "gzip")],
                SERVICE + "FetchBatch")
    assert a.headers["grpc-encoding"] == "gzip"
    assert [f for f, _ in envelopes(a.body)] == [flags]


def test_waiting_fetches_of_a_client_that_leaves(h):
    """They are withdrawn with it."""
    with Raw(h.port, PATIENCE) as c:
        fetch = make("LifecycleStreamRequest", request_id=1, fetch_count=1,
                     queues=["hostile-waits"],
                     wait_ms=60000).SerializeToString()
        c.send(lifecycle_head(c, 1) +
               frame(DATA, 0, 1, envelope(0, fetch) * 200))
        h.backend.wait("request", "fetch", 200, queues=["hostile-waits"])
        before = len(h.backend.seen("cancel"))
    wait_until(lambda: len(h.backend.seen("cancel")) >= before + 200,
               "the fetches to be withdrawn")


def test_unknown_types_and_methods(h):
    with Client(h.port, PATIENCE) as c:
        a = ask(c, b"", [("content-type", "text/plain")])
        assert a.status == 415
        assert "application/grpc" in a.headers["accept-post"]
        a = ask(c, envelope(0, b""), GRPC, SERVICE + "Nothing")
        assert a.headers["grpc-status"] == "12"  # unimplemented
        a = ask(c, b"{}", [("content-type", "application/json")], LIFECYCLE)
        assert a.status == 415
        assert b"application/connect+json" in a.body
        assert json.loads(a.body)["code"] == "UNSUPPORTED_MEDIA_TYPE"
