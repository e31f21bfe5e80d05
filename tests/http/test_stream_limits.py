"""Who sends frames too fast, too many or wrongly is slowed down, then
refused; others do not notice."""

import time

import grpc
import pytest

from node import wait_until
from remote import make
from test_streams_grpc import Stream, channel, refused, stub  # noqa: F401

NODE_FLAGS = ["--stream-max-open=3", "--stream-max-errors=6",
              "--stream-max-fps=100", "--stream-max-inflight=1"]


@pytest.fixture
def opened(channel):
    made = []

    def go():
        made.append(Stream(channel))
        assert made[-1].ask(request_id=1).request_id == 1
        return made[-1]

    yield go
    for s in made:
        s.call.cancel()


def test_too_many_streams(channel, opened, client):
    first = [opened() for _ in range(3)]
    late = Stream(channel)
    late.send(request_id=1)
    assert late.receive() is None
    late.thread.join()
    assert late.error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "too many open lifecycle streams" in late.error.details()
    # one that ends makes room
    assert first[0].end() is None
    wait_until(lambda: client.metrics()["corvo_rpc_streams_open"] < 3, 10,
               "the end of a stream")
    opened()


def test_frames_are_paced_not_refused(opened):
    s = opened()
    start = time.monotonic()
    for i in range(60):
        s.send(request_id=i + 2)
    got = [s.receive() for _ in range(60)]
    assert [a.request_id for a in got] == list(range(2, 62))
    assert all(a.error == "" for a in got)
    # a tenth of a second may be caught up; sixty take six tenths
    assert time.monotonic() - start > 0.4


def test_a_frame_counts_as_a_request_of_its_client(make_node):
    node = make_node("--client-max-requests-per-second=20")
    node.start()
    with grpc.insecure_channel(f"127.0.0.1:{node.port}") as c:
        s = Stream(c)
        start = time.monotonic()
        for i in range(60):
            s.send(request_id=i + 1)
        got = [s.receive() for _ in range(60)]
        assert [a.request_id for a in got] == list(range(1, 61))
        # one second is saved up; the others take two
        assert time.monotonic() - start > 1
        assert s.end() is None


def test_errors_in_a_row_close_the_stream(opened):
    s = opened()
    bad = make("AckBatchItem")
    for i in range(5):
        assert s.ask(request_id=i, acks=[bad]).error
    assert s.ask(request_id=9).error == ""  # a good one forgives
    for i in range(6):
        assert s.ask(request_id=i, acks=[bad]).error
    assert s.receive() is None
    s.thread.join()
    assert s.error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "in a row" in s.error.details()


def test_a_waiting_fetch_holds_nobody_up(opened, client, queue):
    """One frame of all streams may be at work; waiting is no work."""
    waiting, other = opened(), opened()
    waiting.send(request_id=2, queues=[queue], fetch_count=1, wait_ms=60000)
    for i in range(3):
        item = make("LifecycleEnqueueItem", queue=queue + "-other")
        assert other.ask(request_id=i, enqueues=[item]).enqueued_job_ids
    job = client.enqueue(queue)
    assert waiting.receive().jobs[0].job_id == job


def test_streams_that_waited_for_each_other_go_on(opened):
    """Each has its turn, also when the other says nothing more."""
    one, two = opened(), opened()
    for i in range(20):
        one.send(request_id=i)
        two.send(request_id=i)
        assert one.receive().request_id == i
        assert two.receive().request_id == i
    for s in (one, two, one):
        assert s.ask(request_id=99).request_id == 99


def test_a_message_too_large_ends_the_stream(opened, stub):
    s = opened()
    s.send(request_id=1, worker_id="x" * (17 << 20))
    assert s.receive() is None
    s.thread.join()
    assert s.error.code() in (grpc.StatusCode.RESOURCE_EXHAUSTED,
                              grpc.StatusCode.CANCELLED)
    assert stub.GetServerInfo().server_version
