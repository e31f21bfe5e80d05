#!/usr/bin/env python3
"""One-off calls at their moments: how late does the receiver hear of them, and
what becomes of them when sched is killed again and again meanwhile?

  exact.py [calls] [seconds] [kills]
"""

import json
import os
import signal
import sys
import time
from collections import Counter

from figures import head, let_pass, running_node, say, verdict
from node import API, wait_until
from sinks import percentile, push_queue, sinking

LEAD_S = 3


def rfc3339(ns):
    s, rest = divmod(ns, 10**9)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(s)) + \
        f".{rest:09d}Z"


def plan(client, calls, seconds):
    """{id: moment}, all of them in the future."""
    first = time.time_ns() + LEAD_S * 10**9
    due = [first + n * seconds * 10**9 // calls for n in range(calls)]
    ids = []
    for n in range(0, calls, 1000):
        jobs = [{"queue": "exact", "scheduled_at": rfc3339(t),
                 "payload": {"t": t}} for t in due[n:n + 1000]]
        a = client.request("POST", f"{API}/enqueue/batch",
                           json.dumps({"jobs": jobs}).encode())
        assert a.status == 201, a
        ids += a.json["job_ids"]
    return dict(zip(ids, due))


def kill(node, kills, until_s):
    """Spread over the time that is left."""
    for n in range(kills):
        let_pass(max(0, (until_s - time.time()) / (kills - n + 1)))
        pid = node.pids()["sched"]
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda p=pid: node.pids().get("sched", p) != p,
                   what="another sched")


def measure(calls, seconds, kills):
    with sinking() as s, running_node() as node:
        with node.client() as c:
            push_queue(c, "exact", s.url(), concurrency=256)
            wanted = plan(c, calls, seconds)
            assert min(wanted.values()) > time.time_ns(), "too slow to plan"
            let_pass(max(0, min(wanted.values()) / 1e9 - time.time()))
            kill(node, kills, max(wanted.values()) / 1e9)
            wait_until(lambda: c.get(f"{API}/queues/exact").json[
                "completed"] >= calls, 120, every=0.1)
        seen = s.end()
    first = {}
    for x in seen:
        first.setdefault(x.id, x.at)
    late = [(first[i] - t) / 1e6 for i, t in wanted.items() if i in first]
    twice = sum(n - 1 for n in Counter(x.id for x in seen).values())
    return late, calls - len(late), twice


def show(name, calls, got):
    late, lost, twice = got
    say(f"{name}: early, lost, twice",
        f"{sum(x < 0 for x in late)}, {lost}, {twice}", "0, 0, 0")
    say(f"{name}: late p50, p99, max",
        f"{percentile(late, 0.5):.1f}, {percentile(late, 0.99):.1f}, "
        f"{max(late):.1f} ms", "p99 < 20 ms")


def main(calls=10000, seconds=10, kills=10):
    head(f"X  {calls:,} one-off calls over {seconds} s")
    calm = measure(calls, seconds, 0)
    show("in peace", calls, calm)
    hard = measure(calls, seconds, kills)
    show(f"sched killed {kills} times", calls, hard)
    verdict(min(calm[0]) >= 0 and min(hard[0]) >= 0 and
            percentile(calm[0], 0.99) < 20 and
            calm[1:] == (0, 0) and hard[1] == 0)


if __name__ == "__main__":
    main(*(int(x) for x in sys.argv[1:]))
