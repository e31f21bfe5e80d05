"""A node that is a follower in a cluster of three, and in all else like Node.

With CORVO_TEST_NODES=3 the tests of tests/http get such nodes: what a node
promises holds for every node of a cluster (tests/cluster/suite.sh).
"""

from node import Node

# Of one node only: its companions have their own.
OWN_FLAGS = ("--bind", "--data-dir", "--run-dir", "--config", "--access-log",
             "--raft-bind", "--socket-", "--node-id")


class Member(Node):
    def __init__(self, *flags, directory=None):
        super().__init__("--cluster", "--node-id=n3", *flags,
                         directory=directory)
        self.others = []
        self.alone = False  # it is not to start

    def make_others(self, flags):
        """They are there before it, so that one of them leads."""
        shared = [f for f in (*self.flags, *flags)
                  if not f.startswith(OWN_FLAGS)]
        for name in ("n1", "n2"):
            n = Node(f"--node-id={name}")
            n.flags = [f"--node-id={name}", *shared]
            if self.others:
                n.flags.append(
                    f"--join=127.0.0.1:{self.others[0].raft_port}")
            self.others.append(n)
            n.start()
        there = ",".join(f"127.0.0.1:{n.raft_port}" for n in self.others)
        self.flags.append(f"--join={there}")

    def spawn(self, *flags, **named):
        if not self.others and not self.alone:
            self.make_others(flags)
        return super().spawn(*flags, **named)

    def refuses(self, *flags, **named):
        self.alone = True
        try:
            return super().refuses(*flags, **named)
        finally:
            self.alone = False

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

    def clean_up(self, check=True):
        try:
            super().clean_up(check)
        finally:
            for n in self.others:
                n.clean_up(check)
