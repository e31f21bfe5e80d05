#!/usr/bin/env python3
"""How long raftd's loop is deaf on three nodes at full load.

  turns.py [seconds]

While a turn of it lasts no other node is heard. So each kind of load runs for
so long, on the leader and through a follower at once, and all turns of all
nodes are counted: how long they took, and how much processor time they used. On
a machine with less processors than the three nodes have processes, a turn also
waits for one. The limit: none uses over 50 ms, and nobody else leads at the end
than at the beginning.
"""

import sys

from figures import (head, meanwhile, running_cluster, load, say, verdict,
                     wait_for_view)

MOST_S = 0.05
KINDS = {
    "single enqueues": ("enqueue", {"connections": 128}),
    "enqueues in batches of 1,000": (
        "fill", {"count": 400000, "batch": 1000, "connections": 8}),
    "lifecycles in batches of 100": (
        "lifecycle-batch", {"producers": 4, "workers": 4, "batch": 100}),
    "lifecycles in batches of 1,000": (
        "lifecycle-batch", {"producers": 4, "workers": 4, "batch": 1000}),
    "jobs of 10 kB": (
        "enqueue", {"connections": 64, "payload": 10000}),
}


def turns(node):
    """By time and by work: {bound: how many turns were no longer}, of all
    since the start."""
    with node.client(timeout=60) as c:
        metrics = c.metrics()
    return [{float(series.split('"')[1]): n for series, n in metrics.items()
             if series.startswith(f"corvo_raft_turn_{what}_seconds_bucket")}
            for what in ("time", "cpu")]


def term(node):
    with node.client(timeout=60) as c:
        return c.get("/api/v1/cluster/status").json["term"]


def longer(before, after, bound):
    """How many since then took longer than that."""
    new = {b: after[b] - before[b] for b in after}
    return new[float("inf")] - max(
        (n for b, n in new.items() if b <= bound), default=0)


def longest(before, after):
    """The smallest bound that all turns since then kept."""
    bounds = sorted(b for b in after if longer(before, after, b) == 0)
    return bounds[0]


def one_kind(cluster, kind, seconds):
    mode, options = KINDS[kind]
    leader, follower = cluster.leader(), cluster.followers()[0]
    before = {n: turns(n) for n in cluster.nodes}
    with meanwhile(follower, mode, time=seconds, queue="other", **options):
        load(leader, mode, time=seconds, **options)
    found = []
    for n in cluster.nodes:
        found.append([(longer(b, a, MOST_S), longest(b, a))
                      for b, a in zip(before[n], turns(n))])
        wait_for_view(n)
    return found


def words(nodes):
    return ", ".join(f"{n:.0f} ({s * 1000:g} ms)" for n, s in nodes)


def main(seconds=15):
    head(f"turns of the loop, three nodes, {seconds} s of each")
    good = True
    with running_cluster() as cluster:
        first, lead = term(cluster.nodes[0]), cluster.leader()
        for kind in KINDS:
            found = one_kind(cluster, kind, seconds)
            times, works = zip(*found)
            good = good and not any(n for n, _ in works)
            say(kind, f"took {words(times)}; used {words(works)}",
                f"over {MOST_S * 1000:g} ms (longest)")
        elections = int(term(cluster.nodes[0])) - int(first)
        say("elections", elections, "0")
        verdict(good and elections == 0 and cluster.leader() is lead)


if __name__ == "__main__":
    main(*(int(x) for x in sys.argv[1:]))
