#!/usr/bin/env python3
"""As many groups as jobs: they cost disk, not memory.

Without settings of groups all jobs of a queue stand in one lane; raftd is
measured right after they came, at rest, and after a restart. Then fewer groups
with fairness, where each that waits has a lane of its own; and how long a queue
hands out nothing when fairness is set while so many jobs wait.

  groups.py [jobs [fair]]
"""

import sys
import time

from figures import (head, let_pass, load, rss_mb, running_node, say, verdict,
                     wait_until)
from node import API

LIMIT_MB = 600
REST_S = 20
WAIT_S = 600


def raftd_mb(node):
    return rss_mb(node.pids()["raftd"])


def fill(node, jobs):
    rate = load(node, "fill", count=jobs, connections=8, batch=500,
                payload=10, queue="deep", groups=jobs)["fill_jobs_per_s"]
    say("  enqueued, jobs/s", f"{rate:,.0f}")


def restart(node):
    node.stop()
    began = time.monotonic()
    node.start()
    say("  start after a stop", f"{time.monotonic() - began:.2f} s")


def set_fairness(node, how):
    with node.client(timeout=WAIT_S) as c:
        a = c.request("PATCH", f"{API}/queues/deep", {"fairness": how})
        assert a.status == 200, a


def takes_one(node):
    with node.client() as c:
        got = c.post(f"{API}/fetch/batch",
                     {"queues": ["deep"], "count": 1, "timeout": 0})
        return got.status == 200 and len(got.json["jobs"]) == 1


def until_it_hands_out(node, how):
    began = time.monotonic()
    set_fairness(node, how)
    wait_until(lambda: takes_one(node), WAIT_S, "a job", every=0.05)
    return time.monotonic() - began


def measure(node, jobs):
    """Most memory at rest, also after a restart."""
    say("  raftd right after (RSS)", f"{raftd_mb(node):.0f} MB")
    let_pass(REST_S)
    rest = raftd_mb(node)
    say("  raftd at rest", f"{rest:.0f} MB")
    restart(node)
    again = raftd_mb(node)
    say("  raftd after the restart", f"{again:.0f} MB")
    say("  takes a job", "yes" if takes_one(node) else "no", "yes")
    say("  that is per group", f"{max(rest, again) * (1 << 20) / jobs:.0f} "
        "bytes")
    return max(rest, again)


def main(jobs=10000000, fair=1000000):
    head(f"G  {jobs:,} jobs of as many groups")
    with running_node() as node:
        let_pass(3)
        say("raftd, empty (RSS)", f"{raftd_mb(node):.0f} MB")
        say("without fairness", f"{jobs:,} jobs")
        fill(node, jobs)
        most = measure(node, jobs)
        say("  most", f"{most:.0f} MB", f"<= {LIMIT_MB} MB")
    if fair == 0:
        return verdict(most <= LIMIT_MB)
    with running_node() as node:
        say("fairness is set later", f"{fair:,} jobs")
        fill(node, fair)
        say("  hands out again after",
            f"{until_it_hands_out(node, 'group'):.1f} s")
        measure(node, fair)
        say("  without fairness, after",
            f"{until_it_hands_out(node, 'none'):.2f} s")
    return verdict(most <= LIMIT_MB)


if __name__ == "__main__":
    main(*(int(x) for x in sys.argv[1:]))
