"""Batches over HTTP: counts, callbacks, open batches, nesting."""

import pytest

from node import API


def open_batch(client, **members):
    a = client.post(f"{API}/batches", members)
    assert a.status == 201, a
    assert list(a.json) == ["batch_id"], a
    assert a.json["batch_id"].startswith("batch_")
    return a.json["batch_id"]


def batch(client, batch_id):
    a = client.get(f"{API}/batches/{batch_id}")
    assert a.status == 200, a
    return a.json


def counts(client, batch_id):
    b = batch(client, batch_id)
    return b["status"], b["total"], b["pending"], b["succeeded"], b["failed"]


def seal(client, batch_id):
    a = client.post(f"{API}/batches/{batch_id}/seal")
    assert a.status == 200, a
    return a.json


def enqueue_batch(client, queue, n, **options):
    a = client.post(f"{API}/enqueue/batch",
                    {"jobs": [{"queue": queue} for _ in range(n)],
                     "batch": options})
    assert a.status == 201, a
    return a.json["batch_id"], a.json["job_ids"]


def test_batch_with_callback(client, queue):
    batch_id, ids = enqueue_batch(
        client, queue, 3, callback_queue=queue + "-done",
        callback_payload={"report": "r1", "batch": "mine"})
    assert batch_id.startswith("batch_")
    assert [client.job(i)["batch_id"] for i in ids] == [batch_id] * 3
    first = client.fetch(queue)
    assert first["batch_id"] == batch_id
    client.ack(first)
    client.fail(client.fetch(queue), retry=False)
    assert counts(client, batch_id) == ("running", 3, 1, 1, 1)
    assert client.fetch(queue + "-done") is None
    client.ack(client.fetch(queue))
    done = batch(client, batch_id)
    assert counts(client, batch_id) == ("completed", 3, 0, 2, 1)
    assert done["sealed"] and "completed_at" in done and "created_at" in done
    job = client.fetch(queue + "-done")
    assert job["job_id"] == done["callback_job_id"]
    assert job["payload"] == {"report": "r1", "batch": {
        "id": batch_id, "total": 3, "succeeded": 2, "failed": 1}}
    shown = client.job(job["job_id"])
    assert shown["priority"] == "normal" and shown["max_retries"] == 3
    assert "batch_id" not in shown and "parent_id" not in shown


@pytest.mark.parametrize("given,expected", [
    ([1, 2], {"payload": [1, 2]}), ("text", {"payload": "text"}), ({}, {})])
def test_callback_payload_that_is_no_object_arrives_as_payload(
        client, queue, given, expected):
    batch_id = open_batch(client, callback_queue=queue, callback_payload=given)
    seal(client, batch_id)
    payload = client.fetch(queue)["payload"]
    assert payload.pop("batch")["id"] == batch_id
    assert payload == expected


def test_batch_without_callback_payload(client, queue):
    seal(client, open_batch(client, callback_queue=queue))
    assert list(client.fetch(queue)["payload"]) == ["batch"]


def test_batch_id_is_only_in_the_answer_when_batch_was_given(client, queue):
    a = client.post(f"{API}/enqueue/batch", {"jobs": [{"queue": queue}]})
    assert a.status == 201 and "batch_id" not in a.json


def test_open_batch_takes_jobs_until_it_is_sealed(client, queue):
    batch_id = open_batch(client, callback_queue=queue + "-done")
    assert batch(client, batch_id)["status"] == "open"
    a = client.post(f"{API}/enqueue", {"queue": queue, "batch_id": batch_id})
    assert a.status == 201 and a.json["batch_id"] == batch_id
    assert a.json["job"]["batch_id"] == batch_id
    a = client.post(f"{API}/enqueue/batch",
                    {"jobs": [{"queue": queue, "batch_id": batch_id}] * 2})
    assert a.status == 201, a
    for _ in range(3):
        client.ack(client.fetch(queue))
    assert counts(client, batch_id) == ("open", 3, 0, 3, 0)
    assert client.fetch(queue + "-done") is None
    sealed = seal(client, batch_id)  # drained already: the answer shows it
    assert sealed["status"] == "completed"
    assert client.fetch(queue + "-done")["job_id"] == \
        sealed["callback_job_id"]
    again = seal(client, batch_id)
    assert again == sealed


def test_sealed_batch_ends_with_its_last_job(client, queue):
    batch_id = open_batch(client)
    client.enqueue(queue, batch_id=batch_id)
    assert seal(client, batch_id)["status"] == "running"
    client.ack(client.fetch(queue))
    assert counts(client, batch_id) == ("completed", 1, 0, 1, 0)
    assert "callback_job_id" not in batch(client, batch_id)


def test_adding_to_a_sealed_batch_is_refused(client, queue):
    batch_id = open_batch(client)
    seal(client, batch_id)
    job = {"queue": queue, "batch_id": batch_id}
    a = client.post(f"{API}/enqueue", job)
    assert (a.status, a.code) == (400, "BATCH_ERROR") and "sealed" in \
        a.json["error"]
    a = client.post(f"{API}/enqueue/batch", {"jobs": [{"queue": queue}, job]})
    assert (a.status, a.code) == (400, "BATCH_ERROR")
    assert client.fetch(queue) is None  # nothing was created


def test_unknown_batch_is_not_found(client, queue):
    for a in (client.get(f"{API}/batches/batch_nope"),
              client.post(f"{API}/batches/batch_nope/seal"),
              client.post(f"{API}/batches", {"parent_id": "batch_nope"}),
              client.post(f"{API}/enqueue", {"queue": queue,
                                             "batch_id": "batch_nope"})):
        assert (a.status, a.code) == (404, "NOT_FOUND"), a
        assert a.json["error"] == 'batch "batch_nope" not found'
    assert client.fetch(queue) is None


def test_batch_beside_an_items_batch_id_is_refused(client, queue):
    batch_id = open_batch(client)
    a = client.post(f"{API}/enqueue/batch", {
        "jobs": [{"queue": queue, "batch_id": batch_id}], "batch": {}})
    assert (a.status, a.code) == (400, "VALIDATION_ERROR")
    assert a.json["error"].startswith("jobs[0].batch_id:")
    assert client.fetch(queue) is None


@pytest.mark.parametrize("end", ["cancel", "delete", "expire"])
def test_every_other_end_counts_as_failed(client, queue, end):
    members = {"expire_after_ms": 1} if end == "expire" else {}
    batch_id = open_batch(client, callback_queue=queue + "-done")
    job_id = client.enqueue(queue, batch_id=batch_id, **members)
    seal(client, batch_id)
    if end == "cancel":
        client.post(f"{API}/jobs/{job_id}/cancel")
    elif end == "delete":
        client.request("DELETE", f"{API}/jobs/{job_id}")
    job = client.fetch(queue + "-done", timeout=10)
    assert job["payload"]["batch"] == {"id": batch_id, "total": 1,
                                       "succeeded": 0, "failed": 1}


def test_later_retry_does_not_change_what_was_counted(client, queue):
    batch_id, (job_id,) = enqueue_batch(client, queue, 1)
    client.fail(client.fetch(queue), retry=False)
    assert counts(client, batch_id) == ("completed", 1, 0, 0, 1)
    client.post(f"{API}/jobs/{job_id}/retry")
    client.ack(client.fetch(queue))
    assert counts(client, batch_id) == ("completed", 1, 0, 0, 1)


def test_ack_batch_counts_each_job(client, queue):
    batch_id, ids = enqueue_batch(client, queue, 5)
    for _ in ids:
        client.fetch(queue)
    a = client.post(f"{API}/ack/batch",
                    {"acks": [{"job_id": i} for i in ids]})
    assert a.json["acked"] == 5
    assert counts(client, batch_id) == ("completed", 5, 0, 5, 0)


def test_nested_batch_counts_as_one_job(client, queue):
    top = open_batch(client, callback_queue=queue + "-top")
    a = client.post(f"{API}/enqueue/batch", {
        "jobs": [{"queue": queue}] * 2,
        "batch": {"parent_id": top, "callback_queue": queue + "-low"}})
    low = a.json["batch_id"]
    assert batch(client, low)["parent_id"] == top
    client.enqueue(queue, batch_id=top)
    seal(client, top)
    assert counts(client, top) == ("running", 2, 2, 0, 0)
    client.ack(client.fetch(queue))
    client.fail(client.fetch(queue), retry=False)
    assert counts(client, top) == ("running", 2, 1, 0, 1)
    assert client.fetch(queue + "-low")["payload"]["batch"]["failed"] == 1
    client.ack(client.fetch(queue))
    assert counts(client, top) == ("completed", 2, 0, 1, 1)
    assert client.fetch(queue + "-top") is not None
    a = client.post(f"{API}/batches", {"parent_id": top})
    assert (a.status, a.code) == (400, "BATCH_ERROR")


def test_nesting_is_bounded(client):
    batch_id = open_batch(client)
    for _ in range(7):
        batch_id = open_batch(client, parent_id=batch_id)
    a = client.post(f"{API}/batches", {"parent_id": batch_id})
    assert (a.status, a.code) == (400, "BATCH_ERROR") and "deep" in \
        a.json["error"]


def test_batch_is_an_alias_of_batches(client):
    a = client.post(f"{API}/batch")
    assert a.status == 201, a
    batch_id = a.json["batch_id"]
    assert client.get(f"{API}/batch/{batch_id}").json["status"] == "open"
    a = client.post(f"{API}/batch/{batch_id}/seal")
    assert a.json["status"] == "completed"


def test_callback_payload_is_bounded(client):
    a = client.post(f"{API}/batches", {"callback_payload": "x" * 262144})
    assert (a.status, a.code) == (400, "VALIDATION_ERROR")
    assert "callback_payload" in a.json["error"]


def test_batches_survive_a_restart(make_node):
    n = make_node().start()
    with n.client() as c:
        batch_id = open_batch(c, callback_queue="done",
                              callback_payload={"k": 1})
        c.enqueue("q", batch_id=batch_id)
        c.enqueue("q", batch_id=batch_id)
        c.ack(c.fetch("q"))
    n.stop()
    n.start()
    with n.client() as c:
        assert counts(c, batch_id) == ("open", 2, 1, 1, 0)
        assert seal(c, batch_id)["status"] == "running"
        c.ack(c.fetch("q"))
        assert c.fetch("done")["payload"] == {"k": 1, "batch": {
            "id": batch_id, "total": 2, "succeeded": 2, "failed": 0}}


def test_view_goes_on_past_batch_events(client, queue):
    seal(client, open_batch(client))
    job_id = client.enqueue(queue)
    assert [j["id"] for j in client.search(queue=queue)["jobs"]] == [job_id]
