"""corvo-httpd alone: what it answers to whole requests.

httpd_fixture.py starts it with a raftd and a viewd of canned answers.
"""

import json

import pytest

from httpd_fixture import node, read_answer, is_closed, send


@pytest.fixture(scope="module")
def h():
    with node() as httpd:
        yield httpd


# --- the good cases -------------------------------------------------------


def test_enqueue(h):
    r = h.post("/enqueue", {"queue": "q", "payload": {"a": [1, 2]},
                            "max_retries": 5})
    body = r.json()
    assert r.status == 201
    assert body["job_id"].startswith("job_") and len(body["job_id"]) == 30
    assert body["status"] == "pending" and body["unique_existing"] is False
    assert body["job"]["id"] == body["job_id"]
    assert body["job"]["payload"] == {"a": [1, 2]}
    assert body["job"]["priority"] == "normal"
    assert body["job"]["max_retries"] == 5
    assert int(r.headers["X-Corvo-Index"]) > 100
    assert r.headers["Server-Timing"].startswith("proc;dur=")
    assert len(r.headers["Server-Timing"].split(".")[1]) == 3
    event = h.backend.wait("request", "enqueue", job_id=body["job_id"])[0]
    assert event["key"] == "q" and event["resend"] is False


def test_payload_is_kept_byte_for_byte(h):
    raw = '{ "z":1.0,  "a":[1e2,"\\u00e4"] , "z":2 }'
    r = h.post("/enqueue", '{"queue":"q","payload":' + raw + "}")
    assert raw.encode() in r.body


@pytest.mark.parametrize("path", ["/enqueue", "/enqueue/batch"])
def test_enqueue_batch(h, path):
    r = h.post(path, {"jobs": [{"queue": "a"}, {"queue": "b"}]})
    body = r.json()
    assert r.status == 201 and len(set(body["job_ids"])) == 2
    assert body["job_ids"] == sorted(body["job_ids"])
    assert body["jobs"] == [
        {"id": body["job_ids"][0], "queue": "a", "state": "pending"},
        {"id": body["job_ids"][1], "queue": "b", "state": "pending"}]


def test_jobs_inside_a_payload_is_no_batch(h):
    r = h.post("/enqueue", {"queue": "q", "payload": {"jobs": []}})
    assert "job_id" in r.json()


def test_fetch(h):
    r = h.post("/fetch", {"queues": ["jobs"], "worker_id": "w"})
    assert r.status == 200
    assert r.json() == {
        "job_id": "job_fetched", "queue": "jobs", "payload": {"n": 1},
        "priority": "high", "attempt": 1, "max_retries": 3,
        "lease_duration": 60, "lease_token": 7}
    event = h.backend.wait("request", "fetch", worker_id="w")[0]
    assert event["body"]["timeout"] == 30 and event["body"]["count"] == 1
    assert event["key"] == "jobs" and event["body"]["fetch_id"] > 0


def test_fetch_nothing(h):
    r = h.post("/fetch", {"queues": ["none"], "timeout": 0})
    assert r.status == 204 and r.body == b""
    r = h.post("/fetch/batch", {"queues": ["none"], "timeout": 0.05})
    assert r.status == 200 and r.json() == {"jobs": []}


@pytest.mark.parametrize("count,given", [(None, 1), (0, 1), (3, 3),
                                         (9999, 512)])
def test_fetch_batch_count(h, count, given):
    worker = f"asks-for-{count}"
    body = {"queues": ["jobs"], "timeout": 500, "worker_id": worker}
    if count is not None:
        body["count"] = count
    r = h.post("/fetch/batch", body)
    assert r.status == 200 and len(r.json()["jobs"]) == given
    event = h.backend.wait("request", "fetch", worker_id=worker)[0]
    assert event["body"]["timeout"] == 60


def test_fetch_is_woken(h):
    with h.connect() as s:
        send(s, "POST", "/api/v1/fetch", {"queues": ["wake"]})
        h.backend.wait("request", "fetch", queues=["wake"])
        assert h.post("/enqueue", {"queue": "wake"}).status == 201
        assert read_answer(s.makefile("rb"))[0] == 200


def test_simple_ops(h):
    for method, path, status in [
            ("POST", "/ack/job_1", "ok"),
            ("POST", "/jobs/job_1/cancel", "cancelled"),
            ("POST", "/jobs/job_1/retry", "retried"),
            ("DELETE", "/jobs/job_1", "deleted"),
            ("POST", "/queues/q/pause", "paused"),
            ("POST", "/queues/q/resume", "resumed")]:
        r = h.request(method, "/api/v1" + path)
        assert r.json() == {"status": status} and r.status == 200
        assert "X-Corvo-Index" in r.headers


def test_names_in_paths(h):
    for text, name in [("a%2Fb", "a/b"), ("%C3%A4", "ä"), ("a+b", "a+b"),
                       ("a%20b", "a b"), ("a%252Fb", "a%2Fb")]:
        assert h.post(f"/queues/{text}/pause").status == 200
        h.backend.wait("request", "pause", queue=name)


def test_heartbeat_map(h):
    r = h.post("/heartbeat", {"worker_id": "w1", "jobs": {
        "job_a": {"progress": 5, "lease_token": 3}, "job_b": None,
        "job_unknown": {}, "job_lost": {"checkpoint": {"x": 1}}}})
    body = r.json()
    assert body["jobs"]["job_a"]["status"] == "ok"
    assert body["jobs"]["job_a"]["lease_expires_at"].endswith("Z")
    assert body["jobs"]["job_lost"] == {"status": "cancel",
                                        "code": "LEASE_LOST"}
    assert body["acked"] == ["job_a", "job_b"]
    assert body["unknown"] == ["job_unknown"]
    assert body["canceled"] == ["job_lost"]
    event = h.backend.wait("request", "heartbeat", worker_id="w1")[0]
    assert event["body"]["jobs"][0] == {"job_id": "job_a", "progress": 5,
                                        "lease_token": 3}


def test_heartbeat_list(h):
    r = h.post("/heartbeat", {"worker_id": "w2", "jobs": [
        {"job_id": "job_a", "progress": '{"done": 1}', "checkpoint": "[1]"},
        {"job_id": "job_b", "progress": "half way"}]})
    assert r.json()["acked"] == ["job_a", "job_b"]
    jobs = h.backend.wait("request", "heartbeat",
                          worker_id="w2")[0]["body"]["jobs"]
    assert jobs[0]["progress"] == {"done": 1} and jobs[0]["checkpoint"] == [1]
    assert jobs[1]["progress"] == "half way"


@pytest.mark.parametrize("body", [None, {}, {"jobs": {}}, {"jobs": []}])
def test_heartbeat_of_nothing(h, body):
    assert h.post("/heartbeat", body).json() == {
        "jobs": {}, "acked": [], "unknown": [], "canceled": []}


def test_get_job(h):
    r = h.get("/jobs/job_x")
    assert r.status == 200 and r.json()["id"] == "job_x"
    assert r.json()["priority"] == "high"
    assert "X-Corvo-Index" not in r.headers


def test_compat_header(h):
    r = h.request("GET", "/api/v1/jobs/job_x", None,
                  {"X-Corvo-Compat": "0.3"})
    assert r.json()["priority"] == 1
    r = h.request("POST", "/api/v1/enqueue", {"queue": "q"},
                  {"x-corvo-compat": "0.3"})
    assert r.json()["job"]["priority"] == 2


def test_compat_setting():
    with node("--compat=0.3") as h:
        assert h.get("/jobs/job_x").json()["priority"] == 1


def test_view(h):
    assert h.get("/queues").json()[0]["name"] == "q"
    assert h.get("/workers").json() == []
    r = h.post("/jobs/search", {"queue": "some", "state": ["dead"]})
    assert r.json()["jobs"][0]["id"] == "job_found"
    assert r.json()["total"] == 1 and r.json()["has_more"] is False
    assert "view_lag_ms" not in r.json()
    assert h.post("/jobs/search", {"queue": "none"}).json()["jobs"] == []
    assert h.post("/jobs/search").status == 200


def test_view_lag_is_told(h):
    r = h.post("/jobs/search", {"queue": "lagging"})
    assert r.json()["view_lag_ms"] == 2
    assert r.headers["X-Corvo-View-Lag-Ms"] == "2"


def test_view_waits_for_own_writes(h):
    index = int(h.post("/enqueue", {"queue": "q"}).headers["X-Corvo-Index"])
    h.post("/jobs/search", {"queue": "own"})
    body = h.backend.wait("request", "search_jobs", queue="own")[0]["body"]
    assert body["min_seq"] == index and body["wait_ns"] == 200_000_000
    h.request("POST", "/api/v1/jobs/search", {"queue": "asked"},
              {"X-Corvo-Min-Index": "123456789"})
    h.backend.wait("request", "search_jobs", queue="asked",
                   min_seq=123456789)


@pytest.mark.parametrize("limit,given", [(None, 50), (1, 1), (1000, 1000)])
def test_search_limit(h, limit, given):
    body = {"queue": f"limit{limit}"}
    if limit is not None:
        body["limit"] = limit
    assert h.post("/jobs/search", body).status == 200
    h.backend.wait("request", "search_jobs", queue=body["queue"], limit=given)


def test_node(h):
    status = h.get("/cluster/status").json()
    assert status["mode"] == "cluster" and status["status"] == "healthy"
    assert status["applied_index"] == "42" and status["commit_index"] == "43"
    assert status["nodes"] == [{"id": "node-1", "address": "127.0.0.1:9400",
                                "voter": True, "role": "leader",
                                "alive": True, "self": True}]
    info = h.get("/info").json()
    assert info["server_version"] and info["api_version"]
    r = h.request("GET", "/healthz")
    assert r.json() == {"status": "ok", "raft_state": "Leader",
                        "leader": True}
    r = h.request("GET", "/readyz")
    assert r.status == 200 and r.json() == {"status": "ready"}


def test_openapi(h):
    doc = h.request("GET", "/openapi.json").json()
    assert doc["openapi"].startswith("3.")
    assert "/api/v1/enqueue" in doc["paths"]


def test_metrics(h):
    h.get("/no/such/path")
    r = h.get("/metrics")
    assert r.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    text = r.body.decode()
    assert 'corvo_raft_queue_time_seconds_bucket{le="0.001"} 5\n' in text
    assert 'corvo_queue_jobs{queue="a\\"b",state="dead"} 5\n' in text
    assert ('corvo_http_requests_total{method="POST",'
            'route="/api/v1/ack/{job_id}"}' in text)
    assert 'le="+Inf"' in text
    assert "corvo_http_request_duration_seconds_sum{" in text
    assert "corvo_http_requests_in_flight 1\n" in text
    assert "job_1" not in text and "no/such" not in text
    names = [line.split()[2] for line in text.splitlines()
             if line.startswith("# TYPE")]
    assert len(names) == len(set(names))


# --- refusals -------------------------------------------------------------

P = "PARSE_ERROR"
V = "VALIDATION_ERROR"
DEEP = "[" * 100 + "]" * 100


@pytest.mark.parametrize("path,body,code,word", [
    ("/enqueue", "", P, "byte 0"),
    ("/enqueue", "{", P, "byte 1"),
    ("/enqueue", '{"queue" "q"}', P, "':'"),
    ("/enqueue", '{"queue":"q"} x', P, "byte 14"),
    ("/enqueue", '{"queue":"q","queue":"r"}', P, "twice"),
    ("/enqueue", '{"queue":"q","x":1,"x":2}', P, "twice"),
    ("/enqueue", b'{"queue":"\xff"}', P, "byte 10"),
    ("/enqueue", '{"queue":"q","payload":%s}' % DEEP, P, "byte"),
    ("/enqueue", "null", V, "object"),
    ("/enqueue", "[]", V, "object"),
    ("/enqueue", "7", V, "object"),
    ("/enqueue", "{}", V, "queue"),
    ("/enqueue", '{"queue":""}', V, "queue"),
    ("/enqueue", '{"queue":7}', V, "queue"),
    ("/enqueue", '{"queue":"%s"}' % ("x" * 256), V, "queue"),
    ("/enqueue", '{"queue":"a\\u0001"}', V, "queue"),
    ("/enqueue", '{"queue":"q","max_retries":-1}', V, "max_retries"),
    ("/enqueue", '{"queue":"q","max_retries":"3"}', V, "max_retries"),
    ("/enqueue", '{"queue":"q","expire_after":"soon"}', V, "expire_after"),
    ("/enqueue", '{"queue":"q","scheduled_at":"now"}', V, "scheduled_at"),
    ("/enqueue/batch", "{}", V, "jobs"),
    ("/enqueue/batch", '{"jobs":[]}', V, "jobs"),
    ("/enqueue/batch", '{"jobs":{}}', V, "jobs"),
    ("/enqueue", '{"jobs":[{"queue":"q"},{}]}', V, "jobs[1].queue"),
    ("/fetch", "", P, "byte 0"),
    ("/fetch", "{}", V, "queues"),
    ("/fetch", '{"queues":[]}', V, "queues"),
    ("/fetch", '{"queues":"q"}', V, "queues"),
    ("/fetch", '{"queues":[7]}', V, "queues"),
    ("/fetch", '{"queues":["q"],"timeout":-1}', V, "timeout"),
    ("/fetch", '{"queues":["q"],"lease_duration":0}', V, "lease_duration"),
    ("/fetch", '{"queues":["q"],"lease_duration":86401}', V,
     "lease_duration"),
    ("/fetch/batch", '{"queues":["q"],"count":-1}', V, "count"),
    ("/fetch", json.dumps({"queues": ["q"] * 257}), V, "queues"),
    ("/ack/batch", "{}", V, "acks"),
    ("/ack/batch", '{"acks":[]}', V, "acks"),
    ("/ack/batch", '{"acks":[{}]}', V, "acks[0].job_id"),
    ("/ack/job_1", "{", P, "byte 1"),
    ("/ack/job_1", "[]", V, "object"),
    ("/ack/job_1", '{"lease_token":-1}', V, "lease_token"),
    ("/fail/job_1", '{"error":5}', V, "error"),
    ("/jobs/job_1/cancel", "what?", P, "byte 0"),
    ("/queues/q/pause", "[", P, "byte"),
    ("/heartbeat", '{"jobs":7}', V, "jobs"),
    ("/heartbeat", '{"jobs":{"a":7}}', V, "jobs.a"),
    ("/heartbeat", '{"jobs":{"a":{},"a":{}}}', P, "twice"),
    ("/heartbeat", '{"jobs":{},"jobs":{}}', P, "twice"),
    ("/heartbeat", '{"jobs":[{}]}', V, "job_id"),
    ("/heartbeat", '{"jobs":[{"job_id":"a"},{"job_id":"a"}]}', V, "twice"),
    ("/heartbeat", '{"jobs":{"a":{"lease_token":"x"}}}', V, "lease_token"),
    ("/jobs/search", '{"state":["dead","ded"]}', V, "retrying"),
    ("/jobs/search", '{"state":"dead"}', V, "state"),
    ("/jobs/search", '{"limit":-1}', V, "limit"),
    ("/jobs/search", '{"queue":5}', V, "queue"),
    ("/queues/%zz/pause", "", V, "queue"),
    ("/queues/%ff/pause", "", V, "queue"),
    ("/queues/a%00b/pause", "", V, "queue"),
    ("/queues/%20/pause", "", V, "queue"),
    ("/ack/" + "j" * 65, "", V, "job_id"),
])
def test_bad_request(h, path, body, code, word):
    r = h.post(path, body)
    assert r.error() == (400, code), r.body
    assert word in r.json()["error"], r.body


def test_bad_min_index(h):
    r = h.request("GET", "/api/v1/queues", None, {"X-Corvo-Min-Index": "x"})
    assert r.error() == (400, V)


def test_unknown_members_are_ignored_and_named(h):
    r = h.post("/enqueue", {"queue": "q", "what": [1], "max_retries": None,
                            "job_id": "mine"})
    assert r.status == 201 and r.json()["job_id"] != "mine"
    assert r.headers["X-Corvo-Ignored"] == "what, job_id"


@pytest.mark.parametrize("path", ["/", "/api/v1", "/api/v1/nope", "//",
                                  "/api/v1/enqueue/", "/api/v1/jobs//retry",
                                  "/api/v1/jobs/a/b/c/d/e/f/g/h/i/j", "*"])
def test_unknown_path(h, path):
    assert h.request("GET", path).error() == (404, "NOT_FOUND")


def test_wrong_method(h):
    r = h.request("GET", "/api/v1/enqueue")
    assert r.error() == (405, "METHOD_NOT_ALLOWED")
    assert r.headers["Allow"] == "POST, OPTIONS"
    r = h.request("PATCH", "/api/v1/jobs/job_x")
    assert r.headers["Allow"] == "GET, HEAD, DELETE, OPTIONS"
    r = h.request("BREW", "/api/v1/queues")
    assert r.error() == (405, "METHOD_NOT_ALLOWED")
    assert h.request("BREW", "/nope").error() == (404, "NOT_FOUND")


def test_head_and_options(h):
    r = h.request("HEAD", "/api/v1/info")
    assert r.status == 200 and r.body == b""
    assert int(r.headers["Content-Length"]) > 10
    r = h.request("OPTIONS", "/any/path")
    assert r.status == 200 and r.body == b""


def test_absolute_form(h):
    with h.connect() as s:
        s.sendall(b"GET http://localhost/api/v1/info HTTP/1.1\r\n"
                  b"Host: elsewhere\r\n\r\n")
        assert read_answer(s.makefile("rb"))[0] == 200
    with h.connect() as s:
        s.sendall(b"GET http://elsewhere/api/v1/info HTTP/1.1\r\n"
                  b"Host: localhost\r\n\r\n")
        assert read_answer(s.makefile("rb"))[0] == 421


@pytest.mark.parametrize("queue,status,code", [
    ("overload", 429, "OVERLOADED"),
    ("full", 503, "STORAGE_FULL"),
    ("noleader", 503, "LEADER_UNAVAILABLE"),
    ("garbage", 500, "BAD_MESSAGE"),
])
def test_refused_by_raftd(h, queue, status, code):
    r = h.post("/enqueue", {"queue": queue})
    assert r.error() == (status, code)
    if status in (429, 503):
        assert int(r.headers["Retry-After"]) >= 1
    assert ("retry_after_ms" in r.json()) == (status == 429)
    assert "X-Corvo-Index" not in r.headers or status == 500


def test_refusals_of_jobs(h):
    assert h.post("/ack/job_lost").error() == (409, "LEASE_LOST")
    r = h.post("/ack/job_missing")
    assert r.error() == (400, "ACK_ERROR")
    assert r.json()["error"] == "job job_missing not found"
    r = h.get("/jobs/job_missing")
    assert r.error() == (404, "NOT_FOUND")
    assert r.json()["error"] == "job job_missing not found"


def test_payload_limit(h):
    exact = '"' + "x" * (256 * 1024 - 2) + '"'
    r = h.post("/enqueue", '{"queue":"q","payload":%s}' % exact)
    assert r.status == 201
    r = h.post("/enqueue", '{"queue":"q","payload":%s }' % exact.replace(
        '"x', '"xx', 1))
    assert r.error() == (413, "PAYLOAD_TOO_LARGE")
    assert r.json()["error"] == (
        "payload too large: 262145 bytes (max 262144)")
    r = h.post("/enqueue/batch", {"jobs": [
        {"queue": "q"}, {"queue": "q", "payload": "x" * 262144}]})
    assert r.error() == (413, "PAYLOAD_TOO_LARGE")
    assert r.json()["error"].startswith("job 1 payload too large: 262146 b")


def test_large_body_within_the_limit(h):
    jobs = [{"queue": "q", "payload": "x" * 200_000} for _ in range(80)]
    r = h.post("/enqueue/batch", {"jobs": jobs})
    assert r.status == 201 and len(r.json()["job_ids"]) == 80


def test_announced_body_too_large(h):
    with h.connect() as s:
        s.sendall(b"POST /api/v1/enqueue HTTP/1.1\r\nHost: localhost\r\n"
                  b"Content-Length: 16777217\r\n\r\n")
        status, headers, body = read_answer(s.makefile("rb"))
        assert status == 413 and headers["connection"] == "close"
        assert json.loads(body)["code"] == "BODY_TOO_LARGE"
        assert is_closed(s)


def test_sent_body_too_large(h):
    """The answer can be read although the client sends on regardless."""
    r = h.post("/enqueue", b" " * (17 << 20))
    assert r.error() == (413, "BODY_TOO_LARGE")


def test_chunked_body_too_large(h):
    with h.connect() as s:
        s.sendall(b"POST /api/v1/enqueue HTTP/1.1\r\nHost: localhost\r\n"
                  b"Transfer-Encoding: chunked\r\n\r\n")
        chunk = b"100000\r\n" + b" " * (1 << 20) + b"\r\n"
        for _ in range(17):
            s.sendall(chunk)
        status, _, body = read_answer(s.makefile("rb"))
        assert status == 413
        assert json.loads(body)["code"] == "BODY_TOO_LARGE"


def test_long_uri(h):
    r = h.request("GET", "/api/v1/jobs/" + "x" * 5000)
    assert r.error() == (414, "URI_TOO_LONG")
    with h.connect() as s:
        s.sendall(b"GET /" + b"x" * 20000 + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        assert read_answer(s.makefile("rb"))[0] in (413, 414, 431)


def test_large_head(h):
    r = h.request("GET", "/api/v1/info", None, {"X-Large": "x" * 4000})
    assert r.status == 200
    with h.connect() as s:
        s.sendall(b"GET /api/v1/info HTTP/1.1\r\nX-Large: " + b"x" * 20000 +
                  b"\r\n\r\n")
        assert read_answer(s.makefile("rb"))[0] in (413, 431)
    assert h.get("/info").status == 200
