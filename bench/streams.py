#!/usr/bin/env python3
"""Streams of workers and producers beside nginx and the HTTP batch routes.

Each round measures nginx (`return 200`, wrk, 128 connections), single enqueues
by streams, lifecycles by streams with one job a frame, and lifecycles in
batches of 100: over HTTP, and by one producer and one worker that have a stream
each; each on a fresh node. What counts is the ratio within a round.

A stream is slowed down to stream_max_fps frames a second, which is for clients
one does not know; here it is off. Then: what streams cost that only wait.

  streams.py [rounds] [seconds]
"""

import sys

from enqueue_vs_nginx import nginx, wrk
from figures import (head, held, load_cost, median, pss_mb, running_node, say,
                     spread)

PROCESSES = ["httpd-0", "raftd", "viewd"]
FLAGS = ["--stream-max-fps=0"]
LIVES = "stream_lifecycles_per_s"
# name: (mode, its figure, options)
KINDS = {
    "single enqueues": (
        "stream-enqueue", "stream_enqueue_per_s",
        {"batch": 1, "producers": 16, "connections": 16, "depth": 64}),
    "lifecycles one by one": (
        "stream-lifecycle", LIVES,
        {"batch": 1, "producers": 8, "workers": 8, "connections": 16,
         "depth": 32}),
    "lifecycles in batches, one worker": (
        "stream-lifecycle", LIVES,
        {"batch": 100, "producers": 1, "workers": 1, "connections": 2,
         "depth": 8, "backlog": 5000}),
    "lifecycles in batches, HTTP": (
        "lifecycle-batch", "batch_lifecycles_per_s",
        {"batch": 100, "producers": 4, "workers": 4, "backlog": 5000}),
}
WAITING = 4000  # streams
LEAST = {"single enqueues": 0.9, "lifecycles one by one": 0.33}


def measure(kind, seconds):
    """(jobs per second, {process: CPU us per job}, p50 and p99 of enqueues)"""
    mode, rate, options = KINDS[kind]
    with running_node(*FLAGS) as node:
        got, cpu = load_cost(node, mode, rate, PROCESSES, seconds, **options)
        if got.get("refused_frames"):
            print(f"  {got['refused_frames']:.0f} frames were refused; the "
                  "figure is wrong")
        return got[rate], cpu, [got.get(f"stream_enqueue_{p}_us")
                                for p in ("p50", "p99")]


def show(kind, rows):
    say(f"{kind}, per second", spread([rate for rate, _, _ in rows]))
    cpu = ", ".join(f"{p} {median([c[p] for _, c, _ in rows]):.1f}"
                    for p in [*PROCESSES, "load"])
    say("  CPU us per job", cpu)
    if rows[0][2][0] is not None:
        p50, p99 = (median([t[i] for _, _, t in rows]) for i in (0, 1))
        say("  an enqueue is answered after, p50, p99",
            f"{p50:,.0f} us, {p99:,.0f} us")


def show_waiting():
    """Workers that wait for jobs, a stream each; 100 on a connection."""
    with running_node() as node:
        pids = node.pids()
        names = ("httpd-0", "raftd")
        before = {p: pss_mb(pids[p]) for p in names}
        with held(node, WAITING, "stream-lifecycle", workers=WAITING,
                  producers=1, connections=WAITING // 100, depth=1, backlog=0,
                  time=60):
            httpd, raftd = ((pss_mb(pids[p]) - before[p]) * 1024 / WAITING
                            for p in names)
    say(f"memory of {WAITING} streams that wait, httpd, each",
        f"{httpd:.1f} KB", "< 10 KB")
    say("  raftd, each", f"{raftd:.1f} KB")


def main(rounds=3, seconds=4):
    head(f"streams beside nginx and HTTP ({rounds} rounds of {seconds} s)")
    plain, found = [], {kind: [] for kind in KINDS}
    with nginx() as port:
        for _ in range(rounds):
            plain.append(wrk(port, seconds, "/")[0])
            for kind in KINDS:
                found[kind].append(measure(kind, seconds))
    say("nginx return 200, requests/s", spread(plain))
    for kind, rows in found.items():
        show(kind, rows)
    for kind, least in LEAST.items():
        ratios = [row[0] / n for row, n in zip(found[kind], plain)]
        say(f"{kind} / nginx", f"{median(ratios):.3f}", f">= {least}")
    one, http = (found[f"lifecycles in batches, {who}"]
                 for who in ("one worker", "HTTP"))
    say("batches, one worker / HTTP, 4 and 4",
        f"{median([a[0] / b[0] for a, b in zip(one, http)]):.3f}", ">= 1")
    show_waiting()


if __name__ == "__main__":
    main(*(int(x) for x in sys.argv[1:]))
