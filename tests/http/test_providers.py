"""How providers of models do: by what workers report of them."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess

from node import API, CORVO


def provider(client, name):
    a = client.get(f"{API}/providers")
    assert a.status == 200, a
    found = [p for p in a.json["providers"] if p["name"] == name]
    return found[0] if found else None


def works(client, queue, name, **members):
    client.enqueue(queue)
    client.ack(client.fetch(queue), provider=name, **members)


def fails(client, queue, name, **members):
    client.enqueue(queue)
    client.fail(client.fetch(queue), retry=False, provider=name, **members)


def test_reports_make_a_state(client, queue):
    name = f"{queue}.acme"
    assert provider(client, name) is None
    works(client, queue, name, latency="1s")
    works(client, queue, name, latency="3s")
    p = provider(client, name)
    assert p["state"] == "unknown" and p["window"] == "10m"
    assert (p["latency_ms"], p["latency_max_ms"]) == (2000, 3000)
    assert "last_failure_at" not in p and p["failure_rate"] == 0
    for _ in range(3):
        works(client, queue, name)
    assert provider(client, name)["state"] == "ok"
    fails(client, queue, name, error="503 from upstream")
    p = provider(client, name)
    assert (p["state"], p["succeeded"], p["failed"]) == ("degraded", 5, 1)
    assert p["last_error"] == "503 from upstream"
    for _ in range(4):
        fails(client, queue, name)
    assert provider(client, name)["state"] == "failing"
    events = client.get(f"{API}/cluster/events?limit=1000").json["events"]
    assert [e["data"]["to"] for e in events
            if e["type"] == "provider_changed"
            and e["data"]["provider"] == name] == [
                "unknown", "ok", "degraded", "failing"]


def test_usage_and_batches_name_it_too(client, queue):
    name = f"{queue}.acme"
    for _ in range(2):
        client.enqueue(queue)
    jobs = [client.fetch(queue) for _ in range(2)]
    a = client.post(f"{API}/ack/batch", {"acks": [
        {"job_id": jobs[0]["job_id"], "usage": {"input_tokens": 1,
                                                "provider": name}},
        {"job_id": jobs[1]["job_id"], "provider": name, "latency_ms": 250}]})
    assert a.json["acked"] == 2, a
    p = provider(client, name)
    assert (p["succeeded"], p["latency_ms"]) == (2, 250)


def test_what_cannot_be_is_refused_by_name(client, queue):
    client.enqueue(queue)
    job = client.fetch(queue)
    for verb in "ack", "fail":
        for member, value in (("provider", "p" * 129), ("provider", 5),
                              ("latency", "25h"), ("latency", -1),
                              ("latency", "soon")):
            a = client.post(f"{API}/{verb}/{job['job_id']}", {member: value})
            assert (a.status, a.code) == (400, "VALIDATION_ERROR"), a
            assert a.json["error"].startswith(member), a
    assert client.job(job["job_id"])["state"] == "active"


def test_they_survive_a_kill(make_node, queue):
    node = make_node().start()
    with node.client() as c:
        for i in range(12):
            if i % 5 == 3:
                os.kill(node.pids()["raftd"], signal.SIGKILL)
            if i % 2:
                works(c, queue, "acme", latency="1s")
            else:
                fails(c, queue, "acme", error=f"e{i}")
        before = provider(c, "acme")
        assert (before["succeeded"], before["failed"]) == (6, 6)
    node.kill_all()
    node.start()
    with node.client() as c:
        assert provider(c, "acme") == before


def test_the_view_and_the_command_line(node, client, queue):
    name = f"{queue}.acme"
    for _ in range(5):
        fails(client, queue, name, error="out of order")
    p = subprocess.run(
        [CORVO, "providers", "--server", f"http://127.0.0.1:{node.port}"],
        capture_output=True, text=True, check=False)
    line = [x for x in p.stdout.splitlines() if name in x][0]
    assert "failing" in line and "out of order" in line
    p = subprocess.run(
        [CORVO, "providers", "--output", "json",
         "--server", f"http://127.0.0.1:{node.port}"],
        capture_output=True, text=True, check=False)
    assert json.loads(p.stdout)["providers"]
    client.search(queue=queue)  # with all that was written
    with contextlib.closing(sqlite3.connect(
            node.data / "view" / "corvo.db", timeout=30)) as db:
        assert db.execute("SELECT state FROM providers WHERE name = ?",
                          (name,)).fetchall() == [("failing",)]
    a = client.post(f"{API}/admin/verify-view")
    assert a.json["status"] == "ok", a
    assert client.metrics()["corvo_provider_failures_total"] >= 5
