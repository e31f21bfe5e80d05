"""Chains over HTTP: steps, exit, failure, what is handed over."""

import pytest

from node import API


def start(client, queue, **members):
    """A chain of three steps with both handlers; the first job's id."""
    chain = {"steps": [{"queue": queue, "payload": {"ignored": True}},
                       {"queue": queue + "-2", "payload": {"own": 2}},
                       {"queue": queue + "-3"}],
             "on_failure": {"queue": queue + "-failed",
                            "payload": {"note": "n"}},
             "on_exit": {"queue": queue + "-exit"}}
    return client.enqueue(queue, payload={"first": 1}, chain=chain,
                          max_retries=1, **members)


def nothing_left(client, queue):
    queues = [queue + end for end in ("", "-2", "-3", "-failed", "-exit")]
    assert client.fetch(*queues) is None


def expect_exit(client, queue, payload):
    job = client.fetch(queue + "-exit", timeout=10)
    assert (job["payload"], job["chain_step"]) == (payload, -1)
    client.ack(job)
    nothing_left(client, queue)


def expect_failure(client, queue, job_id, error):
    job = client.fetch(queue + "-failed", timeout=10)
    assert job["payload"] == {"failed_job_id": job_id, "failed_step": 0,
                              "error": error, "note": "n"}
    assert job["chain_step"] == -2
    client.ack(job)
    nothing_left(client, queue)


def test_chain_runs_step_by_step(client, queue):
    first_id = start(client, queue)
    shown = client.job(first_id)
    assert shown["chain_id"].startswith("chn_") and shown["chain_step"] == 0
    assert [s["queue"] for s in shown["chain_config"]["steps"]] == \
        [queue, queue + "-2", queue + "-3"]
    first = client.fetch(queue)
    assert first["payload"] == {"first": 1}
    assert (first["chain_id"], first["chain_step"]) == (shown["chain_id"], 0)
    client.ack(first, result={"n": [1, 2.50]})
    second = client.fetch(queue + "-2")
    assert second["payload"] == {"previous_job_id": first_id,
                                 "previous_result": {"n": [1, 2.50]},
                                 "own": 2}
    assert (second["chain_id"], second["chain_step"]) == \
        (shown["chain_id"], 1)
    assert client.job(second["job_id"])["parent_id"] == first_id
    client.ack(second)
    third = client.fetch(queue + "-3")
    assert third["payload"] == {"previous_job_id": second["job_id"]}
    client.ack(third, result="end")
    expect_exit(client, queue, {"previous_job_id": third["job_id"],
                                "previous_result": "end"})


def test_answer_of_enqueue_shows_the_chain(client, queue):
    a = client.post(f"{API}/enqueue", {"queue": queue, "chain": {
        "steps": [{"queue": queue}, {"queue": queue}]}})
    job = a.json["job"]
    assert job["chain_id"].startswith("chn_") and job["chain_step"] == 0
    assert len(job["chain_config"]["steps"]) == 2


@pytest.mark.parametrize("word", ["exit", " EXIT ", "Exit"],
                         ids=["plain", "spaced", "mixed"])
def test_step_status_exit_skips_the_rest(client, queue, word):
    job_id = start(client, queue)
    client.ack(client.fetch(queue), step_status=word)
    types = [e["type"] for e in client.job(job_id)["timeline"]]
    assert types[-1] == "chain_ended"
    expect_exit(client, queue, {"previous_job_id": job_id})


@pytest.mark.parametrize("word", ["", "  ", "continue", " Continue"],
                         ids=["empty", "blank", "plain", "spaced"])
def test_step_status_continue_goes_on(client, queue, word):
    job_id = start(client, queue)
    client.ack(client.fetch(queue), step_status=word)
    assert client.fetch(queue + "-2") is not None
    types = [e["type"] for e in client.job(job_id)["timeline"]]
    assert types[-1] == "chain_step"


@pytest.mark.parametrize("word", ["stop", "exit now", "\u00a0exit"],
                         ids=["other", "two", "no-space"])
def test_other_step_status_is_refused(client, queue, word):
    start(client, queue)
    job = client.fetch(queue)
    a = client.post(f"{API}/ack/{job['job_id']}", {"step_status": word})
    assert (a.status, a.code) == (400, "VALIDATION_ERROR"), a
    assert a.json["error"] == "step_status: must be one of continue, exit"
    a = client.post(f"{API}/ack/batch", {"acks": [
        {"job_id": job["job_id"], "step_status": word}]})
    assert (a.status, a.code) == (400, "VALIDATION_ERROR"), a
    assert "acks[0].step_status" in a.json["error"]
    assert client.state(job["job_id"]) == "active"
    a = client.post(f"{API}/ack/{job['job_id']}", {"step_status": 1})
    assert (a.status, a.code) == (400, "VALIDATION_ERROR"), a
    a = client.post(f"{API}/ack/{job['job_id']}", {"step_status": word},
                    {"X-Corvo-Compat": "0.3"})
    assert (a.status, a.code) == (400, "ACK_ERROR"), a


def test_step_status_of_a_job_without_chain_is_ignored(client, queue):
    client.enqueue(queue)
    job = client.fetch(queue)
    client.ack(job, step_status="exit")
    assert client.state(job["job_id"]) == "completed"


def test_ack_batch_drives_chains(client, queue):
    ids = [start(client, queue), start(client, queue)]
    client.fetch(queue), client.fetch(queue)
    a = client.post(f"{API}/ack/batch", {"acks": [
        {"job_id": ids[0], "result": 1},
        {"job_id": ids[1], "step_status": "exit"}]})
    assert a.json["acked"] == 2, a
    job = client.fetch(queue + "-2")
    assert job["payload"]["previous_job_id"] == ids[0]
    expect_exit(client, queue, {"previous_job_id": ids[1]})


def test_death_by_fail_runs_on_failure(client, queue):
    job_id = start(client, queue)
    client.fail(client.fetch(queue), error='no "luck"')
    expect_failure(client, queue, job_id, 'no "luck"')


def test_death_by_lost_lease_runs_on_failure(client, queue):
    job_id = start(client, queue)
    client.fetch(queue, lease_duration=0.05)
    expect_failure(client, queue, job_id, "lease expired")


def test_death_by_expiry_runs_on_failure(client, queue):
    job_id = start(client, queue, expire_after_ms=1)
    expect_failure(client, queue, job_id, "job expired")


def test_cancelled_step_runs_on_exit_only(client, queue):
    job_id = start(client, queue)
    client.post(f"{API}/jobs/{job_id}/cancel")
    expect_exit(client, queue, {"previous_job_id": job_id})


def test_step_cancelled_while_active_runs_on_exit_only(client, queue):
    job_id = start(client, queue)
    job = client.fetch(queue)
    client.post(f"{API}/jobs/{job_id}/cancel")
    nothing_left(client, queue)
    client.ack(job)
    expect_exit(client, queue, {"previous_job_id": job_id})


def test_deleted_step_runs_on_exit_only(client, queue):
    job_id = start(client, queue)
    assert client.request("DELETE", f"{API}/jobs/{job_id}").status == 200
    expect_exit(client, queue, {"previous_job_id": job_id})


def test_completed_step_retried_by_hand_continues_once(client, queue):
    job_id = start(client, queue)
    client.ack(client.fetch(queue))
    client.fetch(queue + "-2")
    client.post(f"{API}/jobs/{job_id}/retry")
    client.ack(client.fetch(queue))
    nothing_left(client, queue)


def test_dead_step_retried_by_hand_continues(client, queue):
    job_id = start(client, queue)
    client.fail(client.fetch(queue), error="x")
    expect_failure(client, queue, job_id, "x")
    client.post(f"{API}/jobs/{job_id}/retry")
    client.ack(client.fetch(queue))
    assert client.fetch(queue + "-2")["chain_step"] == 1


def test_successors_inherit_unless_the_step_overrides(client, queue):
    client.enqueue(queue, priority="high", tags={"t": "1"}, max_retries=7,
                   retry_backoff="fixed", retry_base_delay="2s",
                   chain={"steps": [{"queue": queue}, {"queue": queue + "-2"},
                                    {"queue": queue + "-3", "max_retries": 2,
                                     "priority": "critical",
                                     "tags": {"u": "2"}}]})
    client.ack(client.fetch(queue))
    job = client.fetch(queue + "-2")
    shown = client.job(job["job_id"])
    assert (shown["priority"], shown["tags"], shown["max_retries"]) == \
        ("high", {"t": "1"}, 7)
    assert (shown["retry_backoff"], shown["retry_base_delay"]) == \
        ("fixed", "2s")
    client.ack(job)
    shown = client.job(client.fetch(queue + "-3")["job_id"])
    assert (shown["priority"], shown["tags"], shown["max_retries"]) == \
        ("critical", {"u": "2"}, 2)
    assert shown["retry_backoff"] == "fixed"


def test_chain_of_a_batch_item(client, queue):
    a = client.post(f"{API}/enqueue/batch", {"batch": {}, "jobs": [
        {"queue": queue, "chain": {"steps": [{"queue": queue},
                                             {"queue": queue + "-2"}]}}]})
    client.ack(client.fetch(queue))
    assert "batch_id" not in client.fetch(queue + "-2")
    b = client.get(f"{API}/batches/{a.json['batch_id']}").json
    assert (b["status"], b["total"]) == ("completed", 1)


@pytest.mark.parametrize("chain,word", [
    ({}, "chain.steps is required"),
    ({"steps": []}, "chain.steps is required"),
    ({"steps": [{"queue": "q"}]}, "2 to 100 steps"),
    ({"steps": [{"queue": "q"}] * 101}, "chain.steps"),
    ({"steps": [{"queue": "other"}, {"queue": "q"}]}, "chain.steps[0].queue"),
    ({"steps": [{"queue": "q"}, {}]}, "chain.steps[1].queue is required"),
    ({"steps": [{"queue": "q"}, {"queue": ""}]}, "chain.steps[1].queue"),
    ({"steps": [{"queue": "q"}] * 2, "on_exit": {"payload": 1}},
     "chain.on_exit.queue is required"),
    ({"steps": [{"queue": "q"}] * 2, "on_failure": {"queue": "a\nb"}},
     "chain.on_failure.queue"),
    ({"steps": 1}, "chain.steps"),
])
def test_chains_that_are_refused(client, chain, word):
    a = client.post(f"{API}/enqueue", {"queue": "q", "chain": chain})
    assert (a.status, a.code) == (400, "VALIDATION_ERROR"), a
    assert word in a.json["error"]
    assert client.fetch("q") is None


def test_payloads_of_steps_are_bounded(client, queue):
    def steps(size, n):
        return {"steps": [{"queue": queue}] +
                [{"queue": queue, "payload": "x" * (size - 2)}] * n}
    a = client.post(f"{API}/enqueue", {"queue": queue,
                                       "chain": steps(262145, 1)})
    assert (a.status, a.code) == (413, "PAYLOAD_TOO_LARGE"), a
    a = client.post(f"{API}/enqueue/batch", {"jobs": [
        {"queue": queue},
        {"queue": queue, "chain": {**steps(4, 1), "on_exit": {
            "queue": queue, "payload": "x" * 262143}}}]})
    assert (a.status, a.code) == (413, "PAYLOAD_TOO_LARGE"), a
    assert a.json["error"].startswith("job 1 chain payload too large: on_exit")
    a = client.post(f"{API}/enqueue", {"queue": queue,
                                       "chain": steps(262144, 3)})
    assert (a.status, a.code) == (413, "PAYLOAD_TOO_LARGE"), a
    assert "together" in a.json["error"]
    assert client.fetch(queue) is None
    a = client.post(f"{API}/enqueue", {"queue": queue,
                                       "chain": steps(262144, 2)})
    assert a.status == 201


def test_largest_result_is_handed_over(client, queue):
    start(client, queue)
    result = "r" * (262144 - 2)
    client.ack(client.fetch(queue), result=result)
    job = client.fetch(queue + "-2")
    assert job["payload"]["previous_result"] == result
    client.search(queue=queue + "-2")  # the view takes it too


def test_chains_survive_a_restart(make_node):
    n = make_node().start()
    with n.client() as c:
        start(c, "q")
        job = c.fetch("q")
    n.stop()
    n.start()
    with n.client() as c:
        c.ack(job, result=1)
        second = c.fetch("q-2")
        assert second["payload"]["previous_result"] == 1
        assert second["chain_step"] == 1
