"""What lies between two nodes, and how it is told to be bad.

wires.py and proxy.py are programs that carry what nodes send each other, in
their own ways. Both read lines from stdin, each a JSON object

  {"1>2": {"cut": true}, "2>1": {"delay": 0.1, "jitter": 0.05}, ...}

that replaces all that was said before, and answer each with the line "ok". A
direction that is not named is clean. The end of stdin is their end.

  cut     nothing arrives
  delay   seconds later, and up to jitter more
  loss    share of packets that never arrive
  double  share of packets that arrive twice
  rate    bytes per second
"""

import json

CLEAN = {"cut": False, "delay": 0.0, "jitter": 0.0, "loss": 0.0,
         "double": 0.0, "rate": 0}


class Link:
    """One direction between two nodes."""

    def __init__(self, rng):
        self.rng = rng
        self.free = 0.0  # when the last byte is through, where there is a rate
        self.set({})

    def set(self, how):
        self.how = {**CLEAN, **how}

    def __getattr__(self, name):
        return self.how[name]

    def due(self, now, n):
        """When n bytes that were sent now arrive."""
        at = now + self.delay + self.rng.random() * self.jitter
        if self.rate:
            self.free = max(self.free, now) + n / self.rate
            at = max(at, self.free)
        return at


def read_command(text, links):
    """Sets all links, {"1>2": Link}, as a line says."""
    said = json.loads(text)
    for name, link in links.items():
        link.set(said.get(name, {}))


def all_links(n, rng):
    return {f"{a}>{b}": Link(rng) for a in range(1, n + 1)
            for b in range(1, n + 1) if a != b}
