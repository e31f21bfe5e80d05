"""raftd is killed around the moment a schedule fires, again and again.

A schedule of every second; SIGKILL comes within 30 ms of a due time, before
or after it. At the end there is exactly one job for each second. The seed of
the moments is printed; CORVO_TEST_SEED repeats them, CORVO_CRON_KILLS says
how many.
"""

import os
import random
import signal
import time

from node import API, Node, seconds_of, wait_until

KILLS = int(os.environ.get("CORVO_CRON_KILLS", "20"))
SEED = int(os.environ.get("CORVO_TEST_SEED") or random.randrange(2**32))
AROUND_S = 0.030
SCHEDULES = ["first", "second", "third"]


def wait_for_clock(at):
    """Precise to a fraction of a millisecond."""
    while (left := at - time.time()) > 0:
        time.sleep(left * 0.9 if left > 0.002 else 0)  # tidy: poll interval


def is_back(node, old):
    p = node.ps("raftd")
    return p["state"] == "ready" and p["pid"] not in (0, old)


def schedule(client, name):
    a = client.get(f"{API}/schedules/{name}")
    return a.json if a.status == 200 else None


def all_jobs(client, queue):
    """Every job of the queue, by pages."""
    jobs, cursor = [], None
    while True:
        body = {"queue": queue, "limit": 1000, "order": "asc"}
        if cursor:
            body["cursor"] = cursor
        page = client.post(f"{API}/jobs/search", body).json
        jobs += page["jobs"]
        if not page["has_more"]:
            return jobs
        cursor = page["cursor"]


def check(client, name):
    """One job for each second from the first to the last, none twice."""
    ids = [j["id"] for j in all_jobs(client, name)]
    times = sorted(seconds_of(client.job(i)["scheduled_for"]) for i in ids)
    expected = [times[0] + i for i in range(len(times))]
    doubled = len(times) - len(set(times))
    lost = set(expected) - set(times)
    assert times == expected, \
        f"{name}: {doubled} doubled, {len(lost)} lost of {len(times)}"
    s = schedule(client, name)
    assert s["runs"] == len(times)
    assert s["last_job_id"] in ids
    return len(times)


def test_raftd_killed_at_the_firing_moment():
    print(f"CORVO_TEST_SEED={SEED}")
    rng = random.Random(SEED)
    node = Node("--log-level=warn")
    try:
        node.start()
        with node.client() as c:
            for name in SCHEDULES:
                a = c.post(f"{API}/schedules", {
                    "name": name, "queue": name, "cron": "* * * * * *",
                    "catch_up": "all"})
                assert a.status == 201, a
        for _ in range(KILLS):
            old = node.pids()["raftd"]
            offset = rng.uniform(-AROUND_S, AROUND_S)
            # the next second that leaves time to get there
            wait_for_clock(int(time.time() + 1.05) + offset)
            os.kill(old, signal.SIGKILL)
            wait_until(lambda: is_back(node, old), 30,
                       "raftd to be back", every=0.005)
        end = time.time()
        with node.client() as c:
            for name in SCHEDULES:
                wait_until(lambda: seconds_of(schedule(c, name)["next_run"])
                           > end, 60, f"{name} to catch up")
                assert c.post(f"{API}/schedules/{name}/pause").status == 200
            print("jobs:", [check(c, name) for name in SCHEDULES])
    except BaseException:
        node.clean_up(check=False)
        raise
    node.clean_up()
