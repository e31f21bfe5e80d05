"""corvo-httpd alone: heads that are large, ambiguous or no HTTP at all."""

import json

import pytest

from httpd_fixture import is_closed, node, read_answer

HEAD_BYTES = 8192  # LIMIT_HEAD_BYTES
ENTRY_BYTES = 64  # LIMIT_HEAD_ENTRY_BYTES
INFO = b"GET /api/v1/info HTTP/1.1\r\nHost: localhost\r\n"
LINE = b"POST /api/v1/enqueue HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture(scope="module")
def h():
    with node() as httpd:
        yield httpd


def exchange(h, data):
    with h.connect() as s:
        s.sendall(data)
        answer = read_answer(s.makefile("rb"))
        assert answer is not None, "closed without an answer"
        return answer


def refusal(answer):
    status, headers, body = answer
    assert headers["content-type"] == "application/json"
    assert headers["connection"] == "close"
    return status, json.loads(body)["code"]


# --- size -----------------------------------------------------------------


def head(size, names, extra=b""):
    """A GET whose head counts as `size` bytes, spread over `names`."""
    start = b"GET /api/v1/info HTTP/1.1\r\nHost: localhost\r\n" + extra
    bare = b"".join(b"X-%02d: \r\n" % i for i in range(names))
    used = len(start + bare) + 2 + ENTRY_BYTES * (
        start.count(b"\r\n") - 1 + names)
    each, more = divmod(size - used, names)
    lines = [b"X-%02d: %s\r\n" % (i, b"x" * (each + (more if i == 0 else 0)))
             for i in range(names)]
    return start + b"".join(lines) + b"\r\n"


@pytest.mark.parametrize("extra", [b"", b"Origin: http://ui\r\n"])
@pytest.mark.parametrize("names", [1, 7, 60])
def test_a_head_of_the_largest_size_is_served(h, names, extra):
    assert exchange(h, head(HEAD_BYTES, names, extra))[0] == 200
    too_large = exchange(h, head(HEAD_BYTES + 1, names, extra))
    assert refusal(too_large) == (431, "HEAD_TOO_LARGE")


def test_every_size_of_head_is_answered(h):
    """The answer's head needs room, too, beside that of the request."""
    for size in range(HEAD_BYTES - 512, HEAD_BYTES + 4096, 64):
        status = exchange(h, head(size, 3))[0]
        assert status == (200 if size <= HEAD_BYTES else 431), size


def test_cookies_and_arguments_count(h):
    cookies = b"; ".join(b"c%02d=%s" % (i, b"v" * 90) for i in range(34))
    assert refusal(exchange(h, INFO + b"Cookie: " + cookies + b"\r\n\r\n"
                            )) == (431, "HEAD_TOO_LARGE")
    arguments = b"&".join(b"a%d=1" % i for i in range(110))
    assert refusal(exchange(
        h, b"GET /api/v1/info?" + arguments + b" HTTP/1.1\r\n"
        b"X: " + b"x" * 1000 + b"\r\n\r\n")) == (431, "HEAD_TOO_LARGE")


def test_refused_requests_are_counted(h):
    def refused():
        row = 'corvo_http_request_errors_total{method="any",route="unmatched"} '
        text = h.get("/metrics").body.decode()
        return int((text.split(row) + ["0\n"])[1].split("\n")[0])

    before = refused()
    exchange(h, head(HEAD_BYTES + 1, 1))
    exchange(h, LINE + b"Content-Length: %d\r\n\r\n" % (17 << 20))
    assert refused() == before + 2
    assert "corvo_http_requests_in_flight 1\n" in \
        h.get("/metrics").body.decode()


@pytest.mark.parametrize("n,status", [(4096, 404), (4097, 414), (7000, 414)])
def test_length_of_the_request_line(h, n, status):
    path = b"/" + b"p" * (n - 1)
    assert exchange(h, b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
                    )[0] == status


# --- the length of a body -------------------------------------------------


@pytest.mark.parametrize("headers", [
    b"Content-Length: 13\r\nContent-Length: 13\r\n",
    b"Content-Length: 13\r\nContent-Length: 2\r\n",
    b"Content-Length: 13\r\nTransfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: gzip\r\n",
    b"Transfer-Encoding: gzip, chunked\r\n",
])
def test_a_body_of_doubtful_length_is_refused(h, headers):
    """It could hide a second request from a proxy on the way."""
    seen = len(h.backend.seen("request", "enqueue"))
    with h.connect() as s:
        s.sendall(LINE + headers + b'\r\n{"queue":"q"}')
        assert refusal(read_answer(s.makefile("rb"))) == (400, "BAD_REQUEST")
        assert is_closed(s)
    assert len(h.backend.seen("request", "enqueue")) == seen


# --- no HTTP --------------------------------------------------------------


@pytest.mark.parametrize("text,status", [
    (b"GET /healthz\r\n\r\n", 400),
    (b"GET /healthz HTTP/1.1\r\nno colon\r\n\r\n", 400),
    (LINE + b"Content-Length: zz\r\n\r\n", 400),
    (LINE + b"Content-Length: -5\r\n\r\n", 400),
    (LINE + b"Content-Length: 99999999999999999999\r\n\r\n", 413),
    (LINE + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
    (b"GET /healthz HTTP/0.9\r\n\r\n", 505),
    (b"PRI * HTTP/2.0\r\n\r\nSMM\r\n\r\n", 505),
    (b"GET /healthz HTTP/1.1\r\nX: " + b"x" * 20000 + b"\r\n\r\n", 431),
    (b"GET /" + b"p" * 20000 + b" HTTP/1.1\r\n\r\n", 414),
])
def test_what_is_no_http_gets_a_status_and_is_closed(h, text, status):
    with h.connect() as s:
        s.sendall(text)
        assert refusal(read_answer(s.makefile("rb"))) == (status, {
            400: "BAD_REQUEST", 413: "BODY_TOO_LARGE", 414: "URI_TOO_LONG",
            431: "HEAD_TOO_LARGE", 505: "HTTP_VERSION"}[status])
        assert is_closed(s)
    assert h.get("/info").status == 200


# --- one request that looks like two --------------------------------------


HIDDEN = b"DELETE /api/v1/queues/q?confirm=true HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize("header", [
    b"Content-Length : %d", b"Content-Length\t: %d", b" Content-Length: %d",
    b"X: y\r\n Content-Length: %d", b"X: y\0\r\nContent-Length: %d",
    b"Content-Length: %d\0", b"X: y\nContent-Length: %d",
    b"X: y\rContent-Length: %d", b"Content\0-Length: %d",
])
def test_a_request_hidden_in_a_body_is_not_run(h, header):
    """It is a body to whoever reads the length otherwise."""
    seen = len(h.backend.seen("request"))
    with h.connect() as s:
        s.sendall(LINE + header % len(HIDDEN) + b"\r\n\r\n" + HIDDEN)
        file = s.makefile("rb")
        assert refusal(read_answer(file)) == (400, "BAD_REQUEST")
        assert file.read() == b""  # told once
    assert len(h.backend.seen("request")) == seen


def test_what_stands_before_a_bad_request_is_served(h):
    with h.connect() as s:
        s.sendall((INFO + b"\r\n") * 3 + b"GET / HTTP/1.1\r\nHost : x\r\n\r\n")
        file = s.makefile("rb")
        for _ in range(3):
            assert read_answer(file)[0] == 200
        assert refusal(read_answer(file)) == (400, "BAD_REQUEST")
        assert file.read() == b""


def test_a_bad_request_while_another_waits(h):
    """It comes in the same piece as one that is answered later."""
    with h.connect() as s:
        s.sendall(LINE + b"Content-Length: 13\r\n\r\n" + b'{"queue":"q"}' +
                  b"GET / HTTP/1.1\r\n\r\n")
        file = s.makefile("rb")
        assert read_answer(file)[0] == 201
        assert refusal(read_answer(file)) == (400, "BAD_REQUEST")
        assert file.read() == b""


def test_an_absolute_url_is_served(h):
    """As RFC 9112 wants it, also of a server that is no proxy."""
    assert exchange(h, b"GET http://localhost/api/v1/info HTTP/1.1\r\n"
                    b"Host: localhost\r\n\r\n")[0] == 200


@pytest.mark.parametrize("arguments", [110, 150, 500, 1000])
def test_too_many_arguments_are_told(h, arguments):
    query = b"&".join(b"a=1" for _ in range(arguments))
    assert refusal(exchange(
        h, b"GET /api/v1/info?" + query + b" HTTP/1.1\r\nHost: x\r\nX: " +
        b"x" * 1000 + b"\r\n\r\n")) == (431, "HEAD_TOO_LARGE")


@pytest.mark.parametrize("coding,status", [
    (b"gzip", 415), (b"br", 415), (b"gzip, identity", 415),
    (b"identity", 201), (b"Identity", 201), (b"", 201),
])
def test_a_packed_body_is_refused(h, coding, status):
    answer = exchange(h, LINE + b"Content-Encoding: " + coding +
                      b"\r\nContent-Length: 13\r\n\r\n" + b'{"queue":"q"}')
    assert answer[0] == status
    if status == 415:
        assert json.loads(answer[2])["code"] == "UNSUPPORTED_ENCODING"


def test_a_packed_body_is_not_waited_for(h):
    assert refusal(exchange(
        h, LINE + b"Content-Encoding: gzip\r\nContent-Length: 1000000\r\n\r\n"
    )) == (415, "UNSUPPORTED_ENCODING")


# --- the cost of hostile bytes --------------------------------------------


CHUNKED = LINE + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("data", [
    CHUNKED + b"1;" + b"x" * 60000,
    CHUNKED + b"0" * 60000,
    CHUNKED + b"0\r\nX: " + b"x" * 60000,
    CHUNKED + b"1\r\nx\r\n" * 5000,
    LINE + b"X: " + b"x" * 60000,
    b"GET /" + b"x" * 60000,
    b"\r\n" * 30000,
    LINE + b"Content-Length: 100000\r\n\r\n" + b"x" * 60000,
], ids=["extension", "size", "trailer", "chunks", "header", "path", "lines",
        "half a body"])
def test_hostile_bytes_cost_little_also_when_the_client_leaves(h, data):
    """No loop goes on for bytes nobody will complete."""
    rounds = 10
    before = h.cpu_seconds()
    for _ in range(rounds):
        with h.connect() as s:
            s.sendall(data)
    waited = h.cpu_seconds()
    # a pause in which a loop would have been busy
    for _ in range(20):
        assert h.get("/info").status == 200
    with h.connect() as s:
        s.settimeout(0.5)
        with pytest.raises(TimeoutError):
            s.recv(1)
    assert (waited - before) / rounds < 0.05
    assert h.cpu_seconds() - waited < 0.4
