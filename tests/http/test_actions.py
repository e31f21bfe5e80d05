"""What people do to one job: move, priority, requeue, hold, approve, reject."""

import pytest

from node import API, wait_until


def act(client, job_id, action, body=None):
    a = client.post(f"{API}/jobs/{job_id}/{action}", body)
    assert a.status == 200, a
    return a.json["status"]


def refused(client, job_id, action, body=None):
    a = client.post(f"{API}/jobs/{job_id}/{action}", body)
    return a.status, a.code, a.json["error"]


def types(client, job_id):
    return [e["type"] for e in client.job(job_id)["timeline"]]


def die(client, queue, **members):
    """A dead job's id."""
    job_id = client.enqueue(queue, **members)
    client.fail(client.fetch(queue), retry=False)
    assert client.state(job_id) == "dead"
    return job_id


# --- move -----------------------------------------------------------------

def test_a_moved_pending_job_goes_to_the_end_of_its_new_queue(client, queue):
    moved = client.enqueue(queue)
    other = client.enqueue(f"{queue}.new")
    assert act(client, moved, "move", {"queue": f"{queue}.new"}) == "moved"
    assert client.fetch(queue) is None
    assert client.fetch(f"{queue}.new")["job_id"] == other
    job = client.fetch(f"{queue}.new")
    assert (job["job_id"], job["queue"]) == (moved, f"{queue}.new")
    event = client.job(moved)["timeline"][1]
    assert event["type"] == "moved"
    assert event["data"] == {"from": queue, "to": f"{queue}.new"}


def test_move_keeps_state_lease_and_schedule(client, queue):
    to = {"queue": f"{queue}.new"}
    later = client.enqueue(queue, scheduled_at="2199-01-01T00:00:00Z")
    act(client, later, "move", to)
    job = client.job(later)
    assert (job["state"], job["queue"]) == ("scheduled", to["queue"])
    assert job["scheduled_at"].startswith("2199-01-01")

    client.enqueue(queue)
    held = client.fetch(queue)
    before = client.job(held["job_id"])["lease_expires_at"]
    act(client, held["job_id"], "move", to)
    job = client.job(held["job_id"])
    assert (job["state"], job["lease_expires_at"]) == ("active", before)
    client.ack(held)
    assert client.state(held["job_id"]) == "completed"

    dead = die(client, queue)
    act(client, dead, "move", to)
    assert client.state(dead) == "dead"
    counts = client.queue(to["queue"])
    assert (counts["scheduled"], counts["completed"], counts["dead"]) == \
        (1, 1, 1)
    assert client.queue(queue)["enqueued"] == 0
    found = client.search(queue=to["queue"])["jobs"]
    assert {j["id"] for j in found} == {later, held["job_id"], dead}


def test_move_to_the_same_queue_changes_nothing(client, queue):
    first, second = client.enqueue(queue), client.enqueue(queue)
    assert act(client, first, "move", {"queue": queue}) == "moved"
    assert types(client, first) == ["enqueued"]
    assert client.fetch(queue)["job_id"] == first
    assert client.fetch(queue)["job_id"] == second


def test_move_without_a_queue_is_refused(client, queue):
    job_id = client.enqueue(queue)
    for body in ({}, {"queue": ""}):
        assert refused(client, job_id, "move", body)[:2] == \
            (400, "VALIDATION_ERROR")


# --- priority -------------------------------------------------------------

def test_priority_changes_the_order_and_keeps_the_place(client, queue):
    a, b, c = (client.enqueue(queue) for _ in range(3))
    act(client, c, "priority", {"priority": "high"})
    act(client, b, "priority", {"priority": "high"})
    got = [client.fetch(queue) for _ in range(3)]
    assert [j["job_id"] for j in got] == [b, c, a]
    assert [j["priority"] for j in got] == ["high", "high", "normal"]
    assert client.job(b)["priority"] == "high"
    found = client.search(queue=queue, order="asc")["jobs"]
    assert [j["priority"] for j in found] == ["normal", "high", "high"]


def test_priority_of_active_and_ended_jobs_is_refused(client, queue):
    job_id = client.enqueue(queue)
    job = client.fetch(queue)
    body = {"priority": "high"}
    assert refused(client, job_id, "priority", body) == (
        400, "PRIORITY_ERROR",
        f'job "{job_id}" cannot be given another priority from state "active"')
    client.ack(job)
    assert refused(client, job_id, "priority", body)[1] == "PRIORITY_ERROR"


def test_priority_without_a_priority_is_refused(client, queue):
    job_id = client.enqueue(queue)
    assert refused(client, job_id, "priority", {})[:2] == \
        (400, "VALIDATION_ERROR")


# --- requeue --------------------------------------------------------------

def test_requeue_keeps_the_attempts_and_goes_to_the_end(client, queue):
    job_id = die(client, queue)
    other = client.enqueue(queue)
    assert act(client, job_id, "requeue") == "requeued"
    assert client.job(job_id)["attempt"] == 1
    assert client.fetch(queue)["job_id"] == other
    job = client.fetch(queue)
    assert (job["job_id"], job["attempt"]) == (job_id, 2)


def test_requeue_with_no_attempts_left_gives_exactly_one_more(client, queue):
    job_id = die(client, queue, max_retries=1)
    act(client, job_id, "requeue")
    assert client.fail(client.fetch(queue))["status"] == "dead"
    assert client.fetch(queue) is None
    assert client.job(job_id)["attempt"] == 2


def test_only_dead_jobs_are_requeued(client, queue):
    job_id = client.enqueue(queue)
    assert refused(client, job_id, "requeue") == (
        400, "REQUEUE_ERROR",
        f'job "{job_id}" cannot be requeued from state "pending"')


# --- hold, approve, reject --------------------------------------------------

def test_a_held_job_is_not_handed_out_until_it_is_approved(client, queue):
    first, second = client.enqueue(queue), client.enqueue(queue)
    assert act(client, first, "hold", {"reason": "ask the owner"}) == "held"
    job = client.job(first)
    assert (job["state"], job["hold_reason"]) == ("held", "ask the owner")
    assert client.queue(queue)["held"] == 1
    assert client.fetch(queue)["job_id"] == second
    third = client.enqueue(queue)
    assert act(client, first, "approve") == "pending"
    assert "hold_reason" not in client.job(first)
    assert client.fetch(queue)["job_id"] == first, "it keeps its place"
    assert client.fetch(queue)["job_id"] == third


def test_a_waiting_fetch_is_woken_by_approve(node, client, queue):
    job_id = client.enqueue(queue)
    act(client, job_id, "hold")
    with node.client() as waiting:
        waiting.send("POST", f"{API}/fetch",
                     '{"queues": ["%s"], "timeout": 30}' % queue)
        wait_until(lambda: client.parked() == 1, what="the fetch to wait")
        act(client, job_id, "approve")
        assert waiting.receive().json["job_id"] == job_id


def test_hold_takes_the_lease_from_the_worker(client, queue):
    job_id = client.enqueue(queue)
    job = client.fetch(queue)
    act(client, job_id, "hold")
    a = client.post(f"{API}/heartbeat", {"jobs": {job_id: {
        "lease_token": job["lease_token"]}}})
    assert a.json["jobs"][job_id]["status"] == "cancel"
    a = client.post(f"{API}/ack/{job_id}", {
        "lease_token": job["lease_token"]})
    assert (a.status, a.code) == (409, "LEASE_LOST")
    assert client.queue(queue)["active"] == 0
    act(client, job_id, "approve")
    assert client.fetch(queue)["attempt"] == 2, "the attempt stays counted"


def test_held_jobs_cannot_be_cancelled(client, queue):
    job_id = client.enqueue(queue)
    act(client, job_id, "hold")
    assert refused(client, job_id, "cancel")[1] == "CANCEL_ERROR"


def test_reject_ends_the_job_with_the_reason(client, queue):
    job_id = client.enqueue(queue)
    act(client, job_id, "hold")
    assert act(client, job_id, "reject", {"reason": "not now"}) == "dead"
    job = client.job(job_id)
    assert (job["state"], job["last_error"]) == ("dead", "rejected: not now")
    assert types(client, job_id) == ["enqueued", "held", "rejected", "dead"]
    assert client.search(queue=queue)["jobs"][0]["last_error"] == \
        "rejected: not now"


@pytest.mark.parametrize("action", ["approve", "reject"])
def test_only_held_jobs_are_approved_or_rejected(client, queue, action):
    job_id = client.enqueue(queue)
    done = {"approve": "approved", "reject": "rejected"}[action]
    assert refused(client, job_id, action) == (
        400, f"{action.upper()}_ERROR",
        f'job "{job_id}" cannot be {done} from state "pending"')


@pytest.mark.parametrize("action,body", [
    ("move", {"queue": "x"}), ("priority", {"priority": "high"}),
    ("requeue", None), ("hold", None), ("approve", None), ("reject", None)])
def test_an_unknown_job_is_not_found(client, action, body):
    assert refused(client, "job_none", action, body) == (
        404, "NOT_FOUND", 'job "job_none" not found')


def test_actions_survive_a_restart(make_node):
    node = make_node()
    node.start()
    with node.client() as c:
        moved, held = c.enqueue("a"), c.enqueue("a")
        act(c, moved, "move", {"queue": "b"})
        act(c, moved, "priority", {"priority": "critical"})
        act(c, held, "hold", {"reason": "r"})
    node.stop()
    node.start()
    with node.client() as c:
        assert c.fetch("a") is None
        job = c.fetch("b")
        assert (job["job_id"], job["priority"]) == (moved, "critical")
        assert c.job(held)["hold_reason"] == "r"
        act(c, held, "approve")
        assert c.fetch("a")["job_id"] == held


# --- with other features --------------------------------------------------

def test_requeue_is_refused_while_another_job_holds_the_key(client, queue):
    job_id = die(client, queue, unique_key="k")
    holder = client.enqueue(queue, unique_key="k")
    status, code, text = refused(client, job_id, "requeue")
    assert (status, code) == (409, "UNIQUE_CONFLICT") and holder in text
    client.ack(client.fetch(queue))
    assert act(client, job_id, "requeue") == "requeued"
    a = client.post(f"{API}/enqueue", {"queue": queue, "unique_key": "k"})
    assert (a.status, a.json["job_id"]) == (200, job_id), "it has it again"


def test_a_move_does_not_move_the_unique_lock(client, queue):
    job_id = client.enqueue(queue, unique_key="k")
    act(client, job_id, "move", {"queue": f"{queue}.new"})
    body = {"queue": queue, "unique_key": "k"}
    a = client.post(f"{API}/enqueue", body)
    assert (a.status, a.json["job_id"]) == (200, job_id)
    client.enqueue(f"{queue}.new", unique_key="k")
    client.ack(client.fetch(f"{queue}.new"))
    assert client.state(job_id) == "completed"
    assert client.post(f"{API}/enqueue", body).status == 201, "it is free"


def test_a_moved_active_job_still_times_out(client, queue):
    job_id = client.enqueue(queue, timeout="300ms", max_retries=1)
    client.fetch(queue)
    act(client, job_id, "move", {"queue": f"{queue}.new"})
    job = client.get(f"{API}/jobs/{job_id}?wait=30s").json
    assert (job["state"], job["last_error"]) == ("dead", "timeout")


def test_a_held_job_has_no_timeout(client, queue):
    job_id = client.enqueue(queue, timeout="1h")
    client.fetch(queue)
    assert "timeout_at" in client.job(job_id)
    act(client, job_id, "hold")
    assert "timeout_at" not in client.job(job_id)


def test_a_moved_active_job_takes_a_slot_of_its_new_queue(client, queue):
    new = f"{queue}.new"
    a = client.request("PATCH", f"{API}/queues/{new}", {"max_concurrency": 1})
    assert a.status == 200, a
    client.enqueue(queue)
    job = client.fetch(queue)
    client.enqueue(new)
    act(client, job["job_id"], "move", {"queue": new})
    assert client.fetch(new) is None
    client.ack(job)
    assert client.fetch(new) is not None
