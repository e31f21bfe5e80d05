"""Failures: backoff, attempts, death, and another try."""

import time

import pytest

from node import API, seconds_of, wait_until


def delay_of(client, job, **members):
    """The delay the answer to a fail announces, from the job's own times."""
    answer = client.fail(job, **members)
    assert answer["status"] == "retrying", answer
    shown = client.job(job["job_id"])
    if shown["state"] == "retrying":  # a short delay may be over
        assert shown["scheduled_at"] == answer["next_attempt_at"]
    return seconds_of(answer["next_attempt_at"]) - \
        seconds_of(shown["failed_at"])


def wait_pending(client, job_id):
    return wait_until(lambda: client.state(job_id) == "pending", 10,
                      "the next attempt")


@pytest.mark.parametrize("backoff,base_ms,max_ms,expected", [
    ("none", 100, 1000, [0, 0, 0, 0]),
    ("fixed", 50, 1000, [0.05, 0.05, 0.05, 0.05]),
    ("fixed", 500, 20, [0.02, 0.02]),
    ("linear", 40, 1000, [0.04, 0.08, 0.12, 0.16]),
    ("linear", 40, 100, [0.04, 0.08, 0.1, 0.1]),
    ("exponential", 20, 1000, [0.02, 0.04, 0.08, 0.16]),
    ("exponential", 20, 70, [0.02, 0.04, 0.07, 0.07]),
])
def test_backoff(client, queue, backoff, base_ms, max_ms, expected):
    job_id = client.enqueue(queue, max_retries=9, retry_backoff=backoff,
                            retry_base_delay_ms=base_ms,
                            retry_max_delay=f"{max_ms}ms")
    for attempt, delay in enumerate(expected, 1):
        job = client.fetch(queue, timeout=10)
        assert (job["job_id"], job["attempt"]) == (job_id, attempt)
        assert delay_of(client, job) == pytest.approx(delay, abs=1e-6)


def test_default_backoff(client, queue):
    client.enqueue(queue)
    assert delay_of(client, client.fetch(queue)) == pytest.approx(5, abs=1e-6)


def test_no_earlier_than_the_delay(client, queue):
    client.enqueue(queue, retry_backoff="fixed", retry_base_delay="300ms")
    job = client.fetch(queue)
    due = seconds_of(client.fail(job)["next_attempt_at"])
    again = client.fetch(queue, timeout=10)
    late = time.time() - due
    assert again["attempt"] == 2
    assert late >= 0, late


def test_jitter(client, queue):
    delays = []
    for _ in range(12):
        client.enqueue(queue, retry_backoff="fixed", retry_base_delay="100s",
                       retry_jitter=0.5)
        delays.append(delay_of(client, client.fetch(queue)))
    assert all(50 < d <= 100 for d in delays), delays
    assert len({round(d, 3) for d in delays}) > 6, delays


@pytest.mark.parametrize("max_retries,attempts", [(0, 1), (1, 1), (2, 2),
                                                  (4, 4)])
def test_max_retries_is_the_number_of_attempts(client, queue, max_retries,
                                               attempts):
    job_id = client.enqueue(queue, max_retries=max_retries,
                            retry_backoff="none")
    for attempt in range(1, attempts + 1):
        job = client.fetch(queue, timeout=10)
        assert job["attempt"] == attempt
        answer = client.fail(job, error=f"error {attempt}")
        assert answer["attempts_remaining"] == attempts - attempt
        last = attempt == attempts
        assert answer["status"] == ("dead" if last else "retrying")
        assert ("next_attempt_at" in answer) == (not last)
    dead = client.job(job_id)
    assert dead["state"] == "dead" and "failed_at" in dead
    assert dead["last_error"] == f"error {attempts}"
    assert [e["attempt"] for e in dead["errors"]] == \
        list(range(1, attempts + 1))
    assert dead["timeline"][-1]["type"] == "dead"
    assert client.fetch(queue) is None


def test_retry_false(client, queue):
    job_id = client.enqueue(queue, max_retries=9)
    answer = client.fail(client.fetch(queue), retry=False)
    assert answer["status"] == "dead" and answer["attempts_remaining"] == 0
    assert client.state(job_id) == "dead"


def test_retry_after(client, queue):
    client.enqueue(queue)
    job = client.fetch(queue)
    assert delay_of(client, job, retry_after="90s") == pytest.approx(90)
    client.enqueue(queue)
    job = client.fetch(queue)
    assert delay_of(client, job, retry_after_ms=1500) == pytest.approx(1.5)


def test_requeue_uses_no_attempt_and_keeps_the_place(client, queue):
    first, second = client.enqueue(queue, max_retries=1), client.enqueue(queue)
    answer = client.fail(client.fetch(queue), requeue=True)
    assert answer["status"] == "pending"
    assert answer["attempts_remaining"] == 1
    job = client.fetch(queue)
    assert (job["job_id"], job["attempt"]) == (first, 1)
    client.ack(job)
    shown = client.job(first)
    assert shown["state"] == "completed" and "errors" not in shown
    assert "given_back" in [e["type"] for e in shown["timeline"]]
    assert client.fetch(queue)["job_id"] == second


def test_retried_attempt_keeps_its_place(client, queue):
    first = client.enqueue(queue, retry_backoff="none")
    second = client.enqueue(queue)
    client.fail(client.fetch(queue))
    wait_pending(client, first)
    assert client.fetch(queue)["job_id"] == first
    assert client.fetch(queue)["job_id"] == second


@pytest.mark.parametrize("end", ["completed", "dead", "cancelled"])
def test_retry_by_hand_resets_and_goes_to_the_end(client, queue, end):
    first = client.enqueue(queue, max_retries=1)
    job = client.fetch(queue)
    if end == "completed":
        client.ack(job, result=1)
    elif end == "dead":
        client.fail(job)
    else:
        client.post(f"{API}/jobs/{first}/cancel")
        client.ack(job)
    assert client.state(first) == end
    second = client.enqueue(queue)
    a = client.post(f"{API}/jobs/{first}/retry")
    assert (a.status, a.json) == (200, {"status": "retried"})
    shown = client.job(first)
    assert (shown["state"], shown["attempt"]) == ("pending", 0)
    for gone in ("completed_at", "failed_at", "cancelled_at", "scheduled_at",
                 "cancel_requested"):
        assert gone not in shown, gone
    assert ("errors" in shown) == (end == "dead")  # errors are kept
    assert client.fetch(queue)["job_id"] == second
    job = client.fetch(queue)
    assert (job["job_id"], job["attempt"]) == (first, 1)
    client.ack(job)
    assert client.state(first) == "completed"


def test_retry_of_a_scheduled_job_is_wait_pending(client, queue):
    job_id = client.enqueue(queue, scheduled_at="2100-01-01T00:00:00Z")
    assert client.fetch(queue) is None
    assert client.post(f"{API}/jobs/{job_id}/retry").status == 200
    assert client.fetch(queue)["job_id"] == job_id


def test_cancel_of_a_retrying_job(client, queue):
    job_id = client.enqueue(queue)
    client.fail(client.fetch(queue))
    assert client.post(f"{API}/jobs/{job_id}/cancel").json == \
        {"status": "cancelled"}
    assert client.state(job_id) == "cancelled"


def test_timeline_of_failures(client, queue):
    job_id = client.enqueue(queue, max_retries=2, retry_backoff="none")
    client.fail(client.fetch(queue))
    client.fail(client.fetch(queue, timeout=10))
    types = [e["type"] for e in client.job(job_id)["timeline"]
             if e["type"] != "promoted"]
    assert types == ["enqueued", "started", "failed", "retrying", "started",
                     "failed", "dead"]


def test_failed_attempts_are_counted(client, queue):
    client.enqueue(queue, max_retries=2, retry_backoff="none")
    client.fail(client.fetch(queue))
    client.fail(client.fetch(queue, timeout=10))
    row = client.queue(queue)
    assert (row["failed"], row["dead"]) == (2, 1)
