"""What a refusal promises: 503 was not carried out and never will be; what may
have been, or may be yet, is 504 OUTCOME_UNKNOWN."""

import os
import signal
import threading

import pytest

from node import API, wait_until

OP_TIMEOUT_S = 1.0


@pytest.fixture
def node(make_node):
    """Nobody but the test ends a raftd that is stopped or slow."""
    n = make_node(f"--op-timeout={OP_TIMEOUT_S}s", "--stopped-timeout=10m",
                  "--watchdog-timeout=10m")
    n.start()
    wait_until(n.has_view, 60, "the view to answer")
    return n


class Crowd:
    """Requests sent side by side, each on its own connection."""

    def __init__(self, node, requests):
        self.answers = [None] * len(requests)
        self.threads = [
            threading.Thread(target=self.ask, args=(node, i, *r), daemon=True)
            for i, r in enumerate(requests)]
        for t in self.threads:
            t.start()

    def ask(self, node, i, path, body):
        with node.client() as c:
            self.answers[i] = c.post(API + path, body)

    def wait(self):
        for t in self.threads:
            t.join(60)
        assert None not in self.answers
        return self.answers


def check_form(answer):
    """Says what it is, and when to come again."""
    assert (answer.status, answer.code) in [
        (503, "LEADER_UNAVAILABLE"), (504, "OUTCOME_UNKNOWN")], answer
    assert int(answer.headers["Retry-After"]) >= 1


def can_write(node):
    with node.client() as c:
        return c.post(f"{API}/enqueue", {"queue": "probe"}).status == 201


def jobs_in(node, queue):
    with node.client() as c:
        return c.search(queue=queue)["total"]


def batch(queue):
    return {"jobs": [{"queue": queue} for _ in range(3)]}


def test_nothing_refused_is_carried_out_after_a_pause_of_raftd(node):
    raftd = node.pids()["raftd"]
    asked = [("/enqueue/batch", batch(f"pause.{i}")) if i % 2 else
             ("/enqueue", {"queue": f"pause.{i}"}) for i in range(10)]
    os.kill(raftd, signal.SIGSTOP)
    try:
        answers = Crowd(node, asked).wait()
    finally:
        os.kill(raftd, signal.SIGCONT)
    wait_until(lambda: can_write(node), 60, "writes to be taken again")
    for i, a in enumerate(answers):
        check_form(a)
        there = jobs_in(node, f"pause.{i}")
        assert a.status == 504 or there == 0, (i, a, there)
    # what came out of the socket after its deadline was not done any more
    assert sum(jobs_in(node, f"pause.{i}") for i in range(10)) == 0


def test_what_waits_at_its_deadline_is_withdrawn(node):
    """Some are on their way into a log that is slow, the others wait."""
    with node.client() as c:
        jobs = [c.enqueue("slow.acts") for _ in range(20)]
    asked = [("/enqueue", {"queue": f"slow.{i}"}) for i in range(20)]
    asked += [(f"/jobs/{job}/hold", {}) for job in jobs]
    node.slow_log(3 * OP_TIMEOUT_S)
    answers = Crowd(node, asked).wait()
    node.slow_log(0)
    wait_until(lambda: can_write(node), 60, "writes to be taken again")
    done = [jobs_in(node, f"slow.{i}") == 1 for i in range(20)]
    with node.client() as c:
        done += [c.state(job) == "held" for job in jobs]
    for a, was_done in zip(answers, done):
        check_form(a)
        assert was_done == (a.status == 504), a
    assert {a.status for a in answers} == {503, 504}


def test_a_clear_that_stops_half_way_is_no_refusal(node):
    """Portions of it are done when raftd goes away for good."""
    with node.client() as c:
        for _ in range(3):
            a = c.post(f"{API}/enqueue/batch",
                       {"jobs": [{"queue": "half"}] * 2000})
            assert a.status == 201, a
    node.slow_log(0.3)
    crowd = Crowd(node, [("/queues/half/clear", {})])

    def begun():
        with node.client() as c:
            a = c.get(f"{API}/queues/half")
            return a.status == 200 and a.json["pending"] < 6000

    wait_until(begun, 30, "the first portion")
    node.slow_log(3 * OP_TIMEOUT_S)
    (answer,) = crowd.wait()
    node.slow_log(0)
    assert (answer.status, answer.code) == (504, "OUTCOME_UNKNOWN"), answer
    assert "jobs were deleted before that" in answer.json["error"]
    wait_until(lambda: can_write(node), 60, "writes to be taken again")
