"""Searches that take seconds: they have the time they ask for, they are in
nobody's way, and nobody works for a client that left."""

import threading

import pytest

from node import API, wait_until

NODE_FLAGS = ["--view-wait=200ms"]  # as it is by default
JOBS = 3000
QUEUE = "long"
MEMBERS = 200
# Each job is looked at with all of it, and none matches.
JQ = " or ".join(f".member{i}==-1" for i in range(MEMBERS))
WORDS = 400
WORD = "abcdefghijklmnop"  # each of its beginnings is another prefix
LONG = {"queue": QUEUE, "payload_jq": JQ}
BUDGET_S = 7


@pytest.fixture(scope="module")
def full(node):
    payload = {f"member{i}": [i] for i in range(MEMBERS)}
    payload["words"] = [f"{WORD}{i}" for i in range(WORDS)]
    job = {"queue": QUEUE, "payload": payload}
    with node.client() as c:
        for _ in range(JOBS // 250):
            a = c.post(f"{API}/enqueue/batch", {"jobs": [job] * 250})
            assert a.status == 201, a
        wait_until(lambda: c.search(queue=QUEUE)["total"] == JOBS, 60,
                   "the jobs in the view")
    return node


def running(client):
    return client.metrics()["corvo_view_long_searches"]


def waiting(client):
    return client.metrics()["corvo_view_long_searches_waiting"]


class Search(threading.Thread):
    def __init__(self, node, seconds):
        super().__init__()
        self.node = node
        self.members = {**LONG, "time_budget": f"{seconds}s"}
        self.answer = None
        self.start()

    def run(self):
        with self.node.client(60) as c:
            self.answer = c.post(f"{API}/jobs/search", self.members)


def test_a_budget_of_seconds_is_kept_and_cheap_searches_pass(full, client):
    asked = [Search(full, BUDGET_S) for _ in range(2)]
    wait_until(lambda: running(client) == 2, 60,
               "both to be long ones")
    found = client.search(queue=QUEUE, limit=1)
    assert len(found["jobs"]) == 1
    assert client.get(f"{API}/queues").status == 200
    # nobody was waited for
    assert [s.answer for s in asked] == [None, None]
    for s in asked:
        s.join()
        assert s.answer.status == 200, s.answer
        a = s.answer.json
        # more than httpd would wait for anything quick
        assert a["partial"] and a["cursor"] and a["duration_ms"] >= 5500, a


def test_nobody_searches_for_a_client_that_left(full, client):
    gone = []
    for _ in range(3):  # two are searched, one waits
        c = full.client()
        c.send("POST", f"{API}/jobs/search", {**LONG, "time_budget": "10s"})
        gone.append(c)
    wait_until(lambda: (running(client), waiting(client)) == (2, 1), 60,
               "two to be searched and one to wait")
    gone[2].close()
    wait_until(lambda: waiting(client) == 0, 60,
               "the one that waits to be forgotten")
    assert running(client) == 2
    for c in gone[:2]:
        c.close()
    wait_until(lambda: running(client) == 0, 60,
               "the others to be stopped")


def test_clients_take_turns(full, client):
    """One has asked for all that may run and wait, for a minute and more; that
    of another runs before those that wait, and is not refused."""
    greedy = [full.client() for _ in range(18)]
    for g in greedy:
        g.source = "127.0.0.2"
        g.send("POST", f"{API}/jobs/search", {**LONG, "time_budget": "10s"})
    wait_until(lambda: (running(client), waiting(client)) == (2, 16), 60,
               "two to be searched and the others to wait")
    a = client.post(f"{API}/jobs/search", {**LONG, "time_budget": "1s"})
    assert a.status == 200, a
    assert a.json["partial"], a
    assert running(client) == 2 and waiting(client) > 10
    for g in greedy:
        g.close()
    wait_until(lambda: running(client) + waiting(client) == 0, 60,
               "those that have left to be forgotten")


def test_words_that_take_longer_than_there_is_time(full, client):
    text = " ".join(f"{WORD[:i + 1]}*" for i in range(len(WORD)))
    page = client.search(text=text, limit=10)
    assert page["partial"] and page["has_more"] and not page["jobs"], page
    # the cursor begins anew
    again = client.search(text=text, limit=10, cursor=page["cursor"])
    assert again["partial"] and again["cursor"] == page["cursor"], again
    a = client.get(f"{API}/search/fulltext?limit=10&q=" +
                   text.replace(" ", "+"))
    assert a.status == 200, a
    assert a.json["partial"] and not a.json["results"], a
