"""One-off calls while sched is killed again and again: none is early, none is
lost, and what is called twice has one id."""

import os
import signal
import time

from node import API, wait_until
from sink import sink

CALLS = 400
SPREAD_S = 4.0
KILLS = 4


def rfc3339(at):
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + \
        ("%.3f" % (at % 1))[1:] + "Z"


def test_none_is_lost_when_sched_is_killed(client, node, queue):
    with sink() as s:
        a = client.request("PATCH", f"{API}/queues/{queue}", {
            "push": {"url": s.url(), "concurrency": 64}})
        assert a.status == 200, a
        first = time.time() + 1
        due = [int((first + n * SPREAD_S / CALLS) * 1000) / 1000
               for n in range(CALLS)]
        jobs = [{"queue": queue, "scheduled_at": rfc3339(at),
                 "max_retries": 1} for at in due]
        a = client.post(f"{API}/enqueue/batch", {"jobs": jobs})
        assert a.status == 201, a
        ids = a.json["job_ids"]
        for kill in range(KILLS):
            wait_until(lambda k=kill: len(s.calls) > k * CALLS // KILLS,
                       what="calls")
            caller = node.leader()
            pid = caller.pids()["sched"]
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda n=caller, p=pid: n.pids().get("sched", p) != p,
                       what="another sched")
        wait_until(lambda: client.get(f"{API}/queues/{queue}").json[
            "completed"] == CALLS, 30, "all of them to be done")
        calls = {i: [] for i in ids}
        for c in s.calls:
            calls[c.headers["webhook-id"]].append(c)
        for job_id, at in zip(ids, due):
            assert calls[job_id], f"{job_id} was lost"
            assert min(c.at for c in calls[job_id]) >= at, "early"
        # only what was under way at a kill may come twice
        assert sum(len(v) - 1 for v in calls.values()) <= KILLS * 64
