"""Nodes that cannot reach each other, and can again."""

import os
import random

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


def test_a_leader_that_is_cut_off_is_replaced_again_and_again():
    print(f"CORVO_TEST_SEED={SEED}")
    kind = "proxy" if may_have_namespaces() else "namespaces"
    three = NetCluster(kind, SEED, f"--op-timeout={ASKED_S}s")
    jobs = []
    try:
        three.start()
        for _ in range(2):
            cut_leader_off(three, jobs)
        for n in three.nodes:
            with n.client() as c:
                for job in jobs:
                    wait_until(lambda: c.get(f"{API}/jobs/{job}")
                               .status == 200, 20, "it to be everywhere")
        three.clean_up()
    finally:
        three.clean_up(check=False)
