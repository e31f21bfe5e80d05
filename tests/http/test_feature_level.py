"""One feature level more: what a node of this version makes of data that a
later one has used, and the other way round."""

import os
import shutil
from pathlib import Path

from node import API, wait_until

LATER = Path(os.environ["CORVO_LATER_DIR"]) / "cli" / "corvo"
NOTE = f"{API}/debug/note"


def level_events(c):
    events = c.get(f"{API}/cluster/events?limit=1000").json["events"]
    return [e["data"]["level"] for e in events if e["type"] == "level_raised"]


def later(node):
    """Of a cluster all nodes, or the level would stay."""
    node.stop_all()
    for n in node.nodes():
        n.corvo = LATER
    return node.start_all()


def test_a_later_version_raises_the_level_when_nobody_has_an_older(make_node):
    node = make_node().start()
    with node.client() as c:
        c.enqueue("q")
        assert c.post(NOTE, {"note": "x"}).status == 404  # no such route
        assert level_events(c) == [2]
    later(node)
    with node.client() as c:
        wait_until(lambda: level_events(c) == [2, 3], what="the level")
        a = c.post(NOTE, {"note": "x"})
        assert a.status == 200 and a.json == {"note": "x"}, a
        assert c.queue("q")["pending"] == 1
    later(node)
    with node.client() as c:
        assert level_events(c) == [2, 3]


def test_a_store_of_a_higher_level_is_refused_in_one_sentence(make_node):
    node = later(make_node())
    with node.client() as c:
        wait_until(lambda: level_events(c) == [3], what="the level")
        c.enqueue("q")
    node.stop()
    node.corvo = make_node().corvo
    node.err.unlink()
    status, words = node.refuses()
    assert status != 0
    said = [line for line in words.splitlines()
            if "uses feature level 3 and this version of Corvo knows levels "
               "up to 2; start the version that wrote it" in line]
    assert len(said) == 1, words
    later(node)  # nothing is lost
    with node.client() as c:
        assert c.queue("q")["pending"] == 1


def test_an_unknown_operation_in_the_log_stops_the_node(make_node):
    """The store knows nothing of it yet: it is in the log only."""
    node = make_node().start()
    node.stop()
    shutil.copytree(node.data / "rocks", node.dir / "before")
    later(node)
    with node.client() as c:
        wait_until(lambda: level_events(c) == [2, 3], what="the level")
        assert c.post(NOTE, {"note": "x"}).status == 200
    node.kill_all()
    shutil.rmtree(node.data / "rocks")
    (node.dir / "before").rename(node.data / "rocks")
    node.corvo = make_node().corvo
    node.err.unlink()
    status, words = node.refuses("--crash-limit=2")
    assert status != 0
    assert "of the raft log cannot be applied: the cluster begins to use " \
        "feature level 3 and this version of Corvo knows levels up to 2; " \
        "start a newer one" in words
    later(node)
    with node.client() as c:
        assert c.post(NOTE, {"note": "y"}).status == 200
