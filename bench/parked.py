#!/usr/bin/env python3
"""1,000 parked fetches on an idle node: what they cost, how fast they wake.

  parked.py [fetches] [seconds]
"""

import sys

from figures import (all_pids, cpu_seconds, head, let_pass, load,
                     parked_fetches, pss_mb, running_node, say)


def memory_of(node):
    pids = node.pids()
    return pss_mb(pids["httpd-0"]) + pss_mb(pids["raftd"])


def entries(node):
    with node.client() as c:
        return c.metrics()["corvo_raft_entries_total"]


def show_wake(node, name, **options):
    """One job every 2 ms. The longer the pause, the more of the time is the
    machine's own way out of idleness, on each hop; 20 ms shows how much."""
    got = load(node, "wake", queue="wake", gap=2, **options)
    rare = load(node, "wake", queue="wake", gap=20,
                **{**options, "count": 200})
    say(f"{name}, p50", f"{got['wake_p50_us']:.0f} us", "< 600 us")
    say(f"{name}, p99", f"{got['wake_p99_us']:.0f} us", "< 3000 us")
    say("  the same with 20 ms between jobs, p50",
        f"{rare['wake_p50_us']:.0f} us")


def main(fetches=1000, seconds=10):
    head(f"D  {fetches} parked fetches, {seconds} s idle")
    with running_node() as node:
        load(node, "wake", queue="warm", workers=2, count=200)
        let_pass(1)
        before_mb = memory_of(node)
        with parked_fetches(node, fetches, seconds + 40):
            let_pass(2)
            grown_kb = (memory_of(node) - before_mb) * 1024 / fetches
            pids = all_pids(node).values()
            start, cpu = entries(node), cpu_seconds(pids)
            let_pass(seconds)
            cpu = cpu_seconds(pids) - cpu
            say("raft entries meanwhile", f"{entries(node) - start:.0f}", "0")
            say("CPU of all processes", f"{cpu / seconds * 100:.2f} %", "< 1 %")
            say("memory per fetch (PSS, httpd and raftd)",
                f"{grown_kb:.1f} KB", "< 64 KB")
            show_wake(node, "enqueue to a worker beside them", workers=1,
                      count=1000)
    with running_node() as node:
        show_wake(node, f"enqueue to one of {fetches} parked workers",
                  workers=fetches, count=2000)


if __name__ == "__main__":
    main(*(int(x) for x in sys.argv[1:]))
