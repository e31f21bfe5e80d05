"""A node that is a follower in a cluster of three, and in all else like Node.

With CORVO_TEST_NODES=3 the tests of tests/http get such nodes: what a node
promises holds for every node of a cluster (tests/cluster/suite.py).
"""

import contextlib

from cluster import Cluster
from node import API, Node, wait_until

# Of one node only: its companions have their own, or need none.
OWN_FLAGS = ("--bind", "--data-dir", "--run-dir", "--config", "--access-log",
             "--raft-bind", "--socket-", "--node-id", "--client-")


def applied(client):
    """Its last entry; 0 where it does not tell us now."""
    status = client.get(f"{API}/cluster/status").json
    return int(status.get("applied_index", 0))


class Member(Node):
    """It has the name of a node that is alone. A stop is its own; the others
    go on, but for stop_all."""

    def __init__(self, *flags, directory=None):
        super().__init__("--cluster", *flags, directory=directory)
        self.others = []
        self.cluster = Cluster(size=0)  # of all three, once it was started
        self.alone = False  # it is not to start

    # --- life ------------------------------------------------------------

    def make_others(self, flags):
        """They are there before it, so that one of them leads."""
        shared = [f for f in (*self.flags, *flags)
                  if not f.startswith(OWN_FLAGS)]
        for name in ("node-2", "node-3"):
            n = Node()
            n.corvo = self.corvo
            n.flags = [f"--node-id={name}", *shared]
            if self.others:
                n.flags.append(
                    f"--join=127.0.0.1:{self.others[0].raft_port}")
            self.others.append(n)
            n.start()
        there = ",".join(f"127.0.0.1:{n.raft_port}" for n in self.others)
        self.flags.append(f"--join={there}")
        self.cluster.nodes = [*self.others, self]

    def spawn(self, *flags, **named):
        if not self.others and not self.alone:
            self.make_others(flags)
        return super().spawn(*flags, **named)

    def start(self, *flags, **named):
        is_new = not self.others
        super().start(*flags, **named)
        if is_new:
            self.settle()
        return self

    def settle(self):
        """Nothing of its coming is under way any more."""
        wait_until(lambda: self.cluster.voters() == len(self.nodes()), 60,
                   "all nodes to vote")
        with self.leader().client() as c:
            # which makes an entry behind all others
            assert c.get(f"{API}/settings?consistency=leader").status == 200
            last = applied(c)
        with self.client() as c:
            wait_until(lambda: applied(c) >= last, 60, "it to catch up")

    def refuses(self, *flags, **named):
        self.alone = True
        try:
            return super().refuses(*flags, **named)
        finally:
            self.alone = False

    def clean_up(self, check=True):
        with contextlib.ExitStack() as last_first:
            for n in self.others:
                last_first.callback(n.clean_up, check)
            last_first.callback(super().clean_up, check)

    # --- its cluster -----------------------------------------------------

    def nodes(self):
        return [self, *self.others]

    def leader(self):
        return self.cluster.leader()

    def start_all(self):
        down = [n for n in self.others if not n.is_running()]
        for n in down:
            n.spawn()
        for n in down:
            n.wait_ready()
        return self.start()

    def slow_log(self, seconds):
        """Of all: one that is slow is not waited for."""
        super().slow_log(seconds)
        for n in self.others:
            n.slow_log(seconds)

    def set_clock(self, seconds):
        """Of all: time is that of the leader."""
        super().set_clock(seconds)
        for n in self.others:
            n.set_clock(seconds)

    def client(self, timeout=30.0):
        c = super().client(timeout)
        c.companions = [n.port for n in self.others]
        return c
