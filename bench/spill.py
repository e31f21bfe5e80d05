#!/usr/bin/env python3
"""Jobs for next year: they cost disk, not memory.

Normal jobs and jobs for next year are added to two nodes in turn, so that their
rates can be compared; then, each on a node of its own, many more of both, since
what a job costs when there are few says little of the last of many. What raftd
needs with those for next year, when all has come to rest, is compared with what
it needed empty.

  spill.py [jobs]
"""

import sys
import time

from figures import (head, let_pass, load, median, pss_mb,
                     running_node, say, spread, verdict, wait_for_view)

YEAR_S = 365 * 86400
ROUNDS = 6
ROUND = 300000
REST_S = 30


def raftd_mb(node):
    return pss_mb(node.pids()["raftd"])


def fill(node, count, **options):
    return load(node, "fill", count=count, connections=8, batch=500,
                **options)["fill_jobs_per_s"]


def restart(node, how):
    how()
    began = time.monotonic()
    node.start()
    return time.monotonic() - began


def rates():
    """{kind: jobs/s of each round}: both kinds in turn, each on its node. The
    store of one may still merge while the other is filled, so each is the first
    as often as the second."""
    got = {"now": [], "later": []}
    with running_node() as normal, running_node() as later:
        kinds = [("now", normal, {}), ("later", later, {"delay": YEAR_S})]
        for _ in range(ROUNDS):
            for kind, node, options in kinds:
                got[kind].append(fill(node, ROUND, queue=kind, **options))
                wait_for_view(node)
            kinds.reverse()
    return got


def many_normal(jobs):
    with running_node() as node:
        return fill(node, jobs, queue="now")


def main(jobs=10000000):
    head(f"S  {jobs:,} jobs scheduled for next year")
    got = rates()
    share = median(got["later"]) / median(got["now"])
    say("normal enqueues, jobs/s", spread(got["now"]))
    say("enqueues for next year, jobs/s", spread(got["later"]))
    say("for next year / normal", f"{share:.2f}", ">= 0.80")
    normal = many_normal(jobs)
    say("as many normal ones, jobs/s", f"{normal:,.0f}")
    with running_node() as node:
        let_pass(3)
        empty = raftd_mb(node)
        say("raftd, empty (PSS)", f"{empty:.0f} MB")
        rate = fill(node, jobs, queue="later", delay=YEAR_S)
        say("all of them, jobs/s", f"{rate:,.0f}")
        say("all of them / normal ones", f"{rate / normal:.2f}", ">= 0.80")
        say("raftd right after (PSS)", f"{raftd_mb(node):.0f} MB")
        wait_for_view(node, 3600)
        let_pass(REST_S)
        grown = raftd_mb(node) - empty
        say("raftd at rest: more than empty", f"{grown:.0f} MB", "<= 50 MB")
        say("that is per job", f"{grown * (1 << 20) / jobs:.1f} bytes")
        stopped = restart(node, node.stop)
        killed = restart(node, node.kill_all)
        say("start after a stop", f"{stopped:.2f} s", "< 5 s")
        say("start after SIGKILL", f"{killed:.2f} s", "< 5 s")
        let_pass(REST_S)
        again = raftd_mb(node) - empty
        say("raftd after that: more than empty", f"{again:.0f} MB",
            "<= 50 MB")
        with node.client() as c:
            there = c.queue("later")["scheduled"]
        say("jobs that are there", f"{there:,}", f"{jobs:,}")
    verdict(min(share, rate / normal) >= 0.8 and grown <= 50 and again <= 50 and
            max(stopped, killed) < 5 and there == jobs)


if __name__ == "__main__":
    main(*(int(x) for x in sys.argv[1:]))
