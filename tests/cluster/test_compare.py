"""Nodes compare their stores by themselves: one that differs is told of, and
none that does not, whatever happens to it."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from cluster import cluster, events  # noqa: E402
from node import BUILD, CORVO, wait_until  # noqa: E402

PLANT = BUILD / "tests" / "cluster" / "plant_key"


@pytest.fixture
def three():
    with cluster("--compare-interval=1s", "--snapshot-bytes=256KiB") as c:
        yield c


def digests(node):
    with node.client() as c:
        return c.metrics()["corvo_cluster_digests_total"]


def differing(three, at):
    """Names of nodes whose stores differ, as a node tells in three ways; None:
    it came to know between them."""
    names = {r["id"] for r in three.rows(at) if r.get("differs", 0) > 0}
    with at.client() as c:
        told = {k.split('"')[1] for k, v in c.metrics().items()
                if k.startswith("corvo_cluster_node_differs{") and v == 1}
    return names if names == told else None


def compared(three, times=2):
    """All nodes have made so many more digests, and each was looked at."""
    before = {n: digests(n) for n in three.nodes}
    wait_until(lambda: all(digests(n) >= before[n] + times
                           for n in three.nodes), 60, "digests of all nodes")


class Load:
    """Jobs that come and go at a node, until the end of the block."""

    def __init__(self, node):
        self.node = node
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.over.is_set():
            try:
                with self.node.client() as c:
                    while not self.over.is_set():
                        c.enqueue("load", payload="x" * 2000)
                        job = c.fetch("load", timeout=0, worker_id="w")
                        if job is not None:
                            c.ack(job)
            except (OSError, AssertionError):
                continue  # its node is stopped, or nobody leads

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


def test_nodes_that_are_equal_are_never_said_to_differ(three):
    with Load(three.nodes[0]):
        compared(three, 3)
        follower = three.nodes[2]
        follower.stop()
        wait_until(lambda: three.leader() and digests(three.leader()) >= 0,
                   30, "a leader")
        follower.start()
        three.wait_whole()
        compared(three)
        three.leader().kill_all()
        for n in three.nodes:
            if not n.is_running():
                n.start()
        three.wait_whole()
        compared(three)
    for n in three.nodes:
        assert differing(three, n) == set()
    assert events(three.nodes[0], "store_differs") == []


def test_a_store_that_differs_is_found_and_told(three):
    compared(three)
    odd = three.followers()[0]
    name = f"n{three.nodes.index(odd) + 1}"
    odd.stop()
    subprocess.run([PLANT, odd.data / "rocks"], check=True)
    odd.start()
    three.wait_whole()
    for n in three.nodes:
        wait_until(lambda: differing(three, n) == {name}, 60, "it to be found")
    told = events(three.leader(), "store_differs")
    assert [d["node"] for d in told] == [name]
    assert told[0]["index"] > 0
    compared(three)
    assert len(events(three.leader(), "store_differs")) == 1  # told once
    shown = subprocess.run(
        [CORVO, "status", f"--server=http://127.0.0.1:{three.nodes[0].port}"],
        capture_output=True, text=True, check=True).stdout
    assert f"Node {name}: its store is not what the others have" in shown
