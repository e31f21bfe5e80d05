"""Settings do what their text says, where no other file of tests shows it."""

import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from node import API, wait_until

KIB = 1 << 10
# The least that config_check.c lets pass, of what the store and the log use.
SMALLEST = ["--raft-segment-size=64KiB", "--apply-batch-bytes=4KiB",
            "--apply-batch-max=1", "--apply-inflight=1",
            "--raft-max-pending-bytes=32MiB", "--raft-max-fetch-inflight=1",
            "--raft-max-parked=1", "--snapshot-bytes=64KiB",
            "--rocksdb-write-buffer=1MiB", "--rocksdb-cache=0",
            "--event-retention=1", "--view-wait=0s"]


def started(make_node, *flags):
    return make_node(*flags).start()


def test_smallest_values_serve_and_survive_a_restart(make_node, queue):
    node = started(make_node, *SMALLEST)
    with node.client() as c:
        for _ in range(3):
            c.enqueue(queue, payload="x" * (200 * KIB))
        c.ack(c.fetch(queue))
        wait_until(lambda: c.metrics()["corvo_raft_snapshot_latest_index"] > 0,
                   20, "a snapshot")
    node.stop()
    node.start(*SMALLEST)
    with node.client() as c:
        assert len(c.fetch(queue)["payload"]) == 200 * KIB


@pytest.mark.parametrize("flag", ["--rocksdb-write-buffer=64KiB",
                                  "--raft-max-pending-bytes=64KiB",
                                  "--raft-max-parked=0",
                                  "--stream-max-inflight=0"])
def test_values_with_which_nothing_would_work_are_refused(make_node, flag):
    _, words = make_node().refuses(flag)
    name = flag.split("=")[0]
    assert f"flag {name}: " in words and "it takes" in words


def test_log_format(make_node):
    node = started(make_node, "--log-format=json")
    node.stop()
    rows = [json.loads(line) for line in node.log().splitlines()]
    assert {"supervisor", "raftd", "viewd", "sched", "httpd-0"} <= {
        r["proc"] for r in rows}
    assert all({"time", "level", "node", "msg"} <= set(r) for r in rows)


@pytest.mark.parametrize("flag,most", [("1KiB", KIB), ("1MiB", KIB * KIB)])
def test_max_payload_size(make_node, queue, flag, most):
    node = started(make_node, f"--max-payload-size={flag}")
    with node.client() as c:
        c.enqueue(queue, payload="x" * (most - 2))
        a = c.post(f"{API}/enqueue",
                   {"queue": queue, "payload": "x" * (most - 1)})
        assert (a.status, a.code) == (413, "PAYLOAD_TOO_LARGE")


def test_lease_duration(make_node, queue):
    node = started(make_node, "--lease-duration=7s")
    with node.client() as c:
        c.enqueue(queue)
        assert c.fetch(queue)["lease_duration"] == 7


def test_apply_batch_max(make_node, queue):
    node = started(make_node, "--apply-batch-max=1")

    def enqueue(_):
        with node.client() as c:
            c.enqueue(queue)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(enqueue, range(80)))
    with node.leader().client() as c:
        m = c.metrics()
        assert m["corvo_raft_applied_total"] >= 80
        assert m["corvo_raft_entries_total"] >= m["corvo_raft_applied_total"]


def test_apply_batch_min_wait(make_node, queue):
    node = started(make_node, "--apply-batch-min-wait=400ms")
    with node.client() as c:
        c.enqueue(queue)  # may share an entry of the start
        before = time.monotonic()
        c.enqueue(queue)
        assert time.monotonic() - before >= 0.4


def test_durable_false_is_not_silent(make_node):
    node = started(make_node, "--durable=false", "--raft-store=uv")
    assert "--durable=false needs --raft-store=segment" in node.log()


def test_durable_false_on_our_own_log(make_node, queue):
    """Nothing is lost by a kill: what was written is the kernel's."""
    node = started(make_node, "--durable=false", "--raft-store=segment")
    assert "writes are answered before they are on the disk" in node.log()
    with node.client() as c:
        ids = [c.enqueue(queue) for _ in range(50)]
    node.kill_all()
    node.start()
    with node.client() as c:
        assert [c.job(i)["state"] for i in ids] == ["pending"] * len(ids)


def test_bootstrap_false_on_an_empty_directory_says_what_to_do(make_node):
    _, words = make_node().refuses("--bootstrap=false", "--crash-limit=1")
    assert "--join=host:port to join one" in words
