#!/usr/bin/env python3
"""Searches and lists at a million jobs, and what they cost those who write.

One node is filled and used for everything: ten queues, jobs in all states, one
queue of a tenth of the jobs with JSON payloads in batches of 1,000.

  a  times of indexed searches and of what a dashboard asks, one at a time
  b  payload_jq over the queue with JSON payloads
  c  single enqueues with and without 4 clients that search without pause
     (search.lua), in turns

  search.py [jobs] [rounds of c] [seconds of each]
"""

import contextlib
import random
import re
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

from figures import (head, load, median, running_node, say, spread,
                     wait_for_view)
from node import API

QUEUES = [f"q-{i}" for i in range(9)]
BATCH = 1000  # jobs of one enqueue/batch, and of one batch
TAKE = 512    # jobs of one fetch/batch
SEARCHERS = 4
ASKS = 200
SCRIPT = Path(__file__).with_name("search.lua")
RNG = random.Random(5)


# --- filling ----------------------------------------------------------------


def json_job(n):
    return {"queue": "json", "max_retries": 1, "tags": {"tenant": f"t{n % 50}"},
            "payload": {"n": n, "template": RNG.choice(["welcome", "goodbye"]),
                        "to": f"user{n}@example.com", "amount": n % 1000,
                        "items": list(range(n % 7)),
                        "meta": {"region": RNG.choice(["eu", "us"])}}}


def fill_json(c, jobs):
    """Ids of the batches."""
    batches = []
    for start in range(0, jobs, BATCH):
        a = c.post(f"{API}/enqueue/batch", {
            "jobs": [json_job(start + i) for i in range(BATCH)],
            "batch": {}})
        assert a.status == 201, a
        batches.append(a.json["batch_id"])
    return batches


def end_some(c, queue, part):
    """Hands out a part of a queue: most complete, some die, some stay."""
    taken = 0
    while taken < part:
        a = c.post(f"{API}/fetch/batch", {
            "queues": [queue], "count": TAKE, "timeout": 0,
            "lease_duration": 80000, "worker_id": f"worker-{taken // TAKE}"})
        jobs = a.json["jobs"]
        if not jobs:
            return
        taken += len(jobs)
        for job in jobs[:8]:
            c.fail(job, error="SMTP timeout", retry=False)
        acks = [{"job_id": j["job_id"], "lease_token": j["lease_token"]}
                for j in jobs[8:-40]]
        a = c.post(f"{API}/ack/batch", {"acks": acks})
        assert a.status == 200, a


def fill(node, jobs):
    start = time.monotonic()
    each = jobs // 10
    for queue in QUEUES:
        load(node, "fill", queue=queue, count=each, connections=4, batch=500,
             words=1)
    with node.client(timeout=60) as c:
        batches = fill_json(c, max(each // BATCH, 1) * BATCH)
        for queue in QUEUES[:5]:
            end_some(c, queue, each // 2)
    wait_for_view(node)
    say(f"filling {jobs:,} jobs", f"{time.monotonic() - start:.0f} s")
    return batches


# --- a and b: one at a time -------------------------------------------------


def times_of(ask, n):
    out = []
    for i in range(n):
        start = time.monotonic()
        ask(i)
        out.append((time.monotonic() - start) * 1000)
    return sorted(out)


def show(name, times, limit):
    p99 = times[min(len(times) - 1, len(times) * 99 // 100)]
    say(name, f"p50 {statistics.median(times):.1f} ms, p99 {p99:.1f} ms", limit)


def post(c, members):
    a = c.post(f"{API}/jobs/search", members)
    assert a.status == 200, a
    return a


def get(c, path):
    a = c.get(f"{API}{path}")
    assert a.status == 200, a


def one_at_a_time(node, batches, n):
    with node.client(timeout=60) as c:
        ids = [j["id"] for j in
               post(c, {"queue": "q-7", "limit": 1000}).json["jobs"]]
        searches = {
            "queue and state": lambda i: {"queue": QUEUES[i % 9],
                                          "state": ["pending"]},
            "state of all queues": lambda i: {"state": ["completed"]},
            "batch": lambda i: {"batch_id": batches[i % len(batches)]},
            "id prefix": lambda i: {"job_id_prefix": ids[i % 1000][:24]},
            "worker": lambda i: {"worker_id": f"worker-{i % 40}"},
            "text, a rare word": lambda i: {"text": f"user{i}"},
            "text, a common word": lambda i: {"text": "template"},
            "queue, state, has_errors": lambda i: {
                "queue": QUEUES[i % 5], "state": ["dead"], "has_errors": True},
        }
        for name, members in searches.items():
            show(f"search by {name}",
                 times_of(lambda i, m=members: post(c, m(i)), n), "p99 < 50 ms")
        asks = {"GET /queues": "/queues", "GET /workers": "/workers",
                "GET /metrics/throughput": "/metrics/throughput",
                "GET /dead": "/dead?limit=20"}
        for name, path in asks.items():
            show(name, times_of(lambda i, p=path: get(c, p), n),
                 "p99 < 20 ms")


def conditions(node):
    with node.client(timeout=60) as c:
        for text in (".n == 77777", ".meta.region == \"eu\"",
                     '.items | length > 5 and .template == "welcome"',
                     '.to | startswith("user99")', ".missing == 1"):
            members = {"queue": "json", "payload_jq": text}
            a = post(c, members).json
            note = "" if "partial" not in a else ", PARTIAL"
            if "total_is_lower_bound" in a:
                note += ", total is a lower bound"
            times = times_of(lambda i, m=members: post(c, m), 10)
            show(f"payload_jq {text}: {a['total']}{note}", times, "< 300 ms")


# --- c: beside writers ------------------------------------------------------


@contextlib.contextmanager
def searching(node, seconds, rates):
    """The clients of search.lua, while the block runs; how many searches a
    second they got goes to rates."""
    with subprocess.Popen(
            ["wrk", "-t1", f"-c{SEARCHERS}", f"-d{seconds}s", "--timeout=60s",
             "-s", SCRIPT, f"http://127.0.0.1:{node.port}"],
            stdout=subprocess.PIPE, text=True) as p:
        try:
            yield
        finally:
            p.send_signal(signal.SIGINT)
            out = p.communicate()[0]
    rates.append(float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1]))
    if refused := re.search(r"Non-2xx or 3xx responses: (\d+)", out):
        print(f"  {refused[1]} searches were refused; the figures are wrong")


def beside_writers(node, rounds, seconds):
    got = {"without": [], "with": []}
    searches = []
    for _ in range(rounds):
        wait_for_view(node)
        got["without"].append(load(node, "enqueue", queue="written",
                                   connections=64, time=seconds))
        wait_for_view(node)
        with searching(node, seconds + 60, searches):
            got["with"].append(load(node, "enqueue", queue="written",
                                    connections=64, time=seconds))
    rates = {k: [x["enqueue_per_s"] for x in v] for k, v in got.items()}
    p99s = {k: [x["enqueue_p99_us"] for x in v] for k, v in got.items()}
    for k in got:
        say(f"enqueues/s {k} {SEARCHERS} clients searching", spread(rates[k]))
        say("  p99, us", spread(p99s[k]))
    say("  their searches/s meanwhile", spread(searches))
    for name, of, limit in (("rate", rates, ">= 0.70"), ("p99", p99s, "< 3")):
        ratio = median(of["with"]) / median(of["without"])
        say(f"{name} with / without", f"{ratio:.2f}", limit)


def main(jobs=1000000, rounds=7, seconds=4):
    head(f"B  searches at {jobs:,} jobs")
    with running_node() as node:
        batches = fill(node, jobs)
        one_at_a_time(node, batches, ASKS)
        conditions(node)
        beside_writers(node, rounds, seconds)


if __name__ == "__main__":
    main(*(int(x) for x in sys.argv[1:]))
