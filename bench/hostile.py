#!/usr/bin/env python3
"""Clients that mean no good, one kind at a time, and what they cost.

  hostile.py [ATTACK ...]        none: all of attacks.py and attacks_*.py

Each attack has a node of its own. Ten polite clients run jobs beside it and ask
for /healthz: first in quiet, then under attack, then in quiet again; the table
at the end has their times. An attack is withstood when their p99 is at most
five times that in quiet and 250 ms, none of their requests fails, no process is
restarted, and corvo-httpd, corvo-raftd and corvo-viewd grow by no more than the
sizes they are given and 64 MiB. One that is not makes this end with 1.

What a few quiet seconds say of a p99 depends on what the disk and host do in
them: without any attack it was 0.7 ms in some and 14 ms in others, within one
run. So quiet is the p99 of all answers in quiet of the run, or that around the
attack, whichever is more. The columns have the second.

Polite clients are the load program. Attackers would stand on machines of their
own. Here they are a process that has what the node and the polite clients leave
of the processors, and gives it back as soon as one of them wants it
(SCHED_IDLE); what they send is made beforehand. In quiet as many processes as
there are processors send bytes to themselves over sockets, with the same right
to them: so a processor is never found idle, neither with nor without an attack,
and what differs is what the node does for the attackers. All of that, in
whichever process and thread of the node, is part of the times under attack, and
the longest answer is told beside the p99. How long the loops of corvo-httpd and
corvo-raftd waited for a processor is told, too: where it is much beside what
they ran, the machine had other things to do, and the times say little. With
--equal attackers have the same right to the processors as all others, and
nothing runs in quiet.
"""

import contextlib
import importlib
import multiprocessing
import os
import re
import resource
import socket
import sys
import traceback
from pathlib import Path

from figures import (SOURCE, all_pids, cpu_seconds, forget_peak, head, let_pass,
                     memory_mb, running_node, say, verdict)
from polites import Polites, p99_of_all

HERE = Path(__file__).resolve().parent
FORK = multiprocessing.get_context("fork")
QUIET_S = 3      # how long polite clients are alone, before and after
HOLD_S = 6       # how long attackers stay
SETTLE_S = 3     # and how long memory has to come back
PATIENCE_S = 120 # for attackers to end
LATEST_MS = 250  # for any p99
TIMES = 5        # that in quiet
BESIDE_MB = 64   # a process may need besides what it is given
# The sizes that each process is given.
BUDGETS = {
    "httpd-0": ["http_max_memory"],
    "raftd": ["raft_max_pending_bytes", "rocksdb_write_buffer",
              "rocksdb_cache"],
    "viewd": ["view_cache"],
}


def collect():
    """The attacks of all areas."""
    found = {}
    for file in sorted(HERE.glob("attacks*.py")):
        for name, attack in importlib.import_module(file.stem).ATTACKS.items():
            assert name not in found, f"two attacks are called {name}"
            found[name] = attack
    return found


ATTACKS = collect()


def give_way():
    """This process has only what all others leave of the processors."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def talk_to_itself():
    """Of a process that stands for attackers of somebody else."""
    give_way()
    with socket.create_server(("127.0.0.1", 0)) as s:
        out = socket.create_connection(s.getsockname())
        back = s.accept()[0]
    data = bytes(32768)
    while True:
        out.sendall(data)
        left = len(data)
        while left > 0:
            left -= len(back.recv(left))


@contextlib.contextmanager
def others_attacked(equal):
    """Load that is none of the node's while the block runs."""
    talkers = [FORK.Process(target=talk_to_itself, daemon=True)
               for _ in range(0 if equal else os.cpu_count())]
    for t in talkers:
        t.start()
    try:
        yield
    finally:
        for t in talkers:
            t.kill()
            t.join()


def act(node, name, equal, pipe):
    """Of the attackers' process."""
    if not equal:
        give_way()
    try:
        with ATTACKS[name](node):
            pipe.send("under way")
            pipe.recv()
    except Exception:
        traceback.print_exc()
        os._exit(1)
    sys.stdout.flush()


class Attackers:
    """Attackers, in a process of their own."""

    def __init__(self, node, name, equal):
        self.pipe, theirs = multiprocessing.Pipe()
        self.process = FORK.Process(
            target=act, args=(node, name, equal, theirs))
        self.is_broken = False

    def __enter__(self):
        self.process.start()
        while self.process.is_alive() and not self.pipe.poll(0.1):
            pass
        return self

    def __exit__(self, *_):
        if self.process.is_alive():
            self.pipe.send("enough")
        self.process.join(PATIENCE_S)
        self.is_broken = self.process.exitcode != 0
        self.process.kill()
        self.process.join()

    def cpu_seconds(self):
        try:
            return cpu_seconds([self.process.pid])
        except OSError:
            return 0


class Memory:
    """Of one process: what it is, was at most, and may be."""

    def __init__(self, name, pid):
        self.name, self.pid = name, pid
        self.before = memory_mb(pid)
        forget_peak(pid)
        self.most = self.after = self.before

    def look(self, pids):
        """After a restart that of its successor."""
        self.after = memory_mb(pids[self.name])
        self.most = max(self.most, memory_mb(pids[self.name], "VmHWM"))

    def may_grow(self):
        return sum(setting_mb(s) for s in BUDGETS[self.name]) + BESIDE_MB

    def is_good(self):
        return self.most - self.before <= self.may_grow()

    def say(self):
        say(f"  {self.name} memory before / most / after",
            f"{self.before:.0f} / {self.most:.0f} / {self.after:.0f} MB",
            f"+{self.may_grow():.0f} MB")


def setting_mb(name):
    """What a size is by default."""
    text = (SOURCE / "common/proto/defs/settings.def").read_text()
    return int(re.search(rf'SETTING\({name}, size, "(\d+)MiB"', text)[1])


def loop_times(pid):
    """Seconds that the thread of a process's loop ran, and waited for a
    processor."""
    ran, waited = Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split(
        )[:2]
    return int(ran) / 1e9, int(waited) / 1e9


def quiet_ms(phases, what):
    """The mean of before and after."""
    return sum(p.ms(what) for p in phases) / len(phases)


class Try:
    """One attack on a node of its own."""

    def __init__(self, name, equal):
        self.name, self.equal = name, equal

    def alone(self):
        with others_attacked(self.equal), Polites(self.node) as p:
            let_pass(QUIET_S)
        p.say("quiet")
        return p

    def spent(self, before=None):
        """Processor time, of those that were not restarted."""
        now = all_pids(self.node)
        return {n: cpu_seconds([now[n]]) - (before[n] if before else 0)
                for n in BUDGETS if now[n] == self.pids[n]}

    def loops(self, before=None):
        """The same of their loops: seconds run, and waited."""
        now = all_pids(self.node)
        return {n: [a - b for a, b in zip(
                        loop_times(now[n]), before[n] if before else (0, 0))]
                for n in ("httpd-0", "raftd") if now[n] == self.pids[n]}

    def attack(self):
        used, loops = self.spent(), self.loops()
        with Polites(self.node) as self.beside, \
                Attackers(self.node, self.name, self.equal) as attackers:
            let_pass(HOLD_S)
            self.attackers_s = attackers.cpu_seconds()
        self.is_broken = attackers.is_broken
        self.used, self.ran = self.spent(used), self.loops(loops)
        self.beside.say("under attack")

    def run(self):
        with running_node() as self.node:
            quiet = [self.alone()]
            self.pids = all_pids(self.node)
            self.memory = [Memory(n, self.pids[n]) for n in BUDGETS]
            self.attack()
            let_pass(SETTLE_S)
            quiet.append(self.alone())
            now = all_pids(self.node)
            for m in self.memory:
                m.look(now)
            self.restarted = [n for n, pid in self.pids.items()
                              if now.get(n) != pid]
        self.quiet_ones = quiet
        self.quiet = {w: quiet_ms(quiet, w) for w in ("p50", "p99")}

    def limit_ms(self, of_run):
        return min(TIMES * max(self.quiet["p99"], of_run), LATEST_MS)

    def is_good(self, of_run):
        return (self.beside.ms("p99") <= self.limit_ms(of_run)
                and not self.is_broken and not self.restarted
                and not self.beside.failed()
                and all(m.is_good() for m in self.memory))

    def say(self):
        for m in self.memory:
            m.say()
        say("  processor time of attackers", f"{self.attackers_s:.1f} s")
        for name, seconds in self.used.items():
            say(f"  processor time of {name}", f"{seconds:.1f} s")
        for name, (ran, waited) in self.ran.items():
            say(f"  loop of {name} ran / waited for a processor",
                f"{ran:.1f} / {waited:.1f} s")
        say("  polite failures", f"{self.beside.failed()}", "0")
        for why in self.beside.failures:
            say("   ", why)
        say("  restarted", ", ".join(self.restarted) or "none", "none")
        say("  polite p99 quiet / under attack",
            f"{self.quiet['p99']:.1f} / {self.beside.ms('p99'):.1f} ms",
            f"{LATEST_MS} ms")
        say("  load of the machine", f"{os.getloadavg()[0]:.1f}")

    def line(self, of_run):
        p99 = self.beside.ms("p99")
        return (f"  {self.name:<24}"
                f"{self.quiet['p50']:6.1f} /{self.quiet['p99']:6.1f}"
                f"{self.beside.ms('p50'):8.1f} /{p99:7.1f} /"
                f"{self.beside.ms('max'):7.1f}"
                f"{p99 / self.quiet['p99']:7.1f}{self.beside.failed():5}  "
                f"{','.join(self.restarted) or 'no':<8}"
                + "".join(f"{m.before:6.0f}/{m.most:4.0f}/{m.after:4.0f}"
                          for m in self.memory)
                + ("  good" if self.is_good(of_run) else "  NOT GOOD"))


def measure(name, equal):
    head(f"H  {name}: {' '.join((ATTACKS[name].__doc__ or name).split())}")
    t = Try(name, equal)
    t.run()
    t.say()
    return t


def main(*words):
    names = [w for w in words if w != "--equal"]
    equal = "--equal" in words
    unknown = [n for n in names if n not in ATTACKS]
    if unknown:
        sys.exit(f"hostile.py: no such attack: {' '.join(unknown)}; there are "
                 + " ".join(ATTACKS))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    tries = [measure(name, equal) for name in names or ATTACKS]
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    of_run = p99_of_all([q for t in tries for q in t.quiet_ones])
    head("H  p50 / p99 of ten polite clients in ms, quiet and under attack, "
         "there with the longest, and their failures; memory in MB "
         "before/most/after of " + ", ".join(BUDGETS)
         + ("; attackers have equal rights" if equal else ""))
    print(f"  p99 of all answers in quiet: {of_run:.1f} ms")
    print("  attack                       quiet              attack        "
          "ratio fail restarted")
    for t in tries:
        print(t.line(of_run), flush=True)
    good = all(t.is_good(of_run) for t in tries)
    verdict(good)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
