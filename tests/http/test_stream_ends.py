"""How streams end: with the server, with their time, with a client that goes
away; and what becomes of the jobs that were on their way."""

import base64
import json
import signal
import socket
import struct
from pathlib import Path

import grpc
import pytest

from h2client import DATA, WINDOW_UPDATE, Client, Raw, frame
from node import API, wait_until
from remote import END, TRAILERS, envelope, envelopes, make
from test_streams_grpc import Stream, channel  # noqa: F401
from waiting import patience

NODE_FLAGS = ["--http-max-memory=16MiB"]
SERVICE = "/corvo.v1.WorkerService/"
LIFECYCLE = SERVICE + "StreamLifecycle"
S = 20  # seconds an answer may take on an idle machine
WINDOW = 2 ** 31 - 1
CONNECT = ("content-type", "application/connect+json")
GRPC = ("content-type", "application/grpc")


def last(answer, flags):
    """The last envelope of an answer, which says how it ended."""
    assert answer.over, (answer.reset, answer.body)
    found, data = envelopes(answer.body)[-1]
    assert found == flags, answer.body
    return data


def connect_error(answer):
    return json.loads(last(answer, END))["error"]


# --- the server stops ------------------------------------------------------


@pytest.fixture
def stopped(make_node):
    """(a node of its own, what tells it to stop)"""
    node = make_node("--shutdown-timeout=45s")
    node.start()

    def stop():
        node.process.send_signal(signal.SIGTERM)

    yield node, stop
    assert node.process.wait(patience(S)) == 0


def test_a_stop_ends_streams_of_grpc_with_a_status(stopped):
    """A fetch that waits has its answer before."""
    node, stop = stopped
    with grpc.insecure_channel(f"127.0.0.1:{node.port}") as c, \
            node.client() as client:
        s = Stream(c)
        assert s.ask(request_id=1).request_id == 1
        s.send(request_id=2, queues=["none"], fetch_count=1, wait_ms=60000)
        wait_until(lambda: client.parked() == 1, 10, "a fetch that waits")
        stop()
        answer = s.receive()
        assert (answer.request_id, len(answer.jobs)) == (2, 0)
        assert s.receive() is None
        s.thread.join(patience(S))
        assert s.error.code() == grpc.StatusCode.UNAVAILABLE
        assert "shutting down" in s.error.details()


def test_a_stop_ends_streams_of_connect_with_their_last_envelope(stopped):
    node, stop = stopped
    with Client(node.port, patience(S)) as c:
        worker = c.begin("POST", LIFECYCLE, envelope(0, b'{"requestId":"7"}'),
                         [CONNECT], end=False)
        events = c.begin("POST", SERVICE + "Subscribe", envelope(0, b"{}"),
                         [CONNECT])
        while not c.answers[worker].body or not c.answers[events].headers:
            assert c.read()
        stop()
        for i in (worker, events):
            e = connect_error(c.answer(i))
            assert e["code"] == "unavailable"
            assert "shutting down" in e["message"]
        first = envelopes(c.answers[worker].body)[0]
        assert first == (0, b'{"requestId":"7"}')


@pytest.mark.parametrize("kind", ["", "-text"])
def test_a_stop_ends_streams_of_grpc_web_with_trailers(stopped, kind):
    node, stop = stopped
    body = envelope(0, b"")
    if kind:
        body = base64.b64encode(body)
    with Client(node.port, patience(S)) as c:
        i = c.begin("POST", SERVICE + "Subscribe", body, [
            ("content-type", f"application/grpc-web{kind}+proto")])
        while not c.answers[i].headers:
            assert c.read()
        stop()
        answer = c.answer(i)
        if kind:
            answer.body = base64.b64decode(answer.body)
        text = last(answer, TRAILERS)
        assert b"grpc-status: 14\r\n" in text and b"shutting" in text


# --- time ------------------------------------------------------------------


def test_a_stream_ends_at_its_deadline(node):
    """Also for a client that does not end it by itself."""
    with Client(node.port, patience(S)) as c:
        i = c.begin("POST", LIFECYCLE, envelope(0, b'{"requestId":"1"}'),
                    [CONNECT, ("connect-timeout-ms", "700")], end=False)
        answer = c.answer(i)
        assert connect_error(answer)["code"] == "deadline_exceeded"
        assert len(envelopes(answer.body)) == 2


def test_a_message_that_does_not_come_completely_ends_its_stream(make_node):
    node = make_node("--request-timeout=1s")
    node.start()
    with Client(node.port, patience(S)) as c:
        i = c.begin("POST", LIFECYCLE, envelope(0, b"x" * 100)[:50], [CONNECT],
                    end=False)
        e = connect_error(c.answer(i))
        assert e["code"] == "deadline_exceeded"
        assert "did not come completely" in e["message"]


def test_unfinished_messages_hold_no_more_than_there_is_memory(node, client):
    """Two of them of 12 MiB, where requests have 16 MiB in all."""
    half = envelope(0, bytes(15 << 20))[:12 << 20]
    with Client(node.port, patience(S)) as c:
        begun = [c.begin("POST", LIFECYCLE, half, [GRPC], end=False)
                 for _ in range(2)]
        ended = [c.answers[i].headers.get("grpc-status") for i in begun]
        assert "8" in ended, ended  # RESOURCE_EXHAUSTED
    assert client.get("/healthz").status == 200


# --- clients that go away --------------------------------------------------


def fetching(queue, **fields):
    """A frame of the stream that asks for one job."""
    body = make("LifecycleStreamRequest", queues=[queue], fetch_count=1,
                **fields).SerializeToString()
    return frame(DATA, 0, 1, envelope(0, body))


def test_a_job_that_was_not_read_goes_back(node, client, queue):
    """Its client takes nothing, not even one byte, and leaves."""
    job = client.enqueue(queue)
    no_window = struct.pack(">HI", 4, 0)  # SETTINGS_INITIAL_WINDOW_SIZE
    with Raw(node.port, patience(S), no_window) as c:
        c.send(c.request(1, False, LIFECYCLE, "POST", [GRPC]) +
               fetching(queue))
        wait_until(lambda: client.state(job) == "active", 10, "the fetch")
    wait_until(lambda: client.state(job) == "pending", 10, "the job back")
    assert client.fetch(queue)["attempt"] == 1


def queued_bytes(a, b):
    """What the kernel keeps on its way from port a to port b."""
    total = 0
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, _, queues, *_ = line.split()
        ends = [int(x.split(":")[1], 16) for x in (local, remote)]
        sent, came = (int(x, 16) for x in queues.split(":"))
        if ends == [a, b]:
            total += sent
        elif ends == [b, a]:
            total += came
    return total


def test_only_jobs_that_left_completely_stay_with_a_client_that_left(
        node, client, queue):
    """A client that reads nothing gets as many as the kernel holds."""
    size, n = 60000, 150
    jobs = [{"queue": queue, "payload": "x" * size}] * (n // 5)
    for _ in range(5):
        a = client.post(f"{API}/enqueue/batch", {"jobs": jobs})
        assert a.status == 201, a
    with Raw(node.port, patience(S), struct.pack(">HI", 4, WINDOW)) as c:
        c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        c.send(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", WINDOW - 65535)) +
               c.request(1, False, LIFECYCLE, "POST", [GRPC]))
        for i in range(n):
            c.send(fetching(queue, request_id=i + 1))
        ends = node.port, c.sock.getsockname()[1]
        seen = []

        def is_full():
            seen.append((client.queue(queue)["active"], queued_bytes(*ends)))
            return seen[-1][0] > 0 and len(set(seen[-5:])) == 1 < len(seen)
        wait_until(is_full, 30, "the last job that finds room")
    active, kernel = seen[-1]
    assert 0 < kernel // size < active, (kernel, active)
    wait_until(lambda: client.queue(queue)["active"] <= kernel // size, 10,
               "all others back")
