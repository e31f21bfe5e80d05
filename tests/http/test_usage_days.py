"""Thousands of reports while a day ends: the sums are those of the event log,
and those of the workers, to the last billionth."""

import os
import random
import threading
import time
from decimal import Decimal

import usage_sums
from node import API, wait_until

DAY = 86400
BEFORE_S = 4       # from the start of the node to midnight
WORKERS, BATCH = 3, 40
REPORTS = 3000
INDIA_S = 19800    # Asia/Kolkata, all the year


class Worker(threading.Thread):
    """Jobs of its own, each with a report; adds up what was acknowledged."""

    def __init__(self, node, seed, stop):
        super().__init__()
        self.node, self.stop_now = node, stop
        self.queue = "paid"
        self.random = random.Random(seed)
        self.sums = usage_sums.Sums()
        self.failed = None

    def report(self):
        return {"model": self.random.choice(("large", "small")),
                "provider": self.random.choice(("acme", "zeta")),
                "input_tokens": self.random.randrange(10 ** 6),
                "output_tokens": self.random.randrange(10 ** 4),
                "cost_usd": self.random.randrange(10 ** 9) / 10 ** 9}

    def turn(self, c):
        a = c.post(f"{API}/enqueue", {"jobs": [{"queue": self.queue}] * BATCH})
        assert a.status < 300, a
        a = c.post(f"{API}/fetch/batch", {"queues": [self.queue],
                                          "count": BATCH, "timeout": 0})
        acks = [{"job_id": j["job_id"], "lease_token": j["lease_token"],
                 "usage": self.report()} for j in a.json["jobs"]]
        if not acks:
            return
        a = c.post(f"{API}/ack/batch", {"acks": acks})
        assert a.status == 200 and a.json["acked"] == len(acks), a
        for ack in acks:
            u = ack["usage"]
            # as it was written into the request
            cost = Decimal(repr(u["cost_usd"]))
            self.sums.report((u["model"], u["provider"], "", ""),
                             {**u, "cost_usd": cost})

    def run(self):
        try:
            with self.node.client() as c:
                while not self.stop_now.is_set():
                    self.turn(c)
        except (AssertionError, OSError, ValueError) as e:
            self.failed = e


def days(client, since):
    a = client.get(f"{API}/usage?queue=paid&group_by=day&from={since}")
    assert a.status == 200, a
    return {g["by"]["day"]: g["count"] for g in a.json["groups"]}


def test_a_day_ends_under_load(make_node):
    seed = int(os.environ.get("CORVO_TEST_SEED", time.time_ns()))
    print(f"CORVO_TEST_SEED={seed}")
    node, now_ns = make_node(), time.time_ns()
    ahead = DAY - now_ns / usage_sums.NANO % DAY - BEFORE_S
    today = usage_sums.day_of(now_ns + int(ahead) * usage_sums.NANO)
    node.set_clock(ahead)
    node.start()
    stop = threading.Event()
    workers = [Worker(node, seed + i, stop) for i in range(WORKERS)]
    with node.client() as c:
        a = c.request("PATCH", f"{API}/usage/settings",
                      {"timezone": "Asia/Kolkata"})
        assert a.status == 200, a
        for w in workers:
            w.start()
        try:
            first = wait_until(lambda: days(c, today), 20, "a first report")
            if today not in first:  # a slow start: then the next midnight
                node.set_clock(ahead + DAY)
            wait_until(lambda: any(w.failed for w in workers) or
                       len(days(c, today)) == 2 and
                       sum(days(c, today).values()) >= REPORTS, 20,
                       "reports of two days", every=0.2)
        finally:
            stop.set()
            for w in workers:
                w.join()
        assert [w.failed for w in workers] == [None] * WORKERS
        told = usage_sums.of_events(c, "paid", INDIA_S)
        assert usage_sums.of_server(c, "paid", today) == told
        assert len(told.days()) == 2, told.days()
        said = usage_sums.Sums()
        for w in workers:
            said.update(w.sums)
        for unit in "count", "input_tokens", "output_tokens", "cost":
            assert told.total(unit) == said.total(unit), unit
