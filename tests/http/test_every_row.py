"""Every route and every remote call is sent what no client means: no body,
bodies that are no messages, odd names, each member with each wrong type.

It is made from the tables (tests/lib/rows.py), so a new row is tried by
itself. None of it may end a process, and none is answered with a 5xx that its
row does not document. What comes over HTTP/2 comes over HTTP/1.1 as well, of
which a body has a length or comes in chunks.
"""

import contextlib
import json
import re
import socket

import pytest

import rows
from h2client import Client
from node import API, SOURCE, new_node, patience
from remote import SERVICE, envelope

BATCH = 32  # requests under way at a time
BROKEN = ("2", "13", "15")  # grpc-status: unknown, internal, data loss

# They may be answered much later, or go on: nobody waits for that here.
WAITS = ("GET /api/v1/events", "GET /api/v1/bulk/{bulk_id}/progress",
         "POST /api/v1/fetch", "POST /api/v1/fetch/batch",
         "POST /corvo.v1.WorkerService/Fetch",
         "POST /corvo.v1.WorkerService/FetchBatch",
         "POST /corvo.v1.WorkerService/StreamLifecycle",
         "POST /corvo.v1.WorkerService/Subscribe",
         "POST /grpc.health.v1.Health/Watch")
# Without a node's name this would be the end of this one's part in a cluster.
SPARED = ("POST /api/v1/cluster/leave",)


WAYS = ["length", "chunked", "h2"]


class Lost(AssertionError):
    """No answer came."""


def shown(request):
    row, path, body = request
    return f"{row.method} {path[:200]} {body and body[:200]}"


# --- ways to send it --------------------------------------------------------


def head_of(row, path, kind):
    return f"{row.method} {path} HTTP/1.1\r\nHost: localhost\r\n" \
        f"Content-Type: {kind}\r\n"


def bytes_of(request, chunked, kind="application/json"):
    row, path, body = request
    head = head_of(row, path, kind).encode()
    if body is None:
        return head + b"\r\n"
    if not chunked:
        return head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    half = len(body) // 2
    pieces = [p for p in (body[:half], body[half:]) if p]
    return head + b"Transfer-Encoding: chunked\r\n\r\n" + b"".join(
        b"%x\r\n%s\r\n" % (len(p), p) for p in pieces) + b"0\r\n\r\n"


def read_answer(f):
    """(status, body); None at the end."""
    line = f.readline()
    if not line:
        return None
    headers = {}
    while text := f.readline().strip():
        name, value = text.decode().split(":", 1)
        headers[name.lower()] = value.strip()
    body = b""
    if headers.get("transfer-encoding") == "chunked":
        while n := int(f.readline(), 16):
            body += f.read(n)
            f.readline()
        f.readline()
    else:
        body = f.read(int(headers.get("content-length", 0)))
    return int(line.split()[1]), body


def connect(node):
    return socket.create_connection(("127.0.0.1", node.port), patience(60))


def answers_of(node, data, n):
    """What comes back, of n requests at most; it may be closed before."""
    with connect(node) as s, s.makefile("rb") as f:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            s.sendall(data)
        for _ in range(n):
            with contextlib.suppress(ConnectionResetError):
                answer = read_answer(f)
                if answer is not None:
                    yield answer
                    continue
            return


def over_http1(node, requests, chunked):
    """Each with its answer. Some answers end the connection."""
    left, size = list(requests), BATCH
    while left:
        batch, got = left[:size], 0
        data = b"".join(bytes_of(r, chunked) for r in batch)
        for answer in answers_of(node, data, len(batch)):
            yield batch[got], answer
            got += 1
        if got == 0 and size == 1:
            raise Lost(shown(left[0]))
        size = BATCH if got else 1
        left = left[got:]


def over_http2(node, requests, kind="application/json"):
    with Client(node.port, patience(60)) as c:
        for at in range(0, len(requests), BATCH):
            batch = requests[at:at + BATCH]
            try:
                ids = [c.begin(row.method, path, body,
                               [("content-type", kind)])
                       for row, path, body in batch]
                for request, i in zip(batch, ids):
                    a = c.answer(i)
                    if ":status" not in a.headers:
                        raise Lost(shown(request))
                    yield request, (a.status, a.body)
                    check_status(request, a.headers)
            except (BrokenPipeError, ConnectionResetError):
                raise Lost(" or ".join(map(shown, batch)))


def left_alone(node, requests, chunked):
    """Those whose answers nobody waits for. What is asked after them is
    answered when all of them have been begun."""
    for at in range(0, len(requests), BATCH):
        with contextlib.ExitStack() as stack:
            for r in requests[at:at + BATCH]:
                s = stack.enter_context(connect(node))
                s.sendall(bytes_of(r, chunked))
            with node.client() as c:
                c.enqueue("last")


def left_alone_http2(node, requests, kind):
    for at in range(0, len(requests), BATCH):
        with Client(node.port, patience(60)) as c:
            for row, path, body in requests[at:at + BATCH]:
                c.begin(row.method, path, body, [("content-type", kind)])
            try:
                a = c.ask("POST", f"{API}/enqueue", {"queue": "last"})
                assert a.status == 201, a.headers
            except (BrokenPipeError, ConnectionResetError, KeyError):
                raise Lost(" or ".join(map(shown, requests[at:at + BATCH])))


# --- what may come back -----------------------------------------------------


def check_status(request, headers):
    assert headers.get("grpc-status") not in BROKEN, (shown(request), headers)


def check(request, answer):
    status, body = answer
    assert status < 500 or status in request[0].refusals, \
        (shown(request), status, body[:500])


class Tried:
    """Sends all of a row, by all ways."""

    def __init__(self, node):
        self.node, self.pids = node, node.pids()

    def alive(self, row):
        assert self.node.pids() == self.pids, \
            f"{row}: {self.node.log()[-2000:]}"

    def way(self, row, requests, way):
        waits = str(row) in WAITS
        if way != "h2":
            chunked = way == "chunked"
            if waits:
                left_alone(self.node, requests, chunked)
                return
            for request, answer in over_http1(self.node, requests, chunked):
                check(request, answer)
        elif waits:
            left_alone_http2(self.node, requests, "application/json")
        else:
            for request, answer in over_http2(self.node, requests):
                check(request, answer)

    def envelopes(self, row, requests, kind):
        if str(row) in WAITS:
            left_alone_http2(self.node, requests, kind)
            return
        for request, (status, body) in over_http2(self.node, requests, kind):
            assert status < 500, (shown(request), status, body)
            if body[:1] == b"\2" and body[5:]:
                error = json.loads(body[5:]).get("error", {})
                assert error.get("code") not in ("internal", "unknown"), \
                    (shown(request), body)

    def row(self, row, way):
        """What is strange as a whole by each way; each wrong member by one of
        them, and each name by all."""
        turn = WAYS.index(way)
        wrong = [*row.wrong()]
        requests = [(row, *r) for r in (*row.shapes(),
                                        *wrong[turn::len(WAYS)])]
        try:
            self.way(row, requests, way)
        finally:
            self.alive(row)


# --- the tests --------------------------------------------------------------


@pytest.fixture(scope="module")
def routes(node):
    with node.client() as c:
        found = rows.Api(c.get("/openapi.json").json).rows()
    return [r for r in found if str(r) not in SPARED]


def test_every_route_is_in_the_document(node, routes):
    """Else it would not be tried."""
    text = (SOURCE / "common/proto/defs/routes.def").read_text()
    text = re.sub(r"#ifdef CORVO_EXTRA_OP\n.*?#endif", "", text, flags=re.S)
    table = {f"{m} {path}" for m, path in re.findall(
        r'^ROUTE\((\w+), +"([^"]+)"', text, re.M)}
    assert table - set(SPARED) == set(map(str, routes))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("part", range(4))
def test_routes(node, routes, way, part):
    t = Tried(node)
    for row in routes[part::4]:
        t.row(row, way)


# --- remote calls -----------------------------------------------------------


KINDS = ["application/grpc+json", "application/grpc",
         "application/grpc-web+json", "application/connect+json",
         "application/connect+proto"]


def messages(row):
    """Its bodies as JSON; those of routes say more than a call knows."""
    bodies = [body or b"" for path, body in (*row.shapes(), *row.wrong())
              if path == row.path]
    return bodies + [b"\n", b"\n\xff\xff\xff\xff\x0f", b"\xff" * 100]


def calls(row, wrap):
    return [(row, row.path, wrap(m)) for m in messages(row)]


METHODS = rows.methods()


@pytest.mark.parametrize("way", WAYS)
def test_calls_of_connect(node, way):
    t = Tried(node)
    for method in METHODS:
        if method.kind == "RPC_UNARY":
            whole = calls(method, lambda m: m)
            t.way(method, whole[WAYS.index(way)::len(WAYS)], way)
            t.alive(method)


@pytest.mark.parametrize("kind", KINDS)
def test_calls_in_envelopes(node, kind):
    t = Tried(node)
    for method in METHODS:
        whole = calls(method, lambda m: envelope(0, m))
        requests = whole[KINDS.index(kind)::len(KINDS)] + [
            (method, method.path, b)
            for b in (b"", b"\0", b"\0\0\0\0\1", envelope(0xff, b""),
                      envelope(1, b"{}"), b"\0\xff\xff\xff\xff{}")]
        t.envelopes(method, requests, kind)
        t.alive(method)


# --- that it finds what it should -------------------------------------------


@contextlib.contextmanager
def planted(kind, path):
    """A node in which a request for that path fails a check."""
    node = new_node()
    node.env[f"CORVO_FAULT_REQUEST_{kind}"] = path
    try:
        yield node.start()
    finally:
        node.clean_up(check=kind != "DIES")  # whose log has the check


def throttle(*refusals):
    return rows.Row("POST", f"{API}/queues/{{queue}}/throttle", ["rate"], {},
                    refusals=refusals)


@pytest.mark.parametrize("way", WAYS)
def test_a_check_that_ends_the_process_is_found(way):
    row = throttle()
    with planted("DIES", row.at()) as node, pytest.raises(AssertionError):
        Tried(node).row(row, way)


@pytest.mark.parametrize("way", WAYS)
def test_a_check_that_ends_one_request(way):
    """It is answered 500, told and counted; the process goes on."""
    row = throttle(500)
    with planted("FAILS", row.at()) as node:
        with pytest.raises(AssertionError, match="500"):
            Tried(node).row(throttle(), way)
        Tried(node).row(row, way)
        with node.client() as c:
            a = c.post(row.at(), {"rate": 0})
            assert (a.status, a.code) == (500, "INTERNAL_ERROR")
            assert c.metrics()["corvo_http_broken_requests_total"] > 20
            assert c.enqueue("others")
        assert 'check="' in node.log() and f"path={row.at()} " in node.log()


def test_a_check_that_ends_one_stream():
    path = SERVICE + "StreamLifecycle"
    with planted("FAILS", path) as node:
        pids = node.pids()
        with Client(node.port, patience(60)) as c:
            for kind in KINDS:
                a = c.ask("POST", path, envelope(0, b"{}"),
                          [("content-type", kind)])
                assert a.status in (200, 500), a.headers
                assert a.headers.get("grpc-status", "13") == "13", kind
            assert c.ask("GET", "/healthz").status == 200
        assert node.pids() == pids
