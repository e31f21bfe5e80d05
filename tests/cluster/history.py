#!/usr/bin/env python3
"""Did a cluster keep its promises? What its clients saw, held against them.

  history.py DIRECTORY [--tolerance SECONDS] [--fifo QUEUE]

Each client writes down what it did, one JSON object a line, in a file of its
own (class Log): DIRECTORY/*.jsonl. What the cluster says at the end is in
DIRECTORY/final.json: {job id: {state, mark, events}}, all jobs there are; an
event is [type, attempt].

A record:

  client   who did it
  op       enqueue, enqueue_batch, fetch, beat, ack, fail, cancel, delete,
           read
  begin    when it was sent, end: when it was answered or given up; seconds of
  end      the machine's monotonic clock, which all clients share
  outcome  ok       it was answered with success
           refused  with 400 to 499, or 503: it was not done and never will be
           unknown  with something else, or not at all: done or not
  request  what was asked for; see the ops below
  answer   of ok, what came back; of refused, {code}

  enqueue        {mark, queue, priority, unique_key}; {job_id, duplicate}
  enqueue_batch  {jobs: [as of enqueue]}; {job_ids}
  fetch          {queues, lease_s}; {jobs: [{job_id, token, attempt, queue,
                 mark}]}, none when there was nothing to take
  beat           {job_id, token}; {status}: ok, or cancel with a code
  ack, fail      {job_id, token}
  cancel         {job_id}; {status}: cancelled, or cancelling
  delete         {job_id}
  read           {job_id, port, min_index}, of one node: port says which,
                 min_index is what was sent as X-Corvo-Min-Index, or null;
                 {status, behind}: whether the answer says it may be too old

An answer to what creates a job also has port, the node that gave it, and index,
its X-Corvo-Index.

A mark is a text of the producer's own that no other job has; it stands in the
payload, so a job can be told whose id nobody was told. A producer that sends a
job again does so with the same mark, and with an Idempotency-Key, so one mark
is one job.

All rules judge only what must be so whichever moments between begin and end
things were done at. What is unknown may have been done or not; but not both.
"""

import argparse
import collections
import json
import sys
import time
from pathlib import Path

from rules import NEVER, RULES, extends

# What two clocks of one machine, and the machine's own delays, may differ by.
TOLERANCE_S = 0.25


class Log:
    """A client's own list of what it saw. One thread each."""

    def __init__(self, directory, client):
        self.client = client
        self.file = open(Path(directory) / f"{client}.jsonl", "a")

    def close(self):
        self.file.close()

    def write(self, op, request, begin, outcome, answer=None):
        row = {"client": self.client, "op": op, "begin": begin,
               "end": time.monotonic(), "outcome": outcome,
               "request": request, "answer": answer or {}}
        self.file.write(json.dumps(row) + "\n")


def outcome_of(status):
    """The word for a status; None: there was no answer."""
    if status is None:
        return "unknown"
    if 200 <= status < 300:
        return "ok"
    return "refused" if 400 <= status < 500 or status == 503 else "unknown"


class Delivery:
    """A job in a worker's hands: from a fetch that was answered."""

    def __init__(self, record, row):
        self.fetch = record
        self.begin, self.end = record["begin"], record["end"]
        self.client = record["client"]
        self.token = row["token"]
        self.attempt = row["attempt"]
        self.lease_s = record["request"]["lease_s"]
        self.beats = []   # records of heartbeats with its token
        self.acks = []    # of acks
        self.fails = []   # of fails

    def released(self):
        """When its worker first said that it is done, with whatever answer."""
        return min((r["begin"] for r in self.acks + self.fails
                    if r["outcome"] != "refused"), default=NEVER)

    def held_until(self, not_before, now):
        """The earliest moment its lease can end by itself, as it was at `now`:
        the lease is counted from the grant, which was not before the fetch was
        sent nor before the job was there, or from the last heartbeat that was
        answered ok."""
        starts = [max(self.begin, not_before)]
        starts += [r["begin"] for r in self.beats
                   if extends(r) and r["begin"] <= now]
        return max(starts) + self.lease_s


class Job:
    def __init__(self, job_id):
        self.id = job_id
        self.mark = None
        self.request = None      # of the enqueue that made it
        self.begin = -NEVER      # it was created between these two
        self.end = NEVER
        self.deliveries = []
        self.strays = []         # records of tokens nobody was given
        self.cancels = []
        self.deletes = []
        self.told = []           # enqueues that were answered with it

    def delivery(self, token):
        return next((d for d in self.deliveries if d.token == token), None)

    def all(self, kind):
        """Records of acks, fails or beats, of all its deliveries."""
        return [r for d in self.deliveries for r in getattr(d, kind)]

    def may_end(self):
        """The earliest moment at which it can have ended: something that ends
        it was sent, and not refused. It cannot die of lost leases, as jobs of
        such runs have more attempts than anybody has time for."""
        ends = self.all("acks") + self.all("fails") + self.strays
        return min((r["begin"] for r in ends + self.cancels + self.deletes
                    if r["op"] != "beat" and r["outcome"] != "refused"),
                   default=NEVER)

    def surely_ended(self):
        """When it is known to have ended: an ack, a cancel or a delete was
        answered."""
        done = [r["end"] for r in self.all("acks") + self.deletes
                if r["outcome"] == "ok"]
        done += [r["end"] for r in self.cancels if r["outcome"] == "ok"
                 and r["answer"].get("status") == "cancelled"]
        return min(done, default=NEVER)

    def may_be_deleted(self):
        return any(r["outcome"] != "refused" for r in self.deletes)


class History:
    def __init__(self, records, final, tolerance=TOLERANCE_S, fifo=()):
        self.final = final
        self.tolerance = tolerance
        self.fifo = fifo
        self.jobs = {}
        self.marks = collections.defaultdict(list)   # mark: its enqueues
        self.ids = collections.defaultdict(set)      # mark: ids seen with it
        self.duplicates = []                         # enqueues answered so
        self.batches = []
        self.reads = []
        self.found = []
        for r in sorted(records, key=lambda r: r["begin"]):
            getattr(self, "take_" + r["op"])(r)
        for job_id, row in final.items():
            if row.get("mark"):
                self.ids[row["mark"]].add(job_id)
        for job in self.jobs.values():
            job.deliveries.sort(key=lambda d: d.token)
        self.set_creation()

    # --- reading ---------------------------------------------------------

    def job(self, job_id):
        return self.jobs.setdefault(job_id, Job(job_id))

    def take_enqueue(self, r):
        q = r["request"]
        self.marks[q["mark"]].append(r)
        if r["outcome"] != "ok":
            return
        if r["answer"].get("duplicate"):
            self.duplicates.append(r)
        else:
            self.created(r["answer"]["job_id"], q, r)

    def take_enqueue_batch(self, r):
        self.batches.append(r)
        for q in r["request"]["jobs"]:
            self.marks[q["mark"]].append(r)
        if r["outcome"] == "ok":
            for job_id, q in zip(r["answer"]["job_ids"], r["request"]["jobs"]):
                self.created(job_id, q, r)

    def created(self, job_id, request, r):
        job = self.job(job_id)
        job.request = request
        job.mark = request["mark"]
        job.end = min(job.end, r["end"])
        job.told.append(r)
        self.ids[request["mark"]].add(job_id)

    def sent(self, mark):
        """Requests that may have been carried out, the first one first. Those
        after it have the answer it had, for their Idempotency-Key."""
        return [r for r in self.marks.get(mark, ())
                if r["outcome"] != "refused"]

    def set_creation(self):
        """Earliest moments of creation: when its mark was first sent by a
        request that was not refused. That of a job nobody was told of, but
        that was handed out, is known by its mark; its end is not."""
        for job in self.jobs.values():
            sent = self.sent(job.mark)
            if not sent:
                continue
            job.begin = sent[0]["begin"]
            if job.request is None:
                job.request = next(
                    q for q in sent[0]["request"].get(
                        "jobs", [sent[0]["request"]])
                    if q["mark"] == job.mark)

    def take_fetch(self, r):
        for row in r["answer"].get("jobs", ()):
            job = self.job(row["job_id"])
            job.deliveries.append(Delivery(r, row))
            if row.get("mark"):
                job.mark = row["mark"]
                self.ids[row["mark"]].add(job.id)

    def take_with_token(self, r, kind):
        job = self.job(r["request"]["job_id"])
        d = job.delivery(r["request"]["token"])
        if d is None:
            job.strays.append(r)
        else:
            getattr(d, kind).append(r)

    def take_beat(self, r):
        self.take_with_token(r, "beats")

    def take_ack(self, r):
        self.take_with_token(r, "acks")

    def take_fail(self, r):
        self.take_with_token(r, "fails")

    def take_cancel(self, r):
        self.job(r["request"]["job_id"]).cancels.append(r)

    def take_read(self, r):
        self.reads.append(r)

    def take_delete(self, r):
        self.job(r["request"]["job_id"]).deletes.append(r)

    # --- judging ---------------------------------------------------------

    def say(self, rule, job, text):
        self.found.append(f"{rule}: {getattr(job, 'id', job)}: {text}")

    def check(self):
        """All that was found, as sentences that begin with the rule's name."""
        for rule in RULES:
            rule(self)
        return self.found


def check(records, final, tolerance=TOLERANCE_S, fifo=()):
    return History(records, final, tolerance, fifo).check()


def read(directory):
    """(records, final) of a directory."""
    records = []
    for path in sorted(Path(directory).glob("*.jsonl")):
        records += map(json.loads, path.read_text().splitlines())
    return records, json.loads((Path(directory) / "final.json").read_text())


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("directory")
    p.add_argument("--tolerance", type=float, default=TOLERANCE_S)
    p.add_argument("--fifo", action="append", default=[])
    o = p.parse_args()
    records, final = read(o.directory)
    found = check(records, final, o.tolerance, o.fifo)
    print("\n".join(found))
    print(f"{len(records)} observations, {len(final)} jobs, "
          f"{len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
