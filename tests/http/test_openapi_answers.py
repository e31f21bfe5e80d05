"""Real answers against their schemas in openapi.json.

Every route is asked of a node with one of everything in it, and whatever it
answers must be in its schema: a member that is missing there fails as well as
one of another type.
"""

import re

import pytest

from node import API, wait_until

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool,
         "integer": int, "number": (int, float)}


# --- a small validator ----------------------------------------------------


class Schemas:
    def __init__(self, doc):
        self.doc = doc

    def resolve(self, schema):
        while "$ref" in schema:
            at = self.doc
            for step in schema["$ref"].removeprefix("#/").split("/"):
                at = at[step]
            schema = at
        return schema

    def problems(self, value, schema, where):
        """Texts; none when the value is as the schema says."""
        schema = self.resolve(schema)
        if "oneOf" in schema:
            found = [self.problems(value, s, where) for s in schema["oneOf"]]
            return [] if [] in found else found[0]
        for part in schema.get("allOf", []):
            if found := self.problems(value, part, where):
                return found
        kind = schema.get("type")
        if kind is None:
            return []
        if not isinstance(value, TYPES[kind]) or \
                kind in ("integer", "number") and isinstance(value, bool):
            return [f"{where}: {value!r} is no {kind}"]
        if "enum" in schema and value not in schema["enum"]:
            return [f"{where}: {value!r} is none of {schema['enum']}"]
        if kind in ("integer", "number") and \
                not schema.get("minimum", value) <= value <= \
                schema.get("maximum", value):
            return [f"{where}: {value} is out of bounds"]
        if kind == "array":
            return [p for i, v in enumerate(value) for p in
                    self.problems(v, schema["items"], f"{where}[{i}]")]
        return self.of_object(value, schema, where) if kind == "object" else []

    def of_object(self, value, schema, where):
        if "properties" not in schema and \
                "additionalProperties" not in schema:
            return []  # any object, such as tags
        known = schema.get("properties", {})
        found = [f"{where}.{name}: is required"
                 for name in schema.get("required", []) if name not in value]
        for name, v in value.items():
            part = known.get(name, schema.get("additionalProperties"))
            if part is None:
                found.append(f"{where}.{name}: is not in the schema")
            else:
                found += self.problems(v, part, f"{where}.{name}")
        return found


def test_validator_finds_what_it_should():
    check = Schemas({"a": {"type": "object", "required": ["n"], "properties": {
        "n": {"type": "integer", "minimum": 0},
        "l": {"type": "array", "items": {"type": "string", "enum": ["x"]}},
    }}}).problems
    ref = {"$ref": "#/a"}
    assert check({"n": 1, "l": ["x"]}, ref, "") == []
    for bad in ([], {}, {"n": "1"}, {"n": True}, {"n": -1}, {"n": 1.5},
                {"n": 1, "l": "x"}, {"n": 1, "l": ["y"]}, {"n": 1, "m": 0}):
        assert check(bad, ref, ""), bad


# --- a node with one of everything ----------------------------------------


class World:
    """Asks by patterns of the document; remembers which it was asked for."""

    def __init__(self, node, client):
        self.node = node
        self.client = client
        self.doc = client.get("/openapi.json").json
        self.schemas = Schemas(self.doc)
        self.asked = set()

    def ask(self, method, pattern, body=None, query="", headers=None, **names):
        """The answer's JSON, after it was compared with the document."""
        self.asked.add((method, pattern))
        path = re.sub(r"\{(\w+)\}", lambda m: names[m[1]], pattern)
        a = self.client.request(method, path + query, body, headers)
        assert a.status < 400, (method, path, a)
        answers = self.doc["paths"][pattern][method.lower()]["responses"]
        answer = answers.get(str(a.status))
        assert answer is not None, f"{method} {pattern}: {a.status}"
        if a.body == b"":
            assert "content" not in answer or a.status == 204
            return None
        content = answer["content"]["application/json"]
        found = self.schemas.problems(a.json, content["schema"],
                                      f"{method} {pattern} {a.status} ")
        assert not found, "\n".join(found)
        return a.json

    def post(self, path, body=None, **named):
        return self.ask("POST", API + path, body, **named)

    def get(self, path, **named):
        return self.ask("GET", API + path, **named)


@pytest.fixture(scope="module")
def world(node):
    with node.client() as client:
        yield World(node, client)


EVERYTHING = {
    "queue": "all", "payload": {"n": 1}, "priority": "high",
    "tags": {"a": "b"}, "max_retries": 5, "retry_backoff": "linear",
    "retry_base_delay": "1s", "retry_max_delay": "1m", "retry_jitter": 0.5,
    "expire_after": "1h", "timeout": "30s", "unique_key": "u",
    "unique_period": "1h", "group": "g", "checkpoint": {"at": 1},
    "chain": {"steps": [{"queue": "all"}, {"queue": "next", "payload": 1}],
              "on_exit": {"queue": "exit"}},
}


def test_jobs(world):
    w = world
    one = w.post("/enqueue", EVERYTHING)
    assert one["job"]["id"] == one["job_id"]
    w.post("/enqueue", EVERYTHING)  # a duplicate
    many = w.post("/enqueue/batch", {
        "jobs": [{"queue": "two"}, {"queue": "two", "depends_on": ["#0"]}],
        "batch": {"callback_queue": "done", "callback_payload": {}}})
    w.get("/batches/{batch_id}", batch_id=many["batch_id"])
    w.get("/jobs/{job_id}/why", job_id=many["job_ids"][1])
    job = w.post("/fetch", {"queues": ["all"], "worker_id": "w",
                            "hostname": "h", "timeout": 0})
    w.post("/fetch", {"queues": ["nothing"], "timeout": 0})
    w.post("/heartbeat", {"jobs": {
        job["job_id"]: {"progress": {"n": 1}, "logs": ["line"]}, "job_x": {}}})
    w.get("/jobs/{job_id}", job_id=job["job_id"])
    w.post("/fail/{job_id}", {"error": "no", "backtrace": "at", "logs": ["l"],
                              "retry_after_ms": 0}, job_id=job["job_id"])
    w.get("/jobs/{job_id}", job_id=job["job_id"])
    w.get("/jobs/{job_id}/logs", job_id=job["job_id"])
    w.get("/jobs/{job_id}/iterations", job_id=job["job_id"])
    job = w.post("/fetch", {"queues": ["all"], "timeout": 20})
    w.post("/ack/{job_id}", {"result": {"n": 2}}, job_id=job["job_id"])
    w.get("/jobs/{job_id}", job_id=job["job_id"])
    jobs = w.post("/fetch/batch", {"queues": ["two", "next"], "timeout": 0,
                                   "count": 9})["jobs"]
    w.post("/ack/batch", {"acks": [{"job_id": j["job_id"]} for j in jobs] +
                          [{"job_id": "job_x"}]})
    w.post("/jobs/bulk-get", {"job_ids": [j["job_id"] for j in jobs]})


def test_actions(world):
    w = world
    job = w.post("/enqueue", {"queue": "acts"})["job_id"]
    for path, body in [("priority", {"priority": "high"}), ("hold", None),
                       ("approve", None), ("move", {"queue": "acts2"}),
                       ("hold", None), ("reject", {"reason": "no"}),
                       ("requeue", None), ("cancel", {"reason": "no"}),
                       ("retry", None), ("cancel", None)]:
        w.post(f"/jobs/{{job_id}}/{path}", body, job_id=job)
    w.get("/jobs/{job_id}", job_id=job)
    dead = w.post("/enqueue", {"queue": "acts", "max_retries": 1})["job_id"]
    w.post("/fetch", {"queues": ["acts"], "timeout": 0})
    w.post("/fail/{job_id}", {"error": "no"}, job_id=dead)
    assert w.get("/dead")["total"] >= 1
    w.ask("DELETE", API + "/jobs/{job_id}", job_id=job)


def test_lists_and_searches(world):
    w = world
    w.post("/enqueue", {"queue": "lists", "payload": {"n": 1}})
    assert w.get("/queues") and w.get("/workers") is not None
    assert w.post("/jobs/search", {"limit": 1})["jobs"]
    assert w.post("/jobs/search", {"queue": "lists", "payload_jq": ".n == 1",
                                   "time_budget": "1s"})["jobs"]
    assert w.get("/search/fulltext", query="?q=lists")["results"]


def test_batches(world):
    w = world
    batch = w.post("/batches", {"callback_queue": "done"})["batch_id"]
    w.post("/enqueue", {"queue": "b", "batch_id": batch})
    w.post("/batches/{batch_id}/seal", batch_id=batch)
    w.get("/batches/{batch_id}", batch_id=batch)


def test_schedules(world):
    w = world
    s = w.post("/schedules", {"name": "s", "queue": "sq", "cron": "0 3 * * *",
                              "timezone": "Europe/Berlin",
                              "job": {"payload": {"a": 1}, "tags": {"t": "1"},
                                      "retry_base_delay": "1s"}})
    assert w.get("/schedules")["schedules"]
    for path in ("pause", "resume", "run"):
        w.post(f"/schedules/{{id}}/{path}", id="s")
    w.get("/schedules/{id}", id=s["id"])
    w.get("/schedules/{id}/next", id="s", query="?count=2")
    w.post("/schedules/preview", {"cron": "* * * * *"})
    w.ask("PUT", API + "/schedules/{id}", {"queue": "sq", "cron": "@daily"},
          id="s")
    w.ask("DELETE", API + "/schedules/{id}", id="s")


def test_queues(world):
    w = world
    path = API + "/queues/{queue}"
    full = {"max_concurrency": 5, "rate": 10, "period": "1m",
            "lease_duration": "30s", "max_retries": 4,
            "retry_backoff": "fixed", "retry_base_delay": "1s",
            "retry_max_delay": "1m", "retry_jitter": 0.1, "retention": "24h",
            "max_backlog": 1000, "fairness": "group", "group_tag": "t",
            "group_max_concurrency": 3, "group_rate": 5, "group_period": "1s",
            "groups": {"vip": {"weight": 5, "max_concurrency": 2, "rate": 3,
                               "period": "1s", "paused": True}}}
    q = w.ask("PATCH", path, full, queue="set")
    assert set(full) <= set(q["settings"])
    # what can be set is in the document of the request, too
    request = w.doc["paths"][path]["patch"]["requestBody"]
    schema = request["content"]["application/json"]["schema"]
    assert w.schemas.problems(full, schema, "PATCH") == []
    w.ask("POST", API + "/enqueue", {"queue": "set"})
    w.ask("GET", path, queue="set")
    w.ask("POST", path + "/pause", queue="set")
    w.ask("POST", path + "/resume", queue="set")
    w.ask("POST", path + "/drain", queue="set")
    w.ask("POST", path + "/concurrency", {"max": 3}, queue="set")
    w.ask("POST", path + "/throttle", {"rate": 3, "window_ms": 1000},
          queue="set")
    w.ask("DELETE", path + "/throttle", queue="set")
    w.ask("POST", path + "/clear", queue="set")
    w.ask("DELETE", path, query="?confirm=true", queue="set")


def test_bulk(world):
    w = world
    ids = w.post("/enqueue/batch", {"jobs": [{"queue": "bulk"}] * 3})["job_ids"]
    w.post("/jobs/bulk", {"action": "cancel", "job_ids": ids, "dry_run": True})
    w.post("/jobs/bulk", {"action": "move", "filter": {"queue": "bulk"},
                          "move_to_queue": "bulk2"})
    bulk = w.post("/jobs/bulk", {"action": "cancel", "job_ids": ids,
                                 "async": True, "rate": 1})
    name = {"bulk_id": bulk["bulk_operation_id"]}
    for path in ("pause", "resume", "cancel"):
        w.post("/bulk/{bulk_id}/" + path, **name)
    w.get("/bulk/{bulk_id}", **name)
    assert w.get("/bulk")["operations"]


def test_node(world):
    w = world
    w.get("/cluster/status")
    w.get("/cluster/nodes")
    assert w.get("/cluster/events", query="?limit=1000")["events"]
    w.get("/metrics/throughput")
    w.get("/scale")
    w.get("/settings")
    w.ask("PATCH", API + "/settings", {
        "lease_duration": "60s", "retention": "168h", "queue_idle": 3600,
        "event_retention": 5000000, "max_queues": 100000})
    w.get("/admin/digest")
    w.get("/debug/runtime")
    w.get("/info")
    w.ask("GET", "/healthz")
    w.ask("GET", "/readyz")
    w.post("/admin/rebuild-sqlite")
    wait_until(w.node.has_view, what="the view")
    w.post("/admin/verify-view")


def test_agents(world):
    w = world
    job = w.post("/enqueue", {"queue": "loops", "agent": {
        "max_iterations": 1, "max_cost_usd": 2, "iteration_timeout": "1m",
        "limits": {"tokens": 100}}})["job_id"]
    w.post("/fetch", {"queues": ["loops"], "timeout": 0, "worker_id": "w"})
    w.post("/ack/{job_id}", {"agent_status": "continue", "checkpoint": [1],
                             "trace": {}, "usage": {"cost_usd": 1}},
           job_id=job)
    w.post("/jobs/{job_id}/approve", {"max_iterations": 9}, job_id=job)
    w.post("/jobs/{job_id}/replay", {"from": 1}, job_id=job)
    assert w.get("/jobs/{job_id}/iterations", job_id=job)["iterations"]
    assert w.get("/jobs/{job_id}", job_id=job)["agent"]["replays"]


def test_approvals(world):
    w = world
    path = "/approval-policies"
    everything = {
        "name": "p", "queue": "asked", "tag_key": "a", "tag_value": "b",
        "cost_min": 1, "iteration_min": 2, "payload_jq": ".a == 1",
        "provider_state": "failing", "at": ["enqueue", "fetch"],
        "priority": 3, "deadline": "1h", "on_deadline": "reject"}
    w.post(path, everything)
    assert w.get(path)
    w.get(path + "/{id}", id="p")
    job = w.post("/enqueue", {"queue": "asked", "payload": {"n": 1}})
    assert job["status"] == "held"
    w.get("/jobs/{job_id}", job_id=job["job_id"])
    assert w.get("/held")["total"] >= 1
    del everything["provider_state"]
    assert w.post(path + "/dry-run", {"policy": everything})["held"] >= 1
    link = w.post("/jobs/{job_id}/approval-links", {"by": "eve"},
                  job_id=job["job_id"])["approve"].rsplit("/", 1)[1]
    w.get("/approvals/{token}", token=link)
    w.post("/approvals/{token}", {"comment": "yes"}, token=link)
    w.get("/jobs/{job_id}", job_id=job["job_id"])
    w.ask("DELETE", API + path + "/{id}", id="p")


def test_usage_and_budgets(world):
    w = world
    w.ask("PATCH", API + "/usage/settings", {
        "tags": ["team"], "timezone": "Europe/Berlin", "retention": "2400h"})
    w.get("/usage/settings")
    price = API + "/providers/{provider}/models/{model}"
    w.ask("PUT", price, {"input_per_million": 3, "units": {"pages": 0.1}},
          provider="acme", model="large")
    assert w.get("/prices")["prices"]
    w.post("/budgets", {
        "scope": "queue", "target": "paid", "daily_usd": 10, "per_job_usd": 1,
        "limits": [{"unit": "tokens", "per": "window", "window": "1h",
                    "amount": 1000}]})
    w.post("/enqueue", {"queue": "paid", "expected_cost": 0.5,
                        "expected": {"tokens": 10}})
    job = w.post("/fetch", {"queues": ["paid"], "timeout": 0})
    w.post("/ack/{job_id}", {"usage": {
        "input_tokens": 5, "model": "large", "provider": "acme",
        "units": {"pages": 2}}}, job_id=job["job_id"])
    w.get("/jobs/{job_id}", job_id=job["job_id"])
    w.get("/queues/{queue}", queue="paid")
    assert w.get("/usage", query="?group_by=queue,day")["groups"]
    assert w.get("/usage/summary", query="?group_by=model")["groups"]
    assert w.get("/budgets")[0]["state"]
    w.post("/jobs/{job_id}/scores", {
        "name": "accuracy", "value": 0.5, "by": "ann", "comment": "fine"},
        job_id=job["job_id"])
    assert w.get("/providers")["providers"]
    assert w.get("/jobs/{job_id}/scores", job_id=job["job_id"])["scores"]
    assert w.get("/scores", query="?group_by=model&name=accuracy")["scores"]
    w.ask("DELETE", API + "/budgets/{scope}/{target}", scope="queue",
          target="paid")
    w.ask("DELETE", price, provider="acme", model="large")


def test_inbound_webhooks(world):
    w = world
    hook = API + "/hooks/{name}"
    w.ask("PUT", hook, {
        "queue": "in", "verify": "token", "secret": "s", "tags": {"a": "b"},
        "payload": {"b": ".body"}, "unique_key": ".body.k",
        "unique_period": "5m", "delivery_id": ".body.id", "priority": "high",
        "token_header": "X-Token", "max_retries": 2}, name="in")
    assert w.get("/hooks")["hooks"][0]["secrets"] == 1
    w.get("/hooks/{name}", name="in")
    w.ask("PUT", hook, {"queue": "in"}, name="in")
    w.post("/hooks/{name}", {"id": "d1"}, name="in")
    w.post("/webhooks/{queue}", {"a": 1}, queue="in")
    w.ask("DELETE", hook, name="in")


def test_scheduled_db(world):
    w = world
    body = {"id": "sdb", "type": "unico", "timestamp": "4102444800",
            "webhook_url": "http://127.0.0.1/", "payload": {"a": 1}}
    w.ask("POST", "/jobs", body)
    for path in ("", "/status", "/executions"):
        w.ask("GET", "/jobs/{id}" + path, id="sdb")
    w.ask("POST", "/jobs/{id}/cancel", {"reason": "no"}, id="sdb")
    w.ask("GET", "/jobs", query="?status=cancelled")
    w.ask("POST", "/jobs", {**body, "type": "recurrente", "id": "sdr",
                            "cron_expression": "0 3 * * *",
                            "last_date": "4133980800"})
    w.ask("GET", "/jobs/{id}/status", id="sdr")
    w.ask("GET", "/jobs/{id}/executions", id="sdr")
    w.ask("DELETE", "/jobs/{id}", id="sdr")
    w.ask("GET", "/health")
    w.ask("GET", "/debug/cluster")


def test_webhooks(world):
    w = world
    hook = API + "/webhooks/{id}"
    w.post("/webhooks", {
        "id": "out", "url": "http://u:p@127.0.0.1:9/x", "events": ["dead"],
        "queues": ["a*"], "secret": "0123456789abcdef", "retry_limit": 2,
        "previous_secret": "fedcba9876543210", "enabled": True,
        "retry_delay": "1s", "retry_max_delay": "1m", "timeout": "1s",
        "concurrency": 2, "headers": {"X-Key": "k"}, "disable_after": "1h"})
    assert w.get("/webhooks")[0]["secrets"] == 2
    w.post("/webhooks/{id}/test", None, id="out")
    wait_until(lambda: w.get("/webhooks/{id}/deliveries",
                             id="out")["deliveries"], what="a try")
    w.ask("PATCH", hook, {"queues": None, "enabled": True}, id="out")
    seq = w.get("/webhooks/{id}", id="out")["position"]
    w.post("/webhooks/{id}/deliveries/{seq}/replay", None, id="out",
           seq=str(seq))
    w.post("/webhooks/{id}/replay", {"from": "2020-01-01T00:00:00Z",
                                     "to": "2020-01-02T00:00:00Z"}, id="out")
    w.ask("DELETE", hook, id="out")


def test_every_route_with_json_was_asked(world):
    """The last one: whoever adds a route adds it above."""
    json_routes = {
        (m.upper(), path) for path, methods in world.doc["paths"].items()
        for m, route in methods.items()
        if any("application/json" in a.get("content", {})
               for status, a in route["responses"].items() if status < "300")}
    # Some need more than one node: tests/cluster.
    assert json_routes - world.asked == {
        ("GET", "/openapi.json"), ("POST", "/join"),
        ("POST", API + "/cluster/remove"),
        ("POST", API + "/cluster/join"), ("POST", API + "/cluster/leave"),
        ("POST", API + "/cluster/transfer")}
