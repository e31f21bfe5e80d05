"""One job's life: enqueue, fetch, ack, get; batches; order."""

import pytest

from node import API


def types(job):
    return [e["type"] for e in job["timeline"]]


def enqueue_all(client, queue, *priorities):
    return [client.enqueue(queue, priority=p) for p in priorities]


def drain(client, *queues):
    """Ids in the order they are handed out."""
    ids = []
    while job := client.fetch(*queues):
        ids.append(job["job_id"])
    return ids


def test_whole_life(client, queue):
    a = client.post(f"{API}/enqueue", {
        "queue": queue, "payload": {"to": "x"}, "priority": "high",
        "max_retries": 5, "tags": {"tenant": "acme"}})
    assert a.status == 201
    assert a.json["status"] == "pending"
    assert a.json["unique_existing"] is False
    assert int(a.headers["X-Corvo-Index"]) > 0
    job_id = a.json["job_id"]
    assert job_id.startswith("job_")

    job = client.fetch(queue, worker_id="w7", hostname="pod-1")
    assert job["job_id"] == job_id and job["queue"] == queue
    assert job["payload"] == {"to": "x"} and job["tags"] == {"tenant": "acme"}
    assert (job["attempt"], job["max_retries"]) == (1, 5)
    assert job["lease_duration"] == 60
    assert 0 < job["lease_token"] < 2**53
    held = client.job(job_id)
    assert held["state"] == "active" and "lease_expires_at" in held

    assert client.ack(job, result={"sent": True}) == {"status": "ok"}
    done = client.job(job_id)
    assert done["state"] == "completed" and done["result"] == {"sent": True}
    assert done["priority"] == "high"
    assert (done["worker_id"], done["hostname"]) == ("w7", "pod-1")
    assert done["worker"] == {"id": "w7", "hostname": "pod-1"}
    assert done["created_at"] <= done["started_at"] <= done["completed_at"]
    assert "lease_expires_at" not in done and "errors" not in done
    assert types(done) == ["enqueued", "started", "completed"]
    seqs = [e["seq"] for e in done["timeline"]]
    assert seqs == sorted(seqs) and len(set(seqs)) == 3
    assert None not in done.values()


def test_defaults(client, queue):
    job = client.job(client.enqueue(queue))
    assert job["payload"] == {} and job["priority"] == "normal"
    assert (job["attempt"], job["max_retries"]) == (0, 3)
    assert job["retry_backoff"] == "exponential"
    assert job["retry_base_delay"] == "5s"
    assert job["retry_base_delay_ms"] == 5000
    assert job["retry_max_delay"] == "10m"
    assert job["retry_max_delay_ms"] == 600000


def test_fetched_job_with_checkpoint_kept_over_attempts(client, queue):
    client.enqueue(queue, checkpoint={"at": 0}, retry_backoff="none")
    job = client.fetch(queue)
    assert job["checkpoint"] == {"at": 0}
    a = client.post(f"{API}/heartbeat", {"jobs": {job["job_id"]: {
        "checkpoint": {"at": 7}, "progress": {"current": 7, "total": 9}}}})
    assert a.json["jobs"][job["job_id"]]["status"] == "ok"
    shown = client.job(job["job_id"])
    assert shown["progress"] == {"current": 7, "total": 9}
    client.fail(job, error="broke", backtrace="line 1")
    again = client.fetch(queue, timeout=5)
    assert again["attempt"] == 2 and again["checkpoint"] == {"at": 7}
    client.ack(again, checkpoint={"at": 9})
    done = client.job(job["job_id"])
    assert done["checkpoint"] == {"at": 9}
    (error,) = done["errors"]
    assert (error["error"], error["backtrace"], error["attempt"]) == \
        ("broke", "line 1", 1)
    assert error["at"] == error["created_at"]
    assert types(done) == ["enqueued", "started", "progress", "failed",
                           "retrying", "promoted", "started", "completed"] or \
        types(done) == ["enqueued", "started", "progress", "failed",
                        "retrying", "started", "completed"]


def test_fifo(client, queue):
    ids = enqueue_all(client, queue, *["normal"] * 50)
    assert drain(client, queue) == ids


def test_priority_before_age(client, queue):
    n1, h1, c1, n2, c2, h2 = enqueue_all(
        client, queue, "normal", "high", "critical", "normal", "critical",
        "high")
    assert drain(client, queue) == [c1, c2, h1, h2, n1, n2]


def test_priority_over_all_queues(client, queue):
    a, b, c = f"{queue}.a", f"{queue}.b", f"{queue}.c"
    plan = [(a, "normal"), (b, "high"), (c, "critical"), (b, "normal"),
            (a, "high"), (c, "normal"), (a, "critical"), (b, "critical")]
    ids = [client.enqueue(q, priority=p) for q, p in plan]
    got = drain(client, b, a, c)
    assert got == [ids[i] for i in (2, 6, 7, 1, 4, 0, 3, 5)]


def test_each_enqueue_is_seen_by_the_next_fetch(client, queue):
    for _ in range(20):
        job_id = client.enqueue(queue)
        job = client.fetch(queue)
        assert job["job_id"] == job_id
        client.ack(job)


# --- batches --------------------------------------------------------------


@pytest.mark.parametrize("path", ["/enqueue/batch", "/enqueue"])
def test_batch(client, queue, path):
    a = client.post(API + path, {"jobs": [
        {"queue": queue, "payload": 0, "priority": "high"},
        {"queue": f"{queue}.x", "payload": [1]},
        {"queue": queue, "payload": "2", "max_retries": 9,
         "scheduled_at": "2100-01-01T00:00:00Z"}]})
    assert a.status == 201
    ids = a.json["job_ids"]
    assert len(set(ids)) == 3
    jobs = [client.job(i) for i in ids]
    assert [j["payload"] for j in jobs] == [0, [1], "2"]
    assert [j["queue"] for j in jobs] == [queue, f"{queue}.x", queue]
    assert [j["state"] for j in jobs] == ["pending", "pending", "scheduled"]
    assert jobs[0]["priority"] == "high" and jobs[2]["max_retries"] == 9


def test_large_batch_keeps_its_order(client, queue):
    a = client.post(f"{API}/enqueue/batch", {"jobs": [
        {"queue": queue, "payload": i} for i in range(2000)]})
    assert a.status == 201
    got = []
    while len(got) < 2000:
        a = client.post(f"{API}/fetch/batch", {
            "queues": [queue], "count": 512, "timeout": 0})
        got += [j["payload"] for j in a.json["jobs"]]
        assert a.json["jobs"]
    assert got == list(range(2000))


def test_batch_is_all_or_nothing(client, queue):
    a = client.post(f"{API}/enqueue/batch", {"jobs": [
        {"queue": queue}, {"queue": queue, "max_retries": "many"}]})
    assert a.status == 400
    assert client.fetch(queue) is None
    assert client.queue(queue) is None


def test_fetch_batch(client, queue):
    ids = enqueue_all(client, queue, *["normal"] * 5)

    def fetch(count, timeout=0):
        a = client.post(f"{API}/fetch/batch", {
            "queues": [queue], "count": count, "timeout": timeout,
            "worker_id": "w1"})
        assert a.status == 200
        return a.json["jobs"]

    assert [j["job_id"] for j in fetch(3)] == ids[:3]
    assert [j["job_id"] for j in fetch(0)] == ids[3:4]  # 0 means one
    last = fetch(1000)  # more than the cap is the cap
    assert [j["job_id"] for j in last] == ids[4:]
    assert fetch(3) == []


def test_ack_batch(client, queue):
    ids = enqueue_all(client, queue, *["normal"] * 4)
    jobs = [client.fetch(queue) for _ in ids[:3]]
    client.ack(jobs[2])
    a = client.post(f"{API}/ack/batch", {"acks": [
        {"job_id": ids[0], "lease_token": jobs[0]["lease_token"],
         "result": {"n": 0}},
        {"job_id": ids[1], "lease_token": jobs[1]["lease_token"] + 1},
        {"job_id": ids[2]},
        {"job_id": ids[3]},
        {"job_id": "job_unknown"}]})
    assert a.status == 200 and a.json["acked"] == 1
    assert {r["job_id"]: r["code"] for r in a.json["refused"]} == {
        ids[1]: "LEASE_LOST", ids[2]: "ACK_ERROR", ids[3]: "ACK_ERROR",
        "job_unknown": "NOT_FOUND"}
    assert [client.state(i) for i in ids] == \
        ["completed", "active", "completed", "pending"]
    assert client.job(ids[0])["result"] == {"n": 0}


def test_ack_batch_completes_all(client, queue):
    enqueue_all(client, queue, *["normal"] * 100)
    a = client.post(f"{API}/fetch/batch", {"queues": [queue], "count": 100,
                                           "timeout": 0})
    acks = [{"job_id": j["job_id"], "lease_token": j["lease_token"]}
            for j in a.json["jobs"]]
    assert len(acks) == 100
    a = client.post(f"{API}/ack/batch", {"acks": acks})
    assert a.json["acked"] == 100 and not a.json.get("refused")
    assert client.queue(queue)["completed"] == 100


def test_ack_without_token_or_body(client, queue):
    """As clients of v0.3.0 do."""
    job_id = client.enqueue(queue)
    client.fetch(queue)
    a = client.post(f"{API}/ack/{job_id}")
    assert (a.status, a.json) == (200, {"status": "ok"})
    assert client.state(job_id) == "completed"


# --- cancel and delete ----------------------------------------------------


def test_cancel_of_a_pending_job(client, queue):
    job_id = client.enqueue(queue)
    a = client.post(f"{API}/jobs/{job_id}/cancel")
    assert (a.status, a.json) == (200, {"status": "cancelled"})
    assert client.fetch(queue) is None
    job = client.job(job_id)
    assert job["state"] == "cancelled" and "cancelled_at" in job
    assert types(job) == ["enqueued", "cancelled"]


@pytest.mark.parametrize("state", ["pending", "active", "completed", "dead",
                                   "scheduled", "retrying", "cancelled"])
def test_delete_in_any_state(client, queue, state):
    members = {"scheduled_at": "2100-01-01T00:00:00Z"} \
        if state == "scheduled" else {}
    job_id = client.enqueue(queue, max_retries=2 if state == "retrying" else 1,
                            **members)
    job = None
    if state in ("active", "completed", "dead", "retrying"):
        job = client.fetch(queue)
    if state == "completed":
        client.ack(job)
    if state in ("dead", "retrying"):
        client.fail(job)
    if state == "cancelled":
        client.post(f"{API}/jobs/{job_id}/cancel")
    assert client.state(job_id) == state
    a = client.request("DELETE", f"{API}/jobs/{job_id}")
    assert (a.status, a.json) == (200, {"status": "deleted"})
    assert client.get(f"{API}/jobs/{job_id}").status == 404
    assert client.request("DELETE", f"{API}/jobs/{job_id}").status == 404
    assert client.fetch(queue) is None
    assert client.search(queue=queue)["jobs"] == []
    assert client.queue(queue)["enqueued"] == 0
    if state == "active":
        beat = client.post(f"{API}/heartbeat", {"jobs": {job_id: {}}}).json
        assert beat["jobs"][job_id]["status"] == "cancel"
        assert beat["unknown"] == [job_id]
        a = client.post(f"{API}/ack/{job_id}", {})
        assert (a.status, a.code) == (404, "NOT_FOUND")
