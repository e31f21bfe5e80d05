"""Nodes that start together: they find each other, and are one cluster."""

import contextlib
import os
import shutil
import socket
import struct
import sys
import threading
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from cluster import Cluster  # noqa: E402
from node import API, Node, free_port, wait_until  # noqa: E402


def peer(node):
    return f"127.0.0.1:{node.raft_port}"


class Together(Cluster):
    """Nodes that are all started in the same way, none of them first."""

    def __init__(self, size, *flags, expect=None, names=None, make=Node):
        super().__init__(size=0)
        names = names or [f"n{i + 1}" for i in range(size)]
        self.nodes = [make(f"--node-id={name}",
                           f"--bootstrap-expect={expect or size}", *flags)
                      for name in names]

    def know_all(self):
        for n in self.nodes:
            n.flags.append("--join=" + ",".join(map(peer, self.nodes)))
        return self

    def spawn(self, *which):
        for i in which or range(len(self.nodes)):
            self.nodes[i].spawn()

    def wait_one(self):
        """One cluster, in which what one node takes is known to all."""
        self.wait_whole()
        with self.nodes[0].client() as c:
            job_id = c.enqueue("q")
        for n in self.nodes:
            with n.client() as c:
                wait_until(lambda: c.get(f"{API}/jobs/{job_id}").status == 200,
                           10, "the job to be everywhere")
        return job_id


@contextlib.contextmanager
def together(*arguments, **named):
    c = Together(*arguments, **named)
    try:
        yield c
    except BaseException:
        c.clean_up(check=False)
        raise
    c.clean_up()


def founders(c):
    return [n for n in c.nodes if "this one makes the cluster" in n.log()]


def why_not_ready(node):
    with contextlib.suppress(OSError):
        with node.client() as c:
            a = c.get("/readyz")
            return a.json["error"] if a.status == 503 else None
    return None


def wait_said(node, words, seconds=20):
    wait_until(lambda: words in node.log(), seconds, words)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_new_nodes_make_one_cluster(order):
    with together(3) as c:
        c.know_all().spawn(*order)
        c.wait_one()
        assert founders(c) == [c.nodes[0]]


def test_with_gossip_one_address_is_enough():
    """Each node knows one other; the last is known to nobody."""
    with together(3, "--discover=gossip") as c:
        a, b, d = c.nodes
        a.flags.append(f"--join={peer(b)}")
        b.flags.append(f"--join={peer(a)}")
        d.flags.append(f"--join={peer(b)}")
        c.spawn()
        c.wait_one()
        assert founders(c) == [a]


def test_nobody_begins_before_all_are_here():
    with together(3) as c:
        c.know_all().spawn(0, 1)
        third = peer(c.nodes[2])
        for n in c.nodes[:2]:
            wait_said(n, f"no data here, and no cluster found; waits for "
                         f"{third}; 2 of 3 nodes are here")
            wait_until(lambda n=n: f"waits for {third}" in (
                why_not_ready(n) or ""), 20, "/readyz")
        assert not founders(c)
        c.spawn(2)
        c.wait_one()


def test_an_empty_disk_makes_no_second_cluster():
    """After an outage the first node comes back first, and without data."""
    with together(3) as c:
        c.know_all().spawn()
        job_id = c.wait_one()
        for n in c.nodes:
            n.stop()
        first = c.nodes[0]
        shutil.rmtree(first.data)
        first.err.unlink()
        first.spawn()
        wait_said(first, "waits for")
        c.spawn(1, 2)
        c.wait_whole()
        assert not founders(c) or founders(c) == [c.nodes[0]]
        assert "this one makes the cluster" not in first.log()
        with first.client() as client:
            assert client.job(job_id)["state"] == "pending"


def test_what_a_first_start_left_is_no_data():
    """It was killed before there was a cluster."""
    with together(2) as c:
        c.know_all().spawn(0)
        wait_said(c.nodes[0], "waits for")
        c.nodes[0].kill_all()
        c.spawn()
        c.wait_one()


def test_a_chosen_node_that_is_killed_makes_the_cluster_later():
    with together(2) as c:
        first = c.nodes[0]
        c.know_all().spawn()
        wait_said(first, "this one makes the cluster")
        first.kill_all()
        first.spawn()
        c.wait_one()


def test_nodes_that_expect_different_numbers_say_so():
    with together(2) as c:
        c.know_all()
        c.nodes[1].flags.append("--bootstrap-expect=3")
        c.nodes[1].flags.append(f"--join={peer(c.nodes[0])},127.0.0.1:1")
        c.spawn()
        wait_said(c.nodes[0], "expects 3 nodes and this one 2")
        assert not founders(c)


def test_nodes_of_the_same_name_say_so():
    with together(2, names=["same", "same"]) as c:
        c.know_all().spawn()
        for n in c.nodes:
            wait_said(n, "two nodes are named same: start them with "
                         "different --node-id")
        assert not founders(c)


def test_more_nodes_than_expected_say_so():
    with together(3, expect=2) as c:
        c.know_all()
        # None of them is alone with one other.
        c.spawn()
        wait_until(lambda: founders(c) or all(
            "3 nodes are here and 2 are expected" in n.log()
            for n in c.nodes), 30, "them to be too many")
        if founders(c):
            # Two were quicker than the third: that one joined them.
            c.wait_one()


def test_nodes_of_another_secret_are_no_nodes(tmp_path):
    with together(2) as c:
        for i, n in enumerate(c.know_all().nodes):
            secret = tmp_path / f"secret{i}"
            secret.touch(0o600)
            secret.write_text("0123456789abcdef" + str(i))
            n.flags.append(f"--cluster-secret-file={secret}")
        c.spawn()
        for n in c.nodes:
            wait_said(n, "do not have the same cluster secret")
            wait_said(n, "waits for")
        assert not founders(c)


@pytest.mark.parametrize("flags,words", [
    (["--bootstrap-expect=3", "--join=127.0.0.1:1"],
     "3 nodes are expected and join (--join) names 1 others; name all of "
     "them, or use --discover=gossip"),
    (["--bootstrap-expect=2", "--discover=gossip"],
     "nobody is named who could be asked for the others"),
    (["--bootstrap-expect=2", "--bootstrap=false", "--join=127.0.0.1:1"],
     "it takes 0 where bootstrap is false"),
    (["--discover=carrier-pigeon"],
     "it takes static, gossip, dns, dns-srv or kubernetes"),
    (["--discover=dns"], "dns needs a name; set join (--join) to it"),
    (["--join=somewhere"], "somewhere"),
    (["--join=http://somewhere"], "somewhere"),
    (["--remove-dead-after=1s"], "it takes 0s, or 5s and more"),
])
def test_settings_that_do_not_work(flags, words):
    n = Node(*flags)
    try:
        status, said = n.refuses()
        assert status != 0 and words in said, said
    finally:
        n.clean_up(check=False)


# --- addresses of the API ---------------------------------------------------


@contextlib.contextmanager
def stranger(answer):
    """Somebody else's server."""
    with socket.create_server(("127.0.0.1", 0)) as s:
        def serve():
            with contextlib.suppress(OSError):
                while True:
                    client, _ = s.accept()
                    with client:
                        client.recv(4096)
                        client.sendall(answer)
        threading.Thread(target=serve, daemon=True).start()
        yield s.getsockname()[1]
        s.shutdown(socket.SHUT_RDWR)


def test_an_address_of_the_api_is_enough_to_join():
    with together(1) as c:
        first = c.nodes[0]
        first.start()
        second = Node("--node-id=n2", f"--join=http://127.0.0.1:{first.port}/")
        c.nodes.append(second)
        second.spawn()
        c.wait_one()


@pytest.mark.parametrize("answer,words", [
    (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
     "answers 404, not as a node that can be asked"),
    (b"HTTP/1.1 200 OK\r\n\r\n<html>", "does not answer as a node does"),
    (b"HTTP/1.1 200 OK\r\n\r\n{\"nodes\":[1]}",
     "is a node that knows no others"),
    (b"220 mail ESMTP\r\n\r\n", "does not answer as a node does"),
    (b"HTTP/1.1 200 OK\r\n\r\n" + b" " * (2 << 20),
     "gives too much of an answer, or too late"),
], ids=["404", "html", "no nodes", "mail", "long"])
def test_who_is_no_node_is_told_of(answer, words):
    with stranger(answer) as port:
        n = Node(f"--join=http://127.0.0.1:{port}")
        try:
            n.spawn()
            wait_said(n, f"no cluster found; http://127.0.0.1:{port} {words}")
        finally:
            n.clean_up()


# --- names -------------------------------------------------------


class Named(Node):
    """A node at an address of its own, with its own idea of names."""

    def __init__(self, *flags):
        super().__init__(*flags)
        self.host = None
        self.hosts = self.dir / "hosts"
        self.resolv = self.dir / "resolv.conf"

    def at(self, host, port, names, server):
        self.host, self.raft_port = host, port
        self.hosts.write_text(names)
        self.resolv.write_text(f"nameserver {server}\noptions timeout:2\n")
        self.flags.append(f"--raft-bind={host}:{port}")

    def command(self, *flags):
        script = (f"mount --bind {self.hosts} /etc/hosts && "
                  f"mount --bind {self.resolv} /etc/resolv.conf && "
                  'exec "$@"')
        root = [] if os.geteuid() == 0 else ["--map-root-user"]
        return ["unshare", "--mount", *root, "sh", "-c", script, "sh",
                *super().command(*flags)]


class NameServer:
    """Knows the SRV records of one name."""

    def __init__(self, host, name, targets):
        self.name = b"".join(bytes([len(p)]) + p.encode()
                             for p in name.split(".")) + b"\0"
        self.targets = targets
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((host, 53))
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def answer(self, question):
        asked = question[12:question.index(b"\0", 12) + 5]
        known = asked == self.name + struct.pack(">HH", 33, 1)
        records = []
        for host, port in self.targets if known else []:
            target = b"".join(bytes([len(p)]) + p.encode()
                              for p in host.split(".")) + b"\0"
            data = struct.pack(">HHH", 0, 0, port) + target
            records.append(b"\xc0\x0c" + struct.pack(
                ">HHIH", 33, 1, 5, len(data)) + data)
        head = question[:2] + struct.pack(
            ">HHHHH", 0x8180 if known else 0x8183, 1, len(records), 0, 0)
        return head + asked + b"".join(records)

    def run(self):
        while True:
            question, sender = self.socket.recvfrom(4096)
            if not question:
                return
            self.socket.sendto(self.answer(question), sender)

    def close(self):
        self.socket.sendto(b"", self.socket.getsockname())
        self.thread.join()
        self.socket.close()


def spread(c, how, join):
    """Three machines, as it were, that share a port."""
    port = free_port()
    hosts = [f"127.0.7.{i + 1}" for i in range(3)]
    names = "127.0.0.1 localhost\n" + "".join(
        f"{h} nodes.test\n{h} corvo-{i}.nodes.test\n"
        for i, h in enumerate(hosts))
    for i, (n, h) in enumerate(zip(c.nodes, hosts)):
        n.at(h, port, names, "127.0.7.53")
        n.flags += [f"--discover={how}",
                    f"--raft-advertise=corvo-{i}.nodes.test:{port}"]
        if join:
            n.flags.append("--join=" + join.format(port=port))
    return port


@pytest.mark.parametrize("how,join", [
    ("dns", "nodes.test:{port}"),
    ("dns-srv", "_corvo._tcp.nodes.test"),
    ("kubernetes", None),
])
def test_nodes_are_found_by_name(how, join):
    with together(3, make=Named) as c:
        port = spread(c, how, join)
        server = NameServer("127.0.7.53", "_corvo._tcp.nodes.test",
                            [(f"corvo-{i}.nodes.test", port)
                             for i in range(3)])
        try:
            c.spawn()
            c.wait_one()
            assert founders(c) == [c.nodes[0]]
        finally:
            server.close()


def test_an_address_that_does_not_answer_is_told_and_tried_on():
    first = Node("--cluster", "--node-id=n1")
    second = Node("--node-id=n2", f"--join={peer(first)}")
    try:
        second.spawn()
        wait_said(second, f"cannot connect to {peer(first)}: Connection "
                          "refused")
        wait_said(second, "no cluster found; no node of a cluster answers at "
                          f"{peer(first)}")
        assert second.log().count("no node of a cluster") == 1
        first.start()
        wait_until(second.is_ready, 30, "n2 to be taken in")
    finally:
        for n in (second, first):
            n.clean_up()


def test_a_name_that_is_unknown_is_told():
    with together(2, "--discover=dns", "--join=nowhere.invalid:9400") as c:
        c.spawn(0)
        wait_said(c.nodes[0], 'the host "nowhere.invalid" cannot be found')


# --- answers that are lost ----------------------------------------------------


class Gate:
    """In front of a node's port. While it is deaf, what the node says is
    lost."""

    def __init__(self, target):
        self.target = target
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        self.deaf = False
        self.open = []
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                one, _ = self.server.accept()
                try:
                    other = socket.create_connection(
                        ("127.0.0.1", self.target))
                except OSError:
                    one.close()
                    continue
                self.open += [one, other]
                for a, b, back in ((one, other, False), (other, one, True)):
                    threading.Thread(target=self.carry, args=(a, b, back),
                                     daemon=True).start()

    def carry(self, a, b, back):
        with contextlib.suppress(OSError):
            while chunk := a.recv(65536):
                if not (back and self.deaf):
                    b.sendall(chunk)
        self.end(a, b)

    @staticmethod
    def end(*sockets):
        for s in sockets:
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)

    def hear(self):
        """Again, by new connections."""
        self.deaf = False
        self.end(*self.open)

    def close(self):
        self.end(self.server, *self.open)


def test_a_node_that_did_not_hear_that_it_was_taken_in_asks_again():
    """What it was not told is of which cluster it is; then nobody could join
    through it."""
    with together(1) as c:
        first = c.nodes[0]
        first.start()
        gate = Gate(first.raft_port)
        try:
            first.slow_log(3)
            second = Node("--node-id=n2", f"--join=127.0.0.1:{gate.port}")
            c.nodes.append(second)
            second.spawn()
            wait_until(lambda: len(c.rows(first)) == 2, 30, "it to ask")
            gate.deaf = True
            first.slow_log(0)
            wait_said(first, "is taken in")
            wait_said(second, "does not take this node in", 30)
            assert "taken in by" not in second.log()
            gate.hear()
            third = Node("--node-id=n3", f"--join={peer(second)}")
            c.nodes.append(third)
            third.spawn()
            c.wait_one()
        finally:
            gate.close()
