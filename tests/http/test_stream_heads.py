"""A stream's answer begins when the stream opens, before anything has come but
its head; and one that stays like that has an end and keeps nobody out."""

import contextlib
import json

import grpc
import pytest

from h2client import Client
from node import wait_until
from remote import END, SERVICE, envelope, envelopes, make
from test_streams_grpc import Stream
from waiting import patience

S = 20  # seconds an answer may take on an idle machine
LIFECYCLE = SERVICE + "StreamLifecycle"
REFLECTION = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
GRPC = [("content-type", "application/grpc"), ("te", "trailers")]
CONNECT = [("content-type", "application/connect+json")]
FRAME = envelope(0, make("LifecycleStreamRequest",
                         request_id=7).SerializeToString())
FRAMES = {"grpc": FRAME, "connect": envelope(0, b'{"requestId":"7"}')}
KINDS = [pytest.param(GRPC, id="grpc"), pytest.param(CONNECT, id="connect")]


def opened(c, headers=None, path=LIFECYCLE):
    """The stream's number; its answer has begun."""
    i = c.begin("POST", path, headers=headers or GRPC, end=False)
    while not c.answers[i].headers:
        assert c.read()
    return i


def refused(answer):
    """(code, text) of one whose head said 200."""
    assert answer.over and answer.status == 200, answer.headers
    if "grpc-status" in answer.headers:
        return answer.headers["grpc-status"], answer.headers["grpc-message"]
    (flags, data), = envelopes(answer.body)
    assert flags == END
    e = json.loads(data)["error"]
    return e["code"], e["message"]


@pytest.mark.parametrize("path", [LIFECYCLE, REFLECTION])
@pytest.mark.parametrize("headers", KINDS)
def test_the_head_of_the_answer_comes_when_the_stream_opens(node, headers,
                                                            path):
    with Client(node.port, patience(S)) as c:
        i = opened(c, headers, path)
        a = c.answers[i]
        assert a.status == 200 and a.body == b"" and not a.over
        assert a.headers["content-type"].startswith(headers[0][1])
        assert "grpc-status" not in a.headers


@pytest.mark.parametrize("headers", KINDS)
def test_it_goes_on_as_it_would(node, headers):
    with Client(node.port, patience(S)) as c:
        i = opened(c, headers)
        c.send(i, FRAMES["grpc" if headers is GRPC else "connect"], end=False)
        while not c.answers[i].body:
            assert c.read()
        c.send(i, b"", end=True)
        a = c.answer(i)
        assert a.over
        flags, data = envelopes(a.body)[0]
        assert flags == 0 and b"7" in data or data == b"\x08\x07"
        # and one that ends without a message, too
        i = opened(c, headers)
        c.send(i, b"", end=True)
        a = c.answer(i)
        assert a.over and a.headers.get("grpc-status", "0") == "0"


def test_a_client_of_grpc_may_wait_for_the_head(node):
    """As those do that look at the metadata before they send."""
    with grpc.insecure_channel(f"127.0.0.1:{node.port}") as channel:
        s = Stream(channel)
        assert s.call.initial_metadata() is not None
        assert s.ask(request_id=3).request_id == 3
        assert s.end() is None


def test_what_is_wrong_with_the_head_is_told_at_once(node):
    with Client(node.port, patience(S)) as c:
        i = opened(c, [("content-type", "text/plain")])
        assert c.answer(i).status == 415
        i = opened(c, GRPC + [("grpc-encoding", "snappy")])
        assert c.answer(i).headers["grpc-status"] == "12"
        i = opened(c, GRPC + [("grpc-timeout", "soon")])
        assert c.answer(i).headers["grpc-status"] == "3"


@pytest.mark.parametrize("headers", KINDS)
def test_without_a_message_it_ends_in_its_own_form(make_node, headers):
    node = make_node("--request-timeout=1s").start()
    with Client(node.port, patience(S)) as c:
        code, _ = refused(c.answer(opened(c, headers)))
        assert code == ("4" if headers is GRPC else "deadline_exceeded")


def test_heads_alone_keep_no_stream_out(make_node):
    node = make_node("--stream-max-open=2", "--request-timeout=4m").start()
    with contextlib.ExitStack() as stack:
        crowd = [stack.enter_context(Client(node.port, patience(S)))
                 for _ in range(3)]
        silent = [(c, opened(c)) for c in crowd for _ in range(60)]
        c = stack.enter_context(Client(node.port, patience(S)))
        for _ in range(2):
            i = opened(c)
            c.send(i, FRAME, end=False)
            while not c.answers[i].body:
                assert c.read()
        # now there are as many as may be: the others hear of it
        late, i = silent[0]
        late.send(i, FRAME, end=False)
        code, text = refused(late.answer(i))
        assert code == "8" and "too many open lifecycle streams" in text
        answer = c.answer(c.begin("POST", LIFECYCLE, headers=GRPC, end=False))
        assert answer.headers["grpc-status"] == "8", answer.headers
        with node.client() as client:
            assert client.metrics()["corvo_rpc_streams_open"] == 2


def test_the_oldest_make_room_and_are_told(make_node):
    node = make_node("--max-connections=40", "--request-timeout=4m").start()
    with contextlib.ExitStack() as stack:
        crowd = [stack.enter_context(Client(node.port, patience(S)))
                 for _ in range(2)]
        first = opened(crowd[0])
        for i in range(60):
            opened(crowd[i % 2])
        code, text = refused(crowd[0].answer(first))
        assert code == "8" and "had not come completely" in text
        c = stack.enter_context(Client(node.port, patience(S)))
        i = opened(c)
        c.send(i, FRAME, end=False)
        while not c.answers[i].body:
            assert c.read()


def test_they_hold_next_to_nothing(make_node):
    """Thousands of them, in the memory that requests have."""
    node = make_node("--request-timeout=4m").start()
    with contextlib.ExitStack() as stack, node.client() as client:
        before = client.metrics()["corvo_http_memory_bytes"]
        for _ in range(30):
            c = stack.enter_context(Client(node.port, patience(S)))
            for _ in range(100):
                c.begin("POST", LIFECYCLE, headers=GRPC, end=False)
        wait_until(lambda: client.metrics()["corvo_lifecycle_streams_open"]
                   >= 3000, 60, "all of them")
        held = client.metrics()["corvo_http_memory_bytes"] - before
        assert held < 3000 * 8192
