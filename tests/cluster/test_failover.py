"""A leader is killed under load. bench/failover.py says how long it takes."""

import os
import random
import time

import history
from clients import LINE, Load
from cluster import cluster
from node import patience, wait_until

KILLS = 3
BETWEEN = 40  # jobs that must be done between two kills
SEED = int(os.environ.get("CORVO_TEST_SEED") or random.randrange(1 << 32))


def progress(load, n=BETWEEN):
    goal = load.watch.ended + n

    def is_done():
        load.check()
        return load.watch.ended >= goal

    wait_until(is_done, 30, f"{n} more jobs to be done")


def check(load, three, directory):
    """All jobs get done; nothing was lost, and no request failed twice."""
    three.wait_whole()
    load.drain(60)
    load.write_final(three.leader())
    records, final = history.read(directory)
    print(f"{len(records)} observations, {len(final)} jobs: "
          f"{load.watch.outcomes}")
    assert history.check(records, final, fifo=[LINE]) == []
    assert not load.watch.failures, load.watch.failures


def test_a_leader_killed_under_load_costs_no_job_and_no_error(tmp_path):
    print(f"CORVO_TEST_SEED={SEED}")
    with cluster("--log-level=info") as three:
        load = Load(three.nodes, tmp_path, SEED, answer_s=patience(10)).start()
        try:
            for _ in range(KILLS):
                progress(load)
                killed = three.leader()
                killed.kill_all()
                assert three.leader() is not killed
                progress(load)
                killed.start()
                three.wait_whole()
            check(load, three, tmp_path)
        finally:
            load.watch.produced.set()
            load.watch.stop.set()


def test_followers_wait_as_long_as_election_timeout_says():
    """By default they do not wait for a second. Its last word may have come a
    while before its death, on a machine that is busy."""
    with cluster("--election-timeout=5s") as three:
        killed = three.leader()
        killed.kill_all()
        at = time.monotonic()
        assert three.leader() is not killed
        assert time.monotonic() - at >= 2.5
