"""Agents' loops on three nodes: an iteration at any of them, whoever leads."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from cluster import cluster, have_the_same  # noqa: E402
from node import API, wait_until  # noqa: E402


def iterate(node, at):
    with node.client() as c:
        job = c.fetch("loops", timeout=30)
        assert job["agent"]["iteration"] == at
        assert job.get("checkpoint") == ({"at": at - 1} if at > 1 else None)
        c.ack(job, agent_status="continue", checkpoint={"at": at},
              usage={"cost_usd": 0.25})


def iterations(node, job_id):
    with node.client() as c:
        a = c.get(f"{API}/jobs/{job_id}/iterations?consistency=leader")
        assert a.status == 200, a
        return a.json["iterations"]


def test_a_loop_over_a_change_of_leader():
    with cluster() as three:
        with three.nodes[0].client() as c:
            job_id = c.enqueue("loops", agent={"max_iterations": 6})
        for at in (1, 2, 3):
            iterate(three.nodes[at % 3], at)
        old = three.leader()
        old.kill_all()
        three.leader()
        rest = three.alive()
        for at in (4, 5, 6):
            iterate(rest[at % 2], at)
        with rest[0].client() as c:
            job = c.job(job_id)
            assert job["hold_reason"] == "max_iterations exceeded (6)"
            assert job["agent"]["total_cost_usd"] == 1.5
            a = c.post(f"{API}/jobs/{job_id}/approve", {"max_iterations": 9})
            assert a.status == 200, a
        iterate(rest[1], 7)
        with rest[0].client() as c:
            a = c.post(f"{API}/jobs/{job_id}/replay", {"from": 2})
            assert a.status == 201, a
        old.start()
        three.wait_whole()
        rows = iterations(old, job_id)
        assert [r["checkpoint"]["at"] for r in rows] == list(range(1, 8))
        for n in three.nodes:
            assert iterations(n, job_id) == rows
        wait_until(lambda: have_the_same(three.nodes), 30, "a quiet moment")
