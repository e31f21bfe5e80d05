"""Calls of the server itself on three nodes: webhooks go on where they were,
and push queues are called by all nodes that are told to, whoever leads."""

import json
import sys
import threading
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from cluster import cluster, have_the_same  # noqa: E402
from node import API, wait_until  # noqa: E402
from sink import sink  # noqa: E402

JOBS = 300


@pytest.fixture(scope="module")
def three():
    with cluster("--push-nodes=all", "--lease-duration=5s") as c:
        yield c


def ask(node, path):
    with node.client() as c:
        a = c.get(f"{API}/{path}")
        assert a.status == 200, a
        return a.json


def enqueue(node, queue, n):
    with node.client() as c:
        a = c.post(f"{API}/enqueue/batch", {"jobs": [{"queue": queue}] * n})
        assert a.status == 201, a
        return a.json["job_ids"]


def test_nothing_is_lost_when_the_leader_is_killed(three):
    with sink() as s:
        old = three.leader()
        with old.client() as c:
            a = c.post(f"{API}/webhooks", {
                "id": "w", "url": s.url(), "events": ["enqueued"],
                "queues": ["told"], "retry_delay": "10ms"})
            assert a.status == 200, a
        ids = enqueue(old, "told", JOBS)
        wait_until(lambda: s.calls, what="the first call")
        old.kill_all()
        new = three.leader()
        ids += enqueue(new, "told", JOBS)
        wait_until(lambda: ask(new, "webhooks/w")["delivered"] == 2 * JOBS, 30,
                   "all of them to be recorded")
        seen = [json.loads(c.body)["event"]["job_id"] for c in s.calls]
        assert set(seen) == set(ids)
        # what was under way, or not reported yet, may come twice
        assert len(seen) - len(ids) <= 128
        by_id = {}
        for c in s.calls:
            by_id.setdefault(c.headers["webhook-id"], set()).add(
                json.loads(c.body)["event"]["job_id"])
        assert all(len(jobs) == 1 for jobs in by_id.values())
        old.start()
        three.wait_whole()
        # every node has its place and its log
        wait_until(lambda: {ask(n, "webhooks/w")["delivered"]
                            for n in three.nodes} == {2 * JOBS},
                   what="the same on all")
        wait_until(lambda: have_the_same(three.nodes), 30, "a quiet moment")
        with new.client() as c:
            assert c.request("DELETE", f"{API}/webhooks/w").status == 200


def test_a_call_under_way_is_made_again_when_its_node_is_killed(three):
    go = threading.Event()

    def answer(call):
        go.wait(120)
        return 200, {}, b""

    with sink(answer) as s:
        old = three.leader()
        with old.client() as c:
            a = c.request("PATCH", f"{API}/queues/mid", {
                "push": {"url": s.url(), "concurrency": 1}})
            assert a.status == 200, a
        ids = enqueue(old, "mid", 6)
        # each node has one of them in its hands
        wait_until(lambda: len(s.calls) >= 3, what="a call of each node")
        old.kill_all()
        new = three.leader()
        go.set()
        wait_until(lambda: ask(new, "queues/mid")["completed"] == 6, 60,
                   "all of them")
        seen = [c.job_id for c in s.calls]
        assert set(seen) == set(ids)
        assert len(seen) <= 6 + 2 * 3
        old.start()
        three.wait_whole()


def test_a_change_holds_at_once_whichever_node_calls(three):
    with sink() as s:
        jobs = []
        for n in range(1, 31):
            node = three.nodes[n % 3]
            with node.client() as c:
                a = c.request("PATCH", f"{API}/queues/changed", {
                    "push": {"url": s.url(f"/{n}")}})
                assert a.status == 200, a
                jobs.append(c.enqueue("changed"))
        wait_until(lambda: ask(three.nodes[0], "queues/changed")[
            "completed"] == 30, what="all of them")
        paths = {c.job_id: int(c.path[1:]) for c in s.calls}
        for n, job_id in enumerate(jobs, 1):
            assert paths[job_id] >= n, (paths[job_id], n)
