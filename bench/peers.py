#!/usr/bin/env python3
"""What people would pick instead, on the same machine in the same run.

Each round measures nginx (`return 200`, wrk, 128 connections), Corvo, and each
peer, on a fresh server each time: single enqueues by 128 clients, lifecycles
one by one (64 producers, 64 workers), lifecycles in batches of 100 (4 and 4),
and how long a job takes to a worker that waits for it. Jobs have 100 bytes.
What counts is the ratio to nginx within a round; those who are not durable are
there for comparison. A peer that cannot be measured is named with the reason.

  peers.py [--rounds N] [--seconds S] [NAME ...]     none: all of them
"""

import argparse
import contextlib
import signal
import subprocess
import sys
from types import SimpleNamespace

import peer_servers as servers
from enqueue_vs_nginx import nginx, wrk
from figures import head, load, median, running_node
from peer_servers import Missing

WAKES = 500
MODES = ["wake", "enqueue", "lifecycle", "batch"]  # the first: while idle
FIGURES = ["enqueue_per_s", "lifecycles_per_s", "batch_lifecycles_per_s",
           "wake_p50_us", "wake_p90_us"]
AOF = "Redis, AOF flushed at every write"
FLUSH = "flushed before the answer"

# name: (client, server, what an answer means)
PEERS = {
    "beanstalkd -f0": ("beanstalkd",
                       lambda: servers.beanstalkd("-b", "{dir}", "-f0"),
                       FLUSH),
    "beanstalkd -b": ("beanstalkd",
                      lambda: servers.beanstalkd("-b", "{dir}"),
                      "flushed every 50 ms: not durable"),
    "beanstalkd": ("beanstalkd", servers.beanstalkd,
                   "in memory: not durable"),
    "bullmq": ("bullmq", servers.redis, AOF),
    "asynq": ("asynq", servers.redis, AOF),
    "faktory": ("faktory", servers.faktory, AOF),
    "rabbitmq": ("rabbitmq", servers.rabbitmq, "quorum queue, confirmed"),
    "nats": ("nats", servers.nats, "JetStream, sync_interval always"),
    "river": ("river", servers.postgres, "PostgreSQL, synchronous commit"),
    "pg-boss": ("pg-boss", servers.postgres,
                "PostgreSQL, synchronous commit"),
    "graphile": ("graphile", servers.postgres,
                 "PostgreSQL, synchronous commit"),
}
GO_CORVO = "corvo in Go"


# --- measuring -----------------------------------------------------------


def by_load(node, seconds):
    """Whatever speaks Corvo's API."""
    return {**load(node, "wake", workers=1, count=WAKES, gap=2, queue="w"),
            **load(node, "enqueue", connections=128, time=seconds,
                   queue="e"),
            **load(node, "lifecycle", producers=64, workers=64,
                   time=seconds, queue="l"),
            **load(node, "lifecycle-batch", producers=4, workers=4,
                   backlog=5000, time=seconds, queue="b")}


def corvo(seconds):
    with running_node() as node:
        return by_load(node, seconds)


def go_corvo(seconds):
    with servers.go_corvo() as port:
        return by_load(SimpleNamespace(port=port), seconds)


def by_client(command, address, mode, seconds):
    """What a peer's client prints; {name: number}."""
    try:
        done = subprocess.run(
            [*command, f"--mode={mode}", f"--address={address}",
             f"--seconds={seconds}", f"--count={WAKES}", f"--queue={mode}"],
            text=True, capture_output=True, timeout=60 + 5 * seconds)
    except subprocess.TimeoutExpired as e:
        raise Missing(f"its {mode} did not end") from e
    if done.returncode != 0:
        said = " ".join(done.stderr.split())[:300]
        raise Missing(f"its {mode} failed: {said or 'without a word'}")
    return {name: float(value) for name, value in
            (line.split() for line in done.stdout.splitlines())}


def peer(name, seconds):
    client, server, _ = PEERS[name]
    command = servers.client(client)
    got = {}
    with server() as address:
        for mode in MODES:
            got.update(by_client(command, address, mode, seconds))
    return got


def measure(name, seconds):
    if name == "corvo":
        return corvo(seconds)
    return go_corvo(seconds) if name == GO_CORVO else peer(name, seconds)


# --- the table -----------------------------------------------------------


def meaning(name):
    return PEERS[name][2] if name in PEERS else FLUSH


def cell(rounds, figure, plain=None):
    """The median over rounds, of ratios where `plain` is nginx's rates."""
    values = [got[figure] / (plain[i] if plain else 1000)
              for i, got in rounds if figure in got]
    return f"{median(values):.3f}" if values else "-"


def show(found, plain):
    row = "  {:<16} {:>9} {:>9} {:>9} {:>9} {:>9}  {}"
    head(f"times nginx ({median(plain):,.0f} requests/s); to a worker in ms")
    print(row.format("", "enqueue", "life", "batches", "p50", "p90",
                     "an answer means"))
    for name, rounds in found.items():
        if rounds:
            print(row.format(
                name, *(cell(rounds, f, plain) for f in FIGURES[:3]),
                *(cell(rounds, f) for f in FIGURES[3:]), meaning(name)))


def one_round(i, names, seconds, found, missing):
    for name in names:
        if name in missing:
            continue
        try:
            found[name].append((i, measure(name, seconds)))
        except (Missing, AssertionError) as e:
            missing[name] = str(e)


def main(names=(), rounds=1, seconds=3):
    every = ["corvo", *PEERS, GO_CORVO]
    names = ["corvo", *(n for n in every[1:] if not names or n in names)]
    found = {name: [] for name in names}
    missing, plain = {}, []
    head(f"P  peers, {rounds} rounds of {seconds} s for each figure")
    with contextlib.ExitStack() as stack:
        port = stack.enter_context(nginx())
        for i in range(rounds):
            plain.append(wrk(port, seconds, "/")[0])
            one_round(i, names, seconds, found, missing)
    show(found, plain)
    for name, why in missing.items():
        print(f"  {name} is left out: {why}")


def command_line():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("names", nargs="*", metavar="NAME",
                   help=", ".join([*PEERS, GO_CORVO]))
    p.add_argument("--rounds", type=int, default=1)
    p.add_argument("--seconds", type=int, default=3)
    a = p.parse_args()
    unknown = set(a.names) - {"corvo", *PEERS, GO_CORVO}
    if unknown:
        sys.exit(f"bench/peers.py: no such peer: {', '.join(unknown)}; "
                 f"there are {', '.join([*PEERS, GO_CORVO])}")
    # as after ^C: what was started is ended
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    main(a.names, a.rounds, a.seconds)


if __name__ == "__main__":
    command_line()
