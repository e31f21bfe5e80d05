"""One action on many jobs: by ids and by filter, at once and in the
background; what is skipped, judged only, paused, cancelled, held back."""

import json

import pytest

from node import API, wait_until
from queues import enqueue_many, fetch_many
from sse import Stream

STATES = ["pending", "active", "completed", "retrying", "dead", "cancelled",
          "scheduled", "held"]

# The states each action serves, and the state it leads to.
SERVED = {
    "retry": (["completed", "dead", "cancelled", "scheduled"], "pending"),
    "delete": (STATES, None),
    "cancel": (["pending", "active", "retrying", "scheduled"], "cancelled"),
    "move": (STATES, "same"),
    "requeue": (["dead"], "pending"),
    "change_priority": (["pending", "retrying", "scheduled", "held"], "same"),
    "hold": (["pending", "active", "retrying", "scheduled"], "held"),
    "approve": (["held"], "pending"),
    "reject": (["held"], "dead"),
}
NEEDS = {"move": {"move_to_queue": "bulk.moved"},
         "change_priority": {"priority": "critical"}}


def make(client, queue, state):
    """A job in that state; nothing else may be pending in the queue."""
    if state == "scheduled":
        return client.enqueue(queue, scheduled_at="2199-01-01T00:00:00Z")
    job_id = client.enqueue(queue, retry_base_delay="1h")
    if state in ("cancelled", "held"):
        action = {"cancelled": "cancel", "held": "hold"}[state]
        assert client.post(f"{API}/jobs/{job_id}/{action}").status == 200
    elif state != "pending":
        job = client.fetch(queue)
        assert job["job_id"] == job_id
        if state == "completed":
            client.ack(job)
        elif state == "retrying":
            client.fail(job)
        elif state == "dead":
            client.fail(job, retry=False)
    assert client.state(job_id) == state
    return job_id


def make_all(client, queue):
    """{state: id}, pending last because the others are fetched."""
    order = [s for s in STATES if s != "pending"] + ["pending"]
    return {s: make(client, queue, s) for s in order}


def make_dead(client, queue, n):
    ids = enqueue_many(client, queue, n)
    for at in range(0, n, 500):
        for job in fetch_many(client, queue, min(500, n - at)):
            client.fail(job, retry=False)
    return ids


def bulk(client, action, status=200, **members):
    def answered():
        a = client.post(f"{API}/jobs/bulk", {
            "action": action, **NEEDS.get(action, {}), **members})
        # a view that is far behind after many jobs is waited for
        return None if a.status == 503 and a.code == "VIEW_UNAVAILABLE" else a

    a = wait_until(answered, 30, "the view to be current", every=0.1)
    assert a.status == status, a
    return a.json


def counts(answer):
    assert answer["errors"] == 0 and answer["duration_ms"] >= 0
    return answer["affected"], answer["skipped"], answer["total"]


def counted(client, queue):
    """The queue as the store has it."""
    a = client.get(f"{API}/queues/{queue}")
    assert a.status == 200, a
    return a.json


def start(client, action, **members):
    """The id of an operation in the background."""
    a = bulk(client, action, status=202, **members)
    assert a["status"] == "processing"
    assert a["progress_url"] == \
        f"{API}/bulk/{a['bulk_operation_id']}/progress"
    return a["bulk_operation_id"]


def get(client, bulk_id):
    a = client.get(f"{API}/bulk/{bulk_id}")
    assert a.status == 200, a
    return a.json


def control(client, bulk_id, what, status=200):
    a = client.post(f"{API}/bulk/{bulk_id}/{what}")
    assert a.status == status, a
    return a.json


def wait_for(client, bulk_id, *states):
    return wait_until(
        lambda: next((b for b in [get(client, bulk_id)]
                      if b["status"] in states), None),
        60, f"the operation to be {states}")


# --- each action, by ids --------------------------------------------------

@pytest.mark.parametrize("action", SERVED)
def test_action_on_jobs_of_each_state(client, queue, action):
    jobs = make_all(client, queue)
    served, to = SERVED[action]
    ids = list(jobs.values())
    want = (len(served), len(STATES) - len(served), len(STATES))
    judged = bulk(client, action, job_ids=ids, dry_run=True)
    assert (counts(judged), judged["dry_run"]) == (want, True)
    assert {s: client.state(j) for s, j in jobs.items()} == \
        {s: s for s in STATES}
    assert counts(bulk(client, action, job_ids=ids)) == want
    for state, job_id in jobs.items():
        if state not in served or to == "same":
            assert client.state(job_id) == state
        elif to is None:
            assert client.get(f"{API}/jobs/{job_id}").status == 404
        elif (action, state) == ("cancel", "active"):
            assert client.job(job_id)["cancel_requested"] is True
        else:
            assert client.state(job_id) == to, state
    if action == "move":
        assert {client.job(j)["queue"] for j in ids} == {"bulk.moved"}
    if action == "change_priority":
        assert all(client.job(jobs[s])["priority"] == "critical"
                   for s in served)
    # all are as they shall be
    assert counts(bulk(client, action, job_ids=ids)) == \
        (0, len(STATES), len(STATES))


def test_hold_and_reject_keep_their_reason(client, queue):
    job_id = client.enqueue(queue)
    bulk(client, "hold", job_ids=[job_id], reason="looks odd")
    assert client.job(job_id)["hold_reason"] == "looks odd"
    bulk(client, "reject", job_ids=[job_id], reason="is odd")
    assert client.job(job_id)["last_error"] == "rejected: is odd"


def test_repeated_and_unknown_ids(client, queue):
    job_id = make(client, queue, "dead")
    got = bulk(client, "retry", job_ids=[job_id, "none", job_id, ""])
    assert counts(got) == (1, 2, 3)
    assert counts(bulk(client, "retry", job_ids=[])) == (0, 0, 0)


def test_unique_conflict_is_skipped(client, queue):
    old = client.enqueue(queue, unique_key="k")
    bulk(client, "cancel", job_ids=[old])
    new = client.enqueue(queue, unique_key="k")
    assert counts(bulk(client, "retry", job_ids=[old])) == (0, 1, 1)
    assert client.state(old) == "cancelled"
    bulk(client, "delete", job_ids=[new])
    assert counts(bulk(client, "retry", job_ids=[old])) == (1, 0, 1)


def test_retried_jobs_go_to_the_end_in_the_order_they_were_made(client, queue):
    ids = make_dead(client, queue, 5)
    first = client.enqueue(queue)
    bulk(client, "retry", filter={"queue": queue, "state": ["dead"]})
    got = [j["job_id"] for j in fetch_many(client, queue, 10)]
    assert got == [first] + ids


# --- by filter ------------------------------------------------------------

def test_a_filter_acts_on_all_matches(client, queue):
    n = 1200
    enqueue_many(client, queue, n)
    spared = client.enqueue(queue, payload={"keep": True})
    got = bulk(client, "cancel", filter={
        "queue": queue, "payload_jq": "not (.keep == true)"}, dry_run=True)
    assert counts(got) == (n, 0, n)
    got = bulk(client, "cancel", filter={
        "queue": queue, "payload_jq": "not (.keep == true)"})
    assert counts(got) == (n, 0, n)
    assert client.state(spared) == "pending"
    assert counted(client, queue)["cancelled"] == n


def test_a_filter_of_several_states_counts_the_skipped(client, queue):
    jobs = make_all(client, queue)
    got = bulk(client, "retry", filter={"queue": queue})
    assert counts(got) == (4, 4, 8)
    assert client.state(jobs["held"]) == "held"


def test_a_filter_that_matches_nothing(client, queue):
    assert counts(bulk(client, "delete", filter={"queue": queue})) == (0, 0, 0)


def test_a_wrong_filter_is_refused_with_its_reason(client, queue):
    for wrong, word in [({"state": ["odd"]}, "filter.state[0]"),
                        ({"payload_jq": ".a =="}, "payload_jq"),
                        ({"attempt_min": "x"}, "filter.attempt_min")]:
        a = client.post(f"{API}/jobs/bulk",
                        {"action": "delete", "filter": wrong})
        assert a.status == 400 and word in a.json["error"], a


# --- in the background ----------------------------------------------------

def test_more_than_ten_thousand_go_on_in_the_background(client, queue):
    n = 10001
    for part in (5000, 5001):
        enqueue_many(client, queue, part)
    a = bulk(client, "cancel", status=202, filter={"queue": queue})
    assert a["estimated_total"] == n
    b = wait_for(client, a["bulk_operation_id"], "completed")
    assert (b["affected"], b["skipped"], b["processed"], b["total"]) == \
        (n, 0, n, n)
    assert b["errors"] == 0 and "finished_at" in b and "error" not in b
    assert counted(client, queue)["cancelled"] == n


def test_async_of_a_few_ids(client, queue):
    ids = make_dead(client, queue, 3) + ["none"]
    bulk_id = start(client, "retry", job_ids=ids, **{"async": True})
    b = wait_for(client, bulk_id, "completed")
    assert (b["action"], b["affected"], b["skipped"]) == ("retry", 3, 1)
    listed = client.get(f"{API}/bulk").json["operations"]
    assert listed[0]["id"] == bulk_id
    assert listed == sorted(listed, key=lambda o: o["created_at"],
                            reverse=True)


def test_a_rate_is_kept_and_makes_it_async(client, queue):
    ids = enqueue_many(client, queue, 30)
    bulk_id = start(client, "delete", job_ids=ids, rate=20)
    b = wait_for(client, bulk_id, "completed")
    events = bulk_events(client, bulk_id)
    first, last = events[1]["at_ns"], events[-2]["at_ns"]
    # from the first step of two to the last: 28 jobs at 20 a second
    assert last - first >= 1.4e9 - 1e6
    assert (b["affected"], b["rate"]) == (30, 20)


def bulk_events(client, bulk_id):
    found, after = [], 0
    while True:
        page = client.get(f"{API}/cluster/events?after_seq={after}&limit=1000")
        if not page.json["events"]:
            return found
        found += [e for e in page.json["events"]
                  if e.get("bulk_id") == bulk_id]
        after = page.json["next"]


def test_pause_resume_and_cancel(client, queue):
    n = 500  # more than it gets done meanwhile
    ids = enqueue_many(client, queue, n)
    bulk_id = start(client, "cancel", job_ids=ids, rate=10)
    wait_until(lambda: get(client, bulk_id)["processed"] > 0, 10, "a step")
    b = control(client, bulk_id, "pause")
    assert b["status"] == "paused"
    done = b["affected"]
    assert 0 < done < n
    assert control(client, bulk_id, "pause")["status"] == "paused"
    assert control(client, bulk_id, "resume")["status"] == "running"
    wait_until(lambda: get(client, bulk_id)["affected"] > done, 10, "a step")
    b = control(client, bulk_id, "cancel")
    assert b["status"] == "cancelled"
    changed = counted(client, queue)["cancelled"]
    assert changed == b["affected"] == get(client, bulk_id)["affected"] < n
    for what in ("pause", "resume", "cancel"):
        assert control(client, bulk_id, what, 400)["code"] == "BULK_ERROR"


def test_canaries_that_complete_let_the_others_follow(client, queue):
    ids = make_dead(client, queue, 10)
    bulk_id = start(client, "retry", job_ids=ids, canary=3)
    b = wait_for(client, bulk_id, "canary")
    assert (b["affected"], b["canary"]) == (3, 3)
    for job_id in ids[:3]:
        job = client.fetch(queue)
        assert job["job_id"] == job_id
        assert get(client, bulk_id)["status"] == "canary"
        client.ack(job)
    b = wait_for(client, bulk_id, "completed")
    assert (b["affected"], b["canary_completed"]) == (10, 3)


def test_a_canary_that_fails_again_stops_it(client, queue):
    ids = make_dead(client, queue, 10)
    bulk_id = start(client, "requeue", job_ids=ids, canary=3)
    wait_for(client, bulk_id, "canary")
    client.ack(client.fetch(queue))
    client.fail(client.fetch(queue), retry=True)
    b = get(client, bulk_id)
    assert (b["status"], b["affected"]) == ("failed", 3)
    assert b["error"] == "canary: 1 of 3 failed again"
    q = counted(client, queue)
    assert (q["dead"], q["retrying"], q["pending"]) == (7, 1, 1)


# --- progress -------------------------------------------------------------

def test_progress_of_an_operation_for_several_watchers(node, client, queue):
    ids = enqueue_many(client, queue, 60)
    bulk_id = start(client, "cancel", job_ids=ids, rate=20)
    control(client, bulk_id, "pause")  # until both are there
    path = f"{API}/bulk/{bulk_id}/progress"
    with Stream(node.port, path) as a, Stream(node.port, path) as b:
        control(client, bulk_id, "resume")
        seen = [list(a.frames()), list(b.frames())]
    for frames in seen:
        types = [f.event for f in frames]
        assert types[0] == "bulk.async.started"
        assert types[-1] == "bulk.async.completed"
        assert types[1] == "bulk.async.resumed"
        assert set(types[2:-1]) == {"bulk.async.progress"}
        data = [f.json for f in frames]
        done = [d["processed"] for d in data]
        assert done == sorted(done)
        assert data[-1]["affected"] == data[-1]["total"] == 60
        assert data[-1]["percent"] == 100
        assert [int(f.id) for f in frames] == \
            sorted({int(f.id) for f in frames})
        for f, d in zip(frames, data):
            assert (d["type"], d["task_id"]) == (f.event, bulk_id)
            assert d["affected"] + d["skipped"] == d["processed"]
    assert [(f.id, f.data) for f in seen[0]] == \
        [(f.id, f.data) for f in seen[1]]


def test_progress_of_an_ended_operation_is_one_frame(node, client, queue):
    bulk_id = start(client, "delete", job_ids=["none"], **{"async": True})
    wait_for(client, bulk_id, "completed")
    path = f"{API}/bulk/{bulk_id}/progress"
    with Stream(node.port, path) as s:
        frames = list(s.frames())
    assert [f.event for f in frames] == ["bulk.async.completed"]
    a = client.get(path, headers={"Last-Event-ID": frames[0].id})
    assert a.status == 204, a


def test_progress_goes_on_after_the_frame_a_client_names(node, client, queue):
    ids = enqueue_many(client, queue, 30)
    bulk_id = start(client, "cancel", job_ids=ids, rate=30)
    path = f"{API}/bulk/{bulk_id}/progress"
    seen = []
    last = None
    while not seen or seen[-1].event != "bulk.async.completed":
        headers = {"Last-Event-ID": last} if last else {}
        with Stream(node.port, path, headers) as s:
            seen.append(next(s.frames()))
            last = seen[-1].id
    at = [int(f.id) for f in seen]
    assert at == sorted(set(at))
    assert seen[-1].json["affected"] == 30


def test_paused_and_cancelled_are_told(node, client, queue):
    ids = enqueue_many(client, queue, 30)
    bulk_id = start(client, "cancel", job_ids=ids, rate=1)
    with Stream(node.port, f"{API}/bulk/{bulk_id}/progress") as s:
        control(client, bulk_id, "pause")
        control(client, bulk_id, "resume")
        control(client, bulk_id, "cancel")
        frames = list(s.frames())
    types = [f.event.rsplit(".", 1)[1] for f in frames]
    assert [t for t in types if t != "progress"] == \
        ["started", "paused", "resumed", "cancelled"]
    assert frames[-1].json["affected"] == get(client, bulk_id)["affected"]


def test_events_of_an_operation_carry_its_id(client, queue):
    bulk_id = start(client, "delete", job_ids=["none"], **{"async": True})
    wait_for(client, bulk_id, "completed")
    assert [e["type"] for e in bulk_events(client, bulk_id)] == \
        ["bulk_started", "bulk_progress", "bulk_ended"]
    assert json.dumps(bulk_events(client, bulk_id)[-1]["data"])
