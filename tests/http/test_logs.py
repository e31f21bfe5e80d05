"""Job logs: lines sent with heartbeat, ack and fail, read back in pages."""

from node import API

LINES_MAX = 1000  # kept per job


def logs(client, job_id, **query):
    text = "&".join(f"{k}={v}" for k, v in query.items())
    a = client.get(f"{API}/jobs/{job_id}/logs?{text}")
    assert a.status == 200, a
    return a.json


def beat(client, job, *lines):
    a = client.post(f"{API}/heartbeat", {"jobs": {job["job_id"]: {
        "lease_token": job["lease_token"], "logs": list(lines)}}})
    assert a.json["jobs"][job["job_id"]]["status"] == "ok", a
    return a


def take(client, queue):
    client.enqueue(queue)
    return client.fetch(queue)


def test_lines_of_heartbeats_are_read_back(client, queue):
    job = take(client, queue)
    beat(client, job, "one", "zwei ü")
    beat(client, job, "three\nlines")
    got = logs(client, job["job_id"])
    assert [x["line"] for x in got["logs"]] == ["one", "zwei ü",
                                                "three\nlines"]
    assert [x["seq"] for x in got["logs"]] == [1, 2, 3]
    assert all(x["attempt"] == 1 and "at" in x for x in got["logs"])
    assert got["next"] == 3
    assert client.job(job["job_id"])["log_lines"] == 3


def test_ack_fail_and_batches_append_too(client, queue):
    job = take(client, queue)
    client.fail(job, retry_after_ms=0, logs=["failed"])
    job = client.fetch(queue, timeout=10)
    client.ack(job, logs=["done"])
    got = logs(client, job["job_id"])["logs"]
    assert [(x["attempt"], x["line"]) for x in got] == [(1, "failed"),
                                                        (2, "done")]
    job = take(client, queue)
    a = client.post(f"{API}/ack/batch", {"acks": [
        {"job_id": job["job_id"], "logs": ["in a batch"]}]})
    assert a.json["acked"] == 1
    assert logs(client, job["job_id"])["logs"][0]["line"] == "in a batch"


def test_pages(client, queue):
    job = take(client, queue)
    beat(client, job, *(str(i) for i in range(1, 6)))
    page = logs(client, job["job_id"], limit=2)
    assert ([x["line"] for x in page["logs"]], page["next"]) == \
        (["1", "2"], 2)
    page = logs(client, job["job_id"], after=page["next"])
    assert [x["line"] for x in page["logs"]] == ["3", "4", "5"]
    page = logs(client, job["job_id"], after=page["next"])
    assert page == {"logs": [], "next": 5}


def test_the_newest_lines_are_kept(client, queue):
    job = take(client, queue)
    for first in range(0, LINES_MAX + 200, 200):
        beat(client, job, *(str(first + i) for i in range(200)))
    got = logs(client, job["job_id"])
    assert len(got["logs"]) == LINES_MAX
    assert got["logs"][0] == {**got["logs"][0], "seq": 201, "line": "200"}
    assert got["next"] == LINES_MAX + 200


def test_logs_go_with_the_job(client, queue):
    job = take(client, queue)
    beat(client, job, "x")
    assert client.request("DELETE",
                          f"{API}/jobs/{job['job_id']}").status == 200
    a = client.get(f"{API}/jobs/{job['job_id']}/logs")
    assert (a.status, a.code) == (404, "NOT_FOUND")


def test_a_job_without_lines(client, queue):
    assert logs(client, client.enqueue(queue)) == {"logs": [], "next": 0}


def test_limits_are_refused_by_name(client, queue):
    job = take(client, queue)
    path = f"{API}/ack/{job['job_id']}"
    a = client.post(path, {"logs": ["x" * 4097]})
    assert (a.status, a.code) == (400, "VALIDATION_ERROR")
    assert "logs" in a.json["error"]
    a = client.post(path, {"logs": ["x"] * 257})
    assert (a.status, a.code) == (400, "VALIDATION_ERROR")
    assert client.state(job["job_id"]) == "active"
    client.ack(job, logs=["x" * 4096] * 256)
    for query in ("after=-1", "after=x", "limit=0", "limit=1001"):
        a = client.get(f"{API}/jobs/{job['job_id']}/logs?{query}")
        assert (a.status, a.code) == (400, "VALIDATION_ERROR"), query


def test_a_lost_lease_logs_nothing(client, queue):
    job = take(client, queue)
    a = client.post(f"{API}/ack/{job['job_id']}", {
        "lease_token": 1, "logs": ["no"]})
    assert (a.status, a.code) == (409, "LEASE_LOST")
    assert logs(client, job["job_id"])["logs"] == []


def test_logs_survive_a_restart(make_node):
    node = make_node()
    node.start()
    with node.client() as c:
        job = take(c, "q")
        beat(c, job, "before")
    node.stop()
    node.start()
    with node.client() as c:
        beat(c, job, "after")
        got = logs(c, job["job_id"])["logs"]
    assert [(x["seq"], x["line"]) for x in got] == [(1, "before"),
                                                    (2, "after")]
