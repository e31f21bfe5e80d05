"""Waiting for work: long polls, what wakes them and who gets the job."""

import threading
import time

import pytest

from node import API, wait_until
from queues import Parked
from waiting import patience


DEFAULT_S = 30  # a fetch that says nothing of it waits so long


@pytest.fixture
def park(node):
    """Parks a fetch on a connection of its own; receive() on the result."""
    made = []

    def go(*queues, path="/fetch", timeout=20, **members):
        c = node.client()
        made.append(c)
        want = parked(node) + 1
        c.send("POST", API + path, {"queues": list(queues), "timeout": timeout,
                                    "worker_id": f"p{len(made)}", **members})
        wait_until(lambda: parked(node) >= want, 10, "a parked fetch")
        return c

    yield go
    for c in made:
        c.close()


def parked(node):
    with node.client() as c:
        return c.parked()


def test_enqueue_wakes_a_waiting_fetch(client, queue, park):
    waiting = park(queue)
    job_id = client.enqueue(queue)
    a = waiting.receive()
    assert a.status == 200 and a.json["job_id"] == job_id
    assert client.state(job_id) == "active"


def test_batch_wakes_as_many_as_it_has_jobs(client, queue, park):
    waiting = [park(queue) for _ in range(5)]
    a = client.post(f"{API}/enqueue/batch",
                    {"jobs": [{"queue": queue}] * 5})
    got = {w.receive().json["job_id"] for w in waiting}
    assert got == set(a.json["job_ids"])


def test_waiting_fetches_are_served_in_their_order(client, queue, park):
    first, second = park(queue), park(queue)
    one = client.enqueue(queue)
    assert first.receive().json["job_id"] == one
    two = client.enqueue(queue)
    assert second.receive().json["job_id"] == two


def test_waiting_batch_returns_with_the_first_job(client, queue, park):
    waiting = park(queue, path="/fetch/batch", count=10)
    job_id = client.enqueue(queue)
    jobs = waiting.receive().json["jobs"]
    assert [j["job_id"] for j in jobs] == [job_id]


@pytest.mark.parametrize("wake", ["retry", "resume", "requeue", "promote"])
def test_other_ways_to_wake(client, queue, park, wake):
    job_id = client.enqueue(queue, retry_backoff="fixed",
                            retry_base_delay="200ms")
    job = client.fetch(queue) if wake != "resume" else None
    if wake == "resume":
        client.post(f"{API}/queues/{queue}/pause")
    if wake == "retry":
        client.ack(job)
    waiting = park(queue)
    if wake == "retry":
        assert client.post(f"{API}/jobs/{job_id}/retry").status == 200
    elif wake == "resume":
        assert client.post(f"{API}/queues/{queue}/resume").status == 200
    elif wake == "requeue":
        client.fail(job, requeue=True)
    else:
        client.fail(job)
    assert waiting.receive().json["job_id"] == job_id


def test_timeout_0_does_not_wait(client, queue):
    began = time.monotonic()
    a = client.fetch_raw(queue, timeout=0)
    assert (a.status, a.body) == (204, b"")
    a = client.post(f"{API}/fetch/batch", {"queues": [queue], "timeout": 0})
    assert (a.status, a.json) == (200, {"jobs": []})
    assert time.monotonic() - began < DEFAULT_S - 5


def test_204_after_the_timeout(client, queue):
    began = time.monotonic()
    a = client.fetch_raw(queue, timeout=1)
    took = time.monotonic() - began
    assert (a.status, a.body) == (204, b"")
    assert 0.95 <= took < DEFAULT_S - 5, took
    began = time.monotonic()
    a = client.fetch_raw(queue, timeout="300ms")
    assert a.status == 204
    assert 0.25 <= time.monotonic() - began < DEFAULT_S - 5


def test_best_priority_then_oldest_over_several_queues(client, queue):
    a, b = f"{queue}.a", f"{queue}.b"
    old = client.enqueue(b)
    client.enqueue(a)
    high = client.enqueue(a, priority="high")
    assert client.fetch(a, b)["job_id"] == high
    assert client.fetch(a, b)["job_id"] == old


def test_parked_on_several_queues(client, queue, park):
    a, b = f"{queue}.a", f"{queue}.b"
    waiting = park(a, b)
    job_id = client.enqueue(b)
    assert waiting.receive().json["job_id"] == job_id
    client.enqueue(a)  # nobody waits any more
    assert client.fetch(a) is not None


def test_a_client_that_left_gets_no_job(node, client, queue, park):
    gone = park(queue)
    before = parked(node)
    gone.close()
    wait_until(lambda: parked(node) < before, 10,
               "the parked fetch to be dropped")
    job_id = client.enqueue(queue)
    assert client.state(job_id) == "pending"
    job = client.fetch(queue)
    assert (job["job_id"], job["attempt"]) == (job_id, 1)


def test_many_clients_that_left(node, client, queue, park):
    """None of a crowd that went away takes a job; the one who stays does."""
    crowd = [park(queue) for _ in range(30)]
    stays = park(queue)
    before = parked(node)
    for c in crowd:
        c.close()
    wait_until(lambda: parked(node) <= before - 30, 10,
               "the crowd to be dropped")
    job_id = client.enqueue(queue)
    assert stays.receive().json["job_id"] == job_id


def test_lease_duration(client, queue):
    for members, seconds in [({}, 60), ({"lease_duration": 5}, 5),
                             ({"lease_duration": "90s"}, 90),
                             ({"lease_duration_ms": 1500}, 1.5),
                             ({"lease_duration": 0.25}, 0.25)]:
        client.enqueue(queue)
        assert client.fetch(queue, **members)["lease_duration"] == seconds


def test_paused_queue_gives_nothing(client, queue):
    client.enqueue(queue)
    client.post(f"{API}/queues/{queue}/pause")
    assert client.fetch(queue) is None
    assert client.fetch(queue, timeout="200ms") is None
    client.post(f"{API}/queues/{queue}/resume")
    assert client.fetch(queue) is not None


def test_parked_fetches_write_nothing(make_node):
    """On a node of its own: what other tests left behind falls due some time,
    and the end of a lease is an entry."""
    node = make_node().start()
    with node.client() as c:
        crowd = [Parked(node, c, "q") for _ in range(20)]
        before = c.total("corvo_raft_entries_total")
        assert c.fetch("other", timeout=1) is None
        assert c.total("corvo_raft_entries_total") == before
        c.post(f"{API}/enqueue/batch", {"jobs": [{"queue": "q"}] * 20})
        assert len({p.receive()["job_id"] for p in crowd}) == 20


def test_a_worker_is_woken_again_and_again(node, client, queue):
    """How fast, is a figure of bench/parked.py."""
    got = threading.Semaphore(0)

    def worker():
        with node.client() as c:
            for _ in range(30):
                c.ack(c.fetch(queue, timeout=60))
                got.release()

    t = threading.Thread(target=worker)
    t.start()
    for _ in range(30):
        client.enqueue(queue)
        assert got.acquire(timeout=patience(20))
    t.join()
