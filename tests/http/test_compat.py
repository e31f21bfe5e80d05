"""Clients of v0.3.0: --compat=0.3, or the header, changes one thing."""

import hashlib
import hmac

import pytest

from node import API, wait_until
from sink import sink

NODE_FLAGS = ["--compat=0.3"]
HEADER = {"X-Corvo-Compat": "0.3"}


@pytest.mark.parametrize("name,number", [("critical", 0), ("high", 1),
                                         ("normal", 2), ("low", 2)])
def test_priority_is_a_number(client, queue, name, number):
    job_id = client.enqueue(queue, priority=name)
    assert client.job(job_id)["priority"] == number
    (row,) = client.search(queue=queue)["jobs"]
    assert row["priority"] == number


def test_everything_else_is_the_same(client, queue):
    job_id = client.enqueue(queue)
    job = client.fetch(queue)
    client.ack(job)
    shown = client.job(job_id)
    assert shown["state"] == "completed"
    assert shown["retry_base_delay_ms"] == 5000


def test_header_alone(make_node, queue):
    node = make_node()
    node.start()
    with node.client() as c:
        job_id = c.enqueue(queue, priority="high")
        path = f"{API}/jobs/{job_id}"
        assert c.get(path).json["priority"] == "high"
        assert c.get(path, HEADER).json["priority"] == 1
        assert c.get(path, {"X-Corvo-Compat": "9"}).json["priority"] == "high"
        a = c.post(f"{API}/jobs/search", {"queue": queue}, HEADER)
        assert a.json["jobs"][0]["priority"] == 1


# --- codes, and what is taken

def test_members_that_are_not_known_are_ignored(client, queue):
    a = client.post(f"{API}/enqueue", {"queue": queue, "max_retires": 2})
    assert a.status == 201, a
    assert a.headers["X-Corvo-Ignored"] == "max_retires"
    a = client.request("PATCH", f"{API}/queues/{queue}", {"max_retires": 2})
    assert a.status == 200, a
    assert a.headers["X-Corvo-Ignored"] == "max_retires"


def test_bulk_of_nothing_does_nothing(client, queue):
    job_id = client.enqueue(queue)
    for body in ({"action": "retry"}, {"action": "delete", "job_ids": []}):
        a = client.post(f"{API}/jobs/bulk", body)
        assert (a.status, a.json["affected"]) == (200, 0), a
    assert client.state(job_id) == "pending"


def test_ids_of_a_bulk_count_before_its_filter(client, queue):
    ids = [client.enqueue(queue) for _ in range(3)]
    a = client.post(f"{API}/jobs/bulk", {
        "action": "cancel", "job_ids": ids[:1], "filter": {"queue": queue}})
    assert (a.status, a.json["affected"]) == (200, 1), a
    a = client.post(f"{API}/jobs/bulk", {
        "action": "cancel", "job_ids": [], "filter": {"queue": queue}})
    assert a.status == 200 and a.json["affected"] == 2, a


@pytest.mark.parametrize("path,body,code", [
    ("jobs/bulk", {}, "VALIDATION_ERROR"),
    ("jobs/bulk", {"action": "move", "job_ids": ["x"]}, "BULK_ERROR"),
    ("jobs/bulk", {"action": "retry", "filter": {}}, "BULK_ERROR"),
    ("jobs/bulk", {"action": "retry", "filter": {"x": 1}}, "BULK_ERROR"),
    ("webhooks", {}, "WEBHOOK_ERROR"),
    ("webhooks", {"url": "ftp://x"}, "WEBHOOK_ERROR"),
    ("webhooks", {"url": "http://x/", "events": ["no"]}, "WEBHOOK_ERROR"),
    ("approval-policies", {}, "POLICY_ERROR"),
    ("approval-policies", {"name": "p"}, "POLICY_ERROR"),
    ("approval-policies", {"name": "p", "mode": "x"}, "POLICY_ERROR"),
    ("budgets", {"scope": "tag", "target": "x", "daily_usd": 1},
     "BUDGET_ERROR")])
def test_codes_of_mistakes(client, path, body, code):
    a = client.post(f"{API}/{path}", body)
    assert (a.status, a.code) == (400, code), a


@pytest.mark.parametrize("secret", ["s", "x" * 500, "whsec_no base64"],
                         ids=["short", "long", "standard"])
def test_a_secret_is_any_text(client, queue, secret):
    with sink() as s:
        a = client.post(f"{API}/webhooks", {
            "url": s.url(), "events": ["enqueued"], "secret": secret,
            "enabled": True})
        assert a.status == 200, a
        client.enqueue(queue)
        wait_until(lambda: s.calls, what="the delivery")
        (call,) = s.calls
        mac = hmac.new(secret.encode(), call.body, hashlib.sha256)
        assert call.headers["x-corvo-signature"] == \
            "sha256=" + mac.hexdigest()
        client.request("DELETE", f"{API}/webhooks/{a.json['id']}")


# --- budgets

def test_jobs_stopped_by_a_budget_of_a_tag_are_held(client, queue):
    budget = {"scope": "tag", "target": f"who:{queue}", "daily_usd": 1}
    assert client.post(f"{API}/budgets", budget).status == 200
    tags = {"who": queue}
    client.enqueue(queue, tags=tags)
    client.ack(client.fetch(queue), usage={"cost_usd": 2})
    stopped = client.enqueue(queue, tags=tags)
    other = client.enqueue(queue)
    assert client.fetch(queue)["job_id"] == other
    job = client.job(stopped)
    assert job["state"] == "held" and "budget" in job["hold_reason"], job
    # natively they are set aside until the period ends
    path = f"{API}/budgets/tag/who:{queue}"
    for _ in range(2):
        a = client.request("DELETE", path)
        assert (a.status, a.json["status"]) == (200, "deleted"), a
    assert client.state(stopped) == "held"
    assert client.post(f"{API}/jobs/{stopped}/approve", {}).status == 200
    assert client.fetch(queue)["job_id"] == stopped
