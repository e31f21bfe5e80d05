#!/usr/bin/env python3
"""All attacks of attacks.py at once, for minutes, beside an honest client.

  siege.py [seconds [ATTACK ...]]

The honest client works alone first, for a minute, and is compared with itself.
Attackers are processes of the lowest priority, each with an address of its own:
they would stand on machines of their own, and what is measured is what the node
does for them. The limits of one client are those of a node that strangers can
reach.
"""

import contextlib
import multiprocessing
import os
import resource
import sys
import time

import attacks
from attacks import ATTACKS, colliding_ids, fill_for_large_answers
from figures import all_pids, cpu_seconds, head, let_pass, running_node, say
from hostile import Honest, memory_mb

ALONE_S = 60
HOLD_S = 5  # one round of an attack
BUDGET_MB = 256
FLAGS = (f"--http-max-memory={BUDGET_MB}MiB",
         "--client-max-requests-per-second=500",
         "--client-max-connections=500")
# leaving_workers looks at the node's figures as often as it can
NAMES = [name for name in ATTACKS if name != "leaving_workers"]


def attack(node, name, number, until):
    """One attacker: round after round."""
    os.nice(19)
    attacks.source = f"127.0.0.{2 + number}"
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
    running = [fork.Process(target=attack, args=(node, name, i, until))
               for i, name in enumerate(names)]
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
    names = names or NAMES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    head(f"I  {' '.join(names)} at once for {seconds} s")
    with running_node(*FLAGS) as node:
        fill_for_large_answers(node)
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
