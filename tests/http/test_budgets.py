"""Budgets: what may be spent, from outside."""

import contextlib
import json
import sqlite3
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from node import API, CORVO, wait_until


def set_budget(client, **members):
    a = client.post(f"{API}/budgets", members)
    assert a.status == 200, a
    return a.json


def budgets(client):
    a = client.get(f"{API}/budgets")
    assert a.status == 200, a
    return {(b["scope"], b["target"]): b for b in a.json}


@pytest.fixture(autouse=True)
def none_left(client):
    yield
    for scope, target in budgets(client):
        a = client.request("DELETE", f"{API}/budgets/{scope}/{target}")
        assert a.status == 200, a


def spend(client, queue, cost, **members):
    client.enqueue(queue, **members)
    job = client.fetch(queue)
    client.ack(job, usage={"cost_usd": cost})


def test_set_list_delete(client, queue):
    made = set_budget(client, scope="queue", target=queue, daily_usd=10.5,
                      per_job_usd=1)
    assert made["id"].startswith("budget_") and made["on_exceed"] == "hold"
    assert made["daily_usd"] == 10.5 and made["per_job_usd"] == 1
    again = set_budget(client, scope="queue", target=queue, daily_usd=11)
    assert again["id"] == made["id"] and "per_job_usd" not in again
    assert again["created_at"] == made["created_at"]
    mine = budgets(client)["queue", queue]
    assert [(s["unit"], s["per"], s["amount"]) for s in mine["state"]] == [
        ("usd", "day", 11)]
    path = f"{API}/budgets/queue/{queue}"
    a = client.request("DELETE", path)
    assert (a.status, a.json["status"]) == (200, "deleted")
    a = client.request("DELETE", path)
    assert (a.status, a.code) == (404, "NOT_FOUND") and queue in a.body.decode()
    a = client.request("DELETE", path, headers={"X-Corvo-Compat": "0.3"})
    assert (a.status, a.json["status"]) == (200, "deleted")
    assert budgets(client) == {}


def test_a_spent_budget_holds_the_queue(client, queue):
    budget = set_budget(client, scope="queue", target=queue, daily_usd=1)
    spend(client, queue, 1)
    job_id = client.enqueue(queue)
    assert client.fetch(queue) is None
    assert client.state(job_id) == "pending"
    reason = client.get(f"{API}/jobs/{job_id}/why").json["reasons"][0]
    assert reason["code"] == "budget" and "until" in reason
    assert "1 of 1 usd per day are spent" in reason["text"]
    a = client.get(f"{API}/queues/{queue}")
    assert a.json["budget"] == budget["id"]
    events = client.get(f"{API}/cluster/events?types=budget_exceeded"
                        "&limit=1000").json["events"]
    mine = [e for e in events if e["data"]["budget"] == budget["id"]]
    assert len(mine) == 1 and mine[0]["data"]["spent"] == 1
    set_budget(client, scope="queue", target=queue, daily_usd=2)
    assert client.fetch(queue)["job_id"] == job_id


def test_a_waiting_fetch_hears_of_a_raised_budget(node, client, queue):
    set_budget(client, scope="queue", target=queue, daily_usd=1)
    spend(client, queue, 1)
    job_id = client.enqueue(queue)
    with node.client() as waiting:
        waiting.send("POST", f"{API}/fetch",
                     json.dumps({"queues": [queue], "timeout": 30}))
        wait_until(lambda: client.parked() > 0, what="the fetch to wait")
        set_budget(client, scope="queue", target=queue, daily_usd=2)
        assert waiting.receive().json["job_id"] == job_id


def test_a_refusal_only_when_no_other_queue_has_work(client, queue):
    set_budget(client, scope="queue", target=queue, daily_usd=1,
               on_exceed="reject")
    spend(client, queue, 1)
    client.enqueue(queue)
    a = client.fetch_raw(queue)
    assert (a.status, a.code) == (429, "BUDGET_EXCEEDED"), a
    assert "Retry-After" in a.headers
    a = client.fetch_raw(queue, f"{queue}.other")
    assert (a.status, a.code) == (429, "BUDGET_EXCEEDED"), a
    other = client.enqueue(f"{queue}.other")
    assert client.fetch(queue, f"{queue}.other")["job_id"] == other


def test_one_job(client, queue):
    set_budget(client, scope="queue", target=queue, per_job_usd=1,
               on_exceed="reject")
    client.enqueue(queue)
    job = client.fetch(queue)
    a = client.post(f"{API}/ack/{job['job_id']}", {
        "lease_token": job["lease_token"], "usage": {"cost_usd": 2}})
    assert (a.status, a.code) == (429, "BUDGET_EXCEEDED"), a
    assert client.state(job["job_id"]) == "active"
    beat = {"jobs": {job["job_id"]: {"usage": {"cost_usd": 0.6}}}}
    first = client.post(f"{API}/heartbeat", beat).json["jobs"][job["job_id"]]
    assert first["status"] == "ok" and "budget_exceeded" not in first
    last = client.post(f"{API}/heartbeat", beat).json["jobs"][job["job_id"]]
    assert last["status"] == "cancel" and last["budget_exceeded"] is True
    assert client.state(job["job_id"]) == "cancelled"


def test_tags_and_groups(client, queue):
    set_budget(client, scope="tag", target="team=red", daily_usd=1)
    set_budget(client, scope="group", target="g1", daily_usd=1)
    spend(client, queue, 1, tags={"team": "red"})
    spend(client, queue, 1, group="g1")
    red = client.enqueue(queue, tags={"team": "red"})
    mine = client.enqueue(queue, group="g1")
    free = client.enqueue(queue, tags={"team": "blue"})
    assert client.fetch(queue)["job_id"] == free
    for job_id in (red, mine):
        job = client.job(job_id)
        assert job["state"] == "scheduled" and job["scheduled_at"]
        why = client.get(f"{API}/jobs/{job_id}/why").json
        assert why["reasons"][0]["code"] == "budget"
    set_budget(client, scope="tag", target="team=red", daily_usd=5)
    assert client.fetch(queue)["job_id"] == red


def test_workers_together_never_exceed_it(node, client, queue):
    """64 of them; each job costs what it expects, or less."""
    set_budget(client, scope="queue", target=queue, daily_usd=20)
    for _ in range(80):
        client.enqueue(queue, expected_cost=1)

    def work(i):
        spent = 0
        with node.client() as c:
            while True:
                job = c.fetch(queue, worker_id=f"w{i}")
                if job is None:
                    return spent
                c.ack(job, usage={"cost_usd": 1 - i / 128})
                spent += 1
    with ThreadPoolExecutor(64) as pool:
        list(pool.map(work, range(64)))
    state = budgets(client)["queue", queue]["state"][0]
    assert state["spent"] <= 20 and state["reserved"] == 0
    assert state["spent"] > 10


@pytest.mark.parametrize("members, word", [
    ({}, "scope"),
    ({"scope": "planet", "target": "x", "daily_usd": 1}, "scope"),
    ({"scope": "queue", "daily_usd": 1}, "target"),
    ({"scope": "tag", "target": "red", "daily_usd": 1}, "target"),
    ({"scope": "global", "target": "q", "daily_usd": 1}, "target"),
    ({"scope": "global"}, "limits"),
    ({"scope": "global", "daily_usd": -1}, "daily_usd"),
    ({"scope": "global", "daily_usd": "1"}, "daily_usd"),
    ({"scope": "global", "daily_usd": 1, "on_exceed": "cry"}, "on_exceed"),
    ({"scope": "global", "limits": [{"unit": "usd"}]}, "amount"),
    ({"scope": "global", "limits": [{"unit": "walks", "amount": 1}]},
     "walks"),
    ({"scope": "global", "limits": [{"per": "window", "amount": 1}]},
     "window"),
    ({"scope": "global", "limits": [{"per": "year", "amount": 1}]}, "per"),
    ({"scope": "global", "per_job_usd": 1, "on_exceed": "throttle"},
     "on_exceed"),
])
def test_what_cannot_be_is_refused(client, members, word):
    a = client.post(f"{API}/budgets", members)
    assert (a.status, a.code) == (400, "VALIDATION_ERROR"), a
    assert word in a.json["error"]
    a = client.post(f"{API}/budgets", members, {"X-Corvo-Compat": "0.3"})
    assert a.status == 400
    assert budgets(client) == {}


@pytest.mark.parametrize("members, word", [
    ({"expected_cost": -1}, "expected_cost"),
    ({"expected": {"tokens": "many"}}, "expected.tokens"),
    ({"expected": 3}, "expected"),
    ({"expected": {"usd": 1}, "expected_cost": 1}, "expected.usd")])
def test_what_a_job_cannot_expect(client, queue, members, word):
    a = client.post(f"{API}/enqueue", {"queue": queue, **members})
    assert (a.status, a.code) == (400, "VALIDATION_ERROR"), a
    assert word in a.json["error"]


def test_over_a_kill(make_node, queue):
    node = make_node().start()
    with node.client() as c:
        set_budget(c, scope="queue", target=queue, limits=[
            {"amount": 3}, {"per": "window", "window": "1h", "amount": 3},
            {"unit": "tokens", "per": "month", "amount": 100}])
        spend(c, queue, 1)
        job_id = c.enqueue(queue, expected_cost=2)
        assert c.fetch(queue)["job_id"] == job_id
        c.enqueue(queue)
        assert c.fetch(queue) is None
        before = budgets(c)["queue", queue]["state"]
    node.kill_all()
    node.start()
    with node.client() as c:
        after = budgets(c)["queue", queue]["state"]
        assert [(s["spent"], s["reserved"]) for s in after] == [
            (s["spent"], s["reserved"]) for s in before] == [
                (1, 2), (1, 2), (0, 0)]
        assert c.fetch(queue) is None
        c.post(f"{API}/ack/{job_id}", {"usage": {"cost_usd": 0.5}})
        assert c.fetch(queue, timeout=10) is not None


def test_command_line(node, client, queue):
    def corvo(*words):
        return subprocess.run(
            [CORVO, *words, "--server", f"http://127.0.0.1:{node.port}"],
            capture_output=True, text=True, check=False)
    p = corvo("budgets", "set", "queue", queue, "daily_usd=2.5",
              "on_exceed=alert")
    assert (p.returncode, p.stdout) == (0, f"Budget set for queue:{queue}\n")
    spend(client, queue, 0.5)
    p = corvo("budgets")
    assert "0.5 of 2.5 usd per day" in p.stdout, p
    p = corvo("budgets", "set", "queue", queue, "dayly_usd=2")
    assert p.returncode == 2 and "dayly_usd" in p.stderr
    p = corvo("budgets", "delete", "queue", queue)
    assert p.stdout == f"Budget deleted for queue:{queue}\n"
    assert budgets(client) == {}


def test_the_view_has_it(node, client, queue):
    set_budget(client, scope="queue", target=queue, daily_usd=2.5)
    set_budget(client, scope="global", per_job_usd=1, on_exceed="alert")
    assert client.queue(queue) is None  # the view is up to date by then
    with contextlib.closing(sqlite3.connect(
            node.data / "view" / "corvo.db", timeout=30)) as db:
        rows = db.execute("SELECT scope, target, daily_usd, per_job_usd,"
                          " on_exceed FROM budgets ORDER BY 1").fetchall()
    assert rows == [("global", "*", None, 1.0, "alert"),
                    ("queue", queue, 2.5, None, "hold")]
    a = client.post(f"{API}/admin/verify-view")
    assert a.json["status"] == "ok", a
