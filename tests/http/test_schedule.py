"""Jobs that wait for their time; test_expiry has those that run out of it.

The strict figures are those of bench/timers.py; here nothing may come early,
and not all may come late.
"""

import statistics
import threading
import time

import pytest

from node import API, seconds_of, wait_until
from queues import enqueue_many

# Nothing that looks now and then is as quick, even once in a few times.
TIMELY_S = 0.5


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
    left = threading.Semaphore(20)

    def worker():
        with node.client() as c:
            while left.acquire(blocking=False):
                job = c.fetch(queue, timeout=60)
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
    assert min(delays) <= TIMELY_S, "always late"


def test_handed_out_after_a_lost_lease(client, queue):
    """12 leases that end: they are taken back not early and soon after. The
    times are the node's own."""
    lease_s = 0.6
    ids = enqueue_many(client, queue, 12)
    a = client.post(f"{API}/fetch/batch", {
        "queues": [queue], "count": 12, "worker_id": "w",
        "lease_duration_ms": int(lease_s * 1000)})
    assert len(a.json["jobs"]) == 12
    for _ in range(12):
        client.ack(client.fetch(queue, timeout=60))
    late = []
    for job_id in ids:
        at = {(e["type"], e.get("attempt")): seconds_of(e["at"])
              for e in client.job(job_id)["timeline"]}
        late.append(at["reclaimed", 1] - at["started", 1] - lease_s)
        assert at["started", 2] >= at["reclaimed", 1]
    show("lease end", late)
    assert min(late) >= -1e-6
    assert min(late) <= TIMELY_S, "always late"


def test_same_moment_keeps_the_order_of_creation(client, queue):
    at = rfc3339(time.time() + 0.5)
    ids = enqueue_many(client, queue, 10, scheduled_at=at)
    got = [client.fetch(queue, timeout=60)["job_id"] for _ in ids]
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
