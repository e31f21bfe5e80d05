#!/usr/bin/env python3
"""All attacks of attacks.py at once, for minutes, beside an honest client.

  siege.py [seconds [ATTACK ...]]

The honest client works alone for 20 s before each minute of attack, and is
compared with itself. Attackers would stand on machines of their own, and what
is measured is what the node does for them; so they have a processor of their
own, of which the node and the honest client use nothing, and each has an
address of its own. The limits of one client are those of a node that strangers
can reach.
"""

import contextlib
import multiprocessing
import os
import resource
import sys
import threading
import time
from pathlib import Path

import attacks
from attacks import ATTACKS, colliding_ids, fill_for_large_answers
from figures import (all_pids, cpu_seconds, head, let_pass, median, memory_mb,
                     running_node, say)

ALONE_S = 20
ATTACK_S = 60
PROCESSORS = sorted(os.sched_getaffinity(0))


def is_of_the_disk(line):
    return any(name in line for name in ("-req.", "nvme", "ahci", "blk"))


def disk_processor():
    """The one that hears of the disk: whoever keeps it busy delays each sync
    of the log by up to a tick of the kernel's clock."""
    heard = dict.fromkeys(PROCESSORS, 0)
    head, *lines = Path("/proc/interrupts").read_text().splitlines()
    numbers = [int(name.removeprefix("CPU")) for name in head.split()]
    for line in filter(is_of_the_disk, lines):
        for n, count in zip(numbers, line.split()[1:]):
            if n in heard:
                heard[n] += int(count)
    return max(heard, key=heard.get)


ATTACKERS = [n for n in PROCESSORS if n != disk_processor()][:1] or PROCESSORS
OURS = [n for n in PROCESSORS if n not in ATTACKERS] or PROCESSORS
HOLD_S = 5  # one round of an attack
BUDGET_MB = 256
FLAGS = (f"--http-max-memory={BUDGET_MB}MiB",
         "--client-max-requests-per-second=250",
         "--client-max-connections=500")
# leaving_workers looks at the node's figures as often as it can
NAMES = [name for name in ATTACKS if name != "leaving_workers"]


def attack(node, name, number, until):
    """One attacker: round after round."""
    os.sched_setaffinity(0, ATTACKERS)
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


class Rounds:
    """What the honest client had in all phases of one kind."""

    def __init__(self):
        self.all = Honest(None)

    def add(self, honest):
        self.all.took += honest.took
        self.all.failed += honest.failed

    def say(self, name):
        say(name, "")
        self.all.say()

    def p99_ms(self):
        return self.all.p99_ms()


def work_alone(node, alone):
    with Honest(node) as honest:
        let_pass(ALONE_S)
    alone.add(honest)


def work_under_attack(node, seconds, names, attacked):
    """The most memory httpd had."""
    most = 0
    with attackers(node, seconds, names), Honest(node) as honest:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            let_pass(1)
            most = max(most, memory_mb(node.pids()["httpd-0"], "VmHWM"))
    attacked.add(honest)
    return most


def siege(node, seconds, names):
    """In turns, so that what the machine does in some minute is in both."""
    alone, attacked, most = Rounds(), Rounds(), 0
    pids = all_pids(node)
    used = {name: cpu_seconds([pid]) for name, pid in pids.items()}
    while seconds > 0:
        work_alone(node, alone)
        most = max(most, work_under_attack(
            node, min(seconds, ATTACK_S), names, attacked))
        seconds -= ATTACK_S
    alone.say("alone")
    attacked.say("under attack")
    say("honest p99 under attack / alone",
        f"{attacked.p99_ms() / alone.p99_ms():.2f}", "<= 3")
    say("httpd memory, most", f"{most:.0f} MB", f"<= {BUDGET_MB} MB")
    now = all_pids(node)
    say("processes restarted", sum(now[n] != pids[n] for n in pids), "0")
    for name, pid in pids.items():
        if now[name] == pid:
            say(f"processor time of {name}",
                f"{cpu_seconds([pid]) - used[name]:.0f} s")


def main(seconds=600, *names):
    names = names or NAMES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    os.sched_setaffinity(0, OURS)  # and of the node that is started
    head(f"I  {' '.join(names)} at once for {seconds} s")
    with running_node(*FLAGS) as node:
        fill_for_large_answers(node)
        siege(node, seconds, names)
    os.sched_setaffinity(0, PROCESSORS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


if __name__ == "__main__":
    main(*(int(x) for x in sys.argv[1:2]), *sys.argv[2:])
