"""A follower with a damaged file heals itself: it takes a store from the
leader, while the others go on."""

import sys
import threading
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from cluster import ask_digest, cluster  # noqa: E402
from node import wait_until  # noqa: E402

BLOCK = 8 << 10  # of the store's files: records this large share none
MARK = "a record that will be damaged "


@pytest.fixture
def three():
    with cluster() as c:
        yield c


class Load:
    """Jobs that come and go at a node, until the end of the block."""

    def __init__(self, node):
        self.node = node
        self.done = 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        with self.node.client() as c:
            while not self.over.is_set():
                c.enqueue("load", payload="x" * 200)
                c.ack(c.fetch("load", timeout=5, worker_id="w"))
                self.done += 1

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


def damage(node):
    """A byte in the file with the marked record."""
    for file in (node.data / "rocks").glob("*.sst"):
        at = file.read_bytes().find(MARK.encode())
        if at >= 0:
            with file.open("r+b") as f:
                f.seek(at)
                f.write(b"\x00")
            return
    raise AssertionError("no file has the record")


def metric(node, name):
    with node.client() as c:
        return c.metrics().get(name)


def have_the_same(three):
    """All stores, once they have got equally far."""
    found = []

    def look():
        found[:] = [ask_digest(n) for n in three.nodes]
        return len({d["index"] for d in found}) == 1
    wait_until(look, 60, "all nodes to be equally far")
    assert len({d["digest"] for d in found}) == 1


def heals(three, load):
    """Damages a follower so that the next entries meet it, and waits."""
    leader = three.leader()
    odd = three.followers()[0]
    with leader.client() as c:
        c.enqueue("other", payload={"text": "first " * (2 * BLOCK // 6)})
        text = MARK * (2 * BLOCK // len(MARK))
        bad = c.enqueue("bad", payload={"text": text})
        c.enqueue("other", payload={"text": "behind " * (2 * BLOCK // 7)})
        last = c.metrics()["corvo_raft_applied_index"]
    wait_until(lambda: metric(odd, "corvo_raft_applied_index") >= last, 30,
               "the follower to have it")
    odd.stop()
    damage(odd)
    odd.start()
    three.wait_whole()
    with three.leader().client() as c:
        c.ack(c.fetch("bad", timeout=5, worker_id="w"))
        c.enqueue("after")
    if load is not None:
        before = load.done
        wait_until(lambda: load.done > before + 10, 60, "work to go on")
    wait_until(lambda: "the store cannot apply entry" in odd.log(), 60,
               "the damage to be met")
    wait_until(lambda: "healed: the leader's store" in odd.log(), 120,
               "it to heal")
    three.wait_whole()
    assert metric(odd, "corvo_store_healed") == 1
    assert metric(odd, "corvo_store_frozen") == 0
    return odd, bad


def test_a_damaged_follower_takes_the_leaders_store(three):
    """Where nothing else is written: nobody offers it anything."""
    odd, bad = heals(three, None)
    with three.leader().client() as c:
        c.enqueue("after")
    have_the_same(three)
    with odd.client() as c:
        assert c.job(bad)["state"] == "completed"
    log = odd.log()
    assert "the store of this node is damaged: fetching" in log
    assert "too far behind for the log" not in log


def test_it_does_so_while_jobs_come_and_go(three):
    with Load(three.leader()) as load:
        heals(three, load)
    have_the_same(three)
