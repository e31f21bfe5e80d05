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


def ask_bytes(h, form, data):
    """The answer to one frame."""
    with Client(h.port, PATIENCE) as c:
        a = c.ask("POST", LIFECYCLE, envelope(0, data),
                  [("content-type", TYPES[form]), ("te", "trailers")])
    data = envelopes(a.body)[0][1]
    if form == "json":
        return json_format.Parse(data, messages()[REPLY]())
    return messages()[REPLY].FromString(data)


def ask(h, form, **members):
    m = make("LifecycleStreamRequest", request_id=1, **members)
    return ask_bytes(h, form, json_format.MessageToJson(m).encode()
                     if form == "json" else m.SerializeToString())


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
    assert sorted(refused(a)) == [("acks[0]", "VALIDATION_ERROR"),
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
        f"enqueues[{i}]" for i in (0, 3, 5, 4)]
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
    assert not a.enqueued_job_ids
    assert [len(b) for b in batches(1)] == [3]


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
    a = ask(h, form, enqueues=[job("crowded")] * 1000 + [job("q")])
    assert len(a.refused_items) == TOLD
    assert len(batches(2)) < 200
