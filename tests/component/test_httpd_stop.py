"""corvo-httpd alone: large bodies that are still being read when the time of a
stop is up. Nothing of them is carried out, and each is told so, once.

Nobody kills it here, so it may be given next to no time.
"""

import json
import signal
import socket

import pytest
from hyperframe.frame import GoAwayFrame

from h2client import Client
from httpd_cost import held
from httpd_fixture import PATIENCE, node, wait_until
from remote import SERVICE, envelope, make

FLAGS = ["--shutdown-timeout=100ms", "--http-max-memory=3GiB",
         "--max-payload-size=8MiB"]
NUMBER = 16  # as many as are worked on at a time
WATCH = "/grpc.health.v1.Health/Watch"
GRPC = [("content-type", "application/grpc"), ("te", "trailers")]
GRPC_JSON = [("content-type", "application/grpc+json"), ("te", "trailers")]


def members(**first):
    return json.dumps({**first,
                       **{f"m{i:07}": 1 for i in range(150000)}}).encode()


def group():
    """A group that no message has, of many numbers."""
    return b"\xc3\x3e" + b"\x08\x01" * (1 << 20) + b"\xc4\x3e"


def stop(h):
    h.get("/info")  # all have begun to be read by now
    h.proc.send_signal(signal.SIGTERM)
    assert h.proc.wait(PATIENCE) == 0, h.logged()


def changes(h):
    return [e for e in h.backend.seen("request")
            if e["name"] in ("enqueue", "enqueue_batch", "clear_queue")]


def wait_there(h, n, times=2):
    """So many bytes of bodies; what comes is counted twice, but of streams."""
    wait_until(lambda: held(h) >= times * n, "the bodies to be there")


class Answer:
    """One of HTTP/1.1, to the end of its connection."""

    def __init__(self, sock):
        data = b""
        with sock:
            while more := sock.recv(65536):
                data += more
        head, _, self.body = data.partition(b"\r\n\r\n")
        self.lines = head.decode().lower().split("\r\n")
        self.status = int(self.lines[0].split()[1])
        # of gRPC-Web it stands in the body
        self.is_refused = self.status == 503 or \
            self.body.count(b"grpc-status: 14\r\n") == 1


def ask(h, path, body, kind):
    """A request that lacks its last byte."""
    s = socket.create_connection(("127.0.0.1", h.port), PATIENCE)
    s.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\n"
              f"Content-Type: {kind}\r\nContent-Length: {len(body)}"
              "\r\n\r\n".encode() + body[:-1])
    return s


@pytest.mark.parametrize("path, body, kind", [
    ("/api/v1/enqueue", members(queue="q"), "application/json"),
    ("/api/v1/queues/q/clear", members(), "application/json"),
    ("/api/v1/webhooks/q", members(), "application/json"),
    (SERVICE + "Enqueue", members(queue="q"), "application/json"),
    (SERVICE + "Enqueue", make("EnqueueRequest", queue="q")
     .SerializeToString() + group(), "application/proto"),
    (SERVICE + "Enqueue", envelope(0, members(queue="q")),
     "application/grpc-web+json"),
], ids=["enqueue", "clear", "webhook", "connect", "group", "web"])
def test_a_large_body_is_not_carried_out_and_told_so(path, body, kind):
    with node(*FLAGS) as h:
        socks = [ask(h, path, body, kind) for _ in range(NUMBER)]
        wait_there(h, NUMBER * (len(body) - 1))
        for s in socks:
            s.sendall(body[-1:])
        stop(h)
        done = 0
        for s in socks:
            a = Answer(s)
            names = [line.split(":")[0] for line in a.lines]
            assert len(set(names)) == len(names), a.lines
            done += a.status == 201 or a.status == 200 and not a.is_refused
            assert a.status in (200, 201) or a.is_refused, a.body
        assert done < NUMBER
        assert len(changes(h)) == done


def statuses(h, c, path, body, headers, times=2):
    """[[grpc-status, ...]] of calls that are still read when it stops."""
    seen = {}
    note = c.note

    def look(e):
        if hasattr(e, "headers"):
            seen.setdefault(e.stream_id, []).extend(
                v for n, v in e.headers if n == "grpc-status")
        note(e)
    c.note = look
    # by which the library takes the connection for closed
    c.h2._frame_dispatch_table[GoAwayFrame] = lambda frame: ([], [])
    ids = [c.begin("POST", path, body[:-1], headers, end=False)
           for _ in range(NUMBER)]
    wait_there(h, NUMBER * (len(body) - 1), times)
    for i in ids:
        c.send(i, body[-1:])
    stop(h)
    for i in ids:
        c.answer(i)
    return [seen.get(i, []) for i in ids]


def test_a_large_call_of_grpc_is_told_so_once():
    with node(*FLAGS) as h, Client(h.port, PATIENCE) as c:
        told = statuses(h, c, SERVICE + "Enqueue",
                        envelope(0, members(queue="q")), GRPC_JSON)
        assert all(t in (["0"], ["14"]) for t in told), told
        assert ["14"] in told
        assert len(changes(h)) == told.count(["0"])


def test_a_stream_that_was_to_begin_is_told_so_once():
    with node(*FLAGS) as h, Client(h.port, PATIENCE) as c:
        told = statuses(h, c, WATCH, envelope(0, group()), GRPC)
        assert all(t == ["14"] for t in told), told


def test_a_stream_whose_message_is_read_is_told_so_once():
    with node(*FLAGS) as h, Client(h.port, PATIENCE) as c:
        told = statuses(h, c, SERVICE + "StreamLifecycle",
                        envelope(0, members(request_id=1)), GRPC_JSON, 1)
        assert all(t == ["14"] for t in told), told
