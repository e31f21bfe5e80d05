"""Addresses that push queues must not call, on a node that others could reach:
there loopback is not allowed either."""

from node import API, wait_until
from sink import sink

CLOSED = ["127.0.0.1", "127.1.2.3", "[::1]", "[::ffff:127.0.0.1]",
          "[::ffff:7f00:1]", "localhost", "2130706433", "0x7f.1", "0177.0.0.1",
          "0.0.0.0", "[::]", "10.0.0.1", "172.16.0.1", "192.168.0.1",
          "169.254.169.254", "[fe80::1]", "[fd00:ec2::254]",
          "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "100.100.100.200"]


def called(client, queue, url):
    a = client.request("PATCH", f"{API}/queues/{queue}",
                       {"push": {"url": url, "timeout": "2s"}})
    assert a.status == 200, a
    job_id = client.enqueue(queue, max_retries=1)

    def look():
        job = client.get(f"{API}/jobs/{job_id}").json
        return job if job["state"] in ("dead", "completed") else None
    return wait_until(look, what=f"the end of {job_id}")


def test_addresses_that_must_not_be_called(make_node):
    node = make_node()
    with sink() as s:
        node.start("--open", f"--bind=0.0.0.0:{node.port}",
                   "--push-breaker-failures=1000000")
        with node.client() as c:
            for n, host in enumerate(CLOSED):
                job = called(c, f"q{n}", f"http://{host}:{s.port}/")
                assert job["state"] == "dead", (host, job)
                assert "may not be called" in job["last_error"], (host, job)
        assert s.calls == []


def test_redirects_do_not_lead_there(make_node):
    node = make_node()
    with sink() as inside:
        with sink(lambda call: (307, {"Location": inside.url()}, b""),
                  host="127.0.0.2") as s:
            node.start("--open", f"--bind=0.0.0.0:{node.port}",
                       "--push-allow=127.0.0.2")
            with node.client() as c:
                a = c.request("PATCH", f"{API}/queues/q", {
                    "push": {"url": s.url(), "redirects": True}})
                assert a.status == 200, a
                job = called(c, "q", s.url())
                assert job["state"] == "dead", job
                assert "127.0.0.1 may not be called" in job["last_error"], job
                assert len(s.calls) == 1 and inside.calls == []


def test_what_is_allowed_by_network_and_by_name(make_node):
    node = make_node()
    with sink() as s, sink(host="127.0.0.2") as other:
        node.start("--open", f"--bind=0.0.0.0:{node.port}",
                   "--push-allow=127.0.0.2/32,localhost")
        with node.client() as c:
            assert called(c, "a", other.url())["state"] == "completed"
            assert called(c, "b", f"http://localhost:{s.port}/")["state"] == \
                "completed"
            assert called(c, "c", s.url())["state"] == "dead"


def test_the_flag_may_be_given_again(make_node):
    node = make_node()
    with sink() as s, sink(host="127.0.0.2") as other:
        node.start("--open", f"--bind=0.0.0.0:{node.port}",
                   "--push-allow=127.0.0.2/32", "--push-allow=localhost")
        with node.client() as c:
            assert called(c, "a", other.url())["state"] == "completed"
            assert called(c, "b", f"http://localhost:{s.port}/")["state"] == \
                "completed"
            assert called(c, "c", s.url())["state"] == "dead"


def test_webhooks_do_not_lead_there_either(make_node):
    node = make_node()
    with sink() as s:
        node.start("--open", f"--bind=0.0.0.0:{node.port}")
        with node.client() as c:
            a = c.post(f"{API}/webhooks", {"id": "w", "url": s.url(),
                                           "events": ["enqueued"]})
            assert a.status == 200, a
            c.enqueue("q")
            wait_until(lambda: "last_error" in c.get(
                f"{API}/webhooks/w").json, what="the first try")
            assert "may not be called" in c.get(
                f"{API}/webhooks/w").json["last_error"]
        assert s.calls == []
