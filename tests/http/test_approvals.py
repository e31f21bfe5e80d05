"""Held jobs, who decides about them, and policies that hold them."""

import subprocess

import pytest

from node import API, CORVO
from waiting import wait_until

COMPAT = {"X-Corvo-Compat": "0.3"}
POLICIES = f"{API}/approval-policies"


@pytest.fixture
def policy(client, queue):
    """Makes policies that are gone after the test."""
    made = []

    def make(name, **members):
        members.setdefault("queue", queue)
        a = client.post(POLICIES, {"name": f"{queue}-{name}", **members})
        assert a.status == 200, a
        made.append(a.json["id"])
        return a.json

    yield make
    for one in set(made):
        assert client.request("DELETE", f"{POLICIES}/{one}").status in (200,
                                                                        404)


def decide(client, job_id, action, status, **members):
    a = client.post(f"{API}/jobs/{job_id}/{action}", members)
    assert (a.status, a.json.get("status")) == (200, status), a


def events_of(client, job_id, *types):
    events = client.get(f"{API}/cluster/events?job_ids={job_id}"
                        "&limit=1000").json["events"]
    return [e for e in events if e["type"] in types]


def agent(client, queue, **members):
    return client.enqueue(queue, agent={}, **members)


def turn(client, queue, status="continue", **members):
    job = client.fetch(queue)
    client.ack(job, agent_status=status, **members)
    return job


# --- who holds, since when, and what was decided ---


def test_a_person_holds_and_decides(client, queue):
    job_id = client.enqueue(queue)
    decide(client, job_id, "hold", "held", reason="look first", by="ada")
    job = client.job(job_id)
    assert job["held"]["kind"] == "person" and job["held"]["by"] == "ada"
    assert job["held"]["since"] >= job["created_at"]
    why = client.get(f"{API}/jobs/{job_id}/why").json
    assert "held by ada (look first)" in why["summary"]
    decide(client, job_id, "approve", "pending", by="bob", comment="fine")
    job = client.job(job_id)
    assert "held" not in job and "hold_reason" not in job
    d = job["decision"]
    assert (d["decision"], d["by"], d["comment"], d["via"], d["reason"]) == (
        "approved", "bob", "fine", "request", "look first")
    # it stays, whatever else happens to the job
    client.ack(client.fetch(queue))
    assert client.job(job_id)["decision"] == d
    held, approved = events_of(client, job_id, "held", "approved")
    assert held["data"] == {"reason": "look first", "kind": "person",
                            "by": "ada"}
    assert approved["data"] == {"by": "bob", "comment": "fine",
                                "via": "request"}


def test_a_rejection_says_who_and_why(client, queue):
    job_id = client.enqueue(queue)
    decide(client, job_id, "hold", "held")
    assert client.job(job_id)["held"]["kind"] == "person"
    decide(client, job_id, "reject", "dead", by="bob", comment="too dear")
    job = client.job(job_id)
    assert job["errors"][0]["error"] == "rejected: too dear"
    assert job["decision"]["decision"] == "rejected"
    assert job["decision"]["comment"] == "too dear"
    # the member of before means the same
    job_id = client.enqueue(queue)
    decide(client, job_id, "hold", "held")
    decide(client, job_id, "reject", "dead", reason="no " * 2000)
    job = client.job(job_id)
    assert len(job["errors"][0]["error"]) > 6000
    assert len(job["decision"]["comment"]) == 1024


def test_workers_and_guardrails(client, queue):
    client.enqueue(queue, agent={"max_iterations": 1})
    job = client.fetch(queue, worker_id="w1")
    client.ack(job, agent_status="continue")
    held = client.job(job["job_id"])["held"]
    assert held["kind"] == "guardrail"
    agent(client, queue)
    job = client.fetch(queue, worker_id="w2")
    client.ack(job, agent_status="hold", hold_reason="may I?")
    held = client.job(job["job_id"])["held"]
    assert (held["kind"], held["by"]) == ("worker", "w2")


def test_held_jobs_are_listed_and_found(client, queue, policy):
    p = policy("list", at=["enqueue"], payload_jq=".n == 3", mode="all")
    ids = [client.enqueue(queue, payload={"n": n}) for n in range(4)]
    decide(client, ids[1], "hold", "held", reason="Look At This", by="ada")
    a = client.get(f"{API}/held?queue={queue}&order=asc").json
    assert [j["id"] for j in a["jobs"]] == [ids[1], ids[3]]
    assert a["jobs"][0]["held"]["by"] == "ada"
    assert a["jobs"][1]["held"]["policy"] == p["id"]
    assert a["jobs"][1]["held"] == client.job(ids[3])["held"]

    def found(**members):
        return [j["id"] for j in client.search(queue=queue, **members)["jobs"]]
    assert found(hold_reason="look at") == [ids[1]]
    assert found(hold_reason="approval policy") == [ids[3]]
    assert found(held_by="policy") == [ids[3]]
    assert found(policy=p["id"]) == [ids[3]]
    a = client.post(f"{API}/jobs/search", {"held_by": "nobody"})
    assert a.status == 400 and "held_by" in a.json["error"]
    a = client.get(f"{API}/held?limit=x")
    assert a.status == 400 and "limit" in a.json["error"]


def test_what_is_too_long(client, queue):
    job_id = client.enqueue(queue)
    decide(client, job_id, "hold", "held")
    for action, member, size in (("approve", "comment", 1025),
                                 ("approve", "by", 256),
                                 ("reject", "comment", 1025),
                                 ("hold", "by", 256)):
        a = client.post(f"{API}/jobs/{job_id}/{action}", {member: "x" * size})
        assert a.status == 400 and member in a.json["error"], a
    a = client.post(f"{API}/jobs/{job_id}/hold", {"comment": "hm"})
    assert a.status == 400 and "comment" in a.json["error"]
    assert client.job(job_id)["state"] == "held"
    assert "decision" not in client.job(job_id)


# --- policies ---


def test_policies_as_the_catalogue_has_them(client, queue, policy):
    p = policy("plain", tag_key="risk", tag_value="high")
    assert p["id"].startswith("apol_") and p["mode"] == "any"
    assert p["enabled"] is True and p["at"] == ["continue"]
    assert p["priority"] == 0 and p["created_at"] == p["updated_at"]
    assert p in client.get(POLICIES).json
    assert client.get(f"{POLICIES}/{p['id']}").json == p
    assert client.get(f"{POLICIES}/{p['name']}").json == p
    # one of the same name is changed as a whole
    other = client.post(POLICIES, {"name": p["name"], "queue": "x*",
                                   "enabled": False, "mode": "all"}).json
    assert other["id"] == p["id"] and "tag_key" not in other
    assert other["created_at"] == p["created_at"]
    a = client.request("DELETE", f"{POLICIES}/{p['id']}")
    assert (a.status, a.json) == (200, {"status": "deleted"})
    a = client.request("DELETE", f"{POLICIES}/{p['id']}")
    assert (a.status, a.code) == (404, "NOT_FOUND")
    a = client.request("DELETE", f"{POLICIES}/{p['id']}", headers=COMPAT)
    assert (a.status, a.code) == (400, "POLICY_ERROR")
    assert client.get(f"{POLICIES}/{p['id']}").status == 404


@pytest.mark.parametrize("member, body", [
    ("name", {"queue": "x"}),
    ("name", {"name": "a b", "queue": "x"}),
    ("name", {"name": "n" * 101, "queue": "x"}),
    ("queue", {"name": "bad"}),
    ("queue", {"name": "bad", "queue": ""}),
    ("queue", {"name": "bad", "tag_key": "", "payload_jq": ""}),
    ("tag_value", {"name": "bad", "tag_value": "v", "queue": "x"}),
    ("tag_key", {"name": "bad", "tag_key": 5}),
    ("mode", {"name": "bad", "queue": "x", "mode": "some"}),
    ("enabled", {"name": "bad", "queue": "x", "enabled": "yes"}),
    ("at", {"name": "bad", "queue": "x", "at": ["later"]}),
    ("at", {"name": "bad", "queue": "x", "at": []}),
    ("at", {"name": "bad", "queue": "x", "at": "fetch"}),
    ("cost_min", {"name": "bad", "cost_min": -1}),
    ("cost_min", {"name": "bad", "cost_min": 0}),
    ("iteration_min", {"name": "bad", "iteration_min": 0}),
    ("iteration_min", {"name": "bad", "iteration_min": 1.5}),
    ("payload_jq", {"name": "bad", "payload_jq": ".a ="}),
    ("payload_jq", {"name": "bad", "payload_jq": ".a == 1 or " * 99 + ".b"}),
    ("payload_jq", {"name": "bad", "payload_jq": " or ".join(
        [".a==1"] * 65)}),
    ("provider_state", {"name": "bad", "provider_state": "ok"}),
    ("provider_state", {"name": "bad", "provider_state": "tired"}),
    ("priority", {"name": "bad", "queue": "x", "priority": -1}),
    ("priority", {"name": "bad", "queue": "x", "priority": 1000001}),
    ("deadline", {"name": "bad", "queue": "x", "deadline": "soon"}),
    ("deadline", {"name": "bad", "queue": "x", "deadline": 0}),
    ("on_deadline", {"name": "bad", "queue": "x", "on_deadline": "approve"}),
    ("on_deadline", {"name": "bad", "queue": "x", "deadline": "1m",
                     "on_deadline": "cry"}),
])
def test_a_policy_that_cannot_be_read(client, member, body):
    before = client.get(POLICIES).json
    a = client.post(POLICIES, body)
    assert (a.status, a.code) == (400, "VALIDATION_ERROR"), a
    assert a.json["error"].startswith(member), a
    a = client.post(POLICIES, body, headers=COMPAT)
    assert (a.status, a.code) in ((400, "POLICY_ERROR"),
                                  (400, "VALIDATION_ERROR"))
    assert client.get(POLICIES).json == before


def test_at_enqueue(client, queue, policy):
    p = policy("in", at=["enqueue"], mode="all", payload_jq=".amount > 100")
    a = client.post(f"{API}/enqueue", {"queue": queue,
                                       "payload": {"amount": 500}})
    assert (a.status, a.json["status"]) == (201, "held")
    small = client.enqueue(queue, payload={"amount": 5})
    job = client.job(a.json["job_id"])
    assert job["hold_reason"] == f"approval policy matched: {p['name']}"
    held = job["held"]
    assert (held["kind"], held["by"], held["policy"], held["at"]) == (
        "policy", p["name"], p["id"], "enqueue")
    assert client.fetch(queue)["job_id"] == small
    assert client.fetch(queue) is None
    decide(client, job["id"], "approve", "pending", by="ada")
    assert client.fetch(queue)["job_id"] == job["id"]
    assert client.job(job["id"])["decision"]["policy"] == p["id"]


def test_at_enqueue_of_a_batch_a_chain_and_a_schedule(client, queue, policy):
    policy("in", at=["enqueue"], mode="all", tag_key="risk")
    a = client.post(f"{API}/enqueue/batch", {"jobs": [
        {"queue": queue, "tags": {"risk": "x"}}, {"queue": queue}]})
    assert [j["state"] for j in a.json["jobs"]] == ["held", "pending"], a
    client.ack(client.fetch(queue))
    # a step of a chain comes into being later
    first = client.enqueue(queue, chain={"steps": [
        {"queue": queue, "payload": {}},
        {"queue": queue, "tags": {"risk": "y"}}]})
    assert client.fetch(queue)["job_id"] == first
    client.post(f"{API}/ack/{first}", {})
    assert client.fetch(queue) is None
    held = client.get(f"{API}/held?queue={queue}").json["jobs"]
    assert sorted(j["tags"]["risk"] for j in held) == ["x", "y"]


def test_a_job_for_later_keeps_its_time(client, queue, policy):
    policy("in", at=["enqueue"])
    a = client.post(f"{API}/enqueue", {"queue": queue, "delay": "1h"})
    assert a.json["status"] == "held"
    decide(client, a.json["job_id"], "approve", "scheduled")
    job = client.job(a.json["job_id"])
    assert job["state"] == "scheduled" and "scheduled_at" in job
    a = client.post(f"{API}/enqueue", {"queue": queue, "delay": "20ms"})
    job_id = a.json["job_id"]
    due = wait_until(lambda: client.post(
        f"{API}/enqueue", {"queue": queue, "delay": 0}).json, what="later")
    assert due["status"] == "held"
    wait_until(lambda: client.post(f"{API}/jobs/{job_id}/approve").json.get(
        "status") in ("pending", "scheduled"))
    assert client.fetch(queue, timeout=10)["job_id"] == job_id


def test_at_fetch(client, queue, policy):
    p = policy("out", at=["fetch"], mode="all", tag_key="risk",
               tag_value="high")
    ids = [client.enqueue(queue, tags={"risk": r}, retry_backoff="none")
           for r in ("high", "low", "high")]
    assert client.fetch(queue)["job_id"] == ids[1]
    assert [client.state(i) for i in ids] == ["held", "active", "pending"]
    assert client.fetch(queue) is None
    assert client.job(ids[2])["held"]["at"] == "fetch"
    decide(client, ids[2], "approve", "pending")
    job = client.fetch(queue)
    assert job["job_id"] == ids[2]
    # what was approved is approved, also for another attempt
    client.fail(job, error="oops")
    assert client.fetch(queue)["job_id"] == ids[2]
    # another policy wants an approval of its own
    policy("more", at=["fetch"], mode="any")
    decide(client, ids[0], "approve", "pending")
    assert client.fetch(queue) is None
    assert client.job(ids[0])["held"]["by"] == f"{queue}-more"
    decide(client, ids[0], "approve", "pending")
    assert client.fetch(queue)["job_id"] == ids[0]
    assert p["id"] != client.job(ids[0])["decision"]["policy"]


def test_at_continue(client, queue, policy):
    p = policy("loop", mode="all", cost_min=1)
    job_id = agent(client, queue)
    turn(client, queue, usage={"cost_usd": 0.75})
    turn(client, queue, usage={"cost_usd": 0.75})
    job = client.job(job_id)
    assert (job["state"], job["held"]["policy"], job["held"]["at"]) == (
        "held", p["id"], "continue")
    rows = client.get(f"{API}/jobs/{job_id}/iterations").json["iterations"]
    assert [r["status"] for r in rows] == ["continue", "hold"]
    decide(client, job_id, "approve", "pending")
    # it goes on, and is held again where it comes to the same point again
    job = turn(client, queue, hold_reason="or is that enough?")
    assert job["agent"]["iteration"] == 3
    job = client.job(job_id)
    assert job["hold_reason"] == "or is that enough?"
    assert job["held"]["kind"] == "policy"
    decide(client, job_id, "approve", "pending")
    turn(client, queue, "done")
    assert client.state(job_id) == "completed"


def test_iterations_and_patterns(client, queue, policy):
    policy("late", queue=f"{queue}*late", mode="all", iteration_min=2)
    job_id = client.enqueue(f"{queue}-late", agent={})
    other = client.enqueue(f"{queue}-lately", agent={})
    for q in (f"{queue}-late", f"{queue}-lately"):
        turn(client, q)
        turn(client, q)
    assert client.state(job_id) == "held"
    assert client.state(other) == "pending"


def test_modes(client, queue, policy):
    any_of = policy("any", at=["enqueue"], queue="nowhere", tag_key="t",
                    payload_jq=".p == true")
    for members, held in (({}, False), ({"tags": {"t": ""}}, True),
                          ({"payload": {"p": True}}, True),
                          ({"payload": {"p": "true"}}, False)):
        state = client.state(client.enqueue(queue, **members))
        assert state == ("held" if held else "pending"), members
    client.request("DELETE", f"{POLICIES}/{any_of['id']}")
    policy("all", at=["enqueue"], mode="all", tag_key="t",
           payload_jq=".p == true")
    for members, held in (({"tags": {"t": "x"}}, False),
                          ({"payload": {"p": True}}, False),
                          ({"payload": {"p": True}, "tags": {"t": "x"}},
                           True)):
        state = client.state(client.enqueue(queue, **members))
        assert state == ("held" if held else "pending"), members


def test_priorities(client, queue, policy):
    policy("low", at=["enqueue"], priority=1)
    high = policy("high", at=["enqueue"], priority=7)
    policy("off", at=["enqueue"], priority=9, enabled=False)
    newest = policy("newest", at=["enqueue"], priority=1)
    names = [p["name"] for p in client.get(POLICIES).json
             if p["name"].startswith(queue)]
    assert names == [f"{queue}-{n}" for n in ("off", "high", "newest", "low")]
    job_id = client.enqueue(queue)
    assert client.job(job_id)["held"]["policy"] == high["id"]
    # each wants its own approval, one after the other
    decide(client, job_id, "approve", "held", by="a")
    assert client.job(job_id)["held"]["policy"] == newest["id"]
    decide(client, job_id, "approve", "held", by="b")
    assert client.job(job_id)["held"]["by"] == f"{queue}-low"
    decide(client, job_id, "approve", "pending", by="c")
    kinds = [e["type"] for e in events_of(client, job_id, "held", "approved")]
    assert kinds == ["held", "approved"] * 3
    assert client.fetch(queue)["job_id"] == job_id


def test_another_payload_is_not_what_was_approved(client, queue, policy):
    policy("in", at=["enqueue"])
    one = {"queue": queue, "unique_key": "k", "unique_action": "replace"}
    job_id = client.post(f"{API}/enqueue", {**one, "payload": 1}).json["job_id"]
    decide(client, job_id, "approve", "pending")
    a = client.post(f"{API}/enqueue", {**one, "payload": 2}).json
    assert a["job_id"] == job_id and a["replaced"]
    assert client.state(job_id) == "held"
    decide(client, job_id, "approve", "pending")
    assert client.fetch(queue)["payload"] == 2


def test_there_may_be_so_many(client, queue):
    names = [f"{queue}-{i}" for i in range(100)]
    made = []
    try:
        for name in names:
            a = client.post(POLICIES, {"name": name, "queue": "nowhere"})
            if a.status != 200:
                break
            made.append(name)
        a = client.post(POLICIES, {"name": f"{queue}-more", "queue": "x"})
        assert a.status == 400 and "100" in a.json["error"], a
        # one that is there can be changed all the same
        a = client.post(POLICIES, {"name": made[0], "queue": "elsewhere"})
        assert a.status == 200
    finally:
        for name in made:
            client.request("DELETE", f"{POLICIES}/{name}")


def test_the_view_has_policies(client, node, queue, policy):
    policy("seen", at=["enqueue"], mode="all", tag_key="a", cost_min=2.5,
           deadline="1m", on_deadline="reject")
    client.enqueue(queue, tags={"a": "b"})
    decide(client, client.enqueue(queue), "hold", "held")
    a = client.post(f"{API}/admin/verify-view")
    assert a.status == 200 and a.json["status"] == "ok", a
    gone = policy("gone")
    client.request("DELETE", f"{POLICIES}/{gone['id']}")
    assert client.post(f"{API}/admin/rebuild-sqlite").status == 200
    a = client.post(f"{API}/admin/verify-view")
    assert a.status == 200 and a.json["status"] == "ok", a


def test_metrics(client, queue, policy):
    def seen():
        m = client.metrics()
        return (m.get("corvo_approval_holds_total", 0),
                m.get('corvo_approval_decisions_total{decision="approved"}', 0))
    holds, approved = seen()
    policy("in", at=["enqueue"])
    decide(client, client.enqueue(queue), "approve", "pending")
    assert seen() == (holds + 1, approved + 1)
    assert client.metrics()["corvo_approval_policies"] >= 1


# --- dry run ---


def trial(client, **members):
    a = client.post(f"{POLICIES}/dry-run", {"policy": {
        "name": "trial", **members}})
    assert a.status == 200, a
    return a.json


def test_a_policy_is_tried(client, queue):
    ids = [client.enqueue(queue, payload={"n": n}, tags={"t": str(n)})
           for n in range(5)]
    q = queue
    a = trial(client, queue=q, at=["enqueue"])
    assert (a["held"], a["complete"]) == (5, True), a
    assert a["looked_at"] >= 5 and a["since"] < client.job(ids[0])["created_at"]
    assert [j["id"] for j in a["jobs"]] == ids[::-1]
    assert a["jobs"][0]["at"] == "enqueue"
    a = trial(client, queue=q, mode="all", payload_jq=".n > 2",
              at=["fetch", "enqueue"])
    assert [j["id"] for j in a["jobs"]] == [ids[4], ids[3]]
    a = trial(client, queue=q, mode="all", tag_key="t", tag_value="1",
              at=["enqueue"])
    assert [j["id"] for j in a["jobs"]] == [ids[1]]
    # nobody has fetched any yet
    assert trial(client, queue=q, at=["fetch"])["held"] == 0
    assert client.fetch(queue)["job_id"] == ids[0]
    a = trial(client, queue=q, at=["fetch"])
    assert [(j["id"], j["at"]) for j in a["jobs"]] == [(ids[0], "fetch")]
    # nothing was held by it, and nothing is kept of it
    assert client.state(ids[4]) == "pending"
    assert not [p for p in client.get(POLICIES).json if p["name"] == "trial"]


def test_a_policy_is_tried_on_loops(client, queue):
    job_id = agent(client, queue)
    agent(client, queue)
    for _ in range(2):
        job = client.fetch(queue)
        assert job["job_id"] == job_id
        client.ack(job, agent_status="continue", usage={"cost_usd": 1})
    a = trial(client, queue=queue, mode="all", cost_min=2)
    assert [(j["id"], j["at"]) for j in a["jobs"]] == [(job_id, "continue")]
    assert trial(client, queue=queue, mode="all", cost_min=3)["held"] == 0
    a = trial(client, queue=queue, mode="all", iteration_min=2)
    assert [j["id"] for j in a["jobs"]] == [job_id]
    assert trial(client, queue=queue, mode="all", iteration_min=3)["held"] == 0


@pytest.mark.parametrize("member, body", [
    ("policy", {}),
    ("policy.queue", {"policy": {"name": "x"}}),
    ("policy.payload_jq", {"policy": {"name": "x", "payload_jq": "."}}),
    ("policy.at", {"policy": {"name": "x", "queue": "q", "at": ["x"]}}),
    ("policy.provider_state", {"policy": {"name": "x",
                                          "provider_state": "failing"}}),
    ("period", {"policy": {"name": "x", "queue": "q"}, "period": "25h"}),
])
def test_what_cannot_be_tried(client, member, body):
    a = client.post(f"{POLICIES}/dry-run", body)
    assert (a.status, a.code) == (400, "VALIDATION_ERROR"), a
    assert a.json["error"].startswith(member), a


# --- deadlines ---


@pytest.mark.parametrize("then, state", [
    ("approve", "pending"), ("reject", "dead"), ("escalate", "held")])
def test_a_deadline(client, queue, policy, then, state):
    p = policy("soon", at=["enqueue"], deadline="50ms", on_deadline=then)
    job_id = client.enqueue(queue)

    def passed():
        return events_of(client, job_id, "hold_escalated", "approved",
                         "rejected")
    event = wait_until(passed, what="the deadline")[0]
    job = client.job(job_id)
    assert job["state"] == state
    if then == "escalate":
        assert event["type"] == "hold_escalated"
        assert event["data"] == {"policy": p["id"]}
        assert job["held"]["escalated"] is True
        decide(client, job_id, "approve", "pending")
        return
    d = job["decision"]
    assert (d["via"], d["by"], d["policy"]) == ("deadline", p["name"], p["id"])
    assert event["data"]["via"] == "deadline"
    if then == "reject":
        assert "deadline" in job["errors"][0]["error"]
    else:
        assert client.fetch(queue)["job_id"] == job_id


def test_a_decision_comes_before_the_deadline(client, queue, policy):
    policy("hour", at=["enqueue"], deadline="1h", on_deadline="reject")
    job_id = client.enqueue(queue)
    held = client.job(job_id)["held"]
    assert held["deadline"] > held["since"] and held["on_deadline"] == "reject"
    why = client.get(f"{API}/jobs/{job_id}/why").json
    assert why["reasons"][0]["until"] == held["deadline"]
    decide(client, job_id, "approve", "pending")
    assert client.fetch(queue)["job_id"] == job_id


# --- the command line ---


def corvo(node, *args):
    return subprocess.run(
        [CORVO, *args, "--server", f"http://127.0.0.1:{node.port}"],
        capture_output=True, text=True, timeout=60)


def test_the_command_line(node, client, queue):
    name = f"{queue}-cli"
    p = corvo(node, "policies", "set", name, f"queue={queue}",
              'at=["enqueue"]', "mode=all", "payload_jq=.n > 1")
    assert p.returncode == 0 and name in p.stdout, p
    p = corvo(node, "policies")
    assert "payload .n > 1" in p.stdout and "enqueue" in p.stdout, p
    job_id = client.enqueue(queue, payload={"n": 2})
    p = corvo(node, "held", "--queue", queue, "--output=table")
    assert job_id in p.stdout and f"policy {name}" in p.stdout, p
    p = corvo(node, "search", "--queue", queue, "--held-by", "policy",
              "--output", "ids")
    assert p.stdout.split() == [job_id], p
    p = corvo(node, "approve", job_id, "--comment", "fine", "--by", "ada")
    assert p.returncode == 0 and "pending" in p.stdout, p
    assert client.job(job_id)["decision"]["comment"] == "fine"
    p = corvo(node, "hold", job_id, "--reason", "wait", "--by", "bob")
    assert p.returncode == 0, p
    assert client.job(job_id)["held"]["by"] == "bob"
    p = corvo(node, "approval-links", job_id, "expires_in=1h", "by=eve")
    assert "approve: /api/v1/approvals/" in p.stdout, p
    p = corvo(node, "reject", job_id, "--comment", "no")
    assert p.returncode == 0 and "dead" in p.stdout, p
    p = corvo(node, "policies", "get", name)
    assert '"payload_jq"' in p.stdout, p
    p = corvo(node, "policies", "try", f"queue={queue}", 'at=["enqueue"]')
    assert "Would have held 1 of " in p.stdout, p
    for words in (("set", name), ("try",)):
        p = corvo(node, "policies", *words, "colour=red")
        assert p.returncode != 0 and "colour" in p.stderr, p
    p = corvo(node, "policies", "delete", name)
    assert p.returncode == 0 and "deleted" in p.stdout, p
    assert corvo(node, "policies", "delete", name).returncode != 0
