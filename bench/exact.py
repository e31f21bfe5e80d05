#!/usr/bin/env python3
"""One-off calls at their moments: how late does the receiver hear of them, and
what becomes of them when sched is killed again and again meanwhile?

A call whose answer was not recorded when sched was killed is made again, under
the same id: that is what at least once means. Any other that comes twice is an
error, so those are counted apart.

  exact.py [calls] [seconds] [kills]
"""

import json
import os
import signal
import sys
import time
from collections import defaultdict
from datetime import datetime

from figures import head, let_pass, running_node, say, verdict
from node import API, wait_until
from sinks import percentile, push_queue, sinking

LEAD_S = 3
OPEN_NS = 10**9  # the receiver answers at once: nothing is open for as long
WAY_NS = 100 * 10**6  # what was sent before a kill may be heard of after it


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
    """Spread over the time that is left; when they were."""
    moments = []
    for n in range(kills):
        let_pass(max(0, (until_s - time.time()) / (kills - n + 1)))
        pid = node.pids()["sched"]
        moments.append(time.time_ns())
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda p=pid: node.pids().get("sched", p) != p,
                   what="another sched")
    return moments


def ended_ns(client, job_id):
    """When its end was recorded."""
    at = client.get(f"{API}/jobs/{job_id}").json["completed_at"]
    return int(datetime.fromisoformat(at[:19] + "+00:00").timestamp()
               ) * 10**9 + int((at[20:-1] + "0" * 9)[:9])


def was_open(first, second, end, kills):
    """The first of two calls was under way at a kill that came between them,
    and the job had not ended then."""
    return any(k - OPEN_NS <= first <= k + WAY_NS and k <= second and k < end
               for k in kills)


def repeated(client, seen, kills):
    """Ids that came more than once: those that were under way at a kill, and
    all others."""
    came = defaultdict(list)
    for x in seen:
        came[x.id].append(x.at)
    counts = [0, 0]
    for job_id, at in came.items():
        if len(at) == 1:
            continue
        end = ended_ns(client, job_id)
        counts[not all(was_open(a, b, end, kills)
                       for a, b in zip(at, at[1:]))] += 1
    return tuple(counts)


def measure(calls, seconds, kills):
    with sinking() as s, running_node() as node:
        with node.client() as c:
            push_queue(c, "exact", s.url(), concurrency=256)
            wanted = plan(c, calls, seconds)
            assert min(wanted.values()) > time.time_ns(), "too slow to plan"
            let_pass(max(0, min(wanted.values()) / 1e9 - time.time()))
            at = kill(node, kills, max(wanted.values()) / 1e9)
            wait_until(lambda: c.get(f"{API}/queues/exact").json[
                "completed"] >= calls, 120, every=0.1)
            seen = s.end()
            again = repeated(c, seen, at)
    first = {}
    for x in seen:
        first.setdefault(x.id, x.at)
    late = [(first[i] - t) / 1e6 for i, t in wanted.items() if i in first]
    return late, calls - len(late), again


def show(name, got):
    late, lost, (in_flight, others) = got
    say(f"{name}: early, lost",
        f"{sum(x < 0 for x in late)}, {lost}", "0, 0")
    say(f"{name}: ids that came again",
        f"{in_flight} under way at a kill, {others} not", "0 not")
    say(f"{name}: late p50, p99, max",
        f"{percentile(late, 0.5):.1f}, {percentile(late, 0.99):.1f}, "
        f"{max(late):.1f} ms", "p99 < 20 ms")


def main(calls=10000, seconds=10, kills=10):
    head(f"X  {calls:,} one-off calls over {seconds} s")
    calm = measure(calls, seconds, 0)
    show("in peace", calm)
    hard = measure(calls, seconds, kills)
    show(f"sched killed {kills} times", hard)
    verdict(min(calm[0]) >= 0 and min(hard[0]) >= 0 and
            percentile(calm[0], 0.99) < 20 and
            calm[1:] == (0, (0, 0)) and hard[1] == 0 and hard[2][1] == 0)


if __name__ == "__main__":
    main(*(int(x) for x in sys.argv[1:]))
