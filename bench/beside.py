#!/usr/bin/env python3
"""Two builds beside each other, in turns, each time on a fresh node.

What a machine does in a minute says little about the next one; what counts is
the ratio of the two within a round, and the processor time per job. A rate of
answers alone flatters whoever leaves work for later: the second one is that of
jobs whose rows are in the view, too.

  beside.py BUILD_DIR [rounds] [seconds]    BUILD_DIR: the other build, for
                                            example of the commit before
"""

import sys
import time
from pathlib import Path

from figures import (BUILD, cpu_seconds, head, load, median, running_node, say,
                     wait_for_view)

KINDS = {
    "single enqueues": ("enqueue", "enqueue_per_s", {"connections": 128}),
    "lifecycles one by one": ("lifecycle", "lifecycles_per_s",
                              {"producers": 64, "workers": 64}),
    "lifecycles in batches": ("lifecycle-batch", "batch_lifecycles_per_s",
                              {"producers": 4, "workers": 4, "batch": 100}),
}
PROCESSES = ["raftd", "httpd-0", "viewd"]


def measure(build, kind, seconds):
    """(jobs per second, the same to the last row, {process: CPU us per job})"""
    mode, rate, options = KINDS[kind]
    with running_node(build=build) as node:
        pids = node.pids()
        before = {p: cpu_seconds([pids[p]]) for p in PROCESSES}
        began = time.monotonic()
        answered = load(node, mode, time=seconds, **options)[rate]
        wait_for_view(node)
        jobs = answered * seconds
        return answered, jobs / (time.monotonic() - began), {
            p: (cpu_seconds([pids[p]]) - before[p]) * 1e6 / jobs
            for p in PROCESSES}


def show_ratios(what, found, at):
    ratios = [a[at] / b[at] for a, b in zip(found["this"], found["other"])]
    say(f"{what}, this / other", f"{median(ratios):.3f}",
        f"{min(ratios):.3f} .. {max(ratios):.3f}")


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
        show_ratios(kind, found, 0)
        show_ratios("  to the last row", found, 1)
        for name in builds:
            say(f"  {name}: per second / to the last row",
                f"{median([f[0] for f in found[name]]):.0f} / "
                f"{median([f[1] for f in found[name]]):.0f}",
                f"CPU us per job: {cpu_text([f[2] for f in found[name]])}")


if __name__ == "__main__":
    main(*sys.argv[1:2], *(int(a) for a in sys.argv[2:]))
