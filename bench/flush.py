#!/usr/bin/env python3
"""A disk whose every flush takes 2 ms longer: what do 512 connections still do?

Each round enqueues one by one on a fresh node as its disk is, then on one whose
log waits that long after each flush. Many requests share a flush, so a slow one
costs latency and not rate. Needs a build with CORVO_FAULTS and its own log.

  flush.py [rounds] [seconds]
"""

import sys

from figures import (faults_built, head, load, median, running_node, say,
                     spread)

CONNECTIONS, DELAY_MS = 512, 2
LIMIT = 0.6


def enqueues(delay_ms, seconds):
    """(per second, p50 in ms)"""
    with running_node("--raft-store=segment") as node:
        node.flush_delay.write_text(str(delay_ms))
        got = load(node, "enqueue", connections=CONNECTIONS, time=seconds)
        return got["enqueue_per_s"], got["enqueue_p50_us"] / 1000


def main(rounds=5, seconds=4):
    head(f"F  every flush {DELAY_MS} ms longer, {CONNECTIONS} connections "
         f"({rounds} rounds)")
    if not faults_built():
        say("flush", "left out", "needs a build with CORVO_FAULTS")
        return
    rows = [(enqueues(0, seconds), enqueues(DELAY_MS, seconds))
            for _ in range(rounds)]
    say("as the disk is, enqueues/s", spread([a[0] for a, _ in rows]))
    say("with the delay, enqueues/s", spread([b[0] for _, b in rows]))
    say("p50, ms, without and with",
        " and ".join(f"{median([r[i][1] for r in rows]):.1f}"
                     for i in (0, 1)))
    say("with / without", f"{median(b[0] / a[0] for a, b in rows):.3f}",
        f">= {LIMIT}")


if __name__ == "__main__":
    main(*(int(x) for x in sys.argv[1:]))
