"""Leadership that is handed over by a node that does not lead."""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from cluster import cluster, term_of, under_one_leader  # noqa: E402
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


def test_who_leads_already_is_told_so():
    with cluster("--election-timeout=3s") as three:
        def ask(leader, wait):
            name = f"n{three.nodes.index(leader) + 1}"
            for node in three.nodes:
                with node.client() as c:
                    a = c.post(f"{API}/cluster/transfer", {"node_id": name})
                assert (a.status, a.json["status"]) == (
                    200, "leads already"), a
        under_one_leader(three, ask)


def test_a_new_leader_calls_nobody_dead_before_it_could_hear_of_him():
    with cluster("--election-timeout=3s") as three:
        for _ in range(6):
            old = three.leader()
            began = time.monotonic()
            with old.client() as c:
                assert c.post(f"{API}/cluster/transfer", {}).status == 200
            new = three.leader()
            heard = False
            while not heard:
                rows = three.rows(new)
                heard = all("last_contact_ms" in r for r in rows)
                if time.monotonic() - began < 2:  # of three seconds it has
                    assert all(r["alive"] for r in rows), rows


def test_one_that_is_down_is_not_to_lead():
    """It may have as much of the log as the others."""
    with cluster("--election-timeout=3s") as three:
        dead = three.followers()[0]
        dead.kill_all()
        leader = three.leader()
        name = f"n{three.nodes.index(dead) + 1}"
        wait_until(lambda: not all(r["alive"] for r in three.rows(leader)), 20,
                   "it to be missed")
        with leader.client() as c:
            a = c.post(f"{API}/cluster/transfer", {"node_id": name})
            assert (a.status == 408 and
                    "nothing was changed" in a.json["error"]), a
            a = c.post(f"{API}/cluster/transfer", {})
            assert (a.status, a.json["status"]) == (200, "transferred"), a
        wait_until(lambda: not three.leads(leader), 20, "the other to lead")
