"""Unique keys: duplicates, locks, conflicts, and payloads replaced."""

import pytest

from node import API, seconds_of, wait_until

FAR = "2100-01-01T00:00:00Z"


def enqueue(client, queue, **members):
    return client.post(f"{API}/enqueue", {"queue": queue, **members})


def expect_new(client, queue, key, **members):
    a = enqueue(client, queue, unique_key=key, **members)
    assert a.status == 201, a
    assert a.json["unique_existing"] is False
    assert a.json["job"]["unique_key"] == key
    return a.json["job_id"]


def expect_duplicate(client, queue, key, holder, **members):
    a = enqueue(client, queue, unique_key=key, **members)
    assert a.status == 200, a
    assert a.json["job_id"] == a.json["unique_job_id"] == holder
    assert a.json["status"] == "duplicate"
    assert a.json["unique_existing"] is True
    assert "job" not in a.json
    return a.json


def jobs_of(client, queue):
    return [j["id"] for j in client.search(queue=queue)["jobs"]]


def test_second_job_with_the_key_is_not_created(client, queue):
    job_id = expect_new(client, queue, "k")
    answer = expect_duplicate(client, queue, "k", job_id)
    assert "replaced" not in answer
    assert jobs_of(client, queue) == [job_id]
    assert client.job(job_id)["unique_key"] == "k"


def test_key_is_of_its_queue(client, queue):
    expect_new(client, queue, "k")
    expect_new(client, queue, "other")
    expect_new(client, f"{queue}.2", "k")


def end_completed(client, queue, job_id):
    client.ack(client.fetch(queue))


def end_dead(client, queue, job_id):
    client.fail(client.fetch(queue), retry=False)


def end_cancelled(client, queue, job_id):
    client.post(f"{API}/jobs/{job_id}/cancel")


def end_cancelled_while_active(client, queue, job_id):
    job = client.fetch(queue)
    client.post(f"{API}/jobs/{job_id}/cancel")
    expect_duplicate(client, queue, "k", job_id)
    client.ack(job)


def end_deleted(client, queue, job_id):
    assert client.request("DELETE", f"{API}/jobs/{job_id}").status == 200


@pytest.mark.parametrize("end", [
    end_completed, end_dead, end_cancelled, end_cancelled_while_active,
    end_deleted])
def test_unique_lock_is_released_when_the_job_ends(client, queue, end):
    job_id = expect_new(client, queue, "k")
    expect_duplicate(client, queue, "k", job_id)
    end(client, queue, job_id)
    expect_new(client, queue, "k")


def test_unique_lock_is_released_by_batch_ack(client, queue):
    expect_new(client, queue, "k")
    job = client.fetch(queue)
    a = client.post(f"{API}/ack/batch", {"acks": [{
        "job_id": job["job_id"], "lease_token": job["lease_token"]}]})
    assert a.json["acked"] == 1
    expect_new(client, queue, "k")


def test_unique_lock_is_released_when_the_job_expires(client, queue):
    job_id = expect_new(client, queue, "k", expire_after="50ms")
    wait_until(lambda: client.state(job_id) == "dead", 10, "the expiry")
    expect_new(client, queue, "k")


def test_unique_lock_is_held_while_active_scheduled_and_retrying(client,
                                                                  queue):
    job_id = expect_new(client, queue, "k", scheduled_at=FAR,
                        retry_base_delay="1h", retry_max_delay="1h")
    expect_duplicate(client, queue, "k", job_id)
    assert client.post(f"{API}/jobs/{job_id}/retry").status == 200
    job = client.fetch(queue)
    expect_duplicate(client, queue, "k", job_id)
    client.fail(job)
    assert client.state(job_id) == "retrying"
    expect_duplicate(client, queue, "k", job_id)


def test_unique_lock_is_held_for_unique_period_at_most(client, queue):
    first = expect_new(client, queue, "k", unique_period="300ms")
    a = wait_until(lambda: enqueue(client, queue, unique_key="k").status
                   == 201, 10, "the end of the period")
    assert a
    assert client.state(first) == "pending"  # it lives on
    second = [j for j in jobs_of(client, queue) if j != first]
    end_deleted(client, queue, first)  # and takes nobody's lock along
    expect_duplicate(client, queue, "k", second[0])


def test_unique_period_is_read_as_a_duration(client, queue):
    expect_new(client, queue, "a", unique_period=3600)
    expect_new(client, queue, "b", unique_period="90m")
    expect_new(client, queue, "c", unique_period_ms=5000)
    a = enqueue(client, queue, unique_key="d", unique_period="soon")
    assert (a.status, a.code) == (400, "VALIDATION_ERROR")
    assert "unique_period" in a.json["error"]


def test_retry_is_refused_while_another_job_holds_the_key(client, queue):
    first = expect_new(client, queue, "k")
    end_dead(client, queue, first)
    second = expect_new(client, queue, "k")
    a = client.post(f"{API}/jobs/{first}/retry")
    assert (a.status, a.code) == (409, "UNIQUE_CONFLICT")
    assert second in a.json["error"]
    assert client.state(first) == "dead"
    end_cancelled(client, queue, second)
    assert client.post(f"{API}/jobs/{first}/retry").status == 200
    expect_duplicate(client, queue, "k", first)  # it took the lock again


def test_requeue_is_refused_while_another_job_holds_the_key(client, queue):
    first = expect_new(client, queue, "k")
    end_dead(client, queue, first)
    second = expect_new(client, queue, "k")
    a = client.post(f"{API}/jobs/{first}/requeue")
    assert (a.status, a.code) == (409, "UNIQUE_CONFLICT")
    assert second in a.json["error"]
    end_completed(client, queue, second)
    assert client.post(f"{API}/jobs/{first}/requeue").status == 200
    expect_duplicate(client, queue, "k", first)


def test_move_does_not_move_the_lock(client, queue):
    job_id = expect_new(client, queue, "k")
    a = client.post(f"{API}/jobs/{job_id}/move", {"queue": f"{queue}.2"})
    assert a.status == 200, a
    expect_duplicate(client, queue, "k", job_id)
    expect_new(client, f"{queue}.2", "k")
    end_cancelled(client, queue, job_id)
    expect_new(client, queue, "k")


def test_batch_items_honour_unique_keys(client, queue):
    holder = expect_new(client, queue, "k")
    a = client.post(f"{API}/enqueue/batch", {"jobs": [
        {"queue": queue, "unique_key": "k"},
        {"queue": queue, "unique_key": "new"},
        {"queue": queue, "unique_key": "new"},
        {"queue": queue}]})
    assert a.status == 201, a
    ids = a.json["job_ids"]
    assert ids[0] == holder and ids[1] == ids[2] and ids[3] not in ids[:3]
    assert [j.get("unique_existing", False) for j in a.json["jobs"]] == \
        [True, False, True, False]
    assert [j["id"] for j in a.json["jobs"]] == ids
    assert all(j["state"] == "pending" for j in a.json["jobs"])
    assert sorted(jobs_of(client, queue)) == sorted(set(ids))


@pytest.mark.parametrize("members,name", [
    ({"unique_key": "k" * 256}, "unique_key"),
    ({"unique_key": 5}, "unique_key"),
    ({"unique_key": "k", "unique_action": "merge"}, "unique_action"),
])
def test_wrong_members_are_refused(client, queue, members, name):
    a = enqueue(client, queue, **members)
    assert (a.status, a.code) == (400, "VALIDATION_ERROR")
    assert name in a.json["error"]


def test_any_text_is_a_key(client, queue):
    for key in ("k" * 255, "a\0b", "ä|/\n", " "):
        job_id = expect_new(client, queue, key)
        expect_duplicate(client, queue, key, job_id)


def test_empty_key_is_none(client, queue):
    assert enqueue(client, queue, unique_key="").status == 201
    assert enqueue(client, queue, unique_key="").status == 201


# --- debounce -----------------------------------------------------------------


def replace(client, queue, job_id, **members):
    answer = expect_duplicate(client, queue, "k", job_id,
                              unique_action="replace", **members)
    return answer.get("replaced", False)


def test_replace_gives_a_pending_job_the_new_payload(client, queue):
    first = client.enqueue(queue)
    job_id = expect_new(client, queue, "k", payload={"v": 1})
    assert replace(client, queue, job_id, payload={"v": 2})
    assert client.job(job_id)["payload"] == {"v": 2}
    shown = client.search(queue=queue, expand=["payload"])["jobs"]
    assert {"v": 2} in [j.get("payload") for j in shown]
    types = [e["type"] for e in client.job(job_id)["timeline"]]
    assert types == ["enqueued", "replaced"]
    assert client.fetch(queue)["job_id"] == first  # it keeps its place
    job = client.fetch(queue)
    assert (job["job_id"], job["payload"]) == (job_id, {"v": 2})
    client.ack(job)


def test_drop_is_the_default(client, queue):
    job_id = expect_new(client, queue, "k", payload=1)
    expect_duplicate(client, queue, "k", job_id, payload=2)
    expect_duplicate(client, queue, "k", job_id, payload=3,
                     unique_action="drop")
    assert client.job(job_id)["payload"] == 1


def test_replace_postpones_a_scheduled_job(client, queue):
    job_id = expect_new(client, queue, "k", payload=1, scheduled_at=FAR)
    later = "2100-01-02T00:00:00Z"
    assert replace(client, queue, job_id, payload=2, scheduled_at=later)
    shown = client.job(job_id)
    assert seconds_of(shown["scheduled_at"]) == seconds_of(later)
    assert (shown["state"], shown["payload"]) == ("scheduled", 2)
    assert replace(client, queue, job_id, payload=3,
                   scheduled_at="2001-01-01T00:00:00Z")
    job = client.fetch(queue)
    assert (job["job_id"], job["payload"]) == (job_id, 3)


def test_replace_leaves_an_active_job_alone(client, queue):
    job_id = expect_new(client, queue, "k", payload=1)
    client.fetch(queue)
    assert not replace(client, queue, job_id, payload=2)
    assert client.job(job_id)["payload"] == 1


def test_replace_of_a_retrying_job_is_what_the_next_attempt_gets(client,
                                                                 queue):
    job_id = expect_new(client, queue, "k", payload=1, retry_backoff="fixed",
                        retry_base_delay="300ms")
    client.fail(client.fetch(queue))
    assert replace(client, queue, job_id, payload=2)
    job = client.fetch(queue, timeout=10)
    assert (job["attempt"], job["payload"]) == (2, 2)


# --- restarts -----------------------------------------------------------------


def test_locks_and_replaced_payloads_survive_a_restart(make_node, queue):
    node = make_node().start()
    with node.client() as c:
        job_id = expect_new(c, queue, "k", payload=1)
        assert replace(c, queue, job_id, payload=2)
    node.kill_all()
    node.start()
    with node.client() as c:
        expect_duplicate(c, queue, "k", job_id)
        job = c.fetch(queue)
        assert (job["job_id"], job["payload"]) == (job_id, 2)
        c.ack(job)
        expect_new(c, queue, "k")
