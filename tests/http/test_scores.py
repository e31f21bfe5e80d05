"""Scores of jobs: recording, listing, sums, the view, the command line."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess

from node import API, CORVO


def done(client, queue, model="large", **members):
    client.enqueue(queue, **members)
    job = client.fetch(queue)
    client.ack(job, usage={"input_tokens": 1, "model": model,
                           "provider": "acme"})
    return job["job_id"]


def score(client, job_id, name, value, **members):
    a = client.post(f"{API}/jobs/{job_id}/scores",
                    {"name": name, "value": value, **members})
    assert a.status == 200, a
    return a.json


def scores(client, job_id):
    a = client.get(f"{API}/jobs/{job_id}/scores")
    assert a.status == 200, a
    return a.json["scores"]


def sums(client, **arguments):
    a = client.get(f"{API}/scores?" + "&".join(
        f"{name}={value}" for name, value in arguments.items()))
    assert a.status == 200, a
    return a.json["scores"]


def test_scores_are_listed_with_their_job(client, queue):
    job_id = done(client, queue)
    first = score(client, job_id, "accuracy", 0.75, by="ann",
                  comment="one name is wrong")
    assert first["n"] == 1 and first["created_at"].endswith("Z")
    score(client, job_id, "tone", -1)
    found = scores(client, job_id)
    assert found[0] == first
    assert [(s["name"], s["value"]) for s in found] == [
        ("accuracy", 0.75), ("tone", -1)]
    assert "iteration" not in found[1] and "by" not in found[1]
    told = [e for e in client.job(job_id)["timeline"]
            if e["type"] == "scored"]
    assert told[0]["data"] == {"name": "accuracy", "value": 0.75,
                               "by": "ann"}


def test_scores_of_iterations(node, client, queue):
    a = client.post(f"{API}/enqueue", {"queue": queue, "agent": {}})
    job_id = a.json["job_id"]
    client.ack(client.fetch(queue), agent_status="continue")
    score(client, job_id, "tone", 1, iteration=1)
    a = client.post(f"{API}/jobs/{job_id}/scores",
                    {"name": "tone", "value": 1, "iteration": 2})
    assert (a.status, a.code) == (404, "NOT_FOUND"), a
    assert a.json["error"].startswith("iteration: "), a
    job = client.fetch(queue)
    p = corvo(node, "score", job_id, "tone", "-2", "--iteration", "2",
              "--output", "json")
    assert json.loads(p.stdout)["iteration"] == 2, p
    client.ack(job, agent_status="done")
    refused(client, f"jobs/{job_id}/scores",
            {"name": "a", "value": 1, "iteration": 0}, "iteration")
    refused(client, f"jobs/{done(client, queue)}/scores",
            {"name": "a", "value": 1, "iteration": 1}, "iteration")
    assert [s["iteration"] for s in scores(client, job_id)] == [1, 2]
    told = [e["data"] for e in client.job(job_id)["timeline"]
            if e["type"] == "scored"]
    assert [d["iteration"] for d in told] == [1, 2]


def test_a_score_takes_the_place_of_the_one_before(client, queue):
    job_id = done(client, queue)
    score(client, job_id, "accuracy", 1, by="ann")
    again = score(client, job_id, "accuracy", 3, by="ann")
    score(client, job_id, "accuracy", 5, by="bob")
    assert scores(client, job_id)[0] == again
    assert [s["value"] for s in scores(client, job_id)] == [3, 5]
    found = sums(client, queue=queue)
    assert [(s["name"], s["count"], s["mean"]) for s in found] == [
        ("accuracy", 2, 4)]


def test_sums_by_model_queue_and_day(client, queue):
    for model, value in (("large", 0.9), ("large", 0.8), ("small", 0.1)):
        job_id = done(client, queue, model)
        score(client, job_id, "accuracy", value)
        score(client, job_id, "speed", 10 * value)
    found = sums(client, queue=queue, group_by="model", name="accuracy")
    assert [(s["by"], s["count"], s["mean"]) for s in found] == [
        ({"model": "large"}, 2, 0.85), ({"model": "small"}, 1, 0.1)]
    assert (found[0]["min"], found[0]["max"]) == (0.8, 0.9)
    found = sums(client, queue=queue, group_by="queue,day", model="large")
    assert [s["name"] for s in found] == ["accuracy", "speed"]
    assert found[0]["by"]["queue"] == queue
    assert found[1]["mean"] == 8.5
    # usage knows nothing of them
    a = client.get(f"{API}/usage?queue={queue}&group_by=model").json
    assert a["totals"]["count"] == 3 and len(a["groups"]) == 2


def refused(client, path, body, member):
    a = client.post(f"{API}/{path}", body)
    assert (a.status, a.code) == (400, "VALIDATION_ERROR"), a
    assert a.json["error"].startswith(member), a


def test_what_cannot_be_is_refused_by_name(client, queue):
    job_id = done(client, queue)
    path = f"jobs/{job_id}/scores"
    refused(client, path, {"value": 1}, "name")
    refused(client, path, {"name": "", "value": 1}, "name")
    refused(client, path, {"name": "n" * 65, "value": 1}, "name")
    refused(client, path, {"name": "a"}, "value")
    refused(client, path, {"name": "a", "value": "1"}, "value")
    refused(client, path, {"name": "a", "value": 1000000.1}, "value")
    refused(client, path, {"name": "a", "value": -1e300}, "value")
    refused(client, path, {"name": "a", "value": 1, "iteration": -1},
            "iteration")
    refused(client, path, {"name": "a", "value": 1, "iteration": 1000001},
            "iteration")
    refused(client, path, {"name": "a", "value": 1, "by": "b" * 129}, "by")
    refused(client, path, {"name": "a", "value": 1, "comment": "c" * 1025},
            "comment")
    waits = client.enqueue(queue)
    refused(client, f"jobs/{waits}/scores", {"name": "a", "value": 1},
            "job_id")
    for method in "GET", "POST":
        a = client.request(method, f"{API}/jobs/job_none/scores",
                           {"name": "a", "value": 1}
                           if method == "POST" else None)
        assert (a.status, a.code) == (404, "NOT_FOUND"), a
    a = client.get(f"{API}/scores?group_by=color")
    assert a.status == 400 and a.json["error"].startswith("group_by"), a
    assert scores(client, job_id) == []


def test_scores_survive_a_kill(make_node, queue):
    node = make_node().start()
    with node.client() as c:
        job_id = done(c, queue)
        for i in range(20):
            if i % 7 == 3:
                os.kill(node.pids()["raftd"], signal.SIGKILL)
            score(c, job_id, f"n{i % 10}", i)
        before = scores(c, job_id), sums(c, queue=queue)
        assert [s["value"] for s in before[0]] == list(range(10, 20))
        assert sum(s["count"] for s in before[1]) == 10
    node.kill_all()
    node.start()
    with node.client() as c:
        assert (scores(c, job_id), sums(c, queue=queue)) == before


def test_the_view_has_them(node, client, queue):
    kept, gone = done(client, queue), done(client, queue)
    for job_id in kept, gone:
        score(client, job_id, "accuracy", 0.5, by="ann")
    score(client, kept, "accuracy", 0.25, by="ann", comment="again")
    score(client, kept, "tone", 2)
    assert client.request("DELETE", f"{API}/jobs/{gone}").status == 200
    client.search(queue=queue)  # with all that was written
    with contextlib.closing(sqlite3.connect(
            node.data / "view" / "corvo.db", timeout=30)) as db:
        rows = db.execute(
            "SELECT job_id, dimension, value, scorer, comment, iteration"
            " FROM job_scores WHERE job_id IN (?, ?) ORDER BY n",
            (kept, gone)).fetchall()
    assert rows == [(kept, "accuracy", 0.25, "ann", "again", None),
                    (kept, "tone", 2.0, None, None, None)]
    a = client.post(f"{API}/admin/verify-view")
    assert a.json["status"] == "ok", a


def corvo(node, *words):
    return subprocess.run(
        [CORVO, *words, "--server", f"http://127.0.0.1:{node.port}"],
        capture_output=True, text=True, check=False)


def test_command_line(node, client, queue):
    job_id = done(client, queue)
    p = corvo(node, "score", job_id, "accuracy", "0.75", "--by", "ann",
              "--comment", "nearly")
    assert p.returncode == 0, p
    p = corvo(node, "score", job_id, "tone", "-2", "--output", "json")
    assert json.loads(p.stdout)["value"] == -2
    assert "nearly" in corvo(node, "scores", job_id).stdout
    p = corvo(node, "scores", "--queue", queue, "--group-by", "model",
              "--name", "accuracy")
    assert p.returncode == 0, p
    assert "large" in p.stdout and "tone" not in p.stdout
    p = corvo(node, "score", job_id, "accuracy", "good")
    assert p.returncode == 2, p
    assert corvo(node, "score", "job_none", "a", "1").returncode == 1
