"""The file `node` of a data directory, without which a node does not know
which one it is."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from cluster import cluster  # noqa: E402


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
        assert status != 0
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
