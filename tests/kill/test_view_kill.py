"""viewd is killed 100 times at random moments under a mixed load.

Afterwards verify-view compares the view with the store, row by row: not one
may differ. Some of the kills meet a rebuild. The seed is printed;
CORVO_TEST_SEED repeats it, CORVO_VIEW_KILLS says how many.
"""

import os
import random
import signal
import threading
import time

from node import API, Node, is_sanitized, wait_until

KILLS = int(os.environ.get("CORVO_VIEW_KILLS") or
            ("25" if is_sanitized() else "100"))
SEED = int(os.environ.get("CORVO_TEST_SEED") or random.randrange(2**32))
LIVES_S = 0.2  # at most, after it is ready
QUEUES = ["view.a", "view.b", "view.c"]
THREADS = 4


class Mix:
    """One client that does everything there is to do to jobs."""

    def __init__(self, node, number):
        self.node = node
        self.rng = random.Random(f"{SEED} {number}")
        self.ids = []
        self.batches = []
        self.done = 0

    def run(self, stop, errors):
        try:
            with self.node.client() as c:
                while not stop.is_set():
                    self.step(c)
                    self.done += 1
        except BaseException as e:
            errors.append(e)

    def step(self, c):
        what = self.rng.choices(
            [self.enqueue, self.work, self.act, self.batch, self.schedule],
            [40, 40, 14, 4, 2])[0]
        what(c)

    def post(self, c, path, body=None):
        """May be refused, as the state of the job is what it is."""
        a = c.post(API + path, body)
        assert a.status < 500, a
        return a

    def enqueue(self, c):
        rng = self.rng
        body = {"queue": rng.choice(QUEUES), "payload": {"n": self.done},
                "priority": rng.choice(["normal", "high", "critical"]),
                "max_retries": rng.randrange(1, 4), "retry_backoff": "none"}
        if rng.random() < 0.3:
            body["unique_key"] = f"key{rng.randrange(20)}"
            body["unique_action"] = rng.choice(["drop", "replace"])
        if rng.random() < 0.2:
            body["tags"] = {"a": str(self.done)}
        if rng.random() < 0.1:
            body["delay"] = "1s"
        if rng.random() < 0.3 and self.batches:
            body["batch_id"] = self.batches[-1]
        a = self.post(c, "/enqueue", body)
        if a.status == 201:
            self.ids.append(a.json["job_id"])

    def work(self, c):
        a = c.fetch_raw(*QUEUES, worker_id=f"w{self.rng.randrange(5)}")
        assert a.status in (200, 204), a
        if a.status == 204:
            return
        job = a.json
        end = {"lease_token": job["lease_token"]}
        dice = self.rng.random()
        if dice < 0.2:
            self.post(c, "/heartbeat", {"jobs": {job["job_id"]: {
                **end, "progress": {"current": 1}}}})
        if dice < 0.6:
            self.post(c, f"/ack/{job['job_id']}", {**end, "result": [dice]})
        elif dice < 0.9:
            self.post(c, f"/fail/{job['job_id']}", {**end, "error": "by dice"})

    def act(self, c):
        if not self.ids:
            return
        job = f"/jobs/{self.rng.choice(self.ids[-200:])}"
        kind = self.rng.randrange(6)
        if kind == 0:
            a = c.request("DELETE", API + job)
            assert a.status < 500, a
        elif kind == 1:
            self.post(c, job + "/move", {"queue": self.rng.choice(QUEUES)})
        else:
            self.post(c, job + "/" + ["cancel", "retry", "hold",
                                      "approve"][kind - 2])

    def batch(self, c):
        if self.batches and self.rng.random() < 0.5:
            self.post(c, f"/batches/{self.batches.pop()}/seal")
        else:
            a = self.post(c, "/batches", {"callback_queue": "view.end"})
            self.batches.append(a.json["batch_id"])

    def schedule(self, c):
        name = f"s{self.rng.randrange(3)}"
        if self.rng.random() < 0.5:
            self.post(c, "/schedules", {"name": name, "queue": QUEUES[0],
                                        "cron": "@yearly"})
        elif self.rng.random() < 0.5:
            self.post(c, f"/schedules/{name}/run")
        else:
            a = c.request("DELETE", f"{API}/schedules/{name}")
            assert a.status < 500, a


def is_back(node, old):
    p = node.ps("viewd")
    return p["state"] == "ready" and p["pid"] not in (0, old)


def kill_once(node, rng, begin):
    old = node.pids()["viewd"]
    at = time.monotonic() + rng.random() * LIVES_S
    wait_until(lambda: time.monotonic() >= at, every=0.001)
    if rng.random() < 0.2:  # a rebuild is then under way
        begin()
    os.kill(old, signal.SIGKILL)
    wait_until(lambda: is_back(node, old), 60, "viewd to be back", every=0.005)


def begin_rebuild(node):
    """Asks for one; whoever asks gets no answer when viewd is killed."""
    def ask():
        with node.client() as c:
            c.post(f"{API}/admin/rebuild-sqlite")

    t = threading.Thread(target=ask, daemon=True)
    t.start()
    return t


def check_view(node):
    with node.client() as c:
        wait_until(lambda: c.post(f"{API}/admin/verify-view").status == 200,
                   60, "the view to be there", every=0.1)
        found = c.post(f"{API}/admin/verify-view").json
    print(f"{found['rows']} rows compared at event {found['seq']} in "
          f"{found['duration_ms']} ms")
    assert found["status"] == "ok" and found["differences"] == 0, found
    assert found["rows"] > 0


def test_view_equals_store_after_a_hundred_kills():
    print(f"CORVO_TEST_SEED={SEED}")
    rng = random.Random(SEED)
    node = Node("--log-level=warn")
    stop, errors = threading.Event(), []
    clients = [Mix(node, i) for i in range(THREADS)]
    threads = [threading.Thread(target=m.run, args=(stop, errors))
               for m in clients]
    try:
        node.start()
        for t in threads:
            t.start()
        for _ in range(KILLS):
            kill_once(node, rng, lambda: begin_rebuild(node))
            assert not errors, errors
        check_view(node)  # while the load goes on
        stop.set()
        for t in threads:
            t.join(60)
        assert not errors, errors
        check_view(node)
        print(f"{sum(m.done for m in clients)} operations, {KILLS} kills")
    finally:
        stop.set()
        node.clean_up()
