"""GET /api/v1/scale, and when the oldest pending job was created."""

import time

from node import API, seconds_of

FIELDS = {"queue", "waiting", "active", "rate_in", "rate_out", "run_seconds",
          "suggested_workers", "oldest_waiting_seconds", "paused"}


def scale(client, queue):
    a = client.get(f"{API}/scale?queue={queue}")
    assert a.status == 200, a
    assert len(a.json["queues"]) == 1
    return a.json["queues"][0]


def test_one_queue(client, queue):
    ids = [client.enqueue(queue) for _ in range(3)]
    s = scale(client, queue)
    assert set(s) == FIELDS | {"oldest_waiting_at"}
    assert (s["queue"], s["waiting"], s["active"]) == (queue, 3, 0)
    assert s["rate_in"] > 0 and s["rate_out"] == 0
    assert s["suggested_workers"] == 1  # nothing is known of run times yet
    assert s["oldest_waiting_at"] == client.job(ids[0])["created_at"]
    assert 0 <= s["oldest_waiting_seconds"] < 60
    assert s["paused"] is False


def test_an_idle_queue_needs_no_workers(client, queue):
    client.enqueue(queue)
    client.ack(client.fetch(queue))
    s = scale(client, queue)
    assert set(s) == FIELDS
    assert s["waiting"] == s["active"] == s["suggested_workers"] == 0
    assert s["rate_in"] > 0 and s["rate_out"] > 0 and s["run_seconds"] > 0
    assert s["oldest_waiting_seconds"] == 0


def test_a_running_job_keeps_its_worker(client, queue):
    client.enqueue(queue)
    job = client.fetch(queue)
    s = scale(client, queue)
    assert (s["waiting"], s["active"], s["suggested_workers"]) == (0, 1, 1)
    client.ack(job)


def test_blocked_and_scheduled_jobs_do_not_wait(client, queue):
    first = client.enqueue(queue)
    client.enqueue(queue, depends_on=[first])
    client.enqueue(queue, scheduled_at="2099-01-01T00:00:00Z")
    assert scale(client, queue)["waiting"] == 1


def test_a_paused_queue_needs_no_workers(client, queue):
    client.enqueue(queue)
    client.post(f"{API}/queues/{queue}/pause")
    s = scale(client, queue)
    assert s["paused"] is True
    assert (s["waiting"], s["suggested_workers"]) == (1, 0)


def test_all_queues_by_name(client, queue):
    for name in ("b", "a", "c"):
        client.enqueue(f"{queue}-{name}")
    a = client.get(f"{API}/scale")
    assert a.status == 200 and set(a.json) == {"queues"}
    names = [q["queue"] for q in a.json["queues"]]
    assert names == sorted(names)
    assert {f"{queue}-a", f"{queue}-b", f"{queue}-c"} <= set(names)


def test_unknown_queue_is_404(client):
    a = client.get(f"{API}/scale?queue=nobody")
    assert (a.status, a.code) == (404, "NOT_FOUND")
    assert "nobody" in a.json["error"]


def test_a_promoted_job_waits_from_its_time_on(client, queue):
    at = time.time() + 1
    client.enqueue(queue, scheduled_at=time.strftime(
        "%Y-%m-%dT%H:%M:%SZ", time.gmtime(at)))
    job = client.fetch(queue, timeout=10)
    client.fail(job, requeue=True)
    s = scale(client, queue)
    assert seconds_of(s["oldest_waiting_at"]) >= at - 1.1


def test_numbers_go_on_after_a_restart(make_node, queue):
    node = make_node().start()
    with node.client() as c:
        job = c.enqueue(queue)
        created = c.job(job)["created_at"]
    node.stop()
    node.start()
    with node.client() as c:
        s = scale(c, queue)
        assert s["waiting"] == s["suggested_workers"] == 1
        assert s["oldest_waiting_at"] == created


def test_oldest_pending_job_of_one_queue_as_in_the_list(client, queue):
    low = client.enqueue(queue)
    client.enqueue(queue, priority="critical")
    one = client.get(f"{API}/queues/{queue}").json
    assert one["oldest_pending_at"] == client.job(low)["created_at"]
    assert one["oldest_pending_at"] == client.queue(queue)["oldest_pending_at"]
    for _ in range(2):
        client.ack(client.fetch(queue))
    assert "oldest_pending_at" not in client.get(f"{API}/queues/{queue}").json
