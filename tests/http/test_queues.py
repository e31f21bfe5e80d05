"""Queues and workers. Every list holds what was acknowledged before it."""

import json

from node import API

COUNTS = ["pending", "active", "held", "completed", "dead", "scheduled",
          "retrying", "cancelled"]


def counts(client, queue):
    row = client.queue(queue)
    assert row["enqueued"] == sum(row[s] for s in COUNTS)
    return {s: row[s] for s in COUNTS if row[s]}


def test_counts_follow_every_write_at_once(client, queue):
    jobs = [client.enqueue(queue, max_retries=2) for _ in range(6)]
    assert counts(client, queue) == {"pending": 6}
    client.enqueue(queue, scheduled_at="2100-01-01T00:00:00Z")
    assert counts(client, queue) == {"pending": 6, "scheduled": 1}
    held = [client.fetch(queue) for _ in range(5)]
    assert counts(client, queue) == {"pending": 1, "active": 5, "scheduled": 1}
    client.ack(held[0])
    assert counts(client, queue)["completed"] == 1
    client.fail(held[1])
    assert counts(client, queue)["retrying"] == 1
    client.fail(held[2], retry=False)
    assert counts(client, queue)["dead"] == 1
    client.post(f"{API}/jobs/{jobs[5]}/cancel")
    assert counts(client, queue) == {
        "active": 2, "completed": 1, "retrying": 1, "dead": 1, "cancelled": 1,
        "scheduled": 1}
    client.request("DELETE", f"{API}/jobs/{jobs[0]}")
    assert "completed" not in counts(client, queue)
    client.post(f"{API}/jobs/{jobs[2]}/retry")
    assert counts(client, queue) == {
        "pending": 1, "active": 2, "retrying": 1, "cancelled": 1,
        "scheduled": 1}
    client.fail(held[3], requeue=True)
    assert counts(client, queue)["pending"] == 2


def test_each_write_is_in_the_next_list(client, queue):
    """Many times, without any header: no list may be behind."""
    for n in range(1, 101):
        job_id = client.enqueue(queue)
        assert client.queue(queue)["pending"] == 1
        found = client.search(queue=queue, state=["pending"])
        assert [j["id"] for j in found["jobs"]] == [job_id]
        client.ack(client.fetch(queue))
        row = client.queue(queue)
        assert (row["pending"], row["completed"]) == (0, n)


def test_min_index_is_accepted(client, queue):
    a = client.post(f"{API}/enqueue", {"queue": queue})
    index = a.headers["X-Corvo-Index"]
    a = client.get(f"{API}/queues", {"X-Corvo-Min-Index": index})
    assert a.status == 200
    assert queue in [q["name"] for q in a.json]


def test_pause_and_resume(client, queue):
    client.enqueue(queue)
    held = client.fetch(queue)
    a = client.post(f"{API}/queues/{queue}/pause")
    assert (a.status, a.json) == (200, {"status": "paused"})
    assert client.queue(queue)["paused"] is True
    client.enqueue(queue)  # goes on
    assert client.fetch(queue) is None
    client.ack(held)  # goes on too
    assert client.queue(queue)["completed"] == 1
    a = client.post(f"{API}/queues/{queue}/pause")
    assert (a.status, a.json) == (200, {"status": "paused"})
    a = client.post(f"{API}/queues/{queue}/resume")
    assert (a.status, a.json) == (200, {"status": "resumed"})
    assert client.queue(queue)["paused"] is False
    assert client.fetch(queue) is not None


def test_pause_of_a_queue_nobody_used(client, queue):
    assert client.post(f"{API}/queues/{queue}/pause").status == 200
    row = client.queue(queue)
    assert row["paused"] is True and row["enqueued"] == 0
    client.enqueue(queue)
    assert client.fetch(queue) is None


def test_paused_queue_among_others(client, queue):
    a, b = f"{queue}.a", f"{queue}.b"
    client.enqueue(a, priority="critical")
    job = client.enqueue(b)
    client.post(f"{API}/queues/{a}/pause")
    assert client.fetch(a, b)["job_id"] == job
    assert client.fetch(a, b) is None


def test_list_is_sorted_and_complete(client, queue):
    for name in ("c", "a", "b"):
        client.enqueue(f"{queue}.{name}")
    a = client.get(f"{API}/queues")
    names = [q["name"] for q in a.json]
    assert names == sorted(names)
    assert {f"{queue}.{n}" for n in "abc"} <= set(names)
    for row in a.json:
        assert row["created_at"] > "2020"
        assert None not in row.values()


def test_oldest_pending(client, queue):
    first = client.job(client.enqueue(queue))
    second = client.job(client.enqueue(queue))
    assert client.queue(queue)["oldest_pending_at"] == first["created_at"]
    client.fetch(queue)
    assert client.queue(queue)["oldest_pending_at"] == second["created_at"]
    client.fetch(queue)
    assert "oldest_pending_at" not in client.queue(queue)


def test_workers(client, queue):
    client.enqueue(queue)
    client.enqueue(queue)
    client.fetch(queue, f"{queue}.x", worker_id="early", hostname="host-1")
    client.fetch(queue, worker_id="late", hostname="host-2")
    a = client.get(f"{API}/workers")
    assert a.status == 200
    rows = {w["id"]: w for w in a.json}
    assert rows["early"]["hostname"] == "host-1"
    assert rows["early"]["started_at"] <= rows["early"]["last_heartbeat"]
    assert sorted(json.loads(rows["early"]["queues"])) == \
        sorted([queue, f"{queue}.x"])
    ids = [w["id"] for w in a.json]
    assert ids.index("late") < ids.index("early")  # last seen first


def test_a_fetch_without_a_worker_id(client, queue):
    before = len(client.get(f"{API}/workers").json)
    client.enqueue(queue)
    a = client.post(f"{API}/fetch", {"queues": [queue], "timeout": 0})
    assert a.status == 200
    assert client.post(f"{API}/ack/{a.json['job_id']}").status == 200
    assert len(client.get(f"{API}/workers").json) == before


def test_many_queues(client, queue):
    jobs = [{"queue": f"{queue}.{i:04}"} for i in range(1000)]
    a = client.post(f"{API}/enqueue/batch", {"jobs": jobs})
    assert a.status == 201
    names = [q["name"] for q in client.get(f"{API}/queues").json]
    assert {j["queue"] for j in jobs} <= set(names)
