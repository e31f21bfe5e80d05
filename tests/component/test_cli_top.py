"""corvo top against a fake server: once as text, and live on a terminal."""

import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import socket
import struct
import termios
import time

import pytest

from cli_fixture import CORVO, corvo, fake, ok  # noqa: F401 (a fixture)
from waiting import patience

NODE = {"node_id": "node-7", "state": "Leader", "uptime_seconds": 7500,
        "ready": True, "disk_ok": True}
JOBS = {"has_more": False, "jobs": [
    {"id": "job_old", "queue": "mail", "state": "dead", "attempt": 3,
     "worker_id": "w1", "failed_at": "2026-02-11T10:00:00Z",
     "last_error": "SMTP: no\x1b[2J"},
    {"id": "job_new", "queue": "zoo", "state": "retrying", "attempt": 1,
     "worker_id": "w1", "failed_at": "2026-02-11T11:00:00Z",
     "last_error": "eaten"}], "view_lag_ms": 42}


def queue(name, **counts):
    return {"name": name, "paused": False, "pending": 0, "active": 0,
            "scheduled": 0, "retrying": 0, "held": 0, "dead": 0,
            "completed": 0, "enqueued": 0, **counts}


@pytest.fixture
def server(fake):
    """A fake with two queues and two workers, and nothing optional."""
    fake.reply("GET", "/api/v1/cluster/status", NODE)
    fake.reply("GET", "/api/v1/queues", [
        queue("mail", pending=5, active=2, dead=1,
              oldest_pending_at="2026-02-11T10:00:00Z"),
        queue("zoo", pending=70, scheduled=3, retrying=4, paused=True)])
    fake.reply("GET", "/api/v1/workers", [
        {"id": "w1", "hostname": "h1",
         "last_heartbeat": "2026-02-11T10:00:00Z"},
        {"id": "w2", "last_heartbeat": "2026-02-11T10:00:00Z"}])
    fake.reply("POST", "/api/v1/jobs/search", JOBS)
    return fake


# --- once ----------------------------------------------------------------


def test_once(server):
    out = ok("top", "--once", fake=server).splitlines()
    assert "node node-7" in out[0] and "Leader" in out[0]
    assert "up 2h05m" in out[0] and "view lag 42 ms" in out[0]
    assert out[1].startswith("queues 2  workers 2  pending 75  active 2  "
                             "scheduled 3  retrying 4  dead 1")
    rows = [line.split() for line in out]
    mail = next(r for r in rows if r and r[0] == "mail")
    zoo = next(r for r in rows if r and r[0] == "zoo")
    assert mail[1:8] == ["5", "2", "0", "0", "1", "-", "-"]
    assert zoo[1:] == ["70", "0", "3", "4", "0", "-", "-", "-", "paused"]
    assert rows.index(zoo) < rows.index(mail)  # most pending first
    w1 = next(r for r in rows if r and r[0] == "w1")
    assert w1[1] == "2" and w1[-1] == "h1"
    new = next(r for r in rows if r and r[0] == "job_new")
    old = next(r for r in rows if r and r[0] == "job_old")
    assert rows.index(new) < rows.index(old)  # the newest failure first
    assert old[2:] == ["dead", "3", "mail:", "SMTP:", "no?[2J"]


def test_once_with_rates(server):
    server.reply("GET", "/api/v1/scale", {"queues": [
        {"queue": "mail", "rate_in": 12.5, "rate_out": 3},
        {"queue": "zoo", "rate_in": 1, "rate_out": 0},
        {"queue": "unheard", "rate_in": 1}]})
    server.reply("GET", "/api/v1/cluster/status", {**NODE, "recent": {
        "seconds": 60, "enqueued": 600, "completed": 500, "failed": 7}})
    server.reply("GET", "/api/v1/info", {"server_version": "1.2.3"})
    out = ok("top", "--once", fake=server)
    assert "in 13.5/s  out 3.0/s" in out and "corvo 1.2.3" in out
    assert "last 60 s: 600 enqueued, 500 completed, 7 failed" in out
    mail = next(r for r in out.splitlines() if r.startswith("mail"))
    assert mail.split()[6:8] == ["12.5", "3.0"]


def test_once_with_the_nodes_of_a_cluster(server):
    out = ok("top", "--once", fake=server)
    assert "CONTACT MS" not in out  # alone
    server.reply("GET", "/api/v1/cluster/status", {**NODE, "nodes": [
        {"id": "n1", "role": "leader", "alive": True, "lag_entries": 0,
         "lag_ms": 0, "last_contact_ms": 0, "clock_offset_ms": 0,
         "clock_ok": True, "disk_ok": True, "disk_free_bytes": 3 << 30,
         "version": "1.2.3"},
        {"id": "n2", "role": "follower", "alive": True, "lag_entries": 12,
         "lag_ms": 40, "last_contact_ms": 300, "clock_offset_ms": -700,
         "clock_ok": False, "disk_ok": True, "disk_free_bytes": 1 << 30,
         "version": "1.2.3"},
        {"id": "n3", "role": "follower", "alive": False},
        # of which a new leader has yet to hear
        {"id": "n4", "role": "follower", "alive": True}]})
    rows = [x.split() for x in ok("top", "--once", fake=server).splitlines()]
    assert ["n1", "leader", "up", "0", "0", "0", "0", "3.0", "GiB",
            "1.2.3"] in rows, rows
    assert ["n2", "follower", "up", "12", "40", "300", "-700", "1.0", "GiB",
            "1.2.3", "clock", "off"] in rows, rows
    assert ["n3", "follower", "DOWN", "0", "0", "0", "0", "0", "B"] in rows
    assert ["n4", "follower", "up", "0", "0", "0", "0", "0", "B"] in rows, rows


def test_once_without_a_leader(server):
    """Nothing is asked that a leader would have to answer."""
    server.reply("GET", "/api/v1/cluster/status", {
        **NODE, "state": "Candidate", "term": 7, "leader": False,
        "leader_id": "", "ready": False})
    out = ok("top", "--once", fake=server).splitlines()
    assert "(not ready)" in out[0]
    assert out[1] == "node node-7 knows no leader (Candidate, term 7)"
    assert any(row.startswith("mail") for row in out)
    asked = {r[1] for r in server.requests}
    assert not asked & {"/api/v1/workers", "/api/v1/scale"}


def test_once_as_json(server):
    out = json.loads(ok("top", "--once", "--output=json", fake=server))
    assert out["cluster"] == NODE and len(out["queues"]) == 2
    assert "scale" not in out


def test_strange_answers(server):
    """Valid JSON of any shape is no reason to fall over."""
    for body in (b"[]", b"{}", b"7", b'[1, "x", null, {"name": 5}]',
                 b'{"recent": 5}'):
        for path in ("cluster/status", "queues", "workers", "scale", "info",
                     "metrics/throughput"):
            server.reply("GET", f"/api/v1/{path}", body)
        server.reply("POST", "/api/v1/jobs/search", body)
        assert "QUEUE" in ok("top", "--once", fake=server)


def test_names_that_cannot_be_printed(server):
    server.reply("GET", "/api/v1/queues", [
        queue("tab\tand\x1b[0m"), queue("x" * 255), queue("grün"),
        queue("")])
    out = ok("top", "--once", fake=server)
    assert "tab?and?[0m" in out and "\x1b" not in out
    assert "x" * 33 not in out


def test_server_that_is_not_there():
    p = corvo("top", "--once", "--server", "http://127.0.0.1:1")
    assert p.returncode == 1 and "cannot reach" in p.stderr


def test_server_that_does_not_answer():
    """Connections to a node that starts are taken, and wait."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        p = corvo("top", "--once", "--server", f"http://127.0.0.1:{port}")
    assert p.returncode == 1
    assert "a node that starts answers once it has heard from a leader" in \
        p.stderr


def test_without_a_terminal(server):
    p = corvo("top", fake=server)
    assert p.returncode == 1 and "--once" in p.stderr
    assert server.requests == []


@pytest.mark.parametrize("interval", ["soon", "1ms", "2h"])
def test_usage_errors(server, interval):
    p = corvo("top", "--once", "--interval", interval, fake=server)
    assert p.returncode == 2 and "--interval takes" in p.stderr


# --- live ----------------------------------------------------------------

CLEAR = "\x1b[2J"  # a picture drawn anew begins so
PAGE_UP, PAGE_DOWN = "\x1b[5~", "\x1b[6~"
PATIENCE = patience(20)


class Terminal:
    """A corvo top on a terminal of its own; keeps what it wrote."""

    def __init__(self, url, rows=30, columns=120, term="xterm"):
        self.text = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            # as under nohup: it must see by itself that its terminal is gone
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            env = {"TERM": term, "LC_ALL": "C.UTF-8",
                   "PATH": os.environ["PATH"]}
            for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"):
                if name in os.environ:
                    env[name] = os.environ[name]
            os.execve(CORVO, [CORVO, "top", "--server", url, "--interval",
                              "100ms"], env)
        self.resize(rows, columns)

    def resize(self, rows, columns):
        self.rows, self.columns = rows, columns
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ,
                    struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds):
        if not select.select([self.fd], [], [], seconds)[0]:
            return False
        try:
            chunk = os.read(self.fd, 65536)
        except OSError:  # it has ended
            return False
        self.text += chunk.decode(errors="replace")
        return bool(chunk)

    def wait_for(self, *words):
        end = time.monotonic() + PATIENCE
        while not all(w in self.text for w in words):
            assert time.monotonic() < end, (words, self.text[-2000:])
            self.read(0.1)

    def forget(self):
        while self.read(0):
            pass
        self.text = ""

    def redraw(self):
        """Makes it draw a whole picture; otherwise only what differs from
        the one before is written. A width that it had just now would be
        none that has changed, if it did not look in between."""
        self.resize(self.rows, 100 + (self.columns + 1) % 100)

    def shows(self, *words, keys=""):
        """Waits until a whole picture has all words, and keeps that one. It
        may be drawn long after it was asked for. Until then the keys are
        typed, once for each picture: none wait that nobody reads."""
        end = time.monotonic() + PATIENCE
        typed = None
        self.forget()
        while True:
            for picture in self.text.split(CLEAR)[1:]:
                if all(w in picture for w in words):
                    self.text = picture
                    return
            assert time.monotonic() < end, (words, self.text[-2000:])
            if not self.read(0.2):
                if typed != self.text.count(CLEAR):
                    typed = self.text.count(CLEAR)
                    self.type(keys)
                self.redraw()

    def type(self, keys):
        os.write(self.fd, keys.encode())

    def status(self):
        """Exit status, when it ends by itself."""
        child = os.pidfd_open(self.pid)
        files = [child] + ([] if self.fd is None else [self.fd])
        while ready := select.select(files, [], [], PATIENCE)[0]:
            if child in ready:
                break
            if not self.read(0):
                files = [child]
        os.close(child)
        assert ready, "it did not end: " + self.text[-2000:]
        _, status = os.waitpid(self.pid, 0)
        self.pid = None
        return os.waitstatus_to_exitcode(status)

    def close(self):
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        if self.fd is not None:
            os.close(self.fd)

    def hang_up(self):
        os.close(self.fd)
        self.fd = None


@pytest.fixture
def terminal(server):
    t = Terminal(server.url)
    yield t
    t.close()


def test_shows_queues_until_q(terminal):
    terminal.wait_for("node-7", "mail", "zoo", "paused", "w1", "eaten",
                      "q quit")
    terminal.type("q")
    assert terminal.status() == 0


def test_control_c_ends_it(terminal):
    terminal.wait_for("q quit")
    terminal.type("\x03")
    assert terminal.status() == 0


@pytest.mark.parametrize("keys", ["", "p"])
def test_ends_with_its_terminal(terminal, keys):
    """Also when paused, and does not ask for keys for ever."""
    terminal.wait_for("q quit")
    if keys:
        terminal.type(keys)
        terminal.shows("p go on")
    terminal.hang_up()
    terminal.status()


@pytest.mark.parametrize("term", ["dumb", "unheard-of"])
def test_terminal_without_a_cursor(server, term):
    t = Terminal(server.url, term=term)
    try:
        t.wait_for("no terminal to draw on; `corvo top --once`")
        assert t.status() == 1 and "QUEUE" not in t.text
    finally:
        t.close()


def test_shows_what_changes(terminal, server):
    terminal.wait_for("zoo")
    server.reply("GET", "/api/v1/queues", [queue("fresh", pending=1)])
    terminal.shows("fresh")
    terminal.type("q")
    assert terminal.status() == 0


def test_survives_resizing(terminal):
    terminal.wait_for("zoo")
    for rows, columns in ((10, 40), (3, 5), (1, 1), (50, 200)):
        terminal.forget()
        terminal.resize(rows, columns)
        if rows == 10:  # the first lines, cut
            terminal.wait_for("node-7", "q quit")
    terminal.wait_for("node-7", "zoo", "eaten", "q quit")
    terminal.type("q")
    assert terminal.status() == 0


def test_sort_and_pause(terminal, server):
    terminal.wait_for("sort: pending")
    terminal.type("s")
    terminal.shows("sort: active")
    terminal.type("p")
    terminal.shows("p go on")
    asked = len(server.requests)
    terminal.type("s")
    terminal.shows("sort: dead")
    assert len(server.requests) == asked
    terminal.type("p")
    terminal.shows("p pause")
    terminal.type("q")
    assert terminal.status() == 0


def test_filter_by_name(terminal):
    terminal.wait_for("mail", "zoo")
    terminal.type("/zo\x7foo\r")
    terminal.shows("filter: zoo")  # it has read the keys
    terminal.shows("node-7", "filter: zoo", "q quit")
    assert "mail" not in terminal.text
    terminal.type("q")
    assert terminal.status() == 0


def test_scrolls(terminal, server):
    server.reply("GET", "/api/v1/queues",
                 [queue(f"queue{i:03}") for i in range(60)])
    terminal.resize(20, 120)
    terminal.shows("queue000", "q quit")
    assert "queue059" not in terminal.text
    terminal.shows("queue059", "eaten", keys=PAGE_DOWN)
    assert "queue000" not in terminal.text
    terminal.shows("queue000", "q quit", keys=PAGE_UP)
    assert "queue059" not in terminal.text
    terminal.type("q")
    assert terminal.status() == 0


def test_server_that_goes_away_and_comes_back(terminal, server):
    terminal.wait_for("zoo")
    server.reply("GET", "/api/v1/queues", {"error": "gone fishing"}, 503)
    terminal.shows("server away: gone fishing", "zoo")
    server.reply("GET", "/api/v1/queues", [queue("back", pending=1)])
    terminal.shows("back", "q quit")
    terminal.type("q")
    assert terminal.status() == 0
