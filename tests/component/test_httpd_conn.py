"""corvo-httpd alone: connections, waiting, lost backends, start and stop.

httpd_fixture.py starts it with a raftd and a viewd of canned answers.
"""

import json
import os
import select
import signal
import socket
import struct
import subprocess
import tempfile
import time

import pytest

from httpd_fixture import (HTTPD, PATIENCE, SANITIZED, Backend, Httpd,
                           is_closed, message, node, read_answer, send,
                           wait_until)


FETCH_S = 30  # a fetch that says nothing of it waits so long
IDLE_S = 75  # --idle-timeout


@pytest.fixture(scope="module")
def h():
    with node() as httpd:
        yield httpd


# --- connections ----------------------------------------------------------


def test_keep_alive(h):
    with h.connect() as s:
        f = s.makefile("rb")
        for i in range(50):
            send(s, "POST", "/api/v1/enqueue", {"queue": "q", "payload": i})
            status, _, body = read_answer(f)
            assert status == 201
            assert json.loads(body)["job"]["payload"] == i


def test_pipelining(h):
    with h.connect() as s:
        f = s.makefile("rb")
        s.sendall(b"".join(
            message("POST", "/api/v1/enqueue", {"queue": "q", "payload": i})
            for i in range(100)))
        for i in range(100):
            status, _, body = read_answer(f)
            assert status == 201
            assert json.loads(body)["job"]["payload"] == i


def test_pipelined_behind_a_parked_fetch(h):
    with h.connect() as s:
        f = s.makefile("rb")
        s.sendall(message("POST", "/api/v1/fetch",
                          {"queues": ["none"], "timeout": 0.3}) +
                  message("GET", "/api/v1/info"))
        assert read_answer(f)[0] == 204
        assert read_answer(f)[0] == 200


def test_chunked_body(h):
    with h.connect() as s:
        s.sendall(b"POST /api/v1/enqueue HTTP/1.1\r\nHost: localhost\r\n"
                  b"Transfer-Encoding: chunked\r\n\r\n"
                  b"8\r\n{\"queue\"\r\n5\r\n:\"q\"}\r\n0\r\n\r\n")
        assert read_answer(s.makefile("rb"))[0] == 201


def test_expect_continue(h):
    with h.connect() as s:
        f = s.makefile("rb")
        body = b'{"queue":"q"}'
        s.sendall(b"POST /api/v1/enqueue HTTP/1.1\r\nHost: localhost\r\n"
                  b"Expect: 100-continue\r\n"
                  b"Content-Length: %d\r\n\r\n" % len(body))
        assert f.readline().split()[1] == b"100" and f.readline() == b"\r\n"
        s.sendall(body)
        assert read_answer(f)[0] == 201


def test_http_10_and_close(h):
    for version, extra in [("1.0", ""), ("1.1", "Connection: close\r\n")]:
        with h.connect() as s:
            s.sendall(f"GET /api/v1/info HTTP/{version}\r\nHost: localhost\r\n"
                      f"{extra}\r\n".encode())
            assert read_answer(s.makefile("rb"))[0] == 200
            assert is_closed(s)


def test_answers_are_not_delayed(h):
    """Two segments and a delayed acknowledgement would cost 40 ms each time;
    a busy machine costs as much, but not always."""
    took = []
    with h.connect() as s:
        f = s.makefile("rb")
        for _ in range(50):
            start = time.monotonic()
            send(s, "POST", "/api/v1/enqueue", {"queue": "q"})
            assert read_answer(f)[0] == 201
            took.append(time.monotonic() - start)
    assert min(took) < 0.03, took


def test_not_http(h):
    for text in [b"\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00", b"GET\r\n\r\n",
                 b"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
                 b"POST / HTTP/1.1\r\nContent-Length: zz\r\n\r\n"]:
        with h.connect() as s:
            s.sendall(text)
            s.shutdown(socket.SHUT_WR)
            assert is_closed(s)
    assert h.get("/info").status == 200


def test_client_that_stops_half_way(h):
    """The end comes with the last bytes, or a moment later."""
    for text in [b"GE", b"GET / HTTP/1.1\r\nA: b",
                 b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nab"]:
        socks = [h.connect() for _ in range(50)]
        for s in socks:
            s.sendall(text)
            s.shutdown(socket.SHUT_WR)
        for s in socks:
            assert is_closed(s, 5)
            s.close()


def test_client_that_resets(h):
    for _ in range(20):
        s = h.connect()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                     struct.pack("ii", 1, 0))
        send(s, "POST", "/api/v1/enqueue", {"queue": "q"})
        s.close()
    assert h.get("/info").status == 200


def test_slow_clients():
    with node("--request-timeout=300ms", "--idle-timeout=600ms") as h:
        # a body that never comes, and one that drips
        for drip in (False, True):
            with h.connect() as s:
                s.sendall(b"POST /api/v1/enqueue HTTP/1.1\r\n"
                          b"Host: localhost\r\nContent-Length: 1000\r\n\r\n{")
                status, headers, body = drip_until_answer(s, drip)
                assert status == 408 and headers["connection"] == "close"
                assert json.loads(body)["code"] == "REQUEST_TIMEOUT"
        # a head that drips, also as the second request
        for first in (b"", message("GET", "/api/v1/info")):
            with h.connect() as s:
                s.sendall(first + b"GET /api/v1/info HTTP/1.1\r\nA")
                assert drip_until_closed(s)
        # a request line that drips, and nothing at all
        with h.connect() as s:
            assert drip_until_closed(s)
        with h.connect() as s:
            assert is_closed(s)
        # an idle connection
        with h.connect() as s:
            send(s, "GET", "/api/v1/info")
            assert read_answer(s.makefile("rb"))[0] == 200
            assert is_closed(s)
        # a fetch may wait longer than any of these
        r = h.post("/fetch", {"queues": ["none"], "timeout": 1.5})
        assert r.status == 204


def drip_until_answer(s, drip):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if select.select([s], [], [], 0.02)[0]:
            return read_answer(s.makefile("rb"))
        if drip:
            s.sendall(b" ")
    raise AssertionError("a dripping client is served for ever")


def drip_until_closed(s):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            s.sendall(b"a")
            if select.select([s], [], [], 0.02)[0] and not s.recv(65536):
                return True
        except (ConnectionResetError, BrokenPipeError):
            return True
    return False


# --- parked fetches -------------------------------------------------------


def test_lost_client_of_a_parked_fetch(h):
    cancels = len(h.backend.seen("cancel"))
    s = h.connect()
    send(s, "POST", "/api/v1/fetch", {"queues": ["lost"], "timeout": 30})
    h.backend.wait("request", "fetch", queues=["lost"])
    s.close()
    h.backend.wait("cancel", count=cancels + 1)
    # also when it goes after a while, and with a reset
    s = h.connect()
    send(s, "POST", "/api/v1/fetch/batch", {"queues": ["lost"]})
    h.backend.wait("request", "fetch", count=2, queues=["lost"])
    select.select([], [], [], 0.2)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()
    h.backend.wait("cancel", count=cancels + 2)
    # and neither is counted among those that are answered
    wait_until(lambda: "corvo_http_requests_in_flight 1\n" in
               h.get("/metrics").body.decode(), "them to be forgotten")


def memory_kb(pid):
    for line in open(f"/proc/{pid}/smaps_rollup"):
        if line.startswith("Pss:"):
            return int(line.split()[1])


def test_thousand_parked_fetches():
    with node() as h:
        before = memory_kb(h.proc.pid)
        socks = [h.connect() for _ in range(1000)]
        for s in socks:
            send(s, "POST", "/api/v1/fetch",
                 {"queues": ["many"], "timeout": 60})
        h.backend.wait("request", "fetch", count=1000, queues=["many"])
        assert h.post("/enqueue", {"queue": "many"}).status == 201
        ready, _, _ = select.select(socks, [], [], PATIENCE)
        assert len(ready) == 1
        used = memory_kb(h.proc.pid) - before
        if not SANITIZED:
            assert used < 1000 * 64, f"{used} KB"
        ticks = h.cpu_ticks()
        select.select([], [], [], 1)
        assert h.cpu_ticks() - ticks <= 2
        for s in socks:
            s.close()
        h.backend.wait("cancel", count=999)


@pytest.mark.parametrize("method,path,op", [
    ("POST", "/queues/q/clear", "clear_queue"),
    ("DELETE", "/queues/q?confirm=true", "delete_queue")])
def test_a_clear_is_done_although_its_client_has_left(h, method, path, op):
    portions = 10  # of the fake
    s = h.connect()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    send(s, method, "/api/v1" + path)
    while not h.backend.seen("request", op):
        pass  # it leaves at once, so no time is to be lost
    s.close()
    h.backend.wait("request", op, count=portions)
    r = h.request(method, "/api/v1" + path)
    assert r.status == 200 and r.json()["count"] == portions


# --- backends that go away ------------------------------------------------


def test_requests_are_held_while_raftd_restarts():
    with node("--op-timeout=5s") as h:
        with h.connect() as before, h.connect() as during, \
                h.connect() as fetch:
            send(before, "POST", "/api/v1/enqueue", {"queue": "silent"})
            send(fetch, "POST", "/api/v1/fetch",
                 {"queues": ["none"], "timeout": 1})
            h.backend.wait("request", "enqueue", queue="silent")
            h.backend.wait("request", "fetch")
            h.backend.kill()
            send(during, "POST", "/api/v1/enqueue", {"queue": "held"})
            r = h.request("GET", "/healthz")
            assert r.status == 200 and r.json() == {"status": "ok"}
            r = h.request("GET", "/readyz")
            assert r.error() == (503, "LEADER_UNAVAILABLE")
            assert int(r.headers["Retry-After"]) >= 1
            assert h.get("/queues").error() == (503, "VIEW_UNAVAILABLE")
            assert "corvo_http" in h.get("/metrics").body.decode()
            h.backend.forget()
            h.backend.start()
            assert read_answer(during.makefile("rb"))[0] == 201
            assert h.backend.wait("request", "enqueue",
                                  queue="silent")[0]["resend"]
            assert not h.backend.wait("request", "enqueue",
                                      queue="held")[0]["resend"]
            assert read_answer(fetch.makefile("rb"))[0] == 204


def test_deadlines():
    with node("--op-timeout=300ms", "--view-wait=10ms") as h:
        # it was sent: perhaps it is carried out
        r = h.post("/enqueue", {"queue": "silent"})
        assert r.error() == (504, "OUTCOME_UNKNOWN")
        assert int(r.headers["Retry-After"]) >= 1
        with h.connect() as fetch:
            send(fetch, "POST", "/api/v1/fetch",
                 {"queues": ["none"], "timeout": 0.5})
            h.backend.wait("request", "fetch")
            h.backend.kill()
            status, _, body = read_answer(fetch.makefile("rb"))
            assert status == 504
            assert json.loads(body)["code"] == "OUTCOME_UNKNOWN"
        # these never left
        r = h.post("/enqueue", {"queue": "q"})
        assert r.error() == (503, "LEADER_UNAVAILABLE")
        assert int(r.headers["Retry-After"]) >= 1
        r = h.post("/fetch", {"queues": ["q"], "timeout": 0.1})
        assert r.error() == (503, "LEADER_UNAVAILABLE")


def test_viewd_that_dies_during_a_question(h):
    with node() as own:
        with own.connect() as s:
            send(s, "POST", "/api/v1/jobs/search", {"queue": "silent"})
            own.backend.wait("request", "search_jobs", queue="silent")
            own.backend.kill()
            status, headers, body = read_answer(s.makefile("rb"))
            assert status == 503 and headers["retry-after"] == "1"
            assert json.loads(body)["code"] == "VIEW_UNAVAILABLE"


def asks_of_the_view(h):
    """Every kind of question to the view, each on a connection of its own."""
    kinds = [("GET", "/queues", None), ("POST", "/jobs/search", {}),
             ("GET", "/dead", None)]
    socks = []
    for method, path, body in kinds:
        socks.append(h.connect())
        send(socks[-1], method, "/api/v1" + path, body)
    return socks


def asks_that_wait(h):
    """None: one was under way when its link ended, and did not wait."""
    socks = asks_of_the_view(h)
    if not select.select(socks, [], [], 0.3)[0]:
        return socks
    for s in socks:
        s.close()
    return None


def test_lists_wait_for_a_view_that_comes_back():
    with node("--view-wait=60s") as h:
        h.backend.kill()
        wait_until(lambda: "link to raftd is down" in h.logged(), "the end")
        socks = wait_until(lambda: asks_that_wait(h), "lists that wait")
        h.backend.start()
        for s in socks:
            assert read_answer(s.makefile("rb"))[0] == 200
            s.close()


def test_lists_wait_no_longer_than_view_wait():
    with node("--view-wait=300ms", "--op-timeout=60s") as h:
        assert h.get("/queues").status == 200
        h.backend.kill()
        # one that is under way when its link ends does not wait
        assert h.get("/queues").error() == (503, "VIEW_UNAVAILABLE")
        start = time.monotonic()
        for s in asks_of_the_view(h):
            status, headers, body = read_answer(s.makefile("rb"))
            assert status == 503 and headers["retry-after"] == "1"
            assert json.loads(body)["code"] == "VIEW_UNAVAILABLE"
            s.close()
        assert 0.3 <= time.monotonic() - start < 50  # --op-timeout is 60 s
        r = h.post("/admin/verify-view")
        assert r.error() == (503, "VIEW_UNAVAILABLE")


def test_clients_of_a_view_that_is_away_may_leave():
    with node("--view-wait=200ms") as h:
        h.backend.kill()
        wait_until(lambda: "link to raftd is down" in h.logged(), "the end")
        for s in asks_of_the_view(h):
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                         struct.pack("ii", 1, 0))
            s.close()
        wait_until(lambda: "corvo_http_connections 1\n" in
                   h.get("/metrics").body.decode(), "them to be forgotten")


def test_not_ready_without_raftd():
    with tempfile.TemporaryDirectory(prefix="corvo-httpd-") as directory:
        h = Httpd(directory)
        wait_until(lambda: can_connect(h.port), "the port")
        assert h.request("GET", "/healthz").json() == {"status": "ok"}
        assert " ready " not in h.logged()
        backend = Backend(os.path.join(directory, "run"))
        h.wait_ready()
        h.stop()
        backend.kill()


def can_connect(port):
    try:
        socket.create_connection(("127.0.0.1", port), PATIENCE).close()
        return True
    except ConnectionRefusedError:
        return False


# --- start and stop -------------------------------------------------------


def test_drain():
    with node() as h:
        with h.connect() as parked, h.connect() as idle, \
                h.connect() as batch, h.connect() as busy, \
                h.connect() as fresh:
            send(parked, "POST", "/api/v1/fetch", {"queues": ["none"]})
            send(batch, "POST", "/api/v1/fetch/batch", {"queues": ["none"]})
            send(idle, "GET", "/api/v1/info")
            assert read_answer(idle.makefile("rb"))[0] == 200
            busy.sendall(b"POST /api/v1/enqueue HTTP/1.1\r\nHost: localhost\r\n"
                         b"Content-Length: 13\r\n\r\n")
            h.backend.wait("request", "fetch", count=2)
            start = time.monotonic()
            h.proc.send_signal(signal.SIGTERM)
            assert is_closed(idle) and is_closed(fresh)
            f = parked.makefile("rb")
            status, headers, _ = read_answer(f)
            assert status == 204 and headers["connection"] == "close"
            status, headers, body = read_answer(batch.makefile("rb"))
            assert status == 200 and json.loads(body) == {"jobs": []}
            assert time.monotonic() - start < FETCH_S - 5
            h.backend.wait("cancel", count=2)
            # one request is still coming, and is not waited for
            status, headers, body = read_answer(busy.makefile("rb"))
            assert status == 503 and headers["connection"] == "close"
            assert json.loads(body)["code"] == "SHUTTING_DOWN"
            assert not can_connect(h.port)
            assert h.proc.wait(PATIENCE) == 0


def test_a_drain_hands_out_what_a_fetch_was_given():
    """It is known before anything is answered: else the job would wait for
    the end of its lease."""
    with node() as h:
        with h.connect() as one, h.connect() as batch:
            send(one, "POST", "/api/v1/fetch", {"queues": ["X crossed"]})
            send(batch, "POST", "/api/v1/fetch/batch",
                 {"queues": ["X crossed"]})
            h.backend.wait("request", "fetch", count=2)
            h.proc.send_signal(signal.SIGTERM)
            status, _, body = read_answer(one.makefile("rb"))
            assert status == 200 and json.loads(body)["job_id"]
            status, _, body = read_answer(batch.makefile("rb"))
            assert status == 200 and len(json.loads(body)["jobs"]) == 1
            assert h.proc.wait(PATIENCE) == 0


@pytest.mark.parametrize("path", ["/fetch", "/fetch/batch"])
def test_a_fetch_that_is_never_answered_has_an_unknown_outcome(path):
    """It may have been given a job: nobody says that there was none."""
    with node("--op-timeout=1s") as h:
        a = h.post(path, {"queues": ["silent"], "timeout": 0.1})
        assert a.error() == (504, "OUTCOME_UNKNOWN")
        h.backend.wait("cancel")


def test_nothing_begins_to_wait_during_a_drain():
    """It would hold up the end for as long as it may take."""
    asks = [("POST", "/admin/verify-view"), ("POST", "/queues/q/drain?wait=60"),
            ("POST", "/fetch"), ("GET", "/jobs/job_x?wait=60"),
            ("GET", "/events")]
    with node("--op-timeout=1s") as h:
        socks = [h.connect() for _ in asks]
        for s, (method, path) in zip(socks, asks):
            s.sendall(f"{method} /api/v1{path} HTTP/1.1\r\nHost: localhost\r\n"
                      "Content-Length: 19\r\n\r\n".encode())
        h.get("/info")  # their heads have been read by now
        h.proc.send_signal(signal.SIGTERM)
        wait_until(lambda: "draining" in h.logged(), "the drain")
        for s in socks:
            s.sendall(b'{"queues":["none"]}')
        assert h.proc.wait(PATIENCE) == 0
        for s in socks:
            s.close()


def test_drain_cuts_no_client_at_work():
    """A kept connection is told to close with its next answer."""
    with node() as h:
        with h.connect() as s:
            f = s.makefile("rb")
            send(s, "POST", "/api/v1/enqueue", {"queue": "q"})
            assert read_answer(f)[0] == 201
            h.proc.send_signal(signal.SIGTERM)
            wait_until(lambda: "draining" in h.logged(), "the drain")
            send(s, "POST", "/api/v1/enqueue", {"queue": "q"})
            status, headers, _ = read_answer(f)
            assert status == 201 and headers["connection"] == "close"
            assert is_closed(s)
            assert h.proc.wait(PATIENCE) == 0


def test_idle_drain_is_quick():
    with node() as h:
        with h.connect() as s:
            send(s, "GET", "/api/v1/info")
            assert read_answer(s.makefile("rb"))[0] == 200
            start = time.monotonic()
            h.proc.send_signal(signal.SIGTERM)
            assert h.proc.wait(PATIENCE) == 0
            assert time.monotonic() - start < IDLE_S - 15


def test_inherited_socket_outlives_httpd():
    """Connections made while no httpd runs are served by the next one."""
    with tempfile.TemporaryDirectory(prefix="corvo-httpd-") as directory, \
            socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        os.mkdir(os.path.join(directory, "run"))
        backend = Backend(os.path.join(directory, "run"))
        env = {"CORVO_LISTEN_FD": str(listener.fileno())}
        for _ in range(2):
            h = Httpd(directory, env=env, pass_fds=[listener.fileno()])
            h.port = listener.getsockname()[1]
            h.wait_ready()
            assert h.get("/info").status == 200
            h.stop()
            waiting = h.connect()
            send(waiting, "GET", "/api/v1/info")
            h = Httpd(directory, env=env, pass_fds=[listener.fileno()])
            assert read_answer(waiting.makefile("rb"))[0] == 200
            waiting.close()
            h.proc.kill()
            h.proc.wait()
        backend.kill()


def test_systemd_socket():
    with tempfile.TemporaryDirectory(prefix="corvo-httpd-") as directory, \
            socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        script = ('import os,sys; os.dup2(int(sys.argv[1]), 3); '
                  'os.environ.update(LISTEN_FDS="1", '
                  'LISTEN_PID=str(os.getpid())); '
                  'os.execv(sys.argv[2], sys.argv[2:])')
        p = subprocess.Popen(
            ["/usr/bin/python3", "-c", script, str(listener.fileno()), HTTPD,
             f"--data-dir={directory}"],
            pass_fds=[listener.fileno()], stderr=subprocess.PIPE)
        address = listener.getsockname()
        listener.close()
        with socket.create_connection(address, PATIENCE) as s:
            send(s, "GET", "/healthz")
            assert read_answer(s.makefile("rb"))[0] == 200
        p.send_signal(signal.SIGTERM)
        assert p.wait(PATIENCE) == 0, p.stderr.read()
        p.stderr.close()


def failed_start(*flags, env=None, pass_fds=()):
    with tempfile.TemporaryDirectory(prefix="corvo-httpd-") as directory:
        p = subprocess.run(
            [HTTPD, f"--data-dir={directory}", *flags], capture_output=True,
            text=True, timeout=PATIENCE, pass_fds=pass_fds,
            env=dict(os.environ, **(env or {})))
        assert p.returncode == 1, p.stderr
        return p.stderr


def test_refused_starts():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen(1)
        text = failed_start(f"--bind=127.0.0.1:{s.getsockname()[1]}")
        assert "in use" in text
    assert "--open" in failed_start("--bind=0.0.0.0:18099")
    text = failed_start(env={"CORVO_LISTEN_FD": "0"})
    assert "does not listen" in text


def test_passed_socket_that_others_can_reach_needs_open():
    with socket.socket() as s:
        s.bind(("0.0.0.0", 0))
        s.listen(1)
        text = failed_start(env={"CORVO_LISTEN_FD": str(s.fileno())},
                            pass_fds=[s.fileno()])
        assert "can be reached from other machines" in text
        assert "open = true" in text
