"""What jobs have used: reports, sums, prices, days, CSV, the command line."""

import csv
import datetime
import io
import json
import os
import signal
import subprocess
from decimal import Decimal

import pytest

from node import API, CORVO

PRICE = f"{API}/providers/acme/models"


def usage(client, **arguments):
    a = client.get(f"{API}/usage?" + "&".join(
        f"{name}={value}" for name, value in arguments.items()))
    assert a.status == 200, a
    return a.json


def groups(client, by, **arguments):
    """{key: sums}"""
    found = usage(client, group_by=by, **arguments)["groups"]
    return {g["by"][by]: g for g in found}


def done(client, queue, report, **members):
    client.enqueue(queue, **members)
    job = client.fetch(queue)
    client.ack(job, usage=report)
    return job["job_id"]


def test_reports_of_every_kind_add_up(client, queue):
    client.enqueue(queue, retry_base_delay="1ms")
    job = client.fetch(queue)
    one = {"input_tokens": 100, "output_tokens": 20, "model": "large",
           "provider": "acme", "cost_usd": 0.0031}
    a = client.post(f"{API}/heartbeat", {"jobs": {job["job_id"]: {
        "lease_token": job["lease_token"], "usage": one}}})
    assert a.status == 200, a
    client.fail(job, usage={**one, "cost_usd": 1e-9})
    job = client.fetch(queue, timeout=30)
    a = client.post(f"{API}/ack/batch", {"acks": [{
        "job_id": job["job_id"], "lease_token": job["lease_token"],
        "usage": {"cache_read_tokens": 7, "cache_creation_tokens": 3,
                  "cost_usd": 12.5, "units": {"gpu_seconds": 12.5}}}]})
    assert a.json["acked"] == 1
    job = client.job(job["job_id"])
    assert job["usage"] == {
        "count": 3, "input_tokens": 200, "output_tokens": 40,
        "cache_creation_tokens": 3, "cache_read_tokens": 7,
        "cost_usd": 12.503100001, "units": {"gpu_seconds": 12.5},
        "model": "large", "provider": "acme"}
    assert [e["type"] for e in job["timeline"]].count("usage") == 3
    totals = usage(client, queue=queue)["totals"]
    assert totals["count"] == 3 and totals["input_tokens"] == 200
    assert groups(client, "model", queue=queue).keys() == {"large", ""}
    a = client.post(f"{API}/jobs/bulk-get", {"job_ids": [job["id"]]})
    assert a.json["jobs"][0]["usage"] == job["usage"]


def test_sums_are_exact_to_the_last_billionth(client, queue):
    """Against the events, added up without any floating numbers."""
    first = client.get(f"{API}/cluster/events?limit=1").json
    costs = ["0.1", "0.2", "0.000000001", "3.3e-5", "0.30000000000000004"]
    for cost in costs * 4:
        client.enqueue(queue)
        job = client.fetch(queue)
        body = ('{"usage": {"input_tokens": 1, "cost_usd": %s}, '
                '"lease_token": %d}' % (cost, job["lease_token"]))
        assert client.post(f"{API}/ack/{job['job_id']}", body).status == 200
    raw = client.get(f"{API}/cluster/events?queues={queue}&types=usage"
                     "&limit=1000").body.decode()
    events = json.loads(raw, parse_float=Decimal)["events"]
    assert len(events) == 20, first
    want = sum(Decimal(e["data"]["cost_usd"]) for e in events)
    raw = client.get(f"{API}/usage?queue={queue}").body.decode()
    totals = json.loads(raw, parse_float=Decimal)["totals"]
    assert totals["cost_usd"] == want == Decimal("2.400132004")
    assert totals["count"] == totals["input_tokens"] == 20


def test_a_report_is_not_counted_twice(client, queue):
    client.enqueue(queue)
    job = client.fetch(queue)
    beat = {"jobs": {job["job_id"]: {"lease_token": job["lease_token"],
                                     "usage": {"input_tokens": 5,
                                               "report_id": "call-1"}}}}
    for _ in range(3):
        assert client.post(f"{API}/heartbeat", beat).status == 200
    for _ in range(3):  # the very same ack: answered as the first time
        client.ack(job, usage={"input_tokens": 6, "report_id": "call-2"})
    assert usage(client, queue=queue)["totals"]["input_tokens"] == 11
    a = client.post(f"{API}/ack/{job['job_id']}", {
        "lease_token": job["lease_token"], "usage": {"input_tokens": 7}})
    assert (a.status, a.code) == (409, "LEASE_LOST")
    assert usage(client, queue=queue)["totals"]["input_tokens"] == 11


def test_a_cost_follows_from_the_price_list(client, queue):
    report = {"input_tokens": 1000, "output_tokens": 500, "model": queue,
              "provider": "acme", "units": {"pages": 4}}
    job_id = done(client, queue, report)
    assert client.job(job_id)["usage"]["unpriced"] == 1
    a = client.request("PUT", f"{PRICE}/{queue}", {
        "input_per_million": 3, "output_per_million": 15,
        "units": {"pages": 0.01}})
    assert a.status == 200 and a.json["input_per_million"] == 3, a
    assert [p for p in client.get(f"{API}/prices").json["prices"]
            if p["model"] == queue][0]["output_per_million"] == 15
    used = client.job(done(client, queue, report))["usage"]
    assert used["cost_usd"] == used["computed_usd"] == 0.0505
    # what the worker says counts, and is not marked
    used = client.job(done(client, queue, {**report, "cost_usd": 0}))["usage"]
    assert used["cost_usd"] == 0 and "computed_usd" not in used
    events = client.get(f"{API}/cluster/events?queues={queue}&types=usage"
                        "&limit=1000").json["events"]
    assert [e["data"].get("computed") for e in events] == [None, True, None]
    assert client.request("DELETE", f"{PRICE}/{queue}").status == 200
    assert client.request("DELETE", f"{PRICE}/{queue}").status == 404


@pytest.mark.parametrize("report, member", [
    ({"input_tokens": -1}, "usage.input_tokens"),
    ({"input_tokens": 1.5}, "usage.input_tokens"),
    ({"output_tokens": 1e12}, "usage.output_tokens"),
    ({"cost_usd": -0.01}, "usage.cost_usd"),
    ({"cost_usd": 1000001}, "usage.cost_usd"),
    ({"cost_usd": "1"}, "usage.cost_usd"),
    ({"model": 3}, "usage.model"),
    ({"model": "m" * 129}, "usage.model"),
    ({"units": {"pages": -1}}, "usage.units.pages"),
    ({"units": {"pages": "1"}}, "usage.units.pages"),
    ({"units": {"usd": 1}}, "usage.units.usd"),
    ({"units": [1]}, "usage.units"),
    ("much", "usage"),
])
def test_what_cannot_be_is_refused_by_name(client, report, member):
    queue = "refused"
    client.enqueue(queue)
    job = client.fetch(queue)
    for path, body in (
            (f"/ack/{job['job_id']}", {"usage": report}),
            (f"/fail/{job['job_id']}", {"error": "x", "usage": report}),
            ("/ack/batch", {"acks": [{"job_id": job["job_id"],
                                      "usage": report}]}),
            ("/heartbeat", {"jobs": [{"job_id": job["job_id"],
                                      "usage": report}]})):
        a = client.post(API + path, body)
        assert (a.status, a.code) == (400, "VALIDATION_ERROR"), (path, a)
        assert member in a.json["error"], a
    assert client.state(job["job_id"]) == "active"
    assert usage(client, queue=queue)["totals"]["count"] == 0
    client.ack(job)


def test_tags_that_the_settings_name(client, queue):
    a = client.request("PATCH", f"{API}/usage/settings", {"tags": ["team"]})
    assert a.status == 200 and a.json["tags"] == ["team"], a
    for team in ("red", "blue", "red"):
        done(client, queue, {"input_tokens": 1}, tags={"team": team})
    found = groups(client, "tag:team", queue=queue)
    assert {k: g["count"] for k, g in found.items()} == {"red": 2, "blue": 1}
    assert usage(client, queue=queue, tag="team:blue")["totals"]["count"] == 1
    assert usage(client, queue=queue, tag="team:pink")["totals"]["count"] == 0
    for bad in ({"tags": [""]}, {"tags": ["a", "a"]}, {"tags": None}, {},
                {"timezone": "Mars/Phobos"}, {"tags": ["t"] * 9}):
        a = client.request("PATCH", f"{API}/usage/settings", bad)
        assert (a.status, a.code) == (400, "VALIDATION_ERROR"), a
    assert client.get(f"{API}/usage/settings").json["tags"] == ["team"]


def test_days_of_the_zone(client, queue):
    """In Kiritimati it is tomorrow, or will be within ten hours."""
    a = client.request("PATCH", f"{API}/usage/settings",
                       {"timezone": "Pacific/Kiritimati"})
    assert a.status == 200 and "offsets" not in a.json, a
    done(client, queue, {"input_tokens": 1})
    now = datetime.datetime.now(datetime.timezone.utc)
    there = now + datetime.timedelta(hours=14)
    found = groups(client, "local_day", queue=queue)
    assert list(found) == [str(there.date())]
    day = there.date()
    inside = usage(client, queue=queue, days="local", **{
        "from": day, "to": day + datetime.timedelta(days=1)})
    assert inside["totals"]["count"] == 1
    before = usage(client, queue=queue, days="local", **{
        "from": day - datetime.timedelta(days=2), "to": day})
    assert before["totals"]["count"] == 0


def test_summary_as_before(client, queue):
    done(client, queue, {"input_tokens": 3, "cost_usd": 5, "model": queue})
    a = client.get(f"{API}/usage/summary?period=24h&group_by=model")
    assert a.status == 200, a
    assert a.json["period"] == "24h" and a.json["from"] < a.json["to"]
    six = {"input_tokens", "output_tokens", "cache_creation_tokens",
           "cache_read_tokens", "cost_usd", "count"}
    assert six <= a.json["totals"].keys()
    costs = [g["cost_usd"] for g in a.json["groups"]]
    assert costs == sorted(costs, reverse=True)
    mine = [g for g in a.json["groups"] if g["key"] == queue]
    assert len(mine) == 1 and six <= mine[0].keys()
    assert "groups" not in client.get(f"{API}/usage/summary").json
    for bad in ("period=soon", "period=0s", "group_by=colour",
                "group_by=queue,model"):
        a = client.get(f"{API}/usage/summary?{bad}")
        assert (a.status, a.code) == (400, "VALIDATION_ERROR"), a
        a = client.get(f"{API}/usage/summary?{bad}",
                       {"X-Corvo-Compat": "0.3"})
        assert (a.status, a.code) == (400, "USAGE_SUMMARY_ERROR"), a


@pytest.mark.parametrize("arguments", [
    "from=yesterday", "to=2026-13-01", "format=xml", "days=mine",
    "days=local", "group_by=colour", "group_by=tag:", "tag=team",
    "group_by=queue,model,provider,day,hour",
    "from=2026-01-02&to=2026-01-01"])
def test_questions_that_make_no_sense(client, arguments):
    a = client.get(f"{API}/usage?{arguments}")
    assert (a.status, a.code) == (400, "VALIDATION_ERROR"), a
    assert arguments.split("=")[0] in a.json["error"]


def test_csv(client, queue):
    model = 'big "one", really'
    done(client, queue, {"input_tokens": 3, "cost_usd": 0.25, "model": model,
                         "units": {"pages": 1.5}})
    done(client, queue, {"input_tokens": 4})
    a = client.get(f"{API}/usage?queue={queue}&group_by=queue,model"
                   "&format=csv")
    assert a.headers["Content-Type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(a.body.decode())))
    assert [r["model"] for r in rows] == ["", model]
    assert rows[1]["cost_usd"] == "0.25" and rows[1]["queue"] == queue
    assert json.loads(rows[1]["units"]) == {"pages": 1.5}
    assert rows[0]["unpriced"] == "1"
    a = client.get(f"{API}/usage?queue={queue}&format=csv")
    rows = list(csv.DictReader(io.StringIO(a.body.decode())))
    assert len(rows) == 1 and rows[0]["input_tokens"] == "7"


def test_metrics_count_reports(client, queue):
    before = client.metrics()
    done(client, queue, {"input_tokens": 3, "output_tokens": 4,
                         "cost_usd": 0.5})
    after = client.metrics()
    for name, more in (("corvo_usage_reports_total", 1),
                       ('corvo_usage_tokens_total{kind="input"}', 3),
                       ('corvo_usage_tokens_total{kind="output"}', 4),
                       ("corvo_usage_cost_usd_total", 0.5)):
        assert after[name] - before[name] == pytest.approx(more), name


def test_sums_survive_a_kill(make_node, queue):
    node = make_node().start()
    with node.client() as c:
        assert c.request("PUT", f"{PRICE}/large",
                         {"input_per_million": 2}).status == 200
        for _ in range(5):
            done(c, queue, {"input_tokens": 10, "model": "large",
                            "provider": "acme"})
        before = groups(c, "model", queue=queue)
    node.kill_all()
    node.start()
    with node.client() as c:
        assert groups(c, "model", queue=queue) == before
        assert before["large"]["computed_usd"] == 0.0001
        job_id = done(c, queue, {"input_tokens": 10, "model": "large",
                                 "provider": "acme"})
        assert c.job(job_id)["usage"]["cost_usd"] == 0.00002


def test_raftd_killed_between_reports_counts_each_once(make_node, queue):
    node = make_node().start()
    with node.client() as c:
        for i in range(30):
            c.enqueue(queue)
            job = c.fetch(queue)
            if i % 10 == 5:
                os.kill(node.pids()["raftd"], signal.SIGKILL)
            c.ack(job, usage={"input_tokens": 1, "cost_usd": 0.001})
        totals = usage(c, queue=queue)["totals"]
        assert (totals["count"], totals["cost_usd"]) == (30, 0.03)


def corvo(node, *words):
    return subprocess.run(
        [CORVO, *words, "--server", f"http://127.0.0.1:{node.port}"],
        capture_output=True, text=True, check=False)


def test_command_line(node, client, queue):
    done(client, queue, {"input_tokens": 3, "cost_usd": 0.125,
                         "model": "large"})
    p = corvo(node, "usage", "--queue", queue, "--group-by", "model")
    assert p.returncode == 0, p
    assert "Cost (usd):          0.125" in p.stdout
    assert "large" in p.stdout.split("Groups:")[1]
    p = corvo(node, "usage", "--period", "1h", "--output", "json")
    assert json.loads(p.stdout)["period"] == "1h"
    p = corvo(node, "prices", "set", "acme", "cli/model",
              "input_per_million=3")
    assert p.returncode == 0, p
    assert "cli/model" in corvo(node, "prices").stdout
    assert corvo(node, "prices", "delete", "acme", "cli/model").returncode == 0
    assert "cli/model" not in corvo(node, "prices").stdout
    p = corvo(node, "usage", "set", 'tags=["team"]')
    assert json.loads(p.stdout)["tags"] == ["team"]
    p = corvo(node, "usage", "set", "tag=team")
    assert p.returncode == 2 and "tag" in p.stderr


def test_searches_by_cost_and_model(node, client, queue):
    ids = [done(client, queue, {"input_tokens": 1, "cost_usd": cost,
                                "model": model})
           for cost, model in ((0.5, "small"), (2.000000001, "large"),
                               (1, "large"))]
    ids.append(client.enqueue(queue))

    def found(**members):
        return [j["id"] for j in client.search(queue=queue, **members)["jobs"]]
    assert found(sort="cost") == [ids[1], ids[2], ids[0], ids[3]]
    assert found(sort="cost", order="asc", limit=2) == [ids[3], ids[0]]
    assert set(found(cost_min=1)) == {ids[1], ids[2]}
    assert set(found(cost_min=2.000000001)) == {ids[1]}
    assert set(found(cost_max=0.5)) == {ids[0], ids[3]}
    assert set(found(model="large")) == {ids[1], ids[2]}
    row = client.search(queue=queue, model="small")["jobs"][0]
    assert row["usage"] == client.job(ids[0])["usage"]
    a = client.post(f"{API}/jobs/search", {"cost_min": -1})
    assert (a.status, a.code) == (400, "VALIDATION_ERROR"), a
    p = corvo(node, "search", "--queue", queue, "--cost-min", "0.75",
              "--output", "ids")
    assert set(p.stdout.split()) == {ids[1], ids[2]}
    a = client.post(f"{API}/admin/verify-view")
    assert a.json["status"] == "ok", a
