#!/usr/bin/env python3
"""The leader of three nodes is killed (-9) under load again and again: how long
until a write is taken, through any of the others?

  failover.py [kills] [seed]

What the clients saw is judged as tests/cluster/history.py does. When that finds
anything no figure is printed: how fast a cluster is that loses jobs is no
question.
"""

import contextlib
import http.client
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

from figures import (SOURCE, head, median, running_cluster, say, verdict,
                     wait_until)
from node import API, Client

sys.path.insert(0, str(SOURCE / "tests" / "cluster"))

import history  # noqa: E402
from clients import LINE, Load  # noqa: E402

BETWEEN_S = 1.0   # of load between two kills
PROBE_S = 30.0    # longest a kill may be felt
MEDIAN_S, LONGEST_S = 1.0, 2.0


class Probe:
    """Asks one node to take jobs, one after the other; when was one taken?
    What it was told belongs to the history."""

    def __init__(self, node, directory, name):
        self.node = node
        self.name = name
        self.n = 0
        self.taken = []       # (sent, answered) of those taken
        self.log = history.Log(directory, name)
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.stop.is_set():
            with Client(self.node.port) as c:
                while self.one(c) and not self.stop.wait(0.005):
                    pass
        self.log.close()

    def one(self, c):
        """False: the connection is of no more use."""
        self.n += 1
        mark = f"{self.name}-{self.n}"
        sent, a = time.monotonic(), None
        with contextlib.suppress(OSError, http.client.HTTPException):
            c.send("POST", f"{API}/enqueue",
                   {"queue": "probe", "payload": {"mark": mark}})
            a = c.receive()
        outcome = history.outcome_of(a.status if a is not None else None)
        told = {}
        if outcome == "ok":
            self.taken.append((sent, time.monotonic()))
            told = {"job_id": a.json["job_id"], "duplicate": False}
        self.log.write("enqueue", {"mark": mark, "queue": "probe",
                                   "priority": "normal"}, sent, outcome, told)
        return a is not None

    def first_after(self, moment):
        """When the first was answered that was sent after a moment."""
        return next((a for s, a in list(self.taken) if s > moment), None)

    def end(self):
        self.stop.set()
        self.thread.join(60)


def kill(node):
    """When raftd was. Its supervisor would start another one, and goes too."""
    raftd = node.pids()["raftd"]
    node.process.send_signal(signal.SIGSTOP)
    os.kill(raftd, signal.SIGKILL)
    moment = time.monotonic()
    node.process.kill()
    node.kill_all()
    return moment


def kill_leader(three, directory, number):
    """Seconds until a write is taken, and until each of the others takes one.
    """
    leader = three.leader()
    probes = [Probe(n, directory, f"probe{number}-{i}")
              for i, n in enumerate(three.nodes) if n is not leader]
    try:
        wait_until(lambda: all(p.taken for p in probes), 10, "the probes")
        moment = kill(leader)
        wait_until(lambda: all(p.first_after(moment) for p in probes), PROBE_S,
                   "writes to be taken again", every=0.005)
        took = [p.first_after(moment) - moment for p in probes]
    finally:
        for p in probes:
            p.end()
    leader.start()
    three.wait_whole()
    return min(took), max(took)


def judge(load, three, directory):
    """What is wrong with what the clients saw; nothing is good."""
    load.drain()
    load.write_final(three.leader())
    records, final = history.read(directory)
    say("jobs, observations of clients", f"{len(final)}, {len(records)}")
    found = history.check(records, final, fifo=[LINE])
    say("findings of the history", f"{len(found)}", "0")
    failures = load.watch.failures
    say("requests that failed, and once more", f"{len(failures)}", "0")
    return found + failures


def report(first, all_of_them):
    say("writes are taken again after, median", f"{median(first):.3f} s",
        f"< {MEDIAN_S:g} s")
    say("  longest", f"{max(first):.3f} s", f"< {LONGEST_S:g} s")
    say("  through both others, median / longest",
        f"{median(all_of_them):.3f} / {max(all_of_them):.3f} s")
    verdict(median(first) < MEDIAN_S and max(first) < LONGEST_S)


def main(kills=30, seed=None):
    seed = random.randrange(1 << 32) if seed is None else seed
    head(f"B  the leader of three is killed {kills} times (seed {seed})")
    directory = Path(tempfile.mkdtemp(prefix="corvo-failover-"))
    took = []
    with running_cluster() as three:
        load = Load(three.nodes, directory, seed).start()
        try:
            for number in range(kills):
                load.watch.stop.wait(BETWEEN_S)
                took.append(kill_leader(three, directory, number))
                load.backlog()
            found = judge(load, three, directory)
        finally:
            load.watch.produced.set()
            load.watch.stop.set()
    if found:
        for text in found[:10]:
            say("   ", text)
        say("no figures: see above, and the history", str(directory))
        verdict(False)
        return
    shutil.rmtree(directory)
    report(*zip(*took))


if __name__ == "__main__":
    main(*(int(x) for x in sys.argv[1:]))
