#!/usr/bin/env python3
"""Three nodes on this machine beside one node, in turns.

  three.py [rounds] [seconds]
"""

import sys

from figures import (head, load, median, running_cluster, running_node, say,
                     verdict, wait_for_view)

KINDS = {
    "single enqueues": ("enqueue", "enqueue_per_s", {"connections": 128}),
    "lifecycles in batches of 100": (
        "lifecycle-batch", "batch_lifecycles_per_s",
        {"producers": 4, "workers": 4, "batch": 100}),
}
LEAST = {"single enqueues": 0.5, "lifecycles in batches of 100": 0.35}
WAKE_MOST = 2.0


def rate(nodes, node, kind, seconds):
    mode, name, options = KINDS[kind]
    got = load(node, mode, time=seconds, **options)[name]
    for n in nodes:  # the next one is not to pay for this one
        wait_for_view(n)
    return got


def wake(node):
    """Microseconds, p50: from an enqueue to a worker that waits."""
    return load(node, "wake", queue="wake", workers=1, count=1000,
                gap=2)["wake_p50_us"]


def one_round(seconds, found):
    with running_node() as node:
        for kind in KINDS:
            found["one", kind].append(rate([node], node, kind, seconds))
        found["one", "wake"].append(wake(node))
    with running_cluster() as three:
        leader, follower = three.leader(), three.followers()[0]
        for kind in KINDS:
            for where, node in (("leader", leader), ("follower", follower)):
                found[where, kind].append(
                    rate(three.nodes, node, kind, seconds))
        for _ in range(2):  # in turns: they are compared with each other
            found["leader", "wake"].append(wake(leader))
            found["follower", "wake"].append(wake(follower))
        return three.leader() is leader


def report(middle):
    """True when all limits are kept."""
    good = True
    for kind, least in LEAST.items():
        one = middle["one", kind]
        ratio = middle["leader", kind] / one
        good = good and ratio >= least
        say(f"{kind}, one node, per second", f"{one:,.0f}")
        say("  three, through the leader, x one", f"{ratio:.2f}",
            f">= {least}")
        say("  three, through a follower, x one",
            f"{middle['follower', kind] / one:.2f}")
    for where in ("one", "leader", "follower"):
        say(f"enqueue to a waiting worker, {where}, p50",
            f"{middle[where, 'wake']:.0f} us")
    ratio = middle["follower", "wake"] / middle["leader", "wake"]
    say("  through a follower, x through the leader", f"{ratio:.2f}",
        f"<= {WAKE_MOST:g}")
    return good and ratio <= WAKE_MOST


def main(rounds=3, seconds=4):
    head(f"F  three nodes on one machine ({rounds} rounds of {seconds} s)")
    found = {(where, what): [] for where in ("one", "leader", "follower")
             for what in (*KINDS, "wake")}
    for _ in range(rounds):
        if not one_round(seconds, found):
            say("the leader changed meanwhile", "run again")
            verdict(False)
            return
    verdict(report({k: median(v) for k, v in found.items()}))


if __name__ == "__main__":
    main(*(int(x) for x in sys.argv[1:]))
