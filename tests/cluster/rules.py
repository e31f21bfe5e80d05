"""The rules history.py judges by; see there for what a history is.

Each is a function of a History. The first word of its text is the name of the
rule in what is reported.
"""

import bisect
import collections

PRIORITIES = ("critical", "high", "normal")
ENDED = ("completed", "dead", "cancelled")
NEVER = float("inf")


def extends(beat):
    """True for a heartbeat that was told its lease goes on."""
    return beat["outcome"] == "ok" and beat["answer"].get("status") == "ok"


def at(seconds):
    return f"{seconds:.3f}"


def rule_exists(h):
    """lost: what was acknowledged, handed out, or named as a duplicate is
    there at the end, unless somebody deleted it. Nothing of such a run is old
    enough to be purged."""
    for job in h.jobs.values():
        seen = job.end < NEVER or job.deliveries
        if seen and job.id not in h.final and not job.may_be_deleted():
            h.say("lost", job, "acknowledged or handed out, and not there")
    for r in h.duplicates:
        job_id = r["answer"]["job_id"]
        gone = job_id in h.jobs and h.jobs[job_id].may_be_deleted()
        if job_id not in h.final and not gone:
            h.say("lost", job_id, "named as a duplicate, and not there")


def rule_refused_is_not_done(h):
    """refused: a request that was refused was not carried out. So a mark all
    of whose requests were refused is nowhere, and a job all of whose acks were
    refused is not completed."""
    for mark, sent in h.marks.items():
        if all(r["outcome"] == "refused" for r in sent) and h.ids.get(mark):
            h.say("refused", mark, f"refused, and exists: {h.ids[mark]}")
    for job_id, row in h.final.items():
        if row["state"] != "completed":
            continue
        job = h.jobs.get(job_id)
        acks = job.all("acks") + [r for r in job.strays
                                  if r["op"] == "ack"] if job else []
        if all(r["outcome"] == "refused" for r in acks):
            h.say("refused", job_id, "completed, and no ack was accepted")


def rule_once(h):
    """twice: one mark is one job, however often it was sent. What is unknown
    was done or not, but not twice; and a batch is done as a whole or not."""
    for mark, ids in h.ids.items():
        if len(ids) > 1:
            h.say("twice", mark, f"became {sorted(ids)}")
    for r in h.batches:
        marks = [q["mark"] for q in r["request"]["jobs"]]
        ids = [h.ids.get(m, set()) for m in marks]
        there = sum(bool(i) for i in ids)
        gone = any(i in h.jobs and h.jobs[i].may_be_deleted()
                   for s in ids for i in s)
        if 0 < there < len(marks) and not gone:
            h.say("twice", marks[0],
                  f"{there} jobs of a batch of {len(marks)} exist")


def rule_completed_once(h):
    """completed: a job is completed once. An ack may be sent again with the
    same token and is answered the same; with two tokens only one can be
    accepted, and the job's own events have one end."""
    for job in h.jobs.values():
        tokens = {d.token for d in job.deliveries
                  if any(r["outcome"] == "ok" for r in d.acks)}
        if len(tokens) > 1:
            h.say("completed", job, f"acks with tokens {sorted(tokens)}")
        for r in job.strays:
            if r["op"] != "beat" and r["outcome"] == "ok":
                h.say("completed", job, f"{r['op']} with token "
                      f"{r['request']['token']}, which nobody was given")
    for job_id, row in h.final.items():
        types = [e[0] for e in row.get("events", ())]
        if types.count("completed") > 1:
            h.say("completed", job_id, f"events {types}")


def rule_completed_stays(h):
    """ended: a job whose ack was answered is completed at the end (cancelled,
    where somebody asked for that), and nobody is given it afterwards."""
    for job in h.jobs.values():
        done = [d for d in job.deliveries
                if any(r["outcome"] == "ok" for r in d.acks)]
        if not done:
            continue
        state = h.final.get(job.id, {}).get("state")
        may = ["completed"]
        if any(r["outcome"] != "refused" for r in job.cancels):
            may.append("cancelled")
        if state is not None and state not in may:
            h.say("ended", job, f"acknowledged, and at the end {state}")
        last = job.deliveries[-1]
        if last.token > done[0].token:
            h.say("ended", job, f"acknowledged with token {done[0].token} and "
                  f"handed out with {last.token} to {last.client}")


def rule_completed_had_a_lease(h):
    """lease: an ack, a fail or a heartbeat is accepted only with the token of
    the last delivery. Once another worker has its answer, what is sent with an
    older token is refused; but a fail that may have been accepted before, and
    is sent again, is answered as it was then."""
    for job in h.jobs.values():
        for d, later in zip(job.deliveries, job.deliveries[1:]):
            again = NEVER
            for r in sorted(d.acks + d.fails + d.beats,
                            key=lambda r: r["begin"]):
                took = extends(r) if r["op"] == "beat" else \
                    r["outcome"] == "ok"
                is_again = r["op"] == "fail" and again < r["begin"]
                if took and r["begin"] > later.end and not is_again:
                    h.say("lease", job, f"{r['op']} of {d.client} with token "
                          f"{d.token} accepted at {at(r['end'])}, and "
                          f"{later.client} had {later.token} since "
                          f"{at(later.end)}")
                if r["op"] == "fail" and r["outcome"] != "refused":
                    again = min(again, r["begin"])


def rule_events_had_a_lease(h):
    """events: in a job's own list each completion stands after the start of an
    attempt, and no attempt starts while another runs. (A fetch that is sent
    again inside the cluster starts the same attempt again, with a new token.)
    The event log is bounded, so a list may have lost its first events: one that
    does not begin with the job's creation may begin while an attempt runs.
    """
    ends = ("completed", "failed", "reclaimed", "given_back", "timed_out",
            "cancelled", "dead", "expired")
    for job_id, row in h.final.items():
        events = row.get("events", ())
        running = None
        may_run = len(events) > 0 and events[0][0] != "enqueued"
        for word, attempt in events:
            if word == "started":
                if running not in (None, attempt):
                    h.say("events", job_id, f"attempt {attempt} began while "
                          f"{running} ran: {row['events']}")
                running = attempt
            elif word == "completed" and running is None and not may_run:
                h.say("events", job_id,
                      f"completed without a lease: {row['events']}")
            if word in ends or word == "started":
                may_run = False
            if word in ends:
                running = None


def rule_leases_apart(h):
    """overlap: a job is not handed out while another worker has it. The later
    worker got it at the latest when its fetch was answered. The lease before
    had not ended then, unless its worker had said that it is done, or it is
    longer ago than the lease lasts (see Delivery.held_until). Tokens say which
    came first, and are never given twice."""
    for job in h.jobs.values():
        not_before = job.begin
        for d, later in zip(job.deliveries, job.deliveries[1:]):
            if d.token == later.token:
                h.say("overlap", job, f"token {d.token} for {d.client} and "
                      f"for {later.client}")
                continue
            until = d.held_until(not_before, later.end)
            if min(until, d.released()) > later.end + h.tolerance:
                h.say("overlap", job, f"{d.client} had it until {at(until)} "
                      f"and {later.client} got it at {at(later.end)}")
            not_before = max(not_before, d.begin)


def rule_tokens_order(h):
    """order: of two deliveries of a job, the one whose fetch was sent after
    the other was answered has the higher token."""
    for job in h.jobs.values():
        latest = -NEVER
        for d in job.deliveries:
            if latest > d.end:
                h.say("order", job, f"token {d.token} was given before "
                      "lower ones were asked for")
            latest = max(latest, d.begin)


def rule_lease_is_kept(h):
    """taken: what a worker sends in time is not refused with LEASE_LOST. In
    time: answered before its lease can have ended, with no end of the job, nor
    an earlier ack or fail that may have been accepted, before it."""
    for job in h.jobs.values():
        not_before = job.begin
        ends = [r["begin"] for r in job.cancels + job.deletes
                if r["outcome"] != "refused"]
        for d in job.deliveries:
            spent = min([d.released(), *ends])
            for r in d.acks + d.fails + d.beats:
                until = d.held_until(not_before, r["begin"])
                lost = r["answer"].get("code") == "LEASE_LOST"
                if lost and r["end"] + h.tolerance < until \
                        and r["end"] < spent:
                    h.say("taken", job, f"{r['op']} of {d.client} refused at "
                          f"{at(r['end'])}, its lease was good until "
                          f"{at(until)}")
            not_before = max(not_before, d.begin)


def rule_cancelled(h):
    """cancelled: a job whose cancellation was acknowledged ends cancelled, and
    once it is cancelled nobody is given it."""
    for job in h.jobs.values():
        ok = [r for r in job.cancels if r["outcome"] == "ok"]
        state = h.final.get(job.id, {}).get("state", "cancelled")
        if ok and state != "cancelled":
            h.say("cancelled", job, f"at the end {state}")
        done = min((r["end"] for r in ok
                    if r["answer"].get("status") == "cancelled"),
                   default=NEVER)
        for d in job.deliveries:
            if d.begin > done:
                h.say("cancelled", job, f"handed to {d.client} by a fetch of "
                      f"{at(d.begin)}, cancelled by {at(done)}")


def held_keys(h):
    """{(queue, key): [(from, until, job)]}: the time in which a job surely
    holds its key: it was acknowledged or handed out, and nothing that could
    have ended it was sent yet."""
    held = collections.defaultdict(list)
    for job in h.jobs.values():
        key = job.request and job.request.get("unique_key")
        if key:
            there = min([job.end, *(d.end for d in job.deliveries)])
            held[job.request["queue"], key].append(
                (there, job.may_end(), job))
    return held


def rule_unique(h):
    """unique: no job is created with a key while another job with it has not
    ended: the times in which two surely hold it do not meet, nor is one
    created within the other's. And what is called a duplicate is the duplicate
    of a job that has the key and had not ended."""
    for (queue, key), rows in held_keys(h).items():
        spans = sorted((a, b, j.id) for a, b, j in rows if a < b)
        for one, two in zip(spans, spans[1:]):
            if two[0] < one[1]:
                h.say("unique", two[2], f"has key {key} of {queue} beside "
                      f"{one[2]}")
        for _, _, job in rows:
            i = bisect.bisect_right(spans, (job.begin, NEVER, "")) - 1
            other = spans[i] if i >= 0 else None
            if other and other[2] != job.id and job.end < other[1]:
                h.say("unique", job, f"was created with key {key} of {queue} "
                      f"while {other[2]} had it")
    for r in h.duplicates:
        q, job = r["request"], h.jobs.get(r["answer"]["job_id"])
        if job is None or job.request is None:
            continue  # of an enqueue whose outcome is unknown
        if (job.request["queue"], job.request.get("unique_key")) != \
                (q["queue"], q["unique_key"]):
            h.say("unique", job, f"is no duplicate of {q}")
        begin = h.sent(q["mark"])[0]["begin"]
        if job.surely_ended() < begin:
            h.say("unique", job, f"had ended at {at(job.surely_ended())} and "
                  f"stood in the way of {q['mark']} at {at(begin)}")


def first_deliveries(h, queue):
    """Jobs of the queue in the order in which they were first handed out, as
    far as that is known: of one whose first attempt nobody was told of it is
    not."""
    rows = [(j.deliveries[0].token, j) for j in h.jobs.values()
            if j.deliveries and j.request and j.request["queue"] == queue
            and j.deliveries[0].attempt == 1]
    return [j for _, j in sorted(rows, key=lambda r: r[0])]


def rule_fifo(h):
    """fifo: a queue with one consumer hands out jobs of one priority in the
    order of their creation, and no job while a better one waits. Jobs that
    came back (retried, reclaimed) stand where their creation puts them, so
    only first deliveries are compared; of two creations the order is known
    when one was acknowledged before the other was sent."""
    for queue in h.fifo:
        jobs = first_deliveries(h, queue)
        for priority in PRIORITIES:
            earliest = (NEVER, None)  # creation, of those handed out later
            for job in reversed(jobs):
                if job.request["priority"] != priority:
                    continue
                if earliest[0] < job.begin:
                    h.say("fifo", job, f"was handed out before "
                          f"{earliest[1].id}, which was there before")
                earliest = min(earliest, (job.end, job), key=lambda e: e[0])
        for rank, priority in enumerate(PRIORITIES):
            earliest = (NEVER, None)  # of better ones, handed out later
            for job in reversed(jobs):
                its = PRIORITIES.index(job.request["priority"])
                if its == rank and earliest[0] < job.deliveries[0].begin:
                    h.say("fifo", job, f"was handed out before the better "
                          f"{earliest[1].id}, which waited")
                if its < rank:
                    earliest = min(earliest, (job.end, job),
                                   key=lambda e: e[0])


def rule_fifo_leaves_none(h):
    """stranded: at the end no job of such a queue waits that was there before
    one that has ended."""
    for queue in h.fifo:
        jobs = [j for j in h.jobs.values()
                if j.request and j.request["queue"] == queue
                and j.id in h.final]
        ended = [j for j in jobs if h.final[j.id]["state"] in ENDED
                 and j.deliveries]
        for job in (j for j in jobs
                    if h.final[j.id]["state"] == "pending"):
            after = [j for j in ended if j.begin > job.end and
                     j.request["priority"] == job.request["priority"]]
            if after:
                h.say("stranded", job, f"waits, and {after[0].id}, which came "
                      "later, is done")


def rule_read(h):
    """unseen: a node finds every job that it has acknowledged itself, also
    after it was restarted. With X-Corvo-Min-Index it finds also what others
    had acknowledged by then, or says that it may be behind. It may know nothing
    at all, and say so; but not 404."""
    for r in h.reads:
        q, job = r["request"], h.jobs.get(r["request"]["job_id"])
        if r["answer"].get("status") != 404 or job is None or any(
                d["begin"] < r["end"] for d in job.deletes
                if d["outcome"] != "refused"):
            continue
        for t in job.told:
            own = t["answer"].get("port") == q["port"]
            asked = q["min_index"] is not None and \
                0 < t["answer"].get("index", 0) <= q["min_index"] and \
                not r["answer"]["behind"]
            if t["end"] < r["begin"] and (own or asked):
                h.say("unseen", job, f"acknowledged at {at(t['end'])} by "
                      f"{t['answer'].get('port')}, and {q['port']} had none "
                      f"at {at(r['end'])} (min index {q['min_index']})")
                break


RULES = [rule_exists, rule_refused_is_not_done, rule_once, rule_completed_once,
         rule_completed_stays, rule_completed_had_a_lease,
         rule_events_had_a_lease, rule_leases_apart, rule_tokens_order,
         rule_lease_is_kept, rule_cancelled, rule_unique, rule_fifo,
         rule_fifo_leaves_none, rule_read]
