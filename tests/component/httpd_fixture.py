"""Starts corvo-httpd with fake_backend in the place of raftd and viewd.

The fake's answers depend on queue and job names, and it writes every request
and cancel it sees as a line of JSON; see fake_backend.c.
"""

import contextlib
import http.client
import json
import os
import signal
import socket
import struct
import subprocess
import tempfile
from pathlib import Path

import waiting
from node import free_port  # noqa: F401, for those that import it

BUILD = Path(os.environ["CORVO_BUILD_DIR"])
HTTPD = BUILD / "corvo-httpd" / "corvo-httpd"
FAKE = Path(os.environ.get("CORVO_FAKE_BACKEND",
                           BUILD / "tests" / "component" / "fake_backend"))
# A sanitizer needs memory of its own, so limits are not checked under it.
SANITIZED = b"__asan_init" in HTTPD.read_bytes() if HTTPD.exists() else False
PATIENCE = waiting.patience(20)


def wait_until(condition, what):
    return waiting.wait_until(condition, 20, what)


class Backend:
    """What it wrote is in a file: a request stands there before it is
    answered, so who has the answer finds it."""

    def __init__(self, run_dir):
        self.run_dir = run_dir
        self.events = []
        self.start()

    def start(self):
        self.lines = tempfile.TemporaryFile()
        self.at, self.rest = 0, b""
        self.proc = subprocess.Popen([FAKE, self.run_dir], stdout=self.lines)
        wait_until(lambda: self.seen("listening"), "the fake backend")

    def _read(self):
        """Its lines since the last look."""
        got = os.pread(self.lines.fileno(), 1 << 24, self.at)
        self.at += len(got)
        *lines, self.rest = (self.rest + got).split(b"\n")
        self.events += [json.loads(line) for line in lines]

    def forget(self):
        """Whatever it wrote until now."""
        self._read()
        self.events.clear()

    def kill(self):
        self.proc.kill()
        self.proc.wait()
        self._read()

    def seen(self, event, name=None, **body):
        self._read()
        return [e for e in self.events if e["event"] == event
                and (name is None or e["name"] == name)
                and all(e["body"].get(k) == v for k, v in body.items())]

    def wait(self, event, name=None, count=1, **body):
        return wait_until(
            lambda: len(self.seen(event, name, **body)) >= count
            and self.seen(event, name, **body),
            f"{count} x {event} {name} {body}, got {self.events[-5:]}")


class Httpd:
    def __init__(self, directory, *flags, env=None, pass_fds=()):
        self.port = 0
        self.dir = directory
        self.log = open(os.path.join(directory, "httpd.log"), "w+")
        run_dir = os.path.join(directory, "run")
        os.makedirs(run_dir, exist_ok=True)
        environ = dict(os.environ, **(env or {}))
        if not pass_fds:
            self.port = free_port()
        self.proc = subprocess.Popen(
            [HTTPD, f"--bind=127.0.0.1:{self.port or 1}",
             f"--data-dir={directory}", f"--run-dir={run_dir}", *flags],
            stderr=self.log, env=environ, pass_fds=pass_fds)

    def logged(self):
        with open(self.log.name) as f:
            return f.read()

    def wait_ready(self):
        wait_until(lambda: " ready " in self.logged() or self.proc.poll(),
                   "httpd")
        assert self.proc.poll() is None, self.logged()
        return self

    def stop(self):
        """Ends it gracefully; anything a sanitizer found fails the test."""
        if self.proc.poll() is None:
            self.proc.send_signal(signal.SIGTERM)
        code = self.proc.wait(PATIENCE)
        assert code == 0, self.logged()
        self.log.close()

    def reload(self):
        self.proc.send_signal(signal.SIGHUP)

    def cpu_ticks(self):
        """Processor time it has used."""
        stat = Path(f"/proc/{self.proc.pid}/stat").read_text()
        fields = stat.rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    def cpu_seconds(self):
        return self.cpu_ticks() / os.sysconf("SC_CLK_TCK")

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), PATIENCE)

    def request(self, method, path, body=None, headers=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port,
                                       timeout=PATIENCE)
        with contextlib.closing(c):
            if isinstance(body, (dict, list)):
                body = json.dumps(body)
            c.request(method, path, body, headers or {})
            return Response(c.getresponse())

    def post(self, path, body=None, **headers):
        return self.request("POST", "/api/v1" + path, body, headers)

    def get(self, path, **headers):
        return self.request("GET", "/api/v1" + path, None, headers)


class Response:
    def __init__(self, r):
        self.status = r.status
        self.headers = r.headers
        self.body = r.read()

    def json(self):
        assert self.headers["Content-Type"] == "application/json"
        assert self.body.endswith(b"\n")
        return json.loads(self.body)

    def error(self):
        body = self.json()
        assert isinstance(body["error"], str) and body["error"]
        return self.status, body["code"]


def read_answer(f):
    """One response from a socket file; None at the end."""
    line = f.readline()
    if not line:
        return None
    status = int(line.split()[1])
    headers = {}
    while (line := f.readline().strip()):
        name, value = line.split(b":", 1)
        headers[name.decode().lower()] = value.strip().decode()
    return status, headers, f.read(int(headers.get("content-length", 0)))


def is_closed(s, timeout=PATIENCE):
    s.settimeout(timeout)
    try:
        while s.recv(65536):
            pass
        return True
    except ConnectionResetError:
        return True


@contextlib.contextmanager
def node(*flags):
    with tempfile.TemporaryDirectory(prefix="corvo-httpd-") as directory:
        os.mkdir(os.path.join(directory, "run"))
        backend = Backend(os.path.join(directory, "run"))
        httpd = Httpd(directory, *flags)
        try:
            httpd.backend = backend
            yield httpd.wait_ready()
            httpd.stop()
        finally:
            if httpd.proc.poll() is None:
                httpd.proc.kill()
                httpd.proc.wait()
            backend.kill()


def message(method, path, body=None, extra=""):
    data = json.dumps(body).encode() if body is not None else b""
    return (f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{extra}"
            f"Content-Length: {len(data)}\r\n\r\n").encode() + data


def send(s, method, path, body=None, extra=""):
    s.sendall(message(method, path, body, extra))
