"""POST /jobs/search: filters, order, pages."""

import pytest

from node import API

JOBS = 500


@pytest.fixture(scope="module")
def filled(node):
    """500 jobs of one queue in five states: {state: ids in order}."""
    with node.client() as c:
        ids = []
        for start in range(0, JOBS, 100):
            a = c.post(f"{API}/enqueue/batch", {"jobs": [
                {"queue": "big", "payload": i, "max_retries": 1,
                 "tags": {"n": str(i)}} for i in range(start, start + 100)]})
            ids += a.json["job_ids"]
        jobs = c.post(f"{API}/fetch/batch", {
            "queues": ["big"], "count": 300, "timeout": 0}).json["jobs"]
        for job in jobs[:100]:
            c.ack(job)
        for job in jobs[100:200]:
            c.fail(job, error="by test")
        for job_id in ids[300:400]:
            c.post(f"{API}/jobs/{job_id}/cancel")
        return {"completed": ids[:100], "dead": ids[100:200],
                "active": ids[200:300], "cancelled": ids[300:400],
                "pending": ids[400:], "all": ids}


def pages(client, **members):
    """All pages, as lists of ids; each answer is checked."""
    out = []
    while True:
        a = client.search(**members)
        assert isinstance(a["jobs"], list) and isinstance(a["duration_ms"], int)
        out.append([j["id"] for j in a["jobs"]])
        assert ("cursor" in a) == a["has_more"]
        # one that ran out of time says so
        assert (not a["has_more"] or a.get("partial")
                or len(out[-1]) == members["limit"])
        if not a["has_more"]:
            return out, a["total"]
        members["cursor"] = a["cursor"]


def test_nothing(client, queue):
    a = client.search(queue=queue)
    assert a["jobs"] == [] and a["total"] == 0 and a["has_more"] is False


@pytest.mark.parametrize("limit", [1, 7, 50, 100, 499, 500, 501, 1000])
def test_paging(client, filled, limit):
    if limit == 1:  # one by one over a part is enough
        got, total = pages(client, queue="big", limit=1, state=["dead"],
                           order="asc")
        assert sum(got, []) == filled["dead"] and total == 100
        return
    got, total = pages(client, queue="big", limit=limit, order="asc")
    assert sum(got, []) == filled["all"]
    assert total == JOBS


def test_newest_first_is_the_default(client, filled):
    for members in ({}, {"order": "desc"}, {"order": ""}):
        got, _ = pages(client, queue="big", limit=120, **members)
        assert sum(got, []) == filled["all"][::-1]


def test_states(client, filled):
    for state in ("completed", "dead", "active", "cancelled", "pending"):
        got, total = pages(client, queue="big", state=[state], limit=33,
                           order="asc")
        assert sum(got, []) == filled[state] and total == 100
    got, total = pages(client, queue="big", state=["dead", "pending"],
                       limit=200, order="asc")
    assert sum(got, []) == filled["dead"] + filled["pending"] and total == 200
    got, total = pages(client, queue="big", state=["held"])
    assert got == [[]] and total == 0
    got, total = pages(client, queue="big", state=[], limit=1000)
    assert total == JOBS


def test_limit_outside_its_range(client, filled):
    for limit in (0, 1001, 100000):
        asked = {"queue": "big", "limit": limit}
        a = client.post(f"{API}/jobs/search", asked)
        assert (a.status, a.code) == (400, "VALIDATION_ERROR")
        assert "limit: must be a whole number from 1 to 1000" in a.json["error"]
        a = client.post(f"{API}/jobs/search", asked, {"X-Corvo-Compat": "0.3"})
        assert len(a.json["jobs"]) == 50


def test_empty_body(client, filled):
    a = client.post(f"{API}/jobs/search")
    assert a.status == 200 and len(a.json["jobs"]) == 50


@pytest.mark.parametrize("cursor", ["", "garbage", "eyJvZmZzZXQiOjUwfQ==",
                                    "AAAA", "\u00fc", "x" * 1024])
def test_garbage_cursor_is_the_start(client, filled, cursor):
    a = client.search(queue="big", limit=10, order="asc", cursor=cursor)
    assert [j["id"] for j in a["jobs"]] == filled["all"][:10]


def test_cut_cursor_does_no_harm(client, filled):
    cursor = client.search(queue="big", limit=10)["cursor"]
    for n in range(len(cursor)):
        a = client.post(f"{API}/jobs/search",
                        {"queue": "big", "limit": 10, "cursor": cursor[:n]})
        assert a.status == 200


def test_rows(client, filled):
    a = client.search(queue="big", state=["dead"], limit=1, order="asc")
    (row,) = a["jobs"]
    assert row["state"] == "dead" and row["payload"] == 100
    assert row["tags"] == {"n": "100"} and row["priority"] == "normal"
    assert (row["attempt"], row["max_retries"]) == (1, 1)
    assert row["last_error"] == "by test"
    assert "created_at" in row and "failed_at" in row
    assert None not in row.values()


def test_page_is_stable_while_jobs_arrive(client, queue):
    ids = [client.enqueue(queue) for _ in range(10)]
    first = client.search(queue=queue, limit=5)
    for _ in range(5):
        client.enqueue(queue)
    second = client.search(queue=queue, limit=5, cursor=first["cursor"])
    got = [j["id"] for j in first["jobs"] + second["jobs"]]
    assert got == ids[::-1]


def test_of_all_queues(client, filled):
    made = client.enqueue("another")
    got, total = pages(client, limit=300)
    flat = sum(got, [])
    assert len(flat) == total == len(set(flat))
    assert made in flat and set(filled["all"]) <= set(flat)


def test_search_agrees_with_get(client, filled):
    a = client.search(queue="big", limit=1000)
    assert len(a["jobs"]) == JOBS
    for row in a["jobs"][::25]:
        job = client.job(row["id"])
        for name in ("state", "attempt", "queue", "payload", "created_at",
                     "priority"):
            assert row[name] == job[name]
