"""Where a receiver sends a call on to: what is secret is not kept with what was
called, and there is an end to how long a URL may be."""

import base64
import json

from node import API, wait_until
from sink import sink


def basic(text):
    return "Basic " + base64.b64encode(text.encode()).decode()


def push(client, queue, url):
    a = client.request("PATCH", f"{API}/queues/{queue}",
                       {"push": {"url": url, "redirects": True}})
    assert a.status == 200, a


def ended(client, job_id, state="completed"):
    def look():
        job = client.job(job_id)
        return job if job["state"] == state else None
    return wait_until(look, what=f"{job_id} to be {state}")


def to(location):
    """A receiver whose /from leads there."""
    def answer(call):
        if call.path == "/from":
            return 307, {"Location": location}, b""
        return 200, {}, b""
    return answer


def test_credentials_go_along_and_are_not_kept(client, queue):
    for location in ("/to", "to?a=b", "//127.0.0.1:{}/to"):
        with sink() as s:
            s.answer = to(location.format(s.port))
            push(client, queue, f"http://me:s3cr3t@127.0.0.1:{s.port}/from")
            job_id = client.enqueue(queue)
            job = ended(client, job_id)
            first, second = s.of(job_id)
            assert first.headers["authorization"] == basic("me:s3cr3t")
            assert second.headers["authorization"] == basic("me:s3cr3t")
            assert job["response"]["url"] == s.url(second.path)
            assert "s3cr3t" not in json.dumps(job)


def test_credentials_that_a_receiver_names_are_not_used(client, queue):
    with sink() as there:
        with sink(to(f"http://a:b@127.0.0.1:{there.port}/to")) as s:
            push(client, queue, s.url("/from"))
            job_id = client.enqueue(queue)
            job = ended(client, job_id)
            (call,) = there.of(job_id)
            assert "authorization" not in call.headers
            assert job["response"]["url"] == there.url("/to")


def test_a_url_that_is_too_long_is_not_followed(client, queue):
    with sink(to("/" + "x" * 2048)) as s:
        push(client, queue, s.url("/from"))
        job_id = client.enqueue(queue, max_retries=1)
        job = ended(client, job_id, "dead")
        assert "answered 307" in job["errors"][0]["error"], job
        assert job["errors"][0]["response"]["url"] == s.url("/from")
        assert len(s.of(job_id)) == 1
    with sink() as s:
        last = "/" + "x" * (2048 - len(s.url("/")))
        s.answer = to(last)
        push(client, queue, s.url("/from"))
        job_id = client.enqueue(queue)
        assert ended(client, job_id)["response"]["url"] == s.url(last)


def test_what_is_no_url_is_not_called(client, queue):
    for location in ("ftp://127.0.0.1/", "http://a_b:0/", "http://[::1/"):
        with sink(to(location)) as s:
            push(client, queue, s.url("/from"))
            job_id = client.enqueue(queue, max_retries=1)
            error = ended(client, job_id, "dead")["errors"][0]["error"]
            assert error.startswith("http_error: "), error
            assert len(s.of(job_id)) == 1
