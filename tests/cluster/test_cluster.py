"""Three nodes that make one cluster, from outside."""

import socket
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from cluster import Cluster, cluster, under_one_leader  # noqa: E402
from node import API, free_port, wait_until  # noqa: E402


@pytest.fixture(scope="module")
def three():
    with cluster() as c:
        yield c


def test_every_node_knows_all_nodes(three):
    def body(leader, _wait):
        for n in three.nodes:
            rows = three.rows(n)
            assert {r["id"] for r in rows} == {"n1", "n2", "n3"}
            assert all(r["voter"] for r in rows)
            assert [r["id"] for r in rows if r.get("self")] == [
                f"n{three.nodes.index(n) + 1}"]
            assert [r["id"] for r in rows if r["role"] == "leader"] == [
                f"n{three.nodes.index(leader) + 1}"]
    under_one_leader(three, body)


def test_any_node_does_any_request(three):
    """Created at one, taken at the second, completed at the third."""
    for i in range(9):
        a, b, c = (three.nodes[(i + k) % 3].client() for k in range(3))
        with a, b, c:
            job_id = a.enqueue("any", payload={"i": i})
            assert a.job(job_id)["state"] == "pending"
            job = b.fetch("any", timeout=30)
            assert job["job_id"] == job_id
            assert b.job(job_id)["state"] == "active"
            c.ack(job, result={"done": i})
            assert c.job(job_id)["state"] == "completed"
            wait_until(lambda: a.state(job_id) == "completed", 10,
                       "the change to arrive")


def test_a_waiting_worker_is_served_through_any_node(three):
    for asked in three.nodes:
        for told in three.nodes:
            with asked.client() as worker, told.client() as producer:
                worker.send("POST", f"{API}/fetch",
                            {"queues": ["waits"], "timeout": 30,
                             "worker_id": "w"})
                job_id = producer.enqueue("waits")
                a = worker.receive()
                assert a.status == 200 and a.json["job_id"] == job_id
                worker.ack(a.json)


def test_lists_of_a_node_have_what_it_acknowledged(three):
    for n in three.nodes:
        with n.client() as c:
            name = f"list-{n.port}"
            ids = {c.enqueue(name) for _ in range(20)}
            found = c.search(queue=name, limit=100)["jobs"]
            assert {j["id"] for j in found} == ids
            assert c.queue(name)["pending"] == 20


def test_workers_are_known_everywhere(three):
    with three.nodes[0].client() as a:
        a.enqueue("known")
        job = a.fetch("known", worker_id="the-worker")
        for n in three.nodes:
            with n.client() as c:
                rows = c.get(f"{API}/workers").json
                assert "the-worker" in [w["id"] for w in rows]
        a.ack(job)


def test_events_are_told_everywhere(three):
    with three.nodes[0].client() as c:
        job_id = c.enqueue("told")
    for n in three.nodes:
        with n.client() as c:
            def told():
                events = c.get(f"{API}/cluster/events?limit=1000").json
                return job_id in [e.get("job_id") for e in events["events"]]
            wait_until(told, 10, "the event")


def test_heartbeats_through_a_follower_keep_the_lease(three):
    follower = three.followers()[0]
    with follower.client() as c:
        c.enqueue("beats")
        job = c.fetch("beats", lease_duration=2)
        for _ in range(3):
            a = c.post(f"{API}/heartbeat",
                       {"worker_id": "w1", "jobs": {job["job_id"]: {}}})
            assert a.status == 200, a
        c.ack(job)


def test_leadership_is_handed_over(three):
    leader = three.leader()
    with leader.client() as c:
        job_id = c.enqueue("moved")
        a = c.post(f"{API}/cluster/transfer", {})
        assert a.status == 200, a
        wait_until(lambda: not three.leads(leader), 10, "another leader")
        assert c.fetch("moved", timeout=30)["job_id"] == job_id


def test_a_leader_that_is_killed_is_followed_by_another():
    with cluster() as three:
        leader = three.leader()
        follower = three.followers()[0]
        with follower.client() as c:
            ids = [c.enqueue("kept") for _ in range(50)]
            # One that waits meanwhile.
            with follower.client() as worker:
                worker.send("POST", f"{API}/fetch",
                            {"queues": ["later"], "timeout": 30,
                             "worker_id": "w"})
                leader.kill_all()
                late = c.enqueue("later")
                a = worker.receive()
                assert a.status == 200 and a.json["job_id"] == late, a
            got = [c.fetch("kept", timeout=10)["job_id"] for _ in ids]
            assert got == ids
        leader.start()
        three.wait_whole()
        with leader.client() as c:
            assert c.job(ids[0])["state"] == "active"


def test_questions_to_the_leader_wait_for_the_next_one():
    with cluster() as three:
        leader = three.leader()
        a, b = (n.client() for n in three.followers())
        with a, b:
            leader.kill_all()
            for c in (a, b):
                c.send("GET", f"{API}/workers")
            for c in (a, b):
                answer = c.receive()
                assert (answer.status, answer.json) == (200, []), answer
        for n in three.alive():
            assert "process=raftd died" not in n.log()
        leader.start()


def test_a_node_with_an_empty_disk_comes_back():
    import shutil
    with cluster() as three:
        node = three.followers()[0]
        with three.leader().client() as c:
            ids = [c.enqueue("kept") for _ in range(50)]
        node.stop()
        shutil.rmtree(node.data)
        wait_until(lambda: three.voters() == 3, 10, "it to be missed")
        if node is three.nodes[0]:
            node.flags.append(
                f"--join=127.0.0.1:{three.nodes[1].raft_port}")
        node.start()
        three.wait_whole()
        with node.client() as c:
            assert [c.fetch("kept")["job_id"] for _ in ids] == ids


def test_a_node_joins_a_cluster_whose_log_was_cut():
    """It has to fetch the state, from nodes it knows nothing of yet."""
    with cluster("--snapshot-bytes=256KiB") as c:
        with c.leader().client() as client:
            ids = [client.enqueue("deep", payload="x" * 50000)
                   for _ in range(60)]
            wait_until(lambda: client.get(f"{API}/cluster/status")
                       .json["snapshot_index"] > 0, 10, "the log to be cut")
        node = c.add().spawn()
        c.wait_whole()
        assert "fetched the snapshot of entry" in node.log()
        with node.client() as client:
            assert [client.fetch("deep", timeout=10)["job_id"]
                    for _ in ids] == ids


def test_a_node_that_was_alone_can_grow():
    """Its log knows it by an address that nobody can dial any more."""
    c = Cluster(size=1)
    try:
        first = c.nodes[0]
        flags, first.flags = first.flags, [
            f for f in first.flags if f != "--cluster"]
        first.start()
        with first.client() as client:
            job_id = client.enqueue("before")
        first.stop()
        first.flags, first.raft_port = flags, free_port()
        first.start()
        c.add().spawn()
        c.add().spawn()
        c.wait_whole()
        with c.nodes[2].client() as client:
            assert client.fetch("before", timeout=10)["job_id"] == job_id
    finally:
        c.clean_up()


def when_no_other_change(ask):
    """The answer to a change of the members; one at a time is carried out."""
    def answer():
        a = ask()
        return None if a.status == 409 and "under way" in a.json["error"] else a
    return wait_until(answer, 10, "the change before it")


def test_a_removed_node_is_no_member(three_or_four=4):
    c = Cluster(size=three_or_four)
    try:
        c.start()
        with c.leader().client() as client:
            name = f"n{c.nodes.index(c.followers()[0]) + 1}"
            a = when_no_other_change(lambda: client.post(
                f"{API}/cluster/remove", {"node_id": name}))
            assert a.status == 200, a
            wait_until(lambda: len(c.rows(c.leader())) == 3, 10, "it to go")
            a = client.post(f"{API}/cluster/remove", {"node_id": name})
            assert a.status == 404 and name in a.json["error"], a
    finally:
        c.clean_up()


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as s:
            s.bind(("::1", 0))
            return True
    except OSError:
        return False


@pytest.mark.skipif(not has_ipv6(), reason="there is no ::1 here")
def test_nodes_talk_over_ipv6():
    c = Cluster(size=0)
    for _ in range(3):
        n = c.add()
        n.flags = [f"--raft-bind=[::1]:{n.raft_port}",
                   *(f.replace("127.0.0.1", "[::1]") for f in n.flags)]
    try:
        c.start()
        for n in c.nodes:
            assert all(r["address"].startswith("[::1]:") for r in c.rows(n))
            with n.client() as client:
                client.enqueue("q")
        c.leader().stop()  # which hands over
        with c.leader().client() as client:
            for _ in range(3):
                client.ack(client.fetch("q", timeout=10))
    except BaseException:
        c.clean_up(check=False)
        raise
    c.clean_up()
