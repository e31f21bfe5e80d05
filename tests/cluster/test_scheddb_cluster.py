"""Scheduled-DB on three nodes: written at any of them, called by the one that
leads, and nothing lost when that one goes in the middle of an execution."""

import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from cluster import cluster, have_the_same  # noqa: E402
from node import wait_until  # noqa: E402
from scheddb import (calls_of, create, health, once, status,  # noqa: E402
                     wait_for)
from sink import sink  # noqa: E402


def test_a_leader_that_goes_in_the_middle_of_an_execution_loses_nothing():
    gate = threading.Event()

    def answer(call):
        if call.path == "/slow" and len(calls_of(s, "slow")) == 1:
            gate.wait(240)
        return 200, {}, b""

    with sink(answer) as s, cluster("--scheddb-inprogress-timeout=3s",
                                    "--leave-on-term=false") as three:
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
                later = [once(c, s.url("/later"), 8) for _ in range(10)]
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
        old.start()
        three.wait_whole()
        for n in three.nodes:
            with n.client() as c:
                assert status(c, "slow")["status"] == "completed"
        wait_until(lambda: have_the_same(three.nodes), 30, "a quiet moment")
