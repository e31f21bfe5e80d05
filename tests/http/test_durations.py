"""Durations of a job are shown as they were given: a number as a number, a
text as a text, wherever they are shown."""

import pytest

from node import API, wait_until

AS_GIVEN = [(77, 77), (0.5, 0.5), (3600, 3600), (1e6, 1000000),
            ("77s", "1m17s"), ("90m", "1h30m"), ("2h", "2h")]


def shown(client, job_id, queue):
    """The same job in every answer that has it."""
    found = client.search(queue=queue)["jobs"]
    some = client.post(f"{API}/jobs/bulk-get", {"job_ids": [job_id]}).json
    return [client.job(job_id),
            *[j for j in found if j["id"] == job_id],
            *[j for j in some["jobs"] if j["id"] == job_id]]


@pytest.mark.parametrize("given,told", AS_GIVEN)
def test_a_job_shows_numbers_and_texts(client, queue, given, told):
    a = client.post(f"{API}/enqueue", {
        "queue": queue, "unique_key": "k", "unique_period": given,
        "expire_after": given})
    jobs = [a.json["job"], *shown(client, a.json["job_id"], queue)]
    assert len(jobs) == 4
    for job in jobs:
        assert repr(job["unique_period"]) == repr(told), job
        assert repr(job["expire_after"]) == repr(told), job
        assert job["expire_after_ms"] == job["unique_period_ms"]


def test_each_is_shown_for_itself(client, queue):
    a = client.post(f"{API}/enqueue/batch", {"jobs": [
        {"queue": queue, "expire_after": 90},
        {"queue": queue, "expire_after": "90s"},
        {"queue": queue, "expire_after_ms": 90000},
        {"queue": queue, "expire_after_ms": 90000, "expire_after": 90},
        {"queue": queue, "unique_key": "k", "unique_period": 90,
         "expire_after": "90s"}]})
    assert a.status == 201, a
    told = [90, "1m30s", "1m30s", 90, "1m30s"]
    for job_id, as_told in zip(a.json["job_ids"], told):
        for job in shown(client, job_id, queue):
            assert job["expire_after"] == as_told
            assert job["expire_after_ms"] == 90000
    assert job["unique_period"] == 90


def test_a_job_can_be_sent_as_it_is_shown(client, queue):
    a = client.post(f"{API}/enqueue", {"queue": queue, "expire_after": 77})
    job = client.job(a.json["job_id"])
    again = client.post(f"{API}/enqueue", {
        "queue": queue, "expire_after": job["expire_after"],
        "expire_after_ms": job["expire_after_ms"]})
    assert client.job(again.json["job_id"])["expire_after"] == 77


def test_it_outlives_the_view_and_the_process(make_node):
    node = make_node().start()
    with node.client() as c:
        job_id = c.enqueue("q", expire_after=7777)
        assert c.post(f"{API}/admin/rebuild-sqlite").status == 200
        assert [j["expire_after"] for j in shown(c, job_id, "q")] == [7777] * 3
        a = c.post(f"{API}/admin/verify-view").json
        assert a["differences"] == 0, a
    node.kill_all()
    node.start()
    with node.client() as c:
        wait_until(node.has_view, 60, "the view")
        assert [j["expire_after"] for j in shown(c, job_id, "q")] == [7777] * 3


@pytest.mark.parametrize("is_beside", [False, True])
def test_a_schedule_and_its_jobs(client, queue, is_beside):
    members = {"expire_after": 77, "unique_key": "k", "unique_period": "90m"}
    body = {"name": queue, "queue": queue, "cron": "@yearly",
            **(members if is_beside else {"job": members})}
    a = client.post(f"{API}/schedules", body)
    assert a.status == 201, a
    listed = [s for s in client.get(f"{API}/schedules").json["schedules"]
              if s["name"] == queue]
    for s in (a.json, client.get(f"{API}/schedules/{queue}").json, *listed):
        assert s["job"]["expire_after"] == 77
        assert s["job"]["unique_period"] == "1h30m"
    a = client.post(f"{API}/schedules/{queue}/run")
    for job in shown(client, a.json["job_id"], queue):
        assert job["expire_after"] == 77
        assert job["unique_period"] == "1h30m"


@pytest.mark.parametrize("given,told", AS_GIVEN)
def test_a_hook_and_its_jobs(client, given, told):
    hook = "h" + str(abs(hash(given)))
    a = client.request("PUT", f"{API}/hooks/{hook}", {
        "queue": hook, "unique_key": ".body.id", "unique_period": given})
    assert a.status == 200, a
    assert a.json["unique_period"] == told
    assert client.get(f"{API}/hooks/{hook}").json["unique_period"] == told
    a = client.post(f"{API}/hooks/{hook}", {"id": "x"})
    assert a.status == 201, a
    for job in shown(client, a.json["job_id"], hook):
        assert job["unique_period"] == told
