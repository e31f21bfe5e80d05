"""What jobs have used, and what they may, on three nodes: every node counts
the same, whoever leads."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from cluster import cluster, have_the_same  # noqa: E402
from node import API, wait_until  # noqa: E402


@pytest.fixture(scope="module")
def three():
    with cluster() as c:
        yield c


def done(client, queue, cost):
    client.enqueue(queue)
    job = client.fetch(queue, timeout=30)
    client.ack(job, usage={"cost_usd": cost, "input_tokens": 10,
                           "model": "large", "provider": "acme"})


def totals(node, queue):
    with node.client() as c:
        a = c.get(f"{API}/usage?queue={queue}&consistency=leader")
        assert a.status == 200, a
        return a.json["totals"]


def test_every_node_counts_the_same_over_a_change_of_leader(three):
    for i in range(9):
        with three.nodes[i % 3].client() as c:
            done(c, "counted", 0.1)
    old = three.leader()
    old.kill_all()
    rest = three.alive()
    three.leader()
    for i in range(6):
        with rest[i % 2].client() as c:
            done(c, "counted", 0.1)
    old.start()
    three.wait_whole()
    for n in three.nodes:
        used = totals(n, "counted")
        assert (used["count"], used["input_tokens"]) == (15, 150)
        assert used["cost_usd"] == 1.5
    wait_until(lambda: have_the_same(three.nodes), 30, "a quiet moment")


def test_a_budget_holds_over_a_change_of_leader(three):
    a = three.nodes[0]
    with a.client() as c:
        assert c.post(f"{API}/budgets", {
            "scope": "queue", "target": "limited", "daily_usd": 3,
            "on_exceed": "reject"}).status == 200
        done(c, "limited", 1)
        c.enqueue("limited", expected_cost=2)
        held = c.fetch("limited")
    three.leader().kill_all()
    with three.alive()[0].client() as c:
        three.leader()
        c.enqueue("limited")
        refused = c.fetch_raw("limited")
        assert (refused.status, refused.code) == (429, "BUDGET_EXCEEDED")
        c.ack(held, usage={"cost_usd": 1.5})
        assert c.fetch("limited") is not None
    for n in three.nodes:
        if n not in three.alive():
            n.start()
    three.wait_whole()
    wait_until(lambda: have_the_same(three.nodes), 30, "a quiet moment")


def test_scores_are_those_of_every_node(three):
    with three.nodes[0].client() as c:
        done(c, "judged", 0.1)
        job_id = c.search(queue="judged")["jobs"][0]["id"]
    for i in range(6):
        if i == 3:
            with three.leader().client() as c:
                a = c.post(f"{API}/cluster/transfer", {})
                assert a.status == 200, a
        with three.nodes[i % 3].client() as c:
            a = c.post(f"{API}/jobs/{job_id}/scores",
                       {"name": "accuracy", "value": i, "by": f"n{i % 2}"})
            assert a.status == 200, a
    for n in three.nodes:
        with n.client() as c:
            a = c.get(f"{API}/jobs/{job_id}/scores?consistency=leader")
            assert [s["value"] for s in a.json["scores"]] == [4, 5]
            a = c.get(f"{API}/scores?queue=judged&consistency=leader")
            assert [(s["count"], s["mean"]) for s in a.json["scores"]] == [
                (2, 4.5)]


def test_a_schema_and_providers_over_a_change_of_leader(three):
    with three.nodes[0].client() as c:
        a = c.request("PATCH", f"{API}/queues/strict", {
            "result_schema": {"type": "object", "required": ["label"]}})
        assert a.status == 200, a
        c.enqueue("strict", max_retries=2, retry_base_delay="1ms")
        job = c.fetch("strict", timeout=30)
        bad = {"lease_token": job["lease_token"], "result": {},
               "provider": "strict.acme", "latency": "2s"}
        first = c.post(f"{API}/ack/{job['job_id']}", bad)
        assert first.json["error"] == "result.label: is missing", first
    three.leader().kill_all()
    three.leader()
    with three.alive()[1].client() as c:
        # the same request again, and an attempt under the new leader
        assert c.post(f"{API}/ack/{job['job_id']}", bad).json == first.json
        job = c.fetch("strict", timeout=30)
        c.ack(job, result={"label": "ham"}, provider="strict.acme",
              latency="4s")
    for n in three.nodes:
        if n not in three.alive():
            n.start()
    three.wait_whole()
    for n in three.nodes:
        with n.client() as c:
            found = c.get(f"{API}/providers?consistency=leader").json
            acme, = [p for p in found["providers"]
                     if p["name"] == "strict.acme"]
            assert (acme["succeeded"], acme["latency_ms"]) == (2, 3000)
    wait_until(lambda: have_the_same(three.nodes), 30, "a quiet moment")
