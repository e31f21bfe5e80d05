"""Nodes that cannot reach each other, and can again."""

import contextlib
import os
import random
import signal

from network import NetCluster, may_have_namespaces
from node import API, wait_until

SEED = int(os.environ.get("CORVO_TEST_SEED") or random.randrange(1 << 32))
# Longer than the kernel waits for a peer that has gone without a word, so that
# connections end meanwhile.
ASKED_S = 6


def links_of(three, node):
    n = str(three.number(node))
    return {f"{a}>{b}": {"cut": True} for a in "123" for b in "123"
            if a != b and n in (a, b)}


def cut_leader_off(three, jobs):
    """The others go on without it; it says that it cannot."""
    alone = three.leader()
    others = [n for n in three.nodes if n is not alone]
    three.bad(links_of(three, alone))
    with alone.client() as a, others[0].client() as b:
        a.send("POST", f"{API}/enqueue", {"queue": "alone"})
        jobs.append(b.enqueue("others"))
        refused = a.receive()
        assert refused.status in (503, 504), refused
        assert "Retry-After" in refused.headers
        jobs.append(b.enqueue("others"))
        three.heal()
        wait_until(lambda: a.post(f"{API}/enqueue", {"queue": "alone"})
                   .status == 201, 20, "it to be one of them again")


@contextlib.contextmanager
def connected(*flags):
    """Three nodes on a network that can be made bad."""
    print(f"CORVO_TEST_SEED={SEED}")
    kind = "proxy" if may_have_namespaces() else "namespaces"
    three = NetCluster(kind, SEED, *flags)
    try:
        three.start()
        yield three
        three.clean_up()
    finally:
        three.clean_up(check=False)


def test_a_leader_that_is_cut_off_is_replaced_again_and_again():
    jobs = []
    with connected(f"--op-timeout={ASKED_S}s") as three:
        for _ in range(2):
            cut_leader_off(three, jobs)
        for n in three.nodes:
            with n.client() as c:
                for job in jobs:
                    wait_until(lambda: c.get(f"{API}/jobs/{job}")
                               .status == 200, 20, "it to be everywhere")


@contextlib.contextmanager
def still(*pids):
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in reversed(pids):
            os.kill(pid, signal.SIGCONT)


def test_a_leader_that_stood_still_extends_no_lease():
    """It does not know yet that another one leads, and that the job is in
    other hands."""
    with connected("--op-timeout=1m", "--watchdog-timeout=5m") as three:
        leader = three.leader()
        other = next(n for n in three.nodes if n is not leader)
        # The supervisor first: it would start another raftd.
        pids = [leader.process.pid, leader.pids()["raftd"]]
        with leader.client() as a, other.client() as b:
            a.enqueue("work")
            first = a.fetch("work", worker_id="first", lease_duration=1)
            with still(*pids):
                three.bad(links_of(three, leader))
                a.send("POST", f"{API}/heartbeat", {
                    "worker_id": "first", "jobs": {first["job_id"]: {
                        "lease_token": first["lease_token"]}}})
                second = b.fetch("work", worker_id="second", timeout=30,
                                 lease_duration=30)
            assert second["job_id"] == first["job_id"]
            wait_until(lambda: not three.leads(leader), 20, "it to give up")
            three.heal()
            told = a.receive()
            assert told.status == 200, told
            assert told.json["jobs"][first["job_id"]]["status"] == "cancel"
            b.ack(second)
        three.clean_up(check=False)


def test_a_node_that_is_cut_off_says_so_in_time():
    """It serves what it has, and refuses what only a leader can do."""
    with connected("--op-timeout=2s") as three:
        alone = three.followers()[0]
        with alone.client() as c:
            job = c.enqueue("known")
            assert c.get(f"{API}/jobs/{job}").status == 200
            three.bad(links_of(three, alone))
            wait_until(lambda: c.get("/readyz").status == 503, 20,
                       "it to notice")
            for method, path, body in (
                    ("POST", "/enqueue", {"queue": "q"}),
                    ("POST", "/fetch", {"queues": ["q"], "timeout": 0}),
                    ("GET", f"/jobs/{job}?consistency=leader", None),
                    ("GET", "/queues?consistency=leader", None)):
                a = c.request(method, API + path, body)
                assert (a.status, a.code) == (503, "LEADER_UNAVAILABLE"), a
                assert int(a.headers["Retry-After"]) > 0
            assert c.get(f"{API}/jobs/{job}").status == 200
            assert c.queue("known")["pending"] == 1
            three.heal()
            wait_until(lambda: c.get(f"{API}/jobs/{job}?consistency=leader")
                       .status == 200, 20, "it to be one of them again")
