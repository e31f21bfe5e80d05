"""corvo bench against a real node."""

import json
import os
import subprocess
import tempfile

import pytest

from node import CORVO, PROCS, wait_until
from waiting import patience

JOBS = 400


def bench(node, *args, url=None):
    url = url or f"http://127.0.0.1:{node.port}"
    p = subprocess.run(
        [CORVO, "bench", *args, "--connections", "6", "--output", "json"],
        capture_output=True, text=True, timeout=patience(60),
        env={**os.environ, "CORVO_URL": url})
    assert (p.returncode, p.stderr) == (0, ""), p
    return json.loads(p.stdout)


def queue_names(client):
    return {q["name"] for q in client.get("/api/v1/queues").json}


@pytest.mark.parametrize("protocol", ["http", "batch"])
@pytest.mark.parametrize("mode",
                         ["enqueue", "fetch", "ack", "combined", "burst"])
def test_every_mode_accounts_for_every_job(node, client, queue, mode,
                                           protocol):
    """And leaves nothing behind, and what others have as it was."""
    job_id = client.enqueue(queue)
    before = queue_names(client)
    more = ["--burst", str(JOBS // 2)] if mode == "burst" else []
    got = bench(node, mode, "--protocol", protocol, "--count", str(JOBS),
                *more)
    assert got["jobs"] == JOBS and got["jobs_per_s"] > 0
    assert got["run"]["mode"] == mode
    assert got["run"]["protocol"] == protocol
    told = {p["name"]: p for p in got["processes"]}
    assert {"bench", *PROCS} <= set(told)
    assert told["raftd"]["memory_bytes"] > 1 << 20
    assert told["raftd"]["cpu_us_per_job"] >= 0
    wait_until(lambda: queue_names(client) == before, patience(30),
               "its queue to be gone")
    assert client.state(job_id) == "pending"


def test_a_duration_is_kept_and_rates_are_shown(node):
    got = bench(node, "combined", "--duration", "2.2s")
    assert 2.2 <= got["seconds"] < 2.2 + patience(1)
    assert 0 <= got["per_second_min"] <= got["per_second_max"]
    assert got["jobs"] > 0


def test_the_time_may_end_a_fetch_before_the_count(node):
    """What was put in and not measured is worked off all the same."""
    got = bench(node, "fetch", "--count", "4000", "--duration", "50ms")
    assert got["jobs"] < 4000


def test_connections_that_had_nothing_to_do_are_made_again(make_node):
    """The server closes them; there is a second between two bursts."""
    node = make_node("--idle-timeout=200ms").start()
    got = bench(node, "burst", "--burst", "2", "--count", "10")
    assert got["jobs"] == 10


def test_a_path_below_the_server_is_refused_by_it(node):
    p = subprocess.run([CORVO, "bench"], capture_output=True, text=True,
                       timeout=patience(30),
                       env={**os.environ, "CORVO_URL":
                            f"http://127.0.0.1:{node.port}/below"})
    assert p.returncode == 1 and p.stdout == "", p


def test_over_a_unix_socket(make_node):
    with tempfile.TemporaryDirectory(prefix="corvo-bench-") as folder:
        node = make_node()
        node.start(f"--bind=127.0.0.1:{node.port},unix:{folder}/api")
        got = bench(node, "--count", "50", url=f"unix:{folder}/api")
        assert got["jobs"] == 50
        node.stop()
