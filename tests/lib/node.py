"""A real node (`corvo server` and its processes) and a client for it.

Used by tests/http and tests/kill. Every node has its own directory and free
ports, and looks at its own words when it ends: a sanitizer report or a failed
CHECK in any process fails the test that used it.
"""

import contextlib
import fcntl
import http.client
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from calendar import timegm
from pathlib import Path

from waiting import patience, wait_until  # noqa: F401, for those that import it

SOURCE = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("CORVO_BUILD_DIR", SOURCE / "build" / "dev"))
CORVO = BUILD / "cli" / "corvo"
PROCS = ["raftd", "viewd", "sched", "httpd-0"]
API = "/api/v1"

# {path: members} with which a request for which none is needed does nothing.
HARMLESS = {f"{API}/cluster/{verb}": {"node_id": "nobody"}
            for verb in ("leave", "transfer")}

LOG_SHOWN = 4000  # characters of a log in a failed assertion

# Words that must never be in what a node says.
BROKEN = ("ERROR: AddressSanitizer", "ERROR: LeakSanitizer", "runtime error:",
          "CHECK failed", "AddressSanitizer:DEADLYSIGNAL")


def is_sanitized():
    """True for a build that is several times slower than a release."""
    if os.environ.get("CORVO_SLOW"):
        return True
    cache = BUILD / "CMakeCache.txt"
    text = cache.read_text() if cache.exists() else ""
    for line in text.splitlines():
        if line.startswith("CORVO_SANITIZE:") and line.split("=", 1)[1]:
            return True
    return False


def seconds_of(text):
    """UNIX time of an RFC 3339 text in UTC with any number of digits."""
    whole, _, digits = text.rstrip("Z").partition(".")
    at = timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S"))
    return at + float("0." + (digits or "0"))


PORTS = Path(tempfile.gettempdir()) / f"corvo-test-ports-{os.getuid()}"
taken_ports = []  # files whose locks say that a port is ours, until we end


def free_port():
    """A port that nobody has, that no connection is given by chance (those the
    system chooses are above), and that no other test takes while a node that
    will have it again is stopped."""
    PORTS.mkdir(mode=0o700, exist_ok=True)
    while True:
        port = random.SystemRandom().randrange(10240, 32768)
        lock = open(PORTS / str(port), "wb")
        with contextlib.suppress(OSError), socket.socket() as s:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            s.bind(("127.0.0.1", port))
            taken_ports.append(lock)
            return port
        lock.close()


def fill_disk(directory):
    """Takes every byte that is left there, nearly all at once; returns the
    file. Only of a small file system made for that, never of the machine's
    own."""
    left = shutil.disk_usage(directory).free
    assert left < 1 << 30, directory
    path = Path(directory) / "filler"
    with open(path, "ab", buffering=0) as f:
        if left > 0:
            with contextlib.suppress(OSError):  # somebody takes some meanwhile
                os.posix_fallocate(f.fileno(), 0, left)
        step = 1 << 20
        while step:
            try:
                f.write(b"\0" * step)
            except OSError:
                step //= 2
    return path


def programs_for_everybody(directory):
    """Copies of the programs that any user may run, and the path of corvo
    among them: the build may be in a folder that only its owner may enter."""
    directory.chmod(0o755)
    for program in (CORVO, *sorted(BUILD.glob("corvo-*/corvo-*"))):
        if program.is_file() and os.access(program, os.X_OK):
            folder = directory / "programs" / program.parent.name
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(program, folder)
    return directory / "programs" / "cli" / "corvo"


def life(pid):
    """What tells it from later processes of that number; None: it is over."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rsplit(")", 1)[1].split()
    return fields[19] if fields[0] != "Z" else None


def is_alive(pid):
    return life(pid) is not None


class Answer:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def code(self):
        return self.json.get("code")

    def __repr__(self):
        return f"<{self.status} {self.body[:400]!r}>"


class UnixConnection(http.client.HTTPConnection):
    """To the API on a UNIX socket."""

    def __init__(self, path, timeout, host="localhost"):
        super().__init__(host, timeout=timeout)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Client:
    """One keep-alive connection, to a port or, when that is a text, to a UNIX
    socket; not for several threads."""
    companions = ()  # ports of the other nodes of its cluster
    source = None  # the address it comes from, where that is not the usual one

    def __init__(self, port, timeout=30.0):
        self.port = port
        self.timeout = patience(timeout)
        self.conn = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.conn is not None:
            self.conn.close()
            self.conn = None

    def send(self, method, path, body=None, headers=None):
        """Sends without reading the answer; see receive()."""
        if self.conn is None:
            self.conn = UnixConnection(self.port, self.timeout) if isinstance(
                self.port, str) else http.client.HTTPConnection(
                "127.0.0.1", self.port, timeout=self.timeout,
                source_address=self.source and (self.source, 0))
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        self.conn.request(method, path, body, headers or {})

    def receive(self):
        r = self.conn.getresponse()
        return Answer(r.status, r.headers, r.read())

    def request(self, method, path, body=None, headers=None):
        for last in (False, True):
            fresh = self.conn is None
            try:
                self.send(method, path, body, headers)
                return self.receive()
            except (http.client.RemoteDisconnected, ConnectionResetError,
                    BrokenPipeError, http.client.CannotSendRequest):
                # An idle connection may have been closed meanwhile; a fresh
                # one that fails is a real failure.
                self.close()
                if last or fresh:
                    raise
            except BaseException:
                self.close()
                raise
        raise AssertionError("unreachable")

    def get(self, path, headers=None):
        return self.request("GET", path, None, headers)

    def post(self, path, body=None, headers=None):
        return self.request("POST", path, body, headers)

    # --- the API, with the usual outcome asserted ------------------------

    def enqueue(self, queue, **members):
        a = self.post(f"{API}/enqueue", {"queue": queue, **members})
        assert a.status == 201, a
        return a.json["job_id"]

    def fetch_raw(self, *queues, **members):
        members = {"timeout": 0, "worker_id": "w1", "hostname": "h1", **members}
        return self.post(f"{API}/fetch", {"queues": list(queues), **members})

    def fetch(self, *queues, **members):
        """The job, or None."""
        a = self.fetch_raw(*queues, **members)
        assert a.status in (200, 204), a
        return a.json if a.status == 200 else None

    def ack(self, job, **members):
        """job: as fetch returned it."""
        body = {"lease_token": job["lease_token"], **members}
        a = self.post(f"{API}/ack/{job['job_id']}", body)
        assert a.status == 200, a
        return a.json

    def fail(self, job, **members):
        body = {"lease_token": job["lease_token"], "error": "no", **members}
        a = self.post(f"{API}/fail/{job['job_id']}", body)
        assert a.status == 200, a
        return a.json

    def job(self, job_id):
        a = self.get(f"{API}/jobs/{job_id}")
        assert a.status == 200, a
        return a.json

    def state(self, job_id):
        return self.job(job_id)["state"]

    def queue(self, name):
        """The row of GET /queues, or None."""
        a = self.get(f"{API}/queues")
        assert a.status == 200, a
        assert "X-Corvo-View-Lag-Ms" not in a.headers, dict(a.headers)
        return next((q for q in a.json if q["name"] == name), None)

    def search(self, **members):
        a = self.post(f"{API}/jobs/search", members)
        assert a.status == 200, a
        return a.json

    def metrics(self):
        """{series with labels: value}"""
        text = self.get(f"{API}/metrics").body.decode()
        rows = [x.rsplit(" ", 1) for x in text.splitlines()
                if x and not x.startswith("#")]
        return {name: float(value) for name, value in rows}

    def total(self, series):
        """Of all nodes of its cluster: what is counted where one leads."""
        n = self.metrics()[series]
        for port in self.companions:
            with Client(port) as c:
                n += c.metrics()[series]
        return n

    def parked(self):
        return self.total("corvo_parked_fetches")


@contextlib.contextmanager
def full_pipe():
    """(end to read, end to write) of a pipe there is no room in. Who writes
    to it waits: the flag that it does not is shared by all who write."""
    r, w = os.pipe()
    try:
        os.set_blocking(w, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(w, b"x")
        os.set_blocking(w, True)
        yield r, w
    finally:
        os.close(r)
        os.close(w)


class Node:
    # Requests are asserted to be served, lists to be current, and a stop to be
    # in order: on a busy machine all that may take its time.
    PATIENT_FLAGS = ["--op-timeout=1m", "--view-wait=30s",
                     "--shutdown-timeout=4m"]

    def __init__(self, *flags, directory=None):
        self.dir = Path(directory or tempfile.mkdtemp(prefix="corvo-test-"))
        self.data = self.dir / "data"
        self.err = self.dir / "stderr"
        self.port = free_port()
        self.raft_port = free_port()
        self.flags = [*self.PATIENT_FLAGS, *flags]
        self.corvo = CORVO
        self.process = None
        self.seen_pids = set()
        self.log_delay = self.dir / "log_delay"
        self.flush_delay = self.dir / "flush_delay"
        self.no_vote = self.dir / "no_vote"
        self.clock = self.dir / "clock"
        self.env = {}  # beside ours

    # --- life ------------------------------------------------------------

    def command(self, *flags):
        return [str(self.corvo), "server", f"--bind=127.0.0.1:{self.port}",
                f"--data-dir={self.data}",
                f"--raft-bind=127.0.0.1:{self.raft_port}", *self.flags, *flags]

    def spawn(self, *flags, stderr=None, **popen):
        """Starts the node and returns at once."""
        env = {k: v for k, v in os.environ.items()
               if not k.startswith("CORVO_") or k == "CORVO_RAFT_STORE"}
        env["CORVO_FAULT_LOG_DELAY"] = str(self.log_delay)
        env["CORVO_FAULT_FLUSH_DELAY"] = str(self.flush_delay)
        env["CORVO_FAULT_NO_VOTE"] = str(self.no_vote)
        env["CORVO_FAULT_CLOCK"] = str(self.clock)
        env.update(self.env)
        with open(self.err, "ab") as log:
            err = log if stderr is None else stderr
            self.process = subprocess.Popen(
                self.command(*flags), env=env, stdin=subprocess.DEVNULL,
                stdout=err, stderr=err, **popen)
        return self

    def start(self, *flags, seconds=60.0, **popen):
        self.spawn(*flags, **popen)
        return self.wait_ready(seconds)

    def wait_ready(self, seconds=60.0):
        wait_until(lambda: not self.is_running() or self.is_ready(),
                   seconds, "the node to be ready")
        assert self.is_running(), self.log()[-LOG_SHOWN:]
        self.pids()
        return self

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def is_ready(self):
        try:
            with Client(self.port, timeout=1) as c:
                return c.get("/readyz").status == 200
        except (OSError, http.client.HTTPException):
            return False

    def has_view(self):
        """Lists are answered; a node is ready before, as writes need none."""
        with Client(self.port, timeout=30) as c:
            return c.get(f"{API}/queues").status == 200

    def refuses(self, *flags, seconds=30.0):
        """Starts a node that must not start: (exit status, its words)."""
        self.spawn(*flags)
        status = self.process.wait(patience(seconds))
        return status, self.log()

    def stop(self, seconds=20.0):
        """SIGTERM; the exit status must be 0 and the log clean."""
        with contextlib.suppress(OSError):
            self.pids()
        self.process.terminate()
        try:
            status = self.process.wait(patience(seconds))
        except subprocess.TimeoutExpired:
            words = self.log()[-LOG_SHOWN:]
            self.kill_all()
            raise AssertionError(f"the node did not stop:\n{words}")
        assert status == 0, f"exit status {status}:\n{self.log()[-LOG_SHOWN:]}"
        self.check_log()
        left = [p for p in self.seen_pids if self.is_ours(p)]
        assert not left, f"still running after the stop: {left}"

    def kill_all(self):
        """SIGKILL to every process of the node and the supervisor. It is held
        first and goes last: its end would make the others stop in order."""
        with contextlib.suppress(OSError, ValueError):
            self.pids()
        if self.is_running():
            self.process.send_signal(signal.SIGSTOP)
        killed = {pid: life(pid) for pid in self.seen_pids
                  if self.is_ours(pid)}
        for pid in killed:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self.is_running():
            self.process.kill()
        if self.process is not None:
            self.process.wait(patience(20))
        # One that dies loses its command line before its files and locks.
        wait_until(lambda: not any(begun is not None and life(p) == begun
                                   for p, begun in killed.items()),
                   20, "killed processes to be gone")

    def clean_up(self, check=True):
        """Ends it in any case and removes its directory."""
        try:
            if self.is_running():
                if check:
                    self.stop()
                else:
                    self.kill_all()
            if check:
                self.check_log()
        finally:
            if self.is_running():
                self.kill_all()
            if not os.environ.get("CORVO_KEEP"):
                shutil.rmtree(self.dir, ignore_errors=True)

    # --- its cluster, which may be itself (see member.py) -----------------

    def nodes(self):
        return [self]

    def leader(self):
        return self

    def stop_all(self):
        """Nobody is left to go on meanwhile."""
        for n in self.nodes():
            if n.is_running():
                n.stop()

    def start_all(self):
        return self.start()

    def all_logs(self):
        """Of what the leader does, the leader tells."""
        return "".join(n.log() for n in self.nodes())

    def slow_log(self, seconds):
        """From now on an entry counts as written so much later; 0: at once.
        Only of builds with CORVO_FAULTS."""
        self.log_delay.write_text(str(int(seconds * 1000)))

    def refuse_votes(self, refuse=True):
        """From now on there is no room for a term or a vote; False: there is.
        Only of builds with CORVO_FAULTS."""
        self.no_vote.write_text(str(int(refuse)))

    def set_clock(self, seconds):
        """From now on the node's wall clock is so much ahead of ours, or
        behind. Only of builds with CORVO_FAULTS."""
        new = self.clock.with_suffix(".new")
        new.write_text(str(int(seconds * 1000)))
        new.rename(self.clock)

    # --- looking at it ---------------------------------------------------

    def log(self):
        return self.err.read_text(errors="replace") if self.err.exists() else ""

    def check_log(self):
        words = self.log()
        for broken in BROKEN:
            if broken in words:
                at = words.index(broken)
                raise AssertionError(words[max(0, at - 500):at + 6000])

    def ask(self, request, timeout=10.0):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(patience(timeout))
            s.connect(str(self.data / "run" / "control.sock"))
            s.sendall(request.encode() + b"\n")
            reply = b""
            while chunk := s.recv(65536):
                reply += chunk
        return json.loads(reply)

    def ps(self, name=None):
        rows = {p["name"]: p for p in self.ask("ps")["processes"]}
        return rows if name is None else rows[name]

    def pids(self):
        """{name: pid} of the running processes."""
        now = {n: p["pid"] for n, p in self.ps().items() if p["pid"] > 0}
        self.seen_pids.update(now.values())
        return now

    def is_ours(self, pid):
        """A pid may have been given to somebody else meanwhile, perhaps to a
        process of another node: the data directory tells."""
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            return False
        return os.fsencode(self.data) in line and is_alive(pid)

    def client(self, timeout=30.0):
        return Client(self.port, timeout)


def new_node(*flags, **named):
    """A node of its own, or, where tests run against clusters, a follower."""
    if os.environ.get("CORVO_TEST_NODES", "1") == "1":
        return Node(*flags, **named)
    from member import Member  # which knows Node
    return Member(*flags, **named)


@contextlib.contextmanager
def running(*flags):
    """A node whose lists are answered; checked and gone at the end."""
    n = new_node(*flags)
    try:
        n.start()
        wait_until(n.has_view, 60, "the view to answer")
        yield n
    except BaseException:
        n.clean_up(check=False)
        raise
    n.clean_up()
