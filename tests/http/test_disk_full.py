"""A full disk: writes are refused, reads go on, and it recovers.

Needs root, for a small file system of its own.
"""

import contextlib
import os
import socket
import subprocess
import time

import pytest

from node import API, Node, fill_disk, wait_until
from waiting import patience

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a tmpfs")

SIZE_MB = 96
FLAGS = ["--raft-segment-size=4MiB", "--rocksdb-write-buffer=2MiB",
         "--snapshot-bytes=4MiB",
         # The view cannot write either: lists need not wait for it long.
         "--view-wait=100ms"]


@pytest.fixture
def node(request):
    n = Node(*getattr(request, "param", FLAGS))
    n.data.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o",
                            f"size={SIZE_MB}m,mode=0700",
                            "tmpfs", str(n.data)], capture_output=True)
    if mount.returncode != 0:
        n.clean_up(check=False)
        pytest.skip("mount is not allowed here")
    try:
        n.start()
        yield n
        n.stop()
    finally:
        n.kill_all()
        print(n.log()[-8000:])  # shown when the test failed
        subprocess.run(["umount", str(n.data)], check=True)
        n.clean_up(check=False)


def try_enqueue(client):
    return client.post(f"{API}/enqueue", {"queue": "full",
                                          "payload": "x" * 4000})


def write_until_refused(client, acked):
    for _ in range(20000):
        a = try_enqueue(client)
        if a.status != 201:
            return a
        acked.append(a.json["job_id"])
    raise AssertionError("a full disk never refused anything")


def check_all(client, acked):
    missing = [i for i in acked if client.get(f"{API}/jobs/{i}").status != 200]
    assert not missing, f"{len(missing)} of {len(acked)} are lost"


def enqueue_many(client, n):
    """The ids, or None: it was noticed that the disk is full."""
    a = client.post(f"{API}/enqueue/batch", {
        "jobs": [{"queue": "full", "payload": "x" * 4000}] * n})
    if a.status != 201:
        assert (a.status, a.code) == (503, "STORAGE_FULL"), a
        return None
    return a.json["job_ids"]


def test_what_gathered_stays_readable_when_it_cannot_be_written(node):
    """2 MiB gather before they are written, and then there is no room."""
    with node.client() as c:
        acked = [try_enqueue(c).json["job_id"] for _ in range(350)]
        for _ in range(100):  # it must come before the next look at the disk
            filler = fill_disk(node.data)
            many = enqueue_many(c, 200)
            check_all(c, acked)
            filler.unlink()
            wait_until(lambda: try_enqueue(c).status == 201, 30,
                       "writes to work again", every=0.1)
            if many:
                break
        acked += many
        check_all(c, acked)
        for _ in range(4):  # more than once what gathers
            acked += enqueue_many(c, 400)
    node.stop()
    node.start()
    with node.client() as c:
        check_all(c, acked)


def test_full_and_free_again(node):
    acked = []
    # a node may be ready a moment before it has a link to its view
    wait_until(node.has_view, 60, "a view")
    with node.client() as c:
        for _ in range(100):
            acked.append(try_enqueue(c).json["job_id"])
        for _ in range(2):
            filler = fill_disk(node.data)
            a = write_until_refused(c, acked)
            assert (a.status, a.code) == (503, "STORAGE_FULL"), a
            assert "Retry-After" in a.headers
            assert c.get("/healthz").status == 200
            assert c.get("/readyz").status == 503
            for _ in range(20):  # reads go on
                assert c.job(acked[0])["state"] == "pending"
                assert c.get(f"{API}/queues").status == 200
                assert try_enqueue(c).code == "STORAGE_FULL"
            check_all(c, acked)
            filler.unlink()
            wait_until(lambda: try_enqueue(c).status == 201, 30,
                       "writes to work again", every=0.1)
            wait_until(lambda: c.get("/readyz").status == 200, 10, "readyz")
            check_all(c, acked)
    node.stop()
    node.start()
    with node.client() as c:
        check_all(c, acked)
        c.ack(c.fetch("full"))


def renewals(client):
    return client.metrics()["corvo_lease_renewals_total"]


def write_some(node):
    with node.client() as c:
        return [try_enqueue(c).json["job_id"] for _ in range(100)]


def start_on_full(node, words, *flags):
    """Starts the node and returns when it has said that, or has ended."""
    before = len(node.log())
    filler = fill_disk(node.data)
    node.spawn(*flags)
    wait_until(lambda: words in node.log()[before:] or
               node.process.poll() is not None, 60, words)
    assert node.process.poll() is None, node.log()[before:]
    return filler


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_start_on_a_full_disk_serves_reads_and_heals(node, end):
    acked = write_some(node)
    (node.stop if end == "stop" else node.kill_all)()
    filler = start_on_full(node, "ready: listening")
    with node.client() as c:
        assert c.get("/healthz").status == 200
        # Also when the start itself gave back room, which the first write
        # would take again.
        assert c.get("/readyz").code == "STORAGE_FULL"
        check_all(c, acked)
        assert try_enqueue(c).code == "STORAGE_FULL"
        pids = node.pids()
        filler.unlink()
        wait_until(lambda: try_enqueue(c).status == 201, 30,
                   "writes to work again", every=0.1)
        check_all(c, acked)
    assert node.pids()["raftd"] == pids["raftd"]
    wait_until(lambda: (node.data / "reserve").stat().st_size >= 4 << 20, 30,
               "the reserve to be made again")


def test_without_any_room_a_start_waits_for_it(node):
    acked = write_some(node)
    node.kill_all()
    (node.data / "reserve").unlink()
    filler = start_on_full(node, "no room on the disk to open the store",
                           "--crash-limit=2")
    filler.unlink()
    wait_until(node.is_ready, 60, "the node to be ready")
    assert node.ps("raftd")["restarts"] == 0
    with node.client() as c:
        check_all(c, acked)
        assert try_enqueue(c).status == 201


def listener(port, held):
    """Takes a port that somebody who was killed may have yet."""
    with contextlib.suppress(OSError):
        held.append(socket.create_server(("127.0.0.1", port)))
    return held


@pytest.mark.parametrize("node", [[*FLAGS, "--cluster"]], indirect=True)
def test_a_start_that_waited_for_room_and_fails_says_why(node):
    held = []
    write_some(node)
    node.kill_all()
    (node.data / "reserve").unlink()
    wait_until(lambda: listener(node.raft_port, held), 30, "its port")
    with held[0]:
        filler = start_on_full(node, "no room on the disk to open the store",
                               "--crash-limit=2")
        filler.unlink()
        assert node.process.wait(patience(60)) != 0
    assert f"cannot listen on 127.0.0.1:{node.raft_port}" in node.log()
    node.check_log()
    node.start()


LEASES = 500


@pytest.mark.parametrize("node", [[
    # Segments that are soon full, were anything written.
    "--raft-segment-size=64KiB", "--apply-batch-bytes=32KiB",
    "--rocksdb-write-buffer=1MiB", "--view-wait=100ms"]], indirect=True)
def test_leases_are_kept_while_the_disk_is_full(node):
    with node.client() as c:
        jobs = [{"queue": "full", "payload": {}}] * LEASES
        assert c.post(f"{API}/enqueue/batch", {"jobs": jobs}).status == 201
        a = c.post(f"{API}/fetch/batch", {
            "queues": ["full"], "worker_id": "w1", "count": LEASES,
            "lease_duration": 8})
        held = a.json["jobs"]
        assert len(held) == LEASES
        beat = {"worker_id": "w1", "jobs": {
            j["job_id"]: {"lease_token": j["lease_token"]} for j in held}}
        raftd = node.pids()["raftd"]
        filler = fill_disk(node.data)
        # Longer than the lease, and than the log has room for.
        end = time.monotonic() + 12
        beats = 0
        while time.monotonic() < end:
            a = c.post(f"{API}/heartbeat", beat)
            assert a.status == 200, a
            assert {x["status"] for x in a.json["jobs"].values()} == {"ok"}
            beats += 1
            wait_until(lambda: renewals(c) >= beats * LEASES, 10, "the beat")
        assert node.pids()["raftd"] == raftd
        filler.unlink()
        wait_until(lambda: try_enqueue(c).status == 201, 30,
                   "writes to work again", every=0.1)
        assert {c.post(f"{API}/ack/{j['job_id']}",
                       {"lease_token": j["lease_token"]}).status
                for j in held[:50]} == {200}
    assert node.pids()["raftd"] == raftd
