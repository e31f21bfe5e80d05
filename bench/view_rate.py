#!/usr/bin/env python3
"""How fast the view takes in what happened, and how far it is behind.

  a  catching up: lifecycles done while there was no view, then the view
     starts and reads them
  b  a steady load of half of what the node and its view can do one by one
  c  a burst of lifecycles in batches, and the time after it

A lag is an age: how long ago the first event happened that the view does not
hold yet. It is taken from two counters sampled together (the newest event,
the newest event of the view), so it does not depend on what the view says.

  view_rate.py [lifecycles of a] [seconds of b] [lifecycles of c]
"""

import bisect
import contextlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from figures import (BUILD, LOAD, arguments, cpu_seconds, head, load,
                     memory_mb, running_node, say, wait_for_view, wait_until)
from node import Client, free_port

LAG_LIMIT_S = 0.1
SAMPLE_S = 0.05
WORDS = {"words": 1}
PROGRAMS = ["raftd", "sched", "httpd"]


class ByHand:
    """A node without a supervisor, so that the view may come later."""

    def __init__(self):
        self.dir = Path(tempfile.mkdtemp(prefix="corvo-view-rate-"))
        self.port = free_port()
        self.flags = [f"--data-dir={self.dir}/data", "--log-level=warn",
                      f"--bind=127.0.0.1:{self.port}",
                      f"--raft-bind=127.0.0.1:{free_port()}"]
        self.processes = {}

    def start(self, name):
        program = BUILD / f"corvo-{name}" / f"corvo-{name}"
        self.processes[name] = subprocess.Popen([program, *self.flags])

    def stop(self, name):
        self.processes[name].terminate()
        self.processes.pop(name).wait(60)

    def cpu_us(self, name):
        return cpu_seconds([self.processes[name].pid]) * 1e6

    def client(self, timeout=30.0):
        return Client(self.port, timeout)

    def is_ready(self):
        with contextlib.suppress(OSError), self.client() as c:
            return c.get("/readyz").status == 200
        return False

    def clean_up(self):
        for p in self.processes.values():
            p.kill()
            p.wait()
        shutil.rmtree(self.dir)


@contextlib.contextmanager
def node_without_view():
    node = ByHand()
    try:
        for name in PROGRAMS:
            node.start(name)
        wait_until(node.is_ready, 30, "the node", every=0.1)
        yield node
    finally:
        node.clean_up()


class Sampler(threading.Thread):
    """Looks at both counters all the time until it is stopped."""

    def __init__(self, node):
        super().__init__(daemon=True)
        self.client = node.client()
        self.rows = []  # (time, newest event, newest event of the view)
        self.ending = threading.Event()

    def run(self):
        while not self.ending.is_set():
            before = time.monotonic()
            m = self.client.metrics()
            if "corvo_view_seq" in m:
                self.rows.append((before, m["corvo_event_seq"],
                                  m["corvo_view_seq"]))
            self.ending.wait(max(0, before + SAMPLE_S - time.monotonic()))

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.ending.set()
        self.join()
        self.client.close()

    def lags(self):
        """[(time, lag in seconds)]"""
        heads = [row[1] for row in self.rows]
        return [(at, max(0.0, at - self.happened(heads, seen)))
                for at, _, seen in self.rows]

    def happened(self, heads, seen):
        """When the event after `seen` was made, between two samples."""
        i = bisect.bisect_right(heads, seen)
        if i == len(heads):
            return self.rows[-1][0]
        if i == 0:
            return self.rows[0][0]
        t0, h0, _ = self.rows[i - 1]
        t1, h1, _ = self.rows[i]
        return t0 + (t1 - t0) * (seen - h0) / (h1 - h0)


def percentile(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * p / 100))]


def ms(seconds):
    return f"{seconds * 1000:.0f} ms"


def burst(node, lifecycles):
    return load(node, "lifecycle-batch", producers=4, workers=4, backlog=2000,
                total=lifecycles, **WORDS)["batch_lifecycles_per_s"]


def catch_up(lifecycles):
    head(f"C  the view catches up with {lifecycles:,} lifecycles")
    with node_without_view() as node:
        # A view that is empty is built from the store. This one is not: it
        # has seen the first event and then misses the others.
        node.start("viewd")
        with node.client() as c:
            c.enqueue("first")
        wait_for_view(node)
        node.stop("viewd")
        rate = burst(node, lifecycles)
        say("done without a view, lifecycles/s", f"{rate:,.0f}")
        with node.client() as c:
            events = c.metrics()["corvo_event_seq"]
        raftd_us = node.cpu_us("raftd")
        node.start("viewd")
        first = wait_until(lambda: seen_by_view(node), 60, "the view",
                           every=0.01)
        start = time.monotonic()
        wait_until(lambda: seen_by_view(node) >= events, 600, "the view",
                   every=0.1)
        took = time.monotonic() - start
        say("taken in by the view, lifecycles/s",
            f"{(events - first) / events * lifecycles / took:,.0f}",
            ">= 40,000")
        say("CPU time of viewd for each",
            f"{node.cpu_us('viewd') / lifecycles:.1f} us")
        say("CPU time of raftd for each",
            f"{(node.cpu_us('raftd') - raftd_us) / lifecycles:.1f} us")
        say("largest memory of viewd",
            f"{memory_mb(node.processes['viewd'].pid, 'VmHWM'):.0f} MB")


def seen_by_view(node):
    with node.client() as c:
        return c.metrics().get("corvo_view_seq", 0)


def sustained(node, seconds):
    """Lifecycles per second with everything that follows from them: under
    a load like this the view waits, so its catching up counts."""
    start = time.monotonic()
    rate = load(node, "lifecycle", producers=64, workers=64, time=seconds,
                **WORDS)["lifecycles_per_s"]
    wait_for_view(node)
    return rate * seconds / (time.monotonic() - start)


def steady(seconds):
    with running_node() as node:
        full = sustained(node, 4)
        head(f"C  lag under {full / 2:,.0f} lifecycles/s for {seconds} s")
        command = arguments(node, "lifecycle", {
            "producers": 32, "workers": 64, "backlog": 5000,
            "rate": int(full / 2), "time": seconds, "queue": "steady",
            **WORDS})
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as p:
            with Sampler(node) as sampler:
                done = p.stdout.read().split()
                p.wait()
        say("lifecycles/s", f"{float(done[1]):,.0f}")
        lags = [lag for _, lag in sampler.lags()]
        say("lag p50, p99, max", ", ".join(ms(x) for x in (
            percentile(lags, 50), percentile(lags, 99), max(lags))),
            "< 100 ms")


def after_burst(lifecycles):
    head(f"C  lag during and after a burst of {lifecycles:,} lifecycles")
    with running_node() as node:
        with Sampler(node) as sampler:
            rate = burst(node, lifecycles)
            ended = time.monotonic()
            with node.client() as c:
                wait_until(lambda: c.metrics()["corvo_view_lag_events"] == 0,
                           600, "the view", every=0.1)
                rebuilds = c.metrics()["corvo_view_rebuilds_total"]
        say("the burst, lifecycles/s", f"{rate:,.0f}")
        lags = sampler.lags()
        start = lags[0][0]
        for second in range(int(lags[-1][0] - start) + 1):
            here = [lag for at, lag in lags if int(at - start) == second]
            if here:
                say(f"  second {second}", ms(max(here)))
        late = [at for at, lag in lags if lag > LAG_LIMIT_S]
        back = max(0.0, (late[-1] if late else ended) - ended)
        say("under 100 ms again after the end", f"{back:.1f} s")
        say("rebuilds meanwhile", f"{rebuilds:.0f}", "0")
        say("largest memory of viewd",
            f"{memory_mb(node.pids()['viewd'], 'VmHWM'):.0f} MB")


def main(caught_up=300000, seconds=20, lifecycles=1000000):
    if caught_up:
        catch_up(caught_up)
    if seconds:
        steady(seconds)
    if lifecycles:
        after_burst(lifecycles)


if __name__ == "__main__":
    if not LOAD.exists():
        sys.exit(f"{LOAD} is missing; run: make benches")
    main(*(int(x) for x in sys.argv[1:]))
