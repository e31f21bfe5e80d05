"""A queue's result_schema: a result that does not fit is a failed attempt."""

import os
import signal

from node import API

ANSWER = {"type": "object", "required": ["label", "score"],
          "properties": {"label": {"enum": ["spam", "ham"]},
                         "score": {"type": "number", "minimum": 0,
                                   "maximum": 1}},
          "additionalProperties": False}
GOOD = {"label": "spam", "score": 0.5}


def set_schema(client, queue, schema):
    return client.request("PATCH", f"{API}/queues/{queue}",
                          {"result_schema": schema})


def judged(client, queue):
    a = set_schema(client, queue, ANSWER)
    assert a.status == 200, a
    assert a.json["settings"]["result_schema"] == ANSWER


def ack(client, job, result, **members):
    return client.post(f"{API}/ack/{job['job_id']}", {
        "lease_token": job["lease_token"], "result": result, **members})


def test_a_bad_result_is_a_failed_attempt_with_the_place(client, queue):
    judged(client, queue)
    job_id = client.enqueue(queue, max_retries=2, retry_base_delay="1ms")
    job = client.fetch(queue)
    a = ack(client, job, {"label": "spam", "score": 2},
            usage={"cost_usd": 0.5})
    assert a.status == 200, a
    assert a.json == {"status": "retrying",
                      "error": "result.score: must be at most 1"}
    # the very same request again gets the same answer, and changes nothing
    assert ack(client, job, {"label": "spam", "score": 2},
               usage={"cost_usd": 0.5}).json == a.json
    job = client.fetch(queue, timeout=30)
    assert job["attempt"] == 2
    a = ack(client, job, "spam")
    assert a.json == {"status": "dead",
                      "error": "result: must be of type object"}
    found = client.job(job_id)
    assert found["state"] == "dead" and "result" not in found
    assert [e["error"] for e in found["errors"]] == [
        "result.score: must be at most 1", "result: must be of type object"]
    assert found["usage"]["cost_usd"] == 0.5  # it was spent all the same


def test_a_good_result_completes(client, queue):
    judged(client, queue)
    job_id = client.enqueue(queue)
    assert ack(client, client.fetch(queue), GOOD).json == {"status": "ok"}
    assert client.job(job_id)["result"] == GOOD


def test_no_result_counts_as_null(client, queue):
    judged(client, queue)
    client.enqueue(queue, max_retries=1)
    job = client.fetch(queue)
    a = client.post(f"{API}/ack/{job['job_id']}", {})
    assert a.json["error"] == "result: must be of type object"
    assert set_schema(client, queue, {"type": ["null", "object"]}).status \
        == 200
    client.enqueue(queue)
    assert client.post(f"{API}/ack/{client.fetch(queue)['job_id']}",
                       {}).json == {"status": "ok"}


def test_in_a_batch_only_that_one_is_refused(client, queue):
    judged(client, queue)
    for _ in range(3):
        client.enqueue(queue, max_retries=1)
    jobs = [client.fetch(queue) for _ in range(3)]
    acks = {"acks": [
        {"job_id": j["job_id"], "lease_token": j["lease_token"], "result": r}
        for j, r in zip(jobs, (GOOD, {"label": "eggs", "score": 0}, GOOD))]}
    for _ in range(2):  # sent again as well
        a = client.post(f"{API}/ack/batch", acks)
        assert a.json == {"acked": 2, "refused": [
            {"job_id": jobs[1]["job_id"], "code": "RESULT_INVALID"}]}, a
    found = client.job(jobs[1]["job_id"])
    assert found["state"] == "dead"
    assert [e["error"] for e in found["errors"]] == [
        "result.label: is none of the values it may have"]


def test_a_cancelled_job_ends_cancelled(client, queue):
    judged(client, queue)
    job_id = client.enqueue(queue)
    job = client.fetch(queue)
    assert client.post(f"{API}/jobs/{job_id}/cancel").status == 200
    assert ack(client, job, "anything").json == {"status": "ok"}
    assert client.job(job_id)["state"] == "cancelled"


def test_null_removes_it(client, queue):
    judged(client, queue)
    a = set_schema(client, queue, None)
    assert a.status == 200 and "result_schema" not in a.json.get(
        "settings", {}), a
    client.enqueue(queue)
    assert ack(client, client.fetch(queue), 5).json == {"status": "ok"}


def test_what_is_not_supported_is_refused_by_name(client, queue):
    judged(client, queue)
    for schema, place in (
            ({"properties": {"a": {"pattern": "^a"}}},
             "result_schema.properties.a.pattern: this rule is not supported"),
            ({"$ref": "#"}, "result_schema.$ref: this rule is not supported"),
            ({"type": "text"}, "result_schema.type: "),
            ({"minimum": "0"}, "result_schema.minimum: "),
            ({"description": "d" * 9000}, "result_schema"),
            ("object", "result_schema"), ([], "result_schema")):
        a = set_schema(client, queue, schema)
        assert (a.status, a.code) == (400, "VALIDATION_ERROR"), a
        assert a.json["error"].startswith(place), a
    settings = client.get(f"{API}/queues/{queue}").json["settings"]
    assert settings["result_schema"] == ANSWER


def test_it_holds_over_a_kill(make_node, queue):
    node = make_node().start()
    with node.client() as c:
        judged(c, queue)
        c.enqueue(queue, max_retries=2, retry_base_delay="1ms")
        job = c.fetch(queue)
        os.kill(node.pids()["raftd"], signal.SIGKILL)
        first = ack(c, job, 1).json
        assert first["status"] == "retrying"
        node.kill_all()
        node.start()
    with node.client() as c:
        assert ack(c, job, 1).json == first
        assert ack(c, c.fetch(queue, timeout=30), GOOD).json == {
            "status": "ok"}
