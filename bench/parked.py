#!/usr/bin/env python3
"""10,000 parked fetches on an idle node: what they cost, how fast they wake;
and as many connections that say nothing.

  parked.py [connections] [seconds]
"""

import contextlib
import http.client
import json
import resource
import socket
import sys
import time

from figures import (all_pids, cpu_seconds, head, let_pass, load, median,
                     parked_fetches, pss_mb, running_node, say)

ROOM = 1000  # connections beside them


def memory_of(node):
    pids = node.pids()
    return pss_mb(pids["httpd-0"]) + pss_mb(pids["raftd"])


def entries(node):
    with node.client() as c:
        return c.metrics()["corvo_raft_entries_total"]


def wake(node, workers, count, gap=2):
    return load(node, "wake", queue="wake", gap=gap, workers=workers,
                count=count)


def show_wake(node, name, workers, count):
    """One job every 2 ms. The longer the pause, the more of the time is the
    machine's own way out of idleness, on each hop; 20 ms shows how much."""
    got = wake(node, workers, count)
    rare = wake(node, workers, 200, 20)
    say(f"{name}, p50", f"{got['wake_p50_us']:.0f} us", "< 600 us")
    say(f"{name}, p99", f"{got['wake_p99_us']:.0f} us", "< 3000 us")
    say("  the same with 20 ms between jobs, p50",
        f"{rare['wake_p50_us']:.0f} us")


def show_cost(node, fetches, seconds):
    before_mb, httpd_mb = memory_of(node), pss_mb(node.pids()["httpd-0"])
    with parked_fetches(node, fetches, seconds + 60):
        let_pass(2)
        grown_kb = (memory_of(node) - before_mb) * 1024 / fetches
        httpd_kb = ((pss_mb(node.pids()["httpd-0"]) - httpd_mb) * 1024 /
                    fetches)
        pids = all_pids(node).values()
        start, cpu = entries(node), cpu_seconds(pids)
        let_pass(seconds)
        cpu = cpu_seconds(pids) - cpu
        say("raft entries meanwhile", f"{entries(node) - start:.0f}", "0")
        say("CPU of all processes", f"{cpu / seconds * 100:.2f} %", "< 1 %")
        say("memory per fetch (PSS, httpd and raftd)",
            f"{grown_kb:.1f} KB", "< 64 KB")
        say("  of it httpd", f"{httpd_kb:.1f} KB", "< 10 KB")
        show_wake(node, "enqueue to a worker beside them", 1, 1000)


def show_ratio(node, fetches):
    """One and many in turns, so that both see the same machine."""
    one, many = [], []
    for _ in range(3):
        one.append(wake(node, 1, 500)["wake_p50_us"])
        many.append(wake(node, fetches, 2000)["wake_p50_us"])
    say(f"enqueue to one of {fetches} parked workers, p50",
        f"{median(many):.0f} us")
    say("  with one parked, in turns", f"{median(one):.0f} us")
    say("  ratio", f"{median(many) / median(one):.2f}", "<= 1.5")


def enqueue_ms(node):
    """By a client that comes anew."""
    start = time.perf_counter()
    c = http.client.HTTPConnection("127.0.0.1", node.port, timeout=60)
    c.request("POST", "/api/v1/enqueue", json.dumps({"queue": "silent"}))
    assert c.getresponse().status == 201
    c.close()
    return (time.perf_counter() - start) * 1000


def show_silent(n):
    """As many as there may be."""
    head(f"{n} connections that say nothing")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with running_node(f"--max-connections={n}") as node, \
            contextlib.ExitStack() as stack:
        enqueue_ms(node)
        before_mb = pss_mb(node.pids()["httpd-0"])
        for _ in range(n):
            stack.enter_context(
                socket.create_connection(("127.0.0.1", node.port), 60))
        times = [enqueue_ms(node) for _ in range(20)]
        say("enqueue of a client that comes then, first",
            f"{times[0]:.1f} ms", "< 100 ms")
        say("  of twenty, the slowest", f"{max(times):.1f} ms")
        say("memory per connection (PSS, httpd)",
            f"{(pss_mb(node.pids()['httpd-0']) - before_mb) * 1024 / n:.1f} KB")
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def main(fetches=10000, seconds=10):
    head(f"D  {fetches} parked fetches, {seconds} s idle")
    room = f"--max-connections={fetches + ROOM}"
    with running_node(room) as node:
        load(node, "wake", queue="warm", workers=2, count=200)
        let_pass(1)
        show_cost(node, fetches, seconds)
    with running_node(room) as node:
        show_ratio(node, fetches)
    show_silent(fetches)


if __name__ == "__main__":
    main(*(int(x) for x in sys.argv[1:]))
