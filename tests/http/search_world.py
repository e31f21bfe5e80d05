"""Generated jobs for test_search_filters.py, and what a search should find
among them: the filters again, evaluated one job at a time in Python."""

import json
import random
import re

from node import API
from waiting import wait_until

QUEUES = ["mail", "resize", "a-queue.with_all", "q1", "q2"]
ODD = ["'; DROP TABLE jobs; --", '"', "'", "\\", "%", "_", "$.a", "a.b",
       "\U0001f600", "\u00fcber", "\u0000", "*", "[0]", "?1", "/* x", "\n",
       "' OR 1=1 --", "x\" OR \"1", "NEAR(a b)", "a:b", "-", "(", "\u202e",
       "Ada", "ada", "null", "1", "true", "  ", "{}", "$", "#-1"]
WORDS = ["welcome", "invoice", "Report", "alpha", "beta", "user", "example"]
KEYS = ["tenant", "a.b", "a", "'", '"', "$", "\U0001f511", "k\\", "[0]", "%"]
NAMES = ODD[:10]  # of workers and groups, without NUL
# Words that only somebody who reads the escapes finds side by side.
ESCAPED = [r'["user", "\n", "example"]', r'"user\u0020example"',
           r'"\u0075ser \u0065xample"', r'"user \\u0065xample"']
# Times far enough from now that nothing becomes due during the test.
FUTURE = ["2100-01-01T00:00:00Z", "2100-01-01T00:00:00.000000001Z",
          "2101-06-01T12:00:00Z", "2150-01-01T00:00:00Z"]
TIMES = {"created": "created_at", "scheduled": "scheduled_at",
         "started": "started_at", "completed": "completed_at",
         "expire": "expire_at"}
EQUAL = ["queue", "unique_key", "batch_id", "worker_id", "parent_id",
         "chain_id", "group", "schedule_id"]
STATES = ["pending", "active", "held", "completed", "retrying", "dead",
          "cancelled", "scheduled"]
PRIORITIES = ["critical", "high", "normal"]


def ns_of(text):
    """RFC 3339 in UTC to nanoseconds, exactly."""
    whole, digits = re.fullmatch(r"(.{19})(?:\.(\d+))?Z", text).groups()
    days, clock = whole.split("T")
    y, m, d = (int(x) for x in days.split("-"))
    m, y = (m + 9) % 12, y - (m < 3)
    day = 365 * y + y // 4 - y // 100 + y // 400 + (153 * m + 2) // 5 + d
    h, mi, s = (int(x) for x in clock.split(":"))
    return (((day * 24 + h) * 60 + mi) * 60 + s) * 10**9 + \
        int((digits or "").ljust(9, "0"))


# --- making them -----------------------------------------------------------


class World:
    """10,000 jobs in all states; self.jobs: {id: job as GET answers}."""

    def __init__(self, client, seed, count):
        self.c = client
        self.rng = random.Random(seed)
        self.count = count
        self.raw = {}  # id -> payload, byte for byte
        self.jobs = {}
        self.newest_first = []
        self.batches = [self.open_batch() for _ in range(4)]

    def open_batch(self):
        a = self.c.post(f"{API}/batches", {})
        assert a.status == 201, a
        return a.json["batch_id"]

    def some(self, *choices):
        return self.rng.choice(choices)

    def value(self, depth=0):
        pick = self.rng.random()
        if pick < 0.3:
            return self.rng.choice(ODD + WORDS)
        if pick < 0.5:
            return self.some(0, 1, -1, 5, 100, 2**53 + 1, 1.5, -2.5, 1e-7, 1e20)
        if pick < 0.65:
            return self.some(None, True, False)
        if depth == 3:
            return "deep"
        if pick < 0.83:
            return [self.value(depth + 1) for _ in range(self.rng.randrange(5))]
        return {k: self.value(depth + 1) for k in
                self.rng.sample(KEYS, self.rng.randrange(4))}

    def payload(self):
        out = {"n": self.rng.randrange(200), "v": self.value(),
               "name": self.rng.choice(ODD + WORDS),
               "text": " ".join(self.rng.choices(WORDS, k=3)),
               "list": self.rng.sample(WORDS, self.rng.randrange(5)),
               "o": {"region": self.some("eu", "us", None), "p": self.value()}}
        for key in self.rng.sample(sorted(out), self.rng.randrange(4)):
            del out[key]
        if self.rng.random() < 0.05:
            out = self.value() or 0  # null would mean none was given
        return json.dumps(out, ensure_ascii=self.rng.random() < 0.5,
                          separators=self.some((",", ":"), (", ", ": ")))

    def tags(self):
        picked = self.rng.sample(KEYS, self.rng.randrange(1, 4))
        return json.dumps({k: self.rng.choice(ODD) for k in picked},
                          ensure_ascii=self.rng.random() < 0.5)

    def job(self, number):
        """Text of one item of enqueue/batch."""
        job = {"queue": self.rng.choice(QUEUES), "max_retries": self.some(1, 3),
               "priority": self.rng.choice(PRIORITIES),
               "retry_base_delay": "9000h", "retry_max_delay": "9000h"}
        maybe = {
            "unique_key": lambda: self.rng.choice(ODD) + str(number % 4000),
            "batch_id": lambda: self.rng.choice(self.batches),
            "parent_id": lambda: self.rng.choice(NAMES),
            "group": lambda: self.rng.choice(NAMES),
            "scheduled_at": lambda: self.rng.choice(FUTURE),
            "expire_after": lambda: self.some("9000h", "9001h"),
            "chain": lambda: {"steps": [{"queue": "q1"}, {"queue": "q2"}]},
        }
        for name, make in maybe.items():
            if self.rng.random() < 0.15:
                job[name] = make()
        if "chain" in job:
            job["queue"] = "q1"  # as its first step
        raw = {"payload": self.payload()}
        if self.rng.random() < 0.5:
            raw["tags"] = self.tags()
        more = "".join(f', "{k}": {v}' for k, v in raw.items())
        return raw, json.dumps(job)[:-1] + more + "}"

    def enqueue(self):
        for start in range(0, self.count, 500):
            made = [self.job(start + i) for i in range(500)]
            body = '{"jobs": [' + ",".join(x for _, x in made) + "]}"
            a = self.c.post(f"{API}/enqueue/batch", body.encode())
            assert a.status == 201, a
            for (raw, _), got in zip(made, a.json["job_ids"]):
                if got not in self.raw:  # not a duplicate by its unique key
                    self.raw[got] = raw["payload"]
        for payload in ESCAPED:
            body = '{"queue": "q1", "payload": ' + payload + "}"
            a = self.c.post(f"{API}/enqueue", body.encode())
            assert a.status == 201, a
            self.raw[a.json["job_id"]] = payload

    def run_schedule(self):
        a = self.c.post(f"{API}/schedules", {
            "name": "s", "queue": "mail", "cron": "0 0 1 1 *",
            "payload": {"by": "schedule"}})
        assert a.status == 201, a
        for _ in range(5):
            a = self.c.post(f"{API}/schedules/s/run")
            assert a.status == 200, a

    def work(self, part):
        """Hands out a part of the jobs and ends them in all ways."""
        taken = 0
        while taken < part:
            worker = self.some("w1", "w2", *NAMES)
            a = self.c.post(f"{API}/fetch/batch", {
                "queues": QUEUES, "count": 64, "timeout": 0,
                "worker_id": worker, "lease_duration": 80000})
            assert a.status == 200, a
            if not a.json["jobs"]:
                return
            taken += len(a.json["jobs"])
            for job in a.json["jobs"]:
                self.end(job)

    def end(self, job):
        pick = self.rng.random()
        if pick < 0.4:
            self.c.ack(job)
        elif pick < 0.8:
            self.c.fail(job, error=self.rng.choice(ODD) + " SMTP Timeout "
                        + self.rng.choice(ODD), retry=pick < 0.6)

    def act(self):
        ids = list(self.raw)
        for job_id in self.rng.sample(ids, len(ids) // 10):
            verb = self.some("cancel", "hold", "retry")
            self.c.post(f"{API}/jobs/{job_id}/{verb}")  # refused in some states

    def matching(self, **members):
        """The jobs a search should find, newest first."""
        tests = tests_of(members)
        return [j for j in self.newest_first if all(t(j) for t in tests)]

    def make(self):
        self.enqueue()
        self.run_schedule()
        self.work(self.count // 4)
        self.act()
        self.work(self.count // 10)
        self.read()
        return self

    def view_is_current(self):
        return "view_lag_ms" not in self.c.search(limit=1)

    def read(self):
        """What the state machine says of every job that exists."""
        wait_until(self.view_is_current, 30, "the view to have all jobs")
        found, cursor = [], None
        while True:
            members = {"cursor": cursor} if cursor else {}
            a = self.c.search(limit=1000, **members)
            found += [j["id"] for j in a["jobs"]]
            cursor = a.get("cursor")
            if cursor is None:
                break
        assert set(self.raw) <= set(found)
        for job_id in found:
            a = self.c.get(f"{API}/jobs/{job_id}")
            job = self.jobs[job_id] = a.json
            text = a.body.decode()
            job["_raw"], at = raw_member(text, "payload", 0)
            job["_tags"] = ""
            if "tags" in job:
                job["_tags"], _ = raw_member(text, "tags", at)
            assert job["_raw"] == self.raw.get(job_id, job["_raw"]), (
                job["_raw"], self.raw[job_id])
            prepare(job)
        self.newest_first = sorted(self.jobs.values(), reverse=True,
                                   key=lambda j: j["_spot"])


def raw_member(text, name, start):
    """A member of a job's JSON as it stands there, and where it ends."""
    start = text.index(f'"{name}":', start) + len(name) + 3
    _, end = json.JSONDecoder().raw_decode(text, start)
    return text[start:end], end


# --- the filters ------------------------------------------------------------


def ascii_lower(text):
    return "".join(c.lower() if c.isascii() else c for c in text)


ESCAPE = re.compile(r'(?:\\u[0-9a-fA-F]{4})+|\\["\\/bfnrt]')


def unescaped(raw):
    """JSON with the characters that its escapes stand for."""
    return ESCAPE.sub(lambda m: json.loads(f'"{m[0]}"'), raw)


def tokens(text):
    return [t.lower() for t in re.findall(r"[^\W_]+", text)]


def prepare(job):
    """What many comparisons need, computed once."""
    job["_ns"] = {c: ns_of(job[c]) for c in TIMES.values() if c in job}
    job["_lower"] = ascii_lower(job["_raw"])
    job["_errors"] = [ascii_lower(e["error"]) for e in job.get("errors", [])]
    job["_spot"] = (job["_ns"]["created_at"], job["id"].encode())
    job["_tokens"] = [tokens(x) for x in (
        unescaped(job["_raw"]), unescaped(job["_tags"]), job["queue"])]


def has_phrase(words, have, prefix):
    for i in range(len(have) - len(words) + 1):
        got = have[i:i + len(words)]
        if got[:-1] == words[:-1] and (
                got[-1].startswith(words[-1]) if prefix
                else got[-1] == words[-1]):
            return True
    return False


def has_text(query):
    """Terms of a text; only plain words, phrases and word* are used here."""
    terms = []
    for phrase, star, word in re.findall(r'"([^"]*)"(\*?)|(\S+)', query):
        words = tokens(phrase or word)
        if words:
            terms.append((words, bool(star) or word.endswith("*")))

    def test(job):
        return all(any(has_phrase(words, have, prefix)
                       for have in job["_tokens"]) for words, prefix in terms)
    return test


def time_test(column, edge, sign):
    edge = ns_of(edge)
    return lambda j: column in j["_ns"] and \
        (j["_ns"][column] - edge) * sign > 0


def tests_of(m):
    """One function for each condition of a search."""
    out = [lambda j, k=k: j.get(k) == m[k] for k in EQUAL if k in m]
    for key, value in m.get("tags", {}).items():
        out.append(lambda j, k=key, v=value: j.get("tags", {}).get(k) == v)
    for name, column in TIMES.items():
        for side, sign in (("after", 1), ("before", -1)):
            if f"{name}_{side}" in m:
                out.append(time_test(column, m[f"{name}_{side}"], sign))
    simple = {
        "priority": lambda v: lambda j: j["priority"] == v,
        "state": lambda v: lambda j: not v or j["state"] in v,
        "payload_contains": lambda v: lambda j: ascii_lower(v) in j["_lower"],
        "error_contains": lambda v: lambda j: any(ascii_lower(v) in e
                                                  for e in j["_errors"]),
        "has_errors": lambda v: lambda j: bool(j["_errors"]) == v,
        "attempt_min": lambda v: lambda j: j["attempt"] >= v,
        "attempt_max": lambda v: lambda j: j["attempt"] <= v,
        "job_id_prefix": lambda v: lambda j: j["id"].startswith(v),
        "text": has_text,
    }
    return out + [make(m[name]) for name, make in simple.items() if name in m]


def in_order(jobs, sort="created_at", order="desc"):
    """Ids as a search lists them: none last, ties by creation and id."""
    def key(job):
        if sort == "priority":
            return PRIORITIES.index(job[sort]), job["_spot"]
        value = job["attempt"] if sort == "attempt" else job["_ns"].get(sort)
        return value, job["_spot"]

    keyed = [(key(j), j["id"]) for j in jobs]
    down = order != "asc"
    some = sorted((x for x in keyed if x[0][0] is not None), reverse=down)
    none = sorted((x[0][1], x[1]) for x in keyed if x[0][0] is None)
    return [x[1] for x in some] + [x[1] for x in
                                   (reversed(none) if down else none)]
