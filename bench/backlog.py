#!/usr/bin/env python3
"""Lifecycles in batches of 100 while other jobs wait before them.

Queues of one node take turns. In one everything is taken soon (another one each
time, as a round leaves jobs behind), in the other so many jobs wait all the
time: what is taken there was not just put in, but is read back.

  backlog.py [jobs] [rounds] [seconds]
"""

import sys

from figures import (head, load, load_cost, median, running_node, say, spread,
                     wait_for_view)

PROCESSES = ("raftd", "httpd-0", "viewd")
RATE = "batch_lifecycles_per_s"


def main(jobs=50000, rounds=5, seconds=4):
    head(f"L  lifecycles behind {jobs:,} jobs that wait ({rounds} rounds)")
    rates = {"short": [], "long": []}
    costs = {"short": [], "long": []}
    with running_node() as node:
        load(node, "fill", queue="long", count=jobs, connections=4, batch=100)
        for i in range(rounds):
            for kind, queue in (("short", f"short-{i}"), ("long", "long")):
                wait_for_view(node)
                got, cost = load_cost(node, "lifecycle-batch", RATE, PROCESSES,
                                      seconds, queue=queue, producers=4,
                                      workers=4, backlog=5000)
                rates[kind].append(got[RATE])
                costs[kind].append(cost)
    for kind in rates:
        say(f"{kind} queue, lifecycles/s", spread(rates[kind]),
            ", ".join(f"{p} {median([c[p] for c in costs[kind]]):.1f} us"
                      for p in PROCESSES))
    say("long / short",
        f"{median(rates['long']) / median(rates['short']):.3f}", ">= 0.80")


if __name__ == "__main__":
    main(*(int(x) for x in sys.argv[1:]))
