"""A node that has applied what its cluster has not: two disks of three went
back in time, and what their nodes had confirmed is gone from both."""

import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from cluster import cluster, term_of  # noqa: E402
from node import API, wait_until  # noqa: E402

NO_RETRY = 2  # common/rt/notify.h
VIOLATED = "consensus was violated"


def kept(node):
    return node.dir / "earlier"


def hand_over(three, nodes, beyond):
    """One after the other leads, until a term is higher than that. In an equal
    one two entries could not be told apart."""
    while term_of(leader := three.leader()) <= beyond:
        to = next(n for n in nodes if n is not leader)
        name = f"n{three.nodes.index(to) + 1}"
        with leader.client() as c:
            c.post(f"{API}/cluster/transfer", {"node_id": name})


def test_a_node_that_has_applied_something_else_ends_for_good():
    with cluster() as three:
        whole, *forgetful = three.nodes
        with whole.client() as c:
            c.enqueue("first")
        for n in three.nodes:
            n.stop()
        for n in forgetful:
            shutil.copytree(n.data, kept(n))

        for n in three.nodes:
            n.spawn()
        three.wait_whole()
        with whole.client() as c:
            for _ in range(10):
                c.enqueue("gone")
        term = max(term_of(n) for n in three.nodes)
        for n in three.nodes:
            n.stop()
        for n in forgetful:
            shutil.rmtree(n.data)
            kept(n).rename(n.data)

        for n in forgetful:
            n.spawn()
        wait_until(lambda: all(n.is_ready() for n in forgetful), 60,
                   "the two to go on without it")
        hand_over(three, forgetful, term + 1)  # a stop may begin one more
        with forgetful[0].client() as c:
            for _ in range(20):
                c.enqueue("second")

        whole.err.unlink()
        whole.spawn()
        wait_until(lambda: not whole.is_running(), 60, "it to end")
        assert whole.process.returncode == NO_RETRY
        said = whole.log()
        assert said.count(f"{VIOLATED}, and what this node has is not what "
                          "the cluster has") >= 1, said
        assert "start it with an empty --data-dir" in said
        # nobody is sent to look at a disk, and it was not tried again
        assert "could not be written" not in said
        assert said.count("not to be started again with this data") == 1

        whole.err.unlink()
        status, words = whole.refuses()
        assert status == NO_RETRY
        assert VIOLATED in words
        whole.err.unlink()
