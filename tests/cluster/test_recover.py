"""A cluster that has lost most of its nodes for good."""

import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from cluster import Cluster, cluster  # noqa: E402
from node import API, CORVO, Node, free_port, wait_until  # noqa: E402
from waiting import patience  # noqa: E402

JOBS = 40


def recover(node, *flags):
    return subprocess.run(
        [CORVO, "cluster", "recover", f"--data-dir={node.data}",
         f"--raft-bind=127.0.0.1:{node.raft_port}",
         *[f for f in node.flags if f.startswith("--node-id")], *flags],
        capture_output=True, text=True, check=False, timeout=patience(60))


def lose_two(c):
    """(the node that is left, its jobs); all of them are stopped."""
    c.start()
    with c.leader().client() as client:
        ids = [client.enqueue("kept") for _ in range(JOBS)]
    left = c.nodes[2]
    with left.client() as client:
        wait_until(lambda: client.get(f"{API}/jobs/{ids[-1]}").status == 200,
                   10, "its jobs")
    running = recover(left, "--yes")
    assert running.returncode == 2
    assert "is in use by process" in running.stderr, running
    for n in c.nodes:
        n.stop()
    return left, ids


def test_one_node_of_three_becomes_a_cluster_that_grows_again():
    c = Cluster(size=3)
    old = c.nodes[0]
    try:
        left, ids = lose_two(c)
        shutil.rmtree(c.nodes[1].data)
        asked = recover(left)
        assert asked.returncode == 2
        assert ("this makes node n3 a cluster of one" in asked.stderr
                and "add --yes; nothing was changed" in asked.stderr), asked

        done = recover(left, "--yes")
        assert done.returncode == 0, done
        assert "it is a cluster of one now" in done.stdout, done
        left.start()
        with left.client() as client:
            assert all(client.state(i) == "pending" for i in ids)
            client.enqueue("after")
        assert len(c.rows(left)) == 1

        # One of those that were lost turns up with what it has.
        old.spawn()
        words = "one of them has the address or the data directory of another"
        for n in (old, left):
            wait_until(lambda n=n: words in n.log(), 20, "the refusal")
        assert not old.is_ready()
        assert [r["id"] for r in c.rows(left)] == ["n3"]
        # which does not keep this one from starting again
        left.stop()
        left.start()
        wait_until(lambda: f"127.0.0.1:{old.raft_port} is in another cluster "
                   "than this node" in left.log(), 20, "the line")
        assert left.is_ready()
        old.kill_all()

        # With empty data directories both come back.
        shutil.rmtree(old.data)
        for n in c.nodes[:2]:
            n.flags = [f for f in n.flags if not f.startswith("--join")]
            n.flags.append(f"--join=127.0.0.1:{left.raft_port}")
            n.spawn()
        c.wait_whole()
        for n in c.nodes:
            with n.client() as client:
                wait_until(lambda: client.get(
                    f"{API}/jobs/{ids[-1]}").status == 200, 10, "its jobs")
                assert all(client.state(i) == "pending" for i in ids)
    except BaseException:
        c.clean_up(check=False)
        raise
    c.clean_up()


def test_a_node_that_waits_for_a_log_joins_the_cluster_there_is():
    """The one that took it in was recovered before it could send its log: it
    says where it is, and nobody is there."""
    c = Cluster(size=1)
    first = c.nodes[0]
    waits = Node("--node-id=n2", f"--join=127.0.0.1:{first.raft_port}",
                 f"--raft-advertise=127.0.0.1:{free_port()}")
    try:
        first.start()
        waits.spawn()
        wait_until(lambda: "waiting for the log" in waits.log(), 30, "it")
        first.stop()
        done = recover(first, "--yes")
        assert done.returncode == 0, done
        first.err.unlink()
        first.start()
        # It asks again after half a minute.
        wait_until(lambda: "is taken in" in first.log(), 60, "it to ask")
        # Its name is an entry of its own, which comes after that.
        wait_until(lambda: {r.get("id") for r in c.rows(first)} ==
                   {"n1", "n2"}, 20, "both names")
    finally:
        waits.clean_up(check=False)
        c.clean_up(check=False)


def test_a_member_without_its_log_is_not_made_a_second_cluster():
    """What its start says is what to do: nothing it says makes two leaders."""
    with cluster() as three:
        lost = three.followers()[0]
        name = next(f for f in lost.flags if f.startswith("--node-id="))
        with lost.client() as client:
            client.enqueue("kept")
        lost.stop()
        shutil.rmtree(lost.data / "raft")
        lost.err.unlink()
        status, words = lost.refuses()
        assert status == 2 and "start with an empty --data-dir" in words
        refused = subprocess.run(
            [CORVO, "recover", f"--data-dir={lost.data}", name],
            capture_output=True, text=True, check=False, timeout=patience(60))
        assert refused.returncode == 2, refused
        assert "is one of 3 nodes of a cluster" in refused.stderr, refused
        assert not (lost.data / "raft").exists() or not any(
            (lost.data / "raft").iterdir())
        shutil.rmtree(lost.data)
        lost.start()
        three.wait_whole()
        assert len(three.rows()) == 3


def test_there_must_be_something_to_recover(tmp_path):
    p = subprocess.run(
        [CORVO, "cluster", "recover", f"--data-dir={tmp_path}", "--yes"],
        capture_output=True, text=True, check=False, timeout=patience(60))
    assert p.returncode == 2
    assert "neither the store nor the log has anything" in p.stderr, p
