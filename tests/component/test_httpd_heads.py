"""corvo-httpd alone: heads that are large, ambiguous or no HTTP at all."""

import json

import pytest

from httpd_fixture import is_closed, node, read_answer

HEAD_BYTES = 8192  # LIMIT_HEAD_BYTES
ENTRY_BYTES = 64  # LIMIT_HEAD_ENTRY_BYTES
LINE = b"POST /api/v1/enqueue HTTP/1.1\r\n"


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
    start = b"GET /api/v1/info HTTP/1.1\r\nHost: x\r\n" + extra
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
    assert refusal(exchange(
        h, b"GET /api/v1/info HTTP/1.1\r\nCookie: " + cookies + b"\r\n\r\n"
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
    assert exchange(h, b"GET " + path + b" HTTP/1.1\r\n\r\n")[0] == status


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
        assert refusal(read_answer(s.makefile("rb"))) == (
            400, "VALIDATION_ERROR")
        assert is_closed(s)
    assert len(h.backend.seen("request", "enqueue")) == seen


# --- no HTTP --------------------------------------------------------------


# libmicrohttpd answers these before we hear of them; docs/operating.md says
# that only the status counts.
@pytest.mark.parametrize("text,status", [
    (b"GET /healthz\r\n\r\n", 400),
    (b"GET /healthz HTTP/1.1\r\nno colon\r\n\r\n", 400),
    (LINE + b"Content-Length: zz\r\n\r\n", 400),
    (LINE + b"Content-Length: -5\r\n\r\n", 400),
    (LINE + b"Content-Length: 99999999999999999999\r\n\r\n", 413),
    (LINE + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
    (b"GET /healthz HTTP/0.9\r\n\r\n", 505),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    (b"GET /healthz HTTP/1.1\r\nX: " + b"x" * 20000 + b"\r\n\r\n", 431),
    (b"GET /" + b"p" * 20000 + b" HTTP/1.1\r\n\r\n", 414),
])
def test_what_is_no_http_gets_a_status_and_is_closed(h, text, status):
    with h.connect() as s:
        s.sendall(text)
        assert read_answer(s.makefile("rb"))[0] == status
        assert is_closed(s)
    assert h.get("/info").status == 200
