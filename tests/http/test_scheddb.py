"""Scheduled-DB as its clients know it: routes, members, statuses, texts."""

import json
import re
import time

import pytest

from node import API, wait_until
from scheddb import (QUEUE, create, executions, health, once, post, rfc3339,
                     soon, status, wait_for)
from sink import sink

UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-"
                   r"[0-9a-f]{12}")
LATER = int(time.time()) + 86400


def refused(a, text, code="VALIDATION_ERROR", http=400):
    assert a.status == http, a
    assert a.json["error"] == text, a
    assert a.json["code"] == code, a


def delete(client, *ids):
    for job_id in ids:
        assert client.request("DELETE", f"/jobs/{job_id}").status == 204


def test_a_unico_is_created_shown_and_deleted(client):
    a = post(client, type="unico", timestamp=str(LATER),
             webhook_url="http://example.com/hook?a=b", payload={"n": [1, 2]})
    assert a.status == 200 and a.headers["Content-Type"] == "application/json"
    job = a.json
    assert UUID4.fullmatch(job["id"]), job
    assert abs(job["created_at"] - time.time()) < 60
    assert job == {"id": job["id"], "type": "unico", "timestamp": LATER,
                   "created_at": job["created_at"],
                   "webhook_url": "http://example.com/hook?a=b",
                   "payload": {"n": [1, 2]}}
    assert client.get(f"/jobs/{job['id']}").json == job
    a = client.request("DELETE", f"/jobs/{job['id']}")
    assert a.status == 204 and a.body == b"", a
    for path in ("", "/status", "/executions"):
        refused(client.get(f"/jobs/{job['id']}{path}"), "Job not found",
                "NOT_FOUND", 404)
    refused(client.request("DELETE", f"/jobs/{job['id']}"), "Job not found",
            "NOT_FOUND", 404)
    refused(client.post(f"/jobs/{job['id']}/cancel"), "Job not found",
            "NOT_FOUND", 404)


@pytest.mark.parametrize("text", [
    str(LATER), rfc3339(LATER).replace(".000", ""),
    time.strftime("%Y-%m-%dT%H:%M:%S+02:00", time.gmtime(LATER + 7200)),
    time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(LATER))])
def test_three_forms_of_timestamps(client, text):
    job = create(client, type="unico", timestamp=text)
    assert job["timestamp"] == LATER
    assert client.request("DELETE", f"/jobs/{job['id']}").status == 204


BAD = [
    ({"type": "unico"}, "Job validation failed: timestamp is required for "
     "unico jobs"),
    ({"type": "unico", "timestamp": "1"}, "Job validation failed: timestamp "
     "must be in the future"),
    ({"type": "semanal"}, "Job validation failed: invalid job type: semanal"),
    ({}, "Job validation failed: invalid job type: "),
    ({"type": "recurrente"}, "Job validation failed: cron_expression is "
     "required for recurrente jobs"),
    ({"type": "unico", "timestamp": LATER}, "Invalid request body"),
    ({"type": "unico", "timestamp": str(LATER), "payload": [1]},
     "Invalid request body"),
    ({"type": 1}, "Invalid request body"),
]


@pytest.mark.parametrize("members,text", BAD)
def test_what_is_refused_and_how(client, members, text):
    refused(client.post("/jobs", members), text)


@pytest.mark.parametrize("members,begins", [
    ({"type": "unico", "timestamp": "tomorrow"},
     "Invalid job data: invalid timestamp: "),
    ({"type": "unico", "timestamp": "-5"},
     "Invalid job data: invalid timestamp: "),
    ({"type": "unico", "timestamp": "99999999999999999999"},
     "Invalid job data: invalid timestamp: "),
    ({"type": "unico", "timestamp": "2026-02-30 12:00:00"},
     "Invalid job data: invalid timestamp: "),
    ({"type": "recurrente", "cron_expression": "* * * * *",
      "last_date": "x"}, "Invalid job data: invalid last_date: "),
    ({"type": "recurrente", "cron_expression": "61 * * * *"},
     "Job validation failed: invalid cron expression: "),
    ({"type": "recurrente", "cron_expression": "* * * * *", "last_date": "1"},
     "Job validation failed: invalid cron expression: "),
    ({"type": "unico", "timestamp": str(LATER), "webhook_url": "ftp://a/"},
     "Job validation failed: invalid webhook_url: "),
    ({"type": "unico", "timestamp": str(LATER), "webhook_url": "http://"},
     "Job validation failed: invalid webhook_url: "),
    ({"type": "unico", "timestamp": str(LATER),
      "webhook_url": "http://a/\r\nX: y"},
     "Job validation failed: invalid webhook_url: "),
    ({"type": "unico", "timestamp": str(LATER), "id": "x" * 65},
     "Job validation failed: id: "),
    ({"type": "unico", "timestamp": str(LATER), "id": "a\nb"},
     "Job validation failed: id: "),
])
def test_what_is_refused_with_its_reason(client, members, begins):
    before = health(client)["jobs"]["count"]
    a = client.post("/jobs", members)
    assert a.status == 400 and a.json["error"].startswith(begins), a
    assert a.json["error"] != begins
    assert health(client)["jobs"]["count"] == before


def test_a_body_that_is_no_json(client):
    for body in (b"", b"{", b"[]", b"\xff", b'{"type": "unico"} x'):
        a = client.post("/jobs", body)
        assert a.status == 400 and a.json["error"] == "Invalid request body"


def test_members_that_mean_nothing_for_a_unico_are_named(client):
    members = {"type": "unico", "timestamp": str(LATER),
               "cron_expression": "* * * * *", "last_date": str(LATER + 1)}
    a = post(client, **members)
    assert a.status == 200, a
    assert a.headers["X-Corvo-Ignored"] == "cron_expression, last_date", a
    delete(client, a.json["id"])
    a = client.request("POST", "/jobs", members, {"X-Corvo-Strict": "1"})
    assert a.status == 400 and "cron_expression" in a.json["error"], a


def test_a_reason_that_cannot_be_kept_is_refused_or_named(client):
    job_id = once(client, after=3600)
    path = f"/jobs/{job_id}/cancel"
    a = client.post(path, {"reason": "x" * 20000})
    assert a.status == 400 and "reason" in a.json["error"], a
    assert status(client, job_id)["status"] == "pending"
    a = client.post(path, {"reason": 5})
    assert a.status == 200 and a.headers["X-Corvo-Ignored"] == "reason", a
    assert "cancellation_reason" not in status(client, job_id)
    delete(client, job_id)


def test_a_payload_that_is_too_large(client):
    a = post(client, type="unico", timestamp=str(LATER),
             payload={"a": "x" * (256 * 1024)})
    assert a.status == 413 and a.code == "PAYLOAD_TOO_LARGE", a


def test_an_id_is_of_its_client_and_used_again_it_replaces(client):
    job = create(client, id="my job/1", type="unico", timestamp=str(LATER),
                 payload={"a": 1})
    count = health(client)["jobs"]["count"]
    again = create(client, id="my job/1", type="unico",
                   timestamp=str(LATER + 1), payload={"b": 2})
    assert (job["id"], again["id"]) == ("my job/1", "my job/1")
    shown = client.get("/jobs/my%20job%2F1").json
    assert shown == again and shown["payload"] == {"b": 2}
    assert health(client)["jobs"]["count"] == count
    # the view has it once, as it is now
    found = client.search(queue=QUEUE, job_id_prefix="my job/1")["jobs"]
    assert [j["payload"] for j in found] == [{"b": 2}]
    assert client.request("DELETE", "/jobs/my%20job%2F1").status == 204


def test_an_id_of_another_job_is_not_taken(client, queue):
    other = client.enqueue(queue)
    a = post(client, id=other, type="unico", timestamp=str(LATER))
    assert a.status == 400 and "Corvo makes itself" in a.json["error"], a
    assert client.state(other) == "pending"
    refused(client.get(f"/jobs/{other}"), "Job not found", "NOT_FOUND", 404)
    refused(client.request("DELETE", f"/jobs/{other}"), "Job not found",
            "NOT_FOUND", 404)


def test_what_is_sent_and_the_state_after(client, node):
    with sink() as s:
        job_id = once(client, s.url("/hook?a=b"), payload={"é": 1})
        # one that waits, whatever time it is
        before = status(client, once(client, after=3600))
        assert before["status"] == "pending"
        assert before["attempt_count"] == 0 and before["attempts"] == []
        after = wait_for(client, job_id, "completed")
        (call,) = s.calls
        body = json.loads(call.body)
        assert abs(body.pop("timestamp") - call.at) < 60
        assert body == {"job_id": job_id, "type": "unico", "data": {"é": 1}}
        assert call.method == "POST" and call.path == "/hook?a=b"
        assert call.headers["content-type"] == "application/json"
    (attempt,) = after["attempts"]
    assert attempt == {"attempt_num": 1, "start_time": attempt["start_time"],
                       "end_time": attempt["end_time"], "node_id": "node-1",
                       "status": "completed", "http_status": 200,
                       "response_time_ms": attempt["response_time_ms"]}
    assert 0 <= before["created_at"] - after["created_at"] < 60
    assert after == {"job_id": job_id, "status": "completed",
                     "attempt_count": 1, "created_at": after["created_at"],
                     "first_attempt_at": attempt["start_time"],
                     "last_attempt_at": attempt["start_time"],
                     "completed_at": attempt["end_time"],
                     "attempts": [attempt]}
    assert executions(client, job_id) == [attempt]


def test_without_a_url_it_is_done_at_its_time_and_data_may_be_none(client):
    job_id = once(client)
    assert wait_for(client, job_id, "completed")["attempt_count"] == 1
    with sink() as s:
        wait_for(client, once(client, s.url()), "completed")
        assert json.loads(s.calls[0].body)["data"] is None


def test_credentials_of_a_url_are_used_and_never_shown(client):
    with sink() as s:
        job_id = once(client, f"http://me:s3cr3t@127.0.0.1:{s.port}/x")
        wait_for(client, job_id, "completed")
        assert s.calls[0].headers["authorization"].startswith("Basic ")
    for path in (f"/jobs/{job_id}", f"/jobs/{job_id}/status",
                 f"/jobs/{job_id}/executions", f"{API}/jobs/{job_id}",
                 "/jobs?status=completed",
                 f"{API}/cluster/events?limit=1000"):
        assert b"s3cr3t" not in client.get(path).body, path
    assert client.get(f"/jobs/{job_id}").json["webhook_url"] == s.url("/x")


def test_cancel_of_one_that_waits_and_of_one_that_has_ended(client):
    job_id = once(client, after=3600)
    a = client.post(f"/jobs/{job_id}/cancel", {"reason": "not needed"})
    assert a.status == 200, a
    assert a.json == {"job_id": job_id, "status": "cancelled",
                      "cancelled_at": a.json["cancelled_at"]}
    assert abs(a.json["cancelled_at"] - time.time()) < 60
    s = status(client, job_id)
    assert s["status"] == "cancelled" and s["cancellation_reason"] == \
        "not needed" and s["cancelled_at"] == a.json["cancelled_at"]
    again = client.post(f"/jobs/{job_id}/cancel", b"no json")
    assert again.json == {"job_id": job_id, "status": "cancelled",
                          "cancelled_at": 0}
    done = once(client)
    wait_for(client, done, "completed")
    a = client.post(f"/jobs/{done}/cancel")
    assert a.status == 200 and a.json == {
        "job_id": done, "status": "completed", "cancelled_at": 0}


def listed(client, word):
    a = client.get(f"/jobs?status={word}")
    assert a.status == 200, a
    assert a.json["total"] == len(a.json["jobs"])
    assert all(j["status"] == word for j in a.json["jobs"])
    return {j["job_id"]: j for j in a.json["jobs"]}


def test_lists_by_status(client):
    refused(client.get("/jobs"), "status query parameter is required")
    refused(client.get("/jobs?status=done"), "invalid status parameter")
    waiting = once(client, after=3600)
    done = once(client)
    wait_for(client, done, "completed")
    gone = once(client, after=3600)
    assert client.post(f"/jobs/{gone}/cancel").status == 200
    assert waiting in listed(client, "pending")
    assert listed(client, "completed")[done] == status(client, done)
    assert gone in listed(client, "cancelled")
    for word in ("in_progress", "failed", "timeout"):
        assert not {waiting, done, gone} & set(listed(client, word)), word


BIG = {"x": "y" * 250_000}
MANY = 36  # of them are more than raftd puts into one reply


def test_a_list_has_all_jobs_whatever_they_weigh(client):
    ids = {once(client, after=3600, payload=BIG) for _ in range(MANY)}
    small = once(client, after=3600)
    assert ids | {small} <= set(listed(client, "pending"))
    assert not ids & set(listed(client, "failed"))
    delete(client, small, *ids)


def run(client, job_id):
    """Beside its times, and to its end."""
    a = client.post(f"{API}/schedules/{job_id}/run")
    assert a.status == 200, a
    a = client.get(f"{API}/jobs/{a.json['job_id']}?wait=30s")
    assert a.json["state"] == "completed", a


def test_recurrentes_have_their_runs_whatever_they_weigh(client):
    ids = [f"weighty-{n}" for n in range(MANY)]
    for job_id in ids:
        create(client, id=job_id, type="recurrente", payload=BIG,
               cron_expression="0 0 1 1 *")
        run(client, job_id)
    found = listed(client, "pending")
    assert {found[i]["attempt_count"] for i in ids} == {1}
    for _ in range(MANY - 1):
        run(client, ids[0])
    seen, cursor = 0, ""
    while cursor is not None:
        a = client.get(f"/jobs/{ids[0]}/executions?cursor={cursor}").json
        assert a["attempts"], a
        seen, cursor = seen + len(a["attempts"]), a.get("next")
    assert seen == MANY
    delete(client, *ids)


def test_they_are_ordinary_jobs_of_a_push_queue(client):
    job_id = once(client, after=3600, payload={"word": "zebrafinch"})
    job = client.job(job_id)
    assert job["queue"] == QUEUE and job["state"] == "scheduled"
    assert job["scheduled_db"]["type"] == "unico"
    found = client.search(queue=QUEUE, payload_contains="zebrafinch")["jobs"]
    assert [j["id"] for j in found] == [job_id]
    settings = client.get(f"{API}/queues/{QUEUE}").json["settings"]
    assert settings["push"]["format"] == "scheduled-db"
    assert settings["retention"] == "720h" and settings["max_retries"] == 3
    # what is done to it there shows here
    assert client.post(f"{API}/jobs/{job_id}/cancel").status == 200
    assert status(client, job_id)["status"] == "cancelled"
    assert client.post(f"{API}/jobs/{job_id}/retry").status == 200
    wait_for(client, job_id, "completed")


def test_health_and_the_cluster(client):
    h = health(client)
    assert h["status"] in ("ok", "degraded") and h["role"] == "leader"
    assert h["node_id"] == "node-1" and "leader" not in h
    m = h["memory"]
    assert m["limit_bytes"] > 1 << 20
    assert m["available_bytes"] == m["limit_bytes"] - m["current_bytes"]
    assert h["jobs"]["limit"] == 100000
    assert h["jobs"]["available"] == 100000 - h["jobs"]["count"]
    e = h["execution"]
    assert e["total"] == sum(e[k] for k in (
        "pending", "in_progress", "completed", "failed", "cancelled",
        "timeout"))
    c = client.get("/debug/cluster").json
    assert c["node_id"] == "node-1" and c["is_leader"] is True
    assert c["raft_state"] == "Leader"
    assert [s["id"] for s in c["servers"]] == ["node-1"]
    assert c["job_count"] == health(client)["jobs"]["count"]


def test_nothing_of_the_api_is_in_its_way(client):
    assert client.get(f"{API}/jobs/nobody").status == 404
    assert client.get("/healthz").status == 200
    a = client.request("PUT", "/jobs")
    assert a.status == 405 and set(a.headers["Allow"].replace(
        " ", "").split(",")) >= {"GET", "POST"}, a.headers["Allow"]
    wait_until(lambda: client.get("/readyz").status == 200, what="readiness")
    assert soon()
