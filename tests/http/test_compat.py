"""Clients of v0.3.0: --compat=0.3, or the header, changes one thing."""

import pytest

from node import API

NODE_FLAGS = ["--compat=0.3"]
HEADER = {"X-Corvo-Compat": "0.3"}


@pytest.mark.parametrize("name,number", [("critical", 0), ("high", 1),
                                         ("normal", 2), ("low", 2)])
def test_priority_is_a_number(client, queue, name, number):
    job_id = client.enqueue(queue, priority=name)
    assert client.job(job_id)["priority"] == number
    (row,) = client.search(queue=queue)["jobs"]
    assert row["priority"] == number


def test_everything_else_is_the_same(client, queue):
    job_id = client.enqueue(queue)
    job = client.fetch(queue)
    client.ack(job)
    shown = client.job(job_id)
    assert shown["state"] == "completed"
    assert shown["retry_base_delay_ms"] == 5000


def test_header_alone(make_node, queue):
    node = make_node()
    node.start()
    with node.client() as c:
        job_id = c.enqueue(queue, priority="high")
        path = f"{API}/jobs/{job_id}"
        assert c.get(path).json["priority"] == "high"
        assert c.get(path, HEADER).json["priority"] == 1
        assert c.get(path, {"X-Corvo-Compat": "9"}).json["priority"] == "high"
        a = c.post(f"{API}/jobs/search", {"queue": queue}, HEADER)
        assert a.json["jobs"][0]["priority"] == 1
