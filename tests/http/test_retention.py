"""Ended jobs go when the retention of their queue, or of the node, is over."""

from node import API, wait_until

NODE_FLAGS = ["--retention=300ms"]


def is_gone(client, job):
    return client.get(f"{API}/jobs/{job}").status == 404


def finish(client, queue):
    job = client.enqueue(queue)
    client.ack(client.fetch(queue))
    return job


def test_ended_jobs_go_after_the_retention(client, queue):
    waiting = client.enqueue(f"{queue}.x")
    done = finish(client, queue)
    cancelled = client.enqueue(queue)
    client.post(f"{API}/jobs/{cancelled}/cancel")
    dead = client.enqueue(queue)
    client.fail(client.fetch(queue), retry=False)
    for job in (done, cancelled, dead):
        wait_until(lambda j=job: is_gone(client, j), what="the purge")
    assert client.queue(queue)["enqueued"] == 0  # the view too
    assert client.search(queue=queue)["total"] == 0
    assert client.state(waiting) == "pending"


def test_retention_of_a_queue_wins(client, queue):
    client.request("PATCH", f"{API}/queues/{queue}.ever", {"retention": 0})
    client.request("PATCH", f"{API}/queues/{queue}.long",
                   {"retention": "1h"})
    ever = finish(client, f"{queue}.ever")
    kept = finish(client, f"{queue}.long")
    # those after them go, so their own time is over as well
    short = finish(client, queue)
    wait_until(lambda: is_gone(client, short), what="the purge")
    assert client.state(ever) == "completed"
    assert client.state(kept) == "completed"
    # a shorter one holds at once, for jobs that ended before too
    client.request("PATCH", f"{API}/queues/{queue}.long",
                   {"retention": "1ms"})
    wait_until(lambda: is_gone(client, kept), what="the purge")
    client.request("PATCH", f"{API}/queues/{queue}.ever",
                   {"retention": None})
    wait_until(lambda: is_gone(client, ever), what="the purge")


def test_purge_goes_on_after_a_restart(make_node):
    node = make_node("--retention=1h").start()
    with node.client() as c:
        job = finish(c, "q")
    node.stop()
    node.start("--retention=1ms")
    with node.client() as c:
        wait_until(lambda: is_gone(c, job), what="the purge")
        assert c.get(f"{API}/queues/q").json["completed"] == 0


def test_a_reload_changes_it(make_node, tmp_path):
    conf = tmp_path / "corvo.conf"
    conf.write_text("retention = 1h\n")
    node = make_node(f"--config={conf}").start()
    with node.client() as c:
        job = finish(c, "q")
        # half edited: nothing to the node, and to processes that restart
        conf.write_text("retention =\nret")
        for name in ("raftd", "sched"):
            assert "pid" in node.ask(f"restart {name}", timeout=60)
        wait_until(node.is_ready, what="the node")
        assert c.state(job) == "completed"
        conf.write_text("retention = 1ms\n")
        assert node.ask("reload")["ok"] is True
        wait_until(lambda: is_gone(c, job), what="the purge")
