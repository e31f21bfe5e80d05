"""A push queue that is changed: a job enqueued after the answer is called as
the answer said, whatever sched knew a moment before."""

import contextlib
import os
import signal

from node import API, wait_until
from sink import sink

ROUNDS = 20


@contextlib.contextmanager
def late(node):
    """sched hears of all that happens meanwhile at once, in its order."""
    pid = node.pids()["sched"]
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def patch(client, queue, push):
    a = client.request("PATCH", f"{API}/queues/{queue}", {"push": push})
    assert a.status == 200, a


def test_what_is_enqueued_after_a_change_is_called_as_it_says(client, node,
                                                              queue):
    def completed(n):
        return client.get(f"{API}/queues/{queue}").json["completed"] == n

    with sink() as s:
        patch(client, queue, {"url": s.url("/0")})
        for n in range(1, ROUNDS + 1):
            # its fetch waits when the next job comes
            client.enqueue(queue)
            wait_until(lambda k=n: completed(2 * k - 1), what="a call")
            with late(node):
                patch(client, queue, {"url": s.url(f"/{n}"),
                                      "headers": {"X-Round": str(n)}})
                job_id = client.enqueue(queue)
            wait_until(lambda k=n: completed(2 * k), what="the next one")
            (call,) = s.of(job_id)
            assert call.path == f"/{n}"
            assert call.headers["x-round"] == str(n)


def test_a_queue_that_is_pushed_no_more_calls_nothing(client, node, queue):
    with sink() as s:
        for n in range(ROUNDS // 2):
            q = f"{queue}-{n}"
            patch(client, q, {"url": s.url()})
            first = client.enqueue(q)
            wait_until(lambda: s.of(first), what="a call")
            with late(node):
                patch(client, q, None)
                job_id = client.enqueue(q)
            # it waits for a worker, with all its attempts
            a = client.post(f"{API}/fetch", {"queues": [q], "timeout": 30})
            assert a.status == 200 and a.json["attempt"] == 1, a
            assert a.json["job_id"] == job_id and s.of(job_id) == []
            assert client.post(f"{API}/ack/{job_id}").status == 200
