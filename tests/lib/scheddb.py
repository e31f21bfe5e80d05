"""Clients of Scheduled-DB: jobs at the root of the HTTP port."""

import json
import time

from node import API, wait_until

QUEUE = "scheduled-db"


def rfc3339(at):
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + \
        ("%.3f" % (at % 1))[1:] + "Z"


def soon(seconds=0.1):
    """A moment to come, as a text; it is in the future when it arrives."""
    return rfc3339(time.time() + seconds)


def post(client, **members):
    return client.post("/jobs", members)


def create(client, **members):
    a = post(client, **members)
    assert a.status == 200, a
    return a.json


def once(client, url=None, after=0.05, **members):
    """A unico that is due after so many seconds, or more on a machine where a
    request takes as long; its id."""
    if url is not None:
        members["webhook_url"] = url
    while True:
        a = post(client, type="unico", timestamp=soon(after), **members)
        if a.status == 200:
            return a.json["id"]
        assert "must be in the future" in a.json["error"], a
        after *= 2


def status(client, job_id):
    a = client.get(f"/jobs/{job_id}/status")
    assert a.status == 200, a
    return a.json


def wait_for(client, job_id, word, seconds=10.0):
    """Its state, once it has that status."""
    def look():
        s = status(client, job_id)
        return s if s["status"] == word else None
    return wait_until(look, seconds, f"{job_id} to be {word}")


def executions(client, job_id):
    a = client.get(f"/jobs/{job_id}/executions")
    assert a.status == 200, a
    assert a.json["job_id"] == job_id
    return a.json["attempts"]


def health(client):
    a = client.get("/health")
    assert a.status in (200, 503), a
    return a.json


def set_queue(client, **members):
    a = client.request("PATCH", f"{API}/queues/{QUEUE}", members)
    assert a.status == 200, a


def calls_of(s, job_id):
    """Calls of a sink whose body names the job."""
    with s.lock:
        return [c for c in s.calls if json.loads(c.body)["job_id"] == job_id]
