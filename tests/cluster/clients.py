"""Clients that use everything a cluster promises something about, and write
down what they saw (history.py).

Producers enqueue alone and in batches, some jobs with unique keys, cancel and
delete some. Workers fetch with short leases, send heartbeats, complete, fail,
give back and vanish. One pair has a queue for itself, for the order of jobs.
Keepers live on leases of a second or two, which only heartbeats keep. Readers
ask for what was acknowledged, most of all nodes that were just restarted. Each
asks some node, and another one when that gives no good answer; but a reader
wants to know it of that node.
"""

import contextlib
import http.client
import json
import random
import threading
import time

from history import Log, outcome_of
from node import API, Client, wait_until

LEASE_S = 3.0
WAIT_S = 0.5        # of a fetch
BEAT_S = 0.7
ANSWER_S = 20.0     # a node that says nothing for so long is left alone
PAUSE_S = 0.02      # between two ops of a client: a load, not an attack
BACKLOG = 100
KEYS = 8
TRIES = 2
ATTEMPTS = 1000000
WORK = ["work.a", "work.b"]
LINE = "line"       # the queue with one consumer
SHORT = "short"     # the queue of keepers
SHORT_LEASE_S = (1.0, 2.0)
SHORT_BEATS = 4     # in a lease
SHORT_JOBS = 4      # that wait: each is held for long
FRESH_S = 5.0       # since it was restarted
SEEN = 200          # jobs a reader knows of, of each node
PRIORITIES = ["normal", "normal", "high", "critical"]
NETWORK = (OSError, http.client.HTTPException)


class Watch:
    """What all clients share: when to stop, and how far they are."""

    def __init__(self, answer_s):
        self.answer_s = answer_s
        self.stop = threading.Event()       # everybody
        self.produced = threading.Event()   # producers
        self.lock = threading.Lock()
        self.made = 0
        self.ended = 0
        self.fresh = {}       # port: when its node was last restarted
        self.seen = {}        # port: [(id, index)] it has acknowledged
        self.errors = []      # mistakes of the clients
        self.failures = []    # requests that failed, and once more
        self.outcomes = {}

    def count(self, op, outcome, code):
        word = f"{op} {outcome}" + (f" {code}" if code else "")
        with self.lock:
            self.outcomes[word] = self.outcomes.get(word, 0) + 1

    def saw(self, port, ids, index):
        with self.lock:
            rows = self.seen.setdefault(port, [])
            rows += [(i, index) for i in ids]
            del rows[:-SEEN]

    def add(self, made=0, ended=0):
        with self.lock:
            self.made += made
            self.ended += ended


class Person:
    """One client, one thread."""
    pause_s = PAUSE_S
    base = API

    def __init__(self, watch, ports, directory, name, seed):
        self.watch = watch
        self.ports = ports
        self.port = None     # the one it asks, or asked last
        self.name = name
        self.rng = random.Random(f"{seed} {name}")
        self.log = Log(directory, name)
        self.client = None
        self.n = 0
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        try:
            while not self.is_over():
                self.step()
                self.watch.stop.wait(self.pause_s * 2 * self.rng.random())
        except Exception as e:  # a mistake in here must not go unseen
            self.watch.errors.append(f"{self.name}: {e!r}")
            raise
        finally:
            self.leave()
            self.log.close()

    def is_over(self):
        return self.watch.stop.is_set()

    def leave(self):
        """Another node the next time."""
        if self.client is not None:
            self.client.close()
            self.client = None

    def send(self, method, path, body, headers=None):
        """The answer, or None."""
        if self.client is None:
            others = [p for p in self.ports if p != self.port]
            self.port = self.rng.choice(others or self.ports)
            self.client = Client(self.port)
            self.client.timeout = self.watch.answer_s
        try:
            self.client.send(method, self.base + path, body, headers)
            return self.client.receive()
        except NETWORK:
            self.leave()
            return None

    def do(self, op, request, method, path, body, shown, headers=None):
        """Sends it and writes down what came of it: (outcome, answer).
        shown(answer's JSON) is what is written of a good answer."""
        begin = time.monotonic()
        a = self.send(method, path, body, headers)
        outcome = outcome_of(a.status if a is not None else None)
        self.answered = a is not None and a.status < 500
        told, code = {}, None
        if outcome == "ok":
            told = shown(a.json if a.body else {})
            told.update(port=self.port,
                        index=int(a.headers.get("X-Corvo-Index", 0)))
        elif a is not None:
            code = a.code
            told = {"code": code}
        self.log.write(op, request, begin, outcome, told)
        self.watch.count(op, outcome, code)
        if not self.answered:
            self.leave()
        return outcome, told

    def ask(self, op, *args, **named):
        """The same, and once more, at another node, when there was no answer
        or one that speaks of the server and not of the request."""
        for _ in range(TRIES):
            outcome, told = self.do(op, *args, **named)
            if self.answered:
                return outcome, told
        with self.watch.lock:
            self.watch.failures.append(
                f"{self.name}: {op} {outcome} {told.get('code', '')}")
        return outcome, told


class Producer(Person):
    queues = WORK

    def __init__(self, *args):
        super().__init__(*args)
        self.mine = []  # ids

    def is_over(self):
        return self.watch.produced.is_set()

    def step(self):
        if self.watch.made - self.watch.ended > BACKLOG:
            self.watch.produced.wait(0.05)
            return
        self.rng.choices([self.one, self.some, self.cancel, self.delete],
                         [80, 8, 8, 4])[0]()

    def row(self):
        """(what is written down, what is sent) of a new job."""
        self.n += 1
        rng = self.rng
        row = {"mark": f"{self.name}-{self.n}",
               "queue": rng.choice(self.queues),
               "priority": rng.choice(PRIORITIES)}
        sent = {"queue": row["queue"], "priority": row["priority"],
                "payload": {"mark": row["mark"]}, "max_retries": ATTEMPTS,
                "retry_backoff": "none"}
        return row, sent

    def one(self):
        row, sent = self.row()
        if self.queues is WORK and self.rng.random() < 0.25:
            row["unique_key"] = f"key{self.rng.randrange(KEYS)}"
            sent.update(unique_key=row["unique_key"], unique_period="24h")
        outcome, told = self.ask(
            "enqueue", row, "POST", "/enqueue", sent,
            lambda a: {"job_id": a["job_id"],
                       "duplicate": a["unique_existing"]},
            headers={"Idempotency-Key": row["mark"]})
        if outcome == "ok" and not told["duplicate"]:
            self.made([told["job_id"]], told)

    def some(self):
        rows = [self.row() for _ in range(self.rng.randrange(2, 6))]
        outcome, told = self.ask(
            "enqueue_batch", {"jobs": [r for r, _ in rows]}, "POST",
            "/enqueue/batch", {"jobs": [s for _, s in rows]},
            lambda a: {"job_ids": a["job_ids"]},
            headers={"Idempotency-Key": rows[0][0]["mark"]})
        if outcome == "ok":
            self.made(told["job_ids"], told)

    def made(self, ids, told):
        self.mine = (self.mine + ids)[-50:]
        self.watch.add(made=len(ids))
        self.watch.saw(told["port"], ids, told["index"])

    def cancel(self):
        if self.mine:
            job = self.rng.choice(self.mine)
            _, told = self.ask("cancel", {"job_id": job}, "POST",
                               f"/jobs/{job}/cancel", None,
                               lambda a: {"status": a["status"]})
            self.watch.add(ended=told.get("status") == "cancelled")

    def delete(self):
        if self.mine:
            job = self.mine.pop(self.rng.randrange(len(self.mine)))
            outcome, _ = self.ask("delete", {"job_id": job}, "DELETE",
                                  f"/jobs/{job}", None, lambda a: {})
            self.watch.add(ended=outcome == "ok")


class LineProducer(Producer):
    queues = [LINE]
    pause_s = 3 * PAUSE_S  # one consumer is not to fall behind

    def step(self):
        if self.watch.made - self.watch.ended > BACKLOG:
            self.watch.produced.wait(0.05)
        else:
            self.one()


class ShortProducer(Producer):
    """As many as keepers can hold, and some that wait to be given away."""
    queues = [SHORT]
    pause_s = 10 * PAUSE_S

    def __init__(self, *args):
        super().__init__(*args)
        self.waiting = 0

    def step(self):
        a = self.send("GET", f"/queues/{SHORT}", None)
        if a is not None and a.status == 200:
            self.waiting = a.json["pending"] + a.json["retrying"]
        elif a is not None and a.status == 404:
            self.waiting = 0
        if self.waiting < SHORT_JOBS:
            self.one()


class Worker(Person):
    queues = WORK

    def lease(self):
        return LEASE_S

    def step(self):
        count = 1 if self.rng.random() < 0.8 else 3
        lease_s = self.lease()
        request = {"queues": self.queues, "lease_s": lease_s}
        _, told = self.ask(
            "fetch", request, "POST", "/fetch/batch",
            {"queues": self.queues, "worker_id": self.name, "count": count,
             "timeout": WAIT_S, "lease_duration_ms": int(lease_s * 1000)},
            lambda a: {"jobs": [{
                "job_id": j["job_id"], "token": j["lease_token"],
                "attempt": j["attempt"], "queue": j["queue"],
                "mark": j["payload"]["mark"]} for j in a["jobs"]]})
        for job in told.get("jobs", ()):
            self.handle(job)

    def handle(self, job):
        """Mostly it is done at once; see the module. In the end all is."""
        dice = 1.0 if self.watch.produced.is_set() else self.rng.random()
        if dice < 0.02:
            return  # vanished: the lease ends by itself
        if dice < 0.06:
            end = time.monotonic() + self.rng.random() * 2 * LEASE_S
            while time.monotonic() < end:
                if not self.beat(job):
                    return
                self.watch.stop.wait(BEAT_S)
        if 0.06 <= dice < 0.14:
            self.fail(job, dice < 0.1)
        else:
            self.ack(job)

    def beat(self, job):
        """False: stop working on it."""
        request = {"job_id": job["job_id"], "token": job["token"]}
        outcome, told = self.ask(
            "beat", request, "POST", "/heartbeat",
            {"worker_id": self.name, "jobs": {
                job["job_id"]: {"lease_token": job["token"]}}},
            lambda a: a["jobs"].get(job["job_id"], {"status": "unknown"}))
        return outcome != "ok" or told["status"] == "ok"

    def ack(self, job):
        request = {"job_id": job["job_id"], "token": job["token"]}
        outcome, _ = self.ask(
            "ack", request, "POST", f"/ack/{job['job_id']}",
            {"lease_token": job["token"], "result": job["attempt"]},
            lambda a: {"status": a["status"]})
        if outcome == "ok":
            self.watch.add(ended=1)

    def fail(self, job, give_back):
        request = {"job_id": job["job_id"], "token": job["token"]}
        self.ask("fail", request, "POST", f"/fail/{job['job_id']}",
                   {"lease_token": job["token"], "error": "by chance",
                    "requeue": give_back}, lambda a: {"status": a["status"]})


class LineWorker(Worker):
    """Takes one after the other and completes it."""
    queues = [LINE]

    def handle(self, job):
        self.ack(job)


class Keeper(Worker):
    """Holds what it has for many times as long as its lease, by heartbeats
    alone: whoever leads must not give it away before."""
    queues = [SHORT]

    def lease(self):
        self.lease_s = self.rng.uniform(*SHORT_LEASE_S)
        return self.lease_s

    def handle(self, job):
        end = time.monotonic() + self.rng.uniform(1, 8) * self.lease_s
        while time.monotonic() < end and not self.watch.produced.is_set():
            if not self.beat(job):
                return
            self.watch.stop.wait(self.lease_s / SHORT_BEATS)
        self.ack(job)


class Reader(Person):
    """Asks a node for jobs that were acknowledged, by it or by others."""
    pause_s = 2 * PAUSE_S

    def choose(self):
        """A port; one of a node that was just restarted, if there is one."""
        now = time.monotonic()
        with self.watch.lock:
            fresh = [p for p, t in self.watch.fresh.items()
                     if now - t < FRESH_S]
        return self.rng.choice(fresh or self.ports)

    def job_of(self, port):
        """The newest ones are those it may lack."""
        with self.watch.lock:
            rows = self.watch.seen.get(port, [])
            last = rows[-5:] if self.rng.random() < 0.7 else rows[:]
        return self.rng.choice(last) if last else None

    def step(self):
        port = self.choose()
        with_index = self.rng.random() < 0.5
        row = self.job_of(self.rng.choice(self.ports) if with_index else port)
        if row is None:
            return
        if port != self.port or self.client is None:
            self.leave()
            self.port, self.client = port, Client(port)
            self.client.timeout = self.watch.answer_s
        self.read(port, *row, with_index)

    def read(self, port, job_id, index, with_index):
        headers = {"X-Corvo-Min-Index": str(index)} if with_index else {}
        request = {"job_id": job_id, "port": port,
                   "min_index": index if with_index else None}
        begin = time.monotonic()
        a = self.send("GET", f"/jobs/{job_id}", None, headers)
        outcome = outcome_of(a.status if a is not None else None)
        told = {} if a is None else {
            "status": a.status, "behind": "X-Corvo-View-Lag-Ms" in a.headers}
        self.log.write("read", request, begin, outcome, told)
        self.watch.count("read", outcome, told.get("status"))


class Load:
    """pace: how many times slower they are than usual."""

    def __init__(self, nodes, directory, seed, producers=3, workers=5,
                 keepers=3, readers=2, answer_s=ANSWER_S, pace=1):
        self.nodes = nodes
        self.directory = directory
        self.watch = Watch(answer_s)
        kinds = [("producer", Producer, producers), ("worker", Worker, workers),
                 ("line-producer", LineProducer, 1),
                 ("line-worker", LineWorker, 1),
                 ("short-producer", ShortProducer, 1),
                 ("keeper", Keeper, keepers), ("reader", Reader, readers)]
        ports = [n.port for n in nodes]
        self.people = [kind(self.watch, ports, directory, f"{name}{i}", seed)
                       for name, kind, n in kinds for i in range(n)]
        for p in self.people:
            p.pause_s = p.pause_s * pace

    def start(self):
        for p in self.people:
            p.thread.start()
        return self

    def look_at(self, node):
        """It is being restarted: readers ask it now."""
        with self.watch.lock:
            self.watch.fresh[node.port] = time.monotonic()

    def check(self):
        assert not self.watch.errors, self.watch.errors

    def backlog(self):
        """Jobs of ours that have not ended, or None when nobody can tell now.
        Those who make them go by it: what they count themselves misses what
        ended without an answer."""
        self.check()
        a = None
        with contextlib.suppress(*NETWORK), Client(self.nodes[0].port) as c:
            c.timeout = self.watch.answer_s
            a = c.get(f"{API}/queues")
        if a is None or a.status != 200 or "X-Corvo-View-Lag-Ms" in a.headers:
            return None
        n = sum(q["pending"] + q["active"] + q["retrying"] + q["scheduled"]
                for q in a.json if q["name"] in (*WORK, LINE, SHORT))
        with self.watch.lock:
            self.watch.made = self.watch.ended + n
        return n

    def drain(self, seconds=60, then=None):
        """Producers end; waits until workers have done what is there. then()
        is called before they go."""
        self.watch.produced.set()
        try:
            wait_until(lambda: self.backlog() == 0, seconds,
                       "every job to be done", every=0.2)
            if then:
                then()
        finally:
            self.stop()

    def stop(self):
        self.watch.produced.set()
        self.watch.stop.set()
        for p in self.people:
            if p.thread.ident is not None:
                p.thread.join(3 * self.watch.answer_s)
        assert not any(p.thread.is_alive() for p in self.people)
        self.check()

    def ids(self):
        """Of all jobs that stand in what the clients wrote down."""
        found = set()
        for path in self.directory.glob("*.jsonl"):
            for line in path.read_text().splitlines():
                answer = json.loads(line)["answer"]
                found.update(answer.get("job_ids", ()))
                found.update(j["job_id"] for j in answer.get("jobs", ()))
                if "job_id" in answer:
                    found.add(answer["job_id"])
        return found

    def write_final(self, node):
        """What a node says now of all jobs: those of the clients, and those
        in its lists; but not of queues that are nobody's here."""
        ids = sorted(self.ids() | listed(node))
        final = {}
        with node.client(60) as c:
            while ids:
                a = c.post(f"{API}/jobs/bulk-get", {"job_ids": ids[:200]})
                assert a.status == 200, a
                ids = ids[200:] + a.json.get("omitted", [])
                for j in a.json["jobs"]:
                    if j["queue"] not in (*WORK, LINE, SHORT):
                        continue
                    final[j["id"]] = {
                        "state": j["state"], "mark": j["payload"].get("mark"),
                        "events": [[e["type"], e.get("attempt", 0)]
                                   for e in j["timeline"]]}
        (self.directory / "final.json").write_text(json.dumps(final))
        return final


def listed(node):
    """Ids of all jobs in the lists of a node."""
    found, more = set(), {}
    with node.client(60) as c:
        while True:
            page = c.search(limit=1000, sort="created_at", order="asc", **more)
            found.update(j["id"] for j in page["jobs"])
            if not page["has_more"]:
                return found
            more = {"cursor": page["cursor"]}
