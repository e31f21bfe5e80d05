"""corvo-httpd alone: what is refused before its method or route has seen it is
told in the words of what was asked, however it is asked.

httpd_fixture.py starts it with a raftd and a viewd of canned answers.
"""

import base64
import contextlib
import http.client
import itertools
import json
import signal
import socket
import struct

import hpack
import pytest

from h2client import DATA, END_STREAM, HEADERS, Client, Raw, frame
from httpd_fixture import PATIENCE, node
from remote import CODES, END, SERVICE, TRAILERS, envelopes

LONG = 17 << 20  # more than a body or a message may have
LARGE = 12 << 20  # more than there is memory for
FLAGS = ["--client-max-requests-per-second=1",
         "--trusted-proxies=127.0.0.0/8"]
UNARY, STREAM = SERVICE + "Enqueue", SERVICE + "StreamLifecycle"
addresses = (f"192.0.2.{n}" for n in itertools.count(1))

# kind: (status and code over HTTP, code of a call)
KINDS = {
    "rate": (429, "RATE_LIMITED", "resource_exhausted"),
    "size": (413, "BODY_TOO_LARGE", "resource_exhausted"),
    "overload": (429, "OVERLOADED", "resource_exhausted"),
    "timeout": (408, "REQUEST_TIMEOUT", "deadline_exceeded"),
    "draining": (503, "SHUTTING_DOWN", "unavailable"),
}


class Answer:
    def __init__(self, headers, body):
        self.status = int(headers[":status"])
        self.headers, self.body = headers, body


def of_frames(raw):
    """Also behind a GOAWAY, and to what had not been asked completely."""
    headers, body, decoder = {}, b"", hpack.Decoder()
    for kind, flags, stream, payload in raw.frames():
        if kind == HEADERS:
            headers.update(decoder.decode(payload))
        elif kind == DATA:
            body += payload
        if stream == 1 and kind in (HEADERS, DATA) and flags & END_STREAM:
            break
    return Answer(headers, body)


# --- how each says that it is refused: (status, code over HTTP, call's code) --


def as_json(a):
    return a.status, json.loads(a.body)["code"], None


def reason(details):
    """Of google.rpc.ErrorInfo, whose first member it is."""
    data = base64.b64decode(details + "==")
    at = data.index(b"corvo") - 2  # behind it: the domain
    for _, code, _ in KINDS.values():
        if data[:at].endswith(code.encode()):
            return code
    raise AssertionError(data)


def of_connect(a, e):
    return a.status, reason(e["details"][0]["value"]), e["code"]


def as_connect(a):
    assert a.headers["content-type"] == "application/json"
    return of_connect(a, json.loads(a.body))


def as_connect_end(a):
    (flags, data), = envelopes(a.body)
    assert flags == END
    return of_connect(a, json.loads(data)["error"])


def of_grpc(a, rows):
    assert rows["grpc-message"]
    return (a.status, reason(rows["grpc-status-details-bin"]),
            CODES[int(rows["grpc-status"])])


def as_grpc(a):
    assert a.body == b""
    return of_grpc(a, a.headers)


def as_web(a, body=None):
    (flags, data), = envelopes(body or a.body)
    assert flags == TRAILERS
    return of_grpc(a, dict(line.split(": ", 1) for line in
                           data.decode().split("\r\n") if line))


def as_web_text(a):
    return as_web(a, base64.b64decode(a.body))


HTTP = 1  # the status is that of HTTP
CALL = 2  # it is that of the call
OK = 3    # it is 200
STATUS_OF = {"resource_exhausted": 429, "deadline_exceeded": 504,
             "unavailable": 503}

# name: (version, path, Content-Type, how it is read, which status it has)
FORMS = {
    "json": (2, "/api/v1/enqueue", "application/json", as_json, HTTP),
    "json-1": (1, "/api/v1/enqueue", "application/json", as_json, HTTP),
    "connect": (2, UNARY, "application/proto", as_connect, CALL),
    "connect-json": (2, UNARY, "application/json", as_connect, CALL),
    "connect-1": (1, UNARY, "application/proto", as_connect, CALL),
    "connect-stream": (2, STREAM, "application/connect+json", as_connect_end,
                       OK),
    "grpc": (2, UNARY, "application/grpc", as_grpc, OK),
    "grpc-stream": (2, STREAM, "application/grpc+proto", as_grpc, OK),
    "web": (2, UNARY, "application/grpc-web+proto", as_web, OK),
    "web-1": (1, UNARY, "application/grpc-web", as_web, OK),
    "web-text": (2, UNARY, "application/grpc-web-text", as_web_text, OK),
    "web-text-1": (1, UNARY, "application/grpc-web-text", as_web_text, OK),
    "web-stream": (2, STREAM, "application/grpc-web", as_web, OK),
}


def expected(name, kind):
    status, code, rpc = KINDS[kind]
    of = FORMS[name][4]
    return {HTTP: (status, code, None), CALL: (STATUS_OF[rpc], code, rpc),
            OK: (200, code, rpc)}[of]


@contextlib.contextmanager
def asked(port, name, length=None, body=b"", sender=None):
    """Sends a head, and that much of its body. What is yielded waits for the
    answer, and reads it."""
    version, path, kind, read, _ = FORMS[name]
    rows = [("content-type", kind), ("x-forwarded-for",
                                     sender or next(addresses))]
    if length is not None:
        rows.append(("content-length", str(length)))
    if version == 2:
        with Raw(port, PATIENCE) as raw:
            raw.send(raw.request(1, False, path, "POST", rows) + frame(
                DATA, END_STREAM if length == len(body) else 0, 1, body))
            yield lambda: read(of_frames(raw))
        return
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as s:
        s.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\n".encode() +
                  b"".join(f"{k}: {v}\r\n".encode() for k, v in rows) +
                  b"\r\n" + body)
        r = http.client.HTTPResponse(s, method="POST")

        def answer():
            r.begin()
            rows = {k.lower(): v for k, v in r.getheaders()}
            return read(Answer({":status": r.status, **rows}, r.read()))
        yield answer


@pytest.fixture(scope="module")
def h():
    with node(*FLAGS) as httpd:
        yield httpd


def every_form(test):
    return pytest.mark.parametrize("name", FORMS)(test)


def spend(h, sender):
    """All that it may ask for the next seconds: bytes count, too."""
    with Client(h.port, PATIENCE) as c:
        a = c.ask("POST", "/api/v1/enqueue",
                  {"queue": "q", "payload": "x" * 60000},
                  [("content-type", "application/json"),
                   ("x-forwarded-for", sender)])
        assert a.status == 201, a.body


@every_form
def test_over_the_rate(h, name):
    """Nobody waits for the end of a stream to tell it."""
    sender = next(addresses)
    spend(h, sender)
    is_stream = FORMS[name][1] == STREAM
    with asked(h.port, name, None if is_stream else 5, b"12345",
               sender) as answer:
        assert answer() == expected(name, "rate")


@pytest.mark.parametrize("name", [n for n in FORMS if FORMS[n][1] == STREAM])
def test_a_stream_over_the_rate_of_which_nothing_comes(h, name):
    sender = next(addresses)
    spend(h, sender)
    with asked(h.port, name, sender=sender) as answer:
        assert answer() == expected(name, "rate")


@every_form
def test_too_long(h, name):
    """A body by its head; of a stream, a message by that of its envelope."""
    is_stream = FORMS[name][1] == STREAM
    with asked(h.port, name, None if is_stream else LONG,
               struct.pack(">BI", 0, LONG) if is_stream else b"") as answer:
        assert answer() == expected(name, "size")


@pytest.mark.parametrize("name", ["grpc", "web", "web-1"])
def test_a_message_too_long_in_a_short_body(h, name):
    with asked(h.port, name, 5, struct.pack(">BI", 0, LONG)) as answer:
        assert answer() == expected(name, "size")


@pytest.fixture(scope="module")
def full():
    """Half of a message has most of its memory."""
    with node("--http-max-memory=16MiB", "--request-timeout=4m") as httpd, \
            Client(httpd.port, PATIENCE) as c:
        i = c.begin("POST", STREAM, headers=[
            ("content-type", "application/grpc")], end=False)
        c.send(i, struct.pack(">BI", 0, LARGE) + b"x" * (7 << 20), end=False)
        yield httpd


@every_form
def test_no_memory(full, name):
    with asked(full.port, name, LARGE) as answer:
        assert answer() == expected(name, "overload")


def test_it_does_not_come_in_time():
    with contextlib.ExitStack() as stack:
        h = stack.enter_context(node("--request-timeout=1s",
                                     "--trusted-proxies=127.0.0.0/8"))
        answers = {n: stack.enter_context(asked(h.port, n, 100))
                   for n in FORMS}
        for name, answer in answers.items():
            assert answer() == expected(name, "timeout"), name


def test_it_does_not_come_before_the_end():
    with node("--request-timeout=4m") as h:
        with contextlib.ExitStack() as stack:
            answers = {n: stack.enter_context(
                asked(h.port, n, 100, b"" if form[1] == STREAM else b"x"))
                for n, form in FORMS.items()}
            # all have been read when another one is answered
            assert h.request("GET", "/healthz").status == 200
            h.proc.send_signal(signal.SIGTERM)
            for name, answer in answers.items():
                assert answer() == expected(name, "draining"), name
        assert h.proc.wait(PATIENCE) == 0
