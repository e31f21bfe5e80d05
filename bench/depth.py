#!/usr/bin/env python3
"""Fetch rate from a queue of 1,000 jobs and from one of 1,000,000.

Both queues are in one node. The rounds take turns, with as many fetches each,
and what was taken is put back in between.

  depth.py [jobs] [rounds]
"""

import sys

from figures import (head, load, median, pss_mb, running_node, say, spread,
                     wait_for_view)

TAKE = 1000


def main(jobs=1000000, rounds=15):
    head(f"F  fetch from {TAKE:,} and from {jobs:,} queued ({rounds} rounds)")
    rates = {"shallow": [], "deep": []}
    with running_node() as node:
        load(node, "fill", queue="shallow", count=TAKE, connections=4)
        filled = load(node, "fill", queue="deep", count=jobs, connections=8,
                      batch=500)
        say("filling in batches of 500, jobs/s",
            f"{filled['fill_jobs_per_s']:,.0f}")
        wait_for_view(node)
        say("raftd memory (PSS)", f"{pss_mb(node.pids()['raftd']):.0f} MB",
            "< 1536 MB")
        for _ in range(rounds):
            for queue in rates:
                got = load(node, "fetch", queue=queue, count=TAKE,
                           connections=16)
                rates[queue].append(got["fetch_per_s"])
                load(node, "fill", queue=queue, count=TAKE, connections=4)
                wait_for_view(node)
        say("raftd memory afterwards (PSS)",
            f"{pss_mb(node.pids()['raftd']):.0f} MB", "< 1536 MB")
    say(f"fetches/s with {TAKE:,} queued", spread(rates["shallow"]))
    say(f"fetches/s with {jobs:,} queued", spread(rates["deep"]))
    say("deep / shallow",
        f"{median(rates['deep']) / median(rates['shallow']):.3f}", ">= 0.90")


if __name__ == "__main__":
    main(*(int(x) for x in sys.argv[1:]))
