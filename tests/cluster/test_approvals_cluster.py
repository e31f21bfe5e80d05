"""Approvals on three nodes: policies, passes, links and deadlines are the same
on all of them, whoever leads."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from cluster import cluster, have_the_same  # noqa: E402
from node import API, wait_until  # noqa: E402

POLICIES = f"{API}/approval-policies"


def post(node, path, **members):
    with node.client() as c:
        a = c.post(path, members)
        assert a.status in (200, 201), a
        return a.json


def job_of(node, job_id):
    with node.client() as c:
        a = c.get(f"{API}/jobs/{job_id}?consistency=leader")
        assert a.status == 200, a
        return a.json


def test_approvals_over_a_change_of_leader():
    with cluster() as three:
        first = three.nodes[0]
        post(first, POLICIES, name="in", queue="asked", at=["enqueue"],
             deadline="3s", on_deadline="reject")
        with first.client() as c:
            late = c.enqueue("asked")
        post(three.nodes[1], POLICIES, name="in", queue="asked",
             at=["enqueue", "fetch"])
        with three.nodes[2].client() as c:
            linked, waits = c.enqueue("asked"), c.enqueue("asked")
        links = post(first, f"{API}/jobs/{linked}/approval-links", by="eve")
        post(first, f"{API}/jobs/{waits}/approve", by="ada")
        old = three.leader()
        old.kill_all()
        three.leader()
        rest = three.alive()
        # a link that another node made, and once only
        assert post(rest[0], links["approve"])["status"] == "pending"
        with rest[1].client() as c:
            a = c.post(links["reject"])
            assert (a.status, a.code) == (410, "LINK_OVER"), a
            # what was approved at its enqueue is looked at again at a fetch
            assert c.fetch("asked") is None
            assert job_of(rest[0], waits)["held"]["at"] == "fetch"
        post(rest[0], f"{API}/jobs/{waits}/approve", by="bob")
        with rest[1].client() as c:
            assert c.fetch("asked", timeout=30)["job_id"] == waits
        wait_until(lambda: job_of(rest[0], late)["state"] == "dead", 20,
                   "the deadline")
        old.start()
        three.wait_whole()
        for n in three.nodes:
            assert job_of(n, late)["decision"]["via"] == "deadline"
            assert job_of(n, linked)["decision"]["by"] == "eve"
            assert job_of(n, waits)["decision"]["by"] == "bob"
            with n.client() as c:
                assert [p["name"] for p in c.get(POLICIES).json] == ["in"]
                assert c.get(links["approve"]).code == "LINK_OVER"
        wait_until(lambda: have_the_same(three.nodes), 30, "a quiet moment")
