#!/usr/bin/env python3
"""What large batches leave in memory, under a limit as a container has it.

Sends batches of 14 MiB from several connections, lets the node rest, kills
corvo-raftd and starts the node again. Needs root, for a control group of its
own; without one the figures are printed all the same, without the limit.
"""

import collections
import contextlib
import os
import sys
import threading
from pathlib import Path

from figures import head, let_pass, memory_mb, say
from node import API, Node, wait_until

BATCHES = 100
CLIENTS = int(os.environ.get("CLIENTS", "8"))
LIMIT_MB = 768
PAYLOAD_BYTES = 250 << 10
JOBS = (14 << 20) // PAYLOAD_BYTES
GROUPS = Path("/sys/fs/cgroup")


class Group:
    """A control group with a limit of memory; falsy where none can be made."""

    def __init__(self, mb):
        self.path = None
        old = (GROUPS / "memory").is_dir()
        path = (GROUPS / "memory" if old else GROUPS) / f"corvo-{os.getpid()}"
        limit = "memory.limit_in_bytes" if old else "memory.max"
        try:
            path.mkdir()
            (path / limit).write_text(str(mb << 20))
        except OSError:
            return
        self.path = path
        self.kills_file = path / ("memory.oom_control" if old
                                  else "memory.events")

    def kills(self):
        words = self.kills_file.read_text().split() if self.path else []
        return int(words[words.index("oom_kill") + 1]) if words else 0

    def remove(self):
        if self.path:
            wait_until(lambda: not (self.path / "cgroup.procs").read_text(),
                       20, "the group to be empty")
            self.path.rmdir()


class LimitedNode(Node):
    def __init__(self, group, *flags):
        super().__init__("--log-level=warn", *flags)
        self.group = group

    def command(self, *flags):
        words = super().command(*flags)
        if self.group.path is None:
            return words
        return ["sh", "-c", 'echo $$ > "$0"; exec "$@"',
                str(self.group.path / "cgroup.procs"), *words]


class Attack:
    def __init__(self, node, batches):
        self.node = node
        self.left = batches
        self.lock = threading.Lock()
        self.answers = collections.Counter()
        job = {"queue": "heavy", "payload": "x" * PAYLOAD_BYTES}
        self.body = {"jobs": [job] * JOBS}
        self.raftds = set()
        self.peaks = collections.Counter()
        self.done = False

    def send(self):
        with self.node.client(timeout=60) as c:
            while True:
                with self.lock:
                    if self.left == 0:
                        return
                    self.left -= 1
                try:
                    answer = str(c.post(f"{API}/enqueue/batch",
                                        self.body).status)
                except OSError as e:
                    answer = type(e).__name__
                    c.close()
                with self.lock:
                    self.answers[answer] += 1

    def look(self):
        total = 0.0
        pids = self.node.pids()
        self.raftds.add(pids.get("raftd"))
        for name, pid in pids.items():
            rss = memory_mb(pid, "VmRSS")
            total += rss
            self.peaks[name] = max(self.peaks[name], rss)
        self.peaks["all together"] = max(self.peaks["all together"], total)

    def watch(self):
        while not self.done:
            with contextlib.suppress(OSError, ValueError):
                self.look()
            let_pass(0.02)

    def run(self):
        watch = threading.Thread(target=self.watch)
        watch.start()
        clients = [threading.Thread(target=self.send) for _ in range(CLIENTS)]
        for t in clients:
            t.start()
        for t in clients:
            t.join()
        let_pass(5)
        self.done = True
        watch.join()


def show(node, what):
    pid = node.pids().get("raftd")
    if pid is None:
        say(what, "corvo-raftd does not run")
        return
    say(what, f"{memory_mb(pid, 'VmRSS'):.0f} MB")


def measure(batches, limit_mb, *flags):
    group = Group(limit_mb)
    node = LimitedNode(group, *flags)
    try:
        node.start()
        attack = Attack(node, batches)
        attack.run()
        say("answers", ", ".join(f"{n} x {a}" for a, n in
                                 sorted(attack.answers.items())))
        for name, peak in sorted(attack.peaks.items()):
            say(f"peak of {name}", f"{peak:.0f} MB")
        say("starts of corvo-raftd",
            f"{len(attack.raftds - {None})}", "1")
        if node.process.poll() is not None:
            say("the node", "gave up")
            return
        show(node, "corvo-raftd after a rest")
        node.kill_all()
        node.start()
        show(node, "corvo-raftd after a start")
    finally:
        say("processes killed for memory", f"{group.kills()}", "0")
        node.clean_up(check=False)
        group.remove()


def main(batches=BATCHES, limit=LIMIT_MB, *flags):
    head(f"W  {batches} batches of 14 MiB from {CLIENTS} connections, "
         f"limit {limit} MiB")
    measure(int(batches), int(limit), *flags)


if __name__ == "__main__":
    main(*sys.argv[1:])
