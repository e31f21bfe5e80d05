"""Clients that ask corvo-raftd for more than it should answer at once. Each
attack is a context manager of a node: it is under way while the block runs.
"""

import contextlib
import selectors

from attacks import API, background, close_all, connect, request
from figures import say

WORKERS = 10000


# --- tools of attackers ---------------------------------------------------


def read_until(stop, socks, ask, answers):
    """Asks on each of them, reads what comes, and asks again."""
    with selectors.DefaultSelector() as ready:
        left = {}
        for s in socks:
            s.setblocking(False)
            s.send(ask)
            left[s] = b""
            ready.register(s, selectors.EVENT_READ)
        while not stop.is_set():
            for key, _ in ready.select(0.1):
                s = key.fileobj
                try:
                    data = s.recv(1 << 18)
                except OSError:
                    data = b""
                if not data:
                    ready.unregister(s)
                    continue
                left[s] = after_answers(left[s] + data, answers)
                if left[s] is None:
                    left[s] = b""
                    with contextlib.suppress(OSError):
                        s.send(ask)


def after_answers(data, answers):
    """None: one is there completely; else what is to be kept of it."""
    head, end, body = data.partition(b"\r\n\r\n")
    if not end:
        return data
    length = 0
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    if len(body) < length:
        return data
    status = int(head.split()[1])
    answers[status] = answers.get(status, 0) + 1
    return None


@contextlib.contextmanager
def asked(node, n, path):
    """n clients that ask, read the answer and ask again."""
    answers = {}
    socks = [connect(node) for _ in range(n)]
    ask = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    with background(read_until, socks, ask, answers):
        yield
    close_all(socks)
    say("  answers", ", ".join(f"{n} x {code}"
                               for code, n in sorted(answers.items())))


def fill_workers(node, n=WORKERS, at_a_time=500):
    """That many workers have asked for a job."""
    with connect(node) as s:
        f = s.makefile("rb")
        for first in range(0, n, at_a_time):
            s.sendall(b"".join(
                request("POST", "/fetch", {
                    "queues": ["none", "of", "these"], "timeout": 0,
                    "worker_id": f"worker-{i}", "hostname": f"host-{i}"})
                for i in range(first, first + at_a_time)))
            for _ in range(at_a_time):
                skip_answer(f)


def skip_answer(f):
    length = 0
    while (line := f.readline()) not in (b"\r\n", b""):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    f.read(length)


def job_with_log(node, lines=1000, size=4000):
    """One whose log is 4 MB."""
    with node.client(timeout=60) as c:
        job_id = c.enqueue("logged")
        job = c.fetch("logged", lease_duration=3600)
        for _ in range(lines // 100):
            a = c.post(f"{API}/heartbeat", {"worker_id": "w1", "jobs": {
                job_id: {"lease_token": job["lease_token"],
                         "logs": ["x" * size] * 100}}})
            assert a.status == 200, a
    return job_id


# --- attacks: each yields while it is under way ---------------------------


@contextlib.contextmanager
def workers(node, n=150):
    """150 clients ask for 10,000 workers again and again."""
    fill_workers(node)
    with asked(node, n, f"{API}/workers"):
        yield


@contextlib.contextmanager
def metrics(node, n=160):
    """160 clients ask for the metrics of a node with 10,000 workers."""
    fill_workers(node)
    with asked(node, n, "/metrics"):
        yield


@contextlib.contextmanager
def logs(node, n=800):
    """800 clients read a log of 4 MB again and again."""
    with asked(node, n,
               f"{API}/jobs/{job_with_log(node)}/logs?limit=1000"):
        yield


@contextlib.contextmanager
def schedules(node, n=200):
    """200 clients read 8 MB of schedules again and again."""
    with node.client(timeout=60) as c:
        for i in range(40):
            a = c.post(f"{API}/schedules", {
                "name": f"yearly{i}", "cron": "0 0 1 1 *",
                "queue": "yearly", "payload": "x" * 200000})
            assert a.status in (200, 201), a
    with asked(node, n, f"{API}/schedules"):
        yield


@contextlib.contextmanager
def waiters(node, n=1500):
    """1,500 clients wait for one job of 250 kB, which ends."""
    with node.client(timeout=60) as c:
        job_id = c.enqueue("awaited", payload="x" * 250000)
        job = c.fetch("awaited", lease_duration=3600)
        socks = [connect(node) for _ in range(n)]
        for s in socks:
            s.sendall(request("GET", f"/jobs/{job_id}?wait=60s"))
        c.ack(job)
    yield
    close_all(socks)


@contextlib.contextmanager
def drains(node, n=6000):
    """6,000 clients wait for queues to drain, which never do."""
    socks = []
    with node.client(timeout=60) as c:
        for i in range(100):
            c.enqueue(f"drain{i}")
            assert c.fetch(f"drain{i}", lease_duration=3600) is not None
    for i in range(n):
        socks.append(connect(node))
        socks[-1].sendall(
            request("POST", f"/queues/drain{i % 100}/drain?wait=60s"))
    yield
    close_all(socks)


ATTACKS = {
    "workers": workers,
    "metrics": metrics,
    "logs": logs,
    "schedules": schedules,
    "waiters": waiters,
    "drains": drains,
}
