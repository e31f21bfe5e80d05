#!/usr/bin/env python3
"""How long after its moment a job is handed out.

  timers.py [jobs]
"""

import sys

from figures import head, load, meanwhile, running_node, say

MANY = 600000  # jobs for next year, put into the queue meanwhile
YEAR_S = 365 * 24 * 3600


def show(name, got, key, limit):
    for what in ("min", "p50", "p99", "max"):
        say(f"{name}, {what}", f"{got[f'{key}_{what}_us'] / 1000:.2f} ms",
            limit if what in ("min", "max") else "")


def among_many(node, jobs):
    with meanwhile(node, "fill", queue="many", count=MANY, connections=4,
                   batch=100, delay=YEAR_S):
        return load(node, "schedule", count=jobs, workers=8, gap=10,
                    queue="many")


def main(jobs=500):
    head(f"E  timers, {jobs} jobs each, to parked workers")
    with running_node() as node:
        got = load(node, "schedule", count=jobs, workers=8, gap=10)
        show("after scheduled_at", got, "schedule_delay", "0 .. 20 ms")
        got = load(node, "lease", count=jobs, workers=8, gap=10, lease=1,
                   queue="lease")
        show("after the end of a lease", got, "lease_delay", "0 .. 50 ms")
        show("after scheduled_at, at full load", among_many(node, jobs),
             "schedule_delay", "")


if __name__ == "__main__":
    main(*(int(x) for x in sys.argv[1:]))
