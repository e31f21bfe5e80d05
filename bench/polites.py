"""Clients that do what clients do, beside whatever is measured: the load
program, in a process of its own. Each adds a job, takes it, acknowledges it and
asks for /healthz, with pauses.
"""

import subprocess

from figures import arguments, say

CLIENTS = 10
PAUSE_MS = 20
PATIENCE_S = 120  # for what they have asked to be answered


class Polites:
    """Clients that work on, in a process of their own."""

    def __init__(self, node):
        self.program = arguments(node, "polite", {
            "connections": CLIENTS, "gap": PAUSE_MS, "queue": "polite"})
        self.got, self.failures, self.tail_ms = {}, [], []

    def __enter__(self):
        self.process = subprocess.Popen(self.program, text=True,
                                        stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        return self

    def __exit__(self, *_):
        try:
            out = self.process.communicate("stop\n", timeout=PATIENCE_S)[0]
        except subprocess.TimeoutExpired:
            self.process.kill()
            out = self.process.communicate()[0]
        for line in out.splitlines():
            if line.startswith("failure "):
                self.failures.append(line)
                continue
            name, _, value = line.partition(" ")
            if name == "tail_us":
                self.tail_ms = [float(v) / 1e3 for v in value.split()]
            else:
                self.got[name] = float(value)

    def failed(self):
        return int(self.got.get("failed", 1))

    def ms(self, what):
        """Nobody was answered: for ever."""
        return self.got.get(f"polite_{what}_us", float("inf")) / 1e3

    def count(self):
        return self.got.get("polite_count", 0)

    def say(self, name):
        say(f"  {name}: answers, p50 / p99 / max",
            f"{self.count():.0f}, {self.ms('p50'):.1f} / "
            f"{self.ms('p99'):.1f} / {self.ms('max'):.1f} ms")


def p99_of_all(several):
    """In ms, of the answers to all of them. Each tail is the slowest tenth."""
    share = [(ms, p.count() / 1000) for p in several for ms in p.tail_ms]
    left = sum(p.count() for p in several) / 100
    for ms, n in sorted(share, reverse=True):
        left -= n
        if left < 0:
            return ms
    return float("inf")
