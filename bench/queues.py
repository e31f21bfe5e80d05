#!/usr/bin/env python3
"""A client names a queue of its own for each job: what that costs, and how
long the node is away after a crash then.

  queues.py [names] [names in one request]
"""

import fcntl
import sys
import time

from figures import head, pss_mb, running_node, say, wait_until


def took(c, path):
    began = time.monotonic()
    a = c.get(path)
    return f"{a.status} in {time.monotonic() - began:.2f} s"


def attack(node, names, batch):
    """Jobs in queues of their own until one is refused; how many."""
    with node.client(timeout=120) as c:
        for at in range(0, names, batch):
            a = c.post("/api/v1/enqueue/batch", {"jobs": [
                {"queue": f"attack-{at + i:07d}"} for i in range(batch)]})
            if a.status >= 400:
                return at, a.code
    return names, "none"


def is_free(node):
    """A large process that was killed takes a while to be gone."""
    with open(node.data / "corvo.lock", "rb") as f:
        try:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True


def main(names=1000000, batch=10000):
    head(f"Q  {names:,} names of queues from {names // batch:,} requests")
    with running_node() as node:
        before = pss_mb(node.pids()["raftd"])
        taken, code = attack(node, names, batch)
        say("queues made", f"{taken:,}, then {code}")
        say("raftd memory (PSS) for them",
            f"{pss_mb(node.pids()['raftd']) - before:.0f} MB")
        with node.client(timeout=120) as c:
            say("GET /api/v1/metrics", took(c, "/api/v1/metrics"))
            say("GET /api/v1/queues", took(c, "/api/v1/queues"))
        node.kill_all()
        wait_until(lambda: is_free(node), 60, "the dead to be gone")
        began = time.monotonic()
        node.start(seconds=300)
        say("until /readyz after SIGKILL",
            f"{time.monotonic() - began:.2f} s", "< 3 s")


if __name__ == "__main__":
    main(*(int(x) for x in sys.argv[1:]))
