"""Two builds of this tree in one cluster, the later one with one feature level
and one operation more: nodes of both serve together, what not all know is
refused, and whoever does not know what the others do stops."""

import os
import random
from pathlib import Path

from clients import Load
from cluster import Cluster, cluster, events, have_the_same
from node import API, patience, wait_until
from test_failover import check, progress

LATER = Path(os.environ["CORVO_LATER_DIR"]) / "cli" / "corvo"
NOTE = f"{API}/debug/note"
SEED = int(os.environ.get("CORVO_TEST_SEED") or random.randrange(1 << 32))
NEEDS = ("this needs feature level 3; node {} runs a version that knows only "
         "2: upgrade it first")


def restart_as(three, node, program):
    node.stop()
    node.corvo = program
    node.start()
    three.wait_whole()


def note(node):
    with node.client() as c:
        return c.post(NOTE, {"note": "x"})


def test_a_rolling_upgrade_under_load_fails_no_request(tmp_path):
    print(f"CORVO_TEST_SEED={SEED}")
    three = Cluster()
    load = None
    try:
        three.start()
        load = Load(three.nodes, tmp_path, SEED, answer_s=patience(10)).start()
        for n in three.nodes:
            progress(load)
            n.stop()
            n.corvo = LATER
            progress(load)
            n.start()
            three.wait_whole()
        check(load, three, tmp_path)
        wait_until(lambda: note(three.nodes[0]).status == 200, 30,
                   "the level to rise")
        wait_until(lambda: have_the_same(three.nodes), 30, "a quiet moment")
        three.clean_up()
    finally:
        if load is not None:
            load.watch.produced.set()
            load.watch.stop.set()
        three.clean_up(check=False)


def test_a_later_operation_waits_until_all_nodes_know_it():
    with cluster() as three:
        a, b, c = three.nodes
        before = a.corvo
        for n in (a, b):
            restart_as(three, n, LATER)
        for n in (a, b):  # what a node knows is told with its other news
            wait_until(lambda: note(n).json["error"] == NEEDS.format("n3"),
                       30, "the sentence")
            refused = note(n)
            assert (refused.status, refused.code) == (501, "UNSUPPORTED")
        assert events(c, "level_raised") == [{"level": 2}]
        with c.client() as old:  # which goes on meanwhile
            job = old.enqueue("meanwhile")
            assert old.fetch("meanwhile", timeout=10)["job_id"] == job
        restart_as(three, c, LATER)
        wait_until(lambda: events(a, "level_raised")[1:] == [{"level": 3}], 30,
                   "the level to rise")
        for n in three.nodes:  # each may hear of it a little later
            wait_until(lambda: note(n).status == 200, 10, "the level")
        wait_until(lambda: have_the_same(three.nodes), 30, "a quiet moment")
        c.stop()
        c.corvo = before
        c.err.unlink()
        status, words = c.refuses()
        assert status != 0 and "uses feature level 3 and this version" in words
        c.corvo = LATER
        c.start()
        three.wait_whole()


def test_an_older_node_that_joins_stops_instead_of_diverging():
    """It meets in the log what it does not know."""
    three = Cluster()
    try:
        for n in three.nodes:
            n.corvo = LATER
        three.start()
        a = three.nodes[0]
        wait_until(lambda: note(a).status == 200, 30, "the level to rise")
        old = three.add("--crash-limit=2")
        status, words = old.refuses(seconds=60)
        assert status != 0
        assert "feature level 3 and this version of Corvo knows levels up to " \
            "2; start" in words
        with a.client() as c:
            job = c.enqueue("goes-on")
            assert c.fetch("goes-on", timeout=10)["job_id"] == job
        old.corvo = LATER  # nothing is spoilt: a newer one takes over
        old.start()
        three.wait_whole()
        wait_until(lambda: have_the_same(three.nodes), 30, "a quiet moment")
        three.clean_up()
    finally:
        three.clean_up(check=False)


def test_a_node_of_another_protocol_is_refused_in_one_line_on_both_sides():
    three = Cluster(size=2)
    try:
        one, two = three.nodes
        one.start()
        two.env["CORVO_FAULT_HELLO"] = "2 3"
        two.spawn()
        text = ("n1 speaks versions 1 to 1 of the protocol between nodes and "
                "the other one 2 to 3; upgrade the older node")
        wait_until(lambda: text in one.log() and text in two.log(), 30,
                   "both sides to say so")
        assert not two.is_ready()
        assert [r["id"] for r in three.rows(one)] == ["n1"]
        two.kill_all()
        two.env["CORVO_FAULT_HELLO"] = "1 3"  # they have 1 in common
        two.start()
        three.wait_whole()
        three.clean_up()
    finally:
        three.clean_up(check=False)
