"""timeout: the longest an attempt may take, kept by the server."""

import time

import pytest

from node import API, seconds_of, wait_until
from waiting import patience

# Far more than a timer needs, even on a busy machine with a slow build.
LATE_MAX_S = 20.0


def beat(client, job):
    a = client.post(f"{API}/heartbeat", {"jobs": {
        job["job_id"]: {"lease_token": job["lease_token"]}}})
    assert a.status == 200, a
    return a.json["jobs"][job["job_id"]]


def wait_state(client, job_id, state):
    wait_until(lambda: client.state(job_id) == state, 10, state)
    return client.job(job_id)


def test_attempt_fails_with_timeout_and_the_retry_rules_apply(client, queue):
    job_id = client.enqueue(queue, timeout="200ms", max_retries=2,
                            retry_backoff="fixed", retry_base_delay="1h",
                            retry_max_delay="1h")
    assert client.job(job_id)["timeout_ms"] == 200
    job = client.fetch(queue, worker_id="slow")
    shown = client.job(job_id)
    assert shown["timeout_at"] == job["timeout_at"]
    assert seconds_of(job["timeout_at"]) - seconds_of(shown["started_at"]) \
        == pytest.approx(0.2, abs=1e-6)
    shown = wait_state(client, job_id, "retrying")
    late = seconds_of(shown["failed_at"]) - seconds_of(job["timeout_at"])
    assert 0 <= late < LATE_MAX_S
    assert seconds_of(shown["scheduled_at"]) - seconds_of(shown["failed_at"]) \
        == pytest.approx(3600, abs=1e-6)
    (error,) = shown["errors"]
    assert (error["error"], error["worker_id"]) == ("timeout", "slow")
    assert "timeout_at" not in shown and "lost_leases" not in shown
    types = [e["type"] for e in shown["timeline"]]
    assert types == ["enqueued", "started", "timed_out", "retrying"]


def test_worker_hears_of_it(client, queue):
    job_id = client.enqueue(queue, timeout="100ms")
    job = client.fetch(queue)
    wait_state(client, job_id, "retrying")
    assert beat(client, job) == {"status": "cancel", "code": "LEASE_LOST"}
    for verb in ("ack", "fail"):
        a = client.post(f"{API}/{verb}/{job_id}",
                        {"lease_token": job["lease_token"]})
        assert (a.status, a.code) == (409, "LEASE_LOST")
    assert client.state(job_id) == "retrying"


def test_timeout_at_the_last_attempt_is_death(client, queue):
    job_id = client.enqueue(queue, timeout_ms=100, max_retries=1)
    client.fetch(queue)
    dead = wait_state(client, job_id, "dead")
    assert dead["last_error"] == "timeout"
    assert dead["timeline"][-1]["data"] == {"reason": "timeout"}
    assert client.queue(queue)["failed"] == 1


def test_each_attempt_has_its_own_limit(client, queue):
    client.enqueue(queue, timeout="100ms", max_retries=3,
                   retry_backoff="none")
    ends = []
    for attempt in (1, 2, 3):
        job = client.fetch(queue, timeout=10)
        assert job["attempt"] == attempt
        ends.append(seconds_of(job["timeout_at"]))
    assert ends == sorted(set(ends))
    client.ack(job)
    assert len(client.job(job["job_id"])["errors"]) == 2


def test_heartbeats_do_not_extend_it(client, queue):
    job_id = client.enqueue(queue, timeout="1500ms", max_retries=1)
    job = client.fetch(queue, lease_duration=30)
    end = time.monotonic() + patience(10)
    while (answer := beat(client, job))["status"] == "ok":
        assert time.monotonic() < end
        client.fetch(queue, timeout="50ms")  # waits a little
    assert answer["code"] == "LEASE_LOST"
    dead = client.job(job_id)
    assert dead["last_error"] == "timeout"
    late = seconds_of(dead["failed_at"]) - seconds_of(job["timeout_at"])
    assert 0 <= late < LATE_MAX_S


def test_attempt_that_ends_in_time_is_not_touched(client, queue):
    job_id = client.enqueue(queue, timeout="2s")
    job = client.fetch(queue)
    client.ack(job)
    client.enqueue(f"{queue}.2", timeout="2s", max_retries=1)
    other = client.fetch(f"{queue}.2")  # ends after the first one would have
    wait_state(client, other["job_id"], "dead")
    shown = client.job(job_id)
    assert shown["state"] == "completed" and "errors" not in shown


def test_timeout_after_cancel_ends_the_job_cancelled(client, queue):
    job_id = client.enqueue(queue, timeout="2s")
    client.fetch(queue)
    client.post(f"{API}/jobs/{job_id}/cancel")
    shown = wait_state(client, job_id, "cancelled")
    assert "timed_out" in [e["type"] for e in shown["timeline"]]


def test_slot_is_free_after_a_timeout(client, queue):
    client.enqueue(queue, timeout="2s", retry_base_delay="1h",
                   retry_max_delay="1h")
    second = client.enqueue(queue)
    assert client.request("PATCH", f"{API}/queues/{queue}",
                          {"max_concurrency": 1}).status == 200
    client.fetch(queue)
    assert client.fetch(queue) is None
    assert client.fetch(queue, timeout=10)["job_id"] == second


@pytest.mark.parametrize("value", ["soon", -1, True, []])
def test_wrong_timeout_is_refused(client, queue, value):
    a = client.post(f"{API}/enqueue", {"queue": queue, "timeout": value})
    assert (a.status, a.code) == (400, "VALIDATION_ERROR")
    assert "timeout" in a.json["error"]


def test_no_timeout_means_none(client, queue):
    client.enqueue(queue, timeout=0)
    job = client.fetch(queue)
    assert "timeout_at" not in job


def test_restart_does_not_move_the_timeout(make_node, queue):
    """A new leader gives leases a full period, attempts none."""
    node = make_node().start()
    with node.client() as c:
        job_id = c.enqueue(queue, timeout="500ms", max_retries=1)
        job = c.fetch(queue, lease_duration=3600)
    node.kill_all()
    node.start()
    with node.client() as c:
        dead = wait_state(c, job_id, "dead")
        assert dead["last_error"] == "timeout"
        assert seconds_of(dead["failed_at"]) >= seconds_of(job["timeout_at"])
