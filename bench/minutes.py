#!/usr/bin/env python3
"""Figures of seconds, for minutes: does a node at full load stay as it began?

Each kind of load runs for minutes on a fresh node, beside nginx before it. What
is looked at every second: how many jobs there are, how old the oldest event is
that the view does not have, the memory of all processes, the disk; and, to tell
why the longest answer was, what the machine and the disk did meanwhile.

  minutes.py [minutes] [KIND ...]    kinds: enqueue lifecycle batch; none: all
"""

import sys
import threading
import time

from enqueue_vs_nginx import nginx, wrk
from figures import (all_pids, cpu_seconds, disk_mb, head, load, median,
                     rss_mb, running_node, say, verdict, wait_for_view)

# mode, options, the metric that counts, the limit beside nginx
KINDS = {
    "enqueue": ("enqueue", {"connections": 128},
                "corvo_throughput_enqueued_total", 0.32),
    "lifecycle": ("lifecycle", {"producers": 64, "workers": 64},
                  "corvo_throughput_completed_total", None),
    "batch": ("lifecycle-batch", {"producers": 4, "workers": 4, "batch": 100},
              "corvo_throughput_completed_total", 0.7),
}
NGINX_S = 4
FIRST_S, LAST_S = 10, 60
EVERY_S = 1.0


class Watch(threading.Thread):
    """Looks at the node until it is ended."""

    def __init__(self, node, metric):
        super().__init__(daemon=True)
        self.node, self.metric = node, metric
        self.over = threading.Event()
        self.began = time.monotonic()
        self.rows = []  # (when, jobs, lag of the view, MB, MB on disk)
        self.states = []  # of the machine, beside them

    def run(self):
        pids = all_pids(self.node).values()
        with self.node.client(timeout=60) as c:
            while not self.over.wait(EVERY_S):
                m = c.metrics()
                if self.metric not in m:  # raftd did not answer within 1 s
                    continue
                self.rows.append((
                    time.monotonic(), m[self.metric],
                    m["corvo_view_lag_seconds"],
                    sum(rss_mb(p) for p in pids), disk_mb(self.node)))
                self.states.append((processor_ticks(), slow_flushes(m)))

    def end(self):
        if not self.is_alive():
            raise RuntimeError("nobody looked at the node until the end")
        self.over.set()
        self.join()

    def rate(self, rows):
        return (rows[-1][1] - rows[0][1]) / (rows[-1][0] - rows[0][0])

    def within(self, since, upto):
        began = self.rows[0][0]
        return [r for r in self.rows if since <= r[0] - began <= upto]


def processor_ticks():
    """(all, those that were not ours to use) since the machine started"""
    with open("/proc/stat", encoding="ascii") as f:
        ticks = [int(x) for x in f.readline().split()[1:9]]
    return sum(ticks), ticks[7]


def slow_flushes(metrics):
    """Flushes of the log since the start, and those of over 50 ms."""
    name = "corvo_raft_flush_time_seconds"
    n = metrics[f"{name}_count"]
    return n, n - metrics[name + '_bucket{le="0.05"}']


def tell_cause(w, at_s):
    """What there was in the seconds around that moment."""
    i = min(range(len(w.rows)), key=lambda k: abs(
        w.rows[k][0] - w.began - at_s))
    (all_0, away_0), flushes_0 = w.states[max(i - 2, 0)]
    (all_1, away_1), flushes_1 = w.states[min(i + 2, len(w.rows) - 1)]
    n, slow = (b - a for a, b in zip(flushes_0, flushes_1))
    away = 100 * (away_1 - away_0) / max(all_1 - all_0, 1)
    say(f"  it was at {at_s:.0f} s; around it",
        f"{slow:.0f} of {n:.0f} flushes over 50 ms; "
        f"{away:.0f} % of the processors were taken away by the host")


def tell_times(w, seconds):
    """Whether the rate was kept."""
    first = w.rate(w.within(0, FIRST_S))
    last = w.rate(w.within(seconds - min(LAST_S, seconds / 2) - 1, seconds))
    say("jobs/s in the first ten seconds, in the last minute",
        f"{first:,.0f}, {last:,.0f}")
    say("last / first", f"{last / first:.2f}", ">= 0.85")
    return last >= 0.85 * first


def tell_places(w, seconds):
    """Memory and disk at a fifth, at the middle and at the end."""
    at = [w.within(0, seconds * k)[-1] for k in (0.2, 0.5, 1)]
    say("memory of all processes (RSS), MB",
        " -> ".join(f"{r[3]:,.0f}" for r in at))
    say("disk, MB", " -> ".join(f"{r[4]:,.0f}" for r in at))


def run(name, seconds, plain):
    mode, options, metric, limit = KINDS[name]
    head(f"M  {name}, {seconds / 60:.1f} minutes")
    with running_node() as node:
        pids = {p: i for p, i in node.pids().items() if p != "sched"}
        before = {p: cpu_seconds([i]) for p, i in pids.items()}
        w = Watch(node, metric)
        w.start()
        got = load(node, mode, time=seconds, **options)
        w.end()
        ended = time.monotonic()
        wait_for_view(node)
        behind = time.monotonic() - ended
        jobs = w.rows[-1][1]
        cpu = {p: (cpu_seconds([i]) - before[p]) * 1e6 / jobs
               for p, i in pids.items()}
    rate = w.rate(w.rows)
    say("jobs/s", f"{rate:,.0f}",
        ", ".join(f"{p} {us:.1f}" for p, us in cpu.items()) + " us per job")
    ratio = rate / plain
    say("/ nginx", f"{ratio:.3f}", f">= {limit}" if limit else "")
    kept = tell_times(w, seconds)
    lag = max(r[2] for r in w.rows)
    say("rows of the view behind, at most; to the last one after",
        f"{lag:.2f} s; {behind:.2f} s", "<= 1 s")
    longest = {k: got[f"{k}_max_us"] / 1000
               for k in ("enqueue", "ack") if f"{k}_max_us" in got}
    say("longest answer, ms", ", ".join(f"{k} {ms:.0f}"
                                        for k, ms in longest.items()),
        "<= 100 ms")
    tell_cause(w, got[max(longest, key=longest.get) + "_max_at_s"])
    tell_places(w, seconds)
    return (kept and lag <= 1 and max(longest.values()) <= 100 and
            (limit is None or ratio >= limit))


def main(minutes=5, *names):
    good = True
    with nginx() as port:
        for name in names or KINDS:
            plain = median([wrk(port, NGINX_S, "/")[0] for _ in range(3)])
            say("nginx return 200, requests/s", f"{plain:,.0f}")
            good &= run(name, round(minutes * 60), plain)
    verdict(good)


if __name__ == "__main__":
    main(*(float(x) for x in sys.argv[1:2]), *sys.argv[2:])
