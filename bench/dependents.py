#!/usr/bin/env python3
"""Jobs that wait for jobs, many of them: do others notice when they end?

A chain, a tree of ten children each and a fan, released by their first job's
end, failed by its cancellation, cleared and deleted with their queue. Ten
polite clients work meanwhile. raftd's processor time per job beside that of
several thousands by themselves says whether the cost grows with their number.

  dependents.py [--small] [jobs]
"""

import os
import sys
import time

from figures import cpu_seconds, head, running_node, say, verdict, wait_until
from node import API
from polites import Polites

BASE = 1000
BASES = 5  # one is too short to be measured
PART = 5000  # jobs of one request
LONGEST_MS = 250
GROWTH = 2.0
WAIT_S = 900


def chain(i):
    return i - 1


def tree(i):
    return (i - 1) // 10


def fan(_):
    return 0


SHAPES = {"chain": chain, "tree": tree, "fan": fan}


def depends_on(parent, ids, begin):
    return ids[parent] if parent < begin else f"#{parent - begin}"


def make(c, queue, jobs, parent_of):
    ids = []
    while len(ids) < jobs:
        begin = len(ids)
        part = []
        for i in range(begin, min(begin + PART, jobs)):
            job = {"queue": queue, "payload": 1}
            if i > 0:
                job["depends_on"] = [depends_on(parent_of(i), ids, begin)]
            part.append(job)
        answer = c.post(f"{API}/enqueue", {"jobs": part})
        assert answer.status == 201, answer
        ids += answer.json["job_ids"]
    return ids


def blocked(c, queue):
    answer = c.get(f"{API}/queues/{queue}")
    return answer.json["blocked"] if answer.status == 200 else 0


def release(c, queue, ids):
    """Of a chain each job has to be done for the next one."""
    def work():
        got = c.post(f"{API}/fetch/batch",
                     {"queues": [queue], "count": 500, "timeout": 0}).json
        done = [j["job_id"] for j in got["jobs"]]
        if done:
            acked = c.post(f"{API}/ack/batch",
                           {"acks": [{"job_id": j} for j in done]})
            assert acked.status == 200, acked
        return len(done)

    left = len(ids)
    while left > 0:
        left -= work()


def cancel(c, queue, ids):
    answer = c.post(f"{API}/jobs/{ids[0]}/cancel")
    assert answer.status == 200, answer
    wait_until(lambda: blocked(c, queue) == 0, WAIT_S, "all to hear of it",
               every=0.05)


def clear(c, queue, ids):
    answer = c.post(f"{API}/queues/{queue}/clear")
    assert answer.status == 200, answer
    assert answer.json["count"] == len(ids), answer.json


def delete(c, queue, ids):
    answer = c.request("DELETE", f"{API}/queues/{queue}?confirm=true")
    assert answer.status == 200, answer
    assert answer.json["count"] == len(ids), answer.json


WAYS = {"released": release, "cancelled": cancel, "cleared": clear,
        "deleted": delete}


def measure(node, c, shape, way, jobs):
    """Seconds, also of raftd's processor, and what another client noticed."""
    queue = f"{shape}-{way}-{jobs}"
    raftd = [node.pids()["raftd"]]
    ids = make(c, queue, jobs, SHAPES[shape])
    with Polites(node) as others:
        began, cpu = time.monotonic(), cpu_seconds(raftd)
        WAYS[way](c, queue, ids)
        took, cpu = time.monotonic() - began, cpu_seconds(raftd) - cpu
    return took, cpu, others


def base_cost(node, c, shape, way):
    """Of a thousand, per job."""
    costs = [measure(node, c, shape, way, BASE + i)[1] / (BASE + i)
             for i in range(BASES)]
    return sum(costs) / BASES


def one(node, c, shape, way, jobs):
    """True when the limits are kept."""
    small = base_cost(node, c, shape, way)
    took, cpu, others = measure(node, c, shape, way, jobs)
    growth = cpu / jobs / small if small > 0 else 0
    longest_ms = others.ms("max")
    say(f"{shape} of {jobs:,} {way}",
        f"{took:.1f} s, {cpu / jobs * 1e6:.0f} us of raftd a job")
    say("  a job, x one of 1,000", f"{growth:.2f}", f"<= {GROWTH:g}")
    say("  longest answer of others", f"{longest_ms:.0f} ms",
        f"<= {LONGEST_MS} ms")
    others.say("others")
    if others.failed():
        say("  failures of others", str(others.failed()), "0")
    return (growth <= GROWTH and longest_ms <= LONGEST_MS and
            not others.failed())


def main(jobs):
    head(f"D  {jobs:,} dependents")
    good = True
    with running_node() as node, node.client(timeout=WAIT_S) as c:
        began = node.pids()["raftd"]
        for shape in SHAPES:
            for way in WAYS:
                good = one(node, c, shape, way, jobs) and good
        same = node.pids()["raftd"] == began
        say("raftd was not restarted", "yes" if same else "no", "yes")
    say("load of the machine", f"{os.getloadavg()[0]:.1f}")
    verdict(good and same)


if __name__ == "__main__":
    args = [a for a in sys.argv[1:] if a != "--small"]
    main(int(args[0]) if args else 2000 if "--small" in sys.argv else 50000)
