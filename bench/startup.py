#!/usr/bin/env python3
"""A node with 1,000,000 queued jobs is killed with SIGKILL and started again.

  startup.py [jobs] [rounds]
"""

import sys
import time

from figures import head, load, pss_mb, running_node, say, wait_for_view

SAMPLES = 300


def main(jobs=1000000, rounds=3):
    head(f"C  start with {jobs:,} queued jobs after SIGKILL")
    with running_node() as node:
        samples = []
        parts = 10
        for _ in range(parts):
            with node.client() as c:
                samples += [c.enqueue("sample")
                            for _ in range(SAMPLES // parts)]
            load(node, "fill", queue="deep", count=jobs // parts,
                 connections=8, batch=500)
        wait_for_view(node)
        for n in range(1, rounds + 1):
            node.kill_all()
            began = time.monotonic()
            node.start()
            took = time.monotonic() - began
            with node.client() as c:
                there = sum(c.get(f"/api/v1/jobs/{i}").status == 200
                            for i in samples)
            say(f"round {n}: seconds until /readyz", f"{took:.2f} s", "< 3 s")
            say(f"round {n}: jobs of a sample that are there",
                f"{there} of {len(samples)}", "all")
        say("raftd memory (PSS)", f"{pss_mb(node.pids()['raftd']):.0f} MB")


if __name__ == "__main__":
    main(*(int(x) for x in sys.argv[1:]))
