#!/usr/bin/env python3
"""All attacks of attacks.py at once, for minutes, beside an honest client.

  siege.py [seconds [ATTACK ...]]

The honest client works alone first, for a minute, and is compared with itself.
Attackers are processes of the lowest priority: they would stand on machines of
their own, and what is measured is what the node does for them.
"""

import contextlib
import multiprocessing
import os
import resource
import sys
import time

from attacks import ATTACKS, colliding_ids
from figures import all_pids, cpu_seconds, head, let_pass, running_node, say
from hostile import Honest, memory_mb

ALONE_S = 60
HOLD_S = 5  # one round of an attack
FLAGS = ("--http-max-memory=256MB",)
BUDGET_MB = 256


def attack(node, name, until):
    """One attacker: round after round."""
    os.nice(19)
    sys.stdout = open(os.devnull, "w")
    while time.monotonic() < until:
        with contextlib.suppress(OSError, AssertionError):
            with ATTACKS[name](node):
                let_pass(min(HOLD_S, max(0, until - time.monotonic())))


@contextlib.contextmanager
def attackers(node, seconds, names):
    colliding_ids()  # once, for all
    until = time.monotonic() + seconds
    fork = multiprocessing.get_context("fork")
    running = [fork.Process(target=attack, args=(node, name, until))
               for name in names]
    for p in running:
        p.start()
    try:
        yield
    finally:
        for p in running:
            p.join(60)
            p.kill()


def siege(node, seconds, names):
    """The honest client under attack, and the most memory httpd had."""
    most = 0
    with attackers(node, seconds, names), Honest(node) as honest:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            let_pass(1)
            most = max(most, memory_mb(node.pids()["httpd-0"], "VmHWM"))
    return honest, most


def main(seconds=600, *names):
    names = names or list(ATTACKS)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    head(f"I  {' '.join(names)} at once for {seconds} s")
    with running_node(*FLAGS) as node:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        with Honest(node) as alone:
            let_pass(ALONE_S)
        say("alone", "")
        alone.say()
        pids = all_pids(node)
        used = {name: cpu_seconds([pid]) for name, pid in pids.items()}
        honest, most = siege(node, seconds, names)
        say("under attack", "")
        honest.say()
        say("honest p99 under attack / alone",
            f"{honest.p99_ms() / alone.p99_ms():.2f}", "<= 3")
        say("httpd memory, most", f"{most:.0f} MB", f"<= {BUDGET_MB} MB")
        now = all_pids(node)
        say("processes restarted", sum(now[n] != pids[n] for n in pids), "0")
        for name, pid in pids.items():
            if now[name] == pid:
                say(f"processor time of {name}",
                    f"{cpu_seconds([pid]) - used[name]:.0f} s")
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


if __name__ == "__main__":
    main(*(int(x) for x in sys.argv[1:2]), *sys.argv[2:])
