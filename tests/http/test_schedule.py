"""Jobs that wait for their time, and jobs that run out of it.

The strict figures (bench/timers) are for a release build on a quiet machine;
here nothing may come early, and not all may come late.
"""

import statistics
import threading
import time

import pytest

from node import API, is_sanitized, seconds_of, wait_until

SLOW = 5 if is_sanitized() else 1


def rfc3339(seconds):
    whole = int(seconds)
    text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))
    return f"{text}.{int((seconds - whole) * 1e6):06d}Z"


def show(name, delays):
    ms = sorted(d * 1000 for d in delays)
    print(f"{name}: n {len(ms)} min {ms[0]:.2f} p50 {statistics.median(ms):.2f}"
          f" max {ms[-1]:.2f} ms")


def test_future_job_waits(client, queue):
    a = client.post(f"{API}/enqueue", {
        "queue": queue, "scheduled_at": "2100-01-01T00:00:00Z"})
    assert a.json["status"] == "scheduled"
    job = client.job(a.json["job_id"])
    assert job["state"] == "scheduled"
    assert job["scheduled_at"] == "2100-01-01T00:00:00Z"
    assert client.fetch(queue) is None
    assert client.queue(queue)["scheduled"] == 1


@pytest.mark.parametrize("at", ["1970-01-01T00:00:00Z", "2020-02-29T23:59:59Z",
                                "2020-01-01T12:00:00+05:30"])
def test_past_job_is_pending_at_once(client, queue, at):
    a = client.post(f"{API}/enqueue", {"queue": queue, "scheduled_at": at})
    assert a.json["status"] == "pending"
    assert client.fetch(queue)["job_id"] == a.json["job_id"]


def test_offset_and_digits_of_a_time(client, queue):
    for text, shown in [
            ("2100-01-01T05:30:00+05:30", "2100-01-01T00:00:00Z"),
            ("2100-01-01T00:00:00.123456789Z",
             "2100-01-01T00:00:00.123456789Z"),
            ("2100-01-01T00:00:00.100Z", "2100-01-01T00:00:00.1Z")]:
        job_id = client.enqueue(queue, scheduled_at=text)
        assert client.job(job_id)["scheduled_at"] == shown


def test_handed_out_at_its_time(node, client, queue):
    """20 jobs, 50 ms apart, to parked fetches: never early, soon after."""
    delays = []

    def worker():
        with node.client() as c:
            while job := c.fetch(queue, timeout=4):
                delays.append(time.time() - job["payload"]["due"])
                c.ack(job)

    threads = [threading.Thread(target=worker) for _ in range(3)]
    first = time.time() + 1.0
    for i in range(20):
        due = first + i * 0.05
        client.enqueue(queue, payload={"due": due}, scheduled_at=rfc3339(due))
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    show("scheduled", delays)
    assert len(delays) == 20
    assert min(delays) >= -1e-6, "handed out before its time"
    assert min(delays) <= 0.020 * SLOW, "always late"


def test_handed_out_after_a_lost_lease(node, client, queue):
    """12 leases that end: the next delivery is not early and soon after."""
    ends, delays = {}, []
    for _ in range(12):
        client.enqueue(queue)
    for _ in range(12):
        job = client.fetch(queue, lease_duration_ms=600)
        end = client.job(job["job_id"])["lease_expires_at"]
        ends[job["job_id"]] = seconds_of(end)
    for _ in range(12):
        job = client.fetch(queue, timeout=5)
        delays.append(time.time() - ends[job["job_id"]])
        client.ack(job)
    show("lease end", delays)
    assert min(delays) >= -1e-6
    assert min(delays) <= 0.020 * SLOW, "always late"


def test_same_moment_keeps_the_order_of_creation(client, queue):
    at = rfc3339(time.time() + 0.5)
    ids = [client.enqueue(queue, scheduled_at=at) for _ in range(10)]
    got = [client.fetch(queue, timeout=5)["job_id"] for _ in ids]
    assert got == ids


def test_promoted_job_stands_where_its_creation_puts_it(client, queue):
    first = client.enqueue(queue, scheduled_at=rfc3339(time.time() + 0.3))
    second = client.enqueue(queue)
    wait_until(lambda: client.state(first) == "pending", 10, "the promotion")
    assert client.fetch(queue)["job_id"] == first
    assert client.fetch(queue)["job_id"] == second


def test_cancel_and_delete_while_scheduled(client, queue):
    at = rfc3339(time.time() + 0.4)
    cancelled = client.enqueue(queue, scheduled_at=at)
    deleted = client.enqueue(queue, scheduled_at=at)
    assert client.post(f"{API}/jobs/{cancelled}/cancel").json == \
        {"status": "cancelled"}
    assert client.request("DELETE", f"{API}/jobs/{deleted}").status == 200
    assert client.fetch(queue, timeout=1) is None
    assert client.state(cancelled) == "cancelled"


# --- expiry -----------------------------------------------------------------


def assert_expired(client, job_id):
    wait_until(lambda: client.state(job_id) == "dead", 10, "the expiry")
    job = client.job(job_id)
    assert job["errors"][-1]["error"] == "job expired"
    assert "expired" in [e["type"] for e in job["timeline"]]
    return job


def test_pending_job_expires(client, queue):
    job_id = client.enqueue(queue, expire_after="300ms")
    assert "expire_at" in client.job(job_id)
    assert_expired(client, job_id)
    assert client.fetch(queue) is None
    assert client.queue(queue)["dead"] == 1


def test_expired_job_is_never_handed_out(client, queue):
    job_id = client.enqueue(queue, expire_after="50ms")
    client.post(f"{API}/queues/{queue}/pause")
    assert_expired(client, job_id)
    client.post(f"{API}/queues/{queue}/resume")
    assert client.fetch(queue) is None


def test_scheduled_and_retrying_jobs_expire(client, queue):
    scheduled = client.enqueue(queue, scheduled_at="2100-01-01T00:00:00Z",
                               expire_after="300ms")
    retrying = client.enqueue(queue, expire_after="300ms",
                              retry_base_delay="1h")
    client.fail(client.fetch(queue))
    assert_expired(client, scheduled)
    assert_expired(client, retrying)


def test_active_job_expires_and_its_worker_hears_of_it(client, queue):
    job_id = client.enqueue(queue, expire_after="300ms")
    job = client.fetch(queue)
    assert_expired(client, job_id)
    beat = client.post(f"{API}/heartbeat", {"jobs": {job_id: {
        "lease_token": job["lease_token"]}}}).json
    assert beat["jobs"][job_id]["status"] == "cancel"
    a = client.post(f"{API}/ack/{job_id}", {"lease_token": job["lease_token"]})
    assert (a.status, a.code) == (409, "LEASE_LOST")
    assert client.queue(queue)["active"] == 0


def test_ended_job_does_not_expire(client, queue):
    job_id = client.enqueue(queue, expire_after="300ms")
    client.ack(client.fetch(queue))
    other = client.enqueue(queue, expire_after="400ms")
    assert_expired(client, other)
    assert client.state(job_id) == "completed"


def test_retry_by_hand_after_expiry(client, queue):
    job_id = client.enqueue(queue, expire_after="100ms")
    assert_expired(client, job_id)
    assert client.post(f"{API}/jobs/{job_id}/retry").status == 200
    job = client.fetch(queue)
    assert job["job_id"] == job_id
    client.ack(job)
    assert client.state(job_id) == "completed"
