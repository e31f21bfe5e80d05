#!/usr/bin/env python3
"""Jobs that wait for jobs, many of them: do others notice when they end?

A chain, a tree of ten children each and a fan, released by their first job's
end, failed by its cancellation, cleared and deleted with their queue; on a node
of its own each. raftd's processor time per job beside that of as many jobs in
graphs of a thousand says whether the cost grows with the size of a graph: until
the view knows all, and with nobody else there, as their work would count as
well, and more where it takes longer. A thousand jobs alone are told, too. They
cost less than a thousand among many, of whichever graph, since none of them has
left memory. Then it is done once more while ten polite clients work, whose
longest answer counts.

  dependents.py [--small] [jobs]
"""

import os
import sys
import time

from figures import (exact_cpu_seconds, head, median, running_node, say,
                     verdict, wait_for_view, wait_until)
from node import API
from polites import Polites

BASE = 1000
BASES = 5
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


def cost(node, c, shape, way, jobs, graphs=1):
    """Seconds of raftd's processor, per job."""
    raftd = node.pids()["raftd"]
    queues = [f"{shape}-{way}-{jobs}-{i}" for i in range(graphs)]
    ids = [make(c, queue, jobs, SHAPES[shape]) for queue in queues]
    wait_for_view(node)
    before = exact_cpu_seconds(raftd)
    for queue, of_queue in zip(queues, ids):
        WAYS[way](c, queue, of_queue)
    wait_for_view(node)
    return (exact_cpu_seconds(raftd) - before) / (jobs * graphs)


def alone_cost(node, c, shape, way):
    """Of a thousand with nobody else there, per job."""
    return median([cost(node, c, shape, way, BASE + i) for i in range(BASES)])


def beside_others(node, c, shape, way, jobs):
    """Seconds, and what the others noticed."""
    queue = f"{shape}-{way}-beside"
    ids = make(c, queue, jobs, SHAPES[shape])
    wait_for_view(node)
    with Polites(node) as others:
        began = time.monotonic()
        WAYS[way](c, queue, ids)
        took = time.monotonic() - began
    return took, others


def one(node, c, shape, way, jobs):
    """True when the limits are kept."""
    began = node.pids()["raftd"]
    alone = alone_cost(node, c, shape, way)
    small = cost(node, c, shape, way, BASE, max(1, jobs // BASE))
    large = cost(node, c, shape, way, jobs)
    took, others = beside_others(node, c, shape, way, jobs)
    same = node.pids()["raftd"] == began
    longest_ms = others.ms("max")
    say(f"{shape} of {jobs:,} {way}",
        f"{took:.1f} s, {large * 1e6:.0f} us of raftd a job")
    say("  a job, x one of graphs of 1,000",
        f"{large / small:.2f} ({small * 1e6:.0f} us)", f"<= {GROWTH:g}")
    say("  a job of 1,000 alone", f"{alone * 1e6:.0f} us")
    say("  longest answer of others", f"{longest_ms:.0f} ms",
        f"<= {LONGEST_MS} ms")
    others.say("others")
    if others.failed():
        say("  failures of others", str(others.failed()), "0")
    if not same:
        say("  raftd was restarted", "yes", "no")
    return (large <= GROWTH * small and longest_ms <= LONGEST_MS and
            not others.failed() and same)


def main(jobs):
    head(f"D  {jobs:,} dependents")
    good = True
    for shape in SHAPES:
        for way in WAYS:
            with running_node() as node, node.client(timeout=WAIT_S) as c:
                good = one(node, c, shape, way, jobs) and good
    say("load of the machine", f"{os.getloadavg()[0]:.1f}")
    verdict(good)
    return 0 if good else 1


if __name__ == "__main__":
    args = [a for a in sys.argv[1:] if a != "--small"]
    sys.exit(main(int(args[0]) if args else
                  2000 if "--small" in sys.argv else 50000))
