"""Event streams under load and with everything going wrong around them:
every sequence number comes exactly once.
"""

import http.client
import os
import random
import signal
import threading
import time
from pathlib import Path

import pytest

from node import API, is_sanitized, wait_until
from sse import EventStream

PAGES = f"{API}/cluster/events"
SEED = int(os.environ.get("CORVO_TEST_SEED", time.time_ns() % 10 ** 9))
BROKEN = (OSError, http.client.HTTPException, AssertionError)
STALL_S = 30      # a reader that takes nothing for so long is cut
KEEPALIVE_S = 15
RSS_GROWTH = 64 << 20


def head(client):
    return client.get(f"{PAGES}?limit=1").json["head_seq"]


class Load:
    """Jobs that come and go in the background, until it is left."""

    def __init__(self, node, pause=0.0):
        self.node = node
        self.pause = pause
        self.over = threading.Event()
        self.failed = None
        self.thread = threading.Thread(target=self.run)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()

    def run(self):
        while not self.over.is_set():
            try:
                self.round()
            except BROKEN as e:
                self.failed = e
            self.over.wait(self.pause)

    def round(self):
        with self.node.client() as c:
            for _ in range(10):
                jobs = [{"queue": "load", "payload": {"n": 1}}] * 20
                c.post(f"{API}/enqueue/batch", {"jobs": jobs})
                a = c.post(f"{API}/fetch/batch", {
                    "queues": ["load"], "count": 20, "timeout": 0,
                    "worker_id": "w"})
                if a.status == 200:
                    ids = [j["job_id"] for j in a.json["jobs"]]
                    c.post(f"{API}/ack/batch", {"jobs": [
                        {"job_id": i} for i in ids]})
                if self.over.is_set():
                    return


def follow(port, place, done, seen, errors=None, rng=None):
    """Reads on from place over any number of connections until done(seqs,
    connections).

    rng: leaves by itself, after a random number of bytes.
    """
    cuts = 0
    while not done(seen, cuts):
        try:
            with EventStream(port, last_id=place, timeout=20) as s:
                if s.status != 200:
                    raise OSError(f"{s.status} {s.refusal()}")
                most = rng.randrange(1, 60000) if rng else 1 << 60
                while s.received < most and not done(seen, cuts):
                    frames = s.read(min(most - s.received, 65536))
                    if frames is None:
                        break
                    seen += [f.id for f in frames if f.data is not None]
                    place = s.last_id
                if rng and rng.random() < 0.3:
                    s.reset()
        except BROKEN as e:
            if errors is None:
                raise
            errors.append(repr(e))  # itself it would keep the socket
        cuts += 1
    return cuts


def assert_dense(seen, first):
    assert seen == list(range(first, first + len(seen)))


def test_disconnects_and_resumes_100_times_sees_all_once(node, client):
    print("seed", SEED)
    rng = random.Random(SEED)
    start, seen = head(client), []
    with Load(node) as load:
        follow(node.port, start, lambda _, cuts: cuts >= 100, seen, rng=rng)
    assert load.failed is None
    last = head(client)
    place = seen[-1]
    follow(node.port, place, lambda s, _: s and s[-1] >= last, seen)
    assert_dense(seen, start + 1)
    assert len(seen) > 1000


def test_50_watchers_all_see_all(node, client):
    start = head(client)
    all_seen = [[] for _ in range(50)]
    ready = threading.Barrier(51)

    def watch(seen):
        with EventStream(node.port) as s:
            s.read()
            ready.wait()
            for e in s.events():
                seen.append(e["seq"])
                if e.get("queue") == "the.end":
                    return
    threads = [threading.Thread(target=watch, args=(s,)) for s in all_seen]
    for t in threads:
        t.start()
    ready.wait()
    with Load(node):
        wait_until(lambda: head(client) > start + 3000, 60, "events")
    client.enqueue("the.end")
    for t in threads:
        t.join(60)
    for seen in all_seen:
        assert_dense(seen, start + 1)
    assert len({len(s) for s in all_seen}) == 1


def test_several_httpd_processes_show_the_same(make_node):
    node = make_node("--httpd-processes=3").start()
    with node.client() as client:
        start = head(client)
        streams = [EventStream(node.port) for _ in range(12)]
        with Load(node):
            wait_until(lambda: head(client) > start + 1000, 60, "events")
        last = head(client)
        for s in streams:
            seen = [e["seq"] for e in s.until(lambda e: e["seq"] >= last)]
            assert_dense(seen, start + 1)
            s.close()


@pytest.mark.parametrize("victim", ["raftd", "httpd-0", "viewd"])
def test_streams_survive_the_death_of(make_node, victim):
    """raftd, viewd: the connection stays. httpd: the client goes on."""
    node = make_node().start()
    with node.client() as client:
        start, seen, errors = head(client), [], []
        kills = [0]

        def is_over(s, _):
            return kills[0] == 5 and s and s[-1] >= last[0]
        last = [1 << 60]
        reader = threading.Thread(target=follow, args=(
            node.port, start, is_over, seen, errors))
        with Load(node, 0.01):
            reader.start()
            for _ in range(5):
                n = len(seen)
                wait_until(lambda: len(seen) > n + 200, 60, "events")
                pid = node.pids()[victim]
                os.kill(pid, signal.SIGKILL)
                wait_until(lambda: node.ps(victim)["pid"] not in (0, pid) and
                           node.is_ready(), 60, f"{victim} to be back")
                kills[0] += 1
        last[0] = head(client)
        reader_gets(node, reader)
        assert_dense(seen, start + 1)
        if victim != "httpd-0":
            assert not errors, (errors, node.log()[-4000:])


def reader_gets(node, reader):
    """A reader that sees all is over; one more event lets it look."""
    def look():
        with node.client() as c:
            c.enqueue("nudge")
        reader.join(0.1)
        return not reader.is_alive()
    wait_until(look, 30, "the reader to see the end")


def rss_of(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    raise AssertionError("no VmRSS")


def big_events(client, rounds):
    """About 10 KB in each event."""
    job_id = client.enqueue("big")
    client.fetch("big", lease_duration=600)
    text = "x" * 10000
    for i in range(rounds):
        a = client.post(f"{API}/heartbeat", {"jobs": {
            job_id: {"progress": {"i": i, "text": text}}}})
        assert a.status == 200, a


def test_slow_readers_are_dropped_with_the_reason(node, client):
    pid = node.pids()["httpd-0"]
    before, rss = head(client), rss_of(pid)
    streams = [EventStream(node.port, receive_buffer=4096, timeout=90)
               for _ in range(20)]
    for s in streams:
        assert s.read()
    began = time.monotonic()
    big_events(client, 600)
    grown = rss_of(pid) - rss
    if not is_sanitized():
        assert grown < RSS_GROWTH, f"httpd grew by {grown >> 20} MB"
    # others are served meanwhile
    with EventStream(node.port) as s:
        client.enqueue("meanwhile")
        s.until(lambda e: e.get("queue") == "meanwhile")
    # who takes a little now and then is slow, but not gone
    patient = EventStream(node.port, last_id=before, receive_buffer=4096)
    seen = []

    def are_closed():
        seen.extend(f.id for f in patient.read(1024) if f.data)
        return node.log().count("takes nothing") >= len(streams)
    wait_until(are_closed, STALL_S + 30, "the streams to be closed", every=0.5)
    assert time.monotonic() - began > STALL_S - 1
    seen += [e["seq"] for e in patient.take(100)]
    assert_dense(seen, before + 1)
    patient.close()
    for s in streams:
        got = list(s.events())
        assert got[-1]["code"] == "SLOW_READER", got[-1]
        assert_dense([e["seq"] for e in got[:-1]], got[0]["seq"])
        # and goes on where it was
        with EventStream(node.port, last_id=s.last_id) as again:
            assert again.take(1)[0]["seq"] == got[-2]["seq"] + 1
        s.close()


def test_a_reader_that_never_reads_again_is_cut(make_node):
    """It does not even take the reason, and does not hold up a stop."""
    node = make_node().start()
    with node.client() as client:
        s = EventStream(node.port, receive_buffer=4096)
        s.read()
        big_events(client, 200)
        node.stop()  # in order, before --shutdown-timeout
        s.close()


def test_a_comment_breaks_the_silence(make_node):
    node = make_node().start()
    with node.client() as client:
        newest = head(client)
    with EventStream(node.port, timeout=KEEPALIVE_S + 15) as s:
        assert s.read()[0].id == newest
        began = time.monotonic()
        assert [f.comment for f in s.read()] == ["keepalive"]
        assert time.monotonic() - began > KEEPALIVE_S - 2


def test_a_stop_ends_streams_cleanly(make_node):
    node = make_node().start()
    streams = [EventStream(node.port) for _ in range(5)]
    with node.client() as client:
        client.enqueue("q")
    for s in streams:
        assert any(e["type"] == "enqueued" for e in s.events())
    node.stop()
    for s in streams:
        assert not list(s.events()), "nothing but the end"
        s.close()


def test_clients_that_leave_are_noticed(node, client):
    def connections():
        return client.metrics()["corvo_http_connections"]
    before = connections()
    streams = [EventStream(node.port) for _ in range(20)]
    for s in streams:
        s.read()
    assert connections() == before + 20
    for s in streams:
        s.close()
    wait_until(lambda: connections() == before, 10, "them to be gone")
