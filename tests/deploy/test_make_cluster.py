"""tools/cluster, which make cluster runs: how it starts three nodes, and that
it ends them. The nodes here are stand-ins that answer /readyz."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from node import free_port, is_alive  # noqa: E402
from waiting import patience, wait_until  # noqa: E402

ROOT = Path(os.environ["CORVO_SOURCE_DIR"])
BUILD = Path(os.environ["CORVO_BUILD_DIR"])

# Notes its flags, its pid and each signal; is ready when the file "hold" is
# not there.
STAND_IN = """#!/usr/bin/python3
import http.server, os, signal, sys, threading
flags = dict(a[2:].split("=", 1) for a in sys.argv[2:])
os.makedirs(flags["data-dir"] + "/raft", exist_ok=True)
note = open(flags["data-dir"] + "/note", "a")
def say(text):
    print(text, file=note, flush=True)
def stop(number, frame):
    say(signal.Signals(number).name)
    threading.Thread(target=s.shutdown).start()
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        held = os.path.exists(flags["data-dir"] + "/../hold")
        self.send_response(503 if held else 200)
        self.end_headers()
    def log_message(self, *_):
        pass
host, port = flags["bind"].split(":")
s = http.server.ThreadingHTTPServer((host, int(port)), H)
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, stop)
say(" ".join([str(os.getpid())] + sys.argv[1:]))
s.serve_forever()
"""


class Cluster:
    def __init__(self, folder):
        self.dir = folder / "data-cluster"
        self.program = folder / "corvo"
        self.program.write_text(STAND_IN)
        self.program.chmod(0o755)
        self.out = folder / "out"
        self.http = [free_port() for _ in range(3)]
        self.peer = [free_port() for _ in range(3)]
        self.p = None

    def start(self, *flags, program=None):
        with open(self.out, "w") as out:
            self.p = subprocess.Popen(
                [ROOT / "tools/cluster", *flags], stdout=out, stderr=out,
                cwd=self.dir.parent, start_new_session=True, env={
                    **os.environ, "CORVO": str(program or self.program),
                    "CLUSTER_DIR": str(self.dir),
                    "HTTP_PORTS": " ".join(map(str, self.http)),
                    "PEER_PORTS": " ".join(map(str, self.peer))})

    def text(self):
        return self.out.read_text()

    def notes(self, n):
        path = self.dir / f"n{n}" / "note"
        return path.read_text().splitlines() if path.exists() else []

    def wait_up(self):
        wait_until(lambda: "^C ends them" in self.text()
                   or self.p.poll() is not None, 30, "three nodes")
        assert "^C ends them" in self.text(), self.text()
        return [self.notes(n)[-1].split() for n in (1, 2, 3)]

    def stop(self):
        """As a terminal does: everything in the foreground hears of ^C."""
        os.killpg(self.p.pid, signal.SIGINT)
        return self.p.wait(patience(30))

    def join(self):
        return "--join=" + ",".join(f"127.0.0.1:{p}" for p in self.peer)


@pytest.fixture
def cluster(tmp_path):
    c = Cluster(tmp_path)
    yield c
    if c.p and c.p.poll() is None:
        c.p.terminate()
        c.p.wait(patience(30))


def test_three_nodes_start_and_end(cluster):
    cluster.start("--log-level=debug")
    nodes = cluster.wait_up()
    for n, (pid, verb, *flags) in enumerate(nodes, 1):
        assert verb == "server" and is_alive(pid)
        assert f"--node-id=n{n}" in flags
        assert f"--bind=127.0.0.1:{cluster.http[n - 1]}" in flags
        assert f"--raft-bind=127.0.0.1:{cluster.peer[n - 1]}" in flags
        assert "--log-level=debug" in flags
        assert "--bootstrap-expect=3" in flags and cluster.join() in flags
        assert f"n{n}  http://127.0.0.1:{cluster.http[n - 1]}  pid {pid}" \
            in cluster.text()
    secret = cluster.dir / "secret"
    assert len(secret.read_text()) == 64
    assert secret.stat().st_mode & 0o777 == 0o600
    assert cluster.stop() == 0
    for n, (pid, *_) in enumerate(nodes, 1):
        assert not is_alive(pid)
        # Once: a second signal would kill a node.
        assert cluster.notes(n)[1:] == ["SIGTERM"]


def test_nobody_is_waited_for_before_all_are_started(cluster):
    """None of them is ready alone."""
    cluster.dir.mkdir()
    (cluster.dir / "hold").touch()
    cluster.start()
    wait_until(lambda: all(map(cluster.notes, (1, 2, 3))), 30, "all three")
    (cluster.dir / "hold").unlink()
    cluster.wait_up()


def test_the_secret_stays(cluster):
    secret = cluster.dir / "secret"
    cluster.dir.mkdir()
    secret.write_text("s" * 32)
    cluster.start()
    cluster.wait_up()
    assert secret.read_text() == "s" * 32


def test_a_node_that_does_not_start_ends_them_all(cluster):
    cluster.start("--no-such-flag=1", program=BUILD / "cli" / "corvo")
    assert cluster.p.wait(patience(30)) == 1
    assert re.search(r"n[123] has ended", cluster.text())
    assert "unknown flag" in cluster.text()


def test_a_node_that_ends_later_is_told(cluster):
    cluster.start()
    pid = cluster.wait_up()[1][0]
    os.kill(int(pid), signal.SIGTERM)
    wait_until(lambda: "n2 has ended" in cluster.text(), 30, "a word")
    assert cluster.p.poll() is None
    assert cluster.stop() == 0


def test_no_program(cluster):
    cluster.start(program=cluster.dir / "nothing")
    assert cluster.p.wait(patience(30)) == 1
    assert "make build" in cluster.text()
