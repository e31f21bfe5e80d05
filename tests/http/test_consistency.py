"""What a node acknowledged is in its lists and searches at once, without any
header, whichever of its processes answers; or the answer says that it may not
be, and how far it is behind."""

import http.client
import itertools
import os
import random
import signal
import threading
import time

import pytest

from node import API, running, wait_until

LAG = "X-Corvo-View-Lag-Ms"
NO_JOB = "job_00000000000000000000000000"
CLIENTS = 6  # connections, spread over the processes
SERIAL = itertools.count()


class Load(threading.Thread):
    """Batches of jobs and their ends, on a queue of its own, until stop().
    Each round ends with a list, so that the view can follow."""

    def __init__(self, node):
        super().__init__()
        self.node = node
        self.ended = threading.Event()
        self.failed = None

    def run(self):
        try:
            with self.node.client() as c:
                while not self.ended.is_set():
                    self.round(c)
        except Exception as e:  # shown by stop()
            self.failed = e

    def round(self, c):
        jobs = [{"queue": "load", "payload": {"n": i}} for i in range(50)]
        assert c.post(f"{API}/enqueue/batch", {"jobs": jobs}).status == 201
        got = c.post(f"{API}/fetch/batch",
                     {"queues": ["load"], "count": 50, "timeout": 0}).json
        acks = [{"job_id": j["job_id"]} for j in got["jobs"]]
        assert c.post(f"{API}/ack/batch", {"acks": acks}).status == 200
        assert c.get(f"{API}/queues").status == 200

    def stop(self):
        self.ended.set()
        self.join(60)
        assert self.failed is None, self.failed


@pytest.fixture(scope="module", params=[1, 3], ids=["1-httpd", "3-httpd"])
def crowd(request):
    """Clients of a node under load; view-wait is no limit here."""
    with running(f"--httpd-processes={request.param}") as n:
        load = Load(n)
        load.start()
        clients = [n.client() for _ in range(CLIENTS)]
        for c in clients:  # each process finds the view by itself
            wait_until(lambda: c.get(f"{API}/queues").status == 200, 60,
                       "the view to answer at every process")
        yield clients
        for c in clients:
            c.close()
        load.stop()


class Reader:
    """Every read by another connection, and none may be behind."""

    def __init__(self, clients):
        self.clients = clients

    def get(self, path, status=200):
        a = random.choice(self.clients).get(API + path)
        assert a.status == status and LAG not in a.headers, (path, a)
        return a.json

    def states(self, queue):
        a = random.choice(self.clients).post(
            f"{API}/jobs/search", {"queue": queue, "limit": 1000})
        assert a.status == 200 and LAG not in a.headers, a
        assert "view_lag_ms" not in a.json
        assert a.json["total"] == len(a.json["jobs"])
        return {j["id"]: j["state"] for j in a.json["jobs"]}

    def queue(self, name):
        return next((q for q in self.get("/queues") if q["name"] == name),
                    None)

    def dead(self, queue):
        return [j["id"] for j in self.get(f"/dead?queue={queue}")["jobs"]]

    def found(self, word):
        hits = self.get(f"/search/fulltext?q={word}")["results"]
        return {h["id"]: h["queue"] for h in hits}

    def workers(self):
        return {w["id"] for w in self.get("/workers")}


@pytest.fixture
def see(crowd):
    return Reader(crowd)


@pytest.fixture
def do(crowd):
    """A write by some connection; returns the answer's JSON."""
    def write(method, path, body=None, status=200):
        a = random.choice(crowd).request(method, API + path, body)
        assert a.status == status, (path, a)
        return a.json
    return write


@pytest.fixture
def queue():
    return f"q{next(SERIAL)}"


def enqueue(do, queue, **members):
    return do("POST", "/enqueue", {"queue": queue, **members}, 201)["job_id"]


def fetch(do, queue, worker="w"):
    return do("POST", "/fetch", {"queues": [queue], "timeout": 0,
                                 "worker_id": worker})


# --- each kind of write, each list ---------------------------------------


def test_enqueue_is_in_every_list(see, do, queue):
    for i in range(10):
        job = enqueue(do, queue, payload={"w": f"{queue}word{i}"})
        assert see.states(queue)[job] == "pending"
        assert see.queue(queue)["pending"] == i + 1
        assert see.found(f"{queue}word{i}") == {job: queue}
        assert see.get(f"/jobs/{job}/iterations")["iterations"] == []


def test_batch_is_in_every_list(see, do, queue):
    word = queue + "many"
    got = do("POST", "/enqueue/batch", {"jobs": [
        {"queue": queue, "payload": word} for _ in range(300)]}, 201)
    assert set(see.states(queue)) == set(got["job_ids"])
    got = do("POST", "/enqueue/batch", {"jobs": [
        {"queue": queue, "payload": word} for _ in range(300)]}, 201)
    assert see.queue(queue)["pending"] == 600
    assert len(see.get(f"/search/fulltext?q={word}&limit=500")["results"]) \
        == 500


def test_fetch_and_ack_are_in_every_list(see, do, queue):
    for i in range(5):
        job = enqueue(do, queue)
        fetch(do, queue, f"worker-{queue}-{i}")
        assert f"worker-{queue}-{i}" in see.workers()
        assert see.states(queue)[job] == "active"
        assert see.queue(queue)["active"] == 1
        do("POST", f"/ack/{job}", {})
        assert see.queue(queue)["completed"] == i + 1
        assert see.states(queue)[job] == "completed"


def test_ack_batch_is_in_every_list(see, do, queue):
    ids = [enqueue(do, queue) for _ in range(20)]
    for _ in ids:
        fetch(do, queue)
    do("POST", "/ack/batch", {"acks": [{"job_id": i} for i in ids]})
    assert see.queue(queue)["completed"] == 20
    assert set(see.states(queue).values()) == {"completed"}


def test_fail_is_in_every_list(see, do, queue):
    for i in range(5):
        job = enqueue(do, queue, max_retries=2, retry_base_delay="1h")
        fetch(do, queue)
        do("POST", f"/fail/{job}", {"error": "no"})
        assert see.states(queue)[job] == "retrying"
        assert see.queue(queue)["retrying"] == 1
        do("POST", f"/fail/{fetch_now(do, job, queue)}",
           {"error": "no", "retry": False})
        assert job in see.dead(queue)
        assert see.queue(queue)["dead"] == i + 1


def fetch_now(do, job, queue):
    """A retrying job, made pending by hand and taken again."""
    do("POST", f"/jobs/{job}/cancel")
    do("POST", f"/jobs/{job}/retry")
    assert fetch(do, queue)["job_id"] == job
    return job


def test_dead_jobs_leave_the_list_when_they_are_retried(see, do, queue):
    job = enqueue(do, queue, max_retries=1)
    fetch(do, queue)
    do("POST", f"/fail/{job}", {"error": "no"})
    assert see.dead(queue) == [job]
    do("POST", f"/jobs/{job}/retry")
    assert see.dead(queue) == []
    fetch(do, queue)
    do("POST", f"/fail/{job}", {"error": "no"})
    assert see.dead(queue) == [job]
    do("POST", f"/jobs/{job}/requeue")
    assert see.dead(queue) == [] and see.queue(queue)["pending"] == 1


def test_cancel_is_in_every_list(see, do, queue):
    for i in range(5):
        job = enqueue(do, queue)
        do("POST", f"/jobs/{job}/cancel")
        assert see.states(queue)[job] == "cancelled"
        assert see.queue(queue)["cancelled"] == i + 1


def test_delete_is_in_every_list(see, do, queue):
    for _ in range(5):
        job = enqueue(do, queue, payload=queue + "gone")
        assert see.found(queue + "gone") == {job: queue}
        do("DELETE", f"/jobs/{job}")
        assert see.states(queue) == {} and see.found(queue + "gone") == {}
        assert see.queue(queue)["pending"] == 0
        see.get(f"/jobs/{job}/iterations", 404)


def test_move_is_in_every_list(see, do, queue):
    for i in range(5):
        job = enqueue(do, queue, payload=f"{queue}moved{i}")
        do("POST", f"/jobs/{job}/move", {"queue": queue + "-to"})
        assert see.found(f"{queue}moved{i}") == {job: queue + "-to"}
        assert see.states(queue) == {} and job in see.states(queue + "-to")
        assert see.queue(queue + "-to")["pending"] == i + 1


def test_hold_approve_reject_are_in_every_list(see, do, queue):
    job = enqueue(do, queue, max_retries=1)
    do("POST", f"/jobs/{job}/hold")
    assert see.states(queue) == {job: "held"} and see.queue(queue)["held"] == 1
    do("POST", f"/jobs/{job}/approve")
    assert see.states(queue) == {job: "pending"}
    do("POST", f"/jobs/{job}/hold")
    do("POST", f"/jobs/{job}/reject")
    assert see.dead(queue) == [job] and see.queue(queue)["held"] == 0


def test_queue_changes_are_in_the_list(see, do, queue):
    enqueue(do, queue)
    for _ in range(5):
        do("POST", f"/queues/{queue}/pause")
        assert see.queue(queue)["paused"] is True
        do("POST", f"/queues/{queue}/resume")
        assert see.queue(queue)["paused"] is False
    do("PATCH", f"/queues/{queue}", {"max_concurrency": 7})
    assert see.queue(queue)["max_concurrency"] == 7
    do("POST", f"/queues/{queue}/clear")
    assert see.queue(queue)["pending"] == 0 and see.states(queue) == {}
    enqueue(do, queue)
    do("DELETE", f"/queues/{queue}?confirm=true")
    assert see.queue(queue) is None and see.states(queue) == {}


def test_many_writers_each_find_their_own(crowd):
    """Each thread writes into its own queue and counts it by another
    connection; the clients are shared out, one to a thread."""
    failed = []

    def work(writer, reader, name):
        try:
            for i in range(40):
                writer.enqueue(name, payload={"i": i})
                row = reader.queue(name)
                assert row["pending"] == i + 1, (name, i, row)
                a = reader.search(queue=name, limit=1)
                assert a["total"] == i + 1 and "view_lag_ms" not in a
        except Exception as e:
            failed.append(e)

    number = next(SERIAL)
    threads = [threading.Thread(target=work, args=(
        crowd[i], crowd[i + 1], f"own{number}-{i}"))
        for i in range(0, CLIENTS, 2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert failed == []


# --- headers -------------------------------------------------------------


def test_index_of_one_process_serves_at_another(crowd, queue):
    for i in range(20):
        a = random.choice(crowd).post(f"{API}/enqueue", {"queue": queue})
        index = a.headers["X-Corvo-Index"]
        b = random.choice(crowd).get(f"{API}/queues",
                                     {"X-Corvo-Min-Index": index})
        assert b.status == 200 and LAG not in b.headers
        assert [q["pending"] for q in b.json if q["name"] == queue] == [i + 1]


@pytest.fixture(scope="module", params=[1, 3], ids=["1-httpd", "3-httpd"])
def hasty(request):
    """A node whose lists wait for next to nothing."""
    with running(f"--httpd-processes={request.param}",
                 "--view-wait=1ms") as n:
        for _ in range(30):  # by all of its processes
            wait_until(n.has_view, 60, "the view to answer")
        yield n


READS = [("GET", "/queues", None), ("GET", "/dead", None),
         ("GET", "/search/fulltext?q=x", None),
         ("POST", "/jobs/search", {})]


@pytest.mark.parametrize("method, path, body", READS,
                         ids=[r[1] for r in READS])
def test_view_that_is_behind_answers_and_says_so(hasty, method, path, body):
    """An index that is never reached: the view cannot have it."""
    with hasty.client() as c:
        c.enqueue("some")
        a = c.request(method, API + path, body,
                      {"X-Corvo-Min-Index": str(2 ** 60)})
        assert a.status == 200 and int(a.headers[LAG]) > 0
        if isinstance(a.json, dict):
            assert a.json["view_lag_ms"] == int(a.headers[LAG])


def test_bad_index_is_refused(hasty):
    with hasty.client() as c:
        for bad in ("soon", "-1", "1.5", "1" * 30):
            a = c.get(f"{API}/queues", {"X-Corvo-Min-Index": bad})
            assert (a.status, a.code) == (400, "VALIDATION_ERROR")


def pending_of(client, queue):
    """(answer, pending) of GET /queues."""
    a = client.get(f"{API}/queues")
    if a.status != 200:
        return a, None
    return a, next((q["pending"] for q in a.json if q["name"] == queue), 0)


def test_lists_under_a_burst_are_complete_or_say_so(hasty, queue):
    """More at a time than the view takes in within a millisecond."""
    known = [0]
    done = threading.Event()
    failed = []

    def watch():
        try:
            with hasty.client() as c:
                while not done.is_set():
                    before = known[0]
                    a, pending = pending_of(c, queue)
                    assert a.status == 200, a
                    assert LAG in a.headers or pending >= before
        except Exception as e:
            failed.append(e)

    threads = [threading.Thread(target=watch) for _ in range(3)]
    for t in threads:
        t.start()
    with hasty.client() as c:
        for _ in range(10):
            a = c.post(f"{API}/enqueue/batch", {"jobs": [
                {"queue": queue, "payload": "x" * 100}
                for _ in range(1000)]})
            assert a.status == 201
            known[0] += 1000
        done.set()
        for t in threads:
            t.join()
        assert failed == []

        def current():
            a, pending = pending_of(c, queue)
            return LAG not in a.headers and pending == 10000
        wait_until(current, 60, "the view to come up")


def test_lists_are_complete_or_refused_while_the_view_dies(hasty, queue):
    outcomes = set()
    with hasty.client() as c:
        for round_ in range(5):
            c.enqueue(queue)
            os.kill(hasty.pids()["viewd"], signal.SIGKILL)
            end = time.monotonic() + 60
            while True:
                a, pending = pending_of(c, queue)
                outcomes.add(a.status)
                assert a.status in (200, 503), a
                if a.status == 503:
                    assert a.code == "VIEW_UNAVAILABLE"
                elif LAG not in a.headers:
                    assert pending == round_ + 1
                    break
                assert time.monotonic() < end, "the view did not come back"
    assert 503 in outcomes


@pytest.mark.parametrize("processes", [1, 3])
def test_new_process_knows_what_the_old_one_acknowledged(make_node, processes):
    """The view is kept busy, so that it is behind when httpd is back."""
    node = make_node(f"--httpd-processes={processes}")
    node.start()
    wait_until(node.has_view, 60, "the view to answer")
    for i in range(5):
        with node.client() as c:
            a = c.post(f"{API}/enqueue/batch", {"jobs": [
                {"queue": "q", "payload": "x" * 100} for _ in range(2000)]})
            assert a.status == 201
        for name, pid in node.pids().items():
            if name.startswith("httpd"):
                os.kill(pid, signal.SIGKILL)
        a, pending = wait_until(lambda: first_answer(node, "q"), 60,
                                "httpd and its link to the view to be back")
        assert LAG not in a.headers and pending == 2000 * (i + 1)


def first_answer(node, queue):
    """Of a node that may not answer yet: pending_of, or None."""
    try:
        with node.client() as c:
            a, pending = pending_of(c, queue)
    except (OSError, http.client.HTTPException):
        return None
    assert a.status in (200, 503), a
    return (a, pending) if a.status == 200 else None


def test_lag_is_a_time_and_none_when_nothing_is_missing(node):
    with node.client() as c:
        for _ in range(20):
            c.enqueue("q")
        assert c.metrics()["corvo_view_lag_seconds"] < 60
        wait_until(lambda: c.metrics()["corvo_view_lag_seconds"] == 0,
                   20, "a lag of 0")
        assert c.metrics()["corvo_view_lag_events"] == 0
