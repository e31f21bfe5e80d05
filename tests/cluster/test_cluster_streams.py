"""Remote calls at a node that does not lead: it serves them as the leader
would, also while another one becomes that."""

import sys
from pathlib import Path

import grpc
import pytest

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "lib"), str(TESTS / "http")]

from cluster import cluster  # noqa: E402
from node import API  # noqa: E402
from remote import make  # noqa: E402
from test_streams_grpc import Stream, Stub  # noqa: E402


@pytest.fixture(scope="module")
def three():
    with cluster() as c:
        yield c


@pytest.fixture
def follower(three):
    return three.followers()[0]


@pytest.fixture
def channel(follower):
    with grpc.insecure_channel(f"127.0.0.1:{follower.port}") as c:
        yield c


@pytest.fixture
def stream(channel):
    s = Stream(channel)
    yield s
    s.call.cancel()


def item(queue):
    return make("LifecycleEnqueueItem", queue=queue, payload_json="1")


def acks(jobs):
    return [make("AckBatchItem", job_id=j.job_id, lease_token=j.lease_token)
            for j in jobs]


def test_single_calls_are_served(channel):
    stub = Stub(channel)
    job = stub.Enqueue(queue="single").job_id
    got = stub.Fetch(queues=["single"], worker_id="w")
    assert (got.found, got.job_id) == (True, job)
    assert stub.Heartbeat(jobs={
        job: make("HeartbeatJobUpdate")}).jobs[job].status == "ok"
    stub.Ack(job_id=job, lease_token=got.lease_token)
    assert not stub.Fetch(queues=["single"], wait_ms=0).found


def test_a_stream_is_served(three, stream):
    """A waiting fetch of it hears of jobs that are added elsewhere."""
    stream.send(request_id=1, queues=["stream"], fetch_count=5, wait_ms=60000)
    assert stream.ask(request_id=2, enqueues=[item("other")]).enqueued_job_ids
    with three.leader().client() as c:
        job = c.enqueue("stream")
    a = stream.receive()
    assert (a.request_id, [j.job_id for j in a.jobs]) == (1, [job])
    assert stream.ask(request_id=3, acks=acks(a.jobs)).acked == 1
    assert stream.end() is None


def test_who_asks_for_the_leader_is_sent_there(three, follower, channel):
    asks = [("corvo-redirect", "1")]
    s = Stream(channel, metadata=asks)
    frame = {"enqueues": [item("redirect"), item("")]}
    a = s.ask(request_id=5, **frame)
    leader = three.leader()
    assert (a.request_id, a.error, a.code) == (5, "NOT_LEADER", "NOT_LEADER")
    assert a.leader_addr == f"http://127.0.0.1:{leader.port}"
    assert not a.enqueued_job_ids and not a.refused_items
    assert s.receive() is None and s.error is None  # it ends, and well
    with grpc.insecure_channel(a.leader_addr.removeprefix("http://")) as c:
        s = Stream(c, metadata=asks)
        a = s.ask(request_id=6, **frame)
        assert [bool(e.job_id) for e in a.enqueued] == [True, False]
        assert [i.item for i in a.refused_items] == ["enqueues[1]"]
        assert s.end() is None


def fetch_pushed(stream, node, queue, number=1):
    """Jobs of the queue; the stream is told of cancels."""
    with node.client() as c:
        ids = [c.enqueue(queue) for _ in range(number)]
    a = stream.ask(request_id=1, queues=[queue], fetch_count=number,
                   push_cancels=True)
    assert [j.job_id for j in a.jobs] == ids
    return ids


def cancel(node, job):
    with node.client() as c:
        assert c.post(f"{API}/jobs/{job}/cancel").status == 200


def assert_told(stream, job):
    a = stream.receive()
    assert (a.request_id, list(a.cancelled_job_ids)) == (0, [job])


def test_a_cancel_is_pushed_wherever_it_was_said(three, stream):
    """Each node is at another place of the log when it answers."""
    nodes = three.nodes
    jobs = fetch_pushed(stream, three.leader(), "push", 12)
    for i, job in enumerate(jobs):
        cancel(nodes[i % len(nodes)], job)
        assert_told(stream, job)


def test_a_cancel_is_pushed_by_a_node_that_hears_of_it_late(
        three, follower, stream):
    """The fetch was answered by then, and so was the cancel."""
    follower.slow_log(1)
    try:
        job, = fetch_pushed(stream, three.leader(), "late")
        cancel(follower, job)
        assert_told(stream, job)
    finally:
        follower.slow_log(0)


def test_a_cancel_is_pushed_when_the_leader_was_killed(
        three, follower, stream):
    old = three.leader()
    jobs = fetch_pushed(stream, old, "push-kill", 3)
    cancel(old, jobs[0])
    assert_told(stream, jobs[0])
    old.kill_all()
    for job in jobs[1:]:  # the first waits for a leader
        cancel(follower, job)
        assert_told(stream, job)
    old.start()
    three.wait_whole()


def test_a_stream_goes_on_when_the_leader_is_killed(three, follower, stream):
    """Nothing that was answered is lost, nothing is done twice."""
    old = three.leader()
    made = []
    for i in range(20):
        made += stream.ask(request_id=i + 1,
                           enqueues=[item("kill")]).enqueued_job_ids
    stream.send(request_id=100, queues=["kill-later"], fetch_count=1,
                wait_ms=60000)
    old.kill_all()
    for i in range(20):  # the first of them waits for a leader
        a = stream.ask(request_id=200 + i, enqueues=[item("kill")])
        assert (a.error, len(a.enqueued_job_ids)) == ("", 1)
        made += a.enqueued_job_ids
    assert len(set(made)) == 40
    got = []
    while len(got) < 40:
        a = stream.ask(request_id=300, queues=["kill"], fetch_count=100)
        assert a.error == "" and a.jobs
        assert stream.ask(request_id=301, acks=acks(a.jobs)).acked == \
            len(a.jobs)
        got += [j.job_id for j in a.jobs]
    assert sorted(got) == sorted(made)
    with follower.client() as c:
        late = c.enqueue("kill-later")
    a = stream.receive()
    assert (a.request_id, [j.job_id for j in a.jobs]) == (100, [late])
    old.start()
    three.wait_whole()
