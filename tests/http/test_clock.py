"""The wall clock is set while a node runs, or while it is down. The node is
given a wrong one (Node.set_clock); the machine's is left alone."""

import time

from node import API, wait_until

HOUR = 3600
EVERY_SECOND = "* * * * * *"
FOLLOWED = "the clock is followed"


def rfc3339(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def steps(client, direction):
    return client.total(
        f'corvo_clock_steps_total{{direction="{direction}"}}')


def fired(client, queue):
    """Jobs that the schedule of that queue created so far."""
    a = client.get(f"{API}/schedules/{queue}")
    assert a.status == 200, a
    return a.json["runs"]


def every_second(client, queue):
    a = client.post(f"{API}/schedules", {"name": queue, "queue": queue,
                                         "cron": EVERY_SECOND})
    assert a.status == 201, a
    wait_until(lambda: fired(client, queue) > 0, 10, "a first run")


def follow(node, seconds):
    """Sets the clock and waits until the node goes by it."""
    seen = node.all_logs().count(FOLLOWED)
    node.set_clock(seconds)
    wait_until(lambda: node.all_logs().count(FOLLOWED) > seen, 20,
               "the clock to be followed")


def test_an_hour_back_freezes_nothing(make_node):
    node = make_node().start()
    with node.client() as c:
        lost = c.enqueue("lost")
        c.fetch("lost", lease_duration_ms=2000)
        limited = c.enqueue("limited", timeout="2s", max_retries=0)
        c.fetch("limited")
        again = c.enqueue("again", retry_backoff="fixed",
                          retry_base_delay="2s")
        c.fail(c.fetch("again"), error="boom")
        every_second(c, "cron")
        follow(node, -HOUR)
        runs = fired(c, "cron")
        wait_until(lambda: c.state(lost) == "pending", 10, "the lease to end")
        wait_until(lambda: c.state(limited) == "dead", 10, "the timeout")
        wait_until(lambda: c.state(again) == "pending", 10, "the retry")
        wait_until(lambda: fired(c, "cron") > runs + 1, 10, "the schedule")
        later = c.enqueue("later", scheduled_at=rfc3339(
            time.time() - HOUR + 1))
        wait_until(lambda: c.state(later) == "pending", 10, "the time")
        assert steps(c, "back") == 1
        assert steps(c, "forward") == 0
        moved = c.get(f"{API}/cluster/events?types=clock_set").json["events"]
        assert {lost, limited, again} >= {e["job_id"] for e in moved}
        assert moved
        made = c.job(later)["created_at"]
        assert made < rfc3339(time.time() - HOUR / 2), made
    assert "the clock was set back by 3" in node.all_logs()


def test_forward_and_back_costs_nothing(make_node):
    node = make_node("--retention=30m").start()
    with node.client() as c:
        kept = c.enqueue("kept", expire_after="30m")
        done = c.enqueue("done")
        c.ack(c.fetch("done"))
        held = c.enqueue("held", timeout="30m")
        job = c.fetch("held", lease_duration_ms=10 * 60 * 1000)
        c.post(f"{API}/schedules", {"name": "s", "queue": "s",
                                    "cron": "@every 10m"})
        node.set_clock(HOUR)
        wait_until(lambda: steps(c, "forward") == 1, 10, "the first step")
        node.set_clock(0)
        wait_until(lambda: steps(c, "back") == 1, 10, "the second step")
        assert c.state(kept) == "pending"
        assert c.state(done) == "completed"
        assert c.job(held)["attempt"] == 1
        assert fired(c, "s") == 0
        c.ack(job)
        assert c.state(held) == "completed"
    assert FOLLOWED not in node.all_logs()


def test_forward_takes_nothing_from_a_worker(make_node):
    node = make_node().start()
    with node.client() as c:
        c.enqueue("held", timeout="30m")
        job = c.fetch("held", lease_duration_ms=10 * 60 * 1000)
        gone = c.enqueue("gone", expire_after="30m")
        lost = c.enqueue("lost")
        c.fetch("lost", lease_duration_ms=9000)
        follow(node, HOUR)
        wait_until(lambda: c.state(gone) == "dead", 10, "the expiry")
        wait_until(lambda: c.state(lost) == "pending", 20, "a lease to end")
        assert c.state(job["job_id"]) == "active"
        c.ack(job)


def test_set_back_while_down(make_node):
    node = make_node().start()
    with node.client() as c:
        lost = c.enqueue("lost")
        c.fetch("lost", lease_duration_ms=2000)
        every_second(c, "cron")
    node.stop_all()
    node.set_clock(-HOUR)
    node.start_all()
    with node.client() as c:
        wait_until(lambda: FOLLOWED in node.all_logs(), 20,
                   "it to be followed")
        runs = fired(c, "cron")
        wait_until(lambda: c.state(lost) == "pending", 10, "the lease to end")
        wait_until(lambda: fired(c, "cron") > runs + 1, 10, "the schedule")
        assert steps(c, "back") == 1
