"""Limits of a queue: active jobs, jobs handed out per time, its lease."""

import threading
import time

import pytest

from node import API
from queues import Parked, enqueue_many, fetch_many, patch


def applied(client):
    return client.metrics()["corvo_raft_applied_index"]


def test_max_concurrency_holds_for_any_number_of_workers(client, queue):
    patch(client, queue, max_concurrency=3)
    enqueue_many(client, queue, 10)
    jobs = fetch_many(client, queue, 10)
    assert len(jobs) == 3
    assert fetch_many(client, queue, 10) == []
    client.ack(jobs[0])
    assert len(fetch_many(client, queue, 10)) == 1


@pytest.mark.parametrize("end", ["ack", "fail", "requeue", "delete", "cancel"])
def test_each_end_of_an_attempt_wakes_a_waiting_worker(node, client, queue,
                                                        end):
    patch(client, queue, max_concurrency=1)
    first, second = enqueue_many(client, queue, 2)
    job = client.fetch(queue)
    waiting = Parked(node, client, queue)
    if end == "ack":
        client.ack(job)
    elif end == "fail":
        client.fail(job, retry=False)
    elif end == "requeue":
        client.fail(job, requeue=True)
    elif end == "delete":
        assert client.request("DELETE", f"{API}/jobs/{first}").status == 200
    else:
        assert client.post(f"{API}/jobs/{first}/cancel").status == 200
        client.ack(job)
    got = waiting.receive()["job_id"]
    assert got == (first if end == "requeue" else second)


def test_a_limit_that_is_raised_wakes_waiting_workers(node, client, queue):
    patch(client, queue, max_concurrency=1)
    enqueue_many(client, queue, 2)
    client.fetch(queue)
    waiting = Parked(node, client, queue)
    patch(client, queue, max_concurrency=2)
    assert "job_id" in waiting.receive()


def test_a_full_queue_is_skipped_for_another(client, queue):
    patch(client, queue, max_concurrency=1)
    enqueue_many(client, queue, 2)
    client.fetch(queue)
    other = client.enqueue(f"{queue}-other")
    assert client.fetch(queue, f"{queue}-other")["job_id"] == other


def test_throttle_allows_a_burst_and_then_holds(client, queue):
    patch(client, queue, rate=5, period="1h")
    enqueue_many(client, queue, 9)
    assert len(fetch_many(client, queue, 9)) == 5
    assert fetch_many(client, queue, 9) == []


def test_throttled_worker_is_woken_in_time(node, client, queue):
    """Several in a row, each waiting for the next moment of the rate."""
    period = 0.4
    patch(client, queue, rate=1, period_ms=int(period * 1000))
    enqueue_many(client, queue, 6)
    at = []
    with node.client() as c:
        for _ in range(6):
            a = c.post(f"{API}/fetch", {"queues": [queue], "timeout": 20})
            assert a.status == 200
            at.append(node_time(c, a.json["job_id"]))
    gaps = [b - a for a, b in zip(at, at[1:])]
    assert min(gaps) >= period
    # A slot is a 64th of the period; the rest is for waking up, and far below
    # the next moment.
    assert min(gaps) <= period * 1.9, gaps


def node_time(client, job_id):
    """When the job was started by the server's clock, in seconds."""
    text = client.job(job_id)["started_at"]
    whole, _, rest = text.rstrip("Z").partition(".")
    t = time.strptime(whole, "%Y-%m-%dT%H:%M:%S")
    return time.mktime(t) + float("0." + (rest or "0"))


def test_never_more_than_the_rate_in_any_window(node, client, queue):
    rate, period, jobs = 20, 0.5, 90
    patch(client, queue, rate=rate, period_ms=int(period * 1000))
    ids = enqueue_many(client, queue, jobs)
    left = threading.Semaphore(jobs)

    def work():
        with node.client() as c:
            while left.acquire(blocking=False):
                a = c.post(f"{API}/fetch", {"queues": [queue], "timeout": 30})
                assert a.status == 200, a
                c.ack(a.json)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    at = sorted(node_time(client, i) for i in ids)
    for i, t in enumerate(at):
        assert sum(1 for u in at[:i + 1] if t - u < period) <= rate


def test_rate_holds_over_a_restart(make_node):
    n = make_node()
    n.start()
    with n.client() as c:
        patch(c, "q", rate=3, period="1h")
        enqueue_many(c, "q", 9)
        assert len(fetch_many(c, "q", 2)) == 2
    n.stop()
    n.start()
    with n.client() as c:
        assert len(fetch_many(c, "q", 9)) == 1
        assert fetch_many(c, "q", 9) == []


@pytest.mark.parametrize("limit", ["rate", "concurrency", "group_rate",
                                   "group_concurrency"])
def test_no_log_entries_while_throttled_and_idle(make_node, limit):
    n = make_node()
    n.start()
    settings = {"rate": {"rate": 1, "period": "1h"},
                "concurrency": {"max_concurrency": 1},
                "group_rate": {"group_rate": 1, "group_period": "1h"},
                "group_concurrency": {"group_max_concurrency": 1}}[limit]
    with n.client() as c:
        patch(c, "q", **settings)
        enqueue_many(c, "q", 5, group="g")
        job = c.fetch("q", lease_duration=3600)
        assert c.state(job["job_id"]) == "active"  # this node has it
        waiting = [Parked(n, c, "q") for _ in range(3)]
        before = applied(c)
        for _ in range(5):  # come and go without an entry either
            assert c.fetch_raw("q", timeout=0).status == 204
        # A second of a worker's wait, in which nothing is to happen.
        assert c.fetch_raw("q", "other", timeout=1).status == 204
        assert applied(c) == before
        patch(c, "q", rate=None, max_concurrency=None, group_rate=None,
              group_max_concurrency=None)
        assert all("job_id" in w.receive() for w in waiting)


def test_queue_lease_is_used_when_the_fetch_names_none(client, queue):
    patch(client, queue, lease_duration=7)
    enqueue_many(client, queue, 2)
    assert client.fetch(queue)["lease_duration"] == 7
    assert client.fetch(queue, lease_duration=9)["lease_duration"] == 9
