"""Places for calls, at a host and in all: one that is free is for whoever has
jobs, and a call that hangs holds up nobody but itself."""

import threading

import pytest

from node import API, free_port, running, wait_until
from sink import sink


def push(client, queue, url, **members):
    a = client.request("PATCH", f"{API}/queues/{queue}",
                       {"push": {"url": url, **members}})
    assert a.status == 200, a


def ended(client, job_id, state="completed"):
    def look():
        return client.job(job_id)["state"] == state
    wait_until(look, 20, f"{job_id} to be {state}")


class Gate:
    """A receiver that keeps those who call /hang until it is opened."""

    def __init__(self):
        self.opened = threading.Event()
        self.status = 200  # of the others

    def __call__(self, call):
        if call.path == "/hang":
            self.opened.wait(120)
            return 400, {}, b""
        return self.status, {}, b""


@pytest.fixture
def gate():
    g = Gate()
    yield g
    g.opened.set()


def settle(client, dead):
    """What was set before is known to who makes the calls. It says what keeps
    back queues of a host that is left alone, also when there is no room."""
    push(client, "known", dead)
    job_id = client.enqueue("known", max_retries=1)

    def why():
        a = client.get(f"{API}/jobs/{job_id}/why").json
        return [r["code"] for r in a["reasons"]]
    wait_until(lambda: "push_breaker" in why(), what="its reason")


def the_last_is_called(limit, gate, hosts):
    """One call has the only place; then there are queues, and only the last
    of them has a job."""
    dead = f"http://127.0.0.1:{free_port()}/"
    with running(f"--push-{limit}=1", "--push-breaker-failures=1",
                 "--push-breaker-pause=1h") as node, node.client() as client:
        push(client, "dead", dead)
        ended(client, client.enqueue("dead", max_retries=1), "dead")
        push(client, "hangs", hosts[0].url("/hang"))
        job_id = client.enqueue("hangs", max_retries=1)
        wait_until(lambda: hosts[0].of(job_id), what="the call")
        for n in range(6):
            push(client, f"q{n}", hosts[n % len(hosts)].url())
        settle(client, dead)
        gate.opened.set()
        ended(client, job_id, "dead")
        ended(client, client.enqueue("q5"))


def test_a_place_at_a_host_that_one_has_no_use_for_is_for_the_next(gate):
    with sink(gate) as s:
        the_last_is_called("host-concurrency", gate, [s])


def test_a_place_in_all_that_one_has_no_use_for_is_for_the_next(gate):
    with sink(gate) as s, sink(host="127.0.0.2") as other:
        the_last_is_called("max-calls", gate, [s, other])


def test_a_call_that_hangs_keeps_nobody_from_trying_its_host(gate):
    with running("--push-breaker-pause=100ms") as node, \
            node.client() as client, sink(gate) as s:
        push(client, "hangs", s.url("/hang"), timeout="5m")
        push(client, "fails", s.url())
        hangs = client.enqueue("hangs", max_retries=1)
        wait_until(lambda: s.of(hangs), what="the call that hangs")
        gate.status = 500
        for _ in range(5):  # the breaker opens
            ended(client, client.enqueue("fails", max_retries=1), "dead")
        gate.status = 200
        ended(client, client.enqueue("fails"))
        assert client.job(hangs)["state"] == "active"
        gate.opened.set()
        ended(client, hangs, "dead")
