"""corvo-httpd alone: what frames of one turn ask for goes to raftd together,
and each is answered for itself.

httpd_fixture.py starts it with a raftd and a viewd of canned answers.
"""

import select

import pytest

from h2client import Client
from httpd_cost import held
from httpd_fixture import PATIENCE, node, wait_until
from remote import SERVICE, envelope, envelopes, make, messages

LIFECYCLE = SERVICE + "StreamLifecycle"
TURNS = 5  # of what is done at once, one or two are seen
GRPC = [("content-type", "application/grpc+proto"), ("te", "trailers")]


@pytest.fixture(scope="module")
def h():
    with node("--stream-max-fps=0") as httpd:
        yield httpd


def batches_of(h, op, items, name):
    def found():
        return [[j[name] for j in e["body"][items]]
                for e in h.backend.seen("request", op)]
    before = len(found())

    def get(jobs):
        wait_until(lambda: sum(map(len, found()[before:])) >= jobs,
                   f"{jobs} jobs")
        return found()[before:]
    return get


@pytest.fixture
def batches(h):
    """The queues of the batches raftd is asked to add, from now on; until
    there are so many jobs in them."""
    return batches_of(h, "enqueue_batch", "jobs", "queue")


@pytest.fixture
def acked(h):
    """The same of jobs that are acked, by their ids."""
    return batches_of(h, "ack_batch", "acks", "job_id")


def job(queue, **more):
    return make("LifecycleEnqueueItem", queue=queue, **more)


def jobs_to(*queues):
    """A frame for each."""
    return [{"enqueues": [job(q)]} for q in queues]


def acks_of(*ids, **more):
    """A frame for each."""
    return [{"acks": [make("AckBatchItem", job_id=i)], **more} for i in ids]


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


def test_one_that_is_undone_is_told_alone(h, batches):
    """Nothing of what went together was done then: each asks."""
    got = ask(h, jobs_to("a", "undone", "b"))
    assert [g.code for g in got] == ["", "INTERNAL_ERROR", ""]
    assert [len(g.enqueued_job_ids) for g in got] == [1, 0, 1]
    assert "was undone" in got[1].error
    together = batches(6)  # all of them, and each
    assert ["a"] in together and ["b"] in together


@pytest.mark.parametrize("queue, code", [
    ("overload", "OVERLOADED"), ("noleader", "LEADER_UNAVAILABLE"),
    ("garbage", "BAD_MESSAGE"), ("unknown", "INTERNAL_ERROR")])
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


# --- acks ---


def names(n):
    return [f"job_{i}" for i in range(n)]


def test_acks_of_one_turn_are_one_operation(h, acked):
    got = ask(h, acks_of(*names(40)))
    assert [(g.acked, g.error) for g in got] == [(1, "")] * 40
    found = acked(40)
    assert [i for b in found for i in b] == names(40)
    assert len(found) <= 3, found


def test_acks_of_frames_that_wait_for_jobs_go_together(h, acked):
    got = ask(h, acks_of(*names(40), queues=["jobs"], fetch_count=1,
                         wait_ms=60000))
    assert [(g.acked, len(g.jobs)) for g in got] == [(1, 1)] * 40
    assert len(acked(40)) <= 3


def test_an_operation_has_a_largest_number_of_acks(h, acked):
    ids = [f"job_{i}" for i in range(300)]
    got = ask(h, [{"acks": [make("AckBatchItem", job_id=i)
                            for i in ids[k:k + 30]]}
                  for k in range(0, 300, 30)])
    assert [g.acked for g in got] == [30] * 10
    found = acked(300)
    assert [i for b in found for i in b] == ids
    assert max(map(len, found)) <= 64


def test_a_refused_ack_is_told_to_who_sent_it(h, acked):
    got = ask(h, acks_of("a", "job_lost", "b", "job_missing", "c"))
    assert [g.acked for g in got] == [1, 0, 1, 0, 1]
    assert [[(r.job_id, r.code) for r in g.refused] for g in got] == [
        [], [("job_lost", "LEASE_LOST")], [], [("job_missing", "NOT_FOUND")],
        []]
    assert [g.code for g in got] == ["", "LEASE_LOST", "", "NOT_FOUND", ""]
    assert len(acked(5)) <= 3


def test_two_acks_of_one_job_are_told_apart(h, acked):
    """The first of them is good."""
    got = ask(h, acks_of("a", "job_once", "b", "job_once", "c"))
    assert [g.acked for g in got] == [1, 1, 1, 0, 1]
    assert [len(g.refused) for g in got] == [0, 0, 0, 1, 0]
    assert all(b.count("job_once") < 2 for b in acked(5))


def test_an_ack_that_is_undone_is_told_alone(h, acked):
    got = ask(h, acks_of("a", "undone", "b"))
    assert [g.acked for g in got] == [1, 0, 1]
    assert [g.code for g in got] == ["", "INTERNAL_ERROR", ""]
    assert ["undone"] in acked(6)


@pytest.mark.parametrize("job_id, code", [
    ("overload", "OVERLOADED"), ("noleader", "LEADER_UNAVAILABLE"),
    ("garbage", "BAD_MESSAGE"), ("unknown", "INTERNAL_ERROR")])
def test_acks_that_could_not_be_taken_are_told_to_all(h, acked, job_id, code):
    got = ask(h, acks_of("a", job_id, "b"))
    assert {g.code for g in got if g.code} == {code}
    assert got[1].code == code and got[1].acked == 0
    assert len(acked(3)) <= 3


def test_what_acks_free_can_be_fetched_by_the_same_frame(h):
    """A fetch that does not wait comes after all acks before it."""
    ask(h, acks_of("first") + acks_of("second", queues=["q"], fetch_count=1))
    seen = [e for e in h.backend.seen("request")
            if e["name"] in ("ack_batch", "fetch")]
    assert [e["name"] for e in seen[-2:]] == ["ack_batch", "fetch"]
    assert seen[-2]["body"]["acks"][-1]["job_id"] == "second"


# --- large ones ---


def test_others_are_answered_while_a_frame_is_made_ready(h):
    """Jobs that wait for each other, and each is refused for the first."""
    m = make("LifecycleEnqueueItem", depends_on=["#0"] * 128)
    m = make("LifecycleStreamRequest", enqueues=[m] * 10000)
    body = envelope(0, m.SerializeToString())

    def attempt():
        n = 0
        wait_until(lambda: held(h) < 1 << 20, "the memory to be free")
        with Client(h.port, PATIENCE) as c:
            i = c.begin("POST", LIFECYCLE, body, GRPC)
            while not select.select([c.sock], [], [], 0)[0] or \
                    (c.read() and not c.is_over(i)):
                n += held(h) > 24 << 20  # it has been read
        assert c.answers[i].headers["grpc-status"] == "0"
        return n >= TURNS
    assert any(attempt() for _ in range(5))
