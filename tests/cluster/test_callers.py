"""Many who come to a cluster: who has come and gone takes nobody's place."""

import hashlib
import hmac
import os
import random
import re
import socket
import struct
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from cluster import Cluster, cluster  # noqa: E402
from node import BUILD, SOURCE, free_port, wait_until  # noqa: E402

JOIN = 4  # purpose of a connection, see corvo-raftd/cluster/hello.h


def limit(name):
    text = (SOURCE / "common" / "proto" / "limits.h").read_text()
    return int(re.search(rf"#define {name} +(\d+)", text)[1])


def peer(node):
    return f"127.0.0.1:{node.raft_port}"


def read(s, n):
    data = b""
    while len(data) < n:
        chunk = s.recv(n - len(data))
        assert chunk, "it ended in the handshake"
        data += chunk
    return data


def receive(s):
    return read(s, struct.unpack(">H", read(s, 2))[0])


def send(s, message):
    s.sendall(struct.pack(">H", len(message)) + message)


def text(words):
    return bytes([len(words)]) + words.encode()


def come(node, raft_id):
    """Shakes hands as a new node that wants to join, and leaves."""
    hello = (b"\1CRVP" + struct.pack(">HHB", 1, 1, JOIN) + bytes(16)
             + struct.pack(">Q", raft_id) + text("passer-by")
             + text("127.0.0.1:1") + os.urandom(32))
    with socket.create_connection(("127.0.0.1", node.raft_port)) as s:
        s.settimeout(30)
        send(s, hello)
        theirs = receive(s)
        assert theirs[0] == 2, theirs
        proof = hmac.new(b"", b"corvo dialer" + hello + theirs[:-32],
                         hashlib.sha256)
        send(s, b"\3" + proof.digest())
        assert receive(s) == b"\4"


def test_who_has_come_and_gone_keeps_no_member_out():
    places = limit("LIMIT_PEER_CALLERS")
    rng = random.Random(1)
    with cluster() as three:
        leader = three.leader()
        for n in three.followers():
            for _ in range(places + 8):
                come(n, rng.randrange(1, 1 << 63))
        leader.kill_all()
        three.leader()
        leader.start()
        three.wait_whole()
        for n in three.nodes:
            assert "there are too many" not in n.log()
            with n.client() as c:
                c.enqueue("q")


class Comer:
    """A node that is taken in, and has gone before it hears of the cluster."""

    def __init__(self, first, number, directory):
        data = directory / str(number)
        data.mkdir(mode=0o700)
        self.err = data / "stderr"
        with open(self.err, "wb") as err:
            self.process = subprocess.Popen(
                [BUILD / "corvo-raftd" / "corvo-raftd", f"--data-dir={data}",
                 f"--node-id=comer-{number}", f"--join={peer(first)}",
                 f"--raft-bind=127.0.0.1:{free_port()}",
                 f"--raft-advertise=127.0.0.1:{number}"],
                stdin=subprocess.DEVNULL, stdout=err, stderr=err)

    def said(self, *words):
        log = self.err.read_text(errors="replace")
        assert self.process.poll() is None, log
        return any(w in log for w in words)

    def end(self):
        self.process.kill()
        self.process.wait()


def test_one_more_node_than_there_may_be_is_refused(tmp_path):
    """Nothing could be written down of it: not even its name, by which it
    could be removed."""
    full = "the cluster has as many nodes as it may have"
    taken = "taken in by"
    c = Cluster(size=1)
    first = c.nodes[0]
    try:
        first.start()
        for i in range(1, limit("LIMIT_MEMBERS") + 1):
            comer = Comer(first, i, tmp_path)
            try:
                wait_until(lambda: comer.said(taken, full), 60, "its answer")
                assert comer.said(full) == (i == limit("LIMIT_MEMBERS"))
            finally:
                comer.end()
        assert len(c.rows(first)) == limit("LIMIT_MEMBERS")
        assert all("id" in r for r in c.rows(first))
    finally:
        c.clean_up()
