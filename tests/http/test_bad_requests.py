"""Requests that must be refused, each with a status, a code and a reason.

One table. Each row is sent as raw bytes on a connection of its own; after the
whole table the node still works and nothing was created or changed by it.

In paths and bodies @PENDING@, @ACTIVE@, @DONE@, @DEAD@ stand for the ids of
jobs in those states.
"""

import http.client
import json
import re
import socket
from contextlib import suppress

import pytest

from bad_rows import ROWS
from node import API, Client

PAYLOAD_MAX = 256 * 1024
BODY_MAX = 16 << 20

E = f"{API}/enqueue"
B = f"{API}/enqueue/batch"
F = f"{API}/fetch"
FB = f"{API}/fetch/batch"
S = f"{API}/jobs/search"
H = f"{API}/heartbeat"
AB = f"{API}/ack/batch"
ACK = f"{API}/ack/@ACTIVE@"
FAIL = f"{API}/fail/@ACTIVE@"
NO_JOB = "job_00000000000000000000000000"

PARSE = (400, "PARSE_ERROR")
WRONG = (400, "VALIDATION_ERROR")
GONE = (404, "NOT_FOUND")
METHOD = (405, "METHOD_NOT_ALLOWED")
LOST = (409, "LEASE_LOST")
PAYLOAD = (413, "PAYLOAD_TOO_LARGE")
BODY = (413, "BODY_TOO_LARGE")


def job(**members):
    return {"queue": "bad", **members}


def nested(depth):
    return b'{"queue":"bad","payload":' + b"[" * depth + b"]" * depth + b"}"


def raw(body):
    if isinstance(body, bytes):
        return body
    return json.dumps(body, ensure_ascii=False).encode()


# (what, method, path, body, (status, code), fragment of the text)
# A body that is no bytes is sent as JSON.
TABLE = [
    # --- routes and methods
    ("unknown route", "GET", "/api/v1/nothing", b"", GONE, "openapi.json"),
    ("root", "GET", "/", b"", GONE, "path"),
    ("route with one slash more", "POST", E + "/", b"{}", GONE, "path"),
    ("route with an empty segment", "GET", "//api/v1/queues", b"", GONE, ""),
    ("job without an id", "GET", f"{API}/jobs/", b"", GONE, "path"),
    ("other case", "GET", "/API/V1/QUEUES", b"", GONE, "path"),
    ("path of dots", "GET", "/api/v1/../v1/queues", b"", GONE, "path"),
    ("GET of enqueue", "GET", E, b"", METHOD, "Allow"),
    ("PUT of enqueue", "PUT", E, b"{}", METHOD, "Allow"),
    ("DELETE of queues", "DELETE", f"{API}/queues", b"", METHOD, "Allow"),
    ("POST of healthz", "POST", "/healthz", b"{}", METHOD, "Allow"),
    ("PATCH of a job", "PATCH", f"{API}/jobs/@PENDING@", b"{}", METHOD,
     "Allow"),
    ("GET of pause", "GET", f"{API}/queues/bad/pause", b"", METHOD, "Allow"),
    ("GET of ack", "GET", ACK, b"", METHOD, "Allow"),
    ("invented method", "BREW", E, b"{}", METHOD, "Allow"),
    ("very long path", "GET", "/api/v1/jobs/" + "a" * 5000, b"",
     (414, "URI_TOO_LONG"), ""),

    # --- text that is no JSON
    ("no body", "POST", E, b"", PARSE, "byte 0"),
    ("white space only", "POST", E, b" \n\t ", PARSE, "byte"),
    ("no JSON at all", "POST", E, b"queue=bad", PARSE, "byte 0"),
    ("truncated object", "POST", E, b'{"queue":"bad"', PARSE, "byte 14"),
    ("truncated string", "POST", E, b'{"queue":"ba', PARSE, "byte"),
    ("trailing bytes", "POST", E, b'{"queue":"bad"}x', PARSE, "byte 15"),
    ("two values", "POST", E, b'{"queue":"bad"}{"queue":"bad"}', PARSE,
     "byte 15"),
    ("trailing comma", "POST", E, b'{"queue":"bad",}', PARSE, "byte 15"),
    ("single quotes", "POST", E, b"{'queue':'bad'}", PARSE, "byte 1"),
    ("bare member name", "POST", E, b'{queue:"bad"}', PARSE, "byte 1"),
    ("comment", "POST", E, b'{"queue":"bad" /* why */}', PARSE, "byte 15"),
    ("NaN", "POST", E, b'{"queue":"bad","retry_jitter":NaN}', PARSE, "byte 30"),
    ("leading zero", "POST", E, b'{"queue":"bad","max_retries":01}', PARSE,
     "byte"),
    ("plus sign", "POST", E, b'{"queue":"bad","max_retries":+1}', PARSE,
     "byte 29"),
    ("control byte in a string", "POST", E, b'{"queue":"b\nad"}', PARSE,
     "byte 11"),
    ("zero byte", "POST", E, b'{"queue":"bad\x00"}', PARSE, "byte 13"),
    ("byte order mark", "POST", E, b'\xef\xbb\xbf{"queue":"bad"}', PARSE,
     "byte 0"),
    ("malformed UTF-8 in a name", "POST", E, b'{"queue":"b\xffad"}', PARSE,
     "byte 11"),
    ("malformed UTF-8 in a payload", "POST", E,
     b'{"queue":"bad","payload":"\xc3\x28"}', PARSE, "byte"),
    ("overlong UTF-8", "POST", E, b'{"queue":"bad","payload":"\xc0\xaf"}',
     PARSE, "byte"),
    ("lone surrogate", "POST", E, b'{"queue":"bad","payload":"\\ud800"}',
     PARSE, "byte"),
    ("unknown escape", "POST", E, b'{"queue":"bad","payload":"\\q"}', PARSE,
     "byte"),
    ("too deep", "POST", E, nested(65), PARSE, "byte"),
    ("much too deep", "POST", E, nested(100000), PARSE, "byte"),
    ("never closed", "POST", E, b"[" * 1000000, PARSE, "byte"),
    ("member twice", "POST", E, b'{"queue":"bad","queue":"worse"}', PARSE,
     "queue"),
    ("member twice, once escaped", "POST", E,
     b'{"queue":"bad","\\u0071ueue":"worse"}', PARSE, "twice"),
    ("unknown member twice", "POST", E, b'{"queue":"bad","x":1,"x":2}', PARSE,
     "x"),
    ("member twice in a batch", "POST", B,
     b'{"jobs":[{"queue":"bad","queue":"bad"}]}', PARSE, "jobs[0]"),
    ("jobs twice", "POST", E, b'{"jobs":[{"queue":"bad"}],"jobs":[]}', PARSE,
     "jobs"),
    ("malformed ack", "POST", ACK, b"{", PARSE, "byte 1"),
    ("malformed fail", "POST", FAIL, b'{"error":', PARSE, "byte"),
    ("malformed search", "POST", S, b"[", PARSE, "byte"),
    ("malformed heartbeat", "POST", H, b'{"jobs":{"a":}}', PARSE, "byte"),
    ("malformed pause", "POST", f"{API}/queues/bad/pause", b"{", PARSE, "byte"),

    # --- JSON of the wrong shape
    ("array for an object", "POST", E, [], WRONG, "object"),
    ("null for an object", "POST", E, b"null", WRONG, "object"),
    ("number for an object", "POST", E, b"17", WRONG, "object"),
    ("string for an object", "POST", F, b'"bad"', WRONG, "object"),
    ("queue missing", "POST", E, {}, WRONG, "queue is required"),
    ("queue null", "POST", E, {"queue": None}, WRONG, "queue is required"),
    ("queue empty", "POST", E, {"queue": ""}, WRONG, "queue is required"),
    ("queue a number", "POST", E, {"queue": 5}, WRONG, "queue"),
    ("queue an array", "POST", E, {"queue": ["bad"]}, WRONG, "queue"),
    ("queue too long", "POST", E, {"queue": "q" * 256}, WRONG, "255"),
    ("queue too long in UTF-8", "POST", E, {"queue": "ü" * 128}, WRONG, "255"),
    ("queue with a newline", "POST", E, {"queue": "a\nb"}, WRONG, "control"),
    ("queue with a zero", "POST", E, {"queue": "a\0b"}, WRONG, "control"),
    ("queue with DEL", "POST", E, {"queue": "a\x7fb"}, WRONG, "control"),
    ("queue with C1 control", "POST", E, {"queue": "a\x85b"}, WRONG, "control"),
    ("queue starts with a space", "POST", E, {"queue": " bad"}, WRONG, "space"),
    ("queue ends with a space", "POST", E, {"queue": "bad "}, WRONG, "space"),
    ("priority a number", "POST", E, job(priority=1), WRONG, "priority"),
    ("max_retries a text", "POST", E, job(max_retries="3"), WRONG,
     "max_retries"),
    ("max_retries negative", "POST", E, job(max_retries=-1), WRONG,
     "max_retries"),
    ("max_retries a fraction", "POST", E, job(max_retries=1.5), WRONG,
     "max_retries"),
    ("max_retries too large", "POST", E, job(max_retries=1000001), WRONG,
     "1000000"),
    ("max_retries out of range", "POST", E, job(max_retries=2**70), WRONG,
     "max_retries"),
    ("max_retries true", "POST", E, job(max_retries=True), WRONG,
     "max_retries"),
    ("retry_backoff a number", "POST", E, job(retry_backoff=2), WRONG,
     "retry_backoff"),
    ("delay unreadable", "POST", E, job(retry_base_delay="soon"), WRONG,
     "retry_base_delay"),
    ("delay without a unit", "POST", E, job(retry_base_delay="5"), WRONG,
     "retry_base_delay"),
    ("delay negative text", "POST", E, job(retry_max_delay="-5s"), WRONG,
     "retry_max_delay"),
    ("delay negative number", "POST", E, job(retry_max_delay=-5), WRONG,
     "retry_max_delay"),
    ("delay negative ms", "POST", E, job(retry_max_delay_ms=-5), WRONG,
     "retry_max_delay_ms"),
    ("delay ms a text", "POST", E, job(retry_max_delay_ms="5s"), WRONG,
     "retry_max_delay_ms"),
    ("delay an object", "POST", E, job(retry_max_delay={}), WRONG,
     "retry_max_delay"),
    ("delay too long", "POST", E, job(retry_max_delay="9999999h"), WRONG,
     "retry_max_delay"),
    ("two delays that differ", "POST", E,
     job(retry_base_delay="5s", retry_base_delay_ms=6000), WRONG,
     "retry_base_delay"),
    ("jitter too large", "POST", E, job(retry_jitter=1.5), WRONG,
     "retry_jitter"),
    ("jitter negative", "POST", E, job(retry_jitter=-0.1), WRONG,
     "retry_jitter"),
    ("time unreadable", "POST", E, job(scheduled_at="tomorrow"), WRONG,
     "scheduled_at"),
    ("time of no such day", "POST", E, job(scheduled_at="2026-02-30T00:00:00Z"),
     WRONG, "scheduled_at"),
    ("time without a zone", "POST", E, job(scheduled_at="2026-02-11T10:00:00"),
     WRONG, "scheduled_at"),
    ("time a number", "POST", E, job(scheduled_at=1771000000), WRONG,
     "scheduled_at"),
    ("expiry unreadable", "POST", E, job(expire_after="1 hour"), WRONG,
     "expire_after"),
    ("expiry negative", "POST", E, job(expire_after=-1), WRONG,
     "expire_after"),
    ("tags an array", "POST", E, job(tags=["a"]), WRONG, "tags"),
    ("tags too large", "POST", E, job(tags={"a": "x" * 17000}), WRONG, "tags"),
    ("checkpoint too large", "POST", E, job(checkpoint="x" * (1 << 20)), WRONG,
     "checkpoint"),
    ("parent_id a number", "POST", E, job(parent_id=7), WRONG, "parent_id"),
    ("parent_id too long", "POST", E, job(parent_id="j" * 65), WRONG,
     "parent_id"),
    ("payload too large", "POST", E, job(payload="x" * (PAYLOAD_MAX - 1)),
     PAYLOAD, "262145 bytes (max 262144)"),
    ("body too large", "POST", E, job(payload="x" * (BODY_MAX + 1)), BODY,
     "16 MiB"),

    # --- batches
    ("batch without jobs", "POST", B, {}, WRONG, "jobs"),
    ("batch of none", "POST", B, {"jobs": []}, WRONG, "jobs"),
    ("batch by enqueue of none", "POST", E, {"jobs": []}, WRONG, "jobs"),
    ("jobs an object", "POST", B, {"jobs": {"queue": "bad"}}, WRONG, "jobs"),
    ("job of a batch a text", "POST", B, {"jobs": ["bad"]}, WRONG, "jobs[0]"),
    ("second job without a queue", "POST", B, {"jobs": [job(), {}]}, WRONG,
     "jobs[1].queue"),
    ("last job with a bad number", "POST", B,
     {"jobs": [job()] * 9 + [job(max_retries=-1)]}, WRONG, "jobs[9]"),
    ("too many jobs", "POST", B, {"jobs": [job()] * 10001}, WRONG, "10000"),
    ("payload of the second job too large", "POST", B,
     {"jobs": [job(), job(payload="x" * PAYLOAD_MAX)]}, PAYLOAD, "job 1"),

    # --- fetch
    ("fetch without queues", "POST", F, {}, WRONG, "queues"),
    ("fetch of no queues", "POST", F, {"queues": []}, WRONG, "queues"),
    ("fetch with no body", "POST", F, b"", PARSE, "byte 0"),
    ("queues a text", "POST", F, {"queues": "bad"}, WRONG, "queues"),
    ("queues of numbers", "POST", F, {"queues": [1]}, WRONG, "queues[0]"),
    ("a queue empty", "POST", F, {"queues": ["bad", ""]}, WRONG, "queues[1]"),
    ("a queue too long", "POST", F, {"queues": ["q" * 256]}, WRONG,
     "queues[0]"),
    ("too many queues", "POST", F, {"queues": [f"q{i}" for i in range(257)]},
     WRONG, "256"),
    ("timeout a text", "POST", F, {"queues": ["bad"], "timeout": "soon"}, WRONG,
     "timeout"),
    ("timeout negative", "POST", F, {"queues": ["bad"], "timeout": -1}, WRONG,
     "timeout"),
    ("lease negative", "POST", F,
     {"queues": ["bad"], "timeout": 0, "lease_duration": -1}, WRONG,
     "lease_duration"),
    ("lease of nothing", "POST", F,
     {"queues": ["bad"], "timeout": 0, "lease_duration": 0}, WRONG,
     "lease_duration"),
    ("lease of two days", "POST", F,
     {"queues": ["bad"], "timeout": 0, "lease_duration": 172800}, WRONG,
     "lease_duration"),
    ("worker_id a number", "POST", F,
     {"queues": ["bad"], "timeout": 0, "worker_id": 1}, WRONG, "worker_id"),
    ("worker_id too long", "POST", F,
     {"queues": ["bad"], "timeout": 0, "worker_id": "w" * 256}, WRONG,
     "worker_id"),
    ("count negative", "POST", FB, {"queues": ["bad"], "count": -1}, WRONG,
     "count"),
    ("count a text", "POST", FB, {"queues": ["bad"], "count": "9"}, WRONG,
     "count"),

    # --- ack, fail, heartbeat
    ("ack of no such job", "POST", f"{API}/ack/{NO_JOB}", {},
     GONE, "not found"),
    ("ack of a strange id", "POST", f"{API}/ack/%20%ff", {}, WRONG, "job_id"),
    ("ack of an overlong id", "POST", f"{API}/ack/" + "j" * 65, {}, WRONG,
     "job_id"),
    ("ack of a pending job", "POST", f"{API}/ack/@PENDING@", {},
     (400, "ACK_ERROR"), "not active"),
    ("ack of a completed job", "POST", f"{API}/ack/@DONE@", {},
     (400, "ACK_ERROR"), "not active"),
    ("ack of a completed job with a token", "POST", f"{API}/ack/@DONE@",
     b'{"lease_token":1}', LOST, "lease"),
    ("ack with another's token", "POST", ACK,
     b'{"lease_token":9007199254740991}', LOST, "lease"),
    ("ack by another worker", "POST", ACK, {"worker_id": "thief"}, LOST,
     "lease"),
    ("ack with token 0", "POST", ACK, {"lease_token": 0}, LOST, "lease"),
    ("ack with a text token", "POST", ACK, {"lease_token": "1"}, WRONG,
     "lease_token"),
    ("ack with a negative token", "POST", ACK, {"lease_token": -1}, WRONG,
     "lease_token"),
    ("ack with too large a result", "POST", ACK, {"result": "x" * 263000},
     WRONG, "result"),
    ("fail of no such job", "POST", f"{API}/fail/{NO_JOB}", {},
     GONE, "not found"),
    ("fail of a pending job", "POST", f"{API}/fail/@PENDING@", {},
     (400, "FAIL_ERROR"), "not active"),
    ("fail by another worker", "POST", FAIL, {"worker_id": "thief"}, LOST,
     "lease"),
    ("fail with a bad delay", "POST", FAIL, {"retry_after": "later"}, WRONG,
     "retry_after"),
    ("fail with a text for retry", "POST", FAIL, {"retry": "no"}, WRONG,
     "retry"),
    ("error too long", "POST", FAIL, {"error": "x" * 17000}, WRONG, "error"),
    ("error a number", "POST", FAIL, {"error": 7}, WRONG, "error"),
    ("ack/batch without acks", "POST", AB, {}, WRONG, "acks"),
    ("ack/batch of none", "POST", AB, {"acks": []}, WRONG, "acks"),
    ("ack/batch of too many", "POST", AB,
     {"acks": [{"job_id": "j"}] * 513}, WRONG, "512"),
    ("ack/batch item without an id", "POST", AB, {"acks": [{}]}, WRONG,
     "acks[0].job_id"),
    ("heartbeat of a list of numbers", "POST", H, {"jobs": [1]}, WRONG,
     "jobs[0]"),
    ("heartbeat with a number for a job", "POST", H, {"jobs": {"j": 1}}, WRONG,
     "jobs"),
    ("heartbeat with jobs a text", "POST", H, {"jobs": "j"}, WRONG, "jobs"),
    ("heartbeat with a job twice", "POST", H, b'{"jobs":{"j":{},"j":{}}}',
     (400, None), "twice"),
    ("heartbeat of too many", "POST", H,
     {"jobs": {f"j{i}": {} for i in range(2049)}}, WRONG, "2048"),
    ("progress too large", "POST", H,
     {"jobs": {"@ACTIVE@": {"progress": "x" * 17000}}}, WRONG, "progress"),

    # --- jobs and queues
    ("get of no such job", "GET", f"{API}/jobs/{NO_JOB}", b"", GONE, "job"),
    ("get of a zero byte", "GET", f"{API}/jobs/%00", b"", WRONG, "job_id"),
    ("get of a strange id", "GET", f"{API}/jobs/%F0%9F%98%80", b"", GONE,
     "job"),
    ("get of a broken escape", "GET", f"{API}/jobs/%zz", b"", WRONG,
     "percent-encoded"),
    ("delete of no such job", "DELETE", f"{API}/jobs/{NO_JOB}", b"", GONE,
     "job"),
    ("retry of no such job", "POST", f"{API}/jobs/{NO_JOB}/retry", b"",
     GONE, "not found"),
    ("retry of a pending job", "POST", f"{API}/jobs/@PENDING@/retry", b"",
     (400, "RETRY_ERROR"), "pending"),
    ("retry of an active job", "POST", f"{API}/jobs/@ACTIVE@/retry", b"",
     (400, "RETRY_ERROR"), "active"),
    ("cancel of no such job", "POST", f"{API}/jobs/{NO_JOB}/cancel", b"",
     GONE, "not found"),
    ("cancel of a completed job", "POST", f"{API}/jobs/@DONE@/cancel", b"",
     (400, "CANCEL_ERROR"), "completed"),
    ("cancel of a dead job", "POST", f"{API}/jobs/@DEAD@/cancel", b"",
     (400, "CANCEL_ERROR"), "dead"),
    ("pause of an overlong queue", "POST", f"{API}/queues/{'q' * 256}/pause",
     b"", WRONG, "255"),
    ("pause of a queue with a control", "POST", f"{API}/queues/a%0Ab/pause",
     b"", WRONG, "control"),
    ("pause of a queue in no UTF-8", "POST", f"{API}/queues/%ff/pause", b"",
     WRONG, "UTF-8"),

    # --- search
    ("search for a queue of numbers", "POST", S, {"queue": 1}, WRONG, "queue"),
    ("search for a state as text", "POST", S, {"state": "dead"}, WRONG,
     "state"),
    ("search for no such state", "POST", S, {"state": ["asleep"]}, WRONG,
     "state"),
    ("limit negative", "POST", S, {"limit": -1}, WRONG, "limit"),
    ("limit a text", "POST", S, {"limit": "all"}, WRONG, "limit"),
    ("cursor a number", "POST", S, {"cursor": 5}, WRONG, "cursor"),
    ("cursor too long", "POST", S, {"cursor": "x" * 1025}, WRONG, "cursor"),
]

TABLE += ROWS


def exchange(port, data, timeout=20.0):
    """Sends raw bytes on a new connection; (status, headers, body)."""
    with socket.create_connection(("127.0.0.1", port), timeout) as s:
        with suppress(BrokenPipeError, ConnectionResetError):
            s.sendall(data)  # the answer may come before the last byte
        r = http.client.HTTPResponse(s)
        r.begin()
        return r.status, r.headers, r.read()


def bytes_of(method, path, body, length=None):
    body = raw(body)
    head = (f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n"
            f"Content-Type: application/json\r\n"
            f"Content-Length: {len(body) if length is None else length}\r\n"
            f"\r\n")
    return head.encode() + body


@pytest.fixture(scope="module")
def cast(node):
    """Jobs of a queue in the states the table speaks of."""
    with node.client() as c:
        c.enqueue("bad.other")
        done = c.fetch("bad.other")
        c.ack(done)
        c.enqueue("bad.other", max_retries=1)
        dead = c.fetch("bad.other")
        c.fail(dead)
        c.enqueue("bad.other")
        active = c.fetch("bad.other", lease_duration=3600)
        pending = c.enqueue("bad.other")
        return {"@PENDING@": pending, "@ACTIVE@": active["job_id"],
                "@DONE@": done["job_id"], "@DEAD@": dead["job_id"]}


def everything(client):
    """What must be the same before and after."""
    jobs = client.search(limit=1000, order="asc")
    return ([(j["id"], j["state"], j["attempt"]) for j in jobs["jobs"]],
            [(q["name"], q["enqueued"], q["paused"])
             for q in client.get(f"{API}/queues").json])


@pytest.fixture(scope="module")
def before(node, cast):
    with node.client() as c:
        return everything(c)


def names():
    return [row[0].replace(" ", "-") for row in TABLE]


def test_the_table_is_large_and_each_row_has_its_name():
    assert len(TABLE) >= 80
    assert len(set(names())) == len(TABLE)


@pytest.mark.parametrize("row", TABLE, ids=names())
def test_refused(node, cast, before, row):
    _, method, path, body, (status, code), fragment = row
    body = raw(body)
    for name, value in cast.items():
        path = path.replace(name, value)
        body = body.replace(name.encode(), value.encode())
    data = bytes_of(method, path, body)
    got, headers, text = exchange(node.port, data)
    assert got == status, text
    answer = json.loads(text)
    assert headers["Content-Type"] == "application/json"
    assert text.endswith(b"\n")
    assert code is None or answer["code"] == code, answer
    assert fragment in answer["error"], answer
    assert answer["error"] and set(answer) <= {"error", "code"}
    if status == 405:
        assert "OPTIONS" in headers["Allow"] and method not in headers["Allow"]


# Odd, and none of the server's business: these are served.
FINE = [
    ("unknown members", {"queue": "good", "colour": "red", "x": {"y": [1]}}),
    ("nulls", {"queue": "good", "payload": None, "tags": None,
               "max_retries": None, "scheduled_at": None}),
    ("both forms of a delay",
     {"queue": "good", "retry_base_delay": "5s", "retry_base_delay_ms": 5000}),
    ("delay in seconds", {"queue": "good", "retry_base_delay": 2.5}),
    ("no attempts", {"queue": "good", "max_retries": 0}),
    ("space around", b' \r\n\t{ "queue" : "good" } \n'),
    ("deep payload", nested(63).replace(b"bad", b"good")),
    ("a member twice in the payload",
     b'{"queue":"good","payload":{"a":1,"a":2}}'),
    ("longest name", {"queue": "g" * 255}),
    ("strange name", {"queue": "a/b c?d#e%f&\"'<>\\ü😀"}),
    ("largest payload", {"queue": "good", "payload": "x" * (PAYLOAD_MAX - 2)}),
]


@pytest.mark.parametrize("body", [b for _, b in FINE],
                         ids=[n.replace(" ", "-") for n, _ in FINE])
def test_odd_but_fine(node, body):
    status, _, text = exchange(node.port, bytes_of("POST", E, body))
    assert status == 201, text
    made = json.loads(text)["job_id"]
    with node.client() as c:
        job = c.job(made)
        assert job["state"] == "pending"
        assert c.request("DELETE", f"{API}/jobs/{made}").status == 200


def test_strange_names_work_in_paths(client):
    name = "a/b c?d#e%f&\"'<>\\ü😀"
    quoted = "".join(f"%{b:02X}" for b in name.encode())
    a = client.post(f"{API}/queues/{quoted}/pause")
    assert (a.status, a.json["status"]) == (200, "paused")
    assert client.queue(name)["paused"] is True
    assert client.post(f"{API}/queues/{quoted}/resume").status == 200


def test_payload_comes_back_byte_for_byte(node, client):
    payload = b'{"z":1.50,"a":[ 1 , 2e3 ],"a":"\\u00fc<&>","s":" \\/ "}'
    body = b'{"queue":"bytes","payload":' + payload + b"}"
    _, _, text = exchange(node.port, bytes_of("POST", E, body))
    made = json.loads(text)["job_id"]
    assert payload in client.get(f"{API}/jobs/{made}").body
    assert payload in client.fetch_raw("bytes").body


def test_length_alone_is_refused_before_the_body(node):
    status, headers, text = exchange(
        node.port, bytes_of("POST", E, b"", length=BODY_MAX + 1))
    assert (status, json.loads(text)["code"]) == BODY, text
    assert headers["Connection"] == "close"


# What the HTTP library itself refuses: any 400, or just the end.
GARBAGE = [
    b"\r\n\r\n\r\n",
    b"GARBAGE\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
    b"POST /api/v1/enqueue HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    b"POST /api/v1/enqueue HTTP/1.1\r\nHost: x\r\nContent-Length: ten\r\n\r\n",
    b"POST /api/v1/enqueue HTTP/1.1\r\nHost: localhost\r\n"
    b"Content-Length: 99999999999999999999999\r\n\r\n",
    b"POST /api/v1/enqueue HTTP/1.1\r\nHost: localhost\r\n"
    b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST /api/v1/enqueue HTTP/1.1\r\nHost: localhost\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n5\r\n{\"qu\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"X-Big: " + b"a" * 70000 +
    b"\r\n\r\n",
    b"\x00" * 1000,
]


@pytest.mark.parametrize("data", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage_is_no_danger(node, data):
    with socket.create_connection(("127.0.0.1", node.port), 20) as s:
        with suppress(OSError):
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
        got = b""
        with suppress(ConnectionResetError):
            while chunk := s.recv(65536):
                got += chunk
    assert got == b"" or re.match(rb"HTTP/1\.[01] (4\d\d|505) ", got), got
    with node.client() as c:
        assert c.get("/healthz").status == 200


def test_chunked_body_is_a_body(node):
    body = b'{"queue":"chunked"}'
    data = (b"POST /api/v1/enqueue HTTP/1.1\r\nHost: localhost\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n")
    for byte in body:
        data += b"1\r\n" + bytes([byte]) + b"\r\n"
    status, _, text = exchange(node.port, data + b"0\r\n\r\n")
    assert status == 201, text


def test_options_and_head(client):
    a = client.request("OPTIONS", E)
    assert a.status == 200
    a = client.request("HEAD", "/healthz")
    assert (a.status, a.body) == (200, b"")


# Last: the whole file has run when this one does.
def test_nothing_was_made_or_changed_and_the_node_works(node, client, before):
    jobs, queues = everything(client)
    fine = {"chunked", "bytes"}
    assert [j for j in jobs if j[0] in {b[0] for b in before[0]}] == before[0]
    extra = client.search(queue="bad")
    assert extra["jobs"] == [] and extra["total"] == 0
    assert {q[0] for q in queues if q[1]} - {"bad.other"} == fine
    done = client.enqueue("alive", payload={"n": 1})
    client.ack(client.fetch("alive"), result={"ok": True})
    assert client.state(done) == "completed"
    with Client(node.port) as fresh:
        assert fresh.get("/readyz").status == 200
