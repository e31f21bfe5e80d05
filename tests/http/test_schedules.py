"""Schedules from outside: definitions, times, and the jobs they create."""

import json
import subprocess
import time
from pathlib import Path
from urllib.parse import quote

import pytest

from node import API, CORVO, seconds_of, wait_until

# By a timer: nothing that looks now and then is as quick even once in a few
# times. The strict figures are those of bench/timers.py.
TIMELY_S = 0.5
FAR = "0 0 1 1 *"  # does not come while a test runs
EVERY_SECOND = "* * * * * *"


def rfc3339(seconds):
    whole = int(seconds)
    text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))
    return f"{text}.{int((seconds - whole) * 1e6):06d}Z"


def create(client, queue, cron=FAR, **more):
    a = client.post(f"{API}/schedules", {"name": queue, "queue": queue,
                                         "cron": cron, **more})
    assert a.status == 201, a
    return a.json


def get(client, name):
    a = client.get(f"{API}/schedules/{quote(name, safe='')}")
    assert a.status == 200, a
    return a.json


def act(client, name, action):
    a = client.post(f"{API}/schedules/{quote(name, safe='')}/{action}")
    assert a.status == 200, a
    return a.json


def delete(client, name):
    return client.request("DELETE", f"{API}/schedules/{quote(name, safe='')}")


def jobs_of(client, queue):
    a = client.post(f"{API}/jobs/search", {"queue": queue, "order": "asc",
                                           "limit": 1000})
    return [client.job(j["id"]) for j in a.json["jobs"]]


def runs_reach(client, name, n):
    return wait_until(lambda: get(client, name)["runs"] >= n and
                      get(client, name), 15, f"{n} runs of {name}")


# --- definitions ------------------------------------------------------------


def test_create_as_in_the_documents(client, queue):
    a = client.post(f"{API}/schedules", {
        "name": "daily-report", "queue": queue, "cron": "0 9 * * *",
        "timezone": "America/New_York", "payload": {"type": "daily"},
        "unique_key": "daily-report"})
    assert a.status == 201
    s = a.json
    assert s["id"].startswith("sch_")
    assert s["job"] == {"payload": {"type": "daily"},
                        "unique_key": "daily-report"}
    assert s["paused"] is False and s["runs"] == 0
    # nine in New York is 13:00 or 14:00 UTC
    assert s["next_run"][11:] in ("13:00:00Z", "14:00:00Z")
    assert get(client, "daily-report") == get(client, s["id"]) == s
    assert s in client.get(f"{API}/schedules").json["schedules"]
    assert delete(client, "daily-report").json == {"status": "deleted"}
    a = client.get(f"{API}/schedules/{s['id']}")
    assert (a.status, a.code) == (404, "NOT_FOUND")
    assert delete(client, "daily-report").status == 404


def test_job_members_beside_and_under_job(client, queue):
    s = create(client, queue, payload=1, priority="high", max_retries=7,
               job={"payload": 2, "tags": {"a": "b"}})
    assert s["job"]["payload"] == 2
    assert s["job"]["priority"] == "high"
    assert s["job"]["max_retries"] == 7
    assert s["job"]["tags"] == {"a": "b"}


def test_a_name_exists_once(client, queue):
    create(client, queue)
    a = client.post(f"{API}/schedules", {"name": queue, "queue": "other",
                                         "cron": FAR})
    assert (a.status, a.code) == (409, "CONFLICT")


def test_put_replaces_the_definition_and_keeps_the_past(client, queue):
    s = create(client, queue, payload={"n": 1}, overlap="skip")
    act(client, queue, "run")
    a = client.request("PUT", f"{API}/schedules/{s['id']}", {
        "queue": queue + "-2", "cron": "30 4 * * *", "timezone": "Asia/Tokyo"})
    assert a.status == 200, a
    assert a.json["id"] == s["id"] and a.json["name"] == queue
    assert a.json["created_at"] == s["created_at"]
    assert a.json["runs"] == 1 and "last_run" in a.json
    assert a.json["next_run"].endswith("19:30:00Z")
    assert a.json["job"] == {} and "overlap" not in a.json
    # by name, to another name
    a = client.request("PUT", f"{API}/schedules/{queue}", {
        "name": "renamed " + queue, "queue": queue, "cron": FAR})
    assert a.json["id"] == s["id"]
    assert get(client, "renamed " + queue)["id"] == s["id"]
    assert client.get(f"{API}/schedules/{queue}").status == 404
    a = client.request("PUT", f"{API}/schedules/nobody",
                       {"queue": queue, "cron": FAR})
    assert (a.status, a.code) == (404, "NOT_FOUND")


def test_names_may_be_any_text(client, queue):
    name = f"{queue}/ä b?c#%25"
    create(client, queue, name=name)
    assert get(client, name)["name"] == name
    assert act(client, name, "pause")["paused"] is True
    assert delete(client, name).status == 200


def test_the_server_sets_what_is_its_own(client, queue):
    s = create(client, queue, next_run="2000-01-01T00:00:00Z", runs=9,
               last_job_id="x", id="mine", ended=True)
    assert s["runs"] == 0 and s["id"] != "mine"
    assert s["next_run"] > "2026" and "last_job_id" not in s
    assert "ended" not in s


def test_list_in_pages(client, queue):
    ids = [create(client, queue, name=f"{queue}-{i}")["id"] for i in range(5)]
    got, after = [], ""
    while True:
        page = client.get(f"{API}/schedules?limit=2{after}").json
        assert len(page["schedules"]) <= 2
        got += [s["id"] for s in page["schedules"]]
        if "next" not in page:
            break
        after = "&after=" + page["next"]
    assert got == sorted(got)
    assert [i for i in got if i in ids] == ids


@pytest.mark.parametrize("change, code, words", [
    ({"name": None}, "VALIDATION_ERROR", "name"),
    ({"queue": None}, "VALIDATION_ERROR", "queue"),
    ({"cron": None}, "VALIDATION_ERROR", "cron"),
    ({"cron": "0 25 * * *"}, "SCHEDULE_ERROR",
     "cron: hour field, character 3"),
    ({"cron": "* * *"}, "SCHEDULE_ERROR", "5 fields"),
    ({"cron": "0 0 30 2 *"}, "SCHEDULE_ERROR", "never"),
    ({"cron": "* " * 200}, "VALIDATION_ERROR", "cron"),
    ({"timezone": "Mars/Olympus"}, "SCHEDULE_ERROR", "timezone"),
    ({"timezone": "../../etc/passwd"}, "SCHEDULE_ERROR", "timezone"),
    ({"end_at": "2001-01-01T00:00:00Z"}, "SCHEDULE_ERROR", "end_at"),
    ({"dst": "sometimes"}, "VALIDATION_ERROR", "dst"),
    ({"catch_up": "maybe"}, "VALIDATION_ERROR", "catch_up"),
    ({"overlap": "maybe"}, "VALIDATION_ERROR", "overlap"),
    ({"jitter": "soon"}, "VALIDATION_ERROR", "jitter"),
    ({"max_runs": -1}, "VALIDATION_ERROR", "max_runs"),
    ({"name": "sch_01M7F1K1KZVTT9NDZ6800NBA01"}, "VALIDATION_ERROR", "name"),
    ({"name": "s03_sch_01M7F1K1KZVTT9NDZ6800NBA01"}, "VALIDATION_ERROR",
     "name"),
    ({"name": "a\nb"}, "VALIDATION_ERROR", "name"),
    ({"job": 5}, "VALIDATION_ERROR", "job"),
])
def test_refusals_say_what_is_wrong(client, queue, change, code, words):
    body = {"name": queue, "queue": queue, "cron": FAR, **change}
    body = {k: v for k, v in body.items() if v is not None}
    a = client.post(f"{API}/schedules", body)
    assert (a.status, a.code) == (400, code), a
    assert words in a.json["error"]
    assert client.get(f"{API}/schedules/{quote(queue)}").status == 404


# --- times ------------------------------------------------------------------


def preview(client, cron, **more):
    a = client.post(f"{API}/schedules/preview", {"cron": cron, **more})
    assert a.status == 200, a
    return a.json["times"]


def test_preview(client):
    assert preview(client, "30 2 * * *", timezone="Europe/Berlin", count=2,
                   after="2026-03-28T12:00:00Z") == \
        ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]
    assert preview(client, "30 2 * * *", timezone="Europe/Berlin", count=1,
                   dst="shift", after="2026-03-28T12:00:00Z") == \
        ["2026-03-29T01:30:00Z"]
    assert preview(client, "30 2 * * *", timezone="Europe/Berlin", count=1,
                   dst="skip", after="2026-03-28T12:00:00Z") == \
        ["2026-03-30T00:30:00Z"]
    assert preview(client, "@every 90s", start_at="2100-01-01T00:00:00Z",
                   end_at="2100-01-01T00:03:00Z") == \
        ["2100-01-01T00:00:00Z", "2100-01-01T00:01:30Z",
         "2100-01-01T00:03:00Z"]
    assert preview(client, "@every 1h", after="2100-01-01T00:00:00Z",
                   count=2) == ["2100-01-01T01:00:00Z", "2100-01-01T02:00:00Z"]
    first = seconds_of(preview(client, "@every 1h", count=1)[0])
    assert 3590 < first - time.time() <= 3600
    assert len(preview(client, "* * * * *")) == 5
    for body in ({}, {"cron": "* * * * *", "count": 101},
                 {"cron": "* * * * *", "count": 0}):
        a = client.post(f"{API}/schedules/preview", body)
        assert (a.status, a.code) == (400, "VALIDATION_ERROR")
    a = client.post(f"{API}/schedules/preview", {"cron": "@sometimes"})
    assert (a.status, a.code) == (400, "SCHEDULE_ERROR")


def test_next_times(client, queue):
    s = create(client, queue, cron="0 * * * *", max_runs=3)
    times = client.get(f"{API}/schedules/{queue}/next").json["times"]
    assert len(times) == 3, "no more than max_runs"
    assert times[0] == s["next_run"]
    assert [seconds_of(b) - seconds_of(a) for a, b in zip(times, times[1:])] \
        == [3600, 3600]
    assert len(client.get(f"{API}/schedules/{queue}/next?count=2")
               .json["times"]) == 2
    for count in ("0", "101", "x"):
        a = client.get(f"{API}/schedules/{queue}/next?count={count}")
        assert (a.status, a.code) == (400, "VALIDATION_ERROR")
    act(client, queue, "pause")
    assert client.get(f"{API}/schedules/{queue}/next").json["times"] == []


def test_jitter_moves_every_time_alike(client, queue):
    s = create(client, queue, cron="0 * * * *", jitter="10m")
    times = client.get(f"{API}/schedules/{queue}/next").json["times"]
    parts = {round(seconds_of(t) % 3600, 3) for t in times}
    assert len(parts) == 1 and 0 <= parts.pop() < 600
    assert times[0] == s["next_run"]


# --- firing -----------------------------------------------------------------


def test_fires_on_time_and_once(client, queue):
    create(client, queue, cron=EVERY_SECOND, payload={"n": 1}, max_retries=4,
           tags={"k": "v"}, max_runs=4, catch_up="all")
    s = runs_reach(client, queue, 4)
    assert s["ended"] is True and "next_run" not in s
    jobs = jobs_of(client, queue)
    assert len(jobs) == 4
    times = [seconds_of(j["scheduled_for"]) for j in jobs]
    assert times == [times[0] + i for i in range(4)]
    late = [seconds_of(j["created_at"]) - t for j, t in zip(jobs, times)]
    print("late by ms:", [round(x * 1000, 2) for x in late])
    assert min(late) >= 0, "never early"
    assert min(late) <= TIMELY_S, "always late"
    for j in jobs:
        assert j["payload"] == {"n": 1} and j["max_retries"] == 4
        assert j["tags"] == {"k": "v"} and j["schedule_id"] == s["id"]
    assert s["last_job_id"] == jobs[-1]["id"]
    # a parked worker gets the next one at once
    act(client, queue, "run")
    assert client.fetch(queue)["job_id"] == jobs[0]["id"]


def test_end_at_ends_it(client, queue):
    end = time.time() + 2.5
    create(client, queue, cron=EVERY_SECOND, end_at=rfc3339(end))
    s = wait_until(lambda: get(client, queue).get("ended") and
                   get(client, queue), 15, "the end")
    assert 1 <= s["runs"] <= 3
    assert all(seconds_of(j["scheduled_for"]) <= end
               for j in jobs_of(client, queue))


def test_start_at(client, queue):
    start = int(time.time()) + 3
    s = create(client, queue, cron="@every 1s", start_at=rfc3339(start),
               max_runs=2, catch_up="all")
    assert seconds_of(s["next_run"]) == start
    runs_reach(client, queue, 2)
    assert [seconds_of(j["scheduled_for"]) for j in jobs_of(client, queue)] \
        == [start, start + 1]


def test_pause_and_resume(client, queue):
    create(client, queue, cron=EVERY_SECOND)
    runs_reach(client, queue, 1)
    s = act(client, queue, "pause")
    assert s["paused"] is True and "next_run" not in s
    # two more seconds pass for another schedule, none for this one
    create(client, queue + "-clock", cron=EVERY_SECOND)
    runs_reach(client, queue + "-clock", 2)
    assert get(client, queue)["runs"] == s["runs"]
    began = time.time()
    s = act(client, queue, "resume")
    assert s["paused"] is False
    assert seconds_of(s["next_run"]) > began
    runs_reach(client, queue, s["runs"] + 1)
    for name in (queue, queue + "-clock"):
        assert delete(client, name).status == 200


def test_run_now(client, queue):
    s = create(client, queue, payload={"x": 1})
    a = act(client, queue, "run")
    assert a["status"] == "created"
    job = client.job(a["job_id"])
    assert job["payload"] == {"x": 1} and job["schedule_id"] == s["id"]
    now = get(client, queue)
    assert now["next_run"] == s["next_run"], "its times stay"
    assert now["last_job_id"] == a["job_id"] and now["runs"] == 1
    a = client.post(f"{API}/schedules/nobody/run")
    assert (a.status, a.code) == (404, "NOT_FOUND")


def test_overlap_skip(client, queue):
    create(client, queue, overlap="skip")
    first = act(client, queue, "run")["job_id"]
    assert act(client, queue, "run") == {"status": "skipped",
                                         "reason": "overlap"}
    job = client.fetch(queue)
    assert job["job_id"] == first
    assert act(client, queue, "run")["status"] == "skipped"
    client.ack(job)
    assert act(client, queue, "run")["status"] == "created"


def test_overlap_cancel_previous(client, queue):
    create(client, queue, overlap="cancel_previous")
    first = act(client, queue, "run")["job_id"]
    second = act(client, queue, "run")["job_id"]
    assert client.state(first) == "cancelled"
    assert client.fetch(queue)["job_id"] == second
    act(client, queue, "run")
    assert client.job(second)["cancel_requested"] is True


def test_unique_key_of_the_job_applies(client, queue):
    create(client, queue, unique_key="k")
    first = act(client, queue, "run")["job_id"]
    assert act(client, queue, "run") == {"status": "skipped",
                                         "reason": "unique_key"}
    assert client.post(f"{API}/jobs/{first}/cancel").status == 200
    assert act(client, queue, "run")["status"] == "created"


# --- the command line -------------------------------------------------------


def test_verbs_of_the_command_line(node, client, queue):
    def corvo(*words, status=0):
        p = subprocess.run([str(CORVO), "schedules", *words, "--server",
                            f"http://127.0.0.1:{node.port}"], timeout=60,
                           stdin=subprocess.DEVNULL, capture_output=True,
                           text=True)
        assert p.returncode == status, p.stdout + p.stderr
        return p.stdout + p.stderr

    assert "next run: 20" in corvo(
        "create", queue, queue, "0 5 * * *", '{"n":1}', "--timezone",
        "Asia/Tokyo", "--overlap", "skip", "--max-runs", "9", "--tags",
        '{"a":"b"}')
    s = json.loads(corvo("get", queue))
    assert s["timezone"] == "Asia/Tokyo" and s["max_runs"] == 9
    assert s["job"] == {"payload": {"n": 1}, "tags": {"a": "b"}}
    assert queue in corvo()
    assert len(corvo("next", queue, "--count", "3").split()) == 3
    assert "Schedule paused" in corvo("pause", queue)
    assert get(client, queue)["paused"] is True
    assert "Schedule resumed" in corvo("resume", queue)
    assert "Job created: job_" in corvo("run", queue)
    assert "No job: overlap" in corvo("run", queue)
    assert "deleted" in corvo("delete", queue)
    assert "not found" in corvo("get", queue, status=1)
    assert "hour field, character 3" in corvo("preview", "0 99 * * *",
                                              status=1)


# --- downtime ---------------------------------------------------------------


def stop_and_start(node, seconds):
    """Stops the node, waits for the clock, starts it; the time it was down."""
    down = time.time()
    node.stop_all()
    wait_until(lambda: time.time() > down + seconds, seconds + 5, "the clock")
    node.start_all()
    return down, time.time()


@pytest.fixture
def own_node(make_node):
    return make_node().start()


def test_catch_up_after_downtime(own_node):
    policies = ("none", "last", "all")
    with own_node.client() as c:
        for p in policies:
            create(c, p, cron=EVERY_SECOND, catch_up=p)
        for p in policies:
            runs_reach(c, p, 1)
        before = {p: get(c, p) for p in policies}
    stop_and_start(own_node, 4)
    with own_node.client() as c:
        for p in policies:
            runs_reach(c, p, before[p]["runs"] + 3)
            act(c, p, "pause")
        got = {p: [int(seconds_of(j["scheduled_for"]))
                   for j in jobs_of(c, p)] for p in policies}
    gaps = {p: max(b - a for a, b in zip(t, t[1:])) for p, t in got.items()}
    assert gaps["all"] == 1, got
    assert gaps["last"] >= 3 and gaps["none"] >= 4, got
    for times in got.values():
        assert len(set(times)) == len(times), "one job for each time"


def test_definitions_survive_a_restart(own_node):
    with own_node.client() as c:
        create(c, "kept", payload={"a": 1}, timezone="Asia/Tokyo")
        create(c, "resting")
        act(c, "resting", "pause")
        before = c.get(f"{API}/schedules").json
    stop_and_start(own_node, 0)
    with own_node.client() as c:
        assert c.get(f"{API}/schedules").json == before


def test_schedule_whose_zone_has_gone_is_paused(make_node, monkeypatch,
                                                tmp_path):
    zone = tmp_path / "Mine"
    zone.write_bytes(Path("/usr/share/zoneinfo/Asia/Tokyo").read_bytes())
    monkeypatch.setenv("TZDIR", str(tmp_path))
    node = make_node().start()
    with node.client() as c:
        create(c, "lost", cron=EVERY_SECOND, timezone="Mine")
        create(c, "fine", cron=EVERY_SECOND)
        runs_reach(c, "lost", 1)
        zone.unlink()
        wait_until(lambda: get(c, "lost")["paused"], 15, "the pause")
        assert "schedule lost is paused: timezone" in node.all_logs()
        runs_reach(c, "fine", get(c, "fine")["runs"] + 1)
        a = c.post(f"{API}/schedules/lost/resume")
        assert (a.status, a.code) == (400, "SCHEDULE_ERROR")
