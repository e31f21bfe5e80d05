"""corvo-httpd alone: what raftd says when who asked has stopped waiting.

httpd_fixture.py starts it with a raftd and a viewd of canned answers; they are
held while somebody asks, and go on when he waits no longer.
"""

import contextlib
import http.client
import json
import signal

import pytest

from h2client import Client
from httpd_fixture import PATIENCE, node, wait_until
from remote import SERVICE, envelope, envelopes, make, messages

LIFECYCLE = SERVICE + "StreamLifecycle"
GRPC = [("content-type", "application/grpc+proto"), ("te", "trailers")]


@pytest.fixture(scope="module")
def h():
    with node("--stream-max-fps=0", "--op-timeout=50ms") as httpd:
        yield httpd


@contextlib.contextmanager
def held(h):
    h.backend.proc.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        h.backend.proc.send_signal(signal.SIGCONT)


def frame(**members):
    return envelope(0, make("LifecycleStreamRequest",
                            **members).SerializeToString())


def given_back(h):
    return h.backend.wait("request", "fail", job_id="job_fetched")


def test_a_fetch_whose_deadline_crosses_with_its_answer(h):
    h.backend.forget()
    with Client(h.port, PATIENCE) as c:
        with held(h):
            a = c.ask("POST", SERVICE + "Fetch", {"queues": ["jobs"]},
                      [("content-type", "application/json"),
                       ("connect-timeout-ms", "50")])
            assert a.status == 500 or a.status == 504, a.body
        given_back(h)


def test_a_frame_whose_time_crosses_with_its_answer(h):
    h.backend.forget()
    with Client(h.port, PATIENCE) as c:
        with held(h):
            a = c.ask("POST", LIFECYCLE, frame(
                request_id=1, fetch_count=1, queues=["jobs"]), GRPC)
            (_, data), = envelopes(a.body)
            got = messages()["LifecycleStreamResponse"].FromString(data)
            assert got.code == "OUTCOME_UNKNOWN"
        given_back(h)


CLUSTER = [("remove", {"node_id": "n2"}), ("transfer", {}), ("leave", {}),
           ("join", {"addr": "127.0.0.1:9401"})]


def ask_cluster(h, verb, body):
    a = h.post("/cluster/" + verb, body)
    return a.status, a.json()["code"]


@pytest.mark.parametrize("verb, body", CLUSTER, ids=lambda v: str(v))
def test_of_a_change_of_the_cluster_without_an_answer_nobody_knows(
        h, verb, body):
    assert ask_cluster(h, verb, body) == (504, "OUTCOME_UNKNOWN")


@pytest.mark.parametrize("verb, body", CLUSTER, ids=lambda v: str(v))
def test_a_change_of_the_cluster_that_was_sent_to_nobody_was_not_made(
        verb, body):
    with node("--op-timeout=50ms") as h:
        h.backend.kill()
        wait_until(lambda: "link to raftd is down" in h.logged(),
                   "the link to be down")
        assert ask_cluster(h, verb, body) == (503, "LEADER_UNAVAILABLE")


def test_a_change_of_the_cluster_whose_link_breaks():
    with node("--op-timeout=10m", "--shutdown-timeout=8s") as h:
        clients = []
        for verb, body in CLUSTER:
            c = http.client.HTTPConnection("127.0.0.1", h.port,
                                           timeout=PATIENCE)
            c.request("POST", "/api/v1/cluster/" + verb, json.dumps(body))
            clients.append(c)
        for name in ("remove", "transfer", "leave", "add"):
            h.backend.wait("request", "cluster_" + name)
        h.backend.kill()
        h.proc.send_signal(signal.SIGTERM)
        for c in clients:
            a = c.getresponse()
            assert a.status == 504
            assert json.loads(a.read())["code"] == "OUTCOME_UNKNOWN"
            c.close()
        assert h.proc.wait(PATIENCE) == 0, h.logged()


def test_what_is_never_answered_does_not_hold_up_a_stop():
    """Its end comes before the supervisor would kill the process."""
    asked = [("POST", "/enqueue", '{"queue": "q"}', 504, "OUTCOME_UNKNOWN"),
             ("POST", "/cluster/leave", "{}", 504, "OUTCOME_UNKNOWN"),
             ("GET", "/jobs/job_a", None, 503, "LEADER_UNAVAILABLE"),
             ("POST", "/jobs/search", "{}", 503, "VIEW_UNAVAILABLE")]
    with node("--op-timeout=10m", "--view-wait=1m",
              "--shutdown-timeout=8s") as h, held(h):
        waiting = []
        for method, path, body, *_ in asked:
            c = http.client.HTTPConnection("127.0.0.1", h.port,
                                           timeout=PATIENCE)
            c.request(method, "/api/v1" + path, body)
            waiting.append(c)
        h.proc.send_signal(signal.SIGTERM)
        for c, (*_, status, code) in zip(waiting, asked):
            a = c.getresponse()
            assert (a.status, json.loads(a.read())["code"]) == (status, code)
            c.close()
        assert h.proc.wait(PATIENCE) == 0, h.logged()
        assert "what waits is ended: 4 connections: 4 at work" in h.logged()


def test_a_frame_is_not_told_what_is_wrong_with_anothers(h):
    """They went together, and the other has left since."""
    with node("--stream-max-fps=0") as h, Client(h.port, PATIENCE) as c:
        with held(h):
            one = c.begin("POST", LIFECYCLE, None, GRPC, end=False)
            two = c.begin("POST", LIFECYCLE, None, GRPC, end=False)
            for i, queue in ((one, "crowded"), (two, "b")):
                c.h2.send_data(i, frame(request_id=1, enqueues=[
                    make("LifecycleEnqueueItem", queue=queue)]))
            c.flush()  # in one piece
            assert c.ask("GET", "/healthz").status == 200
            c.reset(one)
            assert c.ask("GET", "/healthz").status == 200
        c.h2.end_stream(two)
        c.flush()
        (_, data), = envelopes(c.answer(two).body)
        got = messages()["LifecycleStreamResponse"].FromString(data)
        assert (got.error, len(got.enqueued_job_ids)) == ("", 1)
