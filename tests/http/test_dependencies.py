"""Jobs that wait for jobs, from outside."""

import json

import pytest

from node import API, wait_until


def batch(client, queue, *jobs, status=201):
    body = {"jobs": [{"queue": queue, **j} for j in jobs]}
    a = client.post(f"{API}/enqueue/batch", body)
    assert a.status == status, a
    return a.json["job_ids"] if status == 201 else a.json


def refused(client, text, **members):
    a = client.post(f"{API}/enqueue", {"queue": "never", **members})
    assert (a.status, a.code) == (400, "VALIDATION_ERROR"), a
    assert a.json["error"] == text


def run(client, queue, job_id):
    job = client.fetch(queue, timeout=0)
    assert job is not None and job["job_id"] == job_id
    client.ack(job)


def test_a_job_waits_for_all_it_depends_on(client, queue):
    a = client.enqueue(queue)
    b = client.enqueue(queue)
    c = client.enqueue(queue, depends_on=[a, b, a])
    later = client.enqueue(queue)
    shown = client.job(c)
    assert shown["state"] == "pending"
    assert shown["depends_on"] == [a, b]
    assert shown["waiting_on"] == 2
    assert shown["on_dependency_failure"] == "fail"
    assert client.queue(queue)["pending"] == 4
    held = [client.fetch(queue, timeout=0) for _ in range(3)]
    assert [j["job_id"] for j in held] == [a, b, later]
    assert client.fetch(queue, timeout=0) is None
    client.ack(held[0])
    assert client.job(c)["waiting_on"] == 1
    assert [j["waiting_on"] for j in client.search(
        queue=queue, job_id_prefix=c)["jobs"]] == [1]
    client.ack(held[1])
    shown = client.job(c)
    assert "waiting_on" not in shown
    assert [e["type"] for e in shown["timeline"]] == [
        "enqueued", "dependency_ended", "released"]
    assert shown["timeline"][1]["data"] == {"dependency": a}
    run(client, queue, c)


def test_a_waiting_fetch_gets_the_released_job(node, client, queue):
    a = client.enqueue(queue)
    b = client.enqueue(queue, depends_on=[a])
    held = client.fetch(queue)
    with node.client() as other:
        other.send("POST", f"{API}/fetch",
                   json.dumps({"queues": [queue], "timeout": 20}))
        client.ack(held)
        assert other.receive().json["job_id"] == b


def test_released_dependent_stands_where_its_creation_puts_it(client, queue):
    a = client.enqueue(queue)
    b = client.enqueue(queue, depends_on=[a])
    c = client.enqueue(queue)
    for job_id in (a, b, c):
        run(client, queue, job_id)


def dead(client, queue, job_id):
    client.fail(client.fetch(queue), retry=False)


def cancelled(client, _, job_id):
    client.post(f"{API}/jobs/{job_id}/cancel")


def deleted(client, _, job_id):
    client.request("DELETE", f"{API}/jobs/{job_id}")


def expired(client, queue, job_id):
    wait_until(lambda: client.state(job_id) == "dead", 10, "expiry")


@pytest.mark.parametrize("end,word", [
    (dead, "dead"), (cancelled, "cancelled"), (deleted, "deleted"),
    (expired, "dead")])
def test_parent_that_did_not_complete_resolves_by_policy(client, queue, end,
                                                         word):
    members = {"expire_after": "200ms"} if end is expired else {}
    a = client.enqueue(queue, **members)
    child = client.enqueue(queue, depends_on=[a])
    grandchild = client.enqueue(queue, depends_on=[child])
    ignores = client.enqueue(queue, depends_on=[a],
                             on_dependency_failure="ignore")
    end(client, queue, a)
    shown = client.job(child)
    assert shown["state"] == "dead"
    assert shown["last_error"] == f"dependency {a} failed: {word}"
    assert [e["type"] for e in shown["timeline"]] == [
        "enqueued", "dependency_failed", "dead"]
    assert client.job(grandchild)["last_error"] == \
        f"dependency {child} failed: dead"
    assert client.job(ignores)["on_dependency_failure"] == "ignore"
    run(client, queue, ignores)
    found = client.search(queue=queue, state=["dead"])
    assert {child, grandchild} <= {j["id"] for j in found["jobs"]}
    client.post(f"{API}/jobs/{child}/retry")
    run(client, queue, child)


def test_parent_that_ended_before(client, queue):
    a = client.enqueue(queue)
    run(client, queue, a)
    run(client, queue, client.enqueue(queue, depends_on=[a]))
    b = client.enqueue(queue)
    cancelled(client, queue, b)
    answer = client.post(f"{API}/enqueue",
                         {"queue": queue, "depends_on": [a, b]})
    assert (answer.status, answer.json["status"]) == (201, "dead")
    shown = client.job(answer.json["job_id"])
    assert shown["last_error"] == f"dependency {b} failed: cancelled"
    run(client, queue, client.enqueue(queue, depends_on=[b],
                                      on_dependency_failure="ignore"))


def test_items_of_a_batch_depend_on_each_other(client, queue):
    ids = batch(client, queue, {"depends_on": ["#1", "#2"]},
                {"depends_on": ["#3"]}, {"depends_on": ["#3"]}, {})
    assert client.job(ids[0])["depends_on"] == [ids[1], ids[2]]
    for i in (3, 1, 2, 0):
        run(client, queue, ids[i])


def test_cycles_are_refused(client, queue):
    answer = batch(client, queue, {"depends_on": ["#2"]},
                   {"depends_on": ["#0"]}, {"depends_on": ["#1"]}, status=400)
    assert answer["code"] == "VALIDATION_ERROR"
    assert answer["error"] == "jobs[0].depends_on: the job would wait for " \
        "ever: its dependencies form a cycle"
    assert queue not in [q["name"] for q in client.get(f"{API}/queues").json]


def test_unknown_ids_are_refused(client, queue):
    known = client.enqueue(queue)
    refused(client, 'depends_on: job "job_nope" not found',
            depends_on=[known, "job_nope"])
    refused(client, 'depends_on: "#0" is the job itself', depends_on=["#0"])
    refused(client, 'depends_on: "#1" is no job of this request; they are #0 '
            'to #0', depends_on=["#1"])
    answer = batch(client, queue, {}, {"depends_on": ["#7"]}, status=400)
    assert answer["error"] == 'jobs[1].depends_on: "#7" is no job of this ' \
        'request; they are #0 to #1'


@pytest.mark.parametrize("members", [
    {"depends_on": "job_1"}, {"depends_on": [7]}, {"depends_on": [None]},
    {"depends_on": [""]}, {"depends_on": ["x" * 65]},
    {"depends_on": ["job_1"] * 257},
    {"depends_on": ["job_1"], "on_dependency_failure": "maybe"}])
def test_malformed_dependencies_are_refused(client, members):
    a = client.post(f"{API}/enqueue", {"queue": "never", **members})
    assert (a.status, a.code) == (400, "VALIDATION_ERROR"), a
    assert "depend" in a.json["error"]


def test_many_dependents_are_released_by_themselves(client, queue):
    """More than one entry may tell: sched sees to the rest."""
    a = client.enqueue(queue)
    work = queue + "-work"
    ids = batch(client, work, *[{"depends_on": [a]} for _ in range(3500)])
    client.ack(client.fetch(queue))
    wait_until(lambda: "waiting_on" not in client.job(ids[-1]), 30,
               "the last dependent")
    assert client.fetch(work)["job_id"] == ids[0]
    b = client.enqueue(queue)
    ids = batch(client, work, {"depends_on": [b]},
                *[{"depends_on": [f"#{i}"]} for i in range(2500)])
    cancelled(client, queue, b)
    wait_until(lambda: client.state(ids[-1]) == "dead", 30,
               "the end of the chain")
    wait_until(lambda: [q["dead"] for q in client.get(f"{API}/queues").json
                        if q["name"] == work] == [2501], 30, "the view")


def test_dependents_survive_a_restart(make_node):
    n = make_node()
    n.start()
    with n.client() as c:
        a = c.enqueue("q")
        b = c.enqueue("q", depends_on=[a])
    n.kill_all()
    n.start()
    with n.client() as c:
        assert c.job(b)["waiting_on"] == 1
        run(c, "q", a)
        run(c, "q", b)


def test_parent_id_ties_nothing(client, queue):
    a = client.enqueue(queue)
    b = client.enqueue(queue, parent_id=a)
    cancelled(client, queue, a)
    assert client.job(b)["parent_id"] == a
    run(client, queue, b)
