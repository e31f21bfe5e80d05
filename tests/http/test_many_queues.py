"""How many queues there may be, lists in pages, and queues nobody needs."""

import json
import subprocess
from urllib.parse import quote

from node import API, CORVO, wait_until
from waiting import patience


def names(client, query=""):
    a = client.get(f"{API}/queues{query}")
    assert a.status == 200, a
    return [q["name"] for q in a.json], a.headers.get("X-Corvo-Next")


def test_one_queue_too_many_answers_429(make_node):
    node = make_node("--max-queues=2").start()
    with node.client() as c:
        c.enqueue("a")
        c.enqueue("b")
        a = c.post(f"{API}/enqueue", {"queue": "c"})
        assert (a.status, a.code) == (429, "QUEUE_LIMIT")
        assert int(a.headers["Retry-After"]) > 0
        assert a.json["retry_after_ms"] > 0
        assert "max_queues" in a.json["error"]
        c.enqueue("a")
        a = c.post(f"{API}/enqueue/batch", {"jobs": [
            {"queue": "a"}, {"queue": "c"}]})
        assert (a.status, a.code) == (429, "QUEUE_LIMIT")
        assert names(c) == (["a", "b"], None)
        assert c.queue("a")["pending"] == 2
        a = c.request("DELETE", f"{API}/queues/b?confirm=true")
        assert a.status == 200
        c.enqueue("c")


def test_the_limit_is_that_of_the_setting_after_a_restart(make_node):
    node = make_node("--max-queues=1").start()
    with node.client() as c:
        c.enqueue("a")
        assert c.post(f"{API}/enqueue", {"queue": "b"}).status == 429
    node.stop()
    node.start("--max-queues=2")
    with node.client() as c:
        c.enqueue("b")
        assert c.post(f"{API}/enqueue", {"queue": "c"}).status == 429


def test_queues_are_listed_in_pages(make_node):
    node = make_node().start()
    odd = ["a", "a b", "m\u00e4rz", "x&y=1", "z%41"]
    with node.client() as c:
        for name in odd:
            c.enqueue(name)
        every = sorted(odd, key=lambda n: n.encode())
        assert names(c) == (every, None)
        seen, at = [], ""
        while at is not None:
            page, at = names(c, f"?limit=2&after={at}")
            assert 0 < len(page) <= 2
            seen += page
        assert seen == every
        assert names(c, "?limit=5") == (every, None)
        assert names(c, f"?after={quote(every[-1])}") == ([], None)
        assert names(c, "?limit=1000000") == (every, None)
        for wrong in ["?limit=0", "?limit=x", f"?after={'n' * 256}"]:
            a = c.get(f"{API}/queues{wrong}")
            assert (a.status, a.code) == (400, "VALIDATION_ERROR"), wrong


def test_a_page_has_10000_queues_and_the_command_shows_all(make_node):
    node = make_node().start()
    every = [f"q{i:05d}" for i in range(10001)]
    with node.client() as c:
        for part in (every[:5000], every[5000:]):
            a = c.post(f"{API}/enqueue/batch",
                       {"jobs": [{"queue": name} for name in part]})
            assert a.status == 201, a
        assert names(c) == (every[:10000], every[9999])
        assert names(c, "?limit=20000") == (every[:10000], every[9999])
        assert names(c, f"?after={every[9999]}") == (every[10000:], None)
    done = subprocess.run(
        [CORVO, "queues", "--output-json", "--server",
         f"http://127.0.0.1:{node.port}"],
        capture_output=True, text=True, check=True, timeout=patience(60))
    assert [q["name"] for q in json.loads(done.stdout)] == every


def test_a_fetch_that_waits_gets_jobs_of_a_queue_that_was_forgotten(make_node):
    node = make_node("--queue-idle=100ms").start()
    with node.client() as c, node.client(90) as other:
        job = c.enqueue("q")
        assert c.request("DELETE", f"{API}/jobs/{job}").status == 200
        other.send("POST", f"{API}/fetch", {"queues": ["q"], "timeout": 60})
        wait_until(lambda: c.get(f"{API}/queues/q").status == 404, 30,
                   "the queue to be forgotten")
        job = c.enqueue("q")
        assert other.receive().json["job_id"] == job


def test_queues_nobody_needs_are_forgotten(make_node):
    node = make_node("--queue-idle=500ms").start()
    with node.client() as c:
        job = c.enqueue("gone")
        c.enqueue("used")
        c.post(f"{API}/queues/paused/pause")
        c.request("DELETE", f"{API}/jobs/{job}")
        wait_until(lambda: names(c)[0] == ["paused", "used"], 30,
                   "the empty queue to go")
        c.enqueue("gone")  # and it comes again
        assert c.queue("gone")["pending"] == 1
