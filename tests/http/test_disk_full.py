"""A full disk: writes are refused, reads go on, and it recovers.

Needs root, for a small file system of its own.
"""

import os
import subprocess

import pytest

from node import API, Node, fill_disk, wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a tmpfs")

SIZE_MB = 96
FLAGS = ["--raft-segment-size=4MiB", "--rocksdb-write-buffer=2MiB",
         "--snapshot-bytes=4MiB",
         # The view cannot write either: lists need not wait for it long.
         "--view-wait=100ms"]


@pytest.fixture
def node():
    n = Node(*FLAGS)
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


def test_full_and_free_again(node):
    acked = []
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


def test_full_at_a_start(node):
    acked = []
    with node.client() as c:
        for _ in range(100):
            acked.append(try_enqueue(c).json["job_id"])
    node.stop()
    filler = fill_disk(node.data)
    node.spawn()
    # Whether it starts and refuses writes, or says why it cannot start: it
    # must not damage anything.
    wait_until(lambda: node.process.poll() is not None or node.is_ready() or
               "full" in node.log() or "No space" in node.log(), 60,
               "a sign of the full disk")
    filler.unlink()
    node.kill_all()
    node.start()
    with node.client() as c:
        check_all(c, acked)
        assert try_enqueue(c).status == 201
