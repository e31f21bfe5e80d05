"""Inbound webhooks from outside: deliveries signed by independent code, what
must not be let in, what becomes of them, and the configuration."""

import base64
import hashlib
import hmac
import json
import re
import subprocess
import time
import urllib.parse
from datetime import datetime, timezone

import pytest

from node import API, CORVO
from packages import pip_package

HOOKS = f"{API}/hooks"
SECRET = "a-secret-nobody-may-read"
WHSEC = "whsec_" + base64.b64encode(b"standard-secret-0123456789").decode()


@pytest.fixture
def hook(client, queue):
    """A name of the test's own; its webhook goes with the test."""
    name = "hook." + re.sub(r"[^\w.-]", "_", queue)[:60]
    yield name
    client.request("DELETE", f"{HOOKS}/{name}")


def put(client, name, **members):
    a = client.request("PUT", f"{HOOKS}/{name}", members)
    assert a.status == 200, a
    return a.json


def deliver(client, name, body, headers=None, query=""):
    return client.request("POST", f"{HOOKS}/{name}{query}", body,
                          headers)


def taken(client, name, body, headers=None, query=""):
    a = deliver(client, name, body, headers, query)
    assert a.status == 201 and a.json["duplicate"] is False, a
    return client.job(a.json["job_id"])


def refused(a, status, code, *words):
    assert (a.status, a.json["code"]) == (status, code), a
    for word in words:
        assert word in a.json["error"], a


def hexmac(secret, *parts):
    return hmac.new(secret.encode(), b"".join(parts),
                    hashlib.sha256).hexdigest()


# --- signatures by code that is not ours ---

def test_standard_webhooks_by_their_own_library(client, queue, hook):
    lib = pip_package("standardwebhooks").Webhook(WHSEC)
    put(client, hook, queue=queue, verify="standard", secret=WHSEC)
    body = json.dumps({"type": "user.created", "é": 1}, ensure_ascii=False)
    now = datetime.now(timezone.utc)

    def headers(at, signed=body, msg="msg_1"):
        return {"Webhook-Id": msg,
                "Webhook-Timestamp": str(int(at.timestamp())),
                "Webhook-Signature": lib.sign(msg, at, signed)}

    job = taken(client, hook, body.encode(), headers(now))
    assert job["payload"] == json.loads(body) and job["queue"] == queue
    refused(deliver(client, hook, body.encode() + b" ", headers(now)), 401,
            "SIGNATURE_ERROR", "Webhook-Signature is wrong")
    old = datetime.fromtimestamp(now.timestamp() - 400, timezone.utc)
    refused(deliver(client, hook, body.encode(), headers(old)), 401,
            "SIGNATURE_ERROR", "tolerance")
    refused(deliver(client, hook, body.encode()), 401, "SIGNATURE_ERROR")
    again = deliver(client, hook, body.encode(), headers(now))
    assert again.status == 200 and again.json == {
        "job_id": job["id"], "status": "duplicate", "duplicate": True}
    assert client.queue(queue)["pending"] == 1


def test_stripe_as_their_own_library_checks_it(client, queue, hook):
    pip_package("typing_extensions")  # which it needs
    stripe = pip_package("stripe")
    put(client, hook, queue=queue, verify="stripe", secret="whsec_stripe")
    body = json.dumps({"id": "evt_1", "object": "event", "n": 1})

    def signature(at):
        s = hexmac("whsec_stripe", f"{at}.".encode(), body.encode())
        return f"t={at},v1={s}"

    now = int(time.time())
    # what their library takes, we take, and the other way round
    stripe.WebhookSignature.verify_header(body, signature(now),
                                          "whsec_stripe", 300)
    taken(client, hook, body.encode(),
          {"Stripe-Signature": signature(now)})
    made = stripe.WebhookSignature._compute_signature(
        f"{now}.{body}", "whsec_stripe")
    again = deliver(client, hook, body.encode(),
                    {"Stripe-Signature": f"t={now},v1={made}"})
    assert again.status == 200 and again.json["duplicate"] is True, again
    with pytest.raises(stripe.SignatureVerificationError):
        stripe.WebhookSignature.verify_header(
            body, signature(now - 400), "whsec_stripe", 300)
    refused(deliver(client, hook, body.encode(),
                    {"Stripe-Signature": signature(now - 400)}),
            401, "SIGNATURE_ERROR", "tolerance")
    refused(deliver(client, hook, body.encode(),
                    {"Stripe-Signature": f"t={now},v1={'0' * 64}"}),
            401, "SIGNATURE_ERROR")


def test_github(client, queue, hook):
    put(client, hook, queue=queue, verify="github", secret=SECRET,
        tags={"event": '.headers["x-github-event"]',
              "repo": ".body.repository.full_name"})
    body = b'{"repository": {"full_name": "a/b"}, "big": 12345678901234567890}'
    headers = {"X-Hub-Signature-256": "sha256=" + hexmac(SECRET, body),
               "X-GitHub-Delivery": "d-1", "X-GitHub-Event": "push"}
    job = taken(client, hook, body, headers)
    assert job["tags"] == {"event": "push", "repo": "a/b"}
    again = deliver(client, hook, body, headers)
    assert again.status == 200 and again.json["job_id"] == job["id"]
    assert again.headers["Idempotent-Replayed"] == "true"
    # nobody has signed that name: it is the body that is known again
    replayed = deliver(client, hook, body, headers | {
        "X-GitHub-Delivery": "d-2", "X-GitHub-Event": "fork"})
    assert (replayed.status, replayed.json["job_id"]) == (200, job["id"])
    other = body.replace(b"a/b", b"a/c")
    signed = {"X-Hub-Signature-256": "sha256=" + hexmac(SECRET, other)}
    assert taken(client, hook, other, headers | signed)["id"] != job["id"]
    refused(deliver(client, hook, body, headers | {
        "X-Hub-Signature-256": "sha256=" + hexmac("other", body)}),
        401, "SIGNATURE_ERROR")
    assert client.queue(queue)["pending"] == 2


def test_a_form_of_github(client, queue, hook):
    put(client, hook, queue=queue, verify="github", secret=SECRET,
        tags={"repo": ".body.repository.full_name"})
    document = {"repository": {"full_name": "a/b"},
                "note": "1 + 1 = 2 & \u00fc"}
    body = urllib.parse.urlencode(
        {"zen": "{}", "payload": json.dumps(document)}).encode()
    headers = {"X-Hub-Signature-256": "sha256=" + hexmac(SECRET, body),
               "Content-Type": "application/x-www-form-urlencoded"}
    job = taken(client, hook, body, headers)
    assert job["payload"] == document
    assert job["tags"] == {"repo": "a/b"}
    # signed is the form, not what is in it
    inner = json.dumps(document).encode()
    refused(deliver(client, hook, body, headers | {
        "X-Hub-Signature-256": "sha256=" + hexmac(SECRET, inner)}),
        401, "SIGNATURE_ERROR")


@pytest.mark.parametrize("body", [b"a=b&c", b"payload=%zz", b"payload"])
def test_a_form_without_a_payload_is_taken_as_it_came(client, queue, hook,
                                                      body):
    put(client, hook, queue=queue, verify="github", secret=SECRET)
    job = taken(client, hook, body, {
        "X-Hub-Signature-256": "sha256=" + hexmac(SECRET, body),
        "Content-Type": "application/x-www-form-urlencoded; charset=utf-8"})
    assert job["payload"] in (body.decode(), {})


def test_slack_and_its_challenge(client, queue, hook):
    put(client, hook, queue=queue, verify="slack", secret=SECRET)

    def sent(body):
        t = str(int(time.time()))
        s = hexmac(SECRET, b"v0:", t.encode(), b":", body)
        return deliver(client, hook, body, {
            "X-Slack-Request-Timestamp": t, "X-Slack-Signature": "v0=" + s})

    a = sent(b'{"type": "url_verification", "challenge": "3eZbrw1a"}')
    assert a.status == 200 and a.json["challenge"] == "3eZbrw1a"
    assert "job_id" not in a.json
    form = b"token=x&command=%2Fdeploy&text=now"
    a = sent(form)
    assert a.status == 201, a
    assert client.job(a.json["job_id"])["payload"] == form.decode()
    assert sent(b'{"event_id": "Ev1"}').status == 201
    assert sent(b'{"event_id": "Ev1", "retry": 1}').json["duplicate"] is True
    assert client.queue(queue)["pending"] == 2


def test_a_token(client, queue, hook):
    put(client, hook, queue=queue, verify="token", secret=SECRET,
        previous_secret="the-old-one",
        payload={"headers": ".headers", "body": ".body"})
    job = taken(client, hook, b"1", {"Authorization": f"Bearer {SECRET}"})
    assert job["payload"]["body"] == 1
    assert "authorization" not in job["payload"]["headers"]
    taken(client, hook, b"1", {"Authorization": "Bearer the-old-one"})
    for wrong in ({}, {"Authorization": "Bearer x"},
                  {"Authorization": SECRET},
                  {"Authorization": f"Bearer {SECRET}x"}):
        refused(deliver(client, hook, b"1", wrong), 401, "SIGNATURE_ERROR")
    put(client, hook, queue=queue, verify="token",
        token_header="X-Gitlab-Token")
    taken(client, hook, b"1", {"X-Gitlab-Token": SECRET})
    refused(deliver(client, hook, b"1", {"Authorization": f"Bearer {SECRET}"}),
            401, "SIGNATURE_ERROR")


# --- what becomes of a delivery ---

def test_places_of_a_delivery(client, queue, hook):
    put(client, hook, queue=".query.to", priority="high", max_retries=2,
        unique_key=".body.order.id", unique_period="10m",
        payload={"order": ".body.order", "kind": '.headers["x-kind"]',
                 "raw": ".raw", "nothing": ".body.nothing"},
        tags={"kind": '.headers["x-kind"]', "from": "shop"})
    body = b'{"order": {"id": 7, "sum": 1.10}}'
    job = taken(client, hook, body, {"X-Kind": "paid"},
                query=f"?to={queue}&x=%C3%A9")
    assert job["payload"] == {
        "order": {"id": 7, "sum": 1.10}, "kind": "paid",
        "raw": base64.b64encode(body).decode()}
    assert (job["queue"], job["priority"], job["max_retries"]) == (
        queue, "high", 2)
    assert job["tags"] == {"kind": "paid", "from": "shop"}
    assert job["unique_key"] == "7"
    a = deliver(client, hook, body, query=f"?to={queue}")
    assert a.status == 200 and a.json["job_id"] == job["id"], a
    refused(deliver(client, hook, body), 400, "VALIDATION_ERROR",
            "queue: there is nothing at .query.to")
    refused(deliver(client, hook, body, query="?to=%20x"), 400,
            "VALIDATION_ERROR", "queue")
    refused(deliver(client, hook, body, query="?to=q&bad=%ff"), 400,
            "VALIDATION_ERROR", "UTF-8")
    refused(deliver(client, hook, b'{"order": {"id": []}}',
                    query=f"?to={queue}"), 400, "VALIDATION_ERROR",
            "unique_key: .body.order.id is an array")


def test_the_body_is_kept_exactly(client, queue, hook):
    put(client, hook, queue=queue)
    exact = b'{"b":1.10,  "a":1e400,"b":2, "u":"\\u00e9"}'
    a = deliver(client, hook, exact)
    got = client.request("GET", f"{API}/jobs/{a.json['job_id']}")
    assert b'"payload":' + exact in got.body, got.body
    for sent, want in (
            (b"", {}), (b"plain \xc3\xa9", "plain é"), (b"{", "{"),
            (b"\xff\x00", {"base64": "/wA="}), (b"\x00", "\x00")):
        assert taken(client, hook, sent)["payload"] == want


def test_too_large(client, queue, hook):
    put(client, hook, queue=queue)
    refused(deliver(client, hook, b'"' + b"x" * (256 << 10) + b'"'), 413,
            "PAYLOAD_TOO_LARGE")
    put(client, hook, queue=queue, payload={"n": ".body.n"})
    large = json.dumps({"n": 1, "x": "y" * (300 << 10)}).encode()
    assert taken(client, hook, large)["payload"] == {"n": 1}


# --- the webhook of a queue ---

def test_a_queue_has_a_webhook(client, queue):
    path = f"{API}/webhooks/{queue}"

    def post(body, query="", headers=None):
        return client.request("POST", path + query, body, headers)

    a = post(b'{"a": 1}', "?priority=critical&unique_key=k&max_retries=5"
             "&scheduled_at=2099-01-01T00:00:00Z&tags=team:red,at:10:30")
    assert a.status == 201 and a.json["status"] == "scheduled", a
    assert a.json["job"]["payload"] == {"a": 1}
    job = client.job(a.json["job_id"])
    assert (job["priority"], job["unique_key"], job["max_retries"]) == (
        "critical", "k", 5)
    assert job["tags"] == {"team": "red", "at": "10:30"}
    again = post(b"{}", "?unique_key=k")
    assert again.status == 200 and again.json["status"] == "duplicate"
    assert post(b"").json["job"]["payload"] == {}
    assert post(b"not json").json["job"]["payload"] == "not json"
    keyed = {"Idempotency-Key": f"k-{queue}"}
    first = post(b"1", headers=keyed)
    assert post(b"1", headers=keyed).json["job_id"] == first.json["job_id"]
    assert post(b"2", headers=keyed).status == 422
    for query, word in (("?max_retries=x", "max_retries"),
                        ("?max_retries=-1", "max_retries"),
                        ("?scheduled_at=soon", "scheduled_at"),
                        ("?tags=red", "tags"), ("?tags=a:1,a:2", "tags"),
                        ("?priority=low", "priority"),
                        (f"?unique_key={'k' * 300}", "unique_key")):
        refused(post(b"{}", query), 400, "VALIDATION_ERROR", word)
    refused(post(b'"' + b"x" * (256 << 10) + b'"'), 413, "PAYLOAD_TOO_LARGE")
    assert post(b"{}", "?unknown=1").headers["X-Corvo-Ignored"] == "?unknown"


# --- the configuration ---

def test_no_secret_is_ever_shown(client, queue, hook):
    made = put(client, hook, queue=queue, verify="github", secret=SECRET,
               previous_secret="old-" + SECRET)
    assert made["secrets"] == 2 and made["verify"] == "github"
    one = client.request("GET", f"{HOOKS}/{hook}")
    everything = client.request("GET", HOOKS)
    assert hook in [h["name"] for h in everything.json["hooks"]]
    events = client.request("GET", f"{API}/cluster/events?limit=1000")
    assert b"hook_set" in events.body
    errors = deliver(client, hook, b"{}", {"X-Hub-Signature-256": "sha256=0"})
    for a in (one, everything, events, errors):
        assert SECRET.encode() not in a.body, a
    # what is read can be written back, and the secrets stay
    again = put(client, hook, **{
        k: v for k, v in one.json.items() if k in ("queue", "verify")})
    assert again["secrets"] == 2
    assert again["created_at"] == made["created_at"]


@pytest.mark.parametrize("members, words", [
    ({}, "queue is required"),
    ({"queue": ".body["}, "queue: "),
    ({"queue": "q", "verify": "magic"}, "verify: must be one of none, token"),
    ({"queue": "q", "verify": "github"}, "secret: must be there"),
    ({"queue": "q", "secret": "s"}, "secret: verify has to say"),
    ({"queue": "q", "verify": "standard", "secret": "!"}, "secret: "),
    ({"queue": "q", "verify": "slack", "secret": "s", "tolerance": "25h"},
     "tolerance: "),
    ({"queue": "q", "tags": {"a": 1}}, "tags"),
    ({"queue": "q", "tags": []}, "tags"),
    ({"queue": "q", "payload": {"a": ".x |"}}, "payload: "),
    ({"queue": "q", "payload": {"a": "x" * 3000}}, "payload: "),
    ({"queue": "q", "unique_key": ".a b"}, "unique_key: "),
    ({"queue": "q", "delivery_id": "x"}, "delivery_id: "),
    ({"queue": "q", "max_retries": -1}, "max_retries"),
])
def test_what_cannot_be_set(client, hook, members, words):
    refused(client.request("PUT", f"{HOOKS}/{hook}", members), 400,
            "VALIDATION_ERROR", words)
    assert client.request("GET", f"{HOOKS}/{hook}").status == 404


def test_names(client, hook):
    refused(client.request("PUT", f"{HOOKS}/a%20b", {"queue": "q"}), 400,
            "VALIDATION_ERROR", "name: ")
    refused(deliver(client, hook, b"{}"), 404, "NOT_FOUND")
    refused(client.request("DELETE", f"{HOOKS}/{hook}"), 404, "NOT_FOUND")


def test_it_outlives_a_restart(make_node):
    node = make_node()
    node.start()
    with node.client() as c:
        put(c, "gh", queue="q", verify="github", secret=SECRET)
    node.stop()
    node.start()
    with node.client() as c:
        body = b"{}"
        taken(c, "gh", body, {
            "X-Hub-Signature-256": "sha256=" + hexmac(SECRET, body)})


def corvo(node, *words, **how):
    return subprocess.run([CORVO, *words, "--server",
                           f"http://127.0.0.1:{node.port}"], text=True,
                          capture_output=True, timeout=60, check=False, **how)


def test_the_command_line(node, client, queue, hook):
    p = corvo(node, "hooks", "set", hook, queue, "verify=token", "secret=-",
              'tags={"a":".body.a"}', input=SECRET + "\n")
    assert p.returncode == 0, p.stderr
    assert f"/api/v1/hooks/{hook}" in p.stdout
    taken(client, hook, b"{}", {"Authorization": f"Bearer {SECRET}"})
    listed = corvo(node, "hooks")
    assert hook in listed.stdout and SECRET not in listed.stdout
    assert json.loads(corvo(node, "hooks", "get", hook).stdout)["tags"] == {
        "a": ".body.a"}
    p = corvo(node, "hooks", "set", hook, queue, "secrets=3")
    assert p.returncode == 2 and "secrets" in p.stderr
    assert corvo(node, "hooks", "delete", hook).returncode == 0
    assert corvo(node, "hooks", "delete", hook).returncode == 1
