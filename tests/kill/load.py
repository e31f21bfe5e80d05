"""Real clients that keep a node busy and write down what they were told.

Producers enqueue, workers fetch with a short lease and ack, and a connector
does nothing but connect. None of them stops because of an error: errors are
what the node is allowed to give them while a process of it is missing, except
a refused connection. What was acknowledged is checked afterwards.
"""

import errno
import http.client
import os
import random
import socket
import threading
import time
from collections import Counter, defaultdict

from node import API, Client, seconds_of, wait_until

LEASE_S = 2.0
BACKLOG = 400  # producers wait while so many jobs are not done
QUEUES = ["kill.a", "kill.b", "kill.c"]
ATTEMPTS = 1000  # lost leases count as attempts; nothing may die here

NETWORK = (OSError, http.client.HTTPException)


class Hold:
    """One delivery of a job to a worker."""

    def __init__(self, worker, job, received):
        self.worker = worker
        self.attempt = job["attempt"]
        self.token = job["lease_token"]
        self.received = received
        self.lease_end = 0.0  # from a heartbeat's answer
        self.released = None  # when the ack or fail was sent


class Load:
    def __init__(self, port, producers=4, workers=6, before=None):
        """before: an earlier load on the same data; goes on with its list."""
        self.port = port
        self.seed = int(os.environ.get("CORVO_TEST_SEED") or
                        random.randrange(1 << 32))
        self.lock = threading.Lock()
        # id: time of the acknowledgement
        self.enqueued = before.enqueued if before else {}
        # id: acks answered 200
        self.acks = before.acks if before else Counter()
        # ids of acks whose answer was lost
        self.unsure = before.unsure if before else set()
        self.holds = before.holds if before else defaultdict(list)
        self.errors = Counter()
        self.refused = []  # times of refused connections
        self.connects = 0
        self.producing = True
        self.working = True
        self.stopped = threading.Event()
        self.threads = [threading.Thread(target=f, args=(i,), daemon=True)
                        for f, n in ((self.produce, producers),
                                     (self.work, workers), (self.connect, 1))
                        for i in range(n)]

    def start(self):
        print(f"load: CORVO_TEST_SEED={self.seed}")
        for t in self.threads:
            t.start()
        return self

    def done(self):
        """Jobs known to have ended; grows while there is progress."""
        return len(self.acks) + len(self.unsure)

    def progress(self, n, seconds=60.0):
        """Waits until n more jobs are done."""
        goal = self.done() + n
        wait_until(lambda: self.done() >= goal, seconds,
                   f"{n} more jobs to be done; errors: {dict(self.errors)}")

    def stop(self):
        self.producing = self.working = False
        self.stopped.set()
        for t in self.threads:
            t.join(60)
        assert not any(t.is_alive() for t in self.threads)

    # --- the clients -----------------------------------------------------

    def call(self, client, path, body):
        """The answer, or None when there was none."""
        try:
            client.send("POST", API + path, body)
            return client.receive()
        except NETWORK as e:
            client.close()
            self.note(e)
            return None

    def note(self, e):
        with self.lock:
            self.errors[type(e).__name__] += 1
            if isinstance(e, OSError) and e.errno == errno.ECONNREFUSED:
                self.refused.append(time.monotonic())

    def backlog(self):
        return len(self.enqueued) - self.done()

    def produce(self, number):
        rng = random.Random(f"{self.seed} producer {number}")
        client = Client(self.port, timeout=30)
        n = 0
        while self.producing:
            if self.backlog() > BACKLOG:
                self.stopped.wait(0.005)
                continue
            n += 1
            a = self.call(client, "/enqueue", {
                "queue": rng.choice(QUEUES),
                "payload": {"producer": number, "n": n},
                "priority": rng.choice(["normal", "high", "critical"]),
                "max_retries": ATTEMPTS, "retry_backoff": "none"})
            if a is not None and a.status == 201:
                with self.lock:
                    self.enqueued[a.json["job_id"]] = time.time()
            elif a is not None:
                with self.lock:
                    self.errors[f"enqueue {a.status} {a.code}"] += 1
        client.close()

    def work(self, number):
        rng = random.Random(f"{self.seed} worker {number}")
        client = Client(self.port, timeout=30)
        name = f"worker-{number}"
        while self.working:
            a = self.call(client, "/fetch", {
                "queues": QUEUES, "worker_id": name, "timeout": 1,
                "lease_duration": LEASE_S})
            if a is None or a.status == 204:
                continue
            if a.status != 200:
                with self.lock:
                    self.errors[f"fetch {a.status} {a.code}"] += 1
                continue
            job = a.json
            hold = Hold(name, job, time.time())
            with self.lock:
                self.holds[job["job_id"]].append(hold)
            self.handle(client, rng, job, hold)
        client.close()

    def handle(self, client, rng, job, hold):
        """Mostly an ack; sometimes a heartbeat first, a fail, or nothing."""
        dice = rng.random()
        if dice < 0.005:
            return  # a worker that vanished: its lease ends
        if dice < 0.05:
            self.beat(client, job, hold)
        if 0.05 < dice < 0.08:
            hold.released = time.time()
            self.call(client, f"/fail/{job['job_id']}",
                      {"lease_token": hold.token, "error": "by chance"})
            return
        self.finish(client, job, hold)

    def beat(self, client, job, hold):
        a = self.call(client, "/heartbeat", {
            "jobs": {job["job_id"]: {"lease_token": hold.token}}})
        if a is None or a.status != 200:
            return
        answer = a.json["jobs"][job["job_id"]]
        if answer["status"] == "ok" and "lease_expires_at" in answer:
            hold.lease_end = seconds_of(answer["lease_expires_at"])

    def finish(self, client, job, hold):
        """Acks until there is an answer or no lease any more."""
        job_id = job["job_id"]
        hold.released = time.time()
        lost = False
        while time.time() < hold.received + LEASE_S:
            a = self.call(client, f"/ack/{job_id}",
                          {"lease_token": hold.token, "result": hold.attempt})
            if a is None:
                lost = True
                continue
            with self.lock:
                if a.status == 200:
                    self.acks[job_id] += 1
                    return
                self.errors[f"ack {a.status} {a.code}"] += 1
                # Refused, perhaps because an ack without answer was done.
                if a.status in (400, 409):
                    if lost:
                        self.unsure.add(job_id)
                    return
        if lost:
            with self.lock:
                self.unsure.add(job_id)

    def connect(self, _):
        """connect() must work at any moment; what follows may be reset."""
        while self.working:
            try:
                address = ("127.0.0.1", self.port)
                with socket.create_connection(address, 10) as s:
                    self.connects += 1
                    s.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
                              b"Connection: close\r\n\r\n")
                    while s.recv(4096):
                        pass
            except OSError as e:
                self.note(e)
            self.stopped.wait(0.002)  # a visitor, not an attack

    # --- afterwards ------------------------------------------------------

    def drain(self, client, seconds=90.0):
        """Producers end; waits until the workers have done everything."""
        self.producing = False

        def is_empty():
            rows = client.get(f"{API}/queues")
            if rows.status != 200 or "X-Corvo-View-Lag-Ms" in rows.headers:
                return False
            return all(q["pending"] + q["active"] + q["retrying"] +
                       q["scheduled"] == 0 for q in rows.json)

        wait_until(is_empty, seconds, "every job to be done", every=0.1)
        self.stop()

    def check(self, client):
        """Every promise the node made, against what it says now."""
        assert not self.refused, f"{len(self.refused)} connections refused"
        for job_id in self.enqueued:
            a = client.get(f"{API}/jobs/{job_id}")
            assert a.status == 200, f"acknowledged and lost: {job_id} {a}"
            self.check_job(a.json)
        twice = [j for j, n in self.acks.items() if n > 1]
        assert not twice, f"acked twice: {twice}"
        for job_id, holds in self.holds.items():
            tokens = [h.token for h in holds]
            assert len(set(tokens)) == len(tokens), f"two holders: {job_id}"
        self.check_view(client)

    def check_job(self, job):
        assert job["state"] == "completed", job
        types = [e["type"] for e in job["timeline"]]
        assert types.count("completed") == 1, types
        assert types[0] == "enqueued" and types[-1] == "completed", types
        starts = {e["attempt"]: seconds_of(e["at"]) for e in job["timeline"]
                  if e["type"] == "started"}
        holds = sorted(self.holds.get(job["id"], []), key=lambda h: h.attempt)
        assert [h.attempt for h in holds] == sorted({h.attempt for h in holds})
        for first, second in zip(holds, holds[1:]):
            self.check_turn(job, starts, first, second)

    def check_turn(self, job, starts, first, second):
        """The second delivery came after the end of the first lease."""
        if first.released is not None and first.released <= second.received:
            return  # given up by its holder
        end = max(starts[first.attempt] + LEASE_S, first.lease_end)
        assert starts[second.attempt] >= end - 0.001, (
            f"{job['id']}: attempt {second.attempt} began "
            f"{end - starts[second.attempt]:.3f} s before the lease of "
            f"{first.attempt} ended; {job['timeline']}")

    def check_view(self, client):
        """The view agrees with the truth, whatever was killed."""
        rows = {q["name"]: q for q in client.get(f"{API}/queues").json}
        total = sum(q["enqueued"] for q in rows.values())
        assert sum(q["completed"] for q in rows.values()) == total
        assert total >= len(self.enqueued)
        found = client.search(limit=1)
        assert found["total"] == total
        listed = set()
        cursor = {}
        while True:
            page = client.search(limit=1000, **cursor)
            listed.update(j["id"] for j in page["jobs"])
            if not page["has_more"]:
                break
            cursor = {"cursor": page["cursor"]}
        missing = set(self.enqueued) - listed
        assert not missing, f"not in the view: {missing}"

    def report(self):
        print(f"load: {len(self.enqueued)} enqueued, {sum(self.acks.values())} "
              f"acked, {len(self.unsure)} acks without an answer, "
              f"{sum(map(len, self.holds.values()))} deliveries, "
              f"{self.connects} connects, errors {dict(self.errors)}")
