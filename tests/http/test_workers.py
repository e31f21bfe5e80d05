"""Workers in GET /api/v1/workers: active, idle and lost."""

import json
import os
import signal

import pytest

from node import API, wait_until

NODE_FLAGS = ["--worker-lost-after=1s"]
MEMBERS = {"id", "hostname", "queues", "last_heartbeat", "started_at", "state",
           "jobs", "jobs_held"}


def worker(client, name):
    a = client.get(f"{API}/workers")
    assert a.status == 200, a
    rows = [w for w in a.json if w["id"] == name]
    assert len(rows) <= 1, rows
    return rows[0] if rows else None


def state(client, name):
    w = worker(client, name)
    return w and w["state"]


@pytest.fixture
def poll(node):
    """Sends a fetch that waits, on a connection of its own."""
    made = []

    def go(name, *queues, timeout=60):
        c = node.client(timeout=90)
        made.append(c)
        c.send("POST", f"{API}/fetch", {
            "queues": list(queues), "timeout": timeout, "worker_id": name,
            "hostname": "h"})
        return c

    yield go
    for c in made:
        c.close()


def test_one_that_only_waits_is_idle_with_its_queues(client, queue, poll):
    poll(queue, "b", "a")
    wait_until(lambda: worker(client, queue), 10, "the worker")
    w = worker(client, queue)
    assert set(w) == MEMBERS
    assert (w["state"], w["hostname"]) == ("idle", "h")
    assert json.loads(w["queues"]) == ["b", "a"]
    assert (w["jobs"], w["jobs_held"]) == ([], 0)
    assert w["started_at"] <= w["last_heartbeat"]


def test_the_queues_are_those_it_last_asked_for(client, queue):
    for names in (["a"], ["a", "b"], ["c"]):
        assert client.fetch(*names, worker_id=queue, timeout=0) is None
        assert json.loads(worker(client, queue)["queues"]) == names


def test_one_that_took_jobs_is_active_with_them(client, queue):
    ids = {client.enqueue(queue) for _ in range(40)}
    jobs = [client.fetch(queue, worker_id=queue) for _ in range(40)]
    w = worker(client, queue)
    assert (w["state"], w["jobs_held"]) == ("active", 40)
    assert len(w["jobs"]) == 32 and set(w["jobs"]) < ids
    for job in jobs[1:]:
        client.ack(job)
    assert worker(client, queue)["jobs"] == [jobs[0]["job_id"]]
    client.ack(jobs[0])
    w = worker(client, queue)
    assert (w["state"] != "active", w["jobs"]) == (True, [])


def test_who_goes_away_is_lost_and_who_waits_is_not(node, client, queue, poll):
    waits, leaves = f"{queue}.waits", f"{queue}.leaves"
    poll(waits, queue)
    poll(leaves, queue).close()
    assert client.fetch(queue, worker_id=leaves, timeout=0) is None
    wait_until(lambda: state(client, waits), 10, "the one that waits")
    before = worker(client, waits)["last_heartbeat"]
    wait_until(lambda: state(client, leaves) == "lost", 20, "a lost worker")
    w = worker(client, waits)
    assert w["state"] == "idle" and w["last_heartbeat"] > before
    assert worker(client, leaves)["last_heartbeat"] < w["last_heartbeat"]
    with node.leader().client() as c:  # which is asked for jobs
        assert c.metrics()['corvo_workers{state="lost"}'] >= 1
        assert c.metrics()['corvo_workers{state="idle"}'] >= 1


def test_a_heartbeat_is_a_sign_of_life(client, queue):
    client.enqueue(queue)
    job = client.fetch(queue, worker_id=queue)
    before = worker(client, queue)["last_heartbeat"]
    a = client.post(f"{API}/heartbeat", {"worker_id": queue,
                                         "jobs": {job["job_id"]: {}}})
    assert a.status == 200, a
    after = worker(client, queue)["last_heartbeat"]
    assert after > before
    client.post(f"{API}/heartbeat", {"worker_id": queue, "jobs": {}})
    assert worker(client, queue)["last_heartbeat"] > after


def test_one_that_waits_shows_again_after_a_crash(make_node):
    node = make_node("--worker-lost-after=60s").start()
    with node.client(timeout=90) as waits, node.client() as c:
        waits.send("POST", f"{API}/fetch", {
            "queues": ["q"], "timeout": 60, "worker_id": "w"})
        wait_until(lambda: state(c, "w") == "idle", 20, "the worker")
        old = node.pids()["raftd"]
        os.kill(old, signal.SIGKILL)
        wait_until(lambda: node.pids().get("raftd", old) != old, 20,
                   "another raftd")

        def shows():
            a = c.get(f"{API}/workers")
            return a.status == 200 and [
                (w["id"], w["state"], w["queues"]) for w in a.json] == [
                ("w", "idle", '["q"]')]
        wait_until(shows, 30, "the worker, again")
