"""Idempotency-Key: the same request again gets the same answer."""

import json
import os
import signal
import threading

import pytest

from node import API, wait_until

ENQUEUE = f"{API}/enqueue"
BATCH = f"{API}/enqueue/batch"


def post(client, path, body, key):
    return client.post(path, body, {"Idempotency-Key": key})


def is_replay(answer):
    return answer.headers.get("Idempotent-Replayed") == "true"


def expect_first(answer, status=201):
    assert answer.status == status, answer
    assert "Idempotent-Replayed" not in answer.headers
    return answer


def expect_again(answer, first):
    """First status and body again, and it says so."""
    assert (answer.status, answer.body) == (first.status, first.body)
    assert is_replay(answer)


def count(client, queue):
    return len(client.search(queue=queue)["jobs"])


def test_second_request_gets_the_first_status_and_body(client, queue):
    body = {"queue": queue, "payload": {"n": 1}, "expire_after": "1h",
            "scheduled_at": "2100-01-01T00:00:00Z", "tags": {"a": "b"}}
    first = expect_first(post(client, ENQUEUE, body, queue))
    for _ in range(3):
        expect_again(post(client, ENQUEUE, body, queue), first)
    assert count(client, queue) == 1


def test_answer_does_not_follow_the_job(client, queue):
    body = {"queue": queue}
    first = expect_first(post(client, ENQUEUE, body, queue))
    client.ack(client.fetch(queue))
    expect_again(post(client, ENQUEUE, body, queue), first)
    client.request("DELETE", f"{API}/jobs/{first.json['job_id']}")
    expect_again(post(client, ENQUEUE, body, queue), first)


def test_chain_is_answered_with_the_first_ids(client, queue):
    body = {"queue": queue, "chain": {"steps": [
        {"queue": queue}, {"queue": f"{queue}.2"}]}}
    first = expect_first(post(client, ENQUEUE, body, queue))
    assert first.json["job"]["chain_id"]
    expect_again(post(client, ENQUEUE, body, queue), first)


@pytest.mark.parametrize("path", [ENQUEUE, BATCH])
def test_batch_is_answered_the_same_on_both_routes(client, queue, path):
    body = {"jobs": [{"queue": queue}, {"queue": queue, "payload": 2}],
            "batch": {"callback_queue": f"{queue}.done"}}
    key = f"{queue}{path}"
    first = expect_first(post(client, path, body, key))
    expect_again(post(client, path, body, key), first)
    assert count(client, queue) == 2


@pytest.mark.parametrize("first,second", [
    ({"payload": 1}, {"payload": 2}),
    ({"jobs": [{}]}, {}),
    ({}, {"jobs": [{}]}),
])
def test_same_key_with_another_body_is_refused(client, queue, first, second):
    def body(members):
        jobs = members.get("jobs")
        if jobs is None:
            return {"queue": queue, **members}
        return {"jobs": [{"queue": queue} for _ in jobs]}

    expect_first(post(client, ENQUEUE, body(first), queue))
    a = post(client, ENQUEUE, body(second), queue)
    assert (a.status, a.code) == (422, "IDEMPOTENCY_MISMATCH")
    assert not is_replay(a)
    assert count(client, queue) == 1


def test_body_is_compared_byte_for_byte(client, queue):
    text = json.dumps({"queue": queue, "payload": 1})
    expect_first(post(client, ENQUEUE, text, queue))
    a = post(client, ENQUEUE, text + " ", queue)
    assert (a.status, a.code) == (422, "IDEMPOTENCY_MISMATCH")


def test_only_successful_answers_bind_a_key(client, queue):
    a = post(client, ENQUEUE, {"queue": ""}, queue)
    assert a.status == 400
    a = post(client, ENQUEUE, {"queue": queue, "depends_on": ["none"]}, queue)
    assert a.status == 400
    expect_first(post(client, ENQUEUE, {"queue": queue}, queue))


def test_duplicate_binds_as_what_it_was(client, queue):
    holder = client.enqueue(queue, unique_key="k")
    body = {"queue": queue, "unique_key": "k"}
    first = expect_first(post(client, ENQUEUE, body, queue), 200)
    assert first.json["status"] == "duplicate"
    client.post(f"{API}/jobs/{holder}/cancel")
    expect_again(post(client, ENQUEUE, body, queue), first)


@pytest.mark.parametrize("key", ["", "k" * 256], ids=["empty", "long"])
@pytest.mark.parametrize("path", [ENQUEUE, BATCH], ids=["one", "several"])
def test_key_has_1_to_255_bytes(client, queue, path, key):
    body = {"queue": queue} if path == ENQUEUE else \
        {"jobs": [{"queue": queue}]}
    a = post(client, path, body, key)
    assert (a.status, a.code) == (400, "VALIDATION_ERROR")
    assert "Idempotency-Key" in a.json["error"]
    expect_first(post(client, path, body, (queue + "k" * 255)[:255]))


def test_keys_differ_and_none_is_none(client, queue):
    body = {"queue": queue}
    for headers in ({"Idempotency-Key": f"{queue}1"},
                    {"Idempotency-Key": f"{queue}2"}, {}, {}):
        expect_first(client.post(ENQUEUE, body, headers))
    assert count(client, queue) == 4


def test_many_at_the_same_time_make_one_job(node, queue):
    answers = []

    def send():
        with node.client() as c:
            answers.append(post(c, ENQUEUE, {"queue": queue}, queue))

    threads = [threading.Thread(target=send) for _ in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len({(a.status, a.body) for a in answers}) == 1
    assert sum(is_replay(a) for a in answers) == 15
    with node.client() as c:
        assert count(c, queue) == 1


def test_answer_survives_a_crash_of_the_node(make_node, queue):
    node = make_node().start()
    body = {"queue": queue, "payload": [1]}
    with node.client() as c:
        first = expect_first(post(c, ENQUEUE, body, "k"))
    node.kill_all()
    node.start()
    with node.client() as c:
        expect_again(post(c, ENQUEUE, body, "k"), first)
        assert count(c, queue) == 1


def test_request_resent_to_a_new_raftd_is_carried_out_once(make_node, queue):
    """httpd sends what was not answered again; that is no second request."""
    node = make_node().start()
    answers = {}

    def send(n):
        with node.client() as c:
            answers[n] = post(c, ENQUEUE, {"queue": queue, "payload": n},
                              f"k{n}")

    for turn in range(3):
        pid = node.pids()["raftd"]
        threads = [threading.Thread(target=send, args=(turn * 20 + n,))
                   for n in range(20)]
        for t in threads:
            t.start()
        os.kill(pid, signal.SIGKILL)
        for t in threads:
            t.join()
        wait_until(node.is_ready, 30, "the new raftd")
    assert {a.status for a in answers.values()} == {201}
    assert not any(is_replay(a) for a in answers.values())
    with node.client() as c:
        wait_until(lambda: c.get(f"{API}/queues").status == 200, 20,
                   "the view")
        ids = {j["id"] for j in c.search(queue=queue, limit=1000)["jobs"]}
        assert ids == {a.json["job_id"] for a in answers.values()}
        expect_again(post(c, ENQUEUE, {"queue": queue, "payload": 0}, "k0"),
                     answers[0])
