"""Scheduled-DB on three nodes: written at any of them, called by the one that
leads, and nothing lost when that one goes in the middle of an execution."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from cluster import cluster, have_the_same  # noqa: E402
from node import wait_until  # noqa: E402
from scheddb import (calls_of, create, health, once, soon,  # noqa: E402
                     status, wait_for)
from sink import sink  # noqa: E402


@pytest.fixture(scope="module")
def three():
    with cluster("--scheddb-inprogress-timeout=2s", "--op-timeout=2s",
                 "--leave-on-term=false") as c:
        yield c


def test_a_leader_that_goes_in_the_middle_of_an_execution_loses_nothing(three):
    gate = threading.Event()

    def answer(call):
        if call.path == "/slow" and len(calls_of(s, "slow")) == 1:
            gate.wait(240)
        return 200, {}, b""

    with sink(answer) as s:
        old = three.leader()
        follower = three.followers()[0]
        try:
            with follower.client() as c:
                h = health(c)
                assert h["role"] == "follower"
                assert h["leader"] == f"127.0.0.1:{old.raft_port}"
                servers = c.get("/debug/cluster").json["servers"]
                assert {x["id"] for x in servers} == {"n1", "n2", "n3"}
                a = c.post("/join", {"node_id": "n9", "address": "a:1"})
                assert a.status == 403, a
                assert a.json["error"] == \
                    "not leader, cannot accept join requests"
                once(c, s.url("/slow"), id="slow")
                wait_for(c, "slow", "in_progress")
                node_id = status(c, "slow")["executing_node_id"]
                later = [once(c, s.url("/later"), 2) for _ in range(10)]
                create(c, id="cron", type="recurrente", webhook_url=s.url(),
                       cron_expression="* * * * * *")
            old.kill_all()
            new = three.leader()
            with new.client() as c:
                # the lost one counts as a timeout, and is made again
                state = wait_for(c, "slow", "completed", 60)
                first, last = state["attempts"]
                assert first["status"] == "timeout"
                assert first["node_id"] == node_id != last["node_id"]
                keys = {x.headers["idempotency-key"]
                        for x in calls_of(s, "slow")}
                assert keys == {"slow"} and len(calls_of(s, "slow")) == 2
                for job_id in later:
                    wait_for(c, job_id, "completed", 60)
                    assert calls_of(s, job_id)
                seen = len(calls_of(s, "cron"))
                wait_until(lambda: len(calls_of(s, "cron")) > seen, 60,
                           "the recurrente to go on")
                assert health(c)["jobs"]["count"] == 1  # the recurrente
                assert c.request("DELETE", "/jobs/cron").status == 204
                assert health(c)["jobs"]["count"] == 0
        finally:
            gate.set()


def refused(node, method, path, body=None):
    with node.client() as c:
        a = c.request(method, path, body)
    assert a.status == 503 and "Retry-After" in a.headers, a
    assert a.json["error"] == "No leader available", a
    assert a.json["code"] == "LEADER_UNAVAILABLE", a


def test_without_a_majority_there_is_no_leader_and_nothing_is_done(three):
    while len(three.alive()) > 2:  # the test before has killed one
        three.followers()[0].kill_all()
    (alone,) = three.followers()
    with alone.client() as c:
        once(c, after=3600, id="there")
    three.leader().kill_all()
    # what it sends to one that is gone may have been done
    with alone.client() as c:
        wait_until(lambda: not c.get("/debug/cluster").json["leader"],
                   what="it to notice")
    new = {"id": "new", "type": "unico", "timestamp": soon(3600)}
    with ThreadPoolExecutor() as pool:  # each waits for a leader first
        asked = [pool.submit(refused, alone, *r) for r in (
            ("POST", "/jobs", new), ("DELETE", "/jobs/there"),
            ("POST", "/jobs/there/cancel"))]
        for a in asked:
            a.result()
    with alone.client() as c:  # what it knows it shows
        assert status(c, "there")["status"] == "pending"
        h = c.get("/health")
        assert h.status == 200 and h.json["role"] == "follower", h
        assert "leader" not in h.json
    for n in three.nodes:
        if n is not alone:
            n.spawn()
    three.wait_whole()
    wait_until(lambda: have_the_same(three.nodes), 30, "a quiet moment")
    for n in three.nodes:
        with n.client() as c:
            # what was refused was not done, here or there
            assert c.get("/jobs/new").status == 404
            assert status(c, "there")["status"] == "pending"
