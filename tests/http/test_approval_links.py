"""Signed links to decide about held jobs, and approvals over kills of raftd."""

import os
import signal
import threading

import pytest

from node import API
from waiting import wait_until

POLICIES = f"{API}/approval-policies"


def decide(client, job_id, action, status, **members):
    a = client.post(f"{API}/jobs/{job_id}/{action}", members)
    assert (a.status, a.json.get("status")) == (200, status), a


def links(client, job_id, **members):
    a = client.post(f"{API}/jobs/{job_id}/approval-links", members)
    assert a.status == 201, a
    return a.json


def test_a_link_shows_and_decides_once(client, queue):
    job_id = client.enqueue(queue, payload={"pay": 12})
    decide(client, job_id, "hold", "held", reason="big")
    made = links(client, job_id, by="ada", expires_in="1h")
    assert made["approve"].startswith(f"{API}/approvals/")
    for _ in range(3):  # as often as mail programs like
        a = client.get(made["approve"])
        assert a.status == 200, a
        assert (a.json["job_id"], a.json["decision"], a.json["by"],
                a.json["hold_reason"], a.json["payload"]) == (
            job_id, "approved", "ada", "big", {"pay": 12})
    assert client.get(made["reject"]).json["decision"] == "rejected"
    assert client.state(job_id) == "held"
    a = client.post(made["approve"], {"comment": "from my phone"})
    assert (a.status, a.json) == (200, {"status": "pending"})
    d = client.job(job_id)["decision"]
    assert (d["by"], d["via"], d["comment"]) == ("ada", "link",
                                                 "from my phone")
    for link in (made["approve"], made["reject"]):
        for a in (client.get(link), client.post(link)):
            assert (a.status, a.code) == (410, "LINK_OVER"), a
            assert "approved" in a.json["error"]
    # held anew, it is something else that was asked
    decide(client, job_id, "hold", "held")
    assert client.post(made["reject"]).code == "LINK_OVER"
    assert client.state(job_id) == "held"
    again = links(client, job_id, base_url="https://corvo.example.org/")
    assert again["reject"].startswith(
        f"https://corvo.example.org{API}/approvals/")
    a = client.post(again["reject"].removeprefix("https://corvo.example.org"))
    assert (a.status, a.json) == (200, {"status": "dead"})
    made = [
        e for e in client.get(f"{API}/cluster/events?job_ids={job_id}"
                              "&types=links_made").json["events"]]
    assert len(made) == 2 and made[0]["data"]["by"] == "ada"
    assert "approvals/" not in str(made)


def test_links_that_are_not_ours(client, queue):
    job_id = client.enqueue(queue)
    decide(client, job_id, "hold", "held")
    made = links(client, job_id)["approve"]
    said, signature = made.removeprefix(f"{API}/approvals/").split(".")
    other = links(client, job_id)["reject"].removeprefix(f"{API}/approvals/")
    for token in ("x", ".", "a.b", said, said + ".", "." + signature,
                  f"{said}A.{signature}", f"{said}.{signature[:-2]}AA",
                  other.split(".")[0] + "." + signature, "x" * 1100,
                  "%00." + signature):
        for a in (client.get(f"{API}/approvals/{token}"),
                  client.post(f"{API}/approvals/{token}")):
            assert a.status in (400, 403, 414), (token, a)
            assert client.state(job_id) == "held"
    a = client.get(f"{API}/approvals/{said}.{signature[:-2]}AA")
    assert (a.status, a.code) == (403, "LINK_ERROR")


def test_links_expire(client, queue):
    job_id = client.enqueue(queue)
    decide(client, job_id, "hold", "held")
    made = links(client, job_id, expires_in="1ms")
    wait_until(lambda: client.get(made["approve"]).status == 410)
    a = client.post(made["approve"])
    assert (a.status, a.code) == (410, "LINK_OVER")
    assert "expired" in a.json["error"]
    assert client.state(job_id) == "held"


@pytest.mark.parametrize("member, body", [
    ("expires_in", {"expires_in": 0}),
    ("expires_in", {"expires_in": "721h"}),
    ("expires_in", {"expires_in": "soon"}),
    ("base_url", {"base_url": "ftp://x"}),
    ("base_url", {"base_url": "https://"}),
    ("base_url", {"base_url": "https://a b"}),
    ("by", {"by": "x" * 256}),
])
def test_links_asked_for_wrongly(client, queue, member, body):
    job_id = client.enqueue(queue)
    decide(client, job_id, "hold", "held")
    a = client.post(f"{API}/jobs/{job_id}/approval-links", body)
    assert (a.status, a.code) == (400, "VALIDATION_ERROR"), a
    assert a.json["error"].startswith(member), a


def test_links_of_jobs_that_are_not_held(client, queue):
    job_id = client.enqueue(queue)
    a = client.post(f"{API}/jobs/{job_id}/approval-links")
    assert (a.status, a.code) == (400, "APPROVE_ERROR"), a
    a = client.post(f"{API}/jobs/nothing/approval-links")
    assert (a.status, a.code) == (404, "NOT_FOUND"), a


# --- who waits meanwhile ---


def test_a_waiting_fetch_gets_what_is_approved(node, client, queue):
    name = f"{queue}-wait"
    a = client.post(POLICIES, {"name": name, "queue": queue, "at": ["fetch"]})
    assert a.status == 200, a
    got = []

    def work():
        with node.client(timeout=120) as c:
            got.append(c.fetch(queue, timeout=60))
    worker = threading.Thread(target=work)
    job_id = client.enqueue(queue)
    worker.start()
    wait_until(lambda: client.state(job_id) == "held", what="the fetch")
    decide(client, job_id, "approve", "pending")
    worker.join(120)
    assert got and got[0]["job_id"] == job_id
    assert client.request("DELETE", f"{POLICIES}/{name}").status == 200


def test_acks_in_a_batch(client, queue):
    name = f"{queue}-batch"
    client.post(POLICIES, {"name": name, "queue": queue, "mode": "all",
                           "cost_min": 1})
    ids = [client.enqueue(queue, agent={}) for _ in range(2)]
    jobs = [client.fetch(queue) for _ in range(2)]
    a = client.post(f"{API}/ack/batch", {"acks": [
        {"job_id": j["job_id"], "agent_status": "continue",
         "usage": {"cost_usd": cost}} for j, cost in zip(jobs, (0.5, 1.5))]})
    assert a.status == 200, a
    assert [client.state(i) for i in ids] == ["pending", "held"]
    assert client.request("DELETE", f"{POLICIES}/{name}").status == 200


# --- with raftd killed in between ---


def test_raftd_is_killed_in_between(make_node, queue):
    node = make_node().start()
    with node.client() as c:
        killed_in_between(node, c, queue)


def killed_in_between(node, client, queue):
    def policy(name, **members):
        a = client.post(POLICIES, {"name": name, "queue": queue, **members})
        assert a.status == 200, a
        return a.json
    p = policy("in", at=["enqueue"], deadline="2s", on_deadline="reject")
    late = client.enqueue(queue)
    policy("in", at=["enqueue", "fetch"])
    linked, approved = client.enqueue(queue), client.enqueue(queue)
    decide(client, approved, "approve", "pending", by="ada")
    made = links(client, linked, expires_in="1h")

    def kill():
        os.kill(node.pids()["raftd"], signal.SIGKILL)
    kill()
    assert [x["id"] for x in client.get(POLICIES).json
            if x["name"] == p["name"]] == [p["id"]]
    assert client.get(made["approve"]).status == 200
    assert client.post(made["approve"]).json["status"] == "pending"
    kill()
    assert client.post(made["approve"]).code == "LINK_OVER"
    assert client.job(linked)["decision"]["via"] == "link"
    # the pass at enqueue is none at fetch; that one then is kept
    assert client.fetch(queue) is None
    decide(client, approved, "approve", "pending", by="bob")
    kill()
    assert client.fetch(queue, timeout=10)["job_id"] == approved
    wait_until(lambda: client.state(late) == "dead", 20, what="the deadline")
    assert client.job(late)["decision"]["via"] == "deadline"
