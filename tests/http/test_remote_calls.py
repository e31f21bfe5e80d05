"""Remote calls over HTTP/1.1: every unary method, in every form."""

import gzip
import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from node import API, wait_until
from remote import SERVICE, CallError, Connect, GrpcWeb, envelope, make

FORMS = {
    "proto": lambda c: Connect(c),
    "json": lambda c: Connect(c, is_json=True),
    "packed": lambda c: Connect(c, packed=True),
    "web": lambda c: GrpcWeb(c),
    "web-json": lambda c: GrpcWeb(c, is_json=True),
    "web-text": lambda c: GrpcWeb(c, is_text=True),
    "web-packed": lambda c: GrpcWeb(c, packed=True),
}


@pytest.fixture(params=sorted(FORMS))
def remote(request, client):
    return FORMS[request.param](client)


@pytest.fixture
def connect(client):
    return Connect(client)


def refused(fn, *args, **named):
    with pytest.raises(CallError) as e:
        fn(*args, **named)
    return e.value


def fetch(remote, queue, **fields):
    return remote.call("Fetch", make("FetchRequest", queues=[queue],
                                     worker_id="w", wait_ms=0, **fields))


def test_the_life_of_a_job_in_every_form(remote, client, queue):
    made = remote.call("Enqueue", make(
        "EnqueueRequest", queue=queue, payload_json='{"n": 1, "é": "😀"}',
        priority="high", tags_json='{"a": "b"}'))
    assert made.status == "pending" and not made.unique_existing
    job = fetch(remote, queue, lease_duration=30)
    assert (job.found, job.job_id) == (True, made.job_id)
    assert job.payload_json == '{"n": 1, "é": "😀"}'
    assert (job.attempt, job.lease_duration, job.priority) == (1, 30, "high")
    assert json.loads(job.tags_json) == {"a": "b"}
    beat = remote.call("Heartbeat", make(
        "HeartbeatRequest", jobs={job.job_id: make(
            "HeartbeatJobUpdate", progress_json='{"done": 5}',
            lease_token=job.lease_token)}))
    assert beat.jobs[job.job_id].status == "ok"
    failed = remote.call("Fail", make(
        "FailRequest", job_id=job.job_id, error="no", retry_after_ms=0,
        lease_token=job.lease_token))
    assert (failed.status, failed.attempts_remaining) == ("retrying", 2)
    job = remote.call("Fetch", make("FetchRequest", queues=[queue],
                                    worker_id="w", wait_ms=20000))
    assert (job.attempt, job.job_id) == (2, made.job_id)
    remote.call("Ack", make("AckRequest", job_id=job.job_id,
                            result_json='{"ok": true}',
                            lease_token=job.lease_token))
    seen = client.job(made.job_id)
    assert (seen["state"], seen["result"]) == ("completed", {"ok": True})
    assert seen["progress"] == {"done": 5}
    assert not fetch(remote, queue).found


def test_batches_in_every_form(remote, queue):
    for i in range(3):
        remote.call("Enqueue", make("EnqueueRequest", queue=queue,
                                    payload_json=json.dumps("x" * 2000)))
    got = remote.call("FetchBatch", make(
        "FetchBatchRequest", queues=[queue], count=5, wait_ms=0))
    assert len(got.jobs) == 3
    assert got.jobs[0].payload_json == json.dumps("x" * 2000)
    items = [make("AckBatchItem", job_id=j.job_id, lease_token=j.lease_token)
             for j in got.jobs]
    items[2].lease_token += 1
    acked = remote.call("AckBatch", make("AckBatchRequest", items=items))
    assert acked.acked == 2
    assert [(r.job_id, r.code) for r in acked.refused] == [
        (got.jobs[2].job_id, "LEASE_LOST")]


def test_errors_in_every_form(remote, queue):
    e = refused(remote.call, "Enqueue", make("EnqueueRequest"))
    assert (e.code, e.message) == ("invalid_argument", "queue is required")
    e = refused(remote.call, "AckBatch", make("AckBatchRequest"))
    assert (e.code, e.message) == ("invalid_argument", "items is required")
    e = refused(remote.call, "Ack", make("AckRequest", job_id="job_none"))
    assert e.code == "not_found"
    made = remote.call("Enqueue", make("EnqueueRequest", queue=queue))
    e = refused(remote.call, "Ack", make("AckRequest", job_id=made.job_id))
    assert e.code == "failed_precondition"
    job = fetch(remote, queue)
    e = refused(remote.call, "Ack", make("AckRequest", job_id=job.job_id,
                                         lease_token=job.lease_token + 1))
    assert e.code == "aborted"


def test_the_limits_are_those_of_http(connect, queue):
    e = refused(connect.call, "Enqueue", make(
        "EnqueueRequest", queue=queue,
        payload_json=json.dumps("x" * (256 << 10))))
    assert e.code == "invalid_argument" and "payload too large" in e.message
    e = refused(connect.call, "Enqueue", make(
        "EnqueueRequest", queue=queue, payload_json="{no"))
    assert e.code == "invalid_argument"
    assert e.message.startswith("payload_json: must be JSON; at byte 1")
    e = refused(connect.call, "FetchBatch", make(
        "FetchBatchRequest", queues=[queue], count=-1))
    assert e.message == "count: must not be negative"
    assert b"VALIDATION_ERROR" in e.details["google.rpc.ErrorInfo"]


def test_server_info_and_health(client, connect):
    info = connect.call("GetServerInfo", make("GetServerInfoRequest"))
    assert info.server_version == \
        client.get(f"{API}/info").json["server_version"]
    headers = {"Content-Type": "application/json"}
    a = client.post("/grpc.health.v1.Health/Check", {}, headers)
    assert (a.status, a.json) == (200, {"status": "SERVING"})
    a = client.post("/grpc.health.v1.Health/Check",
                    {"service": "corvo.v1.WorkerService"}, headers)
    assert a.json == {"status": "SERVING"}
    a = client.post("/grpc.health.v1.Health/Check", {"service": "x"}, headers)
    assert (a.status, a.code) == (404, "not_found")


def test_a_duplicate_says_so(connect, queue):
    ask = make("EnqueueRequest", queue=queue, unique_key="k")
    first = connect.call("Enqueue", ask)
    again = connect.call("Enqueue", ask)
    assert again.job_id == first.job_id
    assert (again.status, again.unique_existing) == ("duplicate", True)


def test_an_idempotency_key_is_metadata(connect, queue):
    ask = make("EnqueueRequest", queue=queue)
    first = connect.call("Enqueue", ask, {"Idempotency-Key": queue})
    again = connect.call("Enqueue", ask, {"Idempotency-Key": queue})
    assert again.job_id == first.job_id
    assert again.replayed and not first.replayed


def test_what_is_ignored_is_named(connect, queue):
    job_id = connect.call("Enqueue", make("EnqueueRequest",
                                          queue=queue)).job_id
    ask = make("HeartbeatRequest")
    ask.jobs[job_id].stream_delta = "x"
    connect.call("Heartbeat", ask)
    path = "jobs[0].stream_delta"
    assert connect.answer.headers["X-Corvo-Ignored"] == path
    e = refused(connect.call, "Heartbeat", ask, {"X-Corvo-Strict": "1"})
    assert (e.code, e.message) == (
        "invalid_argument",
        f"{path}: would be ignored, and the request is strict")


def test_an_agent_by_a_call(connect, client, queue):
    ask = make("EnqueueRequest", queue=queue)
    ask.agent.max_iterations = 1
    ask.agent.iteration_timeout = "soon"
    e = refused(connect.call, "Enqueue", ask)
    assert e.message.startswith("agent.iteration_timeout: must be a duration")
    ask.agent.iteration_timeout = "90s"
    job_id = connect.call("Enqueue", ask).job_id
    got = connect.call("Fetch", make("FetchRequest", queues=[queue]))
    assert got.agent.iteration_timeout == "1m30s"
    connect.call("Ack", make("AckRequest", job_id=job_id,
                             agent_status="continue", trace_json="[1]"))
    assert client.job(job_id)["hold_reason"] == "max_iterations exceeded (1)"
    a = client.get(f"{API}/jobs/{job_id}/iterations").json
    assert a["iterations"][0]["trace"] == [1]


# --- deadlines ---


WAITS = [(1000, 30000, 750), (2000, 30000, 1500), (5000, 2000, 2000),
         (12000, 3000, 3000)]


@pytest.mark.parametrize("method", ["Fetch", "FetchBatch"])
@pytest.mark.parametrize("deadline, wait, expected", WAITS)
def test_a_fetch_waits_also_with_a_deadline(connect, queue, method, deadline,
                                            wait, expected):
    """As long as it says, or until shortly before the deadline."""
    start = time.monotonic()
    try:
        got = connect.call(method, make(method + "Request", queues=[queue],
                                        wait_ms=wait),
                           {"Connect-Timeout-Ms": str(deadline)})
        assert not got.ListFields()
    except CallError as e:  # a busy machine
        assert e.code == "deadline_exceeded"
    assert time.monotonic() - start >= expected / 1000


def test_a_job_that_comes_before_the_deadline_is_handed_out(
        node, client, queue):
    with ThreadPoolExecutor() as pool, node.client() as worker:
        asked = pool.submit(
            Connect(worker).call, "Fetch",
            make("FetchRequest", queues=[queue], wait_ms=30000),
            {"Connect-Timeout-Ms": "9999"})
        wait_until(lambda: client.parked() == 1, 9, "the fetch to wait")
        job_id = Connect(client).call(
            "Enqueue", make("EnqueueRequest", queue=queue)).job_id
        assert asked.result().job_id == job_id


@pytest.mark.parametrize("form,header", [
    ("proto", {"Connect-Timeout-Ms": "2000"}),
    ("web", {"Grpc-Timeout": "2000m"})])
def test_a_fetch_is_answered_before_its_deadline(client, queue, form, header):
    def is_answered():
        try:
            job = FORMS[form](client).call(
                "Fetch", make("FetchRequest", queues=[queue]), header)
        except CallError as e:  # a busy machine
            assert e.code == "deadline_exceeded"
            return False
        assert not job.found
        return True
    wait_until(is_answered, 20, "the answer")


def test_a_deadline_that_is_over(connect, queue):
    e = refused(connect.call, "Enqueue", make("EnqueueRequest", queue=queue),
                {"Connect-Timeout-Ms": "0"})
    assert (e.code, e.status) == ("deadline_exceeded", 504)
    assert not fetch(connect, queue).found


def test_bad_deadlines(client):
    ask = make("GetServerInfoRequest")
    e = refused(Connect(client).call, "GetServerInfo", ask,
                {"Connect-Timeout-Ms": "soon"})
    assert e.code == "invalid_argument"
    e = refused(GrpcWeb(client).call, "GetServerInfo", ask,
                {"Grpc-Timeout": "5"})
    assert e.code == "invalid_argument"


# --- requests that are none ---


def test_unknown_methods(remote):
    from remote import messages
    messages()["NoneResponse"] = messages()["AckResponse"]
    e = refused(remote.call, "None", make("AckRequest"))
    assert e.code == "unimplemented"


@pytest.mark.parametrize("content", [
    "text/plain", "application/x-www-form-urlencoded", "application/octet",
    "application/connect+proto"])
def test_unknown_content_types(client, content):
    a = client.post(SERVICE + "Ack", b"", {"Content-Type": content})
    assert a.status == 415
    assert "application/proto" in a.headers["Accept-Post"]


def test_only_post(client):
    a = client.get(SERVICE + "GetServerInfo")
    assert (a.status, a.code) == (405, "METHOD_NOT_ALLOWED")
    assert a.headers["Allow"] == "POST, OPTIONS"


def test_grpc_needs_http_2(client):
    a = client.post(SERVICE + "Ack", envelope(0, b""),
                    {"Content-Type": "application/grpc"})
    assert (a.status, a.code) == (505, "HTTP_VERSION")


@pytest.mark.parametrize("body,headers", [
    (b"\xff\xff", {}),
    (b"\x0a\xff\xff\xff\xff\x0f", {}),
    (b"no gzip", {"Content-Encoding": "gzip"}),
    (gzip.compress(b"\x0a\x01j")[:-3], {"Content-Encoding": "gzip"}),
])
def test_bad_bodies_of_connect(client, body, headers):
    a = client.post(SERVICE + "Ack", body, {
        "Content-Type": "application/proto", **headers})
    assert (a.status, a.code) == (400, "invalid_argument")


@pytest.mark.parametrize("body", [
    b"", b"\0\0\0\0", envelope(0, b"\x0a\x01j") + b"\0",
    envelope(0, b"") * 2, envelope(1, b"x"), envelope(4, b""),
    envelope(128, b"")])
def test_bad_bodies_of_grpc_web(client, body):
    a = client.post(SERVICE + "Ack", body, {
        "Content-Type": "application/grpc-web+proto"})
    with pytest.raises(CallError) as e:
        GrpcWeb.check(a.body[5:].decode())
    assert e.value.code == "invalid_argument"


def test_other_codings_are_not_served(client):
    a = client.post(SERVICE + "Ack", b"", {
        "Content-Type": "application/proto", "Content-Encoding": "br"})
    assert (a.status, a.code) == (501, "unimplemented")


def test_a_bomb_is_refused(client):
    bomb = gzip.compress(b"\0" * (64 << 20))
    assert len(bomb) < 100 << 10
    a = client.post(SERVICE + "Ack", bomb, {
        "Content-Type": "application/proto", "Content-Encoding": "gzip"})
    assert (a.status, a.code) == (429, "resource_exhausted")


def test_bad_json(client):
    a = client.post(SERVICE + "Ack", "{]",
                    {"Content-Type": "application/json"})
    assert (a.status, a.code) == (400, "invalid_argument")
    assert a.json["message"].startswith("invalid JSON at byte 1")
