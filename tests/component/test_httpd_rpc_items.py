"""corvo-httpd alone: an item of a frame that says what cannot be is refused
alone, and all else of the frame is done; in protobuf as in JSON.

httpd_fixture.py starts it with a raftd and a viewd of canned answers.
"""

import json

import pytest
from google.protobuf import json_format

from h2client import Client
from httpd_fixture import PATIENCE, node, wait_until
from remote import SERVICE, envelope, envelopes, make, messages

LIFECYCLE = SERVICE + "StreamLifecycle"
REPLY = "LifecycleStreamResponse"
TYPES = {"proto": "application/grpc+proto", "json": "application/connect+json"}
TOLD = 64  # items of one frame
LISTS = {"acks": 7, "enqueues": 8, "fails": 100, "heartbeats": 101}


def a_field(number, data):
    """Of protobuf, of less than 128 bytes."""
    tag = number << 3 | 2
    head = [tag] if tag < 128 else [tag & 127 | 128, tag >> 7]
    return bytes([*head, len(data)]) + data


# What is no item: cut off, of a type that it is not, and no UTF-8.
BAD = {"proto": [b"\x0a", b"\x08\x01", b"\x0a\x01\xff"],
       "json": [5, {"jobId": 5, "queue": 5}, {"jobIds": "x", "queu": "x"}]}


@pytest.fixture(scope="module")
def h():
    with node("--stream-max-fps=0") as httpd:
        yield httpd


@pytest.fixture(params=TYPES)
def form(request):
    return request.param


def ask_bytes(h, form, data, *headers):
    """The answer to one frame."""
    with Client(h.port, PATIENCE) as c:
        a = c.ask("POST", LIFECYCLE, envelope(0, data), [
            ("content-type", TYPES[form]), ("te", "trailers"), *headers])
    data = envelopes(a.body)[0][1]
    if form == "json":
        return json_format.Parse(data, messages()[REPLY]())
    return messages()[REPLY].FromString(data)


def ask(h, form, *headers, **members):
    m = make("LifecycleStreamRequest", request_id=1, **members)
    return ask_bytes(h, form, json_format.MessageToJson(m).encode()
                     if form == "json" else m.SerializeToString(), *headers)


def job(queue, **more):
    return make("LifecycleEnqueueItem", queue=queue, **more)


@pytest.fixture
def batches(h):
    """The jobs of each request to add some, from now on; until so many have
    come."""
    def found():
        return [e["body"]["jobs"] for e in h.backend.seen("request",
                                                          "enqueue_batch")]
    before = len(found())

    def get(n):
        wait_until(lambda: len(found()) - before >= n, f"{n} requests")
        return found()[before:]
    return get


def refused(a):
    return [(i.item, i.code) for i in a.refused_items]


@pytest.mark.parametrize("which", range(3))
def test_what_cannot_be_read_is_refused_alone(h, form, which):
    """In each list, before one that is good."""
    bad = BAD[form][which]
    good = {"acks": make("AckBatchItem", job_id="job_a"), "enqueues": job("q"),
            "fails": make("LifecycleFailItem", job_id="job_a"),
            "heartbeats": make("LifecycleHeartbeatItem", job_id="job_b")}
    if form == "json":
        data = json.dumps({n: [bad, json_format.MessageToDict(g)]
                           for n, g in good.items()}).encode()
    else:
        data = b"".join(a_field(LISTS[n], bad) +
                        a_field(LISTS[n], g.SerializeToString())
                        for n, g in good.items())
    a = ask_bytes(h, form, data)
    assert {i for i, _ in refused(a)} == {f"{n}[0]" for n in LISTS}
    assert {c for _, c in refused(a)} <= {"VALIDATION_ERROR", "PARSE_ERROR"}
    assert all(i.error for i in a.refused_items) and a.error
    assert a.acked == 1 and len(a.enqueued_job_ids) == 1
    assert [e.job_id for e in a.enqueued] == ["", a.enqueued_job_ids[0]]
    assert [f.job_id for f in a.failed] == ["", "job_a"]
    assert a.failed[0].code == "VALIDATION_ERROR"
    assert a.failed[1].code != "VALIDATION_ERROR"
    assert [b.job_id for b in a.heartbeats] == ["job_b"]


def test_what_says_what_cannot_be(h, form):
    a = ask(h, form, enqueues=[job("q"), job(""), job("q", payload_json="{"),
                               job("q")], acks=[make("AckBatchItem")])
    assert refused(a) == [("acks[0]", "VALIDATION_ERROR"),
                          ("enqueues[1]", "VALIDATION_ERROR"),
                          ("enqueues[2]", "VALIDATION_ERROR")]
    assert [bool(e.job_id) for e in a.enqueued] == [True, False, False, True]


def test_what_is_no_frame_is_refused_as_a_whole(h, form, batches):
    """Whatever could be done of it; and the error is that of the frame."""
    if form == "json":
        data = b'{"enqueues": [5, {"queue": "q"}], "acks": 7}'
    else:
        data = (a_field(8, b"\x0a") + a_field(8, job("q").SerializeToString())
                + b"\x38\x01")
    a = ask_bytes(h, form, data)
    assert a.error.startswith("acks") and not refused(a)
    assert not a.enqueued_job_ids
    ask(h, form, enqueues=[job("after")])
    assert [[j["queue"] for j in b] for b in batches(1)] == [["after"]]


def test_jobs_that_wait_for_a_refused_one_are_refused(h, form, batches):
    """Those that wait for others wait for the same as before."""
    a = ask(h, form, enqueues=[
        job(""), job("1"), job("2", depends_on=["#1"]),
        job("3", depends_on=["#0"]), job("4", depends_on=["#1", "#5"]),
        job("5", depends_on=["#3"]), job("6", depends_on=["#2", "job_x"])])
    assert [i for i, _ in refused(a)] == [
        f"enqueues[{i}]" for i in (0, 3, 4, 5)]
    assert [bool(e.job_id) for e in a.enqueued] == [
        False, True, True, False, False, False, True]
    (b,) = batches(1)
    assert [(j["queue"], j.get("depends_on")) for j in b] == [
        ("1", None), ("2", ["#0"]), ("6", ["#1", "job_x"])]


def test_a_job_that_cannot_be_added_is_refused_alone(h, form):
    names = ["a", "b", "crowded", "c", "d", "e", "crowded", "f"]
    a = ask(h, form, enqueues=[job(n) for n in names])
    assert refused(a) == [("enqueues[2]", "QUEUE_FULL"),
                          ("enqueues[6]", "QUEUE_FULL")]
    assert [bool(e.job_id) for e in a.enqueued] == [
        n != "crowded" for n in names]
    assert list(a.enqueued_job_ids) == [e.job_id for e in a.enqueued
                                        if e.job_id]


@pytest.mark.parametrize("more, of", [
    ({"idempotency_key": "k"}, {}), ({}, {"depends_on": ["#0"]})])
def test_what_belongs_together_is_added_or_not(h, form, batches, more, of):
    a = ask(h, form, enqueues=[job("a"), job("crowded"), job("b", **of)],
            **more)
    assert [i for i, _ in refused(a)] == [
        "enqueues[0]", "enqueues[1]", "enqueues[2]"]
    assert all("together with others of the frame" in i.error
               for i in a.refused_items)
    assert "together with others of the frame" in a.error
    assert not a.enqueued_job_ids
    assert [len(b) for b in batches(1)] == [3]


@pytest.mark.parametrize("bad", [
    job("x" * 300), job(""), job("a", depends_on=["#3"])])
def test_with_a_key_nothing_is_added_when_a_job_is_refused(
        h, form, batches, bad):
    """So the same key is free for the frame that has been put right."""
    jobs = [job("a"), bad, job("b"), job("")]
    a = ask(h, form, enqueues=jobs, idempotency_key="k",
            acks=[make("AckBatchItem", job_id="job_a")])
    assert refused(a) == [(f"enqueues[{i}]", "VALIDATION_ERROR")
                          for i in range(4)]
    texts = {i.item: i.error for i in a.refused_items}
    together = "refused together with others of the frame, of which one says: "
    assert texts["enqueues[0]"] == texts["enqueues[2]"]
    assert texts["enqueues[0]"].startswith(together)
    assert texts["enqueues[3]"] == "queue is required"
    assert not a.enqueued_job_ids and a.acked == 1
    ask(h, form, enqueues=[job("a"), job("b")], idempotency_key="k")
    assert [[j["queue"] for j in b] for b in batches(1)] == [["a", "b"]]


def test_refused_acks_are_told_with_their_places_and_texts(h, form):
    acks = [make("AckBatchItem", job_id=i)
            for i in ("a", "", "job_lost", "b", "job_missing")]
    a = ask(h, form, acks=acks, enqueues=[job("q")])
    assert (a.acked, len(a.enqueued_job_ids)) == (2, 1)
    assert [(r.job_id, r.code) for r in a.refused] == [
        ("job_lost", "LEASE_LOST"), ("job_missing", "NOT_FOUND")]
    assert refused(a) == [
        ("acks[1]", "VALIDATION_ERROR"), ("acks[2]", "LEASE_LOST"),
        ("acks[4]", "NOT_FOUND")]
    assert "lease" in a.refused_items[1].error
    a = ask(h, form, acks=acks[2:])
    assert a.code == "LEASE_LOST" and a.error.startswith("ack: the lease")


def test_a_heartbeat_of_no_job_is_told_in_its_place_only(h, form):
    beats = [make("LifecycleHeartbeatItem", job_id=i)
             for i in ("job_b", "job_lost")]
    a = ask(h, form, heartbeats=beats)
    assert (a.error, a.code) == ("", "") and len(a.heartbeats) == 2


def test_a_heartbeat_names_a_job_once(h, form):
    beats = [make("LifecycleHeartbeatItem", job_id=i)
             for i in ("job_b", "job_c", "job_b", "job_b")]
    a = ask(h, form, heartbeats=beats)
    assert refused(a) == [("heartbeats[2]", "VALIDATION_ERROR"),
                          ("heartbeats[3]", "VALIDATION_ERROR")]
    assert a.error == 'heartbeat: "job_b" is given twice'
    assert [b.job_id for b in a.heartbeats] == ["job_b", "job_c"]


def test_refused_items_come_in_the_order_of_the_lists(h, form):
    """Whatever was found out first; and the first ones are those told."""
    lost = [make("AckBatchItem", job_id="job_lost")]
    some = [job("q"), job("crowded"), job("")]
    a = ask(h, form, enqueues=some, acks=lost,
            heartbeats=[make("LifecycleHeartbeatItem")],
            fails=[make("LifecycleFailItem")])
    assert [i for i, _ in refused(a)] == [
        "acks[0]", "fails[0]", "heartbeats[0]", "enqueues[1]", "enqueues[2]"]
    a = ask(h, form, enqueues=[job("crowded")] + [job("")] * 100, acks=lost)
    assert [i for i, _ in refused(a)] == ["acks[0]"] + [
        f"enqueues[{i}]" for i in range(TOLD - 1)]


def test_a_list_that_is_none_is_named_as_a_whole(h):
    a = ask_bytes(h, "json", b'{"enqueues": "x"}')
    assert a.error == "enqueues: must be an array, not a string"
    a = ask_bytes(h, "json", b'{"queues": 5}')
    assert a.error == "queues: must be an array, not a number"


def test_an_overload_is_nothing_to_ask_again_about(h, form, batches):
    a = ask(h, form, enqueues=[job("a"), job("overload"), job("b")])
    assert (a.code, len(a.refused_items)) == ("OVERLOADED", 0)
    assert len(batches(1)) == 1


def test_many_bad_items(h, form, batches):
    """So many are told, all are refused, and raftd is asked so often."""
    a = ask(h, form, enqueues=[job("")] * 1000 + [job("q")])
    assert len(a.refused_items) == TOLD and len(a.enqueued_job_ids) == 1
    assert len(a.enqueued) == 1001 and a.enqueued[1000].job_id
    assert len(batches(1)) == 1


def test_jobs_for_a_full_queue_cost_few_requests(h, form, batches):
    """All of them, half of them, and so on, until there is one; nobody is asked
    about the others."""
    a = ask(h, form, enqueues=[job("a")] + [job("crowded"), job("b")] * 500 +
            [job("crowded")] * 500)
    assert [bool(e.job_id) for e in a.enqueued] == \
        [True] + [False, True] * 500 + [False] * 500
    assert refused(a) == [(f"enqueues[{2 * i + 1}]", "QUEUE_FULL")
                          for i in range(TOLD)]
    assert len(a.enqueued_job_ids) == 501
    assert len(batches(1)) < 20


def test_what_has_a_unique_key_may_be_there_already(h, form, batches):
    """So it is asked for, full as its queue is."""
    ask(h, form, enqueues=[job("crowded"), job("crowded", unique_key="k")])
    assert [[j.get("unique_key") for j in b] for b in batches(3)][-1] == ["k"]


def test_jobs_for_many_full_queues_cost_no_end_of_requests(h, form, batches):
    """At last they are refused together, and told so."""
    jobs = [job("crowded", unique_key=f"k{i}") for i in range(300)]
    a = ask(h, form, enqueues=jobs)
    assert {c for _, c in refused(a)} == {"QUEUE_FULL"}
    assert "together" in a.refused_items[-1].error
    assert len(batches(1)) <= 30


# --- the error of the frame


def test_the_worst_is_told_whichever_comes_first(h, form):
    """Of what nobody knows if it was done, before what must not be sent again,
    before what may be later."""
    later = {"acks": [make("AckBatchItem", job_id="overload")]}
    never = {"enqueues": [job("")]}
    unknown = {"fails": [make("LifecycleFailItem", job_id="job_a")]}
    a = ask(h, form, **later)
    assert (a.code, a.retry_after_ms) == ("OVERLOADED", 1000)
    a = ask(h, form, **later, **never)
    assert (a.code, a.retry_after_ms) == ("VALIDATION_ERROR", 0)
    assert a.error.startswith("enqueue: ")
    for more in ({}, later, never, {**later, **never}):
        a = ask(h, form, **unknown, **more)
        assert (a.code, a.retry_after_ms) == ("INTERNAL_ERROR", 0)
        assert a.error.startswith("fail: ")


def test_of_two_alike_the_first_in_the_frame_is_told(h, form):
    """The queue is asked for before the ack is answered."""
    a = ask(h, form, acks=[make("AckBatchItem", job_id="noleader")],
            queues=["overload"], fetch_count=1, enqueues=[job("crowded")])
    assert (a.code, a.error) == ("LEADER_UNAVAILABLE", "ack: no leader here")
    a = ask(h, form, acks=[make("AckBatchItem", job_id="garbage")],
            fails=[make("LifecycleFailItem", job_id="job_a")])
    assert a.code == "BAD_MESSAGE"
    a = ask(h, form, enqueues=[job("q", payload_json="{"), job("")])
    assert a.error.startswith("enqueues[0].")
    a = ask(h, form, enqueues=[job(""), job("q", payload_json="{")])
    assert a.error == "enqueue: queue is required"


# --- what is said once for all


def test_a_bad_item_is_refused_alone_also_when_the_leader_is_asked_for(
        h, form, batches):
    a = ask(h, form, ("corvo-redirect", "1"),
            enqueues=[job("a"), job(""), job("b")])
    assert refused(a) == [("enqueues[1]", "VALIDATION_ERROR")]
    assert [bool(e.job_id) for e in a.enqueued] == [True, False, True]
    assert len(batches(1)) == 1


def test_an_idempotency_key_that_is_too_long(h, form, batches):
    """Its jobs are refused, as over HTTP, and all else is done."""
    def sent(n):
        return ask(h, form, enqueues=[job("q")], idempotency_key="k" * n,
                   acks=[make("AckBatchItem", job_id="job_a")])
    a = sent(256)
    assert (a.code, a.acked) == ("VALIDATION_ERROR", 1)
    assert "idempotency_key: must be at most 255 bytes" in a.error
    assert not a.enqueued_job_ids
    assert sent(255).error == ""
    assert len(batches(1)) == 1


def test_the_name_of_a_worker_that_is_too_long(h, form):
    """For heartbeats as for a fetch."""
    beat = [make("LifecycleHeartbeatItem", job_id="job_b")]
    for members in ({"heartbeats": beat}, {"queues": ["q"], "fetch_count": 1}):
        a = ask(h, form, worker_id="w" * 256, **members)
        assert a.code == "VALIDATION_ERROR" and not a.heartbeats
        assert "worker_id: must be at most 255 bytes" in a.error
    assert ask(h, form, worker_id="w" * 255, heartbeats=beat).error == ""
