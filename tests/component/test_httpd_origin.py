"""corvo-httpd alone: what a web page can make a browser send."""

import pytest

from httpd_fixture import free_port, node

ENQUEUE = '{"queue":"q"}'
EVIL = "http://evil.example"


@pytest.fixture(scope="module")
def h():
    with node("--allowed-hosts=queue.example, other.example:99",
              "--cors-origins=https://ui.example, http://two.example:8000"
              ) as n:
        yield n


def ask(h, method="GET", path="/api/v1/info", body=None, **headers):
    return h.request(method, path, body,
                     {k.replace("_", "-"): v for k, v in headers.items()})


@pytest.mark.parametrize("host", [
    "localhost", "LocalHost:8080", "127.0.0.1", "127.1.2.3:1", "[::1]:8080",
    "[::ffff:127.0.0.1]", "a.localhost:8080", "queue.example",
    "queue.example:8080", "QUEUE.example", "other.example:99"])
def test_names_of_this_machine_and_allowed_ones_are_served(h, host):
    assert ask(h, Host=host).status == 200


@pytest.mark.parametrize("host", [
    "evil.example", "127.0.0.1.evil.example", "localhost.evil.example",
    "xlocalhost", "10.0.0.1", "128.0.0.1", "[::2]", "[fe80::1]", "[::1",
    "other.example", "queue.example.evil", "1", "0x7f000001", ""])
def test_other_names_are_misdirected(h, host):
    """A name whose address was changed to ours under a page."""
    seen = len(h.backend.seen("request"))
    assert ask(h, Host=host).error() == (421, "MISDIRECTED")
    assert ask(h, "POST", "/api/v1/enqueue", ENQUEUE,
               Host=host).error() == (421, "MISDIRECTED")
    assert len(h.backend.seen("request")) == seen


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_probes_are_asked_by_any_name(h, path):
    assert ask(h, path=path, Host="10.1.2.3:8080").status != 421


def test_only_listed_origins_may_read(h):
    for origin in ["https://ui.example", "http://two.example:8000"]:
        for method in ["GET", "OPTIONS"]:
            a = ask(h, method, Origin=origin)
            assert a.status == 200
            assert a.headers["Access-Control-Allow-Origin"] == origin
            assert a.headers["Vary"] == "Origin"
            assert "PUT" in a.headers["Access-Control-Allow-Methods"]
            assert "X-API-Key" in a.headers["Access-Control-Allow-Headers"]
    for origin in [EVIL, "http://ui.example", "https://ui.example:444",
                   "null", ""]:
        for method in ["GET", "OPTIONS"]:
            a = ask(h, method, Origin=origin)
            assert "Access-Control-Allow-Origin" not in a.headers


@pytest.mark.parametrize("kind", [
    None, "text/plain", "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x", "application/jsonx", ""])
@pytest.mark.parametrize("body", [ENQUEUE, None])
def test_a_form_of_another_page_is_refused(h, kind, body):
    """Browsers send these without asking."""
    seen = len(h.backend.seen("request"))
    headers = {"Origin": EVIL}
    if kind is not None:
        headers["Content-Type"] = kind
    for path in ["/enqueue", "/queues/q/pause"]:
        a = h.request("POST", "/api/v1" + path, body, headers)
        assert a.error() == (415, "UNSUPPORTED_MEDIA_TYPE")
    assert len(h.backend.seen("request")) == seen


@pytest.mark.parametrize("headers", [
    {},
    {"Content-Type": "text/plain"},
    {"Origin": EVIL, "Content-Type": "application/json; charset=utf-8"},
    {"Origin": "https://ui.example", "Content-Type": "text/plain"},
    {"Origin": "http://localhost:1", "Host": "localhost:1"},
])
def test_those_who_may_send_are_served(h, headers):
    """Without an origin; with leave; our own pages."""
    a = h.request("POST", "/api/v1/enqueue", ENQUEUE, headers)
    assert a.status == 201


def test_any_name_and_origin_by_a_star():
    with node("--allowed-hosts=*", "--cors-origins=*") as n:
        a = ask(n, Host="anything", Origin=EVIL)
        assert a.status == 200
        assert a.headers["Access-Control-Allow-Origin"] == EVIL


def test_an_address_that_was_opened_takes_any_name():
    port = free_port()
    with node("--open=true", f"--bind=0.0.0.0:{port}") as n:
        n.port = port
        assert ask(n, Host="queue.example").status == 200
