"""Agents' loops from outside: iterations, limits, approval, replay."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess

import pytest

from node import API, CORVO

COMPAT = {"X-Corvo-Compat": "0.3"}


def enqueue(client, queue, agent, **members):
    a = client.post(f"{API}/enqueue", {"queue": queue, "agent": agent,
                                       **members})
    assert a.status == 201, a
    return a.json["job_id"]


def turn(client, queue, status, **members):
    """One iteration: what was handed out."""
    job = client.fetch(queue)
    assert job is not None
    client.ack(job, agent_status=status, **members)
    return job


def iterations(client, job_id, arguments=""):
    a = client.get(f"{API}/jobs/{job_id}/iterations{arguments}")
    assert a.status == 200, a
    return a.json


def approve(client, job_id, **members):
    a = client.post(f"{API}/jobs/{job_id}/approve", members)
    assert (a.status, a.json["status"]) == (200, "pending"), a


def test_a_loop(client, queue):
    job_id = enqueue(client, queue, {"max_iterations": 5,
                                     "iteration_timeout": "10m"})
    assert client.job(job_id)["agent"] == {
        "max_iterations": 5, "iteration_timeout": "10m",
        "iteration_timeout_ms": 600000, "iteration": 1, "total_cost_usd": 0}
    first = turn(client, queue, " Continue ", checkpoint={"at": 1},
                 usage={"cost_usd": 0.25, "input_tokens": 3, "model": "large"},
                 trace={"span": "x"})
    assert first["agent"]["iteration"] == 1 and "checkpoint" not in first
    second = turn(client, queue, "continue")
    assert second["checkpoint"] == {"at": 1} and second["attempt"] == 1
    assert second["agent"]["total_cost_usd"] == 0.25
    turn(client, queue, "done", result=[7], checkpoint={"at": 3})
    job = client.job(job_id)
    assert job["state"] == "completed" and job["result"] == [7]
    rows = iterations(client, job_id)["iterations"]
    assert [(r["iteration"], r["status"], r.get("cost_usd")) for r in rows] == [
        (1, "continue", 0.25), (2, "continue", None), (3, "done", None)]
    assert [r["checkpoint"]["at"] for r in rows] == [1, 1, 3]
    assert rows[0]["trace"] == {"span": "x"} and rows[2]["result"] == [7]
    assert rows[0]["model"] == "large" and rows[0]["input_tokens"] == 3
    assert rows[0]["started_at"] <= rows[0]["created_at"]
    page = iterations(client, job_id, "?limit=2")
    assert len(page["iterations"]) == 2 and page["next"] == 2
    page = iterations(client, job_id, f"?limit=2&after={page['next']}")
    assert [r["iteration"] for r in page["iterations"]] == [3]
    assert "next" not in page


def test_limits_hold_and_approval_raises_them(client, queue):
    job_id = enqueue(client, queue, {"max_iterations": 1, "max_cost": 2})
    turn(client, queue, "continue")
    job = client.job(job_id)
    assert job["state"] == "held"
    assert job["hold_reason"] == "max_iterations exceeded (1)"
    approve(client, job_id, max_iterations=20)
    turn(client, queue, "continue", usage={"cost_usd": 2.5})
    job = client.job(job_id)
    assert job["hold_reason"] == "max_cost_usd exceeded (2.5000 > 2.0000)"
    assert job["agent"]["max_iterations"] == 20
    assert job["agent"]["max_cost_usd"] == 2
    approve(client, job_id, max_cost_usd=9, limits={"tokens": 10})
    turn(client, queue, "continue", usage={"input_tokens": 11})
    job = client.job(job_id)
    assert job["hold_reason"] == (
        "limits.tokens exceeded (11.0000 > 10.0000)")
    a = client.post(f"{API}/jobs/{job_id}/reject", {"reason": "too dear"})
    assert (a.status, a.json["status"]) == (200, "dead")
    events = client.get(f"{API}/cluster/events?job_ids={job_id}"
                        "&limit=1000").json["events"]
    assert [e["type"] for e in events if e["type"] in (
        "continued", "held", "approved", "rejected")] == [
        "held", "approved", "held", "approved", "held", "rejected"]


def test_a_worker_holds_with_a_reason(client, queue):
    job_id = enqueue(client, queue, {})
    turn(client, queue, "hold", hold_reason="may I send it?")
    assert client.job(job_id)["hold_reason"] == "may I send it?"
    assert client.fetch(queue) is None
    approve(client, job_id)
    assert client.fetch(queue)["agent"]["iteration"] == 2


def test_an_iteration_that_takes_too_long_fails(client, queue):
    job_id = enqueue(client, queue, {"iteration_timeout": "50ms"},
                     retry_backoff="none")
    first = client.fetch(queue)
    again = client.fetch(queue, timeout=10)
    assert again["job_id"] == job_id and again["attempt"] == 2
    assert again["agent"]["iteration"] == 1
    a = client.post(f"{API}/ack/{job_id}", {
        "lease_token": first["lease_token"], "agent_status": "continue"})
    assert (a.status, a.code) == (409, "LEASE_LOST")
    assert client.job(job_id)["errors"][0]["error"] == "timeout"


def test_replay(client, queue):
    job_id = enqueue(client, queue, {"max_iterations": 3}, payload={"p": 1},
                     tags={"team": "red"}, priority="high")
    for at in (1, 2):
        turn(client, queue, "continue", checkpoint={"at": at})
    turn(client, queue, "done", checkpoint={"at": 3})
    a = client.post(f"{API}/jobs/{job_id}/replay", {"from": 2})
    assert a.status == 201, a
    assert a.json["status"] == "pending" and not a.json["unique_existing"]
    new = client.job(a.json["job_id"])
    assert new["agent"]["replay_of"] == job_id
    assert new["agent"]["replay_from"] == 2
    assert client.job(job_id)["agent"]["replays"] == [new["id"]]
    assert (new["payload"], new["tags"], new["priority"]) == (
        {"p": 1}, {"team": "red"}, "high")
    got = client.fetch(queue)
    assert got["job_id"] == new["id"] and got["checkpoint"] == {"at": 2}
    assert got["agent"]["iteration"] == 1
    client.ack(got)


@pytest.mark.parametrize("agent, member", [
    ({"max_iterations": -1}, "agent.max_iterations"),
    ({"max_iterations": 1.5}, "agent.max_iterations"),
    ({"max_iterations": 1000001}, "agent.max_iterations"),
    ({"max_cost_usd": -0.1}, "agent.max_cost_usd"),
    ({"max_cost_usd": "1"}, "agent.max_cost_usd"),
    ({"max_cost": 1, "max_cost_usd": 2}, "agent.max_cost"),
    ({"iteration_timeout": "soon"}, "agent.iteration_timeout"),
    ({"limits": [1]}, "agent.limits"),
    ({"limits": {"tokens": -1}}, "agent.limits.tokens"),
    ({"limits": {"usd": 1}}, "agent.limits.usd"),
    ("much", "agent"),
])
def test_limits_that_cannot_be(client, queue, agent, member):
    a = client.post(f"{API}/enqueue", {"queue": queue, "agent": agent})
    assert (a.status, a.code) == (400, "VALIDATION_ERROR"), a
    assert a.json["error"].startswith(member + ":"), a
    assert client.fetch(queue) is None


def test_what_plain_jobs_refuse(client, queue):
    job_id = client.enqueue(queue)
    job = client.fetch(queue)
    for status in ("continue", "hold"):
        a = client.post(f"{API}/ack/{job_id}", {"agent_status": status})
        assert (a.status, a.code) == (400, "ACK_ERROR"), a
        assert "is not an agent job" in a.json["error"]
    a = client.post(f"{API}/ack/{job_id}", {"agent_status": "later"})
    assert (a.status, a.code) == (400, "VALIDATION_ERROR"), a
    a = client.post(f"{API}/ack/{job_id}", {"agent_status": "later"}, COMPAT)
    assert (a.status, a.code) == (400, "ACK_ERROR"), a
    assert client.state(job_id) == "active"
    client.ack(job, ack_status="hold", hold_reason="look")
    assert client.job(job_id)["hold_reason"] == "look"
    a = client.post(f"{API}/jobs/{job_id}/approve", {"max_cost": 3})
    assert (a.status, a.code) == (400, "VALIDATION_ERROR"), a
    assert a.json["error"].startswith("max_cost:")
    approve(client, job_id)
    client.ack(client.fetch(queue), checkpoint=[1])
    for body, code in (({"from": 1}, "REPLAY_ERROR"),
                       ({"from": 0}, "VALIDATION_ERROR"),
                       ({"from": -1}, "VALIDATION_ERROR"),
                       ({}, "VALIDATION_ERROR")):
        a = client.post(f"{API}/jobs/{job_id}/replay", body)
        assert (a.status, a.code) == (400, code), a
    a = client.post(f"{API}/jobs/job_none/replay", {"from": 1})
    assert (a.status, a.code) == (404, "NOT_FOUND"), a
    a = client.post(f"{API}/jobs/job_none/replay", {"from": 1}, COMPAT)
    assert (a.status, a.code) == (400, "REPLAY_ERROR"), a


def test_ack_batch_takes_turns_too(client, queue):
    ids = [enqueue(client, queue, {"max_iterations": n}) for n in (1, 2)]
    jobs = [client.fetch(queue), client.fetch(queue)]
    a = client.post(f"{API}/ack/batch", {"acks": [
        {"job_id": j["job_id"], "lease_token": j["lease_token"],
         "agent_status": "continue"} for j in jobs]})
    assert a.json == {"acked": 2}, a
    assert [client.state(i) for i in ids] == ["held", "pending"]


def test_the_same_turn_again(client, queue):
    """A worker that was not answered sends it once more."""
    job_id = enqueue(client, queue, {})
    job = client.fetch(queue)
    for _ in range(3):
        client.ack(job, agent_status="continue", checkpoint=[1])
    assert len(iterations(client, job_id)["iterations"]) == 1
    assert client.fetch(queue)["agent"]["iteration"] == 2


def test_large_checkpoints(make_node, queue):
    """A conversation of a megabyte comes back as it was."""
    node = make_node().start()
    said = "x" * ((1 << 20) - 2)
    with node.client() as c:
        job_id = enqueue(c, queue, {})
        for _ in range(3):
            turn(c, queue, "continue", checkpoint=said)
        job = c.fetch(queue)
        assert job["checkpoint"] == said
        assert c.job(job_id)["checkpoint"] == said
        a = c.post(f"{API}/ack/{job_id}", {"checkpoint": said + "x"})
        assert (a.status, a.code) == (400, "VALIDATION_ERROR"), a
        assert a.json["error"].startswith("checkpoint: must be at most")
        a = c.post(f"{API}/admin/verify-view")
        assert a.json["status"] == "ok", a
        c.ack(job)
    node.stop()
    node.start("--max-checkpoint-size", "1KiB")
    with node.client() as c:
        assert len(iterations(c, job_id)["iterations"]) == 4
        a = c.post(f"{API}/enqueue", {"queue": queue, "checkpoint": "y" * 1023})
        assert a.status == 400 and "1024 bytes" in a.json["error"], a


def test_raftd_killed_between_turns(make_node, queue):
    node = make_node().start()
    with node.client() as c:
        job_id = enqueue(c, queue, {"max_iterations": 10})
        for at in range(10):
            job = c.fetch(queue, timeout=10)
            if at % 3 == 1:
                os.kill(node.pids()["raftd"], signal.SIGKILL)
            c.ack(job, agent_status="continue", checkpoint={"at": at},
                  usage={"cost_usd": 0.001})
        job = c.job(job_id)
        assert job["hold_reason"] == "max_iterations exceeded (10)"
        assert job["agent"]["total_cost_usd"] == 0.01
        rows = iterations(c, job_id)["iterations"]
    node.kill_all()
    node.start()
    with node.client() as c:
        assert iterations(c, job_id)["iterations"] == rows
        assert [r["checkpoint"]["at"] for r in rows] == list(range(10))
        approve(c, job_id, max_iterations=11)
        assert c.fetch(queue)["checkpoint"] == {"at": 9}


def rows_of(node, client, queue, *ids):
    client.search(queue=queue)  # with all that was written
    with contextlib.closing(sqlite3.connect(
            node.data / "view" / "corvo.db", timeout=30)) as db:
        return db.execute(
            "SELECT job_id, iteration, status, hold_reason, model, provider,"
            " cost_usd, input_tokens, result, trace, checkpoint, worker_id"
            " FROM job_iterations WHERE job_id IN"
            f" ({','.join('?' * len(ids))}) ORDER BY created_at",
            ids).fetchall()


def test_the_view_has_iterations(node, client, queue):
    kept = enqueue(client, queue, {"max_iterations": 2})
    turn(client, queue, "continue", checkpoint=[1], trace={"span": "x"},
         usage={"cost_usd": 0.25, "input_tokens": 3, "model": "large",
                "provider": "acme"})
    turn(client, queue, "continue")
    approve(client, kept, max_iterations=3)
    turn(client, queue, "done", result=[7])
    gone = enqueue(client, queue, {})
    turn(client, queue, "hold", hold_reason="ask me")
    rows = rows_of(node, client, queue, kept, gone)
    assert [r[:3] for r in rows] == [
        (kept, 1, "continue"), (kept, 2, "hold"), (kept, 3, "done"),
        (gone, 1, "hold")]
    assert rows[0][4:9] == ("large", "acme", 0.25, 3, None)
    assert json.loads(rows[0][9]) == {"span": "x"} and rows[0][10] is None
    assert rows[1][3].startswith("max_iterations exceeded")
    assert rows[2][8] == "[7]" and rows[3][3] == "ask me"
    assert client.request("DELETE", f"{API}/jobs/{gone}").status == 200
    assert len(rows_of(node, client, queue, kept, gone)) == 3
    assert client.post(f"{API}/admin/verify-view").json["status"] == "ok"
    assert client.post(f"{API}/admin/rebuild-sqlite").json["rebuilt"]
    assert rows_of(node, client, queue, kept, gone) == rows[:3]
    with contextlib.closing(sqlite3.connect(
            node.data / "view" / "corvo.db", timeout=30)) as db, db:
        db.execute("UPDATE job_iterations SET trace='{}' WHERE job_id=?",
                   (kept,))
    found = client.post(f"{API}/admin/verify-view").json
    assert found["status"] == "differs", found
    assert {d["table"] for d in found["first"]} == {"job_iterations"}
    assert client.post(f"{API}/admin/rebuild-sqlite").json["rebuilt"]


def test_searches_by_iteration(node, client, queue):
    ids = []
    for turns in range(3):
        ids.append(enqueue(client, queue, {}))
        for _ in range(turns):
            turn(client, queue, "continue", usage={
                "input_tokens": 1, "model": f"m{3 - turns}"})
        client.fetch(queue)
    ids.append(client.enqueue(queue))

    def found(**members):
        return [j["id"] for j in client.search(queue=queue, **members)["jobs"]]
    assert set(found(iteration_min=2)) == {ids[1], ids[2]}
    assert set(found(iteration_max=1)) == {ids[0]}
    assert found(iteration_min=2, iteration_max=2) == [ids[1]]
    assert found(sort="iteration") == [ids[2], ids[1], ids[0], ids[3]]
    assert found(sort="model", order="asc")[:2] == [ids[2], ids[1]]
    pages, cursor = [], {}
    for _ in ids:  # one by one: the cursor has the text it is at
        page = client.search(queue=queue, sort="model", limit=1, **cursor)
        pages += [j["id"] for j in page["jobs"]]
        cursor = {"cursor": page.get("cursor", "")}
    assert pages == found(sort="model") and len(set(pages)) == 4
    p = corvo(node, "search", "--queue", queue, "--iteration-min", "3",
              "--sort", "iteration", "--output", "ids")
    assert p.stdout.split() == [ids[2]], p
    a = client.post(f"{API}/jobs/search", {"iteration_min": -1})
    assert (a.status, a.code) == (400, "VALIDATION_ERROR"), a


def corvo(node, *words):
    return subprocess.run(
        [CORVO, *words, "--server", f"http://127.0.0.1:{node.port}"],
        capture_output=True, text=True, check=False)


def test_command_line(node, client, queue):
    p = corvo(node, "enqueue", queue, "{}", "--agent-max-iterations", "1",
              "--agent-max-cost-usd", "2.5", "--agent-iteration-timeout", "9s",
              "--output", "json")
    job_id = json.loads(p.stdout)["job_id"]
    assert client.job(job_id)["agent"]["max_cost_usd"] == 2.5
    turn(client, queue, "continue", usage={"cost_usd": 0.5})
    p = corvo(node, "iterations", job_id)
    assert "0.500000" in p.stdout and "max_iterations exceeded" in p.stdout
    assert corvo(node, "iterations", job_id, "--after", "1").stdout == (
        "No iterations\n")
    p = corvo(node, "approve", job_id, "--max-iterations", "9", "--max-cost",
              "3", "--iteration-timeout", "1m")
    assert p.stdout == f"Job {job_id}: pending\n", p
    assert client.job(job_id)["agent"]["iteration_timeout"] == "1m"
    p = corvo(node, "replay", job_id, "--from", "1")
    assert p.stdout.startswith("Replay enqueued: job_"), p
    assert corvo(node, "replay", job_id).returncode == 2
    assert corvo(node, "replay", job_id, "--from", "7").returncode == 1
