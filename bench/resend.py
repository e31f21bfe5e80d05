#!/usr/bin/env python3
"""raftd is killed while fetches wait and workers hold jobs: how long until the
node serves again? Every waiting fetch is sent again to the new raftd.

  resend.py [parked fetches] [active jobs] [rounds]
"""

import os
import signal
import sys
import time

from figures import (cpu_seconds, head, load, parked_fetches, pss_mb,
                     running_node, say, wait_for_view)
from node import API, wait_until

FETCH_COUNT = 500   # jobs taken at a time
LEASE_S = 3600
PARK_S = 3600
PROBE_S = 120       # longest a round may take


def take_jobs(node, count):
    """Workers hold so many jobs of queue `held`."""
    load(node, "fill", queue="held", count=count, connections=8, batch=500)
    with node.client() as c:
        taken = 0
        while taken < count:
            a = c.post(f"{API}/fetch/batch",
                       {"queues": ["held"], "count": FETCH_COUNT, "timeout": 0,
                        "worker_id": f"w{taken // FETCH_COUNT}",
                        "lease_duration": LEASE_S})
            assert a.status == 200 and a.json["jobs"], a
            taken += len(a.json["jobs"])


def kills_of(node):
    """Times the watchdog ended a process."""
    return sum("no sign of life" in line or "killing it" in line
               for line in node.log().splitlines())


def first_served(c, began):
    """Seconds until an enqueue is acknowledged, and how many were refused."""
    refused = 0
    while time.monotonic() < began + PROBE_S:
        if c.post(f"{API}/enqueue", {"queue": "probe"}).status == 201:
            return time.monotonic() - began, refused
        refused += 1
    return float("inf"), refused


def first_woken(c, began):
    """Seconds until a job has gone through one of the waiting workers."""
    job = c.enqueue("parked")
    wait_until(lambda: c.state(job) == "completed", PROBE_S,
               "a parked worker to take a job", every=0.002)
    return time.monotonic() - began


def parked_again(c, fetches, began):
    """Seconds until every fetch waits again."""
    wait_until(lambda: c.metrics()["corvo_parked_fetches"] >= fetches - 1,
               PROBE_S, "the fetches to be parked", every=0.02)
    return time.monotonic() - began


def one_round(node, n, fetches):
    with node.client(timeout=60) as c:
        restarts = node.ps("raftd")["restarts"]
        os.kill(node.pids()["raftd"], signal.SIGKILL)
        began = time.monotonic()
        served, refused = first_served(c, began)
        say(f"round {n}: seconds until an enqueue is answered",
            f"{served:.2f} s", "< 1.5 s")
        say(f"round {n}: processor time of the new raftd until then",
            f"{cpu_seconds([node.pids()['raftd']]):.2f} s")
        say(f"round {n}: answers of 503 and the like", refused, "0")
        say(f"round {n}: until a waiting worker did a job",
            f"{first_woken(c, began):.2f} s", "< 1.5 s")
        say(f"round {n}: until all wait again",
            f"{parked_again(c, fetches, began):.2f} s")
        entries = c.metrics()["corvo_raft_entries_total"]
    say(f"round {n}: raftd was started again",
        f"{node.ps('raftd')['restarts'] - restarts} times", "1")
    say(f"round {n}: log entries of the new raftd", f"{entries:.0f}")


def main(fetches=10000, jobs=200000, rounds=3):
    head(f"R  raftd killed with {fetches:,} waiting fetches, {jobs:,} active "
         "jobs")
    with running_node(f"--max-connections={fetches + 100}",
                      f"--idle-timeout={PARK_S}s") as node:
        take_jobs(node, jobs)
        wait_for_view(node)
        with parked_fetches(node, fetches, PARK_S):
            for n in range(1, rounds + 1):
                one_round(node, n, fetches)
        say("processes killed by the watchdog", kills_of(node), "0")
        say("raftd memory (PSS)", f"{pss_mb(node.pids()['raftd']):.0f} MB")


if __name__ == "__main__":
    main(*(int(x) for x in sys.argv[1:]))
