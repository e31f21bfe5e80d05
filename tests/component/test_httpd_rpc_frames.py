"""corvo-httpd alone: what frames of one turn ask for goes to raftd together,
and each is answered for itself.

httpd_fixture.py starts it with a raftd and a viewd of canned answers.
"""

import pytest

from h2client import Client
from httpd_fixture import PATIENCE, node, wait_until
from remote import SERVICE, envelope, envelopes, make, messages

LIFECYCLE = SERVICE + "StreamLifecycle"
GRPC = [("content-type", "application/grpc+proto"), ("te", "trailers")]


@pytest.fixture(scope="module")
def h():
    with node("--stream-max-fps=0") as httpd:
        yield httpd


@pytest.fixture
def batches(h):
    """The queues of the batches raftd is asked to add, from now on; until
    there are so many jobs in them."""
    def found():
        return [[j["queue"] for j in e["body"]["jobs"]]
                for e in h.backend.seen("request", "enqueue_batch")]
    before = len(found())

    def get(jobs):
        wait_until(lambda: sum(map(len, found()[before:])) >= jobs,
                   f"{jobs} jobs")
        return found()[before:]
    return get


def job(queue, **more):
    return make("LifecycleEnqueueItem", queue=queue, **more)


def jobs_to(*queues):
    """A frame for each."""
    return [{"enqueues": [job(q)]} for q in queues]


def ask(h, frames):
    """Sends them in one write; the answers."""
    body = b"".join(envelope(0, make(
        "LifecycleStreamRequest", request_id=i + 1,
        **f).SerializeToString()) for i, f in enumerate(frames))
    with Client(h.port, PATIENCE) as c:
        a = c.ask("POST", LIFECYCLE, body, GRPC)
    assert a.headers["grpc-status"] == "0"
    got = [messages()["LifecycleStreamResponse"].FromString(data)
           for _, data in envelopes(a.body)]
    assert [g.request_id for g in got] == list(range(1, len(frames) + 1))
    return got


def test_jobs_of_one_turn_are_one_operation(h, batches):
    got = ask(h, jobs_to(*["q"] * 40))
    ids = [g.enqueued_job_ids[0] for g in got]
    assert len(set(ids)) == 40 and not any(g.error for g in got)
    assert [g.enqueued[0].status for g in got] == ["pending"] * 40
    got = batches(40)
    assert sum(map(len, got)) == 40
    assert len(got) <= 3, got


def test_an_operation_has_a_largest_number_of_jobs(h, batches):
    got = ask(h, [{"enqueues": [job("q")] * 30}] * 10)
    assert [len(g.enqueued_job_ids) for g in got] == [30] * 10
    assert len({i for g in got for i in g.enqueued_job_ids}) == 300
    got = batches(300)
    assert sum(map(len, got)) == 300
    assert max(map(len, got)) <= 64


def test_one_that_is_refused_is_refused_alone(h, batches):
    """It is all or nothing for those that go together: then each asks."""
    got = ask(h, jobs_to("a", "crowded", "b"))
    assert [len(g.enqueued_job_ids) for g in got] == [1, 0, 1]
    assert [g.code for g in got] == ["", "QUEUE_FULL", ""]
    assert got[1].error == "OVERLOADED: enqueue: the queue is full"
    together = batches(6)  # all of them, and each
    assert ["a"] in together and ["b"] in together


@pytest.mark.parametrize("queue, code", [
    ("overload", "OVERLOADED"), ("noleader", "LEADER_UNAVAILABLE"),
    ("garbage", "BAD_MESSAGE")])
def test_what_is_nobodys_fault_is_told_to_all(h, batches, queue, code):
    """To ask again would not help who is overloaded."""
    got = ask(h, jobs_to("a", queue, "b"))
    assert {g.code for g in got if g.code} == {code}
    assert got[1].code == code
    assert len(batches(3)) <= 3


def test_what_a_stream_says_first_is_done_first(h, batches):
    """Also where some of it may not go with others."""
    ask(h, jobs_to("1", "2") + [{"enqueues": [job("3", unique_key="k")]}] +
        jobs_to("4") + [{"acks": [make("AckBatchItem", job_id="x")],
                         "enqueues": [job("5")]}] + jobs_to("6"))
    found = batches(6)
    assert [q for b in found for q in b] == ["1", "2", "3", "4", "5", "6"]
    assert ["3"] in found


def test_jobs_that_name_each_other_stay_together(h, batches):
    """#0 is the first job of its own frame."""
    ask(h, jobs_to("a") + [{"enqueues": [
        job("b"), job("c", depends_on=["#0"])]}])
    assert ["b", "c"] in batches(3)
