"""Nodes that come to a cluster and go: invited, leaving, removed, dead."""

import contextlib
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from cluster import Cluster, cluster, term_of  # noqa: E402
from node import API, CORVO, Node, free_port, wait_until  # noqa: E402
from waiting import patience  # noqa: E402


def peer(node):
    return f"127.0.0.1:{node.raft_port}"


def name_of(node):
    return next(f.split("=")[1] for f in node.flags
                if f.startswith("--node-id"))


def names(c, node=None):
    return sorted(r["id"] for r in c.rows(node) if "id" in r)


def corvo(node, *words):
    return subprocess.run(
        [CORVO, *words, f"--server=http://127.0.0.1:{node.port}"],
        capture_output=True, text=True, check=False, timeout=patience(60))


def post(node, path, body):
    with node.client() as c:
        return c.post(f"{API}/cluster/{path}", body)


@contextlib.contextmanager
def kept(c):
    try:
        yield c
    except BaseException:
        c.clean_up(check=False)
        raise
    c.clean_up()


@pytest.fixture(scope="module")
def one():
    with cluster(size=1) as c:
        yield c


def waiting(name, *flags):
    return Node("--cluster", "--bootstrap=false", f"--node-id={name}", *flags)


# --- joining by the API -------------------------------------------------------


def test_a_waiting_node_is_invited():
    with kept(Cluster(size=1)) as c:
        c.nodes[0].start()
        fresh = waiting("n2")
        c.nodes.append(fresh)
        fresh.spawn()
        wait_until(lambda: "waits to be taken into one" in fresh.log(), 20,
                   "it to wait")
        with c.nodes[0].client() as client:
            job_id = client.enqueue("q")
        a = post(c.nodes[0], "join", {"addr": peer(fresh), "node_id": "n2"})
        assert a.status == 200, a
        assert a.json == {"status": "ok", "added": True, "node_id": "n2",
                          "addr": peer(fresh)}
        c.wait_whole()
        with fresh.client() as client:
            wait_until(lambda: client.get(f"{API}/jobs/{job_id}").status
                       == 200, 10, "the job")
        # Twice is once; through the other node and by the CLI too.
        a = post(fresh, "join", {"addr": peer(fresh)})
        assert a.status == 200 and a.json["added"] is False, a
        p = corvo(fresh, "cluster", "join", peer(c.nodes[0]))
        assert p.returncode == 0 and "n1" in p.stdout, p


def test_a_node_that_cannot_be_invited_is_told_why(one, tmp_path):
    first = one.nodes[0]
    secret = tmp_path / "secret"
    secret.touch(0o600)
    secret.write_text("another secret than the other has")
    others = [Node("--cluster", "--node-id=x1"),
              waiting("x2", f"--cluster-secret-file={secret}"),
              waiting("x3")]
    try:
        others[0].start()
        for n in others[1:]:
            n.spawn()
            wait_until(lambda n=n: "waits to be taken" in n.log(), 20, "it")
        nobody = f"127.0.0.1:{free_port()}"
        for body, status, words in (
                ({"addr": nobody}, 400, f"{nobody} cannot be asked: "
                 "Connection refused"),
                ({"addr": peer(others[0])}, 409,
                 "node x1 at " + peer(others[0]) + " has data of another "
                 "cluster; it can join with an empty data directory"),
                ({"addr": peer(others[1])}, 400,
                 "do not have the same cluster secret"),
                ({"addr": peer(others[2]), "node_id": "x4"}, 409,
                 f"the node at {peer(others[2])} is named x3"),
                ({"addr": "here"}, 400, "addr is host:port"),
                ({}, 400, "addr")):
            a = post(first, "join", body)
            assert a.status == status and words in a.json["error"], a
        assert names(one) == ["n1"]
    finally:
        for n in others:
            n.clean_up(check=False)


def test_a_node_without_a_port_invites_nobody():
    n = Node()
    try:
        n.start()
        a = post(n, "join", {"addr": "127.0.0.1:1"})
        assert a.status == 409 and "--cluster" in a.json["error"], a
        a = post(n, "leave", {})
        assert a.status == 409 and "in no cluster" in a.json["error"], a
    finally:
        n.clean_up()


TAKEN = "a node of that name is in the cluster and answers"


def test_the_name_of_a_node_that_lives_is_not_taken_at_a_failover():
    """Who comes to lead has heard of nobody yet, and is asked at once: each
    follower has a double that does. Without a leader for some seconds all of
    them are waiting to be answered."""
    with cluster("--election-timeout=3s") as c:
        leader, others = c.leader(), c.followers()
        doubles = [Node(f"--node-id={name_of(n)}",
                        "--join=" + ",".join(map(peer, others)))
                   for n in others]
        try:
            for d in doubles:
                d.spawn()
            for d in doubles:
                wait_until(lambda d=d: TAKEN in d.log(), 30, "the refusal")
            before = [d.log().count(TAKEN) for d in doubles]
            leader.kill_all()
            c.leader()

            def judged():
                return all(d.log().count(TAKEN) > n
                           or "taken in by" in d.log()
                           for d, n in zip(doubles, before))
            wait_until(judged, 60, "the next leader to know them")
            assert not any("taken in by" in d.log() for d in doubles)
            assert names(c) == ["n1", "n2", "n3"]
            with others[0].client() as client:
                client.enqueue("q")
            assert all(n.is_ready() for n in others)
        finally:
            for d in doubles:
                d.clean_up(check=False)
        leader.start()
        c.wait_whole()


# --- going -------------------------------------------------------


def test_the_last_voter_stays(one):
    first = one.nodes[0]
    for path, body in (("leave", {}), ("remove", {"node_id": "n1"}),
                       ("leave", {"node_id": "n1"})):
        a = post(first, path, body)
        assert a.status == 409 and "only node that votes" in a.json["error"]
    p = corvo(first, "cluster", "leave")
    assert p.returncode != 0 and "only node that votes" in p.stderr, p
    assert names(one) == ["n1"]


def test_nobody_leads_who_does_not_vote(one):
    first = one.nodes[0]
    a = post(first, "transfer", {"node_id": "nobody"})
    assert a.status == 404 and "nobody" in a.json["error"], a
    a = post(first, "transfer", {})
    assert a.status == 409 and "no other node" in a.json["error"], a


def test_nobody_leads_who_has_not_caught_up():
    c = Cluster(size=2)
    first, second = c.nodes
    try:
        first.start()
        with first.client() as client:
            for _ in range(1100):
                client.enqueue("q")
        second.slow_log(600)
        second.spawn()
        wait_until(lambda: [r["voter"] for r in c.rows(first)
                            if r.get("id") == "n2"] == [False], 30, "n2")
        a = post(first, "transfer", {"node_id": "n2"})
        assert a.status == 409 and "does not vote yet" in a.json["error"], a
        assert c.leads(first)
    finally:
        c.clean_up(check=False)


def test_a_node_that_just_came_is_known_by_its_name():
    """Also before it has told anything of itself, it is not one that nobody
    knows. With a log that takes nothing it stays one that does not vote."""
    c = Cluster(size=2)
    first, second = c.nodes
    try:
        first.start()
        second.slow_log(600)
        second.spawn()
        wait_until(lambda: "is taken in" in first.log(), 30, "n2")

        def is_named():
            a = post(first, "transfer", {"node_id": "n2"})
            if a.status == 503:
                assert "has not told its name yet" in a.json["error"], a
                return False
            assert a.status == 409, a
            assert "does not vote yet" in a.json["error"], a
            return True

        wait_until(is_named, 30, "its name")
        assert c.leads(first)
    finally:
        c.clean_up(check=False)


@pytest.mark.parametrize("leads", [True, False])
def test_a_node_leaves(leads):
    with cluster() as c:
        node = c.leader() if leads else c.followers()[0]
        rest = [n for n in c.nodes if n is not node]
        with node.client() as client:
            job_id = client.enqueue("q")
        p = corvo(node, "cluster", "leave")
        assert p.returncode == 0 and "left" in p.stdout, p
        for n in rest:
            wait_until(lambda n=n: names(c, n) == sorted(map(name_of, rest)),
                       20, "it to be gone")
        with node.client() as client:
            a = client.get("/readyz")
            assert a.status == 503, a
            assert a.json["error"] == ("this node is in no cluster: it has "
                                       "left"), a
            a = client.get(f"{API}/cluster/status")
            assert a.json["membership"] == "it has left", a
            a = post(node, "leave", {})
            assert a.status == 200 and a.json["status"] == "left", a
        with rest[0].client() as client:
            assert client.fetch("q", timeout=10)["job_id"] == job_id
        # With what it has it does not come back.
        node.stop()
        status, words = node.refuses()
        assert status != 0
        assert "this node has left its cluster" in words, words
        assert "start with an empty --data-dir" in words
        c.nodes.remove(node)
        node.clean_up(check=False)


def test_a_node_leaves_when_it_is_stopped():
    with cluster("--leave-on-term", size=4) as c:
        node = c.leader()
        node.stop()
        c.nodes.remove(node)
        wait_until(lambda: names(c) == sorted(map(name_of, c.nodes)), 20,
                   "it to be gone")
        assert (node.data / "left").exists()
        node.clean_up(check=False)
        # What goes together cannot all leave, and stops all the same.
        for n in c.nodes:
            n.process.terminate()
        for n in c.nodes:
            assert n.process.wait(patience(30)) == 0


def test_the_leader_can_be_removed():
    with cluster() as c:
        node = c.leader()
        name = name_of(node)
        a = post(node, "remove", {"node_id": name})
        assert a.status == 200, a
        rest = [n for n in c.nodes if n is not node]
        for n in rest:
            wait_until(lambda n=n: name not in names(c, n)
                       and len(c.rows(n)) == 2, 20, "it to be gone")
        with rest[0].client() as client:
            client.enqueue("q")


def test_a_removed_node_is_refused():
    with cluster() as c:
        node = c.followers()[0]
        name = name_of(node)
        node.stop()
        a = post(c.leader(), "remove", {"node_id": name})
        assert a.status == 200, a
        node.spawn()
        for n in (node, c.leader()):
            wait_until(lambda n=n: "is not a member of the cluster" in n.log(),
                       30, "the refusal")
        assert not node.is_ready()


def test_nobody_is_removed_whom_the_rest_needs():
    with cluster() as c:
        dead, other = c.followers()
        leader = c.leader()
        dead.stop()
        wait_until(lambda: not all(r["alive"] for r in c.rows(leader)), 30,
                   "it to be missed")
        a = post(leader, "remove", {"node_id": name_of(other)})
        assert a.status == 409 and "no majority" in a.json["error"], a
        a = post(leader, "remove", {"node_id": name_of(leader)})
        assert a.status == 409 and "no majority" in a.json["error"], a
        a = post(leader, "remove", {"node_id": name_of(dead)})
        assert a.status == 200, a
        with other.client() as client:
            client.enqueue("q")


def test_a_node_that_leads_is_handed_what_it_has():
    with cluster() as c:
        leader = c.leader()
        a = post(leader, "transfer", {"node_id": name_of(leader)})
        assert a.status == 200 and c.leader() is leader, a


def test_a_node_that_is_removed_while_it_runs_says_so():
    with cluster() as c:
        node = c.followers()[0]
        a = post(c.leader(), "remove", {"node_id": name_of(node)})
        assert a.status == 200, a
        with node.client() as client:
            def told():
                a = client.get("/readyz")
                return a.status == 503 and a.json["error"] == (
                    "this node is in no cluster: it was removed")
            wait_until(told, 30, "it to know")


def test_a_member_does_not_start_without_a_port():
    """It has data, so it uses no setting join; but the others count on it."""
    with cluster() as c:
        first = c.nodes[0]
        first.stop()
        flags = list(first.flags)
        first.flags.remove("--cluster")
        status, words = first.refuses()
        assert status == 2
        assert "of a node of a cluster of 3; start it with --cluster" in words
        first.flags = flags
        first.start()
        c.wait_whole()


# --- the dead -------------------------------------------------------


def test_a_dead_node_is_shown_and_removed():
    with cluster("--remove-dead-after=5s", size=5) as c:
        dead = c.followers()[:2]
        for n in dead:
            n.kill_all()
        leader = c.leader()
        term = term_of(leader)
        gone = sorted(map(name_of, dead))
        # Both are missed; three are enough, and go on for ever.
        wait_until(lambda: len(names(c, leader)) == 3, 40, "them to be gone")
        told = sum(n.log().count("longer than remove_dead_after")
                   for n in c.alive())
        # another one that came to lead meanwhile may have told it again
        assert told == 2 or (told > 2 and term_of(leader) != term)
        with leader.client() as client:
            def left():
                events = client.get(
                    f"{API}/cluster/events?limit=1000").json["events"]
                return sorted(e["data"]["node"] for e in events
                              if e["type"] == "member_left") == gone
            wait_until(left, 10, "the events")
        third = next(n for n in c.followers())
        third.kill_all()
        killed_at = time.monotonic()
        leader = c.leader()
        term = term_of(leader)

        def is_for_long(row):
            """One that came to lead since then has never heard of it."""
            if term_of(leader) != term:
                return time.monotonic() - killed_at > 60
            return row.get("last_contact_ms", 0) > 9000

        def missed():
            row = next(r for r in c.rows(leader) if r["id"] == name_of(third))
            return not row["alive"] and is_for_long(row)
        wait_until(missed, 40, "it to be missed for long")
        assert len(names(c, leader)) == 3
        for n in [*dead, third]:
            c.nodes.remove(n)
            n.clean_up(check=False)


# --- not joining --------------------------------------------------------------


def test_a_node_with_data_does_not_join_another_cluster(one):
    """Both say so; it does not start, and keeps what it has."""
    with cluster("--node-id=m1", size=1) as other:
        own = other.nodes[0]
        with own.client() as c:
            job_id = c.enqueue("own")
        own.stop()
        join = f"--join={peer(one.nodes[0])}"
        own.flags.append(join)
        status, words = own.refuses()
        assert status == 2
        assert (f"has data of one cluster, and --join names "
                f"{peer(one.nodes[0])}, which is in another") in words
        assert (f"node m1 at {peer(own)} has data of another cluster than "
                "this node") in one.nodes[0].log()
        own.flags.remove(join)
        own.start()
        with own.client() as c:
            assert c.fetch("own", timeout=10)["job_id"] == job_id
        assert len(names(one)) == 1


def test_a_node_whose_join_names_another_cluster_ends_when_that_answers():
    """Also where nobody could be asked when it started."""
    other = Node("--cluster", "--node-id=x1")
    with cluster("--node-id=m1", size=1) as c:
        own = c.nodes[0]
        own.stop()
        own.start(f"--join={peer(other)}")
        try:
            other.start()
            assert own.process.wait(patience(60)) == 2
            assert (f"has data of one cluster, and --join names {peer(other)}, "
                    "which is in another") in own.log()
        finally:
            other.clean_up(check=False)


def test_a_member_that_starts_again_with_join_says_nothing_of_it():
    with cluster() as three:
        joined = three.nodes[1]
        joined.stop()
        joined.err.unlink()
        joined.start()
        three.wait_whole()
        assert "another cluster" not in joined.log()
        assert "another cluster" not in three.nodes[0].log()
