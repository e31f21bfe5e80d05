"""Who holds a job: tokens, heartbeats, lost leases, cancellation."""

import time

import pytest

from node import API, seconds_of, wait_until


def beat(client, *jobs, **members):
    """A heartbeat of jobs as fetch returned them; the answer's body."""
    a = client.post(f"{API}/heartbeat", {"jobs": {
        j["job_id"]: {"lease_token": j["lease_token"], **members}
        for j in jobs}})
    assert a.status == 200, a
    return a.json


def refused(client, verb, job, **members):
    a = client.post(f"{API}/{verb}/{job['job_id']}", members)
    return a.status, a.code


def lose(client, queue, **members):
    """(lost, current): the same job, fetched again after its lease ended."""
    job_id = client.enqueue(queue, **members)
    lost = client.fetch(queue, lease_duration_ms=100, worker_id="first")
    current = client.fetch(queue, timeout=60, worker_id="second")
    assert lost["job_id"] == current["job_id"] == job_id
    return lost, current


def test_tokens_differ(client, queue):
    lost, current = lose(client, queue)
    assert lost["lease_token"] != current["lease_token"]
    assert (lost["attempt"], current["attempt"]) == (1, 2)


@pytest.mark.parametrize("verb", ["ack", "fail"])
def test_old_token_is_refused(client, queue, verb):
    lost, current = lose(client, queue)
    token = {"lease_token": lost["lease_token"]}
    assert refused(client, verb, lost, **token) == (409, "LEASE_LOST")
    assert client.state(lost["job_id"]) == "active"
    assert refused(client, verb, lost, worker_id="first") == \
        (409, "LEASE_LOST")
    client.ack(current)
    assert client.state(lost["job_id"]) == "completed"
    assert refused(client, verb, lost, **token) == (409, "LEASE_LOST")
    assert client.job(lost["job_id"])["attempt"] == 2


def test_worker_and_token_of_the_holder_are_accepted(client, queue):
    client.enqueue(queue)
    job = client.fetch(queue, worker_id="me")
    client.ack(job, worker_id="me")
    assert client.state(job["job_id"]) == "completed"


def test_old_token_in_a_heartbeat(client, queue):
    lost, current = lose(client, queue)
    job_id = lost["job_id"]
    answer = beat(client, lost)
    assert answer["jobs"][job_id] == {"status": "cancel", "code": "LEASE_LOST"}
    assert answer["canceled"] == [job_id] and answer["acked"] == []
    assert beat(client, current)["jobs"][job_id]["status"] == "ok"


def test_one_lost_entry_does_not_spoil_the_others(client, queue):
    lost, current = lose(client, queue)
    client.enqueue(f"{queue}.2")
    other = client.fetch(f"{queue}.2")
    a = client.post(f"{API}/heartbeat", {"jobs": {
        lost["job_id"]: {"lease_token": lost["lease_token"]},
        other["job_id"]: {"lease_token": other["lease_token"]},
        "job_unknown": {}}})
    answer = a.json
    assert answer["jobs"][lost["job_id"]]["code"] == "LEASE_LOST"
    assert answer["jobs"][other["job_id"]]["status"] == "ok"
    assert answer["jobs"]["job_unknown"]["status"] == "cancel"
    assert answer["acked"] == [other["job_id"]]
    assert answer["unknown"] == ["job_unknown"]


def test_heartbeat_extends_by_the_granted_lease(client, queue):
    client.enqueue(queue)
    lease_s = 3
    job = client.fetch(queue, lease_duration=lease_s)
    end = time.monotonic() + lease_s + 1
    while time.monotonic() < end:
        sent = time.time()
        answer = beat(client, job)["jobs"][job["job_id"]]
        assert answer["status"] == "ok"
        end_of_lease = seconds_of(answer["lease_expires_at"])
        assert sent - 0.001 <= end_of_lease - lease_s <= time.time() + 0.001
        assert client.fetch(queue, timeout="300ms") is None
    client.ack(job)
    done = client.job(job["job_id"])
    assert done["attempt"] == 1 and "errors" not in done


def test_heartbeat_as_a_list(client, queue):
    client.enqueue(queue)
    job = client.fetch(queue)
    a = client.post(f"{API}/heartbeat", {"worker_id": "w1", "jobs": [
        {"job_id": job["job_id"], "lease_token": job["lease_token"],
         "progress": 50}]})
    assert a.json["jobs"][job["job_id"]]["status"] == "ok"
    assert client.job(job["job_id"])["progress"] == 50


def test_empty_heartbeat(client):
    for body in (b"", b"{}", b'{"jobs":{}}', b'{"jobs":[]}'):
        a = client.post(f"{API}/heartbeat", body)
        assert a.status == 200
        assert a.json == {"jobs": {}, "acked": [], "unknown": [],
                          "canceled": []}


def test_lost_lease_is_an_error_and_counts(client, queue):
    lost, current = lose(client, queue, max_retries=2)
    job = client.job(lost["job_id"])
    (error,) = job["errors"]
    assert error["error"] == "lease expired" and error["attempt"] == 1
    assert (error["worker_id"], error["hostname"]) == ("first", "h1")
    assert "reclaimed" in [e["type"] for e in job["timeline"]]
    assert job["lost_leases"] == 1
    client.fail(current, error="mine")
    dead = client.job(lost["job_id"])
    assert dead["state"] == "dead"
    assert [e["error"] for e in dead["errors"]] == ["lease expired", "mine"]


def test_lost_lease_at_the_last_attempt_is_death(client, queue):
    job_id = client.enqueue(queue, max_retries=1)
    job = client.fetch(queue, lease_duration_ms=100)
    wait_until(lambda: client.state(job_id) == "dead", 10, "the job to die")
    dead = client.job(job_id)
    assert dead["errors"][0]["error"] == "lease expired"
    assert dead["last_error"] == "lease expired"
    assert refused(client, "ack", job, lease_token=job["lease_token"]) == \
        (409, "LEASE_LOST")
    assert refused(client, "ack", job) == (400, "ACK_ERROR")
    assert client.fetch(queue) is None


def test_reclaimed_job_keeps_its_place(client, queue):
    first = client.enqueue(queue)
    second = client.enqueue(queue)
    client.fetch(queue, lease_duration_ms=100)
    wait_until(lambda: client.state(first) == "pending", 10, "the reclaim")
    assert client.fetch(queue)["job_id"] == first
    assert client.fetch(queue)["job_id"] == second


# --- cancellation of an active job -------------------------------------------


def cancel_active(client, queue, **members):
    job_id = client.enqueue(queue)
    job = client.fetch(queue, **members)
    a = client.post(f"{API}/jobs/{job_id}/cancel")
    assert (a.status, a.json) == (200, {"status": "cancelling"})
    shown = client.job(job_id)
    assert shown["state"] == "active" and shown["cancel_requested"] is True
    return job


def test_cancel_then_ack(client, queue):
    job = cancel_active(client, queue)
    answer = beat(client, job)
    assert answer["jobs"][job["job_id"]]["status"] == "cancel"
    assert answer["canceled"] == [job["job_id"]]
    assert client.state(job["job_id"]) == "active"
    client.ack(job, result={"half": True})
    done = client.job(job["job_id"])
    assert done["state"] == "cancelled" and "cancel_requested" not in done
    types = [e["type"] for e in done["timeline"]]
    assert types == ["enqueued", "started", "cancelling", "cancelled"]


def test_cancel_then_fail(client, queue):
    job = cancel_active(client, queue)
    assert client.fail(job)["status"] == "cancelled"
    assert client.state(job["job_id"]) == "cancelled"
    assert client.fetch(queue) is None


def test_cancel_then_lost_lease(client, queue):
    job = cancel_active(client, queue, lease_duration_ms=2000)
    wait_until(lambda: client.state(job["job_id"]) == "cancelled", 10,
               "the cancelled job to end")
    assert client.fetch(queue) is None


def test_cancel_twice(client, queue):
    job = cancel_active(client, queue)
    a = client.post(f"{API}/jobs/{job['job_id']}/cancel")
    assert (a.status, a.json) == (200, {"status": "cancelling"})
    client.ack(job)
    a = client.post(f"{API}/jobs/{job['job_id']}/cancel")
    assert (a.status, a.code) == (400, "CANCEL_ERROR")
