"""A digest of all a node stores, to compare nodes by."""

import json
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

from node import API, CORVO, wait_until

PATH = f"{API}/admin/digest"


def digest(c, query=""):
    a = c.get(PATH + query)
    assert a.status == 200, a
    assert re.fullmatch("[0-9a-f]{32}", a.json["digest"])
    return a.json


def index_of(c):
    return int(c.get(f"{API}/cluster/status").json["applied_index"])


def test_the_same_index_has_the_same_digest(make_node):
    node = make_node().start()
    with node.client() as c:
        first = digest(c)
        assert first == digest(c)
        a = c.post(f"{API}/enqueue", {"queue": "q", "payload": {"n": 1}})
        second = digest(c, f"?at_index={a.headers['X-Corvo-Index']}")
        assert second["index"] > first["index"]
        assert second["seq"] > first["seq"]
        assert second["keys"] > first["keys"]
        assert second["digest"] != first["digest"]
        assert second["index"] == index_of(c)
    node.kill_all()  # the store has less than the log then, and replays it
    node.start()
    with node.client() as c:
        again = digest(c)
        assert again["index"] == second["index"]
        assert again == second


def test_it_waits_for_an_entry(make_node):
    node = make_node().start()
    with node.client() as c, ThreadPoolExecutor(1) as pool:
        at = index_of(c) + 1

        def ask():
            with node.client() as other:
                path = f"{PATH}?at_index={at}"
                while (a := other.get(path)).status == 409:
                    pass  # one of those below
                return a.json
        asked = pool.submit(ask)

        # it is there, and only one may be
        wait_until(lambda: c.get(PATH).status == 409, what="the question")
        assert c.get(PATH).code == "CONFLICT"
        assert not asked.done()
        c.enqueue("q")
        got = asked.result()
        assert got["index"] >= at
        assert digest(c, f"?at_index={at}") == got


def test_it_does_not_wait_for_ever(make_node):
    node = make_node("--op-timeout=200ms").start()
    with node.client() as c:
        at = index_of(c)
        a = c.get(f"{PATH}?at_index={at + 100}")
        assert (a.status, a.code) == (503, "LEADER_UNAVAILABLE"), a
        assert f"has applied entry {at} and not {at + 100} yet" in \
            a.json["error"]
        for wrong in ("0", "-1", "x"):
            a = c.get(f"{PATH}?at_index={wrong}")
            assert (a.status, a.code) == (400, "VALIDATION_ERROR")
        digest(c)  # the place is free again


def test_a_client_that_leaves_makes_room(make_node):
    node = make_node().start()
    with node.client() as c:
        at = index_of(c) + 100
        left = []

        def is_asked():
            left.append(node.client())
            left[-1].send("GET", f"{PATH}?at_index={at}")
            return c.get(PATH).status == 409
        wait_until(is_asked, what="the question")
        for gone in left:
            gone.close()
        wait_until(lambda: c.get(PATH).status == 200, what="its end")


def test_writes_go_on_meanwhile(make_node):
    node = make_node().start()
    with node.client() as c:
        for _ in range(20):
            c.post(f"{API}/enqueue/batch", {"jobs": [
                {"queue": "q", "payload": "x" * 20000}] * 50})
        before = index_of(c)
        with ThreadPoolExecutor(1) as pool:
            def ask():
                with node.client() as other:
                    return digest(other)
            asked = pool.submit(ask)
            while not asked.done():
                c.enqueue("other")
        got = asked.result()
        assert before <= got["index"] <= index_of(c)
        assert got["bytes"] > 20 * 50 * 20000
        # what it said then is no longer so, and can be said again
        assert digest(c) == digest(c)


def test_the_command_shows_it(make_node):
    node = make_node().start()
    with node.client() as c:
        expected = digest(c)

    def corvo(*args):
        return subprocess.run(
            [CORVO, "admin", "digest", *args,
             f"--server=http://127.0.0.1:{node.port}"],
            capture_output=True, text=True, check=False)
    r = corvo(f"--at-index={expected['index']}")
    assert r.returncode == 0, r.stderr
    assert r.stdout == (f"{expected['digest']} index={expected['index']} "
                        f"seq={expected['seq']} keys={expected['keys']} "
                        f"bytes={expected['bytes']}\n")
    assert json.loads(corvo("--output=json").stdout) == expected
    r = corvo("--at-index=soon")
    assert r.returncode == 2 and "whole number" in r.stderr
