#!/usr/bin/env python3
"""Clients that mean no good, one kind at a time, and what they cost.

  hostile.py [ATTACK ...]        none: all of attacks.py

Each attack has a node of its own. An honest client asks for /healthz and runs
jobs beside it. The memory is corvo-httpd's: before, at most during the attack,
and SETTLE_S after the attackers have gone.
"""

import resource
import sys
import threading
import time
from pathlib import Path

from attacks import ATTACKS
from figures import cpu_seconds, head, let_pass, median, running_node, say

HOLD_S = 8     # how long attackers stay
SETTLE_S = 10  # and how long memory has to come back


def memory_mb(pid, name="VmRSS"):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"no {name} of {pid}")


def forget_peak(pid):
    Path(f"/proc/{pid}/clear_refs").write_text("5")


class Honest:
    """A client that works on while others attack."""

    def __init__(self, node):
        self.node = node
        self.stop = threading.Event()
        self.took = []
        self.failed = []
        self.thread = threading.Thread(target=self.run)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()

    def one(self, c):
        began = time.monotonic()
        c.enqueue("honest")
        job = c.fetch("honest", timeout=5)
        c.ack(job)
        assert c.get("/healthz").status == 200
        self.took.append(time.monotonic() - began)

    def run(self):
        while not self.stop.is_set():
            try:
                with self.node.client(timeout=10) as c:
                    while not self.stop.is_set():
                        self.one(c)
                        self.stop.wait(0.02)
            except (AssertionError, OSError, TypeError) as e:
                self.failed.append(repr(e)[:200])
                self.stop.wait(0.1)

    def p99_ms(self):
        took = sorted(self.took)
        return took[len(took) * 99 // 100] * 1e3

    def say(self):
        if not self.took:
            say("  honest rounds", "none")
            return
        say("  honest rounds, p50 / p99",
            f"{len(self.took)}, {median(self.took) * 1e3:.1f} / "
            f"{self.p99_ms():.1f} ms")
        say("  honest failures", f"{len(self.failed)}", "0")
        for why in self.failed[:3]:
            say("   ", why)


def measure(name):
    head(f"H  {name}: {' '.join(ATTACKS[name].__doc__.split())}")
    with running_node() as node:
        pid = node.pids()["httpd-0"]
        before = memory_mb(pid)
        forget_peak(pid)
        used = cpu_seconds([pid])
        with Honest(node) as honest, ATTACKS[name](node):
            let_pass(HOLD_S)
        now = node.pids()["httpd-0"]
        if now == pid:
            say("  processor time of httpd",
                f"{cpu_seconds([pid]) - used:.1f} s")
        say("  httpd restarted", "no" if now == pid else "yes", "no")
        peak = memory_mb(now, "VmHWM")
        let_pass(SETTLE_S)
        say("  httpd memory before / most / after",
            f"{before:.0f} / {peak:.0f} / {memory_mb(now):.0f} MB")
        honest.say()


def main(*names):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    for name in names or ATTACKS:
        measure(name)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


if __name__ == "__main__":
    main(*sys.argv[1:])
