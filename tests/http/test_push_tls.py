"""Receivers over TLS: whom they are is checked, and HTTP/2 is used where they
have it, many calls on one connection."""

from h2sink import certificate, h2sink
from node import API, wait_until


def ended(client, job_id):
    def look():
        job = client.get(f"{API}/jobs/{job_id}").json
        return job if job["state"] in ("dead", "completed") else None
    return wait_until(look, what=f"the end of {job_id}")


def push(client, queue, url):
    a = client.request("PATCH", f"{API}/queues/{queue}",
                       {"push": {"url": url}})
    assert a.status == 200, a


def test_calls_share_a_connection_of_http_2(make_node, tmp_path):
    cert, key = certificate(tmp_path, "good")
    node = make_node()
    node.start(f"--push-ca-file={cert}")
    with h2sink(cert, key) as s, node.client() as c:
        push(c, "two", s.url())
        assert ended(c, c.enqueue("two"))["state"] == "completed"
        ids = c.post(f"{API}/enqueue/batch",
                     {"jobs": [{"queue": "two"}] * 100}).json["job_ids"]
        for job_id in ids:
            job = ended(c, job_id)
            assert job["state"] == "completed", job
            assert job["response"]["status"] == 204
        assert len(s.calls) == 101
        # one, or another when the first is said to be used up
        assert s.connections <= 4, s.connections
        assert max(stream for _, stream in s.calls) > 1


def test_who_cannot_show_who_it_is_is_not_called(make_node, tmp_path):
    good, _ = certificate(tmp_path, "good")
    bad, bad_key = certificate(tmp_path, "bad")
    other, other_key = certificate(tmp_path, "other", "127.9.9.9")
    node = make_node()
    both = tmp_path / "both.pem"
    both.write_text(good.read_text() + other.read_text())
    node.start(f"--push-ca-file={both}")
    with node.client() as c:
        for name, cert, key in (("bad", bad, bad_key),
                                ("other", other, other_key)):
            with h2sink(cert, key) as s:
                push(c, name, s.url())
                job = ended(c, c.enqueue(name, max_retries=1))
                assert job["state"] == "dead", job
                e = job["errors"][0]["response"]
                assert e["error_class"] == "tls_error", e
                assert s.calls == []
