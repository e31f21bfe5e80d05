"""What large requests leave behind: the log is weighed, not counted."""

import contextlib
import threading
import time
from collections import Counter

import pytest

from node import API, Node, wait_until

MIB = 1 << 20
SNAPSHOT = 1 * MIB
PENDING = 32 * MIB  # the least that can be set
FLAGS = [f"--snapshot-bytes={SNAPSHOT}", f"--raft-max-pending-bytes={PENDING}",
         "--raft-segment-size=2MiB", "--rocksdb-write-buffer=4MiB"]
PAYLOAD = "x" * (200 << 10)


@pytest.fixture
def node():
    n = Node(*FLAGS)
    try:
        n.start()
        yield n
    except BaseException:
        n.clean_up(check=False)
        raise
    n.clean_up()


def batch(jobs):
    return {"jobs": [{"queue": "heavy", "payload": PAYLOAD}] * jobs}


def log_on_disk(node):
    """Bytes of closed segments: 0000000000000012-0000000000000034; of our own
    log all that are in use."""
    total = 0
    raft = node.data / "raft"
    for f in [*raft.glob("0*-0*"), *raft.glob("segments/log-*")]:
        with contextlib.suppress(FileNotFoundError):
            total += f.stat().st_size
    return total


def log_bytes(client):
    return client.metrics()["corvo_raft_log_bytes"]


def enqueued(client):
    return client.metrics()["corvo_throughput_enqueued_total"]


def test_little_of_the_log_stays_whatever_its_entries_weigh(node):
    body = batch(10)
    with node.client() as c:
        for _ in range(20):
            assert c.post(f"{API}/enqueue/batch", body).status == 201
        # What came during the last cut is cut with the next write.
        wait_until(lambda: c.enqueue("light") and log_on_disk(node) < 12 * MIB,
                   30, "the log on disk to be cut")
        wait_until(lambda: c.enqueue("light") and log_bytes(c) < 5 * MIB, 30,
                   "the log in memory to be cut")
    node.kill_all()
    node.start()
    with node.client() as c:
        assert log_bytes(c) < 12 * MIB
        assert c.fetch("heavy") is not None


def test_too_much_at_once_is_refused_and_nothing_dies(node):
    raftd = node.pids()["raftd"]
    body = batch(50)
    answers = Counter()
    lock = threading.Lock()
    end = time.monotonic() + 60

    def send():
        with node.client(timeout=60) as c:
            while not answers[429] and time.monotonic() < end:
                a = c.post(f"{API}/enqueue/batch", body)
                with lock:
                    answers[a.status] += 1
                if a.status == 429:
                    assert a.code == "OVERLOADED"
                    assert int(a.headers["Retry-After"]) >= 1

    senders = [threading.Thread(target=send) for _ in range(8)]
    for t in senders:
        t.start()
    for t in senders:
        t.join()
    assert set(answers) == {201, 429}, answers
    assert node.pids()["raftd"] == raftd
    with node.client() as c:
        assert enqueued(c) == 50 * answers[201]
        wait_until(lambda: c.post(f"{API}/enqueue/batch", body).status == 201,
                   30, "a large batch to be taken again", every=0.1)
