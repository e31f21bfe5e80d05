"""corvo-httpd alone: the memory it keeps for its clients.

httpd_fixture.py starts it with a raftd and a viewd of canned answers; what the
fake has of queue "large" is LARGE bytes long.
"""

import contextlib
import json
import re
import select
import socket
import struct
import time

from httpd_fixture import (is_closed, message, node, read_answer,
                           send, wait_until)

MIB = 1 << 20
LIMIT = 16 * MIB  # of the budget: the least there may be
LARGE = 7 * MIB
ABANDONED = 100
NOTHING = 256 << 10  # and less: what /metrics itself needs


def numbers(h):
    """As text. Those of clients that are gone may fill the memory until it is
    seen that they are: then this answer, too, is one that does not fit."""
    r = h.get("/metrics")
    if r.status == 429:
        return None
    assert r.status == 200, r.body
    return r.body.decode()


def metric(h, name):
    text = wait_until(lambda: numbers(h), "the numbers")
    found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    assert found, text
    return float(found[1])


def used(h):
    return metric(h, "corvo_http_memory_bytes")


def refused(h, reason):
    return metric(h, f'corvo_http_memory_refused_total{{reason="{reason}"}}')


def begin_body(h, declared, sent):
    s = h.connect()
    with contextlib.suppress(ConnectionError):  # refused while it sends
        s.sendall(b"POST /api/v1/enqueue HTTP/1.1\r\nHost: localhost\r\n"
                  b"Content-Length: %d\r\n\r\n" % declared + b" " * sent)
    return s


def is_taken(h, size):
    """A request of that many bytes; one that is refused may see its
    connection end before it has sent all of them."""
    with contextlib.suppress(ConnectionError):
        return h.post("/enqueue", '{"queue": "q"}' + " " * size).status == 201


def answer_of(s):
    return read_answer(s.makefile("rb"))


def has_answer(s):
    return bool(select.select([s], [], [], 0)[0])


@contextlib.contextmanager
def small_node(*flags):
    with node("--http-max-memory=16MiB", *flags) as h:
        assert metric(h, "corvo_http_memory_limit_bytes") == LIMIT
        yield h
        wait_until(lambda: used(h) < NOTHING, "all of it to be given back")


@contextlib.contextmanager
def unread(h, n, queue="large"):
    """Clients that ask for large answers and do not read them."""
    with contextlib.ExitStack() as all_of_them:
        socks = []
        for _ in range(n):
            s = all_of_them.enter_context(socket.socket())
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.settimeout(60)
            s.connect(("127.0.0.1", h.port))
            send(s, "POST", "/api/v1/jobs/search", {"queue": queue})
            wait_until(lambda s=s: has_answer(s), "an answer")
            socks.append(s)
        yield socks


def work_on(h):
    """What workers do is never refused for memory."""
    assert h.request("GET", "/healthz").status == 200
    assert h.request("GET", "/readyz").status == 200
    assert h.post("/enqueue", {"queue": "q", "payload": "x" * 8000}).status \
        == 201
    assert h.post("/fetch", {"queues": ["jobs"]}).status == 200
    assert h.post("/ack/job_1", {}).status == 200
    assert h.post("/heartbeat", {"jobs": {"job_1": {}}}).status == 200


# --- bodies ---------------------------------------------------------------


def test_a_body_that_does_not_fit_is_refused_at_its_head():
    with small_node() as h:
        def is_refused():
            """Before one that came first was too slow for too long."""
            with begin_body(h, 12 * MIB, 9 * MIB) as first:
                wait_until(lambda: used(h) > 14 * MIB or has_answer(first),
                           "what came of it")
                work_on(h)
                with begin_body(h, MIB, 0) as s:
                    wait_until(lambda: has_answer(s) or has_answer(first),
                               "one of them to be refused")
                    return has_answer(s) and answer_of(s)

        status, headers, body = wait_until(is_refused, "a refusal")
        assert status == 429 and headers["connection"] == "close"
        assert headers["retry-after"] == "1"
        body = json.loads(body)
        assert body["code"] == "OVERLOADED" and body["retry_after_ms"] == 1000
        assert refused(h, "body") >= 1


def test_who_asks_before_sending_is_told_before_sending():
    """Expect: 100-continue."""
    with small_node() as h:
        with begin_body(h, 12 * MIB, 9 * MIB) as first:
            wait_until(lambda: used(h) > 14 * MIB or has_answer(first),
                       "what came of it")
            with h.connect() as s:
                s.sendall(b"POST /api/v1/enqueue HTTP/1.1\r\n"
                          b"Host: localhost\r\n"
                          b"Expect: 100-continue\r\n"
                          b"Content-Length: %d\r\n\r\n" % (8 * MIB))
                status = int(s.makefile("rb").readline().split()[1])
            assert status == (100 if has_answer(first) else 429)


def test_chunks_that_do_not_fit_are_refused():
    with small_node() as h, begin_body(h, 12 * MIB, 9 * MIB) as first, \
            h.connect() as s:
        wait_until(lambda: used(h) > 14 * MIB or has_answer(first),
                   "what came of it")
        s.sendall(b"POST /api/v1/enqueue HTTP/1.1\r\nHost: localhost\r\n"
                  b"Transfer-Encoding: chunked\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            for _ in range(40):
                s.sendall(b"10000\r\n" + b" " * 65536 + b"\r\n")
        wait_until(lambda: has_answer(s) or has_answer(first), "a refusal")
        if not has_answer(first):
            assert answer_of(s)[0] == 429


def test_an_unfinished_body_costs_what_came_of_it():
    with small_node() as h:
        socks = [begin_body(h, 15 * MIB, 1000) for _ in range(100)]
        work_on(h)
        assert used(h) < 2 * MIB
        assert is_taken(h, 15 * MIB)
        for s in socks:
            s.close()


def test_slow_bodies_make_room_for_others():
    with small_node() as h, begin_body(h, 12 * MIB, 9 * MIB) as slow:
        wait_until(lambda: used(h) > 14 * MIB or has_answer(slow),
                   "what came of it")
        wait_until(lambda: is_taken(h, 10 * MIB), "the other one to be taken")
        status, _, body = answer_of(slow)
        assert status == 429 and json.loads(body)["code"] == "OVERLOADED"
        assert "slowly" in json.loads(body)["error"]
        assert refused(h, "slow_body") == 1


def test_many_small_bodies_make_room_by_themselves():
    """Each of them fits always, all of them do not."""
    with small_node() as h:
        socks = [begin_body(h, 16000, 15000) for _ in range(700)]
        wait_until(lambda: refused(h, "slow_body") > 0, "slow ones to go")
        wait_until(lambda: used(h) <= LIMIT, "room")
        work_on(h)
        for s in socks:
            s.close()


# --- answers --------------------------------------------------------------


def test_unread_answers_are_bounded():
    with small_node() as h:
        with unread(h, 12) as socks:
            assert used(h) <= LIMIT
            work_on(h)
            told = [s.recv(12, socket.MSG_PEEK)[9:] for s in socks]
            assert set(told) == {b"200", b"429"}
            s = socks[told.index(b"429")]
            status, headers, body = answer_of(s)
            assert headers["retry-after"] == "1"
            assert json.loads(body)["code"] == "OVERLOADED"
            assert refused(h, "answer") > 0


def test_large_reads_are_refused_when_there_is_no_room():
    with small_node() as h:
        def is_refused():
            with begin_body(h, 12 * MIB, 9 * MIB) as first:
                wait_until(lambda: used(h) > LIMIT or has_answer(first),
                           "what came of it")
                r = h.request("GET", "/openapi.json")
                work_on(h)
                return r.status == 429 and r

        assert wait_until(is_refused, "a refusal").error() == \
            (429, "OVERLOADED")
        wait_until(lambda: h.request("GET", "/openapi.json").status == 200,
                   "it to be answered again")


def test_who_takes_nothing_of_an_answer_is_cut_off():
    with small_node("--answer-timeout=500ms") as h:
        with unread(h, 1) as (s,):
            wait_until(lambda: refused(h, "slow_reader") == 1, "the cut")
            wait_until(lambda: used(h) < NOTHING, "its memory")
            assert is_closed(s)


def test_who_takes_an_answer_in_small_parts_is_served():
    with small_node("--answer-timeout=500ms") as h:
        with unread(h, 1) as (s,):
            got, until = 0, time.monotonic() + 1.5
            while time.monotonic() < until:  # more than twice the limit
                got += len(s.recv(8192))
                select.select([], [], [], 0.01)
            while got < LARGE:
                part = s.recv(1 << 20)
                assert part, got
                got += len(part)
        assert refused(h, "slow_reader") == 0


def test_slow_readers_make_room_for_others():
    with small_node() as h:
        with unread(h, 1) as (s,):
            wait_until(lambda: h.post("/jobs/search", {"queue": "large"}
                                      ).status == 200, "room")
            assert is_closed(s)
        assert refused(h, "slow_reader") == 1


def test_jobs_of_an_answer_that_does_not_fit_go_back():
    with small_node() as h:
        def is_refused():
            """Before those that do not read were too slow for too long."""
            with unread(h, 1):
                r = h.post("/fetch", {"queues": ["large"]})
                return r.status == 429 and r

        r = wait_until(is_refused, "a refusal")
        assert r.error() == (429, "OVERLOADED")
        back = h.backend.wait("request", "fail")[0]["body"]
        assert back["job_id"] == "job_fetched" and back["requeue"]


# --- clients that leave while their requests are worked on ----------------


def reset(s):
    """The other side hears of it at once, whatever has not been read."""
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                 struct.pack("ii", 1, 0))
    s.close()


def test_answers_in_the_making_are_given_back_by_who_resets():
    """At any moment: some before the answer is made, some while it is."""
    with node("--http-max-memory=256MiB") as h:
        for i in range(ABANDONED):
            h.backend.forget()
            s = h.connect()
            send(s, "POST", "/api/v1/jobs/search",
                 {"queue": "middle" if i % 2 else "large"})
            if i % 4:
                h.backend.wait("request", "search_jobs")
            reset(s)
        wait_until(lambda: used(h) < NOTHING, "all of it to be given back")


# --- after ----------------------------------------------------------------


def test_everything_is_counted_once():
    """It says so itself when it ends: whatever was going on, nothing is left
    over, and nothing was given back twice."""
    with node("--http-max-memory=16MiB") as h:
        socks = [begin_body(h, 15 * MIB, n * 10000) for n in range(30)]
        for path in ("/events", "/info", "/queues", "/metrics"):
            s = h.connect()
            send(s, "GET", "/api/v1" + path)
            socks.append(s)
        for queue in ("none", "jobs", "large"):
            s = h.connect()
            s.sendall(message("POST", "/api/v1/fetch", {"queues": [queue]}))
            socks.append(s)
        h.stop()
        for s in socks:
            s.close()
        h.backend.kill()
        assert "CHECK" not in open(h.log.name).read()
