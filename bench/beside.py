#!/usr/bin/env python3
"""Two builds beside each other, in turns, each time on a fresh node.

What a machine does in a minute says little about the next one; what counts is
the ratio of the two within a round, and the processor time per job.

  beside.py BUILD_DIR [rounds] [seconds]    BUILD_DIR: the other build, for
                                            example of the commit before
"""

import sys
from pathlib import Path

from figures import BUILD, head, load_cost, median, running_node, say

KINDS = {
    "single enqueues": ("enqueue", "enqueue_per_s", {"connections": 128}),
    "lifecycles one by one": ("lifecycle", "lifecycles_per_s",
                              {"producers": 64, "workers": 64}),
    "lifecycles in batches": ("lifecycle-batch", "batch_lifecycles_per_s",
                              {"producers": 4, "workers": 4, "batch": 100}),
}
PROCESSES = ["raftd", "httpd-0", "viewd"]


def measure(build, kind, seconds):
    """(jobs per second, {process: CPU us per job})"""
    mode, rate, options = KINDS[kind]
    with running_node(build=build) as node:
        got, cpu = load_cost(node, mode, rate, PROCESSES, seconds, **options)
        return got[rate], cpu


def cpu_text(rows):
    return ", ".join(f"{p} {median([r[p] for r in rows]):.1f}"
                     for p in PROCESSES)


def main(other=None, rounds=5, seconds=4):
    if other is None:
        say("beside", "left out", "bench/beside.py BUILD_DIR")
        return
    builds = {"other": Path(other).resolve(), "this": BUILD}
    head(f"two builds, {rounds} rounds of {seconds} s: other is "
         f"{builds['other']}")
    for kind in KINDS:
        found = {name: [] for name in builds}
        for i in range(rounds):
            # each of them is first in every second round
            for name in sorted(builds, reverse=i % 2 == 1):
                found[name].append(measure(builds[name], kind, seconds))
        ratios = [a[0] / b[0] for a, b in zip(found["this"], found["other"])]
        say(f"{kind}, this / other", f"{median(ratios):.3f}",
            f"{min(ratios):.3f} .. {max(ratios):.3f}")
        for name in builds:
            say(f"  {name}: per second",
                f"{median([r for r, _ in found[name]]):.0f}",
                f"CPU us per job: {cpu_text([c for _, c in found[name]])}")


if __name__ == "__main__":
    main(*sys.argv[1:2], *(int(a) for a in sys.argv[2:]))
