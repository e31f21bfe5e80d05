"""Two builds of this tree in one cluster, the later one with one feature level
and one operation more: nodes of both serve together, what not all know is
refused, and whoever does not know what the others do stops."""

import http.client
import os
import random
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from cluster import Cluster, cluster, events, have_the_same  # noqa: E402
from node import API, Client, wait_until  # noqa: E402

LATER = Path(os.environ["CORVO_LATER_DIR"]) / "cli" / "corvo"
NOTE = f"{API}/debug/note"
SEED = int(os.environ.get("CORVO_TEST_SEED") or random.randrange(1 << 32))
NEEDS = ("this needs feature level 2; node {} runs a version that knows only "
         "1: upgrade it first")


def restart_as(three, node, program):
    node.stop()
    node.corvo = program
    node.start()
    three.wait_whole()


def note(node):
    with node.client() as c:
        return c.post(NOTE, {"note": "x"})


class Retrier(threading.Thread):
    """Creates jobs, takes and completes them, at any node; what fails, or is
    not answered, is sent once more, to another node."""

    def __init__(self, nodes, name):
        super().__init__()
        self.ports = [n.port for n in nodes]
        self.rng = random.Random(f"{SEED} {name}")
        self.queue = name
        self.ended = threading.Event()
        self.failures = []
        self.rounds = 0
        self.retries = 0
        self.made, self.done = [], []

    def run(self):
        while not self.ended.is_set():
            try:
                self.round()
            except Exception as e:  # shown by stop()
                self.failures.append(repr(e))
                return

    def once(self, port, path, body, headers):
        try:
            with Client(port) as c:
                c.send("POST", API + path, body, headers)
                a = c.receive()
            return a if a.status < 500 else None, a
        except (OSError, http.client.HTTPException) as e:
            return None, e

    def ask(self, path, body, headers=None):
        first, second = self.rng.sample(self.ports, 2)
        a, before = self.once(first, path, body, headers)
        if a is None:
            self.retries += 1
            a, last = self.once(second, path, body, headers)
            if a is None:
                self.failures.append((path, before, last))
        return a

    def round(self):
        self.rounds += 1
        mark = f"{self.queue}-{self.rounds}"
        a = self.ask("/enqueue", {"queue": self.queue, "payload": mark},
                     {"Idempotency-Key": mark})
        if a is None:
            return
        assert a.status in (200, 201), a
        self.made.append(a.json["job_id"])
        a = self.ask("/fetch", {"queues": [self.queue], "timeout": 10,
                                "worker_id": self.queue,
                                "lease_duration": 3})
        if a is None or a.status == 204:
            return
        assert a.status == 200, a
        job = a.json
        a = self.ask(f"/ack/{job['job_id']}",
                     {"lease_token": job["lease_token"]})
        if a is not None and a.status == 200:
            self.done.append(job["job_id"])

    def stop(self):
        self.ended.set()
        self.join(120)
        assert not self.is_alive()


def progress(load, rounds=10):
    now = [t.rounds for t in load]
    wait_until(lambda: all(t.rounds >= n + rounds or t.failures
                           for t, n in zip(load, now)),
               60, "the load to go on")


def test_a_rolling_upgrade_under_load_fails_no_request():
    print(f"CORVO_TEST_SEED={SEED}")
    with cluster() as three:
        load = [Retrier(three.nodes, f"up{i}") for i in range(3)]
        for t in load:
            t.start()
        try:
            for n in three.nodes:
                progress(load)
                n.stop()
                n.corvo = LATER
                progress(load)
                n.start()
                three.wait_whole()
            progress(load)
        finally:
            for t in load:
                t.stop()
        assert [t.failures for t in load] == [[]] * 3
        print("retries", [t.retries for t in load],
              "rounds", [t.rounds for t in load])
        with three.nodes[0].client() as c:  # nothing acknowledged is lost
            for t in load:
                done = set(t.done)
                for job in t.made:
                    state = c.state(job)
                    assert state == "completed" or job not in done
        wait_until(lambda: note(three.nodes[0]).status == 200, 30,
                   "the level to rise")
        wait_until(lambda: have_the_same(three.nodes), 30, "a quiet moment")


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
        assert events(c, "level_raised") == []
        with c.client() as old:  # which goes on meanwhile
            job = old.enqueue("meanwhile")
            assert old.fetch("meanwhile", timeout=10)["job_id"] == job
        restart_as(three, c, LATER)
        wait_until(lambda: events(a, "level_raised") == [{"level": 2}], 30,
                   "the level to rise")
        for n in three.nodes:  # each may hear of it a little later
            wait_until(lambda: note(n).status == 200, 10, "the level")
        wait_until(lambda: have_the_same(three.nodes), 30, "a quiet moment")
        c.stop()
        c.corvo = before
        c.err.unlink()
        status, words = c.refuses()
        assert status != 0 and "uses feature level 2 and this version" in words
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
        assert "feature level 2 and this version of Corvo knows levels up to " \
            "1; start" in words
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
