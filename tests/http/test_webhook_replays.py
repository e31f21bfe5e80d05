"""Deliveries of webhooks that are replayed while a try of them is under way."""

import threading

import pytest

from node import API, wait_until
from sink import sink

HOOKS = f"{API}/webhooks"


@pytest.fixture
def hook(client):
    names = []

    def make(name, url, **members):
        a = client.post(HOOKS, {"id": name, "url": url, "retry_limit": 20,
                                "events": ["enqueued"],
                                "retry_delay": "1ms", **members})
        assert a.status == 200, a
        names.append(name)
        return name
    yield make
    for name in names:
        client.request("DELETE", f"{HOOKS}/{name}")


class Receiver:
    """Refuses so many calls; then one hangs until it is told what to say."""

    def __init__(self, refuse):
        self.refuse, self.seen = refuse, []
        self.hangs, self.go = threading.Event(), threading.Event()
        self.last = 200

    def __call__(self, call):
        self.seen.append(int(call.headers["x-corvo-attempt"]))
        n = len(self.seen)
        if n <= self.refuse:
            return 500, {}, b""
        if n == self.refuse + 1:
            self.hangs.set()
            self.go.wait(120)
            return self.last, {}, b""
        return 200, {}, b""


def state(client, name):
    a = client.get(f"{HOOKS}/{name}")
    assert a.status == 200, a
    return a.json


def settle(client, hook, queue):
    """Who delivers has heard of all that was changed before."""
    with sink() as s:
        name = hook("settle", s.url(), queues=[queue + "-settle"])
        client.enqueue(queue + "-settle")
        wait_until(lambda: s.calls, what="the delivery")
        client.request("DELETE", f"{HOOKS}/{name}")


@pytest.mark.parametrize("last", [200, 500])
@pytest.mark.parametrize("replay", ["one", "time"])
@pytest.mark.parametrize("refuse", [1, 3])
def test_it_is_made_again_when_the_try_has_ended(client, hook, queue, refuse,
                                                 replay, last):
    r = Receiver(refuse)
    r.last = last
    with sink(r) as s:
        hook("w", s.url(), queues=[queue], timeout="2m")
        client.enqueue(queue)
        assert r.hangs.wait(60)
        (d,) = client.get(f"{HOOKS}/w/deliveries?limit=1").json["deliveries"]
        wait_until(lambda: state(client, "w")["lag"] == 0, what="its place")
        a = client.post(f"{HOOKS}/w/deliveries/{d['seq']}/replay") \
            if replay == "one" else \
            client.post(f"{HOOKS}/w/replay", {"from": "2020-01-01T00:00:00Z"})
        assert a.status == 200 and a.json["status"] == "replaying", a
        settle(client, hook, queue)
        r.go.set()
        wait_until(lambda: state(client, "w")["pending"] == 0 and
                   "replay_to" not in state(client, "w"),
                   what="nothing to be pending")
        assert r.seen[:refuse + 1] == list(range(1, refuse + 2))
        assert 1 in r.seen[refuse + 1:]  # from the first try on
        w = state(client, "w")
        assert w["delivered"] >= 1 and w["failed"] == 0, w
