"""expire_after: in every state that is not an end, and at the fetch."""

import pytest

from node import API, seconds_of, wait_until

SOON = "300ms"
LATER = "2s"  # leaves time for something before
FAR = "2100-01-01T00:00:00Z"


def wait_expired(client, job_id):
    wait_until(lambda: client.state(job_id) == "dead", 10, "the expiry")
    job = client.job(job_id)
    assert job["last_error"] == "job expired"
    assert 0 <= seconds_of(job["failed_at"]) - seconds_of(job["expire_at"]) \
        < 20
    types = [e["type"] for e in job["timeline"]]
    assert types[-2:] == ["expired", "dead"]
    return job


def leave_pending(client, queue, job_id):
    pass


def make_retrying(client, queue, job_id):
    client.fail(client.fetch(queue), retry_after="1h")


def make_active(client, queue, job_id):
    assert client.fetch(queue)["job_id"] == job_id


def make_held(client, queue, job_id):
    assert client.post(f"{API}/jobs/{job_id}/hold").status == 200


@pytest.mark.parametrize("into,state", [
    (leave_pending, "pending"), (make_retrying, "retrying"),
    (make_active, "active"), (make_held, "held")])
def test_job_expires_in_every_state(client, queue, into, state):
    # paused: an expiry must not wait for a fetch
    job_id = client.enqueue(queue, expire_after=LATER)
    into(client, queue, job_id)
    client.post(f"{API}/queues/{queue}/pause")
    assert client.state(job_id) == state
    wait_expired(client, job_id)
    assert client.queue(queue)["dead"] == 1


def test_scheduled_job_expires(client, queue):
    job_id = client.enqueue(queue, scheduled_at=FAR, expire_after="3s")
    assert client.state(job_id) == "scheduled"
    wait_expired(client, job_id)


def test_job_that_waits_for_another_expires(client, queue):
    parent = client.enqueue(f"{queue}.parent")
    job_id = client.enqueue(queue, depends_on=[parent], expire_after=SOON)
    wait_expired(client, job_id)
    client.ack(client.fetch(f"{queue}.parent"))  # tells nobody
    assert client.state(job_id) == "dead"


def test_active_job_is_dead_at_once_and_its_worker_hears_it(client, queue):
    job_id = client.enqueue(queue, expire_after=LATER)
    second = client.enqueue(queue)
    client.request("PATCH", f"{API}/queues/{queue}", {"max_concurrency": 1})
    job = client.fetch(queue, worker_id="w7", lease_duration=3600)
    assert client.fetch(queue) is None
    dead = wait_expired(client, job_id)
    assert dead["errors"][0]["worker_id"] == "w7"
    a = client.post(f"{API}/heartbeat", {"jobs": {
        job_id: {"lease_token": job["lease_token"]}}})
    assert a.json["jobs"][job_id]["status"] == "cancel"
    assert a.json["canceled"] == [job_id]
    a = client.post(f"{API}/ack/{job_id}", {"lease_token": job["lease_token"]})
    assert (a.status, a.code) == (409, "LEASE_LOST")
    assert client.state(job_id) == "dead"
    assert client.fetch(queue)["job_id"] == second  # its slot is free


def test_expired_job_is_never_handed_out(client, queue):
    """By fetches that wait for the very moment."""
    for _ in range(5):
        job_id = client.enqueue(queue, expire_after="50ms")
        client.post(f"{API}/queues/{queue}/pause")
        wait_expired(client, job_id)
        client.post(f"{API}/queues/{queue}/resume")
        assert client.fetch(queue) is None


def test_job_that_ended_in_time_does_not_expire(client, queue):
    done = client.enqueue(queue, expire_after=LATER)
    client.ack(client.fetch(queue))
    gone = client.enqueue(queue, expire_after=LATER)
    client.post(f"{API}/jobs/{gone}/cancel")
    last = client.enqueue(queue, expire_after=LATER)
    wait_expired(client, last)
    assert client.state(done) == "completed"
    assert client.state(gone) == "cancelled"


def test_retry_by_hand_of_an_expired_job_runs(client, queue):
    job_id = client.enqueue(queue, expire_after="50ms")
    wait_expired(client, job_id)
    assert client.post(f"{API}/jobs/{job_id}/retry").status == 200
    job = client.fetch(queue)
    assert job["job_id"] == job_id
    assert "expire_at" not in client.job(job_id)
    client.ack(job)


@pytest.mark.parametrize("members,seconds", [
    ({"expire_after": "90s"}, 90), ({"expire_after": 60}, 60),
    ({"expire_after_ms": 1500}, 1.5), ({"expire_after": "1h30m"}, 5400)])
def test_expire_at_is_creation_and_expire_after(client, queue, members,
                                                seconds):
    job = client.job(client.enqueue(queue, **members))
    assert seconds_of(job["expire_at"]) - seconds_of(job["created_at"]) == \
        pytest.approx(seconds, abs=1e-5)


def test_expiry_in_a_batch(client, queue):
    a = client.post(f"{API}/enqueue/batch", {"jobs": [
        {"queue": queue, "expire_after": SOON}, {"queue": queue}]})
    first, second = a.json["job_ids"]
    wait_expired(client, first)
    assert client.state(second) == "pending"


def test_expiry_survives_a_crash(make_node, queue):
    node = make_node().start()
    with node.client() as c:
        job_id = c.enqueue(queue, expire_after=LATER)
    node.kill_all()
    node.start()
    with node.client() as c:
        wait_until(lambda: c.state(job_id) == "dead", 10, "the expiry")
        assert c.job(job_id)["last_error"] == "job expired"
