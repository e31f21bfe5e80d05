"""raftd is killed while fetches wait and workers hold jobs.

Every waiting fetch is sent again to the new raftd, which has to read the active
jobs first. bench/resend.py says how long that takes with many of both.
"""

import os
import signal

import pytest

from node import API, Node, wait_until

PARKED = 150
HELD = 2000
TAKE = 500  # jobs of one fetch
KILLS = 2


@pytest.fixture
def node():
    n = Node("--log-level=info")
    n.start()
    yield n
    n.clean_up()


def enqueue_many(c, queue, count):
    jobs = [{"queue": queue, "payload": {"n": i}} for i in range(count)]
    a = c.post(f"{API}/enqueue/batch", {"jobs": jobs})
    assert a.status == 201, a
    return set(a.json["job_ids"])


def take_all(c, queue, count):
    """A worker holds them for an hour: {job id: token}."""
    held = {}
    while len(held) < count:
        a = c.post(f"{API}/fetch/batch",
                   {"queues": [queue], "count": TAKE, "timeout": 0,
                    "worker_id": "holder", "lease_duration": 3600})
        assert a.status == 200 and a.json["jobs"], a
        held.update((j["job_id"], j["lease_token"]) for j in a.json["jobs"])
    return held


def park(node, stack):
    body = {"queues": ["parked"], "worker_id": "w", "timeout": 60}
    clients = [node.client(timeout=120) for _ in range(PARKED)]
    stack.extend(clients)
    for c in clients:
        c.send("POST", f"{API}/fetch", body)
    return clients


def all_parked(node):
    with node.client() as c:
        wait_until(lambda: c.metrics()["corvo_parked_fetches"] == PARKED, 60,
                   "the fetches to be parked", every=0.05)


def kill_raftd(node, c):
    """An enqueue that is sent at once waits for the new one."""
    old = node.pids()["raftd"]
    os.kill(old, signal.SIGKILL)
    c.enqueue("probe")
    wait_until(lambda: node.ps("raftd")["pid"] not in (0, old), 60,
               "another raftd")


@pytest.fixture
def clients():
    stack = []
    yield stack
    for c in stack:
        c.close()


def test_waiting_fetches_outlive_raftd_and_share_the_jobs(node, clients):
    with node.client(timeout=60) as c:
        enqueue_many(c, "held", HELD)
        held = take_all(c, "held", HELD)
        waiting = park(node, clients)
        all_parked(node)
        for _ in range(KILLS):
            kill_raftd(node, c)
            all_parked(node)
        jobs = enqueue_many(c, "parked", PARKED)
        answers = [w.receive() for w in waiting]
        assert [a.status for a in answers] == [200] * PARKED
        assert {a.json["job_id"] for a in answers} == jobs
        for a in answers:
            c.ack(a.json)
        # the others still have theirs
        for job, token in list(held.items())[::100]:
            c.ack({"job_id": job, "lease_token": token})
    assert node.ps("raftd")["restarts"] == KILLS, node.log()
    assert "no sign of life" not in node.log()


def test_fetch_whose_answer_may_be_lost_holds_its_job_alone(node, clients):
    """Jobs come while raftd dies: each is handed to one worker, whose token
    counts, however often its fetch was sent."""
    with node.client(timeout=60) as c:
        waiting = park(node, clients)
        all_parked(node)
        jobs = set()
        for i in range(PARKED):
            if i % 50 == 25:
                os.kill(node.pids()["raftd"], signal.SIGKILL)
            jobs.add(c.enqueue("parked"))
        answers = [w.receive() for w in waiting]
        assert [a.status for a in answers] == [200] * PARKED
        assert {a.json["job_id"] for a in answers} == jobs
        for a in answers:
            c.ack(a.json)
        assert c.fetch("parked") is None
    assert "no sign of life" not in node.log()
