"""corvo-httpd alone: what raftd says when who asked has stopped waiting.

httpd_fixture.py starts it with a raftd and a viewd of canned answers; they are
held while somebody asks, and go on when he waits no longer.
"""

import contextlib
import signal

import pytest

from h2client import Client
from httpd_fixture import PATIENCE, node
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
