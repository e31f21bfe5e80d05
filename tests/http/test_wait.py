"""GET /jobs/{id}?wait=…: the answer comes when the job has ended."""

import os
import signal
import time

import pytest

from node import API, wait_until

NODE_FLAGS = ["--raft-max-parked", "3"]


def waiting(client):
    """Reads that wait in raftd."""
    return client.metrics()["corvo_waiting_reads"]


class Wait:
    """One waiting read on a connection of its own."""

    def __init__(self, node, client, job_id, query="?wait=60s", headers=None):
        before = waiting(client)
        self.client = node.client()
        self.client.send("GET", f"{API}/jobs/{job_id}{query}", None, headers)
        wait_until(lambda: waiting(client) == before + 1, what="the read")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.close()

    def answer(self):
        return self.client.receive()


def test_the_answer_comes_with_the_result(node, client, queue):
    job_id = client.enqueue(queue)
    with Wait(node, client, job_id) as w:
        client.ack(client.fetch(queue), result={"n": 7})
        a = w.answer()
        assert a.status == 200
        assert (a.json["state"], a.json["result"]) == ("completed", {"n": 7})
    assert waiting(client) == 0


def test_several_wait_for_one_job(node, client, queue):
    job_id = client.enqueue(queue)
    with Wait(node, client, job_id) as one, Wait(node, client, job_id) as two:
        client.ack(client.fetch(queue))
        assert one.answer().json["state"] == "completed"
        assert two.answer().json["state"] == "completed"


@pytest.mark.parametrize("prefer", [
    "wait=60", "respond-async, wait=60", "Wait=60; x=y", "wait=3600"])
def test_prefer_header(node, client, queue, prefer):
    job_id = client.enqueue(queue)
    with Wait(node, client, job_id, "", {"Prefer": prefer}) as w:
        client.ack(client.fetch(queue))
        a = w.answer()
        assert a.json["state"] == "completed"
        assert a.headers["Preference-Applied"] == "wait=60"


def test_preference_that_was_not_heeded_is_not_named(client, queue):
    path = f"{API}/jobs/{client.enqueue(queue)}"
    for argument, prefer in [("?wait=10ms", "wait=60"), ("", "wait=soon"),
                             ("", "respond-async"), ("", "wait=0")]:
        a = client.get(path + argument, {"Prefer": prefer})
        assert a.status == 200
        assert "Preference-Applied" not in a.headers, (argument, prefer)
    a = client.get(path, {"Prefer": "wait=10ms"})
    assert a.headers["Preference-Applied"] == "wait"


def test_a_failed_attempt_is_no_end_and_death_is(node, client, queue):
    job_id = client.enqueue(queue)
    with Wait(node, client, job_id) as w:
        assert client.fail(client.fetch(queue),
                           retry_after_ms=0)["status"] == "retrying"
        client.fail(client.fetch(queue, timeout=10), retry=False)
        job = w.answer().json
        assert (job["state"], job["attempt"]) == ("dead", 2)


def test_cancellation_is_an_end(node, client, queue):
    job_id = client.enqueue(queue)
    with Wait(node, client, job_id) as w:
        client.post(f"{API}/jobs/{job_id}/cancel")
        assert w.answer().json["state"] == "cancelled"


def test_a_deleted_job_is_not_found(node, client, queue):
    job_id = client.enqueue(queue)
    with Wait(node, client, job_id) as w:
        client.request("DELETE", f"{API}/jobs/{job_id}")
        a = w.answer()
        assert (a.status, a.code) == (404, "NOT_FOUND")


def test_when_the_time_is_over_the_job_is_shown_as_it_is(client, queue):
    job_id = client.enqueue(queue)
    begin = time.monotonic()
    a = client.get(f"{API}/jobs/{job_id}?wait=300ms")
    assert time.monotonic() - begin >= 0.3
    assert (a.status, a.json["state"]) == (200, "pending")
    assert waiting(client) == 0


def test_an_ended_job_is_shown_at_once(client, queue):
    job_id = client.enqueue(queue)
    client.ack(client.fetch(queue))
    assert client.get(f"{API}/jobs/{job_id}?wait=60").json["state"] == \
        "completed"
    a = client.get(f"{API}/jobs/job_none?wait=60")
    assert (a.status, a.code) == (404, "NOT_FOUND")


def test_a_wait_that_cannot_be_read_is_refused(client, queue):
    job_id = client.enqueue(queue)
    for text in ("soon", "-1", "1x", "0x1"):
        a = client.get(f"{API}/jobs/{job_id}?wait={text}")
        assert (a.status, a.code) == (400, "VALIDATION_ERROR"), text
    # one in the header is no wish
    a = client.get(f"{API}/jobs/{job_id}", {"Prefer": "wait=soon"})
    assert a.status == 200


def test_a_client_that_left_is_forgotten(node, client, queue):
    job_id = client.enqueue(queue)
    with Wait(node, client, job_id):
        pass
    wait_until(lambda: waiting(client) == 0, what="the read to be forgotten")


def test_too_many_waiting_reads_are_refused(node, client, queue):
    job_id = client.enqueue(queue)
    with Wait(node, client, job_id), Wait(node, client, job_id), \
            Wait(node, client, job_id):
        a = client.get(f"{API}/jobs/{job_id}?wait=60s")
        assert (a.status, a.code) == (429, "OVERLOADED")
        assert client.state(job_id) == "pending", "plain reads go on"
    wait_until(lambda: waiting(client) == 0, what="the reads to be forgotten")


def test_waiting_writes_nothing_to_the_log(client, queue):
    job_id = client.enqueue(queue)
    assert client.state(job_id) == "pending"  # this node has it
    before = client.get(f"{API}/cluster/status").json["applied_index"]
    client.get(f"{API}/jobs/{job_id}?wait=100ms")
    assert client.get(f"{API}/cluster/status").json["applied_index"] == before


def test_a_stop_ends_the_wait(make_node):
    node = make_node()
    node.start()
    with node.client() as c:
        job_id = c.enqueue("q")
        with Wait(node, c, job_id) as w:
            node.stop()
            assert w.answer().json["state"] == "pending"


def test_a_wait_goes_on_when_raftd_is_restarted(make_node):
    node = make_node()
    node.start()
    with node.client() as c:
        job_id = c.enqueue("q")
        with Wait(node, c, job_id) as w:
            os.kill(node.pids()["raftd"], signal.SIGKILL)
            wait_until(lambda: c.get("/readyz").status == 200, 30,
                       what="raftd to be back")
            c.ack(c.fetch("q"))
            assert w.answer().json["state"] == "completed"
