#!/usr/bin/env python3
"""Fetch rate while the view catches up with a million fresh jobs.

The view is away while the jobs are put in, and reads them while others are
fetched. The rounds take turns with as many fetches beside a view that has
nothing to do.

  catch_up.py [jobs] [rounds]
"""

import sys

from figures import head, load, median, say, spread, verdict, wait_for_view
from view_rate import node_without_view

TAKE = 20000


def fetch(node, rates):
    load(node, "fill", queue="work", count=TAKE, connections=4, batch=100)
    rates.append(load(node, "fetch", queue="work", count=TAKE,
                      connections=16)["fetch_per_s"])


def behind(node):
    with node.client(timeout=60) as c:
        return c.metrics()["corvo_view_lag_events"]


def main(jobs=1000000, rounds=3):
    head(f"C  fetch while the view catches up {jobs:,} jobs ({rounds} rounds)")
    rates = {"alone": [], "beside": []}
    left = []
    with node_without_view() as node:
        node.start("viewd")
        for _ in range(rounds):
            wait_for_view(node)
            fetch(node, rates["alone"])
            node.stop("viewd")
            load(node, "fill", queue="fresh", count=jobs, connections=4,
                 batch=500)
            node.start("viewd")
            fetch(node, rates["beside"])
            left.append(behind(node))
    say("fetches/s, the view has nothing to do", spread(rates["alone"]))
    say("fetches/s, it catches up", spread(rates["beside"]))
    say("events it had still to read then", spread(left), "> 0")
    ratio = median(rates["beside"]) / median(rates["alone"])
    say("beside / alone", f"{ratio:.3f}", ">= 0.80")
    verdict(ratio >= 0.8 and min(left) > 0)


if __name__ == "__main__":
    main(*(int(x) for x in sys.argv[1:]))
