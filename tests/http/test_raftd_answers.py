"""Many who ask corvo-raftd or corvo-viewd for much at once: it answers in
portions, others go on, and its memory stays what it was."""

import contextlib
import json
import os
import signal
import socket
from pathlib import Path

import pytest

from node import API, new_node, wait_until

READERS = 40
WAITERS = 800
MOST_MB = 100  # more than before; all of the answers at once are 160 and 200
LIMIT_DRAIN_WAITS = 1024
WORKERS = 2000
LOOKERS = 100
LISTS = 40  # of 8 MB


@contextlib.contextmanager
def frugal(*flags):
    """A node whose memory is what it uses: a sanitizer sets nothing aside."""
    n = new_node(*flags)
    options = os.environ.get("ASAN_OPTIONS", "")
    n.env["ASAN_OPTIONS"] = options + ":quarantine_size_mb=1"
    try:
        n.start()
        yield n
    finally:
        n.clean_up()


@pytest.fixture(scope="module")
def node():
    with frugal() as n:
        yield n


def memory_mb(pid, name):
    status = Path(f"/proc/{pid}/status").read_text()
    for line in status.splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) / 1024
    raise ValueError(name)


@contextlib.contextmanager
def memory_is_bounded(node, process="raftd"):
    pid = node.pids()[process]
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    before = memory_mb(pid, "VmRSS")
    yield
    assert node.pids()[process] == pid
    assert memory_mb(pid, "VmHWM") < before + MOST_MB


class Asked:
    """A request on a connection of its own."""

    def __init__(self, node, method, path, body=b""):
        self.s = socket.create_connection(("127.0.0.1", node.port))
        self.s.sendall(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n"
                       "Connection: close\r\nContent-Length: "
                       f"{len(body)}\r\n\r\n".encode() + body)

    def is_answered(self):
        self.s.setblocking(False)
        try:
            return len(self.s.recv(1, socket.MSG_PEEK)) > 0
        except BlockingIOError:
            return False
        finally:
            self.s.settimeout(240)

    def answer(self, text=""):
        """Its status, and how many bytes came, among which is the text."""
        data = b"".join(iter(lambda: self.s.recv(1 << 20), b""))
        self.s.close()
        assert text.encode() in data, data[:1000]
        return int(data.split()[1]), len(data)


def job_with_log(client, queue):
    """A job that has logged 4 MB."""
    job_id = client.enqueue(queue)
    job = client.fetch(queue, lease_duration=3600)
    for _ in range(10):
        a = client.post(f"{API}/heartbeat", {"worker_id": "w1", "jobs": {
            job_id: {"lease_token": job["lease_token"],
                     "logs": ["x" * 4000] * 100}}})
        assert a.status == 200, a
    return job_id


def test_others_go_on_while_many_read_logs(node, client, queue):
    job_id = job_with_log(client, queue)
    with memory_is_bounded(node):
        readers = [Asked(node, "GET", f"{API}/jobs/{job_id}/logs?limit=1000")
                   for _ in range(READERS)]
        client.enqueue(queue)  # is answered before all of them were
        assert not all(r.is_answered() for r in readers)
        told = [r.answer() for r in readers]
    assert {status for status, _ in told} <= {200, 429}
    assert min(n for status, n in told if status == 200) > 4000000


def test_all_who_wait_for_a_job_are_told_in_portions(node, client, queue):
    job_id = client.enqueue(queue, payload="x" * 250000)
    job = client.fetch(queue, lease_duration=3600)

    def waiting():
        return client.metrics()["corvo_waiting_reads"]

    with memory_is_bounded(node):
        waiters = [Asked(node, "GET", f"{API}/jobs/{job_id}?wait=60s")
                   for _ in range(WAITERS)]
        wait_until(lambda: waiting() == WAITERS, 20, "all of them to wait")
        client.ack(job)
        told = [w.answer() for w in waiters]
    assert {status for status, _ in told} <= {200, 429}
    assert min(n for status, n in told if status == 200) > 250000
    assert waiting() == 0


def test_so_many_wait_for_queues_to_drain_and_no_more(node, client, queue):
    client.enqueue(queue)
    job = client.fetch(queue, lease_duration=3600)
    path = f"{API}/queues/{queue}/drain?wait=60s"
    asked = [Asked(node, "POST", path) for _ in range(LIMIT_DRAIN_WAITS + 5)]

    def told():
        return [a for a in asked if a.is_answered()]
    wait_until(lambda: len(told()) == 5, 30, "those that are too many")
    for a in told():
        asked.remove(a)
        assert a.answer("draining")[0] == 200
    client.ack(job)
    assert {a.answer("drained")[0] for a in asked} == {200}


def ask_for_jobs(node, queue, n):
    """So many workers ask once, all in one connection."""
    with socket.create_connection(("127.0.0.1", node.port), 240) as s:
        f = s.makefile("rb")
        for i in range(n):
            body = json.dumps({"queues": [queue], "worker_id": f"w{i}",
                               "timeout": 0}).encode()
            s.sendall(f"POST {API}/fetch HTTP/1.1\r\nHost: localhost\r\n"
                      f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        for _ in range(n):
            assert f.readline().split()[1] == b"204"
            while f.readline() != b"\r\n":
                pass


def test_one_reading_is_for_all_who_ask_meanwhile(node, client, queue):
    """Of a worker that waits it says when that was."""
    ask_for_jobs(node, queue, WORKERS)
    with node.client() as waiting:
        waiting.send("POST", f"{API}/fetch", {
            "queues": [queue], "worker_id": "waits", "timeout": 60})
        wait_until(lambda: client.parked() == 1, 20, "it to wait")
        clients = [node.client() for _ in range(LOOKERS)]
        with memory_is_bounded(node):
            for c in clients:
                c.send("GET", f"{API}/workers")
            answers = [c.receive() for c in clients]
        for c in clients:
            c.close()
        client.enqueue(queue)
        assert waiting.receive().status == 200
    assert {a.status for a in answers} <= {200, 429}
    seen = [next(w["last_heartbeat"] for w in a.json if w["id"] == "waits")
            for a in answers if a.status == 200]
    assert len(set(seen)) < len(seen) / 2


@contextlib.contextmanager
def stopped(pid):
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def looks_at_rest(pid):
    """Says whether it has done nothing, and had nothing to do, for a while."""
    seen = []

    def look():
        rows = [stat.read_text().rsplit(")", 1)[1].split()
                for stat in Path(f"/proc/{pid}/task").glob("*/stat")]
        seen.append([(row[0], row[11], row[12]) for row in rows])
        return seen[-5:] == 5 * seen[-1:] and \
            {state for state, *_ in seen[-1]} == {"S"}
    return look


def test_lists_of_the_view_wait_until_those_before_are_taken(queue):
    """corvo-httpd asks for all of them, and then takes none for a while."""
    body = json.dumps({"queue": queue, "limit": 50}).encode()
    with frugal("--stopped-timeout=10m", "--watchdog-timeout=10m") as node, \
            node.client() as c:
        for _ in range(5):
            a = c.post(f"{API}/enqueue/batch", {
                "jobs": [{"queue": queue, "payload": "x" * 200000}] * 10})
            assert a.status == 201, a
        wait_until(lambda: c.search(queue=queue, limit=1)["total"] == 50, 60,
                   "the jobs in the view")
        pids = node.pids()
        with memory_is_bounded(node, "viewd"):
            with contextlib.ExitStack() as holds_httpd:
                with stopped(pids["viewd"]):
                    asked = [Asked(node, "POST", f"{API}/jobs/search", body)
                             for _ in range(LISTS)]
                    c.enqueue(queue)  # is answered when they have been asked
                    holds_httpd.enter_context(stopped(pids["httpd-0"]))
                wait_until(looks_at_rest(pids["viewd"]), 120, "it to be done",
                           every=0.1)
            told = [a.answer() for a in asked]
    assert {status for status, _ in told} <= {200, 429}
    assert min(n for status, n in told if status == 200) > 8000000
