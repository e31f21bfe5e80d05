"""GET /api/v1/metrics/throughput: the last 60 minutes."""

import time

from node import API, seconds_of


def minutes(client):
    a = client.get(f"{API}/metrics/throughput")
    assert a.status == 200, a
    assert isinstance(a.json, list)
    return a.json


def sums(client):
    return {m: sum(row[m] for row in minutes(client))
            for m in ("enqueued", "completed", "failed")}


def test_sixty_minutes_oldest_first(client):
    rows = minutes(client)
    assert len(rows) == 60
    at = [seconds_of(row["minute"]) for row in rows]
    assert all(t % 60 == 0 for t in at)
    assert [b - a for a, b in zip(at, at[1:])] == [60] * 59
    assert abs(at[-1] - time.time()) < 120
    assert all(set(row) == {"minute", "enqueued", "completed", "failed"}
               for row in rows)


def test_every_kind_of_enqueue_ack_and_fail_counts(client, queue):
    before = sums(client)
    client.enqueue(queue)
    job = {"queue": queue}
    assert client.post(f"{API}/enqueue", {"jobs": [job, job]}).status == 201
    a = client.post(f"{API}/enqueue/batch", {"jobs": [job] * 5})
    assert a.status == 201
    client.ack(client.fetch(queue))
    taken = [client.fetch(queue) for _ in range(4)]
    acks = [{"job_id": j["job_id"]} for j in taken[:3]]
    assert client.post(f"{API}/ack/batch", {"acks": acks}).json["acked"] == 3
    client.fail(taken[3])
    after = sums(client)
    assert after["enqueued"] - before["enqueued"] == 8
    assert after["completed"] - before["completed"] == 4
    assert after["failed"] - before["failed"] == 1


def test_a_duplicate_is_no_new_job(client, queue):
    client.enqueue(queue, unique_key="k")
    before = sums(client)
    a = client.post(f"{API}/enqueue", {"queue": queue, "unique_key": "k"})
    assert a.status == 200
    assert sums(client) == before
