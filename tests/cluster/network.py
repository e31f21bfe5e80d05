"""A cluster whose nodes are connected by something that can be made bad."""

import json
import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

from cluster import Cluster
from node import Node, free_port
from wires import address

HERE = Path(__file__).resolve().parent
PEER_PORT = 9400


class Carrier:
    """The program between the nodes."""

    def __init__(self, *command):
        self.process = subprocess.Popen(
            [sys.executable, *map(str, command)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, start_new_session=True)
        self.words = self.process.stdout.readline().split()
        if self.words[:1] != ["ready"]:
            self.close()
            raise OSError("the network could not be made")

    def set(self, links):
        """{"1>2": {...}}, and what is not named is clean."""
        self.process.stdin.write(json.dumps(links) + "\n")
        self.process.stdin.flush()
        if self.process.stdout.readline() != "ok\n":
            raise OSError("the network is gone")

    def close(self):
        if not self.process.stdin.closed:
            self.process.stdin.close()
            self.process.wait(20)
            self.process.stdout.close()


class NetNode(Node):
    """A node that its peers reach only through the network."""
    PATIENT_FLAGS = ["--view-wait=30s", "--shutdown-timeout=4m"]


class SpaceNode(NetNode):
    """In a network namespace; clients reach it by a UNIX socket."""

    def __init__(self, space, number, secret, *flags):
        super().__init__(*flags)
        self.space = space
        self.port = str(self.dir / "api.sock")
        self.address = f"{address(number)}:{PEER_PORT}"
        self.secret = self.dir / "secret"
        self.secret.touch(0o600)
        self.secret.write_text(secret)

    def command(self, *flags):
        return ["nsenter", f"--net={self.space}", "--", str(self.corvo),
                "server", f"--bind=unix:{self.port}",
                f"--data-dir={self.data}", f"--raft-bind={self.address}",
                f"--cluster-secret-file={self.secret}", *self.flags, *flags]


class ProxyNode(NetNode):
    """Its peers are told the address of the proxy."""

    def __init__(self, proxy_port, raft_port, *flags):
        super().__init__(*flags)
        self.raft_port = raft_port
        self.address = f"127.0.0.1:{proxy_port}"

    def command(self, *flags):
        return super().command(f"--raft-advertise={self.address}", *flags)


class NetCluster(Cluster):
    """kind: "namespaces" or "proxy"."""

    def __init__(self, kind, seed, *flags, size=3):
        self.size = size
        self.kind = kind
        self.secret = secrets.token_hex(32)
        if kind == "namespaces":
            self.carrier = Carrier(HERE / "wires.py", size, seed)
        else:
            self.ports = [(free_port(), free_port()) for _ in range(size)]
            self.carrier = Carrier(HERE / "proxy.py", seed,
                                   *(f"{p}:{t}" for p, t in self.ports))
        super().__init__(*flags, size=size)

    def make_node(self, number, *flags):
        flags = ["--cluster", f"--node-id=n{number}", *self.flags, *flags]
        if self.kind == "proxy":
            return ProxyNode(*self.ports[number - 1], *flags)
        pid, fd = self.carrier.process.pid, self.carrier.words[number]
        return SpaceNode(f"/proc/{pid}/fd/{fd}", number, self.secret, *flags)

    def add(self, *flags):
        """A node with all others to join; the first makes the cluster."""
        number = len(self.nodes) + 1
        node = self.make_node(number, *flags)
        node.name = f"n{number}"
        self.nodes.append(node)
        return node

    def start(self):
        """The first one makes the cluster. Later any of them can come back
        with an empty disk, so from then on it joins like the others."""
        first, *others = self.nodes
        first.start()
        for n in self.nodes:
            there = ",".join(x.address for x in self.nodes if x is not n)
            n.flags.append(f"--join={there}")
        for n in others:
            n.spawn()
        self.wait_whole()
        return self

    def number(self, node):
        return self.nodes.index(node) + 1

    def bad(self, links):
        self.carrier.set(links)

    def heal(self):
        self.carrier.set({})

    def clean_up(self, check=True):
        try:
            super().clean_up(check)
        finally:
            self.carrier.close()


def may_have_namespaces():
    """Why not, or None."""
    if shutil.which("nsenter") is None:
        return "nsenter is not installed"
    try:
        Carrier(HERE / "wires.py", 1, 0).close()
    except OSError:
        who = "root" if os.geteuid() == 0 else "this user"
        return f"{who} may not make network namespaces with tun devices here"
    return None
