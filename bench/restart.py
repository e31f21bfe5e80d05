#!/usr/bin/env python3
"""Each process of a node is killed, and stopped, under load: how long until
another one is ready.

  restart.py [rounds]
"""

import os
import signal
import statistics
import sys
import time

from figures import SOURCE, head, running_node, say, wait_until
from node import is_alive

sys.path.insert(0, str(SOURCE / "tests" / "kill"))

from load import Load  # noqa: E402

NAMES = ["raftd", "viewd", "sched", "httpd-0"]


def wait_back(node, name, old):
    def is_back():
        p = node.ps(name)
        return p["state"] == "ready" and p["pid"] not in (0, old)

    began = time.monotonic()
    wait_until(is_back, 30, f"{name} to be back", every=0.002)
    return time.monotonic() - began


def kill(node, name, sig):
    """Seconds until it is gone, and from then until another one is ready."""
    old = node.pids()[name]
    began = time.monotonic()
    os.kill(old, sig)
    wait_until(lambda: not is_alive(old), 30, f"{name} to go", every=0.002)
    gone = time.monotonic() - began
    return gone, wait_back(node, name, old)


def main(rounds=5):
    head("J  a process is killed under load")
    with running_node() as node:
        load = Load(node.port).start()
        for name in NAMES:
            load.progress(100)
            back = [kill(node, name, signal.SIGKILL)[1] for _ in range(rounds)]
            say(f"{name}: ready again, median",
                f"{statistics.median(back):.3f} s", "< 1 s")
            say(f"{name}: ready again, longest", f"{max(back):.3f} s", "< 1 s")
            gone, back = kill(node, name, signal.SIGSTOP)
            say(f"{name}: stopped, given up after", f"{gone:.3f} s",
                "0.5 s, the setting")
            say(f"{name}: and ready again after", f"{back:.3f} s", "< 1 s")
        load.stop()


if __name__ == "__main__":
    main(*(int(x) for x in sys.argv[1:]))
