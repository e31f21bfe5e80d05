"""corvo-httpd alone: fetches whose clients have left.

httpd_fixture.py starts it with a raftd and a viewd of canned answers.
"""

import re
import signal
import socket

import pytest

from h2client import Client
from httpd_cost import metric
from httpd_fixture import PATIENCE, node, read_answer, send, wait_until
from remote import SERVICE, envelope, make


@pytest.fixture(scope="module")
def h():
    with node() as httpd:
        yield httpd


def test_a_job_for_a_client_that_left_goes_back(h):
    """Without an attempt; also when it left in the first moments of its wait,
    in which nobody watches its socket."""
    cancels = len(h.backend.seen("cancel"))
    for i in range(10):
        s = h.connect()
        send(s, "POST", "/api/v1/fetch", {"queues": [f"left-{i}"]})
        h.backend.wait("request", "fetch", queues=[f"left-{i}"])
        s.close()
        # hands a job to the fetch, if that was not cancelled yet
        assert h.post("/enqueue", {"queue": f"left-{i}"}).status == 201
    # a cancel that crosses with the job has both
    wait_until(lambda: len(h.backend.seen("request", "fail")) +
               len(h.backend.seen("cancel")) >= cancels + 10,
               "all ten to be given back or cancelled")
    for e in h.backend.seen("request", "fail"):
        assert e["body"]["job_id"] == "job_fetched"
        assert e["body"]["requeue"] is True and e["body"]["lease_token"] == 7


LONG = 32 << 10  # is read in turns with others


@pytest.mark.parametrize("padding", [0, LONG])
def test_nothing_is_asked_for_a_client_that_left(h, padding):
    before = len(h.backend.seen("request", "fetch"))
    for path in ("/fetch", "/fetch/batch"):
        with h.connect() as s:
            # one segment each: the request, then the end
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
            send(s, "POST", "/api/v1" + path,
                 {"queues": ["jobs"], "x": "x" * padding})
            s.shutdown(socket.SHUT_WR)
            assert s.recv(65536) == b""
    assert len(h.backend.seen("request", "fetch")) == before


def test_what_else_a_lost_connection_asked_for_is_withdrawn():
    """Beside a request that is carried out, whoever waits."""
    with node("--op-timeout=1h", "--shutdown-timeout=1s") as httpd:
        seen = httpd.backend.wait
        with Client(httpd.port, PATIENCE) as c:
            c.begin("POST", "/api/v1/jobs/bulk", {
                "action": "retry", "filter": {"queue": "silent"}})
            seen("request", "search_jobs", queue="silent")
            c.begin("POST", "/api/v1/fetch", {"queues": ["alone"]})
            i = c.begin("POST", SERVICE + "StreamLifecycle", end=False,
                        headers=[("content-type", "application/grpc"),
                                 ("te", "trailers")])
            c.send(i, envelope(0, make(
                "LifecycleStreamRequest", request_id=1, queues=["stream"],
                fetch_count=1, wait_ms=60000).SerializeToString()), end=False)
            for queue in ("alone", "stream"):
                seen("request", "fetch", queues=[queue])
        seen("cancel", count=2)
        assert metric(httpd, "corvo_rpc_streams_open") == 0
        assert metric(httpd, "corvo_http_requests_in_flight") == 2


def test_a_stop_says_whom_it_waits_for():
    with node("--op-timeout=6s") as httpd, httpd.connect() as s:
        send(s, "POST", "/api/v1/enqueue", {"queue": "silent"})
        httpd.backend.wait("request", "enqueue", queue="silent")
        httpd.proc.send_signal(signal.SIGTERM)
        assert read_answer(s.makefile("rb"))[0] == 504
        assert httpd.proc.wait(PATIENCE) == 0
        assert re.search(
            r"stopping; waits for 1 connections: 1 at work, .*; 1 requests, "
            r"the oldest for \d+ s: POST /api/v1/enqueue", httpd.logged())
