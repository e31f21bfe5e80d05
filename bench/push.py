#!/usr/bin/env python3
"""Calls of push queues, all durable, to a receiver on the same machine.

First as many as one node can make. Then a steady stream to a thousand hosts,
once with all of them well, once with one that never answers and one that takes
ten seconds: what do the others notice?

  push.py [jobs] [seconds]
"""

import json
import sys
import threading
import time

from figures import (all_pids, cpu_seconds, head, let_pass, median,
                     running_node, say, verdict)
from node import API, wait_until
from sinks import percentile, push_queue, sinking

GOAL = 5000
QUEUES = 8
HOSTS = 1000
RATE = 1000
EVERY_S = 0.02
ROUNDS = 3
SILENT, LATE = 17, 42


def enqueue(client, jobs):
    a = client.request("POST", f"{API}/enqueue/batch",
                       json.dumps({"jobs": jobs}).encode())
    assert a.status == 201, a


def completed(client, queues):
    return sum(client.get(f"{API}/queues/{q}").json["completed"]
               for q in queues)


def feed(node, queue, n):
    with node.client() as c:
        for _ in range(0, n, 500):
            enqueue(c, [{"queue": queue, "payload": {"t": time.time_ns()}}
                        for _ in range(500)])


def most(jobs):
    """Calls per second while there is always work."""
    queues = [f"q{n}" for n in range(QUEUES)]
    with sinking(QUEUES) as s, running_node() as node:
        with node.client() as c:
            for n, q in enumerate(queues):
                push_queue(c, q, s.url(n), concurrency=64)
            feeders = [threading.Thread(target=feed,
                                        args=(node, q, jobs // QUEUES))
                       for q in queues]
            pids = list(all_pids(node).values())
            before, began = cpu_seconds(pids), time.monotonic()
            for f in feeders:
                f.start()
            for f in feeders:
                f.join()
            wait_until(lambda: completed(c, queues) >= jobs, 300, every=0.1)
            took = time.monotonic() - began
            cpu = cpu_seconds(pids) - before
        calls = s.end()
    assert len({x.id for x in calls}) == jobs
    return jobs / took, len(calls) - jobs, cpu / jobs * 1e6


def stream(node, seconds):
    """RATE jobs a second, over all hosts in turn."""
    with node.client() as c:
        n, began = 0, time.monotonic()
        while time.monotonic() < began + seconds:
            now = time.time_ns()
            enqueue(c, [{"queue": f"h{(n + k) % HOSTS}", "payload": {"t": now}}
                        for k in range(int(RATE * EVERY_S))])
            n += int(RATE * EVERY_S)
            let_pass(max(0, began + n / RATE - time.monotonic()))
    return n


def many_hosts(seconds, silent, late):
    """Milliseconds from enqueue to the receiver, of the hosts that are well."""
    with sinking(HOSTS, silent, late) as s, running_node() as node:
        with node.client() as c:
            for n in range(HOSTS):
                push_queue(c, f"h{n}", s.url(n), timeout="5s")
            stream(node, 3)  # connections are there, as they would be
            let_pass(1)
            since = time.time_ns()
            n = stream(node, seconds)
            let_pass(2)
        calls = s.end()
    late_ms = [(x.at - x.t) / 1e6 for x in calls
               if x.t >= since and x.host not in (SILENT, LATE)]
    wanted = sum(1 for k in range(n) if k % HOSTS not in (SILENT, LATE))
    return late_ms, wanted


def well_and_ill(seconds):
    """{which: (p99 in ms, whether all calls of the others came)}"""
    got = {}
    for name, silent, late in (("all well", -1, -1),
                               ("one silent, one late", SILENT, LATE)):
        ms, wanted = many_hosts(seconds, silent, late)
        got[name] = percentile(ms, 0.99), len(ms) >= wanted
        say(f"{name}: calls of the others", f"{len(ms):,}", f"{wanted:,}")
        say(f"{name}: p50, p99, max",
            f"{percentile(ms, 0.5):.1f}, {got[name][0]:.1f}, "
            f"{max(ms):.1f} ms")
    return got


def main(jobs=60000, seconds=10):
    head(f"P  push queues: {jobs:,} calls, then {RATE} a second to {HOSTS} "
         "hosts")
    rate, twice, cpu = most(jobs)
    say("calls per second, durable", f"{rate:,.0f}", f">= {GOAL:,}")
    say("called twice", str(twice), "0")
    say("processor time of the node per call", f"{cpu:,.0f} us")
    rounds = [well_and_ill(seconds) for _ in range(ROUNDS)]
    share = median(r["one silent, one late"][0] / r["all well"][0]
                   for r in rounds)
    say("p99 with them / without, median of rounds", f"{share:.2f}", "about 1")
    verdict(rate >= GOAL and twice == 0 and share < 1.5 and
            all(came for r in rounds for _, came in r.values()))


if __name__ == "__main__":
    main(*(int(x) for x in sys.argv[1:]))
