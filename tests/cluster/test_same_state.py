"""What all nodes of a cluster have in common: the state, by its digest, and the
settings."""

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from cluster import cluster, events, have_the_same  # noqa: E402
from node import API, wait_until  # noqa: E402


@pytest.fixture(scope="module")
def three():
    with cluster() as c:
        yield c


def work(three, name, rounds=20):
    for i in range(rounds):
        with three.nodes[i % 3].client() as c:
            c.enqueue(name, payload={"i": i}, unique_key=f"{name}-{i}")
            job = c.fetch(name, timeout=0, worker_id=f"w{i % 3}")
            if job is not None and i % 3:
                c.ack(job)
            elif job is not None:
                c.fail(job, error="no")


def test_nodes_that_come_are_told_of(three):
    joined = [d["node"] for d in events(three.nodes[0], "member_joined")]
    assert sorted(joined) == ["n1", "n2", "n3"]


def test_all_nodes_have_the_same_digest(three):
    work(three, "same")
    wait_until(lambda: have_the_same(three.nodes), 30, "a quiet moment")
    follower = three.followers()[0]
    follower.stop()
    work_at = [n for n in three.nodes if n is not follower]
    with work_at[0].client() as c:
        for i in range(30):
            c.enqueue("behind", payload="x" * i)
    follower.start()
    three.wait_whole()
    wait_until(lambda: have_the_same(three.nodes), 30, "a quiet moment")


def test_settings_are_changed_at_any_node_and_hold_at_all(three):
    for i, n in enumerate(three.nodes):
        with n.client() as c:
            a = c.request("PATCH", f"{API}/settings",
                          {"lease_duration": f"{50 + i}s"})
            assert a.status == 200, a
        for other in three.nodes:
            with other.client() as c:
                wait_until(
                    lambda: c.get(f"{API}/settings").json["lease_duration"]
                    == f"{50 + i}s", 10, "the change to arrive")
                c.enqueue("leased")
                job = c.fetch("leased")
                assert job["lease_duration"] == 50 + i
                c.ack(job)


def test_a_follower_that_cannot_write_its_log_leaves_no_hole_in_it():
    """It says so and writes no more; given its folder back it has it all."""
    with cluster("--raft-segment-size=64KiB",
                 "--apply-batch-bytes=32KiB") as own:
        node = own.followers()[0]
        log, away = node.data / "raft", node.data / "raft.away"
        log.rename(away)
        log.write_text("in the way")  # no segment can be made
        with own.leader().client() as c:

            def is_told():
                c.enqueue("q", payload="x" * 16000)
                return "cannot be written" in node.log()

            wait_until(is_told, 30, "the failure to be told")
        line = next(x for x in node.log().splitlines()
                    if "cannot be written" in x)
        assert str(log) in line and re.search("open-|log-", line), line
        node.kill_all()
        log.unlink()
        away.rename(log)
        node.start()
        own.wait_whole()
        wait_until(lambda: have_the_same(own.nodes), 30, "a quiet moment")
