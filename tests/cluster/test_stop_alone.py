"""A node whose companions are dead is told to stop while somebody waits for an
answer that only a leader could give."""

import contextlib
import os
import signal
import subprocess

from cluster import cluster
from node import API, CORVO, patience, wait_until

# Far longer than a stop takes, which is in order only if nobody waits for it.
FLAGS = ("--op-timeout=10m", "--shutdown-timeout=40s", "--election-timeout=3s",
         "--watchdog-timeout=5m")


def passed_on(node):
    with node.client() as c:
        return c.metrics()["corvo_forwarded_total"]


@contextlib.contextmanager
def asking(node, *requests):
    """Clients whose requests wait for whoever leads."""
    with contextlib.ExitStack() as stack:
        before = passed_on(node)
        clients = [stack.enter_context(node.client(600)) for _ in requests]
        for c, (method, path, body) in zip(clients, requests):
            c.send(method, API + path, body)
        writes = sum(path == "/enqueue" for _, path, _ in requests)
        wait_until(lambda: passed_on(node) == before + writes, 20,
                   "the requests to wait")
        yield clients


def stop(node, clients):
    """In order, and everybody is answered."""
    node.process.send_signal(signal.SIGTERM)
    answers = [c.receive() for c in clients]
    status = node.process.wait(patience(60))
    assert status == 0, node.log()
    node.check_log()
    assert "stopping; no leader answers" in node.log()
    assert "the oldest for" in node.log()  # and what it waited for
    return answers


def test_a_node_alone_says_what_it_knows():
    """Far sooner than an answer of a leader would be waited for."""
    with cluster(*FLAGS) as three:
        alone = three.followers()[0]
        for n in three.nodes:
            if n is not alone:
                n.kill_all()
        wait_until(lambda: not alone.is_ready(), 20, "its link to be down")
        server = f"--server=http://127.0.0.1:{alone.port}"
        for verb, status in ((["cluster", "status"], 1), (["status"], 0),
                             (["top", "--once"], 0), (["events"], 0)):
            p = subprocess.run([CORVO, *verb, server], text=True, timeout=240,
                               capture_output=True)
            assert p.returncode == status, p
            assert "LEADER_UNAVAILABLE" not in p.stderr, p
            if verb != ["events"]:
                assert "no leader" in p.stdout + p.stderr or \
                    "does not reach" in p.stdout + p.stderr, p
            print(p.stdout, p.stderr)


def test_what_waits_for_a_leader_was_not_done():
    with cluster(*FLAGS) as three:
        alone, other = three.followers()
        leader = three.leader()
        other.kill_all()
        leader.kill_all()
        wait_until(lambda: not alone.is_ready(), 20, "its link to be down")
        with asking(alone, ("POST", "/cluster/transfer", {}),
                    ("POST", "/enqueue", {"queue": "q"}),
                    ("GET", "/queues?consistency=leader", None)) as clients:
            for a in stop(alone, clients):
                assert (a.status, a.code) == (503, "LEADER_UNAVAILABLE"), a
                assert a.headers["Connection"] == "close"


def test_of_what_the_leader_had_nobody_knows():
    with cluster(*FLAGS) as three:
        alone, other = three.followers()
        leader = three.leader()
        other.kill_all()
        os.kill(leader.pids()["raftd"], signal.SIGSTOP)
        with asking(alone, ("POST", "/cluster/transfer", {}),
                    ("POST", "/cluster/remove", {"node_id": "nobody"}),
                    ("POST", "/enqueue", {"queue": "q"})) as clients:
            leader.kill_all()
            for a in stop(alone, clients):
                assert (a.status, a.code) == (504, "OUTCOME_UNKNOWN"), a


def test_of_what_is_in_the_log_nobody_knows():
    """It led itself, and could not bring it to the others any more."""
    with cluster(*FLAGS) as three:
        leader = three.leader()
        for n in three.followers():
            n.kill_all()
        with leader.client(600) as c, leader.client() as looks:
            c.send("POST", f"{API}/enqueue", {"queue": "q"})
            wait_until(lambda: looks.metrics()["corvo_raft_apply_pending"]
                       or passed_on(leader), 20, "it to be in the log")
            [a] = stop(leader, [c])
            assert (a.status, a.code) == (504, "OUTCOME_UNKNOWN"), a
