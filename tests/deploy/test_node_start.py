"""helm/corvo/files/node: which node makes the cluster, and which ones join it.

The nodes here are stand-ins: they note how they were started and then hold
their port for other nodes, without a word, as a real one does.
"""

import http.server
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from node import API, free_port, running  # noqa: E402
from waiting import patience, wait_until  # noqa: E402

ROOT = Path(os.environ["CORVO_SOURCE_DIR"])
# With no modules but those of perl-base, as in the image.
NODE = ["/usr/bin/perl", "-e",
        "BEGIN { @INC = grep { m{/perl-base$} } @INC } "
        "do shift; die $@ if $@", ROOT / "helm/corvo/files/node"]

STAND_IN = """#!/usr/bin/python3
import os, socket, sys
host, port = os.environ["CORVO_RAFT_BIND"].rsplit(":", 1)
s = socket.create_server((host, int(port)))
with open(os.environ["TEST_ARGS"] + ".new", "w") as f:
    f.write("\\n".join(sys.argv[1:]))
os.rename(os.environ["TEST_ARGS"] + ".new", os.environ["TEST_ARGS"])
held = []
while True:
    held.append(s.accept())
"""


class Nodes:
    """n1 to n3, none of them started."""

    def __init__(self, folder):
        self.folder = folder
        self.program = folder / "corvo"
        self.program.write_text(STAND_IN)
        self.program.chmod(0o755)
        self.address = {n: f"127.0.0.1:{free_port()}" for n in (1, 2, 3)}
        self.running = {}

    def data(self, n):
        return self.folder / f"n{n}"

    def put_log(self, n, *names):
        raft = self.data(n) / "raft"
        raft.mkdir(parents=True)
        for name in names or ("metadata1", "open-1"):
            (raft / name).write_text("x")

    def start(self, n):
        self.data(n).mkdir(exist_ok=True)
        env = {**os.environ, "CORVO_RAFT_ADVERTISE": self.address[n],
               "CORVO_RAFT_BIND": self.address[n],
               "TEST_ARGS": str(self.folder / f"args{n}")}
        with open(self.folder / f"log{n}", "w") as log:
            self.running[n] = subprocess.Popen(
                [*NODE, "start", self.data(n),
                 ",".join(self.address.values()), self.program, "server",
                 "--config=x"], env=env, stderr=log)

    def log(self, n):
        return (self.folder / f"log{n}").read_text()

    def is_started(self, n):
        return (self.folder / f"args{n}").exists()

    def args(self, n):
        """What the node was started with, once it is."""
        wait_until(lambda: self.is_started(n)
                   or self.running[n].poll() is not None, 20, f"n{n}")
        assert self.is_started(n), self.log(n)
        return (self.folder / f"args{n}").read_text().split("\n")

    def join(self, n):
        return "--join=" + ",".join(a for i, a in self.address.items()
                                    if i != n)

    def makes(self, n):
        return self.args(n) == ["server", "--config=x"]

    def joins(self, n):
        return self.args(n) == ["server", "--config=x", self.join(n)]

    def end(self):
        for p in self.running.values():
            p.kill()
            p.wait()


@pytest.fixture
def nodes(tmp_path):
    n = Nodes(tmp_path)
    yield n
    n.end()


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1)])
def test_new_nodes_are_one_cluster(nodes, order):
    # What a crash left of a first start is no log.
    nodes.put_log(1, "metadata1", "metadata2")
    for n in order:
        nodes.start(n)
    assert nodes.makes(1) and nodes.joins(2) and nodes.joins(3)


def test_nodes_with_data_wait_for_nobody(nodes):
    for n in (1, 3):
        nodes.put_log(n)
        nodes.start(n)
        assert nodes.joins(n)


def test_a_replaced_disk_of_the_first_node_makes_no_second_cluster(nodes):
    nodes.put_log(2)
    nodes.put_log(3)
    for n in (2, 3):
        nodes.start(n)
        assert nodes.joins(n)
    nodes.start(1)
    assert nodes.joins(1)


def test_one_node_of_a_cluster_is_enough_to_join(nodes):
    nodes.put_log(3)
    nodes.start(3)
    assert nodes.joins(3)
    nodes.start(1)
    assert nodes.joins(1)


def test_the_first_node_waits_for_those_it_cannot_ask(nodes):
    """After an outage the node with the data may be the last to come."""
    nodes.start(1)
    nodes.start(2)
    wait_until(lambda: f"waits for {nodes.address[3]}\n" in nodes.log(1), 20,
               "n1 to wait for n3")
    assert not nodes.is_started(1) and not nodes.is_started(2)
    nodes.put_log(3)
    nodes.start(3)
    assert nodes.joins(1) and nodes.joins(2)


def test_a_connection_that_is_cut_off_tells_nothing(nodes):
    host, port = nodes.address[3].split(":")
    with socket.create_server((host, int(port))) as s:
        nodes.start(1)
        nodes.start(2)
        for _ in range(3):
            s.accept()[0].close()
        wait_until(lambda: f"waits for {nodes.address[3]}\n" in nodes.log(1),
                   20, "n1 to wait for n3")
        assert not nodes.is_started(1)


def test_a_stop_while_it_waits(nodes):
    nodes.start(2)
    wait_until(lambda: "waits" in nodes.log(2), 20, "n2 to wait")
    p = nodes.running[2]
    p.send_signal(signal.SIGTERM)
    assert p.wait(patience(10)) == 0
    # Nobody is told any more that there is no data.
    host, port = nodes.address[2].split(":")
    wait_until(lambda: socket.socket().connect_ex((host, int(port))) != 0, 10,
               "the port to be free")


def test_an_address_that_is_none_of_the_nodes(nodes, tmp_path):
    p = subprocess.run(
        [*NODE, "start", tmp_path, "a:1,b:1", "true"], text=True,
        env={**os.environ, "CORVO_RAFT_ADVERTISE": "c:1"},
        capture_output=True, check=False)
    assert p.returncode != 0
    assert "is 'c:1', which is none of a:1,b:1" in p.stderr


# --- a stop in order -------------------------------------------------------


class Leader(http.server.BaseHTTPRequestHandler):
    """Leads until it is asked to transfer, as far as it can."""

    leads = True
    can = True
    asked = []

    def reply(self, status, text):
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def do_GET(self):
        assert self.path == API + "/metrics"
        self.reply(200, "# HELP corvo_cluster_is_leader 1 on the leader.\n"
                   f"corvo_cluster_is_leader {int(type(self).leads)}\n")

    def do_POST(self):
        type(self).asked.append(self.path)
        if type(self).can:
            type(self).leads = False
        self.reply(200 if type(self).can else 503, "{}")

    def log_message(self, *_):
        pass


def hand_over(url):
    return subprocess.run([*NODE, "hand-over", url],
                          env={**os.environ, "CORVO_LEAVE_S": "0"},
                          capture_output=True, text=True, check=True,
                          timeout=patience(30))


@pytest.mark.parametrize("leads,can", [(True, True), (True, False),
                                       (False, True)])
def test_only_a_leader_hands_over(leads, can):
    class Here(Leader):
        asked = []

    Here.leads, Here.can = leads, can
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Here)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        p = hand_over(f"http://127.0.0.1:{server.server_address[1]}")
    finally:
        server.shutdown()
        server.server_close()
    assert Here.asked == ([API + "/cluster/transfer"] if leads else [])
    assert ("no other node" in p.stderr) == (leads and not can)


def test_a_real_node_alone_has_nobody_to_hand_over_to():
    with running() as node:
        p = hand_over(f"http://127.0.0.1:{node.port}")
        assert "no other node could be made the leader" in p.stderr
        with node.client() as c:
            c.enqueue("q")


def test_a_node_that_is_away_is_no_error():
    hand_over(f"http://127.0.0.1:{free_port()}")
