#!/usr/bin/env python3
"""What reports of usage cost: acks with a report beside acks without, in turns
on one node; and whether a million of them are summed up exactly, when the day
ends in the middle of them too.

  usage.py [reports] [jobs of a turn]

The processor time is that of corvo-raftd and corvo-httpd while jobs that were
taken before are acknowledged, one by one, over 64 connections. The sums of the
server are compared with what the event log says, added up here. The clock of
the node can be set in builds with CORVO_FAULTS only; in others no day ends.
"""

import contextlib
import subprocess
import sys
import time

from figures import (arguments, cpu_seconds, faults_built, head, let_pass, load,
                     median, running_node, say, spread, wait_for_view)
import usage_sums

REPORTS, TURN = 1_000_000, 25_000
LIMIT = 1.3
EVENTS_OF_JOB = 4
DAY = 86400
FOLLOW_S = 10       # a clock that was set is followed within
BEFORE_S = 0.3      # midnight comes so long after a turn began


@contextlib.contextmanager
def jobs_taken(node, jobs, usage):
    """The load program, with so many jobs in its hands."""
    options = {"queue": "paid", "count": jobs, "usage": usage, "lease": 3600,
               "connections": 64, "batch": 100}
    load(node, "fill", queue="paid", count=jobs, connections=4, batch=500)
    with subprocess.Popen(arguments(node, "ack", options), text=True,
                          stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as p:
        assert p.stdout.readline().split()[0] == "taken"
        wait_for_view(node)
        yield p


def acks(node, jobs, usage, begin=lambda: None):
    """Acks per second, and processor time of one in us."""
    pids = node.pids()
    served = [pid for name, pid in pids.items()
              if name == "raftd" or name.startswith("httpd")]
    with jobs_taken(node, jobs, usage) as p:
        begin()
        before = cpu_seconds(served)
        out, _ = p.communicate("\n")
        cost = (cpu_seconds(served) - before) * 1e6 / jobs
    assert p.returncode == 0, out
    got = dict(line.split() for line in out.splitlines())
    return float(got["ack_per_s"]), cost


def near_midnight(node):
    """The node's clock goes to just before the end of its day."""
    midnight = time.time() + FOLLOW_S
    node.set_clock(DAY - midnight % DAY)
    let_pass(midnight - BEFORE_S - time.time())


def turns(node, reports, turn):
    with_usage, without = [], []
    middle = reports // turn // 2
    for i in range(reports // turn):
        if i == middle and faults_built():
            acks(node, turn, 1, lambda: near_midnight(node))
            continue
        without.append(acks(node, turn, 0))
        with_usage.append(acks(node, turn, 1))
    return with_usage, without


def compare_costs(with_usage, without):
    """By neighbours: what others take of the machine changes from one minute
    to the next."""
    for name, what in (("with", with_usage), ("without", without)):
        say(f"acks per second {name} usage", spread([r for r, _ in what]))
        say(f"processor time of an ack {name}, us",
            f"{median([c for _, c in what]):.1f}")
    ratios = [a[1] / b[1] for a, b in zip(with_usage, without)]
    say("processor time, with / without",
        f"{median(ratios):.2f} ({min(ratios):.2f} .. {max(ratios):.2f})",
        f"at most {LIMIT}")


def compare_sums(node, since):
    with node.client(timeout=120) as c:
        told = usage_sums.of_events(c, "paid")
        same = usage_sums.of_server(c, "paid", since) == told
    say("reports in the event log", f"{told.total('count'):,}")
    say("days they are of", ", ".join(told.days()),
        "two" if faults_built() else "")
    say("cost in billionths of a usd", f"{told.total('cost'):,}")
    say("sums of the server", "the same" if same else "OTHERS",
        "the same")


def main(reports=REPORTS, turn=TURN):
    head(f"usage: {reports:,} reports")
    turn = min(turn, reports)
    since = usage_sums.day_of(time.time_ns())
    events = 2 * EVENTS_OF_JOB * (reports + turn)
    with running_node(f"--event-retention={events}") as node:
        compare_costs(*turns(node, reports, turn))
        compare_sums(node, since)


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:]))
