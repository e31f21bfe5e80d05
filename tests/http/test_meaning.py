"""Nothing is guessed: misspelt values, members that would be ignored, empty
filters, delays, jobs that do not exist. Generic over the routes of
/openapi.json where that is possible.
"""

import json
import re
import socket
import time

import pytest

from node import API, HARMLESS, SOURCE, seconds_of, wait_until

STRICT = {"X-Corvo-Strict": "1"}
COMPAT = {"X-Corvo-Compat": "0.3"}
ODD = "no-such-thing"
NO_JOB = "job_00000000000000000000000000"


@pytest.fixture(scope="module")
def api(node):
    with node.client() as c:
        return c.get("/openapi.json").json


def schema_of(api, schema):
    """The schema itself, behind references."""
    while "$ref" in schema or len(schema.get("allOf", [])) == 1:
        ref = schema.get("$ref") or schema["allOf"][0].get("$ref")
        schema = api["components"]["schemas"][ref.rsplit("/", 1)[1]]
    return schema


def refuses_unknown(method, path):
    """Routes that change settings or the cluster, or act on many jobs."""
    return method in ("PUT", "PATCH") or path.startswith(
        (f"{API}/cluster/", f"{API}/bulk/", f"{API}/jobs/bulk")) \
        and not path.endswith("bulk-get") or path in (
            f"{API}/budgets", f"{API}/webhooks", f"{API}/approval-policies",
            f"{API}/approval-policies/dry-run", f"{API}/queues/x/throttle",
            f"{API}/queues/x/concurrency")


def requests(api):
    """(method, path, schema of the body) of every route that takes one."""
    for path, methods in api["paths"].items():
        for method, route in methods.items():
            body = route.get("requestBody")
            # bodies of any form have no members
            if body is not None and "*/*" not in body["content"]:
                schema = body["content"]["application/json"]["schema"]
                yield (method.upper(), re.sub(r"\{\w+\}", "x", path),
                       schema_of(api, schema))


def places(api, schema, depth=0):
    """(what to put around a value, its schema) of every member, to depth."""
    for name, member in schema.get("properties", {}).items():
        if member.get("readOnly"):
            continue
        inner = schema_of(api, member)
        yield (lambda v, n=name: {n: v}), name, inner
        if depth == 3:
            continue
        items = schema_of(api, inner.get("items", {}))
        for wrap, path, leaf in places(api, inner, depth + 1):
            yield (lambda v, n=name, w=wrap: {n: w(v)}), \
                f"{name}.{path}", leaf
        for wrap, path, leaf in places(api, items, depth + 1):
            yield (lambda v, n=name, w=wrap: {n: [w(v)]}), \
                f"{name}[0].{path}", leaf


def test_every_enum_of_every_request_is_exact(client, api):
    seen = 0
    for method, path, schema in requests(api):
        for wrap, name, member in places(api, schema):
            if "enum" not in member:
                continue
            a = client.request(method, path, json.dumps(wrap(ODD)))
            assert (a.status, a.code) == (400, "VALIDATION_ERROR"), \
                (path, name, a)
            assert name.replace("job.", "") in \
                a.json["error"].replace("job.", ""), (path, a)
            for value in member["enum"]:
                assert value in a.json["error"], (path, name, a)
            seen += 1
    assert seen > 15


def test_every_request_names_an_unknown_member(client, api):
    seen = 0
    for method, path, schema in requests(api):
        body = {ODD: 1, **HARMLESS.get(path, {})}
        a = client.request(method, path, body, STRICT)
        assert (a.status, a.code) == (400, "VALIDATION_ERROR"), (path, a)
        assert ODD in a.json["error"] or "required" in a.json["error"], a
        if refuses_unknown(method, path):
            body = {**body, "another-one": 2}
            a = client.request(method, path, body)
            assert (a.status, a.code) == (400, "VALIDATION_ERROR"), (path, a)
            assert f"{ODD}, another-one: there are no such members" in \
                a.json["error"] or "required" in a.json["error"], (path, a)
        a = client.request(method, path, body,
                           COMPAT if refuses_unknown(method, path) else {})
        if "required" not in a.json.get("error", ""):
            assert a.headers["X-Corvo-Ignored"].startswith(ODD), (path, a)
            seen += 1
    assert seen > 15


def near_misses(schema):
    """A slip in the longest member of the schema, and its right name."""
    names = [n for n, m in schema.get("properties", {}).items()
             if not m.get("readOnly") and len(n) > 6]
    if not names:
        return []
    right = max(names, key=len)
    return [(wrong, right) for wrong in
            (right[:3] + right[4:], right[1] + right[0] + right[2:],
             right + "xy", right[:2] + "q" + right[3:])
            if wrong not in schema["properties"]]


def test_every_request_names_the_member_that_was_meant(client, api):
    seen = 0
    for method, path, schema in requests(api):
        # Scheduled-DB has its own words for what is wrong
        for wrong, right in near_misses(schema) * path.startswith(API):
            body = {wrong: 1, **HARMLESS.get(path, {})}
            a = client.request(method, path, body)
            assert (a.status, a.code) == (400, "VALIDATION_ERROR"), (path, a)
            assert wrong in a.json["error"], (path, wrong, a)
            assert right in a.json["error"], (path, wrong, a)
            a = client.request(method, path, body, COMPAT)
            assert "no such member" not in a.json.get("error", ""), (path, a)
            seen += 1
    assert seen > 60


@pytest.mark.parametrize("body,right", [
    ({"max_retires": 3}, "max_retries"), ({"payloda": 1}, "payload"),
    ({"jobs": [{"queue": "q"}, {"queue": "q", "tag": {}}]}, "tags"),
    ({"expected": {}, "agnet": {}}, "agent"),
    ({"retry_base_delay_m": 5}, "retry_base_delay_ms")])
def test_a_slip_in_a_job_is_refused(client, queue, body, right):
    a = client.post(f"{API}/enqueue", {"queue": queue, **body})
    assert (a.status, a.code) == (400, "VALIDATION_ERROR"), a
    assert f'perhaps "{right}" is meant' in a.json["error"], a
    assert client.search(queue=queue)["total"] == 0
    a = client.post(f"{API}/enqueue", {"queue": queue, **body}, COMPAT)
    assert a.status == 201, a


def test_what_is_no_slip_is_ignored(client, queue):
    far = {"id": 1, "at": 2, "colour": "red", "priorities": [1]}
    a = client.post(f"{API}/enqueue", {"queue": queue, **far})
    assert a.status == 201, a
    assert a.headers["X-Corvo-Ignored"] == ", ".join(far)


def test_a_slip_in_a_remote_call(client, queue):
    path = "/corvo.v1.WorkerService/Enqueue"
    for wrong in ("maxRetires", "max_retires"):
        a = client.post(path, {"queue": queue, wrong: 3},
                        {"Content-Type": "application/json"})
        assert a.status == 400, a
        assert a.json["code"] == "invalid_argument", a
        assert f"{wrong}: there is no such field" in a.json["message"], a
        assert '"maxRetries"' in a.json["message"], a


# --- members that are ignored

def test_ignored_members_are_named_by_their_paths(client, queue):
    a = client.post(f"{API}/enqueue", {
        "jobs": [{"queue": queue}, {"queue": queue, "foo": 1}],
        "bar": 1, "jobs_n": 2})
    assert a.status == 201
    assert a.headers["X-Corvo-Ignored"] == "jobs[1].foo, bar, jobs_n"
    a = client.post(f"{API}/heartbeat", {"jobs": {NO_JOB: {"prog": 1}}})
    assert a.headers["X-Corvo-Ignored"] == f"jobs.{NO_JOB}.prog"
    a = client.request("PATCH", f"{API}/queues/{queue}",
                       {"groups": {"vip": {"weigth": 2}}})
    assert a.status == 400 and a.json["error"] == \
        "groups.vip.weigth (perhaps weight): there is no such member"
    a = client.post(f"{API}/fetch", {"queues": [queue], "count": 2})
    assert a.status == 200 and a.headers["X-Corvo-Ignored"] == "count"
    a = client.post(f"{API}/enqueue", {"queue": queue})
    assert "X-Corvo-Ignored" not in a.headers


def arguments_of(api):
    """Every route that needs no body: path, its arguments."""
    for path, methods in api["paths"].items():
        if "get" not in methods or path.endswith(("/events", "/progress")):
            continue
        yield (path.replace("{", "").replace("}", ""),
               [p["name"] for p in methods["get"].get("parameters", [])
                if p["in"] == "query"])


def test_every_route_names_an_unknown_argument(client, api):
    seen = 0
    for path, known in arguments_of(api):
        a = client.get(f"{path}?{ODD}=1")
        assert a.headers["X-Corvo-Ignored"] == f"?{ODD}", (path, a)
        a = client.request("GET", f"{path}?{ODD}=1", headers=STRICT)
        assert (a.status, a.code) == (400, "VALIDATION_ERROR"), (path, a)
        assert f"?{ODD}: would be ignored" in a.json["error"], (path, a)
        for name in known:
            assert "X-Corvo-Ignored" not in client.get(
                f"{path}?{name}=1").headers, (path, name)
        seen += 1
    assert seen > 20


def test_arguments_that_are_ignored_stand_beside_members(client, queue):
    a = client.post(f"{API}/enqueue?dealy=10m", {"queue": queue, "prio": 1})
    assert a.status == 201
    assert a.headers["X-Corvo-Ignored"] == "?dealy, prio"
    a = client.get(f"{API}/queues?limit=1&after=x&limit=2")
    assert a.status == 200
    assert a.headers["X-Corvo-Ignored"] == "?limit[1]"
    for nothing in ("?", "?&", "?&limit=1&"):
        a = client.request("GET", f"{API}/queues{nothing}", headers=STRICT)
        assert a.status == 200, a


def test_a_key_that_does_not_count_is_named(client, api, queue):
    key = {"Idempotency-Key": "k-1"}
    seen = 0
    for method, path, _ in requests(api):
        body = HARMLESS.get(path, {})
        a = client.request(method, path, body, key)
        if path in (f"{API}/enqueue", f"{API}/enqueue/batch"):
            assert "X-Corvo-Ignored" not in a.headers, (path, a)
            continue
        assert a.headers["X-Corvo-Ignored"] == "Idempotency-Key", (path, a)
        a = client.request(method, path, body, {**key, **STRICT})
        assert (a.status, a.code) == (400, "VALIDATION_ERROR"), (path, a)
        assert "Idempotency-Key: would be ignored" in a.json["error"], a
        seen += 1
    assert seen > 20
    a = client.request("GET", f"{API}/queues", headers={**key, **STRICT})
    assert a.status == 200, a


def test_names_of_any_characters_fit_into_the_header(client, queue):
    names = {f"x\r\nä,{i}" + "y" * 300: 1 for i in range(99)}
    a = client.post(f"{API}/enqueue", {"queue": queue, **names})
    assert a.status == 201
    assert a.headers["X-Corvo-Ignored"].startswith("x%0D%0A%C3%A4%2C0yyy")
    assert len(a.headers["X-Corvo-Ignored"]) <= 512


def test_a_strict_request_is_refused_and_does_nothing(client, queue):
    a = client.post(f"{API}/enqueue", {"queue": queue, "later": "10m"},
                    STRICT)
    assert (a.status, a.code) == (400, "VALIDATION_ERROR")
    assert "later" in a.json["error"]
    assert client.search(queue=queue)["total"] == 0
    body = {"queue": queue, "delay": "10m"}
    assert client.post(f"{API}/enqueue", body, STRICT).status == 201


def test_a_strict_server_refuses_and_a_request_may_say_otherwise(make_node):
    node = make_node("--strict")
    node.start()
    with node.client() as c:
        body = {"queue": "q", "later": "10m"}
        assert c.post(f"{API}/enqueue", body).status == 400
        a = c.post(f"{API}/enqueue", body, {"X-Corvo-Strict": "0"})
        assert a.status == 201 and a.headers["X-Corvo-Ignored"] == "later"


def test_what_the_path_says_may_be_said_again(client, queue):
    client.enqueue(queue)
    job = client.fetch(queue)
    path = f"{API}/ack/{job['job_id']}"
    a = client.post(path, {"job_id": "other"}, STRICT)
    assert a.status == 400 and "job_id" in a.json["error"]
    a = client.post(path, {"job_id": job["job_id"]}, STRICT)
    assert a.status == 200


def test_members_of_a_schedules_job_may_stand_beside_it(client, queue):
    body = {"name": queue, "queue": queue, "cron": "@daily",
            "payload": {"a": 1}, "job": {"priority": "high"}}
    a = client.post(f"{API}/schedules", body, STRICT)
    assert a.status == 201, a
    a = client.post(f"{API}/schedules", {**body, "name": queue + "2",
                                         "runs": 7, "job": {"prio": 1}})
    assert a.headers["X-Corvo-Ignored"] == "job.prio, runs"
    assert a.json["runs"] == 0


# --- filters

@pytest.mark.parametrize("wrong", [
    {}, None, {"stat": ["dead"]}, {"queue": ""}, {"queue": None},
    {"state": []}, {"tags": {}}, {"priority": "critcal"},
    {"queue": "Q", "batch_id": ""}, {"all": False}, {"all": None},
    {"all": True, "queue": "Q"}, {"queue": "Q", "limit": 5}])
def test_a_filter_says_what_it_means(client, queue, wrong):
    job_id = client.enqueue(queue)
    if wrong and "queue" in wrong and wrong["queue"] == "Q":
        wrong = {**wrong, "queue": queue}
    a = client.post(f"{API}/jobs/bulk", {"action": "delete", "filter": wrong})
    assert (a.status, a.code) == (400, "VALIDATION_ERROR"), a
    assert client.state(job_id) == "pending"


def test_all_stands_for_everything(make_node):
    node = make_node()
    node.start()
    with node.client() as c:
        for q in ("a", "b"):
            c.enqueue(q)
        a = c.post(f"{API}/jobs/bulk", {"action": "cancel",
                                        "filter": {"all": True}})
        assert a.status == 200 and a.json["affected"] == 2


def test_no_ids_are_an_empty_result(client):
    a = client.post(f"{API}/jobs/bulk", {"action": "delete", "job_ids": []})
    assert a.status == 200
    assert (a.json["affected"], a.json["total"]) == (0, 0)


# --- delays

def test_delay_of_a_job(client, queue):
    before = time.time()
    a = client.post(f"{API}/enqueue", {"queue": queue, "delay": "10m"})
    assert a.status == 201 and a.json["status"] == "scheduled"
    for job in (a.json["job"], client.job(a.json["job_id"])):
        due = seconds_of(job["scheduled_at"])
        assert before + 599 < due < time.time() + 601
    assert client.enqueue(queue, delay=0) == \
        client.fetch(queue)["job_id"]
    a = client.post(f"{API}/enqueue", {"queue": queue, "delay": "1m",
                                       "scheduled_at": "2030-01-01T00:00:00Z"})
    assert (a.status, a.code) == (400, "VALIDATION_ERROR")
    assert "delay" in a.json["error"]


def test_delay_of_batch_items(client, queue):
    a = client.post(f"{API}/enqueue/batch", {"jobs": [
        {"queue": queue}, {"queue": queue, "delay_ms": 60000}]})
    assert [j["state"] for j in a.json["jobs"]] == ["pending", "scheduled"]
    a = client.post(f"{API}/enqueue/batch", {"jobs": [
        {"queue": queue}, {"queue": queue, "delay": 1,
                           "scheduled_at": "2030-01-01T00:00:00Z"}]})
    assert a.status == 400 and "job 1 delay" in a.json["error"]


def test_delay_of_a_schedules_job(client, queue):
    client.post(f"{API}/schedules", {"name": queue, "queue": queue,
                                     "cron": "@yearly", "delay": "1h"})
    a = client.post(f"{API}/schedules/{queue}/run", {})
    assert client.state(a.json["job_id"]) == "scheduled"


def test_delay_of_a_chains_step(client, queue):
    a = client.post(f"{API}/enqueue", {"queue": queue, "chain": {
        "steps": [{"queue": queue}, {"queue": queue, "delay": "1h"}]}})
    assert a.status == 201, a
    client.ack(client.fetch(queue))
    (job,) = client.search(queue=queue, state=["scheduled"])["jobs"]
    assert job["chain_step"] == 1


# --- the rest

@pytest.mark.parametrize("action,body,code", [
    ("ack", {}, "ACK"), ("fail", {"error": "x"}, "FAIL"),
    ("cancel", {}, "CANCEL"), ("retry", {}, "RETRY"),
    ("requeue", {}, "REQUEUE"), ("hold", {}, "HOLD"),
    ("approve", {}, "APPROVE"), ("reject", {}, "REJECT"),
    ("move", {"queue": "q"}, "MOVE"),
    ("priority", {"priority": "high"}, "PRIORITY")])
def test_a_job_that_does_not_exist_is_404(client, action, body, code):
    path = (f"{API}/{action}/{NO_JOB}" if action in ("ack", "fail")
            else f"{API}/jobs/{NO_JOB}/{action}")
    a = client.post(path, body)
    assert (a.status, a.code) == (404, "NOT_FOUND"), a
    a = client.post(path, body, COMPAT)
    assert (a.status, a.code) == (400, code + "_ERROR"), a
    assert NO_JOB in a.json["error"]


def test_codes_of_mistakes_for_clients_of_0_3(client):
    for body in ({"action": "explode", "job_ids": ["x"]},
                 {"action": "move", "job_ids": ["x"]}):
        a = client.post(f"{API}/jobs/bulk", body)
        assert (a.status, a.code) == (400, "VALIDATION_ERROR")
        a = client.post(f"{API}/jobs/bulk", body, COMPAT)
        assert (a.status, a.code) == (400, "BULK_ERROR")


def test_unknown_priority_and_backoff_of_a_client_of_0_3(client, queue):
    body = {"queue": queue, "priority": "urgent", "retry_backoff": "wild"}
    assert client.post(f"{API}/enqueue", body).status == 400
    a = client.post(f"{API}/enqueue", body, COMPAT)
    assert a.status == 201, a
    job = client.job(a.json["job_id"])
    assert (job["priority"], job["retry_backoff"]) == ("normal",
                                                       "exponential")


def test_an_empty_duration_is_absent(client, queue):
    job_id = client.enqueue(queue, retry_base_delay="", expire_after="",
                            delay="", timeout="")
    job = client.job(job_id)
    assert job["state"] == "pending" and job["retry_base_delay_ms"] == 5000
    assert "expire_at" not in job
    assert client.get(f"{API}/jobs/{job_id}?wait=").status == 200


def test_a_chain_goes_on_after_a_failure(client, queue):
    a = client.post(f"{API}/enqueue", {
        "queue": queue, "max_retries": 1, "chain": {
            "steps": [{"queue": queue}, {"queue": queue + ".2"}],
            "on_failure": "continue"}})
    assert a.status == 201, a
    assert a.json["job"]["chain_config"]["on_failure"] == "continue"
    job = client.fetch(queue)
    client.post(f"{API}/fail/{job['job_id']}", {"error": "x"})
    follower = client.fetch(queue + ".2")
    assert follower["payload"]["previous_job_id"] == job["job_id"]


@pytest.mark.parametrize("value", ["stop", None])
def test_a_chain_ends_with_a_failure(client, queue, value):
    client.post(f"{API}/enqueue", {
        "queue": queue, "max_retries": 1, "chain": {
            "steps": [{"queue": queue}, {"queue": queue + ".2"}],
            "on_failure": value}})
    job = client.fetch(queue)
    client.post(f"{API}/fail/{job['job_id']}", {"error": "x"})
    assert client.search(queue=queue + ".2")["total"] == 0


def test_a_tags_value_is_a_text(client, queue):
    for value in (1, True, None, ["a"], {"a": "b"}):
        a = client.post(f"{API}/enqueue", {"queue": queue,
                                           "tags": {"t": value}})
        assert (a.status, a.code) == (400, "VALIDATION_ERROR"), a
        assert "tags.t" in a.json["error"]


def test_metrics_under_their_usual_path(client):
    a = client.get("/metrics")
    assert a.status == 200
    assert a.headers["Content-Type"].startswith("text/plain")
    assert b"corvo_" in a.body


def test_every_answer_has_the_id_of_its_request(client):
    for path in ("/healthz", "/api/v1/nothing", f"{API}/jobs/{NO_JOB}"):
        a = client.get(path, {"X-Request-Id": "caller/7"})
        assert a.headers["X-Request-Id"] == "caller/7"
        first = client.get(path).headers["X-Request-Id"]
        assert re.fullmatch("[0-9a-f]{16}", first)
        assert client.get(path).headers["X-Request-Id"] != first
    for given in ("x" * 129, "a b", "\xe4"):
        a = client.get("/healthz", {"X-Request-Id": given})
        assert re.fullmatch("[0-9a-f]{16}", a.headers["X-Request-Id"])
    a = client.get("/healthz", {"X-Request-Id": "x" * 128})
    assert a.headers["X-Request-Id"] == "x" * 128


def test_also_what_is_no_request_gets_an_id(node):
    with socket.create_connection(("127.0.0.1", node.port), 30) as s:
        s.sendall(b"GET / HTTP/1.1\r\nHost : x\r\n\r\n")
        answer = s.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert re.search(rb"\r\nX-Request-Id: [0-9a-f]{16}\r\n", answer)


def test_a_job_shows_its_durations_as_given(client, queue):
    a = client.post(f"{API}/enqueue", {
        "queue": queue, "unique_key": "k", "unique_period": "90s",
        "expire_after": "2h"})
    (found,) = client.search(queue=queue)["jobs"]
    for job in (a.json["job"], client.job(a.json["job_id"]), found):
        assert job["unique_period"] == "1m30s"
        assert job["unique_period_ms"] == 90000
        assert job["expire_after_ms"] == 7200000
    plain = client.job(client.enqueue(queue))
    assert "unique_period" not in plain and "expire_after" not in plain


def test_a_schedule_always_shows_its_timezone(client, queue):
    a = client.post(f"{API}/schedules", {"name": queue, "queue": queue,
                                         "cron": "@daily"})
    listed = [s for s in client.get(f"{API}/schedules").json["schedules"]
              if s["name"] == queue]
    one = client.get(f"{API}/schedules/{queue}")
    assert "X-Corvo-Index" not in one.headers
    paused = client.post(f"{API}/schedules/{queue}/pause", {})
    for s in (a.json, one.json, paused.json, *listed):
        assert s["timezone"] == "UTC"


def test_a_lease_is_shown_as_heartbeats_extended_it(client, queue):
    client.enqueue(queue)
    job = client.fetch(queue, lease_duration=30)
    first = seconds_of(client.job(job["job_id"])["lease_expires_at"])
    wait_until(lambda: time.time() > first - 29)
    a = client.post(f"{API}/heartbeat", {"jobs": {job["job_id"]: {}}})
    told = seconds_of(a.json["jobs"][job["job_id"]]["lease_expires_at"])
    assert told > first + 0.5
    got = client.post(f"{API}/jobs/bulk-get", {"job_ids": [job["job_id"]]})
    for shown in (client.job(job["job_id"]), got.json["jobs"][0]):
        assert abs(seconds_of(shown["lease_expires_at"]) - told) < 0.1


# --- whether a request may be sent again

def errors_page():
    """{code: (status, may it be sent again)} of docs/reference/errors.md."""
    text = (SOURCE / "docs" / "reference" / "errors.md").read_text()
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")]
            for line in text.splitlines() if line.startswith("| ")]
    code, status, again = map(rows[0].index, (
        "Code", "Status", "May be sent again"))
    return {r[code].strip("`"): (int(r[status]), r[again])
            for r in rows if r[status].isdigit()}


def test_the_page_of_refusals_says_what_the_server_does(client, queue):
    page = errors_page()
    client.request("PATCH", f"{API}/queues/{queue}", {"max_backlog": 1})
    client.enqueue(queue)
    held = client.fetch(queue)
    client.enqueue(queue)
    ack = f"{API}/ack/{held['job_id']}"
    refused = [
        ("POST", f"{API}/enqueue", {"queue": ""}, "VALIDATION_ERROR"),
        ("POST", f"{API}/enqueue", "{", "PARSE_ERROR"),
        ("POST", f"{API}/enqueue", {"queue": queue}, "QUEUE_FULL"),
        ("POST", ack, {"lease_token": 1}, "LEASE_LOST"),
        ("POST", f"{API}/ack/{NO_JOB}", {}, "NOT_FOUND"),
        ("PUT", f"{API}/enqueue", {}, "METHOD_NOT_ALLOWED"),
    ]
    for method, path, body, code in refused:
        a = client.request(method, path, body)
        status, again = page[code]
        assert (a.status, a.code) == (status, code), a
        later = "Retry-After" in a.headers
        assert later == (again == "yes, after `Retry-After`"), (code, again)
        assert later or again == "no: change the request"
        # it was not carried out, and is refused again
        assert client.request(method, path, body).code == code
    client.ack(held)
    client.ack(client.fetch(queue))
    assert client.post(f"{API}/enqueue", {"queue": queue}).status == 201
    # the same request once more, with what makes that safe
    key = {"Idempotency-Key": queue}
    body = {"queue": queue + ".2"}
    assert page["OUTCOME_UNKNOWN"][1].startswith("only with the same")
    first = client.post(f"{API}/enqueue", body, key)
    assert client.post(f"{API}/enqueue", body, key).json == first.json
