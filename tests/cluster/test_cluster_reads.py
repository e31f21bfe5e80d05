"""Reads at a node that is behind the others: from its own store, or, when asked
for, with everything that was acknowledged elsewhere."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from cluster import cluster  # noqa: E402
from node import API, running, seconds_of, wait_until  # noqa: E402
from sse import EventStream  # noqa: E402

LAG = "X-Corvo-View-Lag-Ms"
NEVER = str(2 ** 60)


@pytest.fixture(scope="module")
def three():
    with cluster() as c:
        yield c


@pytest.fixture
def behind(three):
    """(a client of a node, a client of one that hears of it late)"""
    slow = three.followers()[0]
    leader = three.leader()
    slow.slow_log(1)
    with leader.client() as a, slow.client() as b:
        yield a, b
    slow.slow_log(0)


def has_job(answer, job_id, _):
    return job_id in json.dumps(answer)


def counts_one(answer, _, queue):
    rows = answer if isinstance(answer, list) else [answer]
    return [q["pending"] for q in rows if q["name"] == queue] == [1]


def is_there(*_):
    return True  # 404 is what a node says that does not know it


READS = [
    ("GET", "/jobs/{id}?", None, has_job),
    ("POST", "/jobs/bulk-get?", {"job_ids": ["{id}"]}, has_job),
    ("GET", "/queues/{q}?", None, counts_one),
    ("GET", "/queues?", None, counts_one),
    ("POST", "/jobs/search?", {"queue": "{q}"}, has_job),
    ("GET", "/jobs/{id}/iterations?", None, is_there),
    ("GET", "/jobs/{id}/why?", None, is_there),
    ("GET", "/scale?queue={q}&", None, is_there),
]


def fill(text, job_id, queue):
    return text.replace("{id}", job_id).replace("{q}", queue)


@pytest.mark.parametrize("number, read", list(enumerate(READS)),
                         ids=[r[1] for r in READS])
def test_a_leader_read_has_what_another_node_acknowledged(
        behind, number, read):
    a, b = behind
    method, path, body, is_good = read
    for i in range(2):
        queue = f"fence{number}-{i}"
        job_id = a.enqueue(queue)
        answer = b.request(
            method, fill(API + path, job_id, queue) + "consistency=leader",
            fill(json.dumps(body), job_id, queue) if body else None)
        assert answer.status == 200 and LAG not in answer.headers, answer
        assert is_good(answer.json, job_id, queue), answer


def test_a_local_read_of_a_node_that_is_behind_does_not_wait(behind):
    """What the others show: it is behind, and would not know by itself."""
    a, b = behind
    stale = 0
    for _ in range(5):
        job_id = a.enqueue("local")
        answer = b.get(f"{API}/jobs/{job_id}?consistency=local")
        assert answer.status in (200, 404), answer
        stale += answer.status == 404
    assert stale > 0


@pytest.mark.parametrize("path", ["/jobs/{id}", "/queues/{q}"])
def test_the_index_of_one_node_serves_at_another(behind, path):
    a, b = behind
    queue = f"index{len(path)}"
    a.enqueue(queue)
    for i in range(3):
        done = a.post(f"{API}/enqueue", {"queue": queue})
        job_id = done.json["job_id"]
        answer = b.get(fill(API + path, job_id, queue),
                       {"X-Corvo-Min-Index": done.headers["X-Corvo-Index"]})
        assert answer.status == 200 and LAG not in answer.headers, answer
        if path == "/queues/{q}":
            assert answer.json["pending"] == i + 2


def test_a_place_in_the_events_of_one_node_serves_at_another(behind):
    """Also before that one has heard of it."""
    a, b = behind
    for i in range(2):
        queue = f"place{i}"
        done = a.post(f"{API}/enqueue", {"queue": queue})
        place = int(done.headers["X-Corvo-Index"])
        page = b.get(f"{API}/cluster/events?after_seq={place}")
        assert page.status == 200 and "lost" not in page.json, page
        done = a.post(f"{API}/enqueue", {"queue": queue})
        place = int(done.headers["X-Corvo-Index"])
        with EventStream(b.port, f"?queues={queue}", last_id=place) as s:
            assert s.status == 200
            a.fetch(queue)
            assert s.take(1)[0]["type"] == "started"


def test_a_page_of_events_has_what_was_acknowledged_here(behind):
    _, b = behind
    job_id = b.enqueue("own-events")
    page = b.get(f"{API}/cluster/events?limit=1000").json
    while page["next"] < page["head_seq"]:
        page = b.get(f"{API}/cluster/events?limit=1000&"
                     f"after_seq={page['next']}").json
    assert job_id in [e.get("job_id") for e in page["events"]], page


def test_a_place_that_never_was_is_refused_by_all(behind):
    a, b = behind
    done = a.post(f"{API}/enqueue", {"queue": "never"})
    never = int(done.headers["X-Corvo-Index"]) + 1000000
    for client in (a, b):
        with EventStream(client.port, last_id=never) as s:
            assert s.status == 410
        page = client.get(f"{API}/cluster/events?after_seq={never}")
        assert page.status == 200 and page.json["lost"] is True, page


def test_a_read_that_cannot_have_the_index_says_so():
    with running("--view-wait=10ms") as n, n.client() as c:
        job_id = c.enqueue("q")
        a = c.get(f"{API}/jobs/{job_id}", {"X-Corvo-Min-Index": NEVER})
        assert a.status == 200 and int(a.headers[LAG]) >= 10
        a = c.get(f"{API}/jobs/{job_id}", {"X-Corvo-Min-Index": "soon"})
        assert (a.status, a.code) == (400, "VALIDATION_ERROR")


def test_a_job_shows_the_lease_that_a_heartbeat_was_told(three):
    """The leader writes it to the log later, all of a second together."""
    for n in three.nodes:
        with n.client() as c:
            c.enqueue("leased")
            job = c.fetch("leased", lease_duration=30)
            path = f"{API}/jobs/{job['job_id']}"
            first = seconds_of(c.get(path).json["lease_expires_at"])
            wait_until(lambda: time.time() > first - 29)
            a = c.post(f"{API}/heartbeat", {"jobs": {job["job_id"]: {}}})
            told = a.json["jobs"][job["job_id"]]["lease_expires_at"]
            assert seconds_of(told) > first + 0.5
            shown = c.get(path).json["lease_expires_at"]
            assert abs(seconds_of(shown) - seconds_of(told)) < 0.1
            c.ack(job)


def test_a_process_that_was_killed_answers_nothing_from_before():
    """Only raftd is gone: it comes back with what was on the disk, and knows
    more only when it hears of a leader."""
    with cluster("--watchdog-timeout=5m") as three:
        node = three.followers()[0]
        others = [n for n in three.nodes if n is not node]
        # the supervisors first: they would start others
        pids = [p for n in others for p in (n.process.pid,
                                            *n.pids().values())]
        with node.client() as c, node.client() as d:
            job_id = c.enqueue("kept")
            assert c.job(job_id)["state"] == "pending"
            before = node.pids()["raftd"]
            for p in pids:
                os.kill(p, signal.SIGSTOP)
            try:
                os.kill(before, signal.SIGKILL)
                wait_until(lambda: node.pids().get("raftd", before) != before,
                           30, "another process")
                c.send("GET", f"{API}/jobs/{job_id}")
                d.send("GET", f"{API}/queues/kept")
                wait_until(lambda: three.rows(node), 30, "it to be there")
            finally:
                for p in reversed(pids):
                    os.kill(p, signal.SIGCONT)
            a, b = c.receive(), d.receive()
            assert a.status == 200 and a.json["id"] == job_id, a
            assert b.status == 200 and b.json["pending"] == 1, b
        three.wait_whole()


@pytest.mark.parametrize("bad", ["", "Leader", "strong", "leader,local"])
def test_other_values_of_consistency_are_refused(three, bad):
    with three.nodes[1].client() as c:
        for path in ("/queues", "/jobs/x", "/settings", "/workers"):
            a = c.get(f"{API}{path}?consistency={bad}")
            assert (a.status, a.code) == (400, "VALIDATION_ERROR"), a
            assert a.json["error"] == "consistency: must be leader or local"


def test_a_node_that_is_alone_serves_leader_reads():
    with running() as n, n.client() as c:
        job_id = c.enqueue("q")
        entries = c.metrics()["corvo_raft_entries_total"]
        for _ in range(5):
            a = c.get(f"{API}/jobs/{job_id}?consistency=leader")
            assert a.status == 200 and a.json["id"] == job_id
            assert c.get(f"{API}/queues?consistency=leader").status == 200
        # nobody else could lead: nothing has to be written for it
        assert c.metrics()["corvo_raft_entries_total"] == entries


def test_lists_have_what_another_process_of_the_node_acknowledged():
    """It was told by the leader, and its own store hears of it later."""
    with cluster("--httpd-processes=3") as c:
        node = c.followers()[0]
        for i in range(60):
            with node.client() as client:  # each takes any of the processes
                job_id = client.enqueue(f"q{i}")
            with node.client() as client:
                found = client.search(queue=f"q{i}")["jobs"]
                assert [j["id"] for j in found] == [job_id], i
