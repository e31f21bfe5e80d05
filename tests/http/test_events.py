"""The event log: GET /events as a stream, GET /cluster/events in pages."""

import json
import re
import time
from urllib.parse import quote

import pytest

from node import API, SOURCE, running, seconds_of, wait_until
from sink import sink
from sse import EventStream
from waiting import patience

NODE_FLAGS = ["--retention=3s"]  # so that batches are purged, too
EVENTS = f"{API}/events"
PAGES = f"{API}/cluster/events"
EVERY_SECOND = "* * * * * *"


def head(client):
    return client.get(f"{PAGES}?limit=1").json["head_seq"]


def act(client, path, body=None, method="POST"):
    a = client.request(method, f"{API}/{path}", body)
    assert a.status in (200, 201), a
    return a.json


def refused(node, query, **named):
    with EventStream(node.port, query, **named) as s:
        assert s.status != 200
        body = s.refusal()
        assert body["error"]
        return s.status, body["code"]


def types_of(events):
    return [e["type"] for e in events]


# --- the stream ---------------------------------------------------------------


def test_head_of_the_stream(node):
    with EventStream(node.port) as s:
        assert s.status == 200
        assert s.headers["Content-Type"] == "text/event-stream"
        assert s.headers["Cache-Control"] == "no-cache"
        assert s.headers["X-Accel-Buffering"] == "no"
        assert "Content-Length" not in s.headers


def test_frames_have_id_type_and_the_event(node, client, queue):
    with EventStream(node.port, f"?queues={queue}") as s:
        job_id = client.enqueue(queue)
        job = client.fetch(queue, worker_id="w7")
        client.ack(job)
        frames = [f for f in s.read() if f.id]
        while not any(f.event == "completed" for f in frames):
            frames += s.read()
    frames = [f for f in frames if f.event]
    assert [f.event for f in frames] == ["queue_created", "enqueued",
                                         "started", "completed"]
    assert [f.id for f in frames] == [f.json["seq"] for f in frames]
    started = frames[2].json
    assert started["job_id"] == job_id
    assert started["queue"] == queue
    assert started["worker_id"] == "w7"
    assert started["attempt"] == 1
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z",
                        started["at"])
    assert abs(seconds_of(started["at"]) - started["at_ns"] / 1e9) < 1e-3


def test_begins_with_now_and_says_where_that_is(node, client, queue):
    client.enqueue(queue)
    before = head(client)
    with EventStream(node.port, f"?queues={queue}") as s:
        first = s.read()[0]
        assert (first.id, first.event, first.data) == (before, None, None)
        new = client.enqueue(queue)
        got = s.take(1)[0]
        assert got.get("job_id") == new, got


def test_data_is_one_line_whatever_a_worker_sends(node, client, queue):
    client.enqueue(queue)
    job = client.fetch(queue)
    with EventStream(node.port, f"?queues={queue}&types=progress") as s:
        body = {"jobs": {job["job_id"]: {"progress": 0}}}
        text = json.dumps(body).replace("0}", '{"a":\n\n"x\\ny",\r\n"b":1}}')
        assert client.post(f"{API}/heartbeat", text).status == 200
        assert s.take(1)[0]["data"] == {"a": "x\ny", "b": 1}


def test_head_request(client):
    a = client.request("HEAD", EVENTS)
    assert a.status == 200
    assert a.headers["Content-Type"] == "text/event-stream"
    assert a.body == b""


# --- filters ------------------------------------------------------------------


def test_filter_by_queues(node, client, queue):
    a, b, c = (f"{queue}.{x}" for x in "abc")
    for q in (a, b, c):
        client.enqueue(q)
    with EventStream(node.port, f"?queues={a},{b}") as s:
        for q in (c, a, c, b, c):
            client.enqueue(q)
        assert [e["queue"] for e in s.take(2)] == [a, b]
    # as libraries encode the comma
    with EventStream(node.port, f"?queues={a}%2C%20{b}") as s:
        for q in (c, b):
            client.enqueue(q)
        assert s.take(1)[0]["queue"] == b


def test_filter_by_job_ids(node, client, queue):
    one, two = client.enqueue(queue), client.enqueue(queue)
    with EventStream(node.port, f"?job_ids={two}") as s:
        act(client, f"jobs/{one}/cancel")
        act(client, f"jobs/{two}/cancel")
        assert s.take(1)[0]["job_id"] == two


def test_filter_by_types(node, client, queue):
    with EventStream(node.port, "?types=started,completed") as s:
        client.enqueue(queue)
        client.ack(client.fetch(queue))
        assert types_of(s.take(2)) == ["started", "completed"]


def test_filters_hold_all_at_once(node, client, queue):
    client.enqueue(queue)
    job_id = client.enqueue(queue)
    query = f"?queues={queue}&job_ids={job_id}&types=cancelled"
    with EventStream(node.port, query) as s:
        client.enqueue(queue)
        act(client, f"jobs/{client.enqueue(queue)}/cancel")
        act(client, f"jobs/{job_id}/cancel")
        got = s.take(1)[0]
        assert (got["type"], got["job_id"]) == ("cancelled", job_id)


def test_blank_filters_are_none(node, client, queue):
    with EventStream(node.port, "?queues=&job_ids=,&types=%20") as s:
        job_id = client.enqueue(queue)
        s.until(lambda e: e.get("job_id") == job_id)


def test_queue_names_are_decoded(node, client):
    name = "ünïcode & more"
    with EventStream(node.port, f"?queues={quote(name)}") as s:
        client.enqueue(name)
        assert s.take(1)[0]["queue"] == name


@pytest.mark.parametrize("query", ["?types=nonsense", "?types=started,nope",
                                   "?types=error", "?queues=%FF",
                                   "?job_ids=%zz", "?types=Started"])
def test_wrong_filters_are_refused(node, query):
    assert refused(node, query) == (400, "VALIDATION_ERROR")


def test_events_left_out_move_the_place(node, client, queue):
    before = head(client)
    with EventStream(node.port, f"?queues={queue}") as s:
        jobs = [{"queue": "other"}] * 1500
        act(client, "enqueue/batch", {"jobs": jobs})
        while s.last_id is None or s.last_id < before + 1000:
            frames = s.read()
            assert all(f.data is None for f in frames)
        place = s.last_id
    client.enqueue(queue)
    with EventStream(node.port, f"?queues={queue}", last_id=place) as s:
        assert s.take(1)[0]["type"] == "queue_created"


# --- going on -----------------------------------------------------------------


def test_goes_on_after_the_last_event_id(node, client, queue):
    ids = [client.enqueue(queue) for _ in range(5)]
    query = f"?queues={queue}&types=enqueued"
    with EventStream(node.port, query + "&last_event_id=0") as s:
        first = s.take(5)
    assert [e["job_id"] for e in first] == ids
    place = first[1]["seq"]
    with EventStream(node.port, query, last_id=place) as s:
        assert [e["job_id"] for e in s.take(3)] == ids[2:]
    with EventStream(node.port, f"{query}&last_event_id={place}") as s:
        assert [e["job_id"] for e in s.take(3)] == ids[2:]


def test_the_header_wins(node, client, queue):
    ids = [client.enqueue(queue) for _ in range(3)]
    query = f"?queues={queue}&types=enqueued&last_event_id="
    with EventStream(node.port, query + "0") as s:
        place = s.take(2)[1]["seq"]
    with EventStream(node.port, query + "0", last_id=place) as s:
        assert s.take(1)[0]["job_id"] == ids[2]
    with EventStream(node.port, query + "nonsense", last_id=place) as s:
        assert s.status == 200


@pytest.mark.parametrize("value", ["x", "-1", "1.5", "1e3", "0x10",
                                   "99999999999999999999999"])
def test_wrong_places_are_refused(node, value):
    assert refused(node, f"?last_event_id={value}") == (
        400, "VALIDATION_ERROR")
    assert refused(node, "", last_id=value) == (400, "VALIDATION_ERROR")


def test_a_place_that_never_was_is_refused(node, client):
    assert refused(node, "", last_id=head(client) + 1) == (410, "EVENTS_LOST")


# --- what is no longer kept ---------------------------------------------------


@pytest.fixture(scope="module")
def short_node():
    """A node whose log is short."""
    with running("--event-retention=1000") as n:
        yield n


def is_trimmed(client):
    return client.get(f"{PAGES}?limit=1").json.get("lost")


def test_a_place_no_longer_kept_is_refused(short_node):
    with short_node.client() as c:
        for _ in range(5):  # the events of one request go together
            act(c, "enqueue/batch", {"jobs": [{"queue": "q"}] * 500})
        wait_until(lambda: is_trimmed(c), 20, "old events to go")
        assert refused(short_node, "", last_id=1) == (410, "EVENTS_LOST")
        # a page begins with what there is, and says so
        page = c.get(f"{PAGES}?after_seq=1&limit=5").json
        assert page["lost"] is True
        assert page["events"][0]["seq"] > 2


def large_events(client, rounds):
    """50 events of 10 KB each in each round: in all more than any buffer on
    the way to a reader holds."""
    ids = act(client, "enqueue/batch", {"jobs": [{"queue": "l"}] * 50})
    ids = ids["job_ids"]
    act(client, "fetch/batch", {"queues": ["l"], "count": 50,
                                "lease_duration": 600, "worker_id": "w"})
    for i in range(rounds):
        progress = {"i": i, "text": "x" * 10000}
        act(client, "heartbeat", {"jobs": {
            job: {"progress": progress} for job in ids}})


def test_a_reader_that_falls_behind_the_log_is_told(short_node):
    with short_node.client() as c, \
            EventStream(short_node.port, receive_buffer=4096) as s:
        began = s.read()[0].id
        large_events(c, 20)
        for _ in range(6):
            act(c, "enqueue/batch", {"jobs": [{"queue": "q"}] * 500})
        last = head(c)
        wait_until(lambda: c.get(f"{PAGES}?after_seq={last - 2000}").json
                   .get("lost"), 20, "old events to go")
        got = list(s.events())  # up to the end, which comes
    assert got[-1]["code"] == "EVENTS_LOST"
    assert got[-1]["error"]
    seen = [e["seq"] for e in got[:-1]]
    assert seen == list(range(began + 1, began + 1 + len(seen)))
    assert len(seen) < last - began


# --- pages --------------------------------------------------------------------


def test_pages_hold_every_event_once(client, queue):
    act(client, "enqueue/batch", {"jobs": [{"queue": queue}] * 700})
    last, place, seen = head(client), 0, []
    while place < last:
        page = client.get(f"{PAGES}?after_seq={place}&limit=250").json
        assert 0 < len(page["events"]) <= 250
        seen += [e["seq"] for e in page["events"]]
        assert page["next"] == seen[-1]
        assert page["head_seq"] >= last
        place = page["next"]
    assert seen == list(range(1, len(seen) + 1))


def test_pages_show_what_the_stream_shows(node, client, queue):
    before = head(client)
    with EventStream(node.port) as s:
        client.enqueue(queue)
        client.fail(client.fetch(queue), retry=False)
        streamed = s.until(lambda e: e["type"] == "dead")
    page = client.get(f"{PAGES}?after_seq={before}&limit=1000").json
    assert page["events"][:len(streamed)] == streamed


def page_at_the_end(client):
    """What follows the newest event, or None: something happened."""
    page = client.get(f"{PAGES}?after_seq={head(client)}").json
    return None if page["events"] else page


def test_page_defaults_and_limits(client, queue):
    act(client, "enqueue/batch", {"jobs": [{"queue": queue}] * 1500})
    assert len(client.get(PAGES).json["events"]) == 100
    assert client.get(PAGES).json["events"][0]["seq"] == 1
    assert len(client.get(f"{PAGES}?limit=100000").json["events"]) == 1000
    # jobs that other tests have left behind may be purged meanwhile
    end = wait_until(lambda: page_at_the_end(client), 20, "nothing to happen")
    assert end["next"] == end["head_seq"]
    assert "lost" not in end


@pytest.mark.parametrize("query", ["limit=x", "limit=-1", "limit=0",
                                   "after_seq=x", "after_seq=-1",
                                   "after_seq=1.5", "limit="])
def test_wrong_numbers_of_a_page_are_refused(client, query):
    a = client.get(f"{PAGES}?{query}")
    assert (a.status, a.code) == (400, "VALIDATION_ERROR"), a
    assert query.split("=")[0] in a.json["error"]


# --- every type ---------------------------------------------------------------


def ways_of_a_job(c, q):
    """One or more jobs for each thing that can happen to one."""
    first = c.enqueue(q)
    act(c, "heartbeat", {"jobs": {
        first: {"lease_token": c.fetch(q)["lease_token"],
                "progress": {"at": 5}, "logs": ["line"]}}})
    act(c, f"ack/{first}", {"usage": {"input_tokens": 5}})
    act(c, f"jobs/{first}/scores", {"name": "accuracy", "value": 1})
    c.enqueue(q, max_retries=2, retry_base_delay="1ms")
    c.fail(c.fetch(q), error="no luck")
    wait_until(lambda: c.fetch(q, timeout=5) and True, 10, "the retry")
    given = c.enqueue(q)
    c.fail(c.fetch(q), requeue=True)
    act(c, f"jobs/{given}/cancel")
    act(c, f"jobs/{given}/retry")
    act(c, f"jobs/{given}/hold", {"reason": "look"})
    act(c, f"jobs/{given}/approve")
    act(c, f"jobs/{given}/priority", {"priority": "high"})
    act(c, f"jobs/{given}/move", {"queue": f"{q}.moved"})
    c.fail(c.fetch(f"{q}.moved"), retry=False)
    act(c, f"jobs/{given}/requeue")
    c.fetch(f"{q}.moved")
    act(c, f"jobs/{given}/cancel")  # active: cancelling
    held = c.enqueue(q)
    act(c, f"jobs/{held}/hold", {"reason": "wait"})
    act(c, f"jobs/{held}/reject", {"reason": "no"})
    act(c, f"jobs/{held}", method="DELETE")
    c.enqueue(f"{q}.lost", max_retries=1)
    c.fetch(f"{q}.lost", lease_duration=0.02)
    c.enqueue(f"{q}.old", expire_after="20ms")
    c.enqueue(f"{q}.slow", timeout="20ms")
    c.fetch(f"{q}.slow")
    for _ in range(2):
        c.post(f"{API}/enqueue", {"queue": q, "unique_key": "k",
                                  "unique_action": "replace"})


def ways_of_an_agent(c, q):
    agent = c.enqueue(f"{q}.agent", agent={"max_iterations": 2})
    c.ack(c.fetch(f"{q}.agent"), agent_status="continue")
    act(c, f"jobs/{agent}/replay", {"from": 1})


def ways_of_several(c, q):
    parents = [c.enqueue(f"{q}.p"), c.enqueue(f"{q}.p")]
    c.enqueue(q, depends_on=parents)
    c.ack(c.fetch(f"{q}.p"))
    c.ack(c.fetch(f"{q}.p"))
    parent = c.enqueue(f"{q}.p")
    c.enqueue(q, depends_on=[parent])
    act(c, f"jobs/{parent}/cancel")
    batch = act(c, "batches", {"callback_queue": f"{q}.done"})["batch_id"]
    c.enqueue(f"{q}.b", batch_id=batch)
    act(c, f"batches/{batch}/seal")
    c.ack(c.fetch(f"{q}.b"))
    c.enqueue(f"{q}.c", chain={"steps": [{"queue": f"{q}.c"}] * 2})
    c.ack(c.fetch(f"{q}.c"))
    c.ack(c.fetch(f"{q}.c", timeout=5))


def ways_of_a_queue(c, q):
    act(c, f"queues/{q}/pause")
    act(c, f"queues/{q}/resume")
    act(c, f"queues/{q}", {"retention": "1ms"}, "PATCH")
    c.enqueue(f"{q}.gone")
    act(c, f"queues/{q}.gone/clear")
    act(c, f"queues/{q}.gone?confirm=true", method="DELETE")


def ways_of_the_settings(c, q):
    act(c, "settings", {"lease_duration": "61s"}, "PATCH")
    act(c, "settings", {"lease_duration": "60s"}, "PATCH")
    act(c, "usage/settings", {"tags": []}, "PATCH")
    act(c, "providers/acme/models/large", {"input_per_million": 3}, "PUT")
    act(c, "providers/acme/models/large", method="DELETE")
    act(c, "budgets", {"scope": "queue", "target": f"{q}.paid",
                       "daily_usd": 1, "on_exceed": "alert"})
    paid = c.enqueue(f"{q}.paid")
    c.fetch(f"{q}.paid")
    act(c, f"ack/{paid}", {"usage": {"cost_usd": 1}, "provider": q})
    act(c, f"budgets/queue/{q}.paid", method="DELETE")
    tag = {"scope": "tag", "target": f"team:{q}"}
    act(c, "budgets", {**tag, "daily_usd": 1, "on_exceed": "hold"})
    for cost in (1, 0):  # the second one finds nothing left
        c.enqueue(f"{q}.team", tags={"team": q})
        job = c.fetch(f"{q}.team", timeout=0)
        if cost:
            act(c, f"ack/{job['job_id']}", {"usage": {"cost_usd": cost}})
    act(c, f"budgets/tag/team:{q}", method="DELETE")
    act(c, f"hooks/{q}", {"queue": q}, "PUT")
    act(c, f"hooks/{q}", method="DELETE")
    with sink(lambda call: (410, {}, b"")) as s:
        act(c, "webhooks", {"id": "seen", "url": s.url(), "events": ["dead"]})
        place = c.get(f"{API}/webhooks/seen").json["position"]
        act(c, f"webhooks/seen/deliveries/{place}/replay")
        wait_until(lambda: not c.get(f"{API}/webhooks/seen").json["enabled"],
                   what="it to be disabled")
        act(c, "webhooks", {"id": "seen", "url": s.url()})
        act(c, "webhooks/seen/test")
        act(c, "webhooks/seen", method="DELETE")
    act(c, "approval-policies", {"name": q, "queue": f"{q}.asked",
                                 "at": ["enqueue"], "deadline": "1ms"})
    act(c, f"jobs/{c.enqueue(f'{q}.asked')}/approval-links")
    act(c, f"approval-policies/{q}", method="DELETE")


def ways_of_a_schedule(c, q):
    act(c, "schedules", {"name": q, "queue": f"{q}.s", "cron": EVERY_SECOND,
                         "overlap": "skip"})
    act(c, "schedules", {"name": f"{q}.once", "queue": f"{q}.s",
                         "cron": EVERY_SECOND, "max_runs": 1})
    act(c, f"schedules/{q}.once/pause")
    act(c, f"schedules/{q}.once/resume")
    act(c, "schedules", {"name": f"{q}.no", "queue": q, "cron": "0 0 1 1 *"})
    act(c, f"schedules/{q}.no", method="DELETE")


def declared_types():
    text = (SOURCE / "common/proto/defs/events.def").read_text()
    names = re.findall(r"^EVENT\(\w+,\s*(\w+),", text, re.M)
    assert len(names) > 45
    return set(names)


# Members beside type, seq, at and at_ns. Of the others a worker and attempt
# may be there, when there was one.
OF_QUEUES = {"queue"}
OF_JOBS = {"job_id", "queue"}


def members_due(kind):
    if kind.startswith("queue_"):
        return OF_QUEUES
    if kind.startswith(("batch_", "schedule_", "settings_", "usage_",
                        "price_", "budget_", "hook_", "policy_",
                        "provider_", "webhook_")):
        return {"data"}
    if kind == "worker_seen":
        return {"worker_id"}
    if kind in ("started", "completed", "failed", "reclaimed", "timed_out",
                "given_back"):
        return OF_JOBS | {"attempt", "worker_id"}
    return OF_JOBS


DATA = {
    "failed": {"error"}, "retrying": {"next_attempt_at"}, "dead": {"reason"},
    "progress": {"at"}, "moved": set(), "held": {"kind"},
    "dependency_ended": {"dependency"},
    "hold_escalated": {"policy"}, "links_made": {"expires_at"},
    "approved": {"via"}, "rejected": {"via"},
    "scored": {"name", "value"}, "provider_changed": {"provider", "to"},
    "usage": {"phase"}, "price_set": {"provider", "model"},
    "continued": {"iteration"}, "replayed": {"job_id"},
    "budget_exceeded": {"budget", "amount", "spent", "action"},
    "batch_ended": {"succeeded", "failed"}, "queue_cleared": {"count"},
}


def test_every_type_of_event_is_streamed(node, client, queue):
    """All but those of bulk operations, which test_bulk.py looks at, of a
    clock that is set, which test_clock.py does, of the cluster, of an entry
    that is left out, which test_skip_entry.py does, and of a provider that is
    forgotten, for which there must be 256 others."""
    wanted = {t for t in declared_types()
              if not t.startswith(("bulk_", "clock_", "member_", "leader_",
                                   "provider_forgotten",
                                   "level_", "snapshot_", "store_",
                                   "entry_skipped"))}
    with EventStream(node.port) as s:
        for way in (ways_of_a_job, ways_of_an_agent, ways_of_several,
                    ways_of_a_queue, ways_of_the_settings,
                    ways_of_a_schedule):
            way(client, queue)
        missing, end = set(wanted), time.monotonic() + patience(30)

        def is_last(e):
            missing.discard(e["type"])
            assert time.monotonic() < end, f"never seen: {sorted(missing)}"
            return not missing
        events = s.until(is_last)  # there is one every second at least
    for e in events:
        due = members_due(e["type"]) | {"type", "seq", "at", "at_ns"}
        assert due <= e.keys(), e
        for name in DATA.get(e["type"], ()):
            assert name in e.get("data", {}), e
    seqs = [e["seq"] for e in events]
    assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))
