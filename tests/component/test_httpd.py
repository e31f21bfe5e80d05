"""corvo-httpd alone, with fake_backend in the place of raftd and viewd.

The fake's answers depend on queue and job names, and it writes every request
and cancel it sees as a line of JSON; see fake_backend.c.
"""

import contextlib
import http.client
import json
import os
import select
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest

BUILD = Path(os.environ.get("CORVO_BUILD_DIR", "/work/main/build/dev"))
HTTPD = BUILD / "corvo-httpd" / "corvo-httpd"
FAKE = BUILD / "tests" / "component" / "fake_backend"
PATIENCE = 20  # seconds until a condition counts as never met


def wait_until(condition, what):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        got = condition()
        if got:
            return got
        select.select([], [], [], 0.01)
    raise AssertionError("waited in vain for " + what)


class Backend:
    def __init__(self, run_dir):
        self.run_dir = run_dir
        self.events = []
        self.start()

    def start(self):
        self.proc = subprocess.Popen(
            [FAKE, self.run_dir], stdout=subprocess.PIPE, text=True)
        thread = threading.Thread(
            target=self._read, args=(self.proc.stdout,), daemon=True)
        thread.start()
        wait_until(lambda: self.seen("listening"), "the fake backend")

    def _read(self, stream):
        for line in stream:
            self.events.append(json.loads(line))

    def kill(self):
        self.proc.kill()
        self.proc.wait()

    def seen(self, event, name=None, **body):
        return [e for e in list(self.events) if e["event"] == event
                and (name is None or e["name"] == name)
                and all(e["body"].get(k) == v for k, v in body.items())]

    def wait(self, event, name=None, count=1, **body):
        return wait_until(
            lambda: len(self.seen(event, name, **body)) >= count
            and self.seen(event, name, **body),
            f"{count} x {event} {name} {body}, got {self.events[-5:]}")


class Httpd:
    def __init__(self, directory, *flags, env=None, pass_fds=()):
        self.port = 0
        self.dir = directory
        self.log = open(os.path.join(directory, "httpd.log"), "w+")
        run_dir = os.path.join(directory, "run")
        os.makedirs(run_dir, exist_ok=True)
        environ = dict(os.environ, **(env or {}))
        if not pass_fds:
            self.port = free_port()
        self.proc = subprocess.Popen(
            [HTTPD, f"--bind=127.0.0.1:{self.port or 1}",
             f"--data-dir={directory}", f"--run-dir={run_dir}", *flags],
            stderr=self.log, env=environ, pass_fds=pass_fds)

    def logged(self):
        with open(self.log.name) as f:
            return f.read()

    def wait_ready(self):
        wait_until(lambda: " ready " in self.logged() or self.proc.poll(),
                   "httpd")
        assert self.proc.poll() is None, self.logged()
        return self

    def stop(self):
        """Ends it gracefully; anything a sanitizer found fails the test."""
        if self.proc.poll() is None:
            self.proc.send_signal(signal.SIGTERM)
        code = self.proc.wait(PATIENCE)
        assert code == 0, self.logged()
        self.log.close()

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), PATIENCE)

    def request(self, method, path, body=None, headers=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port,
                                       timeout=PATIENCE)
        with contextlib.closing(c):
            if isinstance(body, (dict, list)):
                body = json.dumps(body)
            c.request(method, path, body, headers or {})
            return Response(c.getresponse())

    def post(self, path, body=None, **headers):
        return self.request("POST", "/api/v1" + path, body, headers)

    def get(self, path, **headers):
        return self.request("GET", "/api/v1" + path, None, headers)


class Response:
    def __init__(self, r):
        self.status = r.status
        self.headers = r.headers
        self.body = r.read()

    def json(self):
        assert self.headers["Content-Type"] == "application/json"
        assert self.body.endswith(b"\n")
        return json.loads(self.body)

    def error(self):
        body = self.json()
        assert isinstance(body["error"], str) and body["error"]
        return self.status, body["code"]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def read_answer(f):
    """One response from a socket file; None at the end."""
    line = f.readline()
    if not line:
        return None
    status = int(line.split()[1])
    headers = {}
    while (line := f.readline().strip()):
        name, value = line.split(b":", 1)
        headers[name.decode().lower()] = value.strip().decode()
    return status, headers, f.read(int(headers.get("content-length", 0)))


def is_closed(s, timeout=PATIENCE):
    s.settimeout(timeout)
    try:
        while s.recv(65536):
            pass
        return True
    except ConnectionResetError:
        return True


@contextlib.contextmanager
def node(*flags):
    with tempfile.TemporaryDirectory(prefix="corvo-httpd-") as directory:
        os.mkdir(os.path.join(directory, "run"))
        backend = Backend(os.path.join(directory, "run"))
        httpd = Httpd(directory, *flags)
        try:
            httpd.backend = backend
            yield httpd.wait_ready()
            httpd.stop()
        finally:
            if httpd.proc.poll() is None:
                httpd.proc.kill()
                httpd.proc.wait()
            backend.kill()


@pytest.fixture(scope="module")
def h():
    with node() as httpd:
        yield httpd


# --- the good cases ----------------------------------------------------------


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
    assert r.headers["Access-Control-Allow-Origin"] == "*"
    assert "PUT" in r.headers["Access-Control-Allow-Methods"]
    assert "X-API-Key" in r.headers["Access-Control-Allow-Headers"]
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
    body = {"queues": ["jobs"], "timeout": 500}
    if count is not None:
        body["count"] = count
    r = h.post("/fetch/batch", body)
    assert r.status == 200 and len(r.json()["jobs"]) == given
    assert h.backend.seen("request", "fetch")[-1]["body"]["timeout"] == 60


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


@pytest.mark.parametrize("limit,given", [(None, 50), (0, 50), (1, 1),
                                         (1000, 1000), (1001, 50)])
def test_search_limit(h, limit, given):
    body = {"queue": f"limit{limit}"}
    if limit is not None:
        body["limit"] = limit
    h.post("/jobs/search", body)
    h.backend.wait("request", "search_jobs", queue=body["queue"], limit=given)


def test_node(h):
    status = h.get("/cluster/status").json()
    assert status["mode"] == "cluster" and status["status"] == "healthy"
    assert status["applied_index"] == "42" and status["commit_index"] == "43"
    assert status["nodes"] == [{"id": "node-1", "address": "127.0.0.1:9400",
                                "voter": True, "role": "leader",
                                "self": True}]
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


# --- refusals -------------------------------------------------------------------

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


def test_unknown_members_and_nulls_are_ignored(h):
    r = h.post("/enqueue", {"queue": "q", "what": [1], "max_retries": None,
                            "job_id": "mine"})
    assert r.status == 201 and r.json()["job_id"] != "mine"


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
    assert r.headers["Access-Control-Allow-Origin"] == "*"


def test_absolute_form(h):
    with h.connect() as s:
        s.sendall(b"GET http://corvo/api/v1/info HTTP/1.1\r\nHost: x\r\n\r\n")
        assert read_answer(s.makefile("rb"))[0] == 200


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
        s.sendall(b"POST /api/v1/enqueue HTTP/1.1\r\nHost: x\r\n"
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
        s.sendall(b"POST /api/v1/enqueue HTTP/1.1\r\nHost: x\r\n"
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


# --- connections ----------------------------------------------------------------


def message(method, path, body=None, extra=""):
    data = json.dumps(body).encode() if body is not None else b""
    return (f"{method} {path} HTTP/1.1\r\nHost: x\r\n{extra}"
            f"Content-Length: {len(data)}\r\n\r\n").encode() + data


def send(s, method, path, body=None, extra=""):
    s.sendall(message(method, path, body, extra))


def test_keep_alive(h):
    with h.connect() as s:
        f = s.makefile("rb")
        for i in range(50):
            send(s, "POST", "/api/v1/enqueue", {"queue": "q", "payload": i})
            status, _, body = read_answer(f)
            assert status == 201
            assert json.loads(body)["job"]["payload"] == i


def test_pipelining(h):
    with h.connect() as s:
        f = s.makefile("rb")
        s.sendall(b"".join(
            message("POST", "/api/v1/enqueue", {"queue": "q", "payload": i})
            for i in range(100)))
        for i in range(100):
            status, _, body = read_answer(f)
            assert status == 201
            assert json.loads(body)["job"]["payload"] == i


def test_pipelined_behind_a_parked_fetch(h):
    with h.connect() as s:
        f = s.makefile("rb")
        s.sendall(message("POST", "/api/v1/fetch",
                          {"queues": ["none"], "timeout": 0.3}) +
                  message("GET", "/api/v1/info"))
        assert read_answer(f)[0] == 204
        assert read_answer(f)[0] == 200


def test_chunked_body(h):
    with h.connect() as s:
        s.sendall(b"POST /api/v1/enqueue HTTP/1.1\r\nHost: x\r\n"
                  b"Transfer-Encoding: chunked\r\n\r\n"
                  b"8\r\n{\"queue\"\r\n5\r\n:\"q\"}\r\n0\r\n\r\n")
        assert read_answer(s.makefile("rb"))[0] == 201


def test_expect_continue(h):
    with h.connect() as s:
        f = s.makefile("rb")
        body = b'{"queue":"q"}'
        s.sendall(b"POST /api/v1/enqueue HTTP/1.1\r\nHost: x\r\n"
                  b"Expect: 100-continue\r\n"
                  b"Content-Length: %d\r\n\r\n" % len(body))
        assert f.readline().split()[1] == b"100" and f.readline() == b"\r\n"
        s.sendall(body)
        assert read_answer(f)[0] == 201


def test_http_10_and_close(h):
    for version, extra in [("1.0", ""), ("1.1", "Connection: close\r\n")]:
        with h.connect() as s:
            s.sendall(f"GET /api/v1/info HTTP/{version}\r\nHost: x\r\n"
                      f"{extra}\r\n".encode())
            assert read_answer(s.makefile("rb"))[0] == 200
            assert is_closed(s)


def test_answers_are_not_delayed(h):
    """Two segments and a delayed acknowledgement would cost 40 ms each."""
    with h.connect() as s:
        f = s.makefile("rb")
        start = time.monotonic()
        for _ in range(50):
            send(s, "POST", "/api/v1/enqueue", {"queue": "q"})
            assert read_answer(f)[0] == 201
        assert time.monotonic() - start < 1


def test_not_http(h):
    for text in [b"\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00", b"GET\r\n\r\n",
                 b"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
                 b"POST / HTTP/1.1\r\nContent-Length: zz\r\n\r\n"]:
        with h.connect() as s:
            s.sendall(text)
            s.shutdown(socket.SHUT_WR)
            assert is_closed(s)
    assert h.get("/info").status == 200


def test_client_that_resets(h):
    for _ in range(20):
        s = h.connect()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                     struct.pack("ii", 1, 0))
        send(s, "POST", "/api/v1/enqueue", {"queue": "q"})
        s.close()
    assert h.get("/info").status == 200


def test_slow_clients():
    with node("--request-timeout=300ms", "--idle-timeout=600ms") as h:
        # a body that never comes, and one that drips
        for drip in (False, True):
            with h.connect() as s:
                s.sendall(b"POST /api/v1/enqueue HTTP/1.1\r\nHost: x\r\n"
                          b"Content-Length: 1000\r\n\r\n{")
                status, headers, body = drip_until_answer(s, drip)
                assert status == 408 and headers["connection"] == "close"
                assert json.loads(body)["code"] == "REQUEST_TIMEOUT"
        # a head that drips, also as the second request
        for first in (b"", message("GET", "/api/v1/info")):
            with h.connect() as s:
                s.sendall(first + b"GET /api/v1/info HTTP/1.1\r\nA")
                assert drip_until_closed(s)
        # a request line that drips, and nothing at all
        with h.connect() as s:
            assert drip_until_closed(s)
        with h.connect() as s:
            assert is_closed(s)
        # an idle connection
        with h.connect() as s:
            send(s, "GET", "/api/v1/info")
            assert read_answer(s.makefile("rb"))[0] == 200
            assert is_closed(s)
        # a fetch may wait longer than any of these
        r = h.post("/fetch", {"queues": ["none"], "timeout": 1.5})
        assert r.status == 204


def drip_until_answer(s, drip):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if select.select([s], [], [], 0.02)[0]:
            return read_answer(s.makefile("rb"))
        if drip:
            s.sendall(b" ")
    raise AssertionError("a dripping client is served for ever")


def drip_until_closed(s):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            s.sendall(b"a")
            if select.select([s], [], [], 0.02)[0] and not s.recv(65536):
                return True
        except (ConnectionResetError, BrokenPipeError):
            return True
    return False


# --- parked fetches ----------------------------------------------------------------


def test_lost_client_of_a_parked_fetch(h):
    cancels = len(h.backend.seen("cancel"))
    s = h.connect()
    send(s, "POST", "/api/v1/fetch", {"queues": ["lost"], "timeout": 30})
    h.backend.wait("request", "fetch", queues=["lost"])
    s.close()
    h.backend.wait("cancel", count=cancels + 1)
    # also when it goes after a while, and with a reset
    s = h.connect()
    send(s, "POST", "/api/v1/fetch/batch", {"queues": ["lost"]})
    h.backend.wait("request", "fetch", count=2, queues=["lost"])
    select.select([], [], [], 0.2)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()
    h.backend.wait("cancel", count=cancels + 2)


def memory_kb(pid):
    for line in open(f"/proc/{pid}/smaps_rollup"):
        if line.startswith("Pss:"):
            return int(line.split()[1])


def cpu_ticks(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def test_thousand_parked_fetches():
    with node() as h:
        before = memory_kb(h.proc.pid)
        socks = [h.connect() for _ in range(1000)]
        for s in socks:
            send(s, "POST", "/api/v1/fetch",
                 {"queues": ["many"], "timeout": 60})
        h.backend.wait("request", "fetch", count=1000, queues=["many"])
        assert h.post("/enqueue", {"queue": "many"}).status == 201
        ready, _, _ = select.select(socks, [], [], PATIENCE)
        assert len(ready) == 1
        used = memory_kb(h.proc.pid) - before
        if "asan" not in str(BUILD):
            assert used < 1000 * 64, f"{used} KB"
        ticks = cpu_ticks(h.proc.pid)
        select.select([], [], [], 1)
        assert cpu_ticks(h.proc.pid) - ticks <= 2
        for s in socks:
            s.close()
        h.backend.wait("cancel", count=999)


# --- backends that go away ------------------------------------------------------------


def test_requests_are_held_while_raftd_restarts():
    with node() as h:
        with h.connect() as before, h.connect() as during, \
                h.connect() as fetch:
            send(before, "POST", "/api/v1/enqueue", {"queue": "silent"})
            send(fetch, "POST", "/api/v1/fetch",
                 {"queues": ["none"], "timeout": 1})
            h.backend.wait("request", "enqueue", queue="silent")
            h.backend.wait("request", "fetch")
            h.backend.kill()
            send(during, "POST", "/api/v1/enqueue", {"queue": "held"})
            r = h.request("GET", "/healthz")
            assert r.status == 200 and r.json() == {"status": "ok"}
            r = h.request("GET", "/readyz")
            assert r.error() == (503, "LEADER_UNAVAILABLE")
            assert int(r.headers["Retry-After"]) >= 1
            assert h.get("/queues").error() == (503, "VIEW_UNAVAILABLE")
            assert "corvo_http" in h.get("/metrics").body.decode()
            h.backend.events.clear()
            h.backend.start()
            assert read_answer(during.makefile("rb"))[0] == 201
            assert h.backend.wait("request", "enqueue",
                                  queue="silent")[0]["resend"]
            assert not h.backend.wait("request", "enqueue",
                                      queue="held")[0]["resend"]
            assert read_answer(fetch.makefile("rb"))[0] == 204


def test_deadlines():
    with node("--op-timeout=300ms", "--view-wait=10ms") as h:
        r = h.post("/enqueue", {"queue": "silent"})
        assert r.error() == (503, "LEADER_UNAVAILABLE")
        assert int(r.headers["Retry-After"]) >= 1
        h.backend.kill()
        r = h.post("/enqueue", {"queue": "q"})
        assert r.error() == (503, "LEADER_UNAVAILABLE")
        r = h.post("/fetch", {"queues": ["q"], "timeout": 0.1})
        assert r.error() == (503, "LEADER_UNAVAILABLE")


def test_viewd_that_dies_during_a_question(h):
    with node() as own:
        with own.connect() as s:
            send(s, "POST", "/api/v1/jobs/search", {"queue": "silent"})
            own.backend.wait("request", "search_jobs", queue="silent")
            own.backend.kill()
            status, headers, body = read_answer(s.makefile("rb"))
            assert status == 503 and headers["retry-after"] == "1"
            assert json.loads(body)["code"] == "VIEW_UNAVAILABLE"


def test_not_ready_without_raftd():
    with tempfile.TemporaryDirectory(prefix="corvo-httpd-") as directory:
        h = Httpd(directory)
        wait_until(lambda: can_connect(h.port), "the port")
        assert h.request("GET", "/healthz").json() == {"status": "ok"}
        assert " ready " not in h.logged()
        backend = Backend(os.path.join(directory, "run"))
        h.wait_ready()
        h.stop()
        backend.kill()


def can_connect(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    except ConnectionRefusedError:
        return False


# --- start and stop ---------------------------------------------------------------------


def test_drain():
    with node() as h:
        with h.connect() as parked, h.connect() as idle, \
                h.connect() as batch, h.connect() as busy, \
                h.connect() as fresh:
            send(parked, "POST", "/api/v1/fetch", {"queues": ["none"]})
            send(batch, "POST", "/api/v1/fetch/batch", {"queues": ["none"]})
            send(idle, "GET", "/api/v1/info")
            assert read_answer(idle.makefile("rb"))[0] == 200
            busy.sendall(b"POST /api/v1/enqueue HTTP/1.1\r\nHost: x\r\n"
                         b"Content-Length: 13\r\n\r\n")
            h.backend.wait("request", "fetch", count=2)
            select.select([], [], [], 0.1)
            start = time.monotonic()
            h.proc.send_signal(signal.SIGTERM)
            assert is_closed(idle) and is_closed(fresh)
            f = parked.makefile("rb")
            status, headers, _ = read_answer(f)
            assert status == 204 and headers["connection"] == "close"
            status, headers, body = read_answer(batch.makefile("rb"))
            assert status == 200 and json.loads(body) == {"jobs": []}
            assert time.monotonic() - start < 1
            h.backend.wait("cancel", count=2)
            assert h.proc.poll() is None  # one request is still coming
            assert not can_connect(h.port)
            busy.sendall(b'{"queue":"q"}')
            status, headers, _ = read_answer(busy.makefile("rb"))
            assert status == 201 and headers["connection"] == "close"
            assert h.proc.wait(PATIENCE) == 0


def test_idle_drain_is_quick():
    with node() as h:
        with h.connect() as s:
            send(s, "GET", "/api/v1/info")
            assert read_answer(s.makefile("rb"))[0] == 200
            start = time.monotonic()
            h.proc.send_signal(signal.SIGTERM)
            assert h.proc.wait(PATIENCE) == 0
            assert time.monotonic() - start < 1.5


def test_inherited_socket_outlives_httpd():
    """Connections made while no httpd runs are served by the next one."""
    with tempfile.TemporaryDirectory(prefix="corvo-httpd-") as directory, \
            socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        os.mkdir(os.path.join(directory, "run"))
        backend = Backend(os.path.join(directory, "run"))
        env = {"CORVO_LISTEN_FD": str(listener.fileno())}
        for _ in range(2):
            h = Httpd(directory, env=env, pass_fds=[listener.fileno()])
            h.port = listener.getsockname()[1]
            h.wait_ready()
            assert h.get("/info").status == 200
            h.stop()
            waiting = h.connect()
            send(waiting, "GET", "/api/v1/info")
            h = Httpd(directory, env=env, pass_fds=[listener.fileno()])
            assert read_answer(waiting.makefile("rb"))[0] == 200
            waiting.close()
            h.proc.kill()
            h.proc.wait()
        backend.kill()


def test_systemd_socket():
    with tempfile.TemporaryDirectory(prefix="corvo-httpd-") as directory, \
            socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        script = ('import os,sys; os.dup2(int(sys.argv[1]), 3); '
                  'os.environ.update(LISTEN_FDS="1", '
                  'LISTEN_PID=str(os.getpid())); '
                  'os.execv(sys.argv[2], sys.argv[2:])')
        p = subprocess.Popen(
            ["/usr/bin/python3", "-c", script, str(listener.fileno()), HTTPD,
             f"--data-dir={directory}"],
            pass_fds=[listener.fileno()], stderr=subprocess.PIPE)
        address = listener.getsockname()
        listener.close()
        with socket.create_connection(address, PATIENCE) as s:
            send(s, "GET", "/healthz")
            assert read_answer(s.makefile("rb"))[0] == 200
        p.send_signal(signal.SIGTERM)
        assert p.wait(PATIENCE) == 0, p.stderr.read()
        p.stderr.close()


def failed_start(*flags, env=None):
    with tempfile.TemporaryDirectory(prefix="corvo-httpd-") as directory:
        p = subprocess.run(
            [HTTPD, f"--data-dir={directory}", *flags], capture_output=True,
            text=True, timeout=PATIENCE, env=dict(os.environ, **(env or {})))
        assert p.returncode == 1, p.stderr
        return p.stderr


def test_refused_starts():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen(1)
        text = failed_start(f"--bind=127.0.0.1:{s.getsockname()[1]}")
        assert "in use" in text
    assert "--open" in failed_start("--bind=0.0.0.0:18099")
    text = failed_start(env={"CORVO_LISTEN_FD": "0"})
    assert "does not listen" in text


def test_connection_limit():
    with node("--max-connections=10") as h:
        socks = [h.connect() for _ in range(10)]
        for s in socks:
            send(s, "GET", "/api/v1/info")
            assert read_answer(s.makefile("rb"))[0] == 200
        late = h.connect()
        send(late, "GET", "/api/v1/info")
        socks.pop().close()
        assert read_answer(late.makefile("rb"))[0] == 200
        late.close()
        for s in socks:
            s.close()
