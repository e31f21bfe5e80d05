"""Bodies that take long to read, and messages that unpack to far more than they
are: others are answered meanwhile, and what they become is counted."""

import base64
import gzip
import json
import random
import re
import select
import socket
import time

import pytest

from h2client import Client
from node import API, wait_until
from remote import PACKED, SERVICE, envelope, make

MIB = 1 << 20
NODE_FLAGS = ["--http-max-memory=64MiB", "--max-payload-size=8MiB"]
MEMBERS = 150000  # reading them takes many turns
TURNS = 5  # where a body is read at once, others are answered once or twice
TRIES = 5  # on a busy machine the others may not come to ask
GRPC = (("content-type", "application/grpc"), ("te", "trailers"),
        ("grpc-encoding", "gzip"))


def many_members(**first):
    """An object with names that nothing is done with."""
    return json.dumps({**first, **{f"m{i:08}": 1 for i in range(MEMBERS)}})


def twice(name, **first):
    """The same with a mistake, which shows when all of it has been read: so
    nobody but httpd has any work with it."""
    return many_members(**first)[:-1] + f', "{name}": 1}}'


class Large:
    """A request of HTTP/1.1 that lacks its last byte."""

    def __init__(self, node, path, body, *headers, kind="application/json"):
        self.last = body[-1:]
        self.sock = socket.create_connection(("127.0.0.1", node.port), 240)
        lines = "".join(f"{n}: {v}\r\n" for n, v in (
            ("Content-Type", kind), *headers))
        self.sock.sendall(
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{lines}"
            f"Content-Length: {len(body)}\r\n\r\n".encode() + body[:-1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def finish(self):
        self.sock.sendall(self.last)

    def is_answered(self):
        return bool(select.select([self.sock], [], [], 0)[0])

    def status(self):
        return int(self.sock.recv(65536).split()[1])


def queued(sock):
    """Bytes of it that the kernel has, of which the server has read none."""
    def name(address):
        host, port = address[:2]
        return f"{socket.inet_aton(host)[::-1].hex().upper()}:{port:04X}"

    ours, theirs = name(sock.getsockname()), name(sock.getpeername())
    n = 0
    with open("/proc/net/tcp") as f:
        for line in list(f)[1:]:
            _, local, remote, _, queues, *_ = line.split()
            sent, came = (int(x, 16) for x in queues.split(":"))
            if (local, remote) == (ours, theirs):
                n += sent
            elif (local, remote) == (theirs, ours):
                n += came
    return n


def wait_read(client, n, sock):
    """The server has so many bytes of it, all that were sent; its buffer, which
    is counted twice while a body comes, may be longer than what is in it."""
    wait_until(lambda: client.metrics()["corvo_http_memory_bytes"] >= 2 * n
               and queued(sock) == 0, 30, "the body to be there")


def answers_meanwhile(client, is_over):
    """How many requests of others are answered before something is over."""
    n = 0
    while not is_over():
        assert client.get(f"{API}/info").status == 200
        n += 1
    return n


def comes_about(attempt):
    """In one of a few tries: for what must be possible, but is not certain to
    be seen each time."""
    return any(attempt() for _ in range(TRIES))


@pytest.mark.parametrize("path, body", [
    ("/enqueue", twice("m00000000", queue="large")),
    ("/enqueue/batch", '{"jobs": [' + ", ".join(
        ['{"queue": "large"}'] * 5000 + [twice("m00000000")]) + "]}"),
    ("/enqueue", f'{{"jobs": [{twice("m00000000", queue="large")}]}}'),
    ("/ack/batch", twice("m00000000", acks=[{"job_id": "j"}])),
    ("/jobs/bulk", twice("m00000000", action="retry", job_ids=["j"])),
    ("/jobs/search", twice("m00000000")),
], ids=["enqueue", "batch", "jobs", "ack", "bulk", "search"])
def test_others_are_answered_while_a_large_body_is_read(
        node, client, path, body):
    def attempt():
        with Large(node, API + path, body.encode()) as large:
            wait_read(client, len(body) - 1, large.sock)
            large.finish()
            n = answers_meanwhile(client, large.is_answered)
            assert large.status() == 400
        return n >= TURNS
    assert comes_about(attempt)


LONG = 12 * MIB
DELIVERY = 8 * MIB  # as a payload it is twice that, and refused
TEXTS = {"escapes": b"\\n", "characters": "\N{EURO SIGN}".encode(),
         "plain": b"text"}


@pytest.mark.parametrize("kind", TEXTS)
def test_others_are_answered_while_a_long_text_is_read(node, client, kind):
    part = TEXTS[kind]
    body = (b'{"queue": "' + part * (LONG // len(part)) + b'", "x": "' +
            part * (MIB // len(part)) + b'", "x": 1}')

    def attempt():
        with Large(node, f"{API}/enqueue", body) as large:
            wait_read(client, len(body) - 1, large.sock)
            large.finish()
            n = answers_meanwhile(client, large.is_answered)
            assert large.status() == 400
        return n >= TURNS
    assert comes_about(attempt)


@pytest.mark.parametrize("members, path, headers, status", [
    ({"verify": "stripe", "secret": "one", "previous_secret": "two"}, "hooks",
     {"Stripe-Signature": "t=%d" + ",v1=" * 60 + "0" * 64}, 401),
    ({"verify": "none", "payload": {"r": ".raw"}}, "hooks", {}, 413),
    ({}, "webhooks", {}, 413)], ids=["signed", "mapped", "queue"])
def test_others_are_answered_while_a_long_delivery_is_taken(
        node, client, members, path, headers, status):
    if members:
        a = client.request("PUT", f"{API}/hooks/long",
                           {"queue": "long", **members})
        assert a.status == 200, a
    headers = [(n, v.replace("%d", str(int(time.time()))))
               for n, v in headers.items()]

    def attempt():
        with Large(node, f"{API}/{path}/long", b"\n" * DELIVERY,
                   *headers) as large:
            wait_read(client, DELIVERY - 1, large.sock)
            large.finish()
            n = answers_meanwhile(client, large.is_answered)
            assert large.status() == status
        return n >= TURNS
    assert comes_about(attempt)


def test_the_same_by_http_2(node, client):
    body = twice("m00000000", queue="h2").encode()

    def attempt():
        with Client(node.port, 240) as c:
            i = c.begin("POST", f"{API}/enqueue", body[:-1], end=False)
            wait_read(client, len(body) - 1, c.sock)
            c.send(i, body[-1:])
            n = answers_meanwhile(
                client, lambda: select.select([c.sock], [], [], 0)[0]
                and (c.read() and c.is_over(i)))
            assert c.answer(i).status == 400
        return n >= TURNS
    assert comes_about(attempt)


def test_the_same_of_a_call(node, client):
    body = twice("queue", queue="call").encode()

    def attempt():
        with Large(node, SERVICE + "Enqueue", body) as large:
            wait_read(client, len(body) - 1, large.sock)
            large.finish()
            n = answers_meanwhile(client, large.is_answered)
            assert large.status() == 400
        return n >= TURNS
    assert comes_about(attempt)


@pytest.mark.parametrize("body", [
    base64.b64encode(envelope(0, bytes(11 * MIB))),
    b"AAA=" * (4 * MIB - 1),
], ids=["one", "many"])
def test_the_same_of_a_call_as_text(node, client, body):
    def attempt():
        with Large(node, SERVICE + "Enqueue", body,
                   kind="application/grpc-web-text") as large:
            wait_read(client, len(body) - 1, large.sock)
            large.finish()
            n = answers_meanwhile(client, large.is_answered)
            assert large.status() == 200  # which tells no more
        return n >= TURNS
    assert comes_about(attempt)


def test_who_leaves_while_his_body_is_read(node, client):
    for _ in range(3):
        with Large(node, f"{API}/enqueue", many_members(queue="left").encode()):
            pass
    for _ in range(3):
        with Large(node, f"{API}/enqueue",
                   many_members(queue="left").encode()) as large:
            large.finish()
    with Client(node.port, 240) as c:
        i = c.begin("POST", f"{API}/enqueue", many_members(queue="h2").encode())
        c.reset(i)
        assert c.ask("GET", "/healthz").status == 200
    wait_until(lambda: client.metrics()["corvo_http_memory_bytes"] < MIB, 60,
               "all to be over")


def test_a_node_stops_while_a_large_body_is_read(make_node):
    n = make_node()
    n.start()
    large = [Large(n, f"{API}/enqueue", many_members(queue="stop").encode())
             for _ in range(4)]
    for one in large:
        one.finish()
    with n.client() as c:
        assert c.get(f"{API}/info").status == 200
    n.stop()
    for one in large:
        one.sock.close()


# --- packed messages ---


def packed(number, word=b"ab"):
    """A message of so many bytes, none of which means anything, packed."""
    head = number.to_bytes(4, "little")
    n, size = number, b""
    while n >= 128:
        size, n = size + bytes([n % 128 | 128]), n // 128
    plain = b"\xc2\xb8\x02" + size + bytes([n]) + head + \
        (word * (number // len(word) + 1))[:number - 4]
    return gzip.compress(plain)


def noise(number):
    """Packed to a fifth of it, perhaps."""
    rng = random.Random(1)
    words = [rng.randbytes(8).hex().encode() for _ in range(500)]
    return packed(number, b"".join(rng.choice(words) for _ in range(4000)))


def call(client, path, body):
    return client.post(SERVICE + path, body, {
        "Content-Type": "application/proto", "Content-Encoding": "gzip"})


def test_a_message_of_nothing_but_zeros_is_refused(client):
    body = packed(15 * MIB, b"\0")
    assert len(body) < 20000
    a = call(client, "Enqueue", body)
    assert a.status == 429 and a.json["code"] == "resource_exhausted", a
    assert "100 times" in a.json["message"]
    assert call(client, "Enqueue", packed(60000, b"\0")).status == 400
    good = gzip.compress(make("EnqueueRequest", queue="packed",
                              payload_json='"' + "a" * 60000 + '"')
                         .SerializeToString())
    assert call(client, "Enqueue", good).status == 200


def test_others_are_answered_while_a_message_is_unpacked(node, client):
    body = noise(15 * MIB)

    def attempt():
        with Large(node, SERVICE + "Enqueue", body,
                   ("Content-Encoding", "gzip")) as large:
            wait_read(client, len(body) - 1, large.sock)
            large.finish()
            return answers_meanwhile(client, large.is_answered) >= TURNS
    assert comes_about(attempt)


def test_unpacked_bytes_are_within_the_budget(node, client):
    """Packed they would all have room, and are there before the first one is
    unpacked."""
    body = noise(15 * MIB)
    number = 10
    assert 2 * number * len(body) < 60 * MIB
    most = []

    def attempt():
        large = [Large(node, SERVICE + "Enqueue", body,
                       ("Content-Encoding", "gzip")) for _ in range(number)]

        def is_over():
            # it is refused, too, while there is no room at all
            told = re.search(rb"^corvo_http_memory_bytes (\S+)$",
                             client.get(f"{API}/metrics").body, re.M)
            if told:
                most.append(float(told[1]))
            return all(one.is_answered() for one in large)
        for one in large:
            wait_read(client, number * (len(body) - 1), one.sock)
        for one in large:
            one.finish()
        wait_until(is_over, 60, "all to be answered")
        told = [one.status() for one in large]
        for one in large:
            one.sock.close()
        assert set(told) <= {400, 429}, told
        return 429 in told
    assert comes_about(attempt)
    # one goes on while all others together use less than an eighth
    assert max(most) <= 64 * MIB * 9 / 8


def test_messages_of_streams_are_unpacked_in_turns(node, client):
    data = envelope(PACKED, noise(15 * MIB))

    def attempt():
        with Client(node.port, 240) as c:
            i = c.begin("POST", SERVICE + "StreamLifecycle", headers=GRPC,
                        end=False)
            c.send(i, data, end=True)
            n = answers_meanwhile(
                client, lambda: select.select([c.sock], [], [], 0)[0]
                and (c.read() and c.is_over(i)))
            assert c.answer(i).headers["grpc-status"] == "0"
        return n >= TURNS
    assert comes_about(attempt)


def test_streams_that_leave_while_a_message_is_unpacked(node, client):
    data = envelope(PACKED, noise(4 * MIB))
    for _ in range(3):
        with Client(node.port, 240) as c:
            i = c.begin("POST", SERVICE + "StreamLifecycle", headers=GRPC,
                        end=False)
            c.send(i, data, end=False)
            c.reset(i)
    wait_until(lambda: client.metrics()["corvo_http_memory_bytes"] < MIB, 60,
               "all to be over")


def test_a_stream_of_zeros_is_ended(node):
    with Client(node.port, 240) as c:
        i = c.begin("POST", SERVICE + "StreamLifecycle", headers=GRPC,
                    end=False)
        c.send(i, envelope(PACKED, packed(15 * MIB, b"\0")), end=True)
        a = c.answer(i)
        assert a.headers["grpc-status"] == "8", a.headers
        assert "100 times" in a.headers["grpc-message"]
