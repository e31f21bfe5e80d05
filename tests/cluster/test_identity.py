"""The file `node` of a data directory, without which a node does not know
which one it is; and a log, without which it does not know what it said."""

import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from cluster import cluster  # noqa: E402
from node import wait_until  # noqa: E402


def test_a_joined_node_without_its_number_does_not_start():
    with cluster() as three:
        joined = three.nodes[1]
        with three.nodes[0].client() as c:
            job_id = c.enqueue("kept")
        joined.stop()
        number = (joined.data / "node").read_text()
        (joined.data / "node").unlink()
        joined.err.unlink()
        status, words = joined.refuses()
        assert (status, words.count("cannot start")) == (2, 1), words
        assert ("node is missing: it holds the number by which the cluster "
                "knows this node, and the log does not know it by the name n2"
                in words)
        assert not (joined.data / "node").exists()
        assert {r["id"] for r in three.rows()} == {"n1", "n2", "n3"}
        (joined.data / "node").write_text(number)
        joined.start()
        three.wait_whole()
        with joined.client() as c:
            assert c.fetch("kept", timeout=10)["job_id"] == job_id


def test_the_node_that_began_the_cluster_finds_its_number_again():
    with cluster() as three:
        first = three.nodes[0]
        first.stop()
        number = (first.data / "node").read_text()
        (first.data / "node").unlink()
        first.start()
        three.wait_whole()
        assert (first.data / "node").read_text() == number


def test_a_voter_that_lost_its_log_votes_no_more():
    """Others count on entries that it has confirmed and forgotten, so it is
    not taken for what it was."""
    with cluster() as three:
        lost = next(n for n in three.followers() if n is not three.nodes[0])
        name = next(f for f in lost.flags if f.startswith("--node-id="))[10:]
        lost.stop()
        number = (lost.data / "node").read_text()
        for folder in ("raft", "rocks", "checkpoints", "view"):
            shutil.rmtree(lost.data / folder, ignore_errors=True)
        lost.err.unlink()
        lost.spawn()
        wait_until(lambda: lost.is_ready() or "has lost its log" in lost.log(),
                   60, "the refusal")
        assert not lost.is_ready()
        assert "also without the file node" in lost.log()
        # It knows nobody, and nobody has heard of it.
        assert not three.rows(lost)

        def is_missed():
            return any(r.get("id") == name and not r["alive"]
                       for r in three.rows(three.leader()))
        wait_until(is_missed, 30, "it to be missed")
        with three.leader().client() as c:
            job_id = c.enqueue("kept")
        lost.stop()
        shutil.rmtree(lost.data)
        lost.start()
        three.wait_whole()
        assert (lost.data / "node").read_text() != number
        with lost.client() as c:
            wait_until(lambda: c.get(f"/api/v1/jobs/{job_id}").status == 200,
                       20, "the job")
