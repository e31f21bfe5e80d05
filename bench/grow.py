#!/usr/bin/env python3
"""A cluster that holds much is given a fourth node under load; then a node that
lost its disk comes back. Do those who use the cluster notice?

  grow.py [--gb 2] [--rate 500]

The longest answer is that of the leader to single enqueues, one every few
milliseconds. Memory is what the processes of each node have, at most. All nodes
share one disk here: what it does to a small file of nobody's is shown beside,
and with TMPDIR=/dev/shm it is left out.
"""

import argparse
import collections
import contextlib
import os
import secrets
import shutil
import subprocess
import tempfile
import threading
import time

from figures import (arguments, disk_mb, head, let_pass, median, rss_mb,
                     running_cluster, say, verdict, wait_for_view, wait_until)
from node import API, Client

STATE_BYTES = 32768  # of one job: a checkpoint, which no list shows
BATCH = 100
BEFORE_S = 10.0  # of the same load, to compare with
WAIT_S = 600
STALL_S = 0.2


def fill(node, batches):
    """Jobs whose state does not become smaller by compression."""
    with Client(node.port, timeout=60) as c:
        for _ in range(batches):
            jobs = [{"queue": "deep",
                     "checkpoint": secrets.token_hex(STATE_BYTES // 2)}
                    for _ in range(BATCH)]
            wait_until(lambda: c.post(f"{API}/enqueue/batch", {"jobs": jobs})
                       .status == 201, 60, "a batch to be taken", every=0.1)


class Beside:
    """Runs in a thread of its own while the block does."""

    def __init__(self):
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join(60)


class Asker(Beside):
    """Enqueues at a node, one after the other, and takes the times."""

    def __init__(self, node):
        self.node = node
        self.took = []
        self.longest = []  # (seconds, when it began)
        self.refused = collections.Counter()
        super().__init__()

    def run(self):
        start = time.monotonic()
        with Client(self.node.port) as c:
            while not self.stop.wait(0.003):
                began = time.monotonic()
                status = c.post(f"{API}/enqueue", {"queue": "probe"}).status
                took = time.monotonic() - began
                self.took.append(took)
                self.longest = sorted(self.longest +
                                      [(took, began - start)])[-5:]
                if status != 201:
                    self.refused[status] += 1


class Disk(Beside):
    """Flushes a small file now and then: what the disk alone takes."""

    def __init__(self):
        self.longest = 0.0
        super().__init__()

    def run(self):
        with tempfile.TemporaryFile() as f:
            while not self.stop.wait(0.02):
                began = time.monotonic()
                os.pwrite(f.fileno(), b"x" * 512, 0)
                os.fdatasync(f.fileno())
                self.longest = max(self.longest, time.monotonic() - began)


class Memory(Beside):
    """The most that each process of each node has had."""

    def __init__(self, nodes):
        self.nodes = nodes
        self.most = collections.Counter()
        super().__init__()

    def look(self, node):
        total = 0.0
        for name, pid in node.pids().items():
            mb = rss_mb(pid)
            total += mb
            key = node.raft_port, name
            self.most[key] = max(self.most[key], mb)
        key = node.raft_port, "all"
        self.most[key] = max(self.most[key], total)

    def run(self):
        while not self.stop.wait(0.2):
            for n in list(self.nodes):
                # one of them may be away, or on its way
                with contextlib.suppress(OSError, ValueError):
                    self.look(n)

    def say(self):
        for i, n in enumerate(self.nodes, 1):
            most = self.most[n.raft_port, "all"]
            raftd = self.most[n.raft_port, "raftd"]
            say(f"  n{i}: most memory, all processes / raftd",
                f"{most:.0f} / {raftd:.0f} MB")


@contextlib.contextmanager
def background(node, rate):
    """Lifecycles at a steady rate."""
    options = {"rate": rate, "time": 100000, "producers": 8, "workers": 8,
               "queue": "steady"}
    with subprocess.Popen(arguments(node, "lifecycle", options),
                          stdout=subprocess.DEVNULL) as p:
        try:
            yield
        finally:
            p.kill()


def show(what, asker, disk, memory=None):
    """True when nobody had to wait for long."""
    took = sorted(asker.took)
    say(f"{what}: enqueues at the leader", f"{len(took)}")
    say("  median / p99", f"{median(took) * 1e3:.1f} / "
        f"{took[len(took) * 99 // 100] * 1e3:.1f} ms")
    say("  longest", f"{took[-1] * 1e3:.0f} ms",
        f"< {STALL_S * 1e3:.0f} ms")
    say("  the five longest, and when", ", ".join(
        f"{t * 1e3:.0f} ms at {at:.1f} s" for t, at in asker.longest))
    say("  longest flush of a file beside", f"{disk.longest * 1e3:.0f} ms")
    if asker.refused:
        say("  refused", f"{dict(asker.refused)}", "none")
    if memory is not None:
        memory.say()
    return took[-1] < STALL_S and not asker.refused


def is_voter(cluster, node, leader):
    rows = cluster.rows(leader)
    name = f"n{cluster.nodes.index(node) + 1}"
    return any(r.get("id") == name and r["voter"] and r["role"] == "follower"
               for r in rows)


def wait_for(cluster, node, leader, began):
    wait_until(node.is_ready, WAIT_S, "the node to be ready", every=0.05)
    wait_until(lambda: is_voter(cluster, node, leader), WAIT_S,
               "the node to vote", every=0.05)
    say("  it votes after", f"{time.monotonic() - began:.1f} s")


def measure(what, cluster, leader, act):
    """act() starts a node, which is waited for. True: nobody noticed."""
    with Memory(cluster.nodes) as memory, Disk() as disk, \
            Asker(leader) as asker:
        began = time.monotonic()
        node = act()
        wait_for(cluster, node, leader, began)
    good = show(what, asker, disk, memory)
    say("  disk of the leader / of that node",
        f"{disk_mb(leader)} / {disk_mb(node)} MB")
    return good


def main(gb=2.0, rate=500):
    head(f"E  a cluster with {gb:g} GB of state, {rate} lifecycles/s")
    with running_cluster() as cluster:
        leader = cluster.leader()
        fill(leader, int(gb * 1e9 / STATE_BYTES / BATCH))
        wait_for_view(leader)
        say("disk of the leader", f"{disk_mb(leader)} MB")
        with background(leader, rate):
            with Disk() as disk, Asker(leader) as asker:
                let_pass(BEFORE_S)
            show("before", asker, disk)

            def fourth():
                return cluster.add().spawn()

            good = measure("a fourth node joins", cluster, leader, fourth)

            lost = next(n for n in cluster.nodes[1:] if n is not leader)
            lost.kill_all()
            shutil.rmtree(lost.data)
            good &= measure("a node comes back with an empty disk", cluster,
                            leader, lost.spawn)
        if cluster.leader() is not leader:
            say("the leader changed meanwhile", "yes", "no")
            good = False
    verdict(good)


def options():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--gb", type=float, default=2.0)
    p.add_argument("--rate", type=int, default=500)
    return p.parse_args()


if __name__ == "__main__":
    o = options()
    main(o.gb, o.rate)
