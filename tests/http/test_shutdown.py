"""SIGTERM under load: what was acknowledged stays, and it ends in order."""

import contextlib
import http.client
import json
import os
import signal
import socket
import threading
import time

import pytest

from node import API, Client, wait_until
from remote import SERVICE
from waiting import patience

NETWORK = (OSError, http.client.HTTPException)
# Whoever has not left by then is killed, and the stop is not in order: below
# what a fetch waits, and how long a connection may be idle.
SOON = "--shutdown-timeout=45s"


class Producers:
    """Threads that enqueue until their connection ends."""

    def __init__(self, port, n=6):
        self.port = port
        self.acked = []
        self.statuses = set()
        self.stop = False
        self.threads = [threading.Thread(target=self.run, daemon=True)
                        for _ in range(n)]
        for t in self.threads:
            t.start()

    def run(self):
        client = Client(self.port, timeout=20)
        while not self.stop:
            try:
                client.send("POST", f"{API}/enqueue", {"queue": "stop"})
                a = client.receive()
            except NETWORK:
                client.close()
                if self.stop:
                    return
                continue
            self.statuses.add(a.status)
            if a.status == 201:
                self.acked.append(a.json["job_id"])
        client.close()

    def end(self):
        self.stop = True
        for t in self.threads:
            t.join(patience(30))


@pytest.mark.parametrize("round_", range(3))
def test_everything_acknowledged_is_there(make_node, round_):
    node = make_node()
    node.start()
    load = Producers(node.port)
    wait_until(lambda: len(load.acked) > 200, 60, "some load")
    node.stop()
    load.end()
    print(f"{len(load.acked)} acknowledged, statuses {load.statuses}")
    assert load.statuses <= {201, 503}
    node.start()
    with node.client() as c:
        missing = [i for i in load.acked
                   if c.get(f"{API}/jobs/{i}").status != 200]
        assert not missing
        assert c.queue("stop")["enqueued"] >= len(load.acked)


def test_parked_fetches_get_an_answer(make_node):
    node = make_node(SOON)
    node.start()
    parked = [node.client() for _ in range(20)]
    for i, c in enumerate(parked):
        path = "/fetch" if i % 2 else "/fetch/batch"
        c.send("POST", API + path, {"queues": ["none"], "timeout": 60})
    with node.client() as c:
        wait_until(lambda: c.parked() == 20, 10,
                   "the fetches to be parked")
    node.process.send_signal(signal.SIGTERM)
    got = [c.receive() for c in parked]
    assert node.process.wait(patience(20)) == 0
    for i, a in enumerate(got):
        if i % 2:
            assert a.status == 204, a
        else:
            assert (a.status, a.json) == (200, {"jobs": []})
        assert a.headers["Connection"] == "close"


def test_idle_connections_do_not_hold_it_up(make_node):
    node = make_node(SOON)
    node.start()
    idle = [node.client() for _ in range(50)]
    for c in idle:
        assert c.get("/healthz").status == 200
    node.stop()


def test_sigint_is_the_same(make_node):
    node = make_node()
    node.start()
    with node.client() as c:
        job_id = c.enqueue("int")
    node.process.send_signal(signal.SIGINT)
    assert node.process.wait(patience(20)) == 0
    node.start()
    with node.client() as c:
        assert c.state(job_id) == "pending"


def test_a_signal_for_all_processes_is_one_stop(make_node):
    """kill %1; none is started again meanwhile, or leaves before its turn."""
    node = make_node()
    node.start(start_new_session=True)
    with node.client() as c:
        job_id = c.enqueue("group")
    os.killpg(node.process.pid, signal.SIGTERM)
    assert node.process.wait(patience(20)) == 0
    node.check_log()
    assert "starting it again" not in node.log()
    assert node.log().count("ready pid=") == 4
    node.start()
    with node.client() as c:
        assert c.state(job_id) == "pending"


def test_a_reload_reaches_all_processes(make_node, tmp_path):
    conf = tmp_path / "corvo.conf"
    conf.write_text("log_level = info\n")
    node = make_node(f"--config={conf}")
    node.start()
    for level in ("warn", "debug"):
        conf.write_text(f"log_level = {level}\n")
        node.process.send_signal(signal.SIGHUP)
    wait_until(lambda: node.log().count("settings reloaded") >= 4, 10,
               "all to reload")
    node.stop()


def test_stop_while_it_starts(make_node):
    """At any moment of the start."""
    for wait_s in (0.0, 0.02, 0.05, 0.1, 0.2, 0.4):
        node = make_node()
        node.spawn()
        end = time.monotonic() + wait_s
        wait_until(lambda: time.monotonic() >= end, 5, every=0.005)
        node.process.send_signal(signal.SIGTERM)
        status = node.process.wait(patience(20))
        assert status in (0, -signal.SIGTERM), node.log()
        node.check_log()


class Callers:
    """Threads that connect for each request. What the kernel accepts is
    answered; whoever is not is refused, or waits in vain."""

    def __init__(self, port, n=8):
        self.port = port
        self.answered = 0
        self.refused = 0
        self.broken = []
        self.stop = False
        self.threads = [threading.Thread(target=self.run, daemon=True)
                        for _ in range(n)]
        for t in self.threads:
            t.start()

    def run(self):
        while not self.stop:
            try:
                s = socket.create_connection(("127.0.0.1", self.port), 0.5)
            except OSError:
                self.refused += 1
                continue
            with s:
                self.ask(s, time.monotonic())

    def ask(self, s, connected):
        text = b""
        try:
            s.settimeout(patience(20))
            s.sendall(b"GET /api/v1/info HTTP/1.1\r\nHost: localhost\r\n"
                      b"Connection: close\r\n\r\n")
            sent = time.monotonic()
            while (more := s.recv(65536)):
                text += more
            if text.startswith(b"HTTP/1.1 "):
                self.answered += 1
                return
            why = "closed"
        except OSError as e:
            why = repr(e)
            sent = time.monotonic()
        if sent - connected < 0.5:  # not one that was held up itself
            self.broken.append(why)

    def end(self):
        self.stop = True
        for t in self.threads:
            t.join(patience(30))


@pytest.mark.parametrize("round_", range(3))
def test_a_stop_resets_no_connection(make_node, round_):
    node = make_node()
    node.start()
    callers = Callers(node.port)
    wait_until(lambda: callers.answered > 50, 30, "some load")
    node.stop()
    wait_until(lambda: callers.refused > 20, 30, "the end of it")
    callers.end()
    assert not callers.broken, callers.broken[:5]


def ask_anew(port):
    """The socket of a request, or None: there is no connection to be had."""
    try:
        s = socket.create_connection(("127.0.0.1", port), 1)
    except OSError:
        return None
    with contextlib.suppress(OSError):
        s.sendall(b"GET /api/v1/info HTTP/1.1\r\nHost: localhost\r\n"
                  b"Connection: close\r\n\r\n")
    return s


def is_answered(s):
    s.settimeout(patience(20))
    with s, contextlib.suppress(OSError):
        return s.recv(100).startswith(b"HTTP/1.1 ")
    return False


def test_nobody_is_let_in_while_a_stop_waits_for_an_answer(make_node):
    """corvo-httpd takes no more connections, and the sockets are open until it
    has left: the kernel would take them, and reset them then."""
    node = make_node().start()
    asked = []

    def has_ended():
        asked.append(ask_anew(node.port))
        return not node.is_running()
    with node.client() as c:
        node.slow_log(5)
        c.send("POST", f"{API}/enqueue", {"queue": "late"})
        node.process.terminate()
        wait_until(has_ended, 60, "the end of it")
        assert c.receive().status == 201
    assert node.process.returncode == 0
    node.check_log()
    assert None in asked
    assert all(is_answered(s) for s in asked if s is not None)


def test_a_restart_of_httpd_resets_no_connection(make_node):
    node = make_node()
    node.start()
    callers = Callers(node.port)
    for _ in range(3):
        before = callers.answered
        reply = node.ask("restart httpd-0", timeout=60)
        assert "error" not in reply, reply
        wait_until(lambda: callers.answered > before + 50, 30, "load goes on")
    callers.end()
    assert not callers.broken, callers.broken[:5]


def test_restart_of_one_process_by_the_control_socket(make_node):
    node = make_node()
    node.start()
    load = Producers(node.port, 2)
    for name in ("httpd-0", "sched", "viewd", "raftd"):
        before = len(load.acked)
        reply = node.ask(f"restart {name}", timeout=60)
        assert "error" not in reply, reply
        wait_until(lambda: len(load.acked) > before + 20, 30, "load goes on")
    load.end()
    with node.client() as c:
        missing = [i for i in load.acked
                   if c.get(f"{API}/jobs/{i}").status != 200]
        assert not missing


def test_many_calls_for_one_request_do_not_hold_up_a_stop(make_node):
    """It ends between two of them, and says so."""
    node = make_node("--shutdown-timeout=10s")
    node.start()
    ids = [f"job_{i}" for i in range(9999)]
    clients = [node.client(60) for _ in range(60)]
    for c in clients:
        c.send("POST", f"{API}/jobs/bulk",
               {"action": "cancel", "job_ids": ids, "dry_run": True})
    with node.client() as c:
        c.enqueue("behind")
    node.process.send_signal(signal.SIGTERM)
    answers = [c.receive() for c in clients]
    assert {a.status for a in answers} <= {200, 429, 503}, answers
    assert node.process.wait(patience(20)) == 0, node.log()
    assert "killing" not in node.log()


def members(n, **first):
    return json.dumps({**first, **{f"m{i:08}": 1 for i in range(n)}})


LONG = {
    "enqueue": (f"{API}/enqueue", members(900000, queue="long")),
    "connect": (SERVICE + "Enqueue", members(500000, queue="long")),
    "scheddb": ("/jobs", members(900000, id="long")),
    "webhook": (f"{API}/webhooks/long", "\x01" * (15 << 20)),
}


@pytest.mark.parametrize("name", LONG)
def test_bodies_that_take_long_to_read_do_not_hold_up_a_stop(make_node, name):
    """None is carried out in part, or told to be wrong where it was cut."""
    path, body = LONG[name]
    node = make_node("--shutdown-timeout=4s", "--http-max-memory=3GiB")
    node.start()
    clients = [node.client(60) for _ in range(16)]
    for c in clients:
        c.send("POST", path, body, {"Content-Type": "application/json"})
    with node.client() as c:
        assert c.get("/healthz").status == 200
    node.process.send_signal(signal.SIGTERM)
    answers = [c.receive() for c in clients]
    told = {(a.status, a.status > 201 and a.code) for a in answers}
    whole = {"scheddb": (400, "VALIDATION_ERROR"),  # it has no type
             "webhook": (413, "PAYLOAD_TOO_LARGE")}
    assert told <= {(200, False), (201, False), (503, "SHUTTING_DOWN"),
                    (503, "unavailable"), whole.get(name)}, told
    assert node.process.wait(patience(20)) == 0, node.log()
    assert "killing" not in node.log()
