"""Many connections at once, and many requests on one."""

import http.client
import json
import resource
import socket

from node import API, is_sanitized, wait_until
from waiting import patience

NODE_FLAGS = ["--max-connections=11000"]
REQUEST = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def open_files():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def answers(s, n):
    """Status and body of n answers on one connection."""
    out = []
    f = s.makefile("rb")
    for _ in range(n):
        status = int(f.readline().split()[1])
        length = 0
        while (line := f.readline()) not in (b"\r\n", b""):
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        out.append((status, f.read(length)))
    return out


def post(path, body):
    body = json.dumps(body).encode()
    return (b"POST %s%s HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Length: %d\r\n\r\n" %
            (API.encode(), path.encode(), len(body))) + body


def test_idle_connections(node):
    n = 2000 if is_sanitized() else 10000
    assert open_files() >= n + 200, "raise the limit of open files"
    crowd = []
    try:
        for _ in range(n):
            s = socket.create_connection(("127.0.0.1", node.port), patience(20))
            s.sendall(REQUEST)
            crowd.append(s)
        for s in crowd:
            ((status, _),) = answers(s, 1)
            assert status == 200
        with node.client() as c:
            assert c.metrics()["corvo_http_connections"] >= n
            c.enqueue("crowd")
            c.ack(c.fetch("crowd"))
        for s in crowd[::97]:  # they still work
            s.sendall(REQUEST)
            assert answers(s, 1)[0][0] == 200
    finally:
        for s in crowd:
            s.close()
    with node.client() as c:
        wait_until(lambda: c.metrics()["corvo_http_connections"] <= 3, 30,
                   "the connections to be gone")


def test_more_than_the_limit(make_node):
    """The newest are served; those that were idle for longest made room."""
    node = make_node("--max-connections=50")
    node.start()
    crowd = []
    for _ in range(80):
        s = socket.create_connection(("127.0.0.1", node.port), patience(20))
        s.settimeout(patience(20))
        s.sendall(REQUEST)
        assert s.recv(65536).startswith(b"HTTP/1.1 200")
        crowd.append(s)
    for s in crowd[:30]:
        assert s.recv(65536) == b""
    for s in crowd[30:]:
        s.sendall(REQUEST)
        assert s.recv(65536).startswith(b"HTTP/1.1 200")
    with node.client() as c:
        assert c.get("/healthz").status == 200
        c.enqueue("after")
    for s in crowd:
        s.close()


def test_a_crowd_of_silent_connections(node):
    """As many as there may be: a client that comes then is served at once."""
    n = 2000 if is_sanitized() else 11000
    assert open_files() >= n + 200, "raise the limit of open files"
    crowd = [socket.create_connection(("127.0.0.1", node.port), patience(20))
             for _ in range(n)]
    try:
        for _ in range(3):
            with node.client() as c:
                c.enqueue("silent")
                c.ack(c.fetch("silent"))
    finally:
        for s in crowd:
            s.close()


def test_pipelining_keeps_the_order(node):
    n = 200
    with socket.create_connection(("127.0.0.1", node.port), patience(20)) as s:
        s.sendall(b"".join(post("/enqueue", {"queue": "pipe", "payload": i})
                           for i in range(n)))
        got = answers(s, n)
    assert [status for status, _ in got] == [201] * n
    ids = [json.loads(body)["job_id"] for _, body in got]
    with node.client() as c:
        assert [c.job(i)["payload"] for i in ids[::20]] == list(range(0, n, 20))
        fetched = c.post(f"{API}/fetch/batch", {
            "queues": ["pipe"], "count": n, "timeout": 0}).json["jobs"]
    assert [j["payload"] for j in fetched] == list(range(n))


def test_pipelined_life(node):
    """Enqueue and fetch without waiting in between, then a refusal."""
    with socket.create_connection(("127.0.0.1", node.port), patience(20)) as s:
        s.sendall(post("/enqueue", {"queue": "pipe2"}) +
                  post("/fetch", {"queues": ["pipe2"], "timeout": 5}) +
                  post("/enqueue", {}) + REQUEST)
        got = answers(s, 4)
    assert [status for status, _ in got] == [201, 200, 400, 200]
    assert json.loads(got[0][1])["job_id"] == json.loads(got[1][1])["job_id"]


def test_pieces_of_any_size(node):
    """The same request cut at every byte."""
    whole = post("/enqueue", {"queue": "pieces", "payload": "x" * 20})
    with socket.create_connection(("127.0.0.1", node.port), patience(20)) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for cut in range(1, len(whole)):
            s.sendall(whole[:cut])
            s.sendall(whole[cut:])
            assert answers(s, 1)[0][0] == 201


def test_http_1_0(node):
    with socket.create_connection(("127.0.0.1", node.port), patience(20)) as s:
        s.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        r = http.client.HTTPResponse(s)
        r.begin()
        assert r.status == 200 and json.loads(r.read())["status"] == "ok"


def test_connection_close(node):
    with socket.create_connection(("127.0.0.1", node.port), patience(20)) as s:
        s.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
                  b"Connection: close\r\n\r\n")
        got = b""
        while chunk := s.recv(4096):
            got += chunk
    assert got.startswith(b"HTTP/1.1 200")


def test_several_httpd_processes(make_node):
    node = make_node("--httpd-processes=3")
    node.start()
    clients = [node.client() for _ in range(12)]
    ids = [c.enqueue("shared") for c in clients]
    rows = [c.queue("shared")["enqueued"] for c in clients]
    assert rows == [12] * 12  # what the node acknowledged, on any of them
    got = {c.fetch("shared")["job_id"] for c in clients}
    assert got == set(ids)
    for c in clients:
        c.close()
