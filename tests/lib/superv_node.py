"""A supervisor whose children are small programs that do as they are told.

Each fake speaks the notify protocol of common/rt/notify.h and writes what
happens to it, one word a line, into <dir>/events. How it behaves comes from
the file <dir>/<name>.mode, read again at every start.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from node import free_port
from waiting import patience, wait_until

BUILD = Path(os.environ.get("CORVO_BUILD_DIR") or
             Path(__file__).parents[2] / "build" / "dev")
SUPERVISOR = BUILD / "corvo-supervisor" / "corvo-supervisor"
PROCS = ["raftd", "viewd", "sched", "httpd"]
NODE = ["raftd", "viewd", "sched", "httpd-0"]

FAKE = r'''#!%(python)s -S
import os, select, signal, socket, sys, threading, time
here = %(dir)r
name = os.path.basename(sys.argv[0]).replace("corvo-", "")
number = os.environ["CORVO_NUMBER"]
full = name + "-" + number if name == "httpd" else name

def event(text):
    fd = os.open(here + "/events", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(fd, ("%%s %%s %%d\n" %% (full, text, os.getpid())).encode())
    os.close(fd)

try:
    mode = open("%%s/%%s.mode" %% (here, name)).read().split()
except FileNotFoundError:
    mode = []
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN if "linger" in mode else
              lambda *a: (event("sigterm"), sys.exit(0)))
if "hardy" in mode:
    signal.signal(signal.SIGABRT, lambda *a: event("sigabrt"))
note = socket.socket(fileno=int(os.environ["CORVO_NOTIFY_FD"]))
beat = int(os.environ["CORVO_WATCHDOG_MS"]) / 4000
configs = [a for a in sys.argv if a.startswith("--config=")]
if configs:
    with open("%%s/%%s.config" %% (here, full), "w") as out:
        out.write(open(configs[-1].split("=", 1)[1]).read())
event("start")
if "die" in mode:
    sys.exit(7)
if "refuse" in mode:
    sys.exit(2)
time_to_ready = 0.1 if "slow" in mode else 0
select.select([], [], [], time_to_ready)
listener = None
if name == "httpd":
    listener = socket.socket(fileno=int(os.environ["CORVO_LISTEN_FD"]))
    listener.setblocking(False)
elif "CORVO_LISTEN_FD" in os.environ:
    event("unexpected-listener")
if "unready" not in mode:
    event("ready")
    note.sendall(b"STATUS=all is well\nREADY=1\n")
if "regret" in mode:
    sys.exit(2)
if "finish" in mode:
    while not os.path.exists(here + "/go"):
        note.sendall(b"WATCHDOG=1\n")
        select.select([], [], [], 0.01)
    sys.exit(0)
def spin():
    while True:
        pass
if "helper" in mode:
    helper = threading.Thread(target=spin)
    helper.start()
    helper.join()
if "spin" in mode:
    spin()
pending = b""
while True:
    fds = [note] + ([listener] if listener else [])
    readable, _, _ = select.select(fds, [], [], beat)
    if "mute" not in mode:
        try:
            note.sendall(b"WATCHDOG=1\n")
        except BrokenPipeError:
            pass  # the end of file is read below
    if listener in readable:
        try:
            c, _ = listener.accept()
        except BlockingIOError:
            continue
        c.sendall(b"%%d\n" %% os.getpid())
        c.close()
    if note in readable:
        got = note.recv(4096)
        if not got:
            event("orphan")
            if "linger" in mode:
                select.select([], [], [], 0.5)
                event("gone")
            sys.exit(0)
        pending += got
        while b"\n" in pending:
            line, pending = pending.split(b"\n", 1)
            word = line.split()[0]  # of drain; the rest is how long it may take
            event("drain" if word == b"drain" else line.decode())
            if word == b"drain" and "stubborn" not in mode:
                while "held" in mode and not os.path.exists(here + "/go"):
                    note.sendall(b"WATCHDOG=1\n")
                    select.select([], [], [], 0.01)
                select.select([], [], [], 0 if "swift" in mode else 0.05)
                event("left")
                sys.exit(3 if "bad" in mode else 0)
'''


def wait_for(what, text=""):
    """Waits until what() is true; returns its value."""
    return wait_until(what, what=text)


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


class Node:
    def __init__(self, tmp):
        self.dir = tmp
        self.libexec = tmp / "libexec"
        self.data = tmp / "data"
        self.port = free_port()
        self.process = None
        self.program = SUPERVISOR
        self.user = None  # who runs it; None: who runs the tests
        self.err = tmp / "stderr"
        self.libexec.mkdir()
        for name in PROCS:
            self.fake(name)

    def fake(self, name):
        path = self.libexec / f"corvo-{name}"
        path.write_text(FAKE % {"python": sys.executable, "dir": str(self.dir)})
        path.chmod(0o755)

    def copy_program(self):
        """Runs a copy of it in the node's own folder: there is no other
        program beside it, and any user may enter."""
        self.dir.chmod(0o755)
        self.program = Path(shutil.copy(SUPERVISOR, self.dir))

    def mode(self, name, *words):
        (self.dir / f"{name}.mode").write_text(" ".join(words))

    def start(self, *flags, wait=True, stderr=None, **popen):
        env = {k: v for k, v in os.environ.items() if not k.startswith("CORVO")}
        env["CORVO_LIBEXEC"] = str(self.libexec)
        self.process = subprocess.Popen(
            [str(self.program), f"--data-dir={self.data}",
             f"--bind=127.0.0.1:{self.port}", "--shutdown-timeout=4m",
             *flags],
            env=env, stderr=stderr or open(self.err, "ab"),
            stdin=subprocess.DEVNULL,
            user=self.user, **popen)
        if wait:
            wait_for(lambda: "ready: listening on" in self.log() or
                     self.process.poll() is not None, text="the node")
            assert self.process.poll() is None, self.log()
        return self

    def log(self):
        return self.err.read_text() if self.err.exists() else ""

    def events(self, *names):
        """[(process, word, pid)] in the order they happened."""
        path = self.dir / "events"
        lines = path.read_text().splitlines() if path.exists() else []
        rows = [(x.split()[0], " ".join(x.split()[1:-1]), int(x.split()[-1]))
                for x in lines]
        return [r for r in rows if not names or r[0] in names]

    def words(self, name):
        return [w for _, w, _ in self.events(name)]

    def ask(self, request, timeout=20):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(patience(timeout))
            s.connect(str(self.data / "run" / "control.sock"))
            s.sendall(request.encode() + b"\n")
            reply = b""
            while chunk := s.recv(65536):
                reply += chunk
        return json.loads(reply)

    def ps(self, name=None):
        reply = self.ask("ps")
        if name is None:
            return reply
        return next(p for p in reply["processes"] if p["name"] == name)

    def pid(self, name):
        return self.ps(name)["pid"]

    def back(self, name, old):
        """True when a ready process other than pid `old` runs."""
        p = self.ps(name)
        return p["state"] == "ready" and p["pid"] != old and p

    def wait_back(self, name, old):
        return wait_for(lambda: self.back(name, old), f"{name} again")

    def request(self, timeout=10):
        """One connection to the port; the pid that served it."""
        address = ("127.0.0.1", self.port)
        with socket.create_connection(address, patience(timeout)) as s:
            return int(s.recv(64))

    def exit(self, seconds=20):
        return self.process.wait(patience(seconds))

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.exit()
            except subprocess.TimeoutExpired:
                self.process.kill()
                raise
        return self.process.returncode

    def clean_up(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for _, _, pid in self.events():
            if alive(pid) and "corvo-" in cmdline(pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


@pytest.fixture
def node(tmp_path):
    n = Node(tmp_path)
    yield n
    n.clean_up()
    assert "ERROR: " not in n.log() and "runtime error" not in n.log(), n.log()


def refused(node, *flags):
    """Starts a node that must not start; its exit status and words."""
    node.start(*flags, wait=False)
    status = node.exit()
    assert node.events() == []
    return status, node.log()


def cmdline(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except FileNotFoundError:
        return ""
