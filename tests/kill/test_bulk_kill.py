"""A bulk operation over very many jobs, watched by two clients: cancelled half
way, and gone through to the end although processes of the node are killed.

CORVO_BULK_JOBS says how many (default 200000; a slow build has a tenth).
"""

import os
import signal
import threading

import pytest

from node import API, Node, is_sanitized, wait_until
from queues import enqueue_many
from sse import Stream

JOBS = int(os.environ.get("CORVO_BULK_JOBS",
                          20000 if is_sanitized() else 200000))
QUEUE = "bulk.kill"
PAGE = 10000
LONG_S = 300  # for everything to be done, on a busy machine


class Watcher(threading.Thread):
    """Reads the progress to its end."""

    def __init__(self, port, bulk_id):
        super().__init__(daemon=True)
        self.stream = Stream(port, f"{API}/bulk/{bulk_id}/progress",
                             timeout=LONG_S)
        self.frames = []
        self.start()

    def run(self):
        for frame in self.stream.frames():
            self.frames.append(frame)
        self.stream.close()

    def end(self, event):
        """Its frames, after the checks that hold for every watcher."""
        self.join(LONG_S)
        assert not self.is_alive(), self.frames[-1]
        types = [f.event.rsplit(".", 1)[1] for f in self.frames]
        assert types[0] == "started" and types[-1] == event, types[:3]
        assert set(types[1:-1]) == {"progress"}
        at = [int(f.id) for f in self.frames]
        assert at == sorted(set(at)), "each frame once, in order"
        done = [f.json["processed"] for f in self.frames]
        assert done == sorted(done)
        for f in self.frames:
            d = f.json
            assert d["affected"] + d["skipped"] == d["processed"]
        return self.frames


@pytest.fixture(scope="module")
def node():
    n = Node("--log-level=warn")
    n.start()
    wait_until(n.has_view, 60, "the view to answer")
    with n.client(timeout=LONG_S) as c:
        for at in range(0, JOBS, PAGE):
            enqueue_many(c, QUEUE, min(PAGE, JOBS - at))
    yield n
    n.clean_up()


@pytest.fixture
def client(node):
    with node.client(timeout=LONG_S) as c:
        yield c


def start(client, action, **filter_):
    def accepted():
        a = client.post(f"{API}/jobs/bulk", {
            "action": action, "async": True,
            "filter": {"queue": QUEUE, **filter_}})
        # a view that is far behind after so many jobs is waited for
        assert a.status == 202 or a.code == "VIEW_UNAVAILABLE", a
        return a.json if a.status == 202 else None

    return wait_until(accepted, LONG_S, "the view to be current", every=0.1)


def get(client, bulk_id):
    a = client.get(f"{API}/bulk/{bulk_id}")
    assert a.status == 200, a
    return a.json


def counted(client):
    a = client.get(f"{API}/queues/{QUEUE}")
    assert a.status == 200, a
    return a.json


def wait_processed(client, bulk_id, n):
    wait_until(lambda: get(client, bulk_id)["processed"] >= n, LONG_S,
               f"{n} jobs to be processed")


def kill(node, name):
    old = node.pids()[name]
    os.kill(old, signal.SIGKILL)
    wait_until(lambda: node.ps(name)["state"] == "ready"
               and node.ps(name)["pid"] not in (0, old), 60,
               f"{name} to be back")
    wait_until(node.is_ready, 60, "the node to be ready")


def same_to_the_end(watchers, event):
    """Both saw the same; returns the last."""
    seen = [w.end(event) for w in watchers]
    by_id = [{f.id: f.data for f in frames[1:]} for frames in seen]
    later = max(int(frames[0].id) for frames in seen)
    tails = [{i: d for i, d in s.items() if int(i) > later} for s in by_id]
    assert tails[0] == tails[1]
    return seen[0][-1].json


def test_cancelled_half_way_it_has_changed_what_it_counts(node, client):
    a = start(client, "cancel", state=["pending"])
    assert a["estimated_total"] == JOBS
    bulk_id = a["bulk_operation_id"]
    watchers = [Watcher(node.port, bulk_id) for _ in range(2)]
    wait_processed(client, bulk_id, JOBS // 2)
    stopped = client.post(f"{API}/bulk/{bulk_id}/cancel")
    assert stopped.status == 200, stopped
    b = get(client, bulk_id)
    assert b["status"] == "cancelled"
    assert JOBS // 2 <= b["affected"] < JOBS
    assert (b["skipped"], b["total"]) == (0, JOBS)
    q = counted(client)
    assert (q["cancelled"], q["pending"]) == \
        (b["affected"], JOBS - b["affected"])
    last = same_to_the_end(watchers, "cancelled")
    assert last["affected"] == b["affected"]


def test_it_goes_on_after_kills_and_ends_with_exact_counts(node, client):
    """After the one before: some are cancelled, the others pending."""
    done = counted(client)["cancelled"]
    a = start(client, "cancel")
    assert a["estimated_total"] == JOBS
    bulk_id = a["bulk_operation_id"]
    watchers = [Watcher(node.port, bulk_id) for _ in range(2)]
    # those that are cancelled come first, and are skipped
    wait_processed(client, bulk_id, done + (JOBS - done) // 4)
    kill(node, "raftd")
    wait_processed(client, bulk_id, done + (JOBS - done) // 2)
    kill(node, "sched")
    b = wait_until(
        lambda: next((b for b in [get(client, bulk_id)]
                      if b["status"] != "running"), None),
        LONG_S, "the operation to end")
    assert b["status"] == "completed"
    assert (b["affected"], b["skipped"], b["processed"]) == \
        (JOBS - done, done, JOBS)
    q = counted(client)
    assert (q["cancelled"], q["pending"]) == (JOBS, 0)
    last = same_to_the_end(watchers, "completed")
    assert (last["affected"], last["percent"]) == (JOBS - done, 100)
