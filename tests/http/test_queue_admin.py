"""Settings of queues, backlog caps, drain, clear and delete."""

import os
import signal
import threading

import pytest

from node import API, wait_until


def one(client, queue):
    a = client.get(f"{API}/queues/{queue}")
    assert a.status == 200, a
    return a.json


def patch(client, queue, **members):
    a = client.request("PATCH", f"{API}/queues/{queue}", members)
    assert a.status == 200, a
    return a.json


def refused(client, method, path, body=None, code="VALIDATION_ERROR"):
    a = client.request(method, f"{API}/queues/{path}", body)
    assert a.code == code, a
    return a.json["error"]


# --- GET and PATCH -------------------------------------------------------


def test_get_of_a_queue(client, queue):
    client.enqueue(queue)
    client.enqueue(queue, scheduled_at="2100-01-01T00:00:00Z")
    client.fetch(queue)
    row = one(client, queue)
    assert row["name"] == queue
    assert (row["pending"], row["active"], row["scheduled"]) == (0, 1, 1)
    assert row["enqueued"] == 2 and row["paused"] is False
    assert row["created_at"] > "2020" and row["settings"] == {}


def test_get_of_an_unknown_queue(client, queue):
    a = client.get(f"{API}/queues/{queue}")
    assert (a.status, a.code) == (404, "NOT_FOUND")
    assert queue in a.json["error"]


def test_patch_creates_the_queue_and_merges(client, queue):
    row = patch(client, queue, max_concurrency=5, rate=100, period="1m",
                retention="2h", fairness="group", retry_backoff="linear")
    assert row["max_concurrency"] == 5
    assert (row["rate_limit"], row["rate_window_ms"]) == (100, 60000)
    row = patch(client, queue, max_retries=9, lease_duration=30)
    s = row["settings"]
    assert s["max_concurrency"] == 5 and s["max_retries"] == 9
    assert s["retention"] == "2h" and s["lease_duration_ms"] == 30000
    assert s["fairness"] == "group" and s["retry_backoff"] == "linear"
    assert one(client, queue) == row
    listed = client.queue(queue)
    assert listed["max_concurrency"] == 5
    assert (listed["rate_limit"], listed["rate_window_ms"]) == (100, 60000)


def test_null_in_patch_removes_a_setting(client, queue):
    patch(client, queue, max_concurrency=5, rate=100, period_ms=1500,
          max_backlog=7, group_tag="customer")
    row = patch(client, queue, max_concurrency=None, rate=None,
                group_tag=None)
    assert row["settings"] == {"max_backlog": 7}
    assert "max_concurrency" not in row and "rate_limit" not in row
    assert "max_concurrency" not in client.queue(queue)
    assert patch(client, queue, max_backlog=0)["settings"] == {}


def test_groups_are_an_object_by_name(client, queue):
    patch(client, queue, groups={
        "vip": {"weight": 5, "max_concurrency": 3},
        "slow": {"rate": 10, "period": "1s", "paused": True}})
    groups = one(client, queue)["settings"]["groups"]
    assert groups["vip"] == {"weight": 5, "max_concurrency": 3}
    assert groups["slow"]["period_ms"] == 1000
    assert groups["slow"]["paused"] is True
    row = patch(client, queue, groups={"slow": None,
                                       "vip": {"weight": None}})
    assert row["settings"]["groups"] == {"vip": {"max_concurrency": 3}}
    assert patch(client, queue, groups=None)["settings"] == {}


@pytest.mark.parametrize("body,words", [
    ({"rate": 5}, "needs period"),
    ({"period": "1m"}, "needs rate"),
    ({"group_rate": 5}, "needs group_period"),
    ({"rate": 5, "period": "0s"}, "1ms to 24h"),
    ({"rate": 5, "period": "25h"}, "1ms to 24h"),
    ({"lease_duration": 100000}, "86400"),
    ({"max_concurrency": -1}, "max_concurrency"),
    ({"max_concurrency": "many"}, "max_concurrency"),
    ({"fairness": "unfair"}, "fairness"),
    ({"retention": "long"}, "retention"),
    ({"groups": []}, "groups"),
    ({"groups": {"a": 5}}, "groups.a"),
    ({"groups": {"a": {"weight": "x"}}}, "groups.a.weight"),
    ({"groups": {"a": {"rate": 5}}}, "groups.a.rate"),
])
def test_patch_that_makes_no_sense(client, queue, body, words):
    assert words in refused(client, "PATCH", "never-made", body)
    assert client.get(f"{API}/queues/never-made").status == 404


def test_patch_with_a_group_given_twice(client, queue):
    a = client.request("PATCH", f"{API}/queues/{queue}",
                       '{"groups": {"a": {"weight": 1}, "a": null}}')
    assert (a.status, a.code) == (400, "PARSE_ERROR")


@pytest.mark.parametrize("method, action, body", [
    ("POST", "/pause", None), ("POST", "/resume", None),
    ("POST", "/drain", None), ("POST", "/concurrency", {"max": 1}),
    ("POST", "/throttle", {"rate": 1, "period": "1m"}),
    ("DELETE", "/throttle", None), ("PATCH", "", {"max_retries": 1})],
    ids=["pause", "resume", "drain", "concurrency", "throttle", "unthrottle",
         "set"])
def test_a_queue_that_was_not_known_is_said_to_be_created(
        client, queue, method, action, body):
    def ask():
        a = client.request(method, f"{API}/queues/{queue}{action}", body)
        assert a.status == 200, a
        return a.json

    assert client.get(f"{API}/queues/{queue}").status == 404
    assert ask()["created"] is True
    assert "created" not in ask()
    assert "created" not in one(client, queue)
    listed = client.get(f"{API}/queues").json
    assert not any("created" in q for q in listed)
    other = queue + ".jobs"  # by a job, and so by no mistake
    client.enqueue(other)
    a = client.request(method, f"{API}/queues/{other}{action}", body)
    assert a.status == 200 and "created" not in a.json


def test_concurrency_and_throttle_routes(client, queue):
    def post(action, body):
        a = client.post(f"{API}/queues/{queue}/{action}", body)
        assert (a.status, a.json) == (200, {"status": "ok"})
        return one(client, queue)

    client.enqueue(queue)
    assert post("concurrency", {"max": 3})["max_concurrency"] == 3
    assert "max_concurrency" not in post("concurrency", {"max": 0})
    assert post("concurrency", {"max": 3})["max_concurrency"] == 3
    assert "max_concurrency" not in post("concurrency", {"max": None})
    row = post("throttle", {"rate": 10, "window_ms": 500})
    assert (row["rate_limit"], row["rate_window_ms"]) == (10, 500)
    row = post("throttle", {"rate": 100, "period": "1m"})
    assert (row["rate_limit"], row["rate_window_ms"]) == (100, 60000)
    assert "rate_limit" not in post("throttle", {"rate": 0})
    post("throttle", {"rate": 100, "period": "1m"})
    assert "rate_limit" not in post("throttle", {"rate": None})
    post("throttle", {"rate": 100, "period": "1m"})
    a = client.request("DELETE", f"{API}/queues/{queue}/throttle")
    assert (a.status, a.json) == (200, {"status": "ok"})
    assert "rate_limit" not in one(client, queue)
    refused(client, "POST", f"{queue}/concurrency", {})


@pytest.mark.parametrize("body,word", [
    ({}, "rate"), ({"rate": 5}, "period"),
    ({"rate": 5, "window_ms": 0}, "period"),
    ({"rate": -5, "window_ms": 5}, "rate"),
    ({"rate": 5, "window_ms": "x"}, "window_ms"),
    ({"rate": "x", "period": "1m"}, "rate")])
def test_throttle_must_be_positive(client, queue, body, word):
    assert word in refused(client, "POST", f"{queue}/throttle", body)


def test_settings_survive_a_restart(make_node):
    node = make_node().start()
    with node.client() as c:
        patch(c, "q", max_concurrency=4, groups={"g": {"weight": 2}})
        before = one(c, "q")
    node.stop()
    node.start()
    with node.client() as c:
        assert one(c, "q") == before
        a = wait_until(lambda: (x := c.get(f"{API}/queues")).status == 200
                       and x, what="the view")
        assert [q["max_concurrency"] for q in a.json] == [4]


def test_jobs_take_the_retry_rules_of_their_queue(client, queue):
    patch(client, queue, max_retries=1, retry_base_delay="7s")
    a = client.post(f"{API}/enqueue", {"queue": queue})
    assert a.json["job"]["max_retries"] == 1
    assert client.job(a.json["job_id"])["retry_base_delay"] == "7s"
    assert client.fail(client.fetch(queue))["status"] == "dead"
    job = client.enqueue(queue, max_retries=4)
    assert client.job(job)["max_retries"] == 4


# --- max_backlog ---------------------------------------------------------


def test_a_full_queue_answers_429(client, queue):
    patch(client, queue, max_backlog=2)
    client.enqueue(queue)
    client.enqueue(queue, scheduled_at="2100-01-01T00:00:00Z")
    a = client.post(f"{API}/enqueue", {"queue": queue})
    assert (a.status, a.code) == (429, "QUEUE_FULL")
    assert int(a.headers["Retry-After"]) > 0
    assert a.json["retry_after_ms"] > 0
    held = client.fetch(queue)  # one waits less
    client.enqueue(queue)
    assert client.fail(held)["status"] == "retrying"  # never refused
    assert one(client, queue)["enqueued"] == 3


def test_a_batch_over_max_backlog_is_refused_as_a_whole(client, queue):
    patch(client, queue, max_backlog=3)
    jobs = [{"queue": queue}] * 4
    a = client.post(f"{API}/enqueue/batch", {"jobs": jobs})
    assert (a.status, a.code) == (429, "QUEUE_FULL")
    assert one(client, queue)["enqueued"] == 0
    a = client.post(f"{API}/enqueue/batch", {"jobs": jobs[:3]})
    assert a.status == 201


# --- drain ---------------------------------------------------------------


def drain(client, queue, wait=""):
    a = client.post(f"{API}/queues/{queue}/drain{wait}")
    assert a.status == 200, a
    return a.json


def test_drain_pauses_and_counts(client, queue):
    client.enqueue(queue)
    client.enqueue(queue)
    held = client.fetch(queue)
    assert drain(client, queue) == {"status": "draining", "active": 1}
    assert client.fetch(queue) is None
    assert one(client, queue)["paused"] is True
    client.ack(held)
    assert drain(client, queue) == {"status": "drained", "active": 0}
    refused(client, "POST", f"{queue}/drain?wait=soon")


def drain_in_background(node, queue, wait):
    answers = []

    def run():
        with node.client() as c:
            answers.append(drain(c, queue, f"?wait={wait}"))

    t = threading.Thread(target=run)
    t.start()
    return t, answers


def paused(client, queue):
    return one(client, queue)["paused"]


def test_drain_waits_for_active_jobs(node, client, queue):
    client.enqueue(queue)
    held = client.fetch(queue)
    t, answers = drain_in_background(node, queue, "30s")
    wait_until(lambda: paused(client, queue), what="the drain to begin")
    client.ack(held)
    t.join(20)
    assert answers == [{"status": "drained", "active": 0}]


def test_resume_ends_the_wait_of_a_drain(node, client, queue):
    client.enqueue(queue)
    client.fetch(queue)
    t, answers = drain_in_background(node, queue, "60")
    wait_until(lambda: paused(client, queue), what="the drain to begin")
    client.post(f"{API}/queues/{queue}/resume")
    t.join(20)
    assert answers == [{"status": "draining", "active": 1}]


def test_drain_waits_no_longer_than_asked(client, queue):
    client.enqueue(queue)
    client.fetch(queue)
    assert drain(client, queue, "?wait=100ms") == {"status": "draining",
                                                   "active": 1}


# --- clear ---------------------------------------------------------------


def test_clear_removes_what_waits(client, queue):
    active = client.enqueue(queue)
    client.fetch(queue)
    failed = client.enqueue(queue)
    client.fail(client.fetch(queue))
    client.enqueue(queue, priority="critical")
    client.enqueue(queue, scheduled_at="2100-01-01T00:00:00Z")
    client.enqueue(queue)
    ended = client.enqueue(f"{queue}.x")
    a = client.post(f"{API}/queues/{queue}/clear")
    assert (a.status, a.json) == (200, {"status": "cleared", "count": 4})
    assert client.fetch(queue) is None
    assert client.state(active) == "active"
    assert client.get(f"{API}/jobs/{failed}").status == 404
    assert client.state(ended) == "pending"
    row = client.queue(queue)
    assert (row["enqueued"], row["active"]) == (1, 1)
    assert client.search(queue=queue)["total"] == 1


def test_clear_removes_blocked_jobs_and_leaves_held_ones(client, queue):
    parent = client.enqueue(queue)
    running = client.fetch(queue)
    child = client.enqueue(queue, depends_on=[parent])
    held = client.enqueue(queue)
    assert client.post(f"{API}/jobs/{held}/hold").status == 200
    row = one(client, queue)
    assert (row["pending"], row["blocked"], row["held"]) == (1, 1, 1)
    a = client.post(f"{API}/queues/{queue}/clear")
    assert a.json == {"status": "cleared", "count": 1}
    assert client.get(f"{API}/jobs/{child}").status == 404
    assert client.state(held) == "held"
    client.ack(running)  # nobody waits for it any more
    assert client.fetch(queue) is None


def test_clear_of_an_unknown_queue(client, queue):
    a = client.post(f"{API}/queues/{queue}/clear")
    assert (a.status, a.json) == (200, {"status": "cleared", "count": 0})


def test_clear_of_many(client, queue):
    for _ in range(5):
        client.post(f"{API}/enqueue/batch",
                    {"jobs": [{"queue": queue}] * 700})
    a = client.post(f"{API}/queues/{queue}/clear")
    assert a.json == {"status": "cleared", "count": 3500}
    assert one(client, queue)["enqueued"] == 0
    wait_until(lambda: client.search(queue=queue)["total"] == 0, 60,
               "the view to hold it")
    job = client.enqueue(queue)
    assert client.fetch(queue)["job_id"] == job


def test_clear_goes_on_after_a_crash_of_raftd(make_node):
    node = make_node().start()
    answers = []

    def clear():
        with node.client() as c:
            answers.append(c.post(f"{API}/queues/q/clear"))

    with node.client() as c:
        for _ in range(10):
            c.post(f"{API}/enqueue/batch", {"jobs": [{"queue": "q"}] * 1000})
        t = threading.Thread(target=clear)
        t.start()
        wait_until(lambda: one(c, "q")["enqueued"] < 10000,
                   what="the first portion", every=0.001)
        os.kill(node.ps("raftd")["pid"], signal.SIGKILL)
        t.join(60)
        assert [a.status for a in answers] == [200], answers
        assert answers[0].json["status"] == "cleared"
        assert one(c, "q")["enqueued"] == 0
        assert c.fetch("q") is None


# --- delete --------------------------------------------------------------


def test_delete_needs_confirm(client, queue):
    client.enqueue(queue)
    assert "confirm=true" in refused(client, "DELETE", queue)
    assert "confirm=true" in refused(client, "DELETE", f"{queue}?confirm=no")
    assert one(client, queue)["enqueued"] == 1


def test_delete_removes_everything_of_the_queue(client, queue):
    patch(client, queue, max_concurrency=3)
    done = client.enqueue(queue)
    client.ack(client.fetch(queue))
    client.enqueue(queue)
    held = client.fetch(queue)
    client.enqueue(queue)
    client.enqueue(queue, scheduled_at="2100-01-01T00:00:00Z")
    a = client.request("DELETE", f"{API}/queues/{queue}?confirm=true")
    assert (a.status, a.json) == (200, {"status": "deleted", "count": 4})
    assert client.get(f"{API}/queues/{queue}").status == 404
    assert client.queue(queue) is None
    assert client.search(queue=queue)["total"] == 0
    assert client.get(f"{API}/jobs/{done}").status == 404
    # the worker hears of it
    a = client.post(f"{API}/heartbeat", {"jobs": {held["job_id"]: {}}})
    assert a.json["jobs"][held["job_id"]]["status"] == "cancel"
    assert client.post(f"{API}/ack/{held['job_id']}").status == 404
    a = client.request("DELETE", f"{API}/queues/{queue}?confirm=true")
    assert (a.status, a.code) == (404, "NOT_FOUND")
    # one of the same name knows nothing of it
    job = client.enqueue(queue)
    assert one(client, queue)["settings"] == {}
    assert client.queue(queue)["enqueued"] == 1
    assert client.fetch(queue)["job_id"] == job


def test_delete_frees_unique_keys(client, queue):
    first = client.enqueue(queue, unique_key="k")
    a = client.post(f"{API}/enqueue", {"queue": queue, "unique_key": "k"})
    assert a.json["unique_existing"] is True
    a = client.request("DELETE", f"{API}/queues/{queue}?confirm=true")
    assert a.status == 200
    assert client.enqueue(queue, unique_key="k") != first


def test_a_duplicate_is_no_new_job_for_a_full_queue(client, queue):
    patch(client, queue, max_backlog=1)
    first = client.enqueue(queue, unique_key="k")
    a = client.post(f"{API}/enqueue", {"queue": queue, "unique_key": "k"})
    assert (a.status, a.json["job_id"]) == (200, first)
