"""GET /jobs/{id}/why: what a job waits for, in words and numbers."""

import json
import subprocess

from node import API, CORVO, wait_until


def why(client, job_id):
    a = client.get(f"{API}/jobs/{job_id}/why")
    assert a.status == 200, a
    assert a.json["job_id"] == job_id
    assert a.json["reasons"][0]["text"] in a.json["summary"]
    return a.json


def codes(client, job_id):
    return [r["code"] for r in why(client, job_id)["reasons"]]


def test_no_worker_on_the_queue(client, queue):
    job_id = client.enqueue(queue)
    answer = why(client, job_id)
    assert (answer["queue"], answer["state"]) == (queue, "pending")
    assert answer["reasons"][0]["code"] == "no_worker"


def test_a_waiting_fetch_is_a_worker(node, client, queue):
    job_id = client.enqueue(queue)
    client.post(f"{API}/queues/{queue}/pause")
    with node.client() as waiting:
        waiting.send("POST", f"{API}/fetch",
                     json.dumps({"queues": [queue], "timeout": 30}))
        wait_until(lambda: codes(client, job_id) == ["paused"],
                   what="the fetch to be seen")
        client.post(f"{API}/queues/{queue}/resume")
        assert waiting.receive().json["job_id"] == job_id
    assert codes(client, job_id) == ["active"]


def test_jobs_ahead(client, queue):
    ids = [client.enqueue(queue) for _ in range(4)]
    client.fetch(queue)
    reason = why(client, ids[3])["reasons"][0]
    assert (reason["code"], reason["count"]) == ("ahead", 2)
    assert reason["text"] == f'2 jobs are ahead of it in queue "{queue}"'


def test_a_life_in_reasons(client, queue):
    job_id = client.enqueue(queue, scheduled_at="2199-01-01T00:00:00Z")
    answer = why(client, job_id)["reasons"][0]
    assert answer["code"] == "scheduled"
    assert answer["until"].startswith("2199-01-01")
    client.post(f"{API}/jobs/{job_id}/retry")
    job = client.fetch(queue)
    active = why(client, job_id)["reasons"][0]
    assert active["code"] == "active" and "w1" in active["text"]
    assert active["until"] == client.job(job_id)["lease_expires_at"]
    client.fail(job, error="no disk", retry_after="1h")
    answer = why(client, job_id)["reasons"][0]
    assert (answer["code"], answer["count"], answer["limit"]) == \
        ("retrying", 1, 3)
    assert "no disk" in answer["text"]
    client.post(f"{API}/jobs/{job_id}/hold", {"reason": "ask"})
    assert "(ask)" in why(client, job_id)["summary"]
    client.post(f"{API}/jobs/{job_id}/reject", {"reason": "no"})
    assert "rejected: no" in why(client, job_id)["summary"]
    assert codes(client, job_id) == ["ended"]


def test_dependencies(client, queue):
    parents = [client.enqueue(queue) for _ in range(12)]
    child = client.enqueue(queue, depends_on=parents)
    client.ack(client.fetch(queue))
    reason = why(client, child)["reasons"][0]
    assert (reason["code"], reason["count"], reason["limit"]) == \
        ("dependency", 11, 12)
    assert reason["job_ids"] == parents[1:11]


def test_limits_say_who_holds_the_slots_and_when_the_next_may_go(client,
                                                                 queue):
    a = client.request("PATCH", f"{API}/queues/{queue}", {
        "max_concurrency": 2, "rate": 2, "period": "1h"})
    assert a.status == 200, a
    ids = [client.enqueue(queue) for _ in range(3)]
    client.fetch(queue, worker_id="one")
    client.fetch(queue, worker_id="two")
    slots, rate = why(client, ids[2])["reasons"][:2]
    assert (slots["code"], slots["count"], slots["limit"]) == \
        ("concurrency", 2, 2)
    assert slots["text"].startswith(
        f'queue "{queue}" has 2 of 2 slots taken, held by ')
    assert {"one", "two"} == set(slots["text"].split("held by ")[1]
                                 .split(", "))
    assert (rate["code"], rate["limit"]) == ("rate", 2) and "until" in rate


def test_an_unknown_job(client):
    a = client.get(f"{API}/jobs/job_none/why")
    assert (a.status, a.code) == (404, "NOT_FOUND")


def test_corvo_why(node, client, queue):
    job_id = client.enqueue(queue)
    client.post(f"{API}/queues/{queue}/pause")
    p = subprocess.run([CORVO, "why", job_id, "--server",
                        f"http://127.0.0.1:{node.port}"],
                       capture_output=True, text=True, timeout=30)
    assert p.returncode == 0, p
    first, *rest = p.stdout.splitlines()
    assert first == f'pending: queue "{queue}" is paused'
    assert rest[0].startswith("- ") and "is paused" not in "".join(rest)
