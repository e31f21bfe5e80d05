"""Cancellation of jobs that wait; test_leases.py has those at work."""

import pytest

from node import API

FAR = "2100-01-01T00:00:00Z"


def cancel(client, job_id):
    return client.post(f"{API}/jobs/{job_id}/cancel")


def pending(client, queue):
    return client.enqueue(queue)


def scheduled(client, queue):
    return client.enqueue(queue, scheduled_at=FAR)


def retrying(client, queue):
    job_id = client.enqueue(queue)
    client.fail(client.fetch(queue), retry_after="1h")
    return job_id


def blocked(client, queue):
    parent = client.enqueue(f"{queue}.parent")
    return client.enqueue(queue, depends_on=[parent])


WAITING = [pending, scheduled, retrying, blocked]


@pytest.mark.parametrize("make", WAITING)
def test_waiting_job_is_cancelled_at_once(client, queue, make):
    job_id = make(client, queue)
    a = cancel(client, job_id)
    assert (a.status, a.json) == (200, {"status": "cancelled"})
    job = client.job(job_id)
    assert job["state"] == "cancelled" and job["cancelled_at"]
    assert "scheduled_at" not in job and "cancel_requested" not in job
    assert job["timeline"][-1]["type"] == "cancelled"
    assert client.fetch(queue) is None
    assert client.queue(queue)["cancelled"] == 1


def test_end_of_a_dependency_does_not_wake_a_cancelled_job(client, queue):
    job_id = blocked(client, queue)
    cancel(client, job_id)
    client.ack(client.fetch(f"{queue}.parent"))
    assert client.state(job_id) == "cancelled"
    assert client.fetch(queue) is None


def completed(client, queue):
    job_id = client.enqueue(queue)
    client.ack(client.fetch(queue))
    return job_id


def dead(client, queue):
    job_id = client.enqueue(queue)
    client.fail(client.fetch(queue), retry=False)
    return job_id


def cancelled(client, queue):
    job_id = client.enqueue(queue)
    cancel(client, job_id)
    return job_id


def held(client, queue):
    job_id = client.enqueue(queue)
    assert client.post(f"{API}/jobs/{job_id}/hold").status == 200
    return job_id


@pytest.mark.parametrize("make", [completed, dead, cancelled, held])
def test_other_states_are_refused_by_name(client, queue, make):
    job_id = make(client, queue)
    a = cancel(client, job_id)
    assert (a.status, a.code) == (400, "CANCEL_ERROR")
    assert a.json["error"] == (f'job "{job_id}" cannot be cancelled from '
                               f'state "{make.__name__}"')
    assert client.state(job_id) == make.__name__


def test_unknown_job(client):
    a = cancel(client, "job_none")
    assert (a.status, a.code) == (404, "NOT_FOUND")


def test_cancelled_job_can_be_retried(client, queue):
    job_id = cancelled(client, queue)
    assert client.post(f"{API}/jobs/{job_id}/retry").status == 200
    assert client.fetch(queue)["job_id"] == job_id


# --- a job at work ------------------------------------------------------------


def at_work(client, queue, **members):
    job_id = client.enqueue(queue, max_retries=3)
    job = client.fetch(queue, **members)
    a = cancel(client, job_id)
    assert (a.status, a.json) == (200, {"status": "cancelling"})
    shown = client.job(job_id)
    assert (shown["state"], shown["cancel_requested"]) == ("active", True)
    return job


def test_slot_of_a_job_at_work_stays_taken_until_its_worker_ends(client,
                                                                 queue):
    client.request("PATCH", f"{API}/queues/{queue}", {"max_concurrency": 1})
    job = at_work(client, queue)
    other = client.enqueue(queue)
    assert client.fetch(queue) is None
    client.ack(job)
    assert client.state(job["job_id"]) == "cancelled"
    assert client.fetch(queue)["job_id"] == other


def test_ack_after_cancel_is_accepted_and_its_result_kept(client, queue):
    job = at_work(client, queue)
    client.ack(job, result={"half": 1})
    shown = client.job(job["job_id"])
    assert (shown["state"], shown["result"]) == ("cancelled", {"half": 1})


def test_batch_ack_after_cancel_is_accepted(client, queue):
    job = at_work(client, queue)
    a = client.post(f"{API}/ack/batch", {"acks": [
        {"job_id": job["job_id"], "lease_token": job["lease_token"]}]})
    assert a.json == {"acked": 1}
    assert client.state(job["job_id"]) == "cancelled"


@pytest.mark.parametrize("members", [{}, {"requeue": True},
                                     {"retry_after": "1h"}])
def test_fail_after_cancel_ends_cancelled(client, queue, members):
    job = at_work(client, queue)
    answer = client.fail(job, **members)
    assert (answer["status"], answer["attempts_remaining"]) == ("cancelled", 0)
    assert client.state(job["job_id"]) == "cancelled"
