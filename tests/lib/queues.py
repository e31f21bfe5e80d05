"""Short forms for tests of queues: settings, many jobs, waiting workers."""

from node import API, wait_until


def patch(client, queue, **members):
    a = client.request("PATCH", f"{API}/queues/{queue}", members)
    assert a.status == 200, a
    return a.json


def enqueue_many(client, queue, n, **members):
    a = client.post(f"{API}/enqueue/batch",
                    {"jobs": [{"queue": queue, **members}] * n})
    assert a.status == 201, a
    return a.json["job_ids"]


def fetch_many(client, queue, count, timeout=0):
    a = client.post(f"{API}/fetch/batch", {
        "queues": [queue], "count": count, "timeout": timeout,
        "worker_id": "w"})
    assert a.status == 200, a
    return a.json["jobs"]


class Parked:
    """A fetch that waits on a connection of its own."""

    def __init__(self, node, client, *queues, timeout=30):
        want = client.parked() + 1
        self.c = node.client(timeout=60)
        self.c.send("POST", f"{API}/fetch", {
            "queues": list(queues), "timeout": timeout, "worker_id": "p"})
        wait_until(
            lambda: client.parked() >= want, 10,
            "a parked fetch")

    def receive(self):
        try:
            return self.c.receive().json
        finally:
            self.c.close()
