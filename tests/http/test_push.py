"""Push queues: the server calls a URL for each job."""

import base64
import contextlib
import hashlib
import hmac
import json
import os
import signal
import subprocess
import threading
import time

import pytest

from node import API, CORVO, free_port, seconds_of, wait_until
from packages import pip_package
from sink import sink

NODE_FLAGS = ["--push-breaker-pause=100ms"]
SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef01234567").decode()
OTHER = "whsec_" + base64.b64encode(b"another secret of some bytes").decode()


def patch(client, queue, **members):
    return client.request("PATCH", f"{API}/queues/{queue}", members)


def push(client, queue, url, **members):
    a = patch(client, queue, push={"url": url, **members})
    assert a.status == 200, a
    return a.json["settings"]["push"]


def ended(client, job_id, state="completed"):
    def look():
        job = client.get(f"{API}/jobs/{job_id}").json
        return job if job["state"] == state else None
    return wait_until(look, what=f"{job_id} to be {state}")


@pytest.fixture(autouse=True)
def none_left(client, queue):
    yield
    client.request("DELETE", f"{API}/queues/{queue}?confirm=true")


def test_a_call_for_each_job_and_its_body_is_the_result(client, queue):
    def answer(call):
        n = json.loads(call.body)["n"]
        return 200, {"Content-Type": "application/json"}, b'{"twice": %d}' % (
            2 * n)

    with sink(answer) as s:
        push(client, queue, s.url("/work?a=b"), headers={"X-Own": "1"})
        ids = [client.enqueue(queue, payload={"n": n}) for n in range(20)]
        for n, job_id in enumerate(ids):
            job = ended(client, job_id)
            assert job["result"] == {"twice": 2 * n}
            assert job["response"]["status"] == 200, job
            assert job["response"]["headers"]["content-type"] == \
                "application/json"
            assert job["response"]["body"] == '{"twice": %d}' % (2 * n)
            assert job["response"]["duration_ms"] > 0
            (call,) = s.of(job_id)
            assert call.method == "POST" and call.path == "/work?a=b"
            assert json.loads(call.body) == {"n": n}
            h = call.headers
            assert h["x-own"] == "1" and h["x-corvo-attempt"] == "1"
            assert h["webhook-id"] == h["idempotency-key"] == job_id
            assert h["x-corvo-queue"] == queue
            assert h["content-type"] == "application/json"
            assert "webhook-signature" not in h


def test_long_answers_are_cut(client, queue):
    sizes = {"short": 100, "shown in part": 5000, "too long for a result":
             300 << 10, "not read to its end": 9 << 20}

    def answer(call):
        n = sizes[json.loads(call.body)]
        return 200, {"Content-Type": "application/json"}, b'"%s"' % (b"x" * n)

    with sink(answer) as s:
        push(client, queue, s.url())
        ids = {name: client.enqueue(queue, payload=name) for name in sizes}
        jobs = {name: ended(client, i) for name, i in ids.items()}
    for name, n in sizes.items():
        r = jobs[name]["response"]
        assert r["status"] == 200
        assert len(r["body"]) == min(n + 2, 4096), name
        assert r.get("truncated", False) == (n > 4094), name
        assert jobs[name].get("result") == ("x" * n if n < 1 << 18
                                            else None), name


def test_an_envelope_another_method_and_a_body_that_is_no_json(client, queue):
    with sink(lambda call: (204, {}, b"")) as s:
        shown = push(client, queue, s.url(), method="PUT", format="envelope")
        assert shown == {"url": s.url(), "method": "PUT",
                         "format": "envelope", "secrets": 0}
        job_id = client.enqueue(queue, payload=[1], tags={"a": "b"})
        assert "result" not in ended(client, job_id)
        (call,) = s.of(job_id)
        assert call.method == "PUT"
        assert json.loads(call.body) == {
            "job_id": job_id, "queue": queue, "attempt": 1, "max_retries": 3,
            "tags": {"a": "b"}, "payload": [1]}


def sign(secret, call):
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = b".".join([call.headers["webhook-id"].encode(),
                        call.headers["webhook-timestamp"].encode(), call.body])
    mac = hmac.new(key, signed, hashlib.sha256).digest()
    return "v1," + base64.b64encode(mac).decode()


def test_calls_are_signed_with_both_secrets_and_none_is_shown(client, queue):
    with sink() as s:
        shown = push(client, queue, s.url(), secret=SECRET,
                     previous_secret=OTHER,
                     headers={"Authorization": "Bearer abc", "X-A": "b"})
        assert shown["secrets"] == 2
        assert shown["headers"] == {"Authorization": "***", "X-A": "b"}
        job_id = client.enqueue(queue, payload={"a": "ü"})
        ended(client, job_id)
        (call,) = s.of(job_id)
        assert call.headers["webhook-signature"].split() == [
            sign(SECRET, call), sign(OTHER, call)]
        assert abs(int(call.headers["webhook-timestamp"]) - call.at) < 60
        assert call.headers["authorization"] == "Bearer abc"
        # other members stay, and null takes one away
        a = patch(client, queue, push={"previous_secret": None})
        assert a.json["settings"]["push"]["secrets"] == 1

        def is_signed_once():
            job_id = client.enqueue(queue)
            ended(client, job_id)
            (call,) = s.of(job_id)
            return call.headers["webhook-signature"] == sign(SECRET, call)

        wait_until(is_signed_once, what="a change to be known")
    seen = client.get(f"{API}/queues/{queue}").body
    seen += client.get(f"{API}/queues").body
    seen += client.get(f"{API}/cluster/events?limit=1000").body
    for secret in (SECRET, OTHER, "Bearer abc"):
        assert secret.encode() not in seen, seen


def test_signatures_by_their_own_library(client, queue):
    standard = pip_package("standardwebhooks")

    def who_verifies(call):
        """Of the two secrets, those a receiver may know."""
        good = set()
        for secret in (SECRET, OTHER):
            with contextlib.suppress(standard.WebhookVerificationError):
                got = standard.Webhook(secret).verify(call.body, call.headers)
                assert got == json.loads(call.body)
                good.add(secret)
        return good

    def call_of():
        job_id = client.enqueue(queue, payload={"a": "ü", "n": 1})
        ended(client, job_id)
        (call,) = s.of(job_id)
        return call

    with sink() as s:
        push(client, queue, s.url(), secret=OTHER)
        assert who_verifies(call_of()) == {OTHER}
        # receivers change over while both are good; a change holds for jobs
        # that are enqueued after its answer
        push(client, queue, s.url(), secret=SECRET, previous_secret=OTHER)
        call = call_of()
        assert who_verifies(call) == {SECRET, OTHER}
        call.body += b" "
        assert who_verifies(call) == set()
        push(client, queue, s.url(), previous_secret=None)
        assert who_verifies(call_of()) == {SECRET}


def test_credentials_of_a_url_are_used_and_never_shown(client, queue):
    with sink() as s:
        shown = push(client, queue,
                     f"http://me:s3cr3t@127.0.0.1:{s.port}/x")
        assert shown["url"] == s.url("/x") and shown["credentials"] is True
        job_id = client.enqueue(queue)
        job = ended(client, job_id)
        (call,) = s.of(job_id)
        assert call.headers["authorization"] == "Basic " + base64.b64encode(
            b"me:s3cr3t").decode()
        assert "s3cr3t" not in json.dumps(job)
    assert b"s3cr3t" not in client.get(f"{API}/queues/{queue}").body


def test_what_fails_is_tried_again_under_the_same_id(client, queue):
    seen = []

    def answer(call):
        seen.append(call.headers["x-corvo-attempt"])
        return (500, {}, b"no") if len(seen) < 3 else (200, {}, b"")

    with sink(answer) as s:
        push(client, queue, s.url())
        job_id = client.enqueue(queue, max_retries=5, retry_base_delay="10ms",
                                retry_max_delay="10ms")
        job = ended(client, job_id)
        assert seen == ["1", "2", "3"] and job["attempt"] == 3
        assert {c.headers["webhook-id"] for c in s.of(job_id)} == {job_id}
        for n, e in enumerate(job["errors"]):
            assert e["attempt"] == n + 1
            assert e["error"] == "http_error: the receiver answered 500: no"
            assert e["response"]["status"] == 500
            assert e["response"]["error_class"] == "http_error"
            assert e["response"]["body"] == "no"


@pytest.mark.parametrize("status", [400, 404, 410, 422])
def test_most_4xx_are_final(client, queue, status):
    with sink(lambda call: (status, {}, b"")) as s:
        push(client, queue, s.url())
        job_id = client.enqueue(queue, max_retries=5)
        assert ended(client, job_id, "dead")["attempt"] == 1


@pytest.mark.parametrize("status", [408, 409, 425, 302])
def test_others_are_tried_again(client, queue, status):
    with sink(lambda call: (status, {"Location": "/other"}, b"")) as s:
        push(client, queue, s.url())
        job_id = client.enqueue(queue, max_retries=2, retry_base_delay="1ms")
        assert ended(client, job_id, "dead")["attempt"] == 2
        assert {c.path for c in s.of(job_id)} == {"/"}


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_obeyed(client, queue, status):
    with sink(lambda call: (status, {"Retry-After": "3600"}, b"")) as s:
        push(client, queue, s.url())
        job_id = client.enqueue(queue, max_retries=3, retry_base_delay="1ms")
        job = ended(client, job_id, "retrying")
        left = seconds_of(job["scheduled_at"]) - seconds_of(job["failed_at"])
        assert abs(left - 3600) < 0.01, left
        # and nothing else is called meanwhile; people can see why
        other = client.enqueue(queue)
        wait_until(lambda: "push_wait" in reasons(client, other),
                   what="the reason")
        assert s.of(other) == []


def kill_sched(node):
    node = node.leader()  # whose sched calls
    before = node.pids()["sched"]
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: node.pids().get("sched", before) != before,
               what="another sched")


def reasons(client, job_id):
    a = client.get(f"{API}/jobs/{job_id}/why")
    assert a.status == 200, a
    return {r["code"]: r for r in a.json["reasons"]}


def test_redirects_are_followed_where_that_is_allowed(client, queue):
    with sink() as there:
        with sink(lambda call: (307, {"Location": there.url("/to")}, b"")) as s:
            push(client, queue, s.url("/from"), redirects=True, secret=SECRET,
                 headers={"Authorization": "Bearer x", "X-A": "b"})
            job_id = client.enqueue(queue, payload={"n": 1})
            job = ended(client, job_id)
            assert job["response"]["url"] == there.url("/to")
            (call,) = there.of(job_id)
            assert call.method == "POST" and json.loads(call.body) == {"n": 1}
            # another host: what is meant for the first one stays there
            assert "authorization" not in call.headers
            assert "x-corvo-lease-token" not in call.headers
            assert call.headers["x-a"] == "b"
        with sink(lambda c: (302, {"Location": "/again"}, b"")) as s:
            push(client, queue + "-loop", s.url(), redirects=True)
            job_id = client.enqueue(queue + "-loop", max_retries=1)
            ended(client, job_id, "dead")
            assert len(s.of(job_id)) == 6  # five redirects, no more


def test_redirects_are_part_of_the_time_of_a_call(client, queue):
    never = threading.Event()

    def answer(_):
        never.wait(0.4)
        return 302, {"Location": "/again"}, b""

    with sink(answer) as s:
        push(client, queue, s.url(), redirects=True, timeout="1s")
        job_id = client.enqueue(queue, max_retries=1)
        job = ended(client, job_id, "dead")
        assert job["last_error"].startswith("timeout")
        assert len(s.of(job_id)) <= 3


def test_202_leaves_the_job_to_its_receiver(client, queue):
    with sink(lambda call: (202, {}, b"working")) as s:
        push(client, queue, s.url())
        job_id = client.enqueue(queue)

        def accepted():
            job = client.get(f"{API}/jobs/{job_id}").json
            return job if "response" in job else None

        job = wait_until(accepted, what="the answer")
        assert job["state"] == "active"
        assert job["response"]["status"] == 202
        (call,) = s.of(job_id)
        token = int(call.headers["x-corvo-lease-token"])
        a = client.post(f"{API}/ack/{job_id}",
                        {"lease_token": token, "result": {"late": True}})
        assert a.status == 200, a
        job = ended(client, job_id)
        assert job["result"] == {"late": True}
        assert job["response"]["status"] == 202


def test_202_is_not_called_again_when_sched_is_started_again(client, node,
                                                             queue):
    with sink(lambda call: (202, {}, b"")) as s:
        push(client, queue, s.url())
        job_id = client.enqueue(queue)
        wait_until(lambda: "response" in client.get(
            f"{API}/jobs/{job_id}").json, what="the answer")
        kill_sched(node)
        other = client.enqueue(queue)
        wait_until(lambda: s.of(other), what="the next call")
        assert len(s.of(job_id)) == 1
        assert client.get(f"{API}/jobs/{job_id}").json["state"] == "active"


def test_a_call_under_way_is_made_again_when_sched_is_killed(client, node,
                                                             queue):
    go = threading.Event()

    def answer(call):
        go.wait(60)
        return 200, {}, b""

    with sink(answer) as s:
        push(client, queue, s.url())
        job_id = client.enqueue(queue, max_retries=1)
        wait_until(lambda: s.of(job_id), what="the call")
        kill_sched(node)
        wait_until(lambda: len(s.of(job_id)) == 2, what="the second call")
        go.set()
        job = ended(client, job_id)
        # no attempt is used, and its id is the same
        assert job["attempt"] == 1 and "errors" not in job
        assert {c.headers["webhook-id"] for c in s.of(job_id)} == {job_id}


def test_a_cancelled_job_ends_its_call(client, queue):
    go = threading.Event()

    def answer(call):
        go.wait(60)
        return 200, {}, b""

    with sink(answer) as s:
        push(client, queue, s.url())
        job_id = client.enqueue(queue)
        wait_until(lambda: s.of(job_id), what="the call")
        assert client.post(f"{API}/jobs/{job_id}/cancel").status == 200
        ended(client, job_id, "cancelled")
        go.set()


def test_a_call_that_takes_too_long_fails(client, queue):
    go = threading.Event()

    def answer(call):
        go.wait(60)
        return 200, {}, b""

    with sink(answer) as s:
        push(client, queue, s.url(), timeout="50ms")
        job_id = client.enqueue(queue, max_retries=1)
        job = ended(client, job_id, "dead")
        assert job["errors"][0]["response"]["error_class"] == "timeout", job
        go.set()


def test_classes_of_errors(client, queue):
    def of(name, url):
        """A queue of its own: a change of one is known a moment later."""
        q = f"{queue}-{name}"
        push(client, q, url)
        job = ended(client, client.enqueue(q, max_retries=1), "dead")
        return job["errors"][0]["response"]["error_class"]

    assert of("a", f"http://127.0.0.1:{free_port()}/") == "connection_error"
    assert of("b", "http://no-such-host.invalid/") == "dns_error"
    with sink() as s:
        assert of("c", f"https://127.0.0.1:{s.port}/") == "tls_error"


def test_a_dead_host_is_left_alone_and_delays_nobody(client, queue):
    dead = f"http://127.0.0.1:{free_port()}/"
    with sink() as s:
        push(client, queue, dead, concurrency=1)
        ids = [client.enqueue(queue, max_retries=1) for _ in range(30)]
        waiting = wait_until(
            lambda: next((r for j in ids for r in [reasons(client, j)]
                          if "push_breaker" in r), None), what="the breaker")
        text = waiting["push_breaker"]["text"]
        assert "in a row have failed" in text and "127.0.0.1" in text
        value = [line for line in client.get(
            f"{API}/metrics").body.decode().splitlines()
            if line.startswith("corvo_push_breakers_open ")]
        assert value, "no such metric"
        push(client, queue + "-fine", s.url())
        fine = client.enqueue(queue + "-fine")
        ended(client, fine)
        # what waits goes on when the host is there again
        left = [j for j in ids if client.get(
            f"{API}/jobs/{j}").json["state"] == "pending"]
        assert left, "all of them were called in vain"
        push(client, queue, s.url())
        for j in left:
            wait_until(lambda j=j: client.get(f"{API}/jobs/{j}").json["state"]
                       in ("completed", "dead"), what=j)
        assert any(s.of(j) for j in left)
    client.request("DELETE", f"{API}/queues/{queue}-fine?confirm=true")


def test_others_go_on_when_the_call_that_tries_a_host_is_given_up(
        client, queue):
    gate = threading.Event()

    def answer(call):
        n = s.calls.index(call)
        if n == 5:
            gate.wait(120)
        return (500 if n < 5 else 200), {}, b""

    with sink(answer) as s:
        queues = [queue, queue + "-2"]
        for q in queues:
            push(client, q, s.url(), concurrency=1)
        for j in [client.enqueue(queue, max_retries=1) for _ in range(5)]:
            ended(client, j, "dead")  # the breaker opens
        ids = [client.enqueue(q) for q in queues]
        try:
            wait_until(lambda: len(s.calls) == 6, what="one to try it")
            tries = s.calls[5].job_id
            (other,) = set(ids) - {tries}
            a = client.post(f"{API}/jobs/{tries}/cancel")
            assert a.status == 200, a
            ended(client, tries, "cancelled")
            ended(client, other)
        finally:
            gate.set()
        wait_until(lambda: client.metrics()["corvo_push_calls_open"] == 0,
                   what="none to be under way")
    client.request("DELETE", f"{API}/queues/{queue}-2?confirm=true")


def test_never_more_calls_at_a_time_than_allowed(client, queue):
    lock, state = threading.Lock(), {"now": 0, "most": 0}
    never = threading.Event()

    def answer(call):
        with lock:
            state["now"] += 1
            state["most"] = max(state["most"], state["now"])
        never.wait(0.01)
        with lock:
            state["now"] -= 1
        return 200, {}, b""

    with sink(answer) as s:
        push(client, queue, s.url(), concurrency=3)
        ids = [client.enqueue(queue) for _ in range(30)]
        for job_id in ids:
            ended(client, job_id)
        assert 1 <= state["most"] <= 3


def test_never_faster_than_the_rate(client, queue):
    with sink() as s:
        push(client, queue, s.url(), rate=20)
        begin = time.time()
        ids = [client.enqueue(queue) for _ in range(12)]
        for job_id in ids:
            ended(client, job_id)
        # the first two at once, then one every 50 ms
        last = max(c.at for c in s.calls)
        assert last - begin >= 10 * 0.05 - 0.01, last - begin


BAD = [
    ({"url": "ftp://example.com/"}, "push.url"),
    ({"url": "example.com"}, "push.url"),
    ({"url": "http://"}, "push.url"),
    ({"url": "http://exa mple.com/"}, "push.url"),
    ({"url": "http://example.com/\r\nX: y"}, "push.url"),
    ({"url": "http://example.com:99999/"}, "push.url"),
    ({"url": "http://[::1/"}, "push.url"),
    ({"url": "http://" + "a" * 3000}, "push.url"),
    ({"url": 7}, "push.url"),
    ({"concurrency": 4}, "push.url"),
    ({"url": "http://a/", "method": "DELETE"}, "push.method"),
    ({"url": "http://a/", "format": "xml"}, "push.format"),
    ({"url": "http://a/", "timeout": "2h"}, "push.timeout"),
    ({"url": "http://a/", "timeout": "soon"}, "push.timeout"),
    ({"url": "http://a/", "concurrency": -1}, "push.concurrency"),
    ({"url": "http://a/", "secret": "short"}, "push.secret"),
    ({"url": "http://a/", "secret": "whsec_!!"}, "push.secret"),
    ({"url": "http://a/", "previous_secret": SECRET}, "push.previous_secret"),
    ({"url": "http://a/", "headers": {"A\r\nB": "c"}}, "push.headers"),
    ({"url": "http://a/", "headers": {"A": "b\r\nC: d"}}, "push.headers"),
    ({"url": "http://a/", "headers": {"Host": "b"}}, "push.headers"),
    ({"url": "http://a/", "headers": {"webhook-id": "b"}}, "push.headers"),
    ({"url": "http://a/", "headers": {"A": 1}}, "push.headers.A"),
    ({"url": "http://a/", "headers": {f"A{n}": "b" for n in range(33)}},
     "push.headers"),
    ({"url": "http://me:pw@a/", "headers": {"authorization": "b"}},
     "push.headers"),
    ("http://a/", "push"),
    ([], "push"),
]


@pytest.mark.parametrize("bad, member", BAD, ids=range(len(BAD)))
def test_what_cannot_be_is_refused_and_nothing_is_stored(client, queue, bad,
                                                         member):
    a = patch(client, queue, push=bad, max_concurrency=7)
    assert (a.status, a.code) == (400, "VALIDATION_ERROR"), a
    assert a.json["error"].startswith(member + ":"), a
    assert client.get(f"{API}/queues/{queue}").status == 404


def test_null_ends_it(client, queue):
    with sink() as s:
        push(client, queue, s.url())
        ended(client, client.enqueue(queue))
        a = patch(client, queue, push=None)
        assert a.status == 200 and "push" not in a.json["settings"], a
        job_id = client.enqueue(queue)

        def fetched():
            job = client.fetch(queue)
            if job is None:
                return None
            return job

        # a call that is under way when it ends may have it first
        job = wait_until(lambda: fetched() or client.get(
            f"{API}/jobs/{job_id}").json["state"] == "completed" and "done",
            what="the job")
        assert job == "done" or job["job_id"] == job_id


def test_the_command_makes_a_call_and_shows_what_came_of_it(client, node,
                                                            queue):
    with sink(lambda call: (200, {"Content-Type": "application/json"},
                            b'{"ok": true}')) as s:
        push(client, queue, s.url("/hook"))
        url = f"http://127.0.0.1:{node.port}"
        r = subprocess.run([CORVO, "push", "test", queue, "--server", url],
                           capture_output=True, text=True, timeout=60,
                           check=False)
        assert r.returncode == 0, r
        assert "200" in r.stdout and s.url("/hook") in r.stdout, r
        (call,) = s.calls
        assert json.loads(call.body)["test"] is True
        s.answer = lambda call: (500, {}, b"broken")
        r = subprocess.run([CORVO, "push", "test", queue, "--server", url],
                           capture_output=True, text=True, timeout=60,
                           check=False)
        assert r.returncode != 0 and "500" in r.stdout, r
    assert patch(client, queue, push=None).status == 200
    r = subprocess.run([CORVO, "push", "test", queue, "--server", url],
                       capture_output=True, text=True, timeout=60, check=False)
    assert r.returncode != 0 and "is no push queue" in r.stderr, r


def test_a_scheduled_job_is_called_at_its_time_and_not_before(client, queue):
    with sink() as s:
        push(client, queue, s.url(), concurrency=50)
        due = {}
        for n in range(100):
            at = time.time() + 0.5 + n * 0.01
            text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + \
                ("%.3f" % (at % 1))[1:] + "Z"
            due[client.enqueue(queue, scheduled_at=text)] = seconds_of(text)
        for job_id, at in due.items():
            ended(client, job_id)
            (call,) = s.of(job_id)
            assert call.at >= at, "early"
