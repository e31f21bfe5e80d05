"""The corvo command about nodes of a cluster, against a fake server."""

import json

import pytest

from cli_fixture import corvo, fake, ok  # noqa: F401

VOTERS = [{"id": f"n{i}", "role": "follower", "voter": True,
           "alive": i == 1} for i in (1, 2, 3)]
ALONE = {"mode": "cluster", "node_id": "n1", "state": "Candidate", "term": 7,
         "leader": False, "leader_id": "", "ready": False, "disk_ok": True,
         "nodes": VOTERS}
NO_LEADER = ("node n1 knows no leader (Candidate, term 7): 2 of the 3 nodes "
             "that vote must run and reach each other; if they are lost for "
             "good, see: corvo help cluster recover")


@pytest.mark.parametrize("change, said", [
    ({}, NO_LEADER),
    ({"membership": "it has left"}, "node n1 is in no cluster: it has left"),
    ({"membership": "it has left", "leader_id": "n2", "ready": True},
     "node n1 is in no cluster: it has left"),
    ({"state": "Follower", "leader_id": "n2"},
     "node n1 does not reach n2, which led last, or has yet to apply the "
     "log")])
def test_without_a_leader_a_node_says_what_it_knows(fake, change, said):
    """And nobody waits for the answer of a leader."""
    fake.reply("GET", "/api/v1/cluster/status", {**ALONE, **change})
    fake.reply("GET", "/api/v1/queues", [])
    p = corvo("cluster", "status", fake=fake)
    assert (p.returncode, p.stderr) == (1, f"Error: {said}\n"), p
    assert [r.split()[0] for r in p.stdout.splitlines()] == [
        "NODE", "n1", "n2", "n3"]
    p = corvo("cluster", "status", "--output=json", fake=fake)
    assert p.returncode == 1 and json.loads(p.stdout)["nodes"] == VOTERS
    assert {r[1] for r in fake.requests} == {"/api/v1/cluster/status"}
    lines = ok("status", fake=fake).splitlines()
    assert lines[1] == f"Note: {said}"
    if "membership" in change:
        assert lines[0] == "Mode: cluster  Status: in no cluster  Node: n1"


def test_the_nodes_are_asked_of_the_leader(fake):
    fake.reply("GET", "/api/v1/cluster/status", {
        **ALONE, "state": "Follower", "leader_id": "n2", "ready": True})
    fake.reply("GET", "/api/v1/cluster/nodes", {"nodes": VOTERS[:2]})
    assert len(ok("cluster", "status", fake=fake).splitlines()) == 3
