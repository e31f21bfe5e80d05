"""Clients that use what the others (clients.py) do not: batches, chains,
dependencies, schedules, budgets, agents, push queues, webhooks of both kinds,
Scheduled-DB, bulk operations, searches and the stream of events.

Each feature has a person that asks for it again and again, and says at the end
what must be true by then. All jobs are in queues of their own, soak.*, which
some workers share; ended ones are soon purged there.
"""

import http.client
import json
import threading
import time

from clients import NETWORK, Person
from node import API
from scheddb import rfc3339
from sink import Sink
from sse import EventStream

QUEUES = [f"soak.{n}" for n in (
    "plain", "step1", "step2", "after", "report", "cron", "priced", "agent",
    "inbox", "heard")]
PUSHED = "soak.pushed"
HEAP = "soak.heap"       # nobody works there: for bulk operations
BUDGET_TOKENS = 10**9    # more than a run can spend
HOOK, WEBHOOK, SCHEDULE = "soak-in", "soak-out", "soak-cron"
KEPT = "1m"              # jobs that have ended
REMEMBERED = 500         # of each feature
ITERATIONS = 3
HEAP_JOBS = 20


class Sinks:
    """Receivers of calls: which of ours arrived."""

    def __init__(self):
        self.lock = threading.Lock()
        self.pushed, self.heard, self.timed = set(), set(), set()
        self.calls = 0
        self.sink = Sink(self.take)

    def take(self, call):
        body = json.loads(call.body or b"{}")
        with self.lock:
            self.calls += 1
            fails = self.calls % 7 == 0
            if call.path == "/pushed" and not fails:
                self.pushed.add(call.job_id)
            elif call.path == "/heard" and not fails:
                self.heard.add(body["event"]["job_id"])
            elif call.path == "/timed":
                self.timed.add(body["job_id"])
        with self.sink.lock:
            self.sink.calls.clear()
        return (500 if fails else 200), {}, b"{}"

    def url(self, path):
        return self.sink.url(path)


class Feature(Person):
    pause_s = 0.5

    def __init__(self, watch, ports, directory, name, seed, sinks):
        super().__init__(watch, ports, directory, name, seed)
        self.sinks = sinks
        self.told = []  # what was acknowledged and is to be looked at later

    def is_over(self):
        return self.watch.produced.is_set()

    def want(self, method, path, body=None, headers=None, may=()):
        """The answer of some node that has a good one, or None. What is the
        client's fault, but for the codes in may, is a finding."""
        word = path.split("?")[0]
        word = "/".join(p for p in word.split("/") if p.isalpha() or "-" in p)
        for _ in range(2):
            a = self.send(method, path, body, headers)
            status = a.status if a is not None else None
            self.watch.count(f"{method} {word}", status, None)
            if status is not None and status < 300:
                return a
            if status is not None and 400 <= status < 500 and status != 429 \
                    and status not in may:
                self.watch.found.append(f"{self.name}: {path} {body}: {a}")
            if status is not None and status < 500:
                return None
            self.leave()
        return None

    def keep(self, what):
        self.told = (self.told + [what])[-REMEMBERED:]

    def enqueue(self, queue, **members):
        a = self.want("POST", "/enqueue", {"queue": queue, **members})
        return a.json["job_id"] if a is not None else None

    def set_up(self, ask):
        """Before it begins; ask(method, path, body) must succeed."""

    def judge(self, ask):
        """What is wrong at the end, when all is quiet."""
        return ()


class Batches(Feature):
    def step(self):
        a = self.want("POST", "/enqueue/batch", {
            "jobs": [{"queue": "soak.plain"} for _ in range(4)],
            "batch": {"callback_queue": "soak.report"}})
        if a is not None:
            self.keep(a.json["batch_id"])

    def judge(self, ask):
        # Older ones are purged.
        for batch in self.told[-10:]:
            a = ask("GET", f"/batches/{batch}")
            if a.status == 404:
                continue
            b = a.json
            counted = b["succeeded"] + b["failed"]
            if (b["status"], b["total"], counted) != ("completed", 4, 4):
                yield f"batch {batch} has not ended: {b}"


class Chains(Feature):
    def step(self):
        self.enqueue("soak.step1", max_retries=100, chain={
            "steps": [{"queue": "soak.step1"}, {"queue": "soak.step2"},
                      {"queue": "soak.plain"}],
            "on_exit": {"queue": "soak.report"}})


class Dependencies(Feature):
    def step(self):
        self.want("POST", "/enqueue/batch", {"jobs": [
            {"queue": "soak.plain"}, {"queue": "soak.plain"},
            {"queue": "soak.after", "depends_on": ["#0", "#1"],
             "on_dependency_failure": "ignore"}]})


class Schedules(Feature):
    """One that always is there, and others that come and go."""
    pause_s = 2.0

    def set_up(self, ask):
        ask("POST", "/schedules", {"name": SCHEDULE, "queue": "soak.cron",
                                   "cron": "@every 1s"})
        self.begin = time.monotonic()

    def step(self):
        self.n += 1
        name = f"{self.name}-{self.n % 5}"
        kind = self.rng.randrange(4)
        if kind < 2:
            self.want("POST", "/schedules", {
                "name": name, "queue": "soak.cron", "cron": "* * * * * *"},
                may=[409])
        elif kind == 2:
            self.want("DELETE", f"/schedules/{name}", may=[404])
        else:
            self.want("POST", f"/schedules/{SCHEDULE}/run", {})

    def judge(self, ask):
        s = ask("GET", f"/schedules/{SCHEDULE}").json
        passed = time.monotonic() - self.begin
        if not passed / 10 < s["runs"]:
            yield f"schedule: in {passed:.0f} s it ran {s['runs']} times"


class Budgets(Feature):
    """Each priced job costs one token; see Hand, who counts."""

    def set_up(self, ask):
        ask("POST", "/budgets", {
            "scope": "queue", "target": "soak.priced", "limits": [
                {"unit": "tokens", "per": "window", "window": "9000h",
                 "amount": BUDGET_TOKENS}]})

    def step(self):
        self.enqueue("soak.priced", expected={"tokens": 1}, max_retries=1000)

    def judge(self, ask):
        row = next(b for b in ask("GET", "/budgets").json
                   if b["target"] == "soak.priced")["state"][0]
        sure, may = len(self.watch.paid), len(self.watch.perhaps_paid)
        if not sure <= row["spent"] <= sure + may:
            yield (f"budget: {sure} tokens were acknowledged, {may} perhaps, "
                   f"and {row['spent']} are spent")
        if row["reserved"]:
            yield f"budget: {row['reserved']} held for nobody"


class Agents(Feature):
    def step(self):
        self.enqueue("soak.agent", max_retries=1000,
                     agent={"max_iterations": 1000})


class Pushes(Feature):
    def set_up(self, ask):
        ask("PATCH", f"/queues/{PUSHED}", {
            "retention": KEPT, "retry_backoff": "none",
            "push": {"url": self.sinks.url("/pushed"), "timeout": "5s"}})

    def step(self):
        job = self.enqueue(PUSHED, max_retries=100)
        if job is not None:
            self.keep(job)

    def judge(self, ask):
        missing = [j for j in self.told if j not in self.sinks.pushed]
        if missing:
            yield f"push: no call was made for {missing}"


class Webhooks(Feature):
    """Jobs arrive by one and are told of by the other."""

    def set_up(self, ask):
        ask("PUT", f"/hooks/{HOOK}", {"queue": "soak.inbox",
                                      "verify": "token", "secret": "pass-4711"})
        ask("POST", "/webhooks", {
            "id": WEBHOOK, "url": self.sinks.url("/heard"),
            "events": ["enqueued"], "queues": ["soak.inbox", "soak.heard"],
            "retry_limit": 50, "retry_delay": "100ms",
            "retry_max_delay": "1s"})

    def step(self):
        if self.rng.random() < 0.5:
            job = self.enqueue("soak.heard")
        else:
            a = self.want("POST", f"/hooks/{HOOK}", {"n": self.n},
                          {"Authorization": "Bearer pass-4711"})
            job = a.json["job_id"] if a is not None else None
        if job is not None:
            self.keep(job)

    def judge(self, ask):
        w = ask("GET", f"/webhooks/{WEBHOOK}").json
        missing = [j for j in self.told if j not in self.sinks.heard]
        if missing or w["lost"] or w["failed"]:
            yield f"webhook: never told of {missing}: {w}"


class ScheduledDb(Feature):
    base = ""

    def step(self):
        a = self.want("POST", "/jobs", {
            "type": "unico", "timestamp": rfc3339(time.time() + 20),
            "webhook_url": self.sinks.url("/timed"),
            "payload": {"of": self.name}})
        if a is not None:
            self.keep(a.json["id"])

    def judge(self, ask):
        missing = [j for j in self.told if j not in self.sinks.timed]
        if missing:
            yield f"Scheduled-DB: no call was made for {missing}"


class Bulks(Feature):
    pause_s = 3.0

    def step(self):
        self.want("POST", "/enqueue/batch", {"jobs": [
            {"queue": HEAP, "tags": {"n": str(i % 2)}}
            for i in range(HEAP_JOBS)]})
        self.want("POST", "/jobs/bulk", {
            "action": self.rng.choice(["change_priority", "hold", "cancel"]),
            "priority": "high", "filter": {"queue": HEAP,
                                           "tags": {"n": "1"}}}, may=[400])
        self.want("POST", "/jobs/bulk", {
            "action": "delete", "async": self.rng.random() < 0.5,
            "filter": {"queue": HEAP}})

    def judge(self, ask):
        ask("POST", "/jobs/bulk", {"action": "delete",
                                   "filter": {"queue": HEAP}})
        if ask("POST", "/jobs/search", {"queue": HEAP}).json["jobs"]:
            yield "bulk: jobs are left after all of a queue were deleted"


class Searches(Feature):
    pause_s = 1.0
    ASKED = [
        {"queue": HEAP, "tags": {"n": "1"}},
        {"payload_jq": '.mark | startswith("producer")', "limit": 20},
        {"state": ["completed"], "sort": "completed_at"},
        {"text": "producer"},
    ]

    def step(self):
        self.want("POST", "/jobs/search", self.rng.choice(self.ASKED))
        self.want("GET", "/search/fulltext?q=producer&limit=5")
        self.want("GET", f"/queues/{HEAP}", may=[404])


class Listener(Feature):
    """Follows the stream of all events, at whatever node there is: each comes
    once, and none is left out."""

    def __init__(self, *args):
        super().__init__(*args)
        self.last = None
        self.gaps = []

    def step(self):
        port = self.rng.choice(self.ports)
        try:
            with EventStream(port, last_id=self.last, timeout=1.0) as s:
                self.watch.count("events", s.status, None)
                if s.status == 200:
                    self.follow(s, self.rng.uniform(5, 30))
        except (*NETWORK, http.client.HTTPException, AssertionError):
            pass  # its node went away

    def follow(self, stream, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.is_over():
            some = stream.read()
            if some is None:
                return
            for frame in some:
                if frame.event == "error":
                    return
                if frame.data is not None:
                    self.see(frame.id)

    def see(self, seq):
        if self.last is not None and seq != self.last + 1:
            self.gaps.append((self.last, seq))
        self.last = seq

    def judge(self, ask):
        if self.last is None:
            yield "events: none came"
        if self.gaps:
            yield f"events: after {self.gaps[0][0]} came {self.gaps[0][1]}"


class Hand(Feature):
    """Works on all of it: mostly well."""
    pause_s = 0.1

    def is_over(self):
        return self.watch.stop.is_set()

    def step(self):
        a = self.want("POST", "/fetch/batch", {
            "queues": QUEUES, "worker_id": self.name, "count": 10,
            "timeout": 1, "lease_duration_ms": 4000})
        for job in a.json["jobs"] if a is not None and a.body else ():
            self.handle(job)

    def handle(self, job):
        body = {"lease_token": job["lease_token"]}
        job_id, dice = job["job_id"], self.rng.random()
        if dice < 0.02:
            return
        if dice < 0.06:
            self.want("POST", f"/fail/{job_id}", {**body, "error": "by chance"},
                      may=[409])
            return
        if job["queue"] == "soak.agent":
            n = job["agent"]["iteration"]
            body.update(agent_status="continue" if n < ITERATIONS else "done",
                        checkpoint={"n": n})
        priced = job["queue"] == "soak.priced"
        if priced:
            body["usage"] = {"input_tokens": 1}
            with self.watch.lock:
                self.watch.perhaps_paid.add(job_id)
        a = self.want("POST", f"/ack/{job_id}", body, may=[404, 409])
        if priced and a is not None:
            with self.watch.lock:
                self.watch.paid.add(job_id)
                self.watch.perhaps_paid.discard(job_id)


FEATURES = [Batches, Chains, Dependencies, Schedules, Budgets, Agents, Pushes,
            Webhooks, ScheduledDb, Bulks, Searches, Listener, Hand, Hand]


def everybody(watch, ports, directory, seed, sinks):
    watch.paid, watch.perhaps_paid, watch.found = set(), set(), []
    return [kind(watch, ports, directory, f"{kind.__name__.lower()}{i}", seed,
                 sinks) for i, kind in enumerate(FEATURES)]
