"""Groups of a queue: fair shares, limits of each group and of single ones."""

import collections

from node import API
from queues import Parked, enqueue_many, fetch_many, patch


def groups_of(jobs):
    return collections.Counter(j.get("group", "") for j in jobs)


def test_group_is_shown_with_the_job_and_to_its_worker(client, queue):
    job_id = client.enqueue(queue, group="acme")
    assert client.job(job_id)["group"] == "acme"
    assert client.fetch(queue)["group"] == "acme"


def test_a_group_alone_changes_nothing_in_the_order(client, queue):
    ids = [client.enqueue(queue, **({"group": g} if g else {}))
           for g in ("a", None, "b", "a", None, "c")]
    assert [j["job_id"] for j in fetch_many(client, queue, 10)] == ids


def test_group_comes_from_the_tag_the_queue_names(client, queue):
    patch(client, queue, group_tag="customer")
    by_tag = client.enqueue(queue, tags={"customer": "acme"})
    named = client.enqueue(queue, tags={"customer": "acme"}, group="own")
    number = client.enqueue(queue, tags={"customer": "42"})
    without = client.enqueue(queue, tags={"other": "acme"})
    assert client.job(by_tag)["group"] == "acme"
    assert client.job(named)["group"] == "own"
    assert client.job(number)["group"] == "42"
    assert "group" not in client.job(without)


def test_fair_queue_serves_a_small_group_among_a_large_one(client, queue):
    patch(client, queue, fairness="group")
    enqueue_many(client, queue, 100, group="large")
    enqueue_many(client, queue, 5, group="small")
    got = groups_of(fetch_many(client, queue, 10))
    assert got == {"large": 5, "small": 5}


def test_fair_shares_follow_the_weights(client, queue):
    patch(client, queue, fairness="group",
          groups={"gold": {"weight": 3}, "silver": {"weight": 2}})
    for group in ("gold", "silver", "bronze"):
        enqueue_many(client, queue, 60, group=group)
    got = groups_of(fetch_many(client, queue, 60))
    assert abs(got["gold"] - 30) <= 2 and abs(got["silver"] - 20) <= 2
    assert abs(got["bronze"] - 10) <= 2


def test_fairness_survives_a_restart(make_node):
    n = make_node()
    n.start()
    with n.client() as c:
        patch(c, "q", fairness="group", groups={"gold": {"weight": 3}})
        enqueue_many(c, "q", 80, group="gold")
        enqueue_many(c, "q", 80, group="other")
        got = groups_of(fetch_many(c, "q", 20))
    n.stop()
    n.start()
    with n.client() as c:
        got += groups_of(fetch_many(c, "q", 20))
    assert abs(got["gold"] - 30) <= 2


def test_concurrency_of_each_group(client, queue):
    patch(client, queue, group_max_concurrency=2)
    enqueue_many(client, queue, 5, group="a")
    enqueue_many(client, queue, 5, group="b")
    enqueue_many(client, queue, 3)
    jobs = fetch_many(client, queue, 20)
    assert groups_of(jobs) == {"a": 2, "b": 2, "": 3}
    client.ack(next(j for j in jobs if j.get("group") == "b"))
    assert groups_of(fetch_many(client, queue, 20)) == {"b": 1}


def test_limits_of_a_single_group_win(client, queue):
    patch(client, queue, group_max_concurrency=1,
          groups={"big": {"max_concurrency": 4}})
    enqueue_many(client, queue, 6, group="big")
    enqueue_many(client, queue, 6, group="small")
    assert groups_of(fetch_many(client, queue, 20)) == {"big": 4, "small": 1}


def test_a_paused_group_waits_and_others_do_not(node, client, queue):
    patch(client, queue, groups={"bad": {"paused": True}})
    enqueue_many(client, queue, 2, group="bad")
    enqueue_many(client, queue, 2, group="good")
    assert groups_of(fetch_many(client, queue, 20)) == {"good": 2}
    waiting = Parked(node, client, queue)
    patch(client, queue, groups={"bad": None})
    assert waiting.receive()["group"] == "bad"


def test_a_group_at_its_limit_keeps_nobody_from_a_parked_worker(node, client,
                                                                queue):
    patch(client, queue, group_max_concurrency=1)
    enqueue_many(client, queue, 5, group="full")
    client.fetch(queue)
    waiting = Parked(node, client, queue)
    job_id = client.enqueue(queue, group="free")
    assert waiting.receive()["job_id"] == job_id


def test_rate_of_each_group(node, client, queue):
    patch(client, queue, group_rate=2, group_period_ms=2500)
    enqueue_many(client, queue, 3, group="a")
    enqueue_many(client, queue, 3, group="b")
    assert groups_of(fetch_many(client, queue, 20)) == {"a": 2, "b": 2}
    waiting = [Parked(node, client, queue) for _ in range(2)]
    got = collections.Counter(w.receive()["group"] for w in waiting)
    assert got == {"a": 1, "b": 1}


def test_a_name_that_cannot_be_a_group_is_refused(client, queue):
    a = client.post(f"{API}/enqueue", {"queue": queue, "group": "x" * 256})
    assert a.status == 400 and a.code == "VALIDATION_ERROR"
    a = client.post(f"{API}/enqueue", {"queue": queue, "group": "a\0b"})
    assert a.status == 400 and a.code == "VALIDATION_ERROR"
