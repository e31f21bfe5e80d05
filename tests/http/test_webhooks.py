"""Webhooks: URLs that are called on events. What is delivered, what is tried
again, what a log tells of it, and what is never shown."""

import base64
import hashlib
import hmac
import json
import os
import re
import signal
import subprocess
import threading
import time

import pytest

from node import API, CORVO, wait_until
from packages import pip_package
from sink import sink

NODE_FLAGS = ["--push-breaker-pause=50ms", "--push-breaker-failures=1000"]
HOOKS = f"{API}/webhooks"
SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef01234567").decode()
OTHER = "whsec_" + base64.b64encode(b"another secret of some bytes").decode()


@pytest.fixture
def hook(client, queue):
    """An id of the test's own; its webhook goes with the test."""
    name = re.sub(r"[^\w-]", "_", queue)[-60:]
    yield name
    client.request("DELETE", f"{HOOKS}/{name}")


def post(client, name, url, **members):
    a = client.post(HOOKS, {"id": name, "url": url, **members})
    assert a.status == 200 and a.json["status"] == "ok", a
    assert a.json["id"] == name
    return a.json


def get(client, name):
    a = client.get(f"{HOOKS}/{name}")
    assert a.status == 200, a
    return a.json


def deliveries(client, name, query=""):
    a = client.get(f"{HOOKS}/{name}/deliveries{query}")
    assert a.status == 200, a
    return a.json["deliveries"]


def bodies(s, kind=None):
    with s.lock:
        all_ = [json.loads(c.body) for c in s.calls]
    return [b for b in all_ if kind is None or b["type"] == kind]


def run_job(client, queue, **members):
    job_id = client.enqueue(queue, **members)
    a = client.post(f"{API}/fetch", {"queues": [queue], "timeout": 0})
    assert a.status == 200 and a.json["job_id"] == job_id, a
    assert client.post(f"{API}/ack/{job_id}", {}).status == 200
    return job_id


def refused(a, status, code, *words):
    assert (a.status, a.json["code"]) == (status, code), a
    for word in words:
        assert word in a.json["error"], a


# --- deliveries ---

def test_events_of_chosen_types_and_queues_are_delivered(client, queue, hook):
    with sink() as s:
        post(client, hook, s.url("/in?a=b"), events=["completed", "enq*"],
             queues=[queue + "-*"], headers={"X-Own": "1"})
        run_job(client, queue)  # not of these queues
        ids = [run_job(client, f"{queue}-{n % 2}") for n in range(5)]
        wait_until(lambda: len(s.calls) >= 10, what="ten deliveries")
        seen = bodies(s)
        assert sorted((b["event"]["job_id"], b["type"]) for b in seen) == \
            sorted((i, t) for i in ids for t in ("completed", "enqueued"))
        for call in s.calls:
            b, h = json.loads(call.body), call.headers
            assert call.method == "POST" and call.path == "/in?a=b"
            e = b["event"]
            assert b["webhook_id"] == hook == h["x-corvo-webhook-id"]
            assert b["type"] == e["type"] == h["x-corvo-webhook-event"]
            assert b["timestamp"] == e["at"] == b["sent_at"]
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z",
                                h["x-corvo-sent-at"])
            assert h["webhook-id"] == f"{hook}_{e['seq']}"
            assert h["idempotency-key"] == h["webhook-id"]
            assert h["content-type"] == "application/json"
            assert h["x-own"] == "1" and h["x-corvo-attempt"] == "1"
            assert "webhook-signature" not in h
        # the event is as the log has it
        page = client.get(f"{API}/cluster/events?after_seq="
                          f"{seen[0]['event']['seq'] - 1}&limit=1").json
        assert page["events"] == [seen[0]["event"]]
        wait_until(lambda: get(client, hook)["delivered"] == 10,
                   what="the count")
        w = get(client, hook)
        assert (w["failed"], w["pending"], w["lost"]) == (0, 0, 0)
        assert w["last_status_code"] == 200 and "last_error" not in w
        # and the place moves past events that it does not take
        run_job(client, queue)
        wait_until(lambda: get(client, hook)["lag"] == 0, what="its place")
        lines = deliveries(client, hook)
        assert len(lines) == 10
        assert {d["delivery_id"] for d in lines} == \
            {c.headers["webhook-id"] for c in s.calls}
        for d in lines:
            assert d["state"] == "delivered" and d["attempt"] == 1
            assert d["status_code"] == 200 and d["duration_ms"] > 0


def test_signatures_by_their_own_library(client, queue, hook):
    standard = pip_package("standardwebhooks")
    with sink() as s:
        shown = post(client, hook, s.url(), events=["enqueued"],
                     queues=[queue], secret=SECRET, previous_secret=OTHER,
                     headers={"Authorization": "Bearer abc", "X-A": "b"})
        assert shown["secrets"] == 2
        assert shown["headers"] == {"Authorization": "***", "X-A": "b"}
        client.enqueue(queue, payload={"a": "ü"})
        wait_until(lambda: s.calls, what="the delivery")
        (call,) = s.calls
        for secret in (SECRET, OTHER):
            got = standard.Webhook(secret).verify(call.body, call.headers)
            assert got == json.loads(call.body)
        with pytest.raises(Exception, match="(?i)signature"):
            standard.Webhook(SECRET).verify(call.body + b" ", call.headers)
        assert call.headers["x-corvo-signature"] == "sha256=" + hmac.new(
            SECRET.encode(), call.body, hashlib.sha256).hexdigest()
        assert call.headers["authorization"] == "Bearer abc"


def test_no_secret_is_ever_shown(client, queue, hook):
    with sink() as s:
        url = f"http://me:s3cr3t@127.0.0.1:{s.port}/x"
        shown = post(client, hook, url, events=["enqueued"], queues=[queue],
                     secret=SECRET, headers={"X-Api-Key": "k3y"})
        assert shown["url"] == s.url("/x") and shown["has_credentials"]
        client.enqueue(queue)
        wait_until(lambda: s.calls, what="the delivery")
        assert s.calls[0].headers["authorization"] == "Basic " + \
            base64.b64encode(b"me:s3cr3t").decode()
        seen = json.dumps(shown).encode() + client.get(HOOKS).body
        seen += client.get(f"{HOOKS}/{hook}").body
        seen += client.get(f"{HOOKS}/{hook}/deliveries").body
        seen += client.get(f"{API}/cluster/events?limit=1000").body
        seen += client.post(HOOKS, {"id": hook, "url": "ftp://a",
                                    "secret": SECRET}).body
        for secret in (SECRET, "s3cr3t", "k3y"):
            assert secret.encode() not in seen


# --- failures ---

def test_what_fails_is_tried_again_under_the_same_id(client, queue, hook):
    def answer(call):
        n = int(call.headers["x-corvo-attempt"])
        return (500, {}, b"no") if n < 3 else (200, {}, b"yes")

    with sink(answer) as s:
        post(client, hook, s.url(), events=["enqueued"], queues=[queue],
             retry_limit=5, retry_delay="10ms", retry_max_delay="20ms")
        client.enqueue(queue)
        wait_until(lambda: get(client, hook)["delivered"] == 1,
                   what="a success")
        assert len(s.calls) == 3
        for same in ("webhook-id", "idempotency-key"):
            assert len({c.headers[same] for c in s.calls}) == 1
        assert len({c.body for c in s.calls}) == 1
        times = [c.headers["x-corvo-sent-at"] for c in s.calls]
        assert len(set(times)) == 3, times
        ok, second, first = deliveries(client, hook)
        assert (first["attempt"], second["attempt"], ok["attempt"]) == (1, 2, 3)
        assert first["state"] == second["state"] == "retrying"
        assert first["status_code"] == 500 and first["response"] == "no"
        assert "answered 500" in first["error"] and "next_at" in first
        assert ok["state"] == "delivered" and ok["response"] == "yes"
        assert deliveries(client, hook, "?state=delivered") == [ok]
        assert deliveries(client, hook, f"?before={ok['n']}&limit=1") == \
            [second]


def test_tries_and_replays_to_a_server_of_ours_make_one_job(
        node, client, queue, hook):
    """Its answer to the first try is lost: it took the job, and nobody was
    told."""
    inbox = f"{queue}-in"
    answers = []

    def forward(call):
        with node.client() as c:
            a = c.request("POST", f"{API}/webhooks/{inbox}", call.body, {
                k: call.headers[k] for k in ("idempotency-key",
                                             "content-type")})
        answers.append(a)
        return (500, {}, b"") if len(answers) == 1 else (a.status, {}, a.body)

    with sink(forward) as s:
        post(client, hook, s.url(), events=["enqueued"], queues=[queue],
             retry_delay="10ms")
        client.enqueue(queue)
        wait_until(lambda: get(client, hook)["delivered"] == 1,
                   what="the second try")
        client.request("PATCH", f"{HOOKS}/{hook}", {
            "url": f"http://127.0.0.1:{node.port}{API}/webhooks/{inbox}"})
        (d, _) = deliveries(client, hook)
        a = client.post(f"{HOOKS}/{hook}/deliveries/{d['seq']}/replay")
        assert a.status == 200, a
        wait_until(lambda: len(deliveries(client, hook)) == 3,
                   what="the replay")
        again, second, first = deliveries(client, hook)
        assert first["state"] == "retrying"
        assert (second["state"], second["status_code"]) == ("delivered", 201)
        assert (again["state"], again["status_code"]) == ("delivered", 201)
        (job,) = client.search(queue=inbox)["jobs"]
        assert {x.json["job_id"] for x in answers} == {job["id"]}
        assert json.loads(s.calls[0].body) == client.job(job["id"])["payload"]


def test_after_its_last_try_a_delivery_has_failed(client, queue, hook):
    with sink(lambda call: (500, {}, b"")) as s:
        w = post(client, hook, s.url(), events=["enqueued"], queues=[queue],
                 retry_delay="1ms")
        assert w["retry_limit"] == 3
        client.enqueue(queue)
        wait_until(lambda: get(client, hook)["failed"] == 1, what="its end")
        assert len(s.calls) == 3
        w = get(client, hook)
        assert w["pending"] == 0 and w["enabled"] and "failing_since" in w
        assert "answered 500" in w["last_error"]


def test_retry_after_is_obeyed(client, queue, hook):
    with sink(lambda call: (429, {"Retry-After": "3600"}, b"")) as s:
        post(client, hook, s.url(), events=["enqueued"], queues=[queue],
             retry_delay="1ms")
        client.enqueue(queue)
        wait_until(lambda: get(client, hook)["pending"] == 1, what="a failure")
        client.enqueue(queue)  # nothing else is called meanwhile
        (d,) = deliveries(client, hook)
        assert d["state"] == "retrying" and d["status_code"] == 429
        assert d["next_at"] > d["at"]
        assert get(client, hook)["lag"] >= 1
        assert len(s.calls) == 1


def test_failures_for_long_disable_it_and_an_event_tells(client, queue, hook):
    good = threading.Event()

    def answer(call):
        return (200 if good.is_set() else 500), {}, b""

    with sink(answer) as s, sink() as watch:
        other = hook + "-w"
        post(client, other, watch.url(), events=["webhook_disabled"])
        post(client, hook, s.url(), events=["enqueued"], queues=[queue],
             retry_delay="5ms", retry_limit=1, disable_after="50ms")

        def is_disabled():
            client.enqueue(queue)
            return not get(client, hook)["enabled"]

        wait_until(is_disabled, what="it to be disabled")
        w = get(client, hook)
        assert "disable_after" in w["disabled_reason"] and "disabled_at" in w
        wait_until(lambda: watch.calls, what="the event")
        (b,) = bodies(watch)
        assert b["event"]["data"]["webhook_id"] == hook
        assert client.request("DELETE", f"{HOOKS}/{other}").status == 200
        refused(client.post(f"{HOOKS}/{hook}/test"), 409, "CONFLICT",
                "disabled")
        # what happens meanwhile is delivered when it is enabled again
        good.set()
        job_id = client.enqueue(queue)
        before = len(s.calls)
        a = client.request("PATCH", f"{HOOKS}/{hook}", {"enabled": True})
        assert a.status == 200 and a.json["enabled"], a
        assert "disabled_at" not in a.json and "failing_since" not in a.json
        wait_until(lambda: job_id in [b["event"]["job_id"]
                                      for b in bodies(s)[before:]],
                   what="what was missed")


def test_a_receiver_that_is_gone_is_called_no_more(client, queue, hook):
    with sink(lambda call: (410, {}, b"")) as s:
        post(client, hook, s.url(), events=["enqueued"], queues=[queue])
        client.enqueue(queue)
        wait_until(lambda: not get(client, hook)["enabled"], what="its end")
        assert "410" in get(client, hook)["disabled_reason"]
        assert len(s.calls) == 1


def test_a_slow_receiver_delays_only_itself(client, queue, hook):
    go = threading.Event()
    slow_calls = []

    def slow(call):
        slow_calls.append(call)
        go.wait(120)
        return 200, {}, b""

    with sink(slow) as s, sink(host="127.0.0.2") as fast:
        post(client, hook, s.url(), events=["enqueued"], queues=[queue],
             concurrency=2, timeout="1m")
        post(client, hook + "-f", fast.url(), events=["enqueued"],
             queues=[queue])
        jobs = [{"queue": queue} for _ in range(300)]
        assert client.post(f"{API}/enqueue/batch",
                           {"jobs": jobs}).status == 201
        wait_until(lambda: get(client, hook + "-f")["delivered"] == 300,
                   what="the fast one")
        assert len(slow_calls) == 2
        assert get(client, hook)["delivered"] == 0
        assert get(client, hook)["lag"] >= 299
        go.set()
        wait_until(lambda: get(client, hook)["delivered"] == 300,
                   what="the slow one")
        assert client.request("DELETE", f"{HOOKS}/{hook}-f").status == 200


def test_one_slow_call_does_not_hold_up_what_is_recorded(client, queue, hook):
    go = threading.Event()

    def answer(call):
        if call is s.calls[0]:
            go.wait(120)
        return 200, {}, b""

    with sink(answer) as s:
        post(client, hook, s.url(), events=["enqueued"], queues=[queue],
             timeout="1m")
        first = client.enqueue(queue)
        wait_until(lambda: s.calls, what="the first call")
        for _ in range(20):
            client.enqueue(queue)
        # it counts as one that waits for its try, and ends as such
        wait_until(lambda: get(client, hook)["delivered"] == 20,
                   what="the others")
        assert get(client, hook)["pending"] == 1
        go.set()
        wait_until(lambda: get(client, hook)["delivered"] == 21,
                   what="the slow one")
        w = get(client, hook)
        assert w["pending"] == 0 and w["failed"] == 0
        assert len(s.calls) == 21
        assert [d["attempt"] for d in deliveries(client, hook)
                if d["job_id"] == first] == [1]


# --- replays ---

def test_one_delivery_is_made_again(client, queue, hook):
    with sink() as s:
        post(client, hook, s.url(), events=["enqueued"], queues=[queue])
        client.enqueue(queue)
        client.enqueue(queue)
        wait_until(lambda: get(client, hook)["delivered"] == 2, what="both")
        d = deliveries(client, hook)[1]
        a = client.post(f"{HOOKS}/{hook}/deliveries/{d['seq']}/replay")
        assert a.status == 200, a
        assert a.json == {"status": "replaying", "id": hook,
                          "delivery_id": d["delivery_id"]}
        wait_until(lambda: get(client, hook)["delivered"] == 3, what="again")
        a = client.post(
            f"{HOOKS}/{hook}/deliveries/{d['delivery_id']}/replay")
        assert a.status == 200, a
        wait_until(lambda: get(client, hook)["delivered"] == 4, what="again")
        ids = [c.headers["webhook-id"] for c in s.calls]
        assert ids.count(d["delivery_id"]) == 3 and len(ids) == 4
        assert len({c.body for c in s.calls}) == 2
        for bad, status in (("x", 400), ("0", 400), ("999999999", 404)):
            a = client.post(f"{HOOKS}/{hook}/deliveries/{bad}/replay")
            assert a.status == status, a


def test_a_time_is_delivered_again(client, queue, hook):
    with sink() as s:
        post(client, hook, s.url(), events=["enqueued"], queues=[queue])
        early = client.enqueue(queue)
        wait_until(lambda: get(client, hook)["delivered"] == 1, what="one")
        ids = [client.enqueue(queue) for _ in range(30)]
        wait_until(lambda: get(client, hook)["delivered"] == 31, what="all")
        times = {d["job_id"]: d["seq"] for d in deliveries(client, hook)}
        page = client.get(f"{API}/cluster/events?after_seq="
                          f"{times[ids[0]] - 1}&limit=1000&queues={queue}")
        at = {e["job_id"]: e["at"] for e in page.json["events"]}
        a = client.post(f"{HOOKS}/{hook}/replay",
                        {"from": at[ids[0]], "to": at[ids[-1]]})
        assert a.status == 200 and a.json["status"] == "replaying", a
        # up to, and not with, the end
        again = [i for i in ids if at[i] < at[ids[-1]]]
        assert a.json["from_seq"] <= times[ids[0]]
        wait_until(lambda: get(client, hook)["delivered"] == 31 + len(again),
                   what="all of them again")
        wait_until(lambda: "replay_to" not in get(client, hook),
                   what="its end")
        seen = [b["event"]["job_id"] for b in bodies(s)]
        assert seen.count(early) == 1
        assert [i for i in ids if seen.count(i) == 2] == again
        replayed = [d for d in deliveries(client, hook) if d.get("replayed")]
        assert {d["job_id"] for d in replayed} == set(again)
        a = client.post(f"{HOOKS}/{hook}/replay",
                        {"from": "2020-01-01T00:00:00Z",
                         "to": "2020-01-02T00:00:00Z"})
        assert a.status == 200 and a.json["status"] == "nothing", a


# --- settings ---

def test_a_test_is_delivered_to_it_alone(client, queue, hook):
    with sink() as s, sink() as t:
        post(client, hook, s.url(), events=["dead"])
        post(client, hook + "-2", t.url(), events=["*"], queues=["no-such"])
        a = client.post(f"{HOOKS}/{hook}/test")
        assert a.status == 200 and a.json["status"] == "sent", a
        wait_until(lambda: s.calls, what="the delivery")
        assert s.calls[0].headers["webhook-id"] == a.json["delivery_id"]
        assert bodies(s)[0]["type"] == "webhook_test"
        client.request("DELETE", f"{HOOKS}/{hook}-2")
        assert t.calls == []


def test_changes_hold_for_what_happens_after_them(client, queue, hook):
    with sink() as s:
        post(client, hook, s.url("/0"), events=["enqueued"], queues=[queue])
        jobs = []
        for n in range(1, 21):
            a = client.request("PATCH", f"{HOOKS}/{hook}",
                               {"url": s.url(f"/{n}")})
            assert a.status == 200, a
            jobs.append(client.enqueue(queue))
        wait_until(lambda: len(s.calls) == 20, what="all")
        by_job = {json.loads(c.body)["event"]["job_id"]: c for c in s.calls}
        for n, job_id in enumerate(jobs, 1):
            assert int(by_job[job_id].path[1:]) >= n


def test_a_change_keeps_what_it_does_not_name(client, hook):
    with sink() as s:
        w = post(client, hook, s.url(), secret=SECRET, previous_secret=OTHER,
                 enabled=False, queues=["a", "b*"], retry_limit=7)
        assert (w["events"], w["enabled"], w["secrets"]) == (["*"], False, 2)
        change = lambda **m: client.request("PATCH", f"{HOOKS}/{hook}", m).json
        w = change(timeout="5s")
        assert w["secrets"] == 2 and w["retry_limit"] == 7
        assert w["queues"] == ["a", "b*"] and w["timeout"] == "5s"
        w = change(previous_secret=None, queues=None, retry_limit=None)
        assert (w["secrets"], w["retry_limit"]) == (1, 3)
        assert "queues" not in w
        # as a whole: only the secrets stay
        w = post(client, hook, s.url("/2"))
        assert w["secrets"] == 1 and w["timeout"] == "30s" and w["enabled"]
        assert change(secret=None)["secrets"] == 0
        a = client.post(HOOKS, {"url": s.url()})
        assert a.status == 200 and a.json["id"].startswith("wh_"), a
        ids = [x["id"] for x in client.get(HOOKS).json]
        assert hook in ids and a.json["id"] in ids
        d = client.request("DELETE", f"{HOOKS}/{a.json['id']}")
        assert d.json == {"status": "deleted", "id": a.json["id"]}
        refused(client.request("DELETE", f"{HOOKS}/{a.json['id']}"), 404,
                "NOT_FOUND")


@pytest.mark.parametrize("members,word", [
    ({}, "url"), ({"url": "ftp://a/"}, "url"), ({"url": "http:///x"}, "url"),
    ({"url": 1}, "url"),
    ({"url": "http://a/", "id": "a.b"}, "id"),
    ({"url": "http://a/", "id": "x" * 65}, "id"),
    ({"url": "http://a/", "events": ["no_such"]}, "no_such"),
    ({"url": "http://a/", "events": ["job.completed"]}, "job.completed"),
    ({"url": "http://a/", "events": [""]}, "events"),
    ({"url": "http://a/", "events": "completed"}, "events"),
    ({"url": "http://a/", "queues": ["q"] * 65}, "queues"),
    ({"url": "http://a/", "secret": "short"}, "secret"),
    ({"url": "http://a/", "previous_secret": "x" * 20}, "previous_secret"),
    ({"url": "http://a/", "headers": {"A\nB": "c"}}, "headers"),
    ({"url": "http://a/", "headers": {"A": "b\r\nc: d"}}, "headers"),
    ({"url": "http://a/", "headers": {"Webhook-Id": "1"}}, "headers"),
    ({"url": "http://me:pw@a/", "headers": {"Authorization": "c"}},
     "Authorization"),
    ({"url": "http://a/", "retry_limit": -1}, "retry_limit"),
    ({"url": "http://a/", "retry_delay": "0s"}, "retry_delay"),
    ({"url": "http://a/", "retry_max_delay": "25h"}, "retry_max_delay"),
    ({"url": "http://a/", "timeout": "2h"}, "timeout"),
    ({"url": "http://a/", "concurrency": 65}, "concurrency"),
])
def test_what_cannot_be_set_is_refused_by_name(client, members, word):
    before = client.get(HOOKS).body
    refused(client.post(HOOKS, members), 400, "VALIDATION_ERROR", word)
    assert client.get(HOOKS).body == before


def test_a_mistake_as_clients_of_0_3_know_it(client):
    a = client.request("POST", HOOKS, {"url": "ftp://x"},
                       {"X-Corvo-Compat": "0.3"})
    assert a.status == 400, a
    a = client.request("POST", HOOKS, {"url": "http://x/", "events": ["no"]},
                       {"X-Corvo-Compat": "0.3"})
    refused(a, 400, "WEBHOOK_ERROR", "no")


# --- failing processes ---

def test_nothing_is_lost_when_sched_is_killed(client, node, queue, hook):
    with sink() as s:
        post(client, hook, s.url(), events=["enqueued"], queues=[queue])
        ids = []
        for n in range(4):
            ids += client.post(f"{API}/enqueue/batch", {
                "jobs": [{"queue": queue}] * 100}).json["job_ids"]
            wait_until(lambda k=n: len(s.calls) > k * 100, what="calls")
            pid = node.pids()["sched"]
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda p=pid: node.pids().get("sched", p) != p,
                       what="another sched")
        wait_until(lambda: get(client, hook)["delivered"] == 400, 30,
                   "all of them")
        seen = [b["event"]["job_id"] for b in bodies(s)]
        assert set(seen) == set(ids)
        # only what was under way, or not reported yet, may come twice
        assert len(seen) - len(ids) <= 4 * 128
        assert get(client, hook)["failed"] == 0


def test_it_goes_on_after_a_restart(make_node):
    node = make_node()
    with sink(lambda call: (500, {}, b"")) as s:
        node.start()
        with node.client() as c:
            post(c, "w", s.url(), events=["enqueued"], secret=SECRET,
                 retry_delay="1ms", retry_max_delay="1ms", retry_limit=1000)
            job_id = c.enqueue("q")
            wait_until(lambda: get(c, "w")["pending"] == 1, what="a failure")
        node.stop()
        n = len(s.calls)
        node.start()
        with node.client() as c:
            wait_until(lambda: len(s.calls) > n, what="another try")
            s.answer = lambda call: (200, {}, b"")
            wait_until(lambda: get(c, "w")["delivered"] == 1, what="a success")
            assert get(c, "w")["secrets"] == 1
            assert {b["event"]["job_id"] for b in bodies(s)} == {job_id}
            tries = [int(x.headers["x-corvo-attempt"]) for x in s.calls]
            assert tries == sorted(tries)


# --- the command ---

def cli(node, *args, stdin=None, ok=True):
    r = subprocess.run([CORVO, *args, "--server",
                        f"http://127.0.0.1:{node.port}"], input=stdin,
                       capture_output=True, text=True, check=False, timeout=60)
    assert (r.returncode == 0) == ok, r
    return r.stdout + r.stderr


def test_the_command(node, client, queue, hook):
    with sink() as s:
        cli(node, "webhooks", "set", hook, s.url(), "events=enqueued,dead",
            f"queues={queue}", "secret=-", stdin=SECRET + "\n")
        shown = json.loads(cli(node, "webhooks", "get", hook))
        assert shown["events"] == ["enqueued", "dead"]
        assert shown["queues"] == [queue] and shown["secrets"] == 1
        client.enqueue(queue)
        wait_until(lambda: get(client, hook)["delivered"] == 1, what="it")
        out = cli(node, "webhooks")
        assert hook in out and SECRET not in out
        (d,) = deliveries(client, hook)
        assert d["job_id"] in cli(node, "webhooks", "deliveries", hook)
        assert d["job_id"] not in cli(node, "webhooks", "deliveries", hook,
                                      "failed")
        assert "replaying" in cli(node, "webhooks", "replay", hook,
                                  str(d["seq"]))
        wait_until(lambda: get(client, hook)["delivered"] == 2, what="again")
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(
            time.time() - 3600))
        assert "replaying" in cli(node, "webhooks", "replay", hook, since)
        wait_until(lambda: get(client, hook)["delivered"] == 3, what="again")
        assert f"{hook}_" in cli(node, "webhooks", "test", hook)
        cli(node, "webhooks", "change", hook, "enabled=false")
        assert get(client, hook)["enabled"] is False
        cli(node, "webhooks", "change", hook, "no_such=1", ok=False)
        assert "deleted" in cli(node, "webhooks", "delete", hook)
        cli(node, "webhooks", "get", hook, ok=False)
