#!/usr/bin/env python3
"""What limits, groups and many other things in a node cost a fetch.

Each case has two nodes, a plain one and one with the case in it, filled with
as many jobs. Rounds take turns between them, each beginning with the other one,
and what was taken is put back in between; what counts is the ratio within a
round, so that both see the same noise.

  fetch_paths.py [rounds] [percent of the full size of each case]
"""

import json
import sys

from figures import (head, load, median, running_node, say, spread,
                     wait_for_view)

API = "/api/v1"
TAKE = 3000
GROUPS = 10000
BATCH = 1000
ORDERS = (("plain", "with"), ("with", "plain"))


def settings(node, **members):
    with node.client() as c:
        a = c.request("PATCH", f"{API}/queues/q", members)
        assert a.status == 200, a


def enqueue_batches(node, jobs, times):
    """The same batch so many times; the server names the jobs."""
    body = json.dumps({"jobs": jobs})
    with node.client(timeout=120) as c:
        for _ in range(times):
            a = c.post(f"{API}/enqueue/batch", body)
            assert a.status == 201, a


def throttle(node, percent):
    """On, and far from being reached."""
    del percent
    settings(node, rate=1000000, period="1m")


def groups(node, percent):
    del percent
    settings(node, fairness="group")


def dependents(node, percent):
    with node.client() as c:
        first = c.enqueue("parents", scheduled_at="2099-01-01T00:00:00Z")
    enqueue_batches(node, [{"queue": "q", "depends_on": [first]}] * BATCH,
                    percent)


def other_queues(node, percent):
    n = 10000 * percent // 100
    for at in range(0, n, BATCH):
        enqueue_batches(node, [{"queue": f"other-{i}"} for i in
                               range(at, min(at + BATCH, n))], 1)


def scheduled(node, percent):
    enqueue_batches(node, [{"queue": "q", "payload": {},
                            "scheduled_at": "2099-01-01T00:00:00Z"}] * BATCH,
                    10 * percent)


def limits_and_fairness(node, percent):
    del percent
    settings(node, fairness="group", max_concurrency=1000000, rate=100000000,
             period="1m", group_max_concurrency=1000, group_rate=1000000,
             group_period="1m")


def fetches(node, **fill):
    got = load(node, "fetch", queue="q", count=TAKE, connections=16)
    load(node, "fill", queue="q", count=TAKE, connections=4, **fill)
    wait_for_view(node)
    return got["fetch_per_s"]


def lifecycles(node, **fill):
    got = load(node, "lifecycle", queue="q", time=1, **fill)
    wait_for_view(node)
    return got["lifecycles_per_s"]


def compare(name, setup, measure, rounds, percent, **fill):
    rates = {"plain": [], "with": []}
    with running_node() as plain, running_node() as other:
        setup(other, percent)
        nodes = {"plain": (plain, {}), "with": (other, fill)}
        for node, options in nodes.values():
            load(node, "fill", queue="q", count=TAKE + GROUPS, connections=4,
                 batch=500, **options)
            wait_for_view(node)
        for i in range(rounds):
            for which in ORDERS[i % 2]:
                node, options = nodes[which]
                rates[which].append(measure(node, **options))
    ratios = [w / p for w, p in zip(rates["with"], rates["plain"])]
    say(f"{name}, plain", spread(rates["plain"]))
    say(f"{name}", spread(rates["with"]))
    say(f"{name} / plain", f"{median(ratios):.3f}", ">= 0.90")


def main(rounds=41, percent=100):
    head(f"D  fetches/s, each case against a plain node ({rounds} rounds)")
    compare("throttle on", throttle, fetches, rounds, percent)
    compare("10,000 fair groups", groups, fetches, rounds, percent,
            groups=GROUPS)
    compare("100,000 blocked dependents", dependents, fetches, rounds, percent)
    compare("10,000 other queues", other_queues, fetches, rounds, percent)
    compare("1,000,000 scheduled jobs", scheduled, fetches, rounds, percent)
    head("D  lifecycles/s with limits and fairness against none")
    compare("limits and 100 fair groups", limits_and_fairness, lifecycles,
            rounds, percent, groups=100)
    compare("limits and 10,000 fair groups", limits_and_fairness, lifecycles,
            rounds, percent, groups=GROUPS)


if __name__ == "__main__":
    main(*(int(x) for x in sys.argv[1:]))
