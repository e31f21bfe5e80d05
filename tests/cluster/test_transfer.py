"""Leadership that is handed over by a node that does not lead."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from cluster import cluster, term_of  # noqa: E402
from node import API, wait_until  # noqa: E402

TRANSFERS = 24


def test_a_transfer_through_a_follower_is_one_election():
    """Nobody is named, so each node that leads next could do it again."""
    with cluster("--election-timeout=3s") as three:
        begun = term_of(three.leader())
        for n in range(1, TRANSFERS + 1):
            leader = three.leader()
            with three.followers()[n % 2].client() as c:
                a = c.post(f"{API}/cluster/transfer", {})
            assert a.status == 200, a
            assert a.json["status"] == "transferred"
            wait_until(lambda old=leader: not three.leads(old)
                       and three.leader() is not None, 30, "another leader")
            for node in three.nodes:
                wait_until(lambda node=node: term_of(node) >= begun + n, 30,
                           "the election to be known")
            assert term_of(three.leader()) == begun + n
