"""The judge judged: for each rule of rules.py histories that are good, and
histories that are not and must be reported by that rule and no other."""

import json

import pytest

import history
from history import Log, check, outcome_of
from rules import RULES
from told import Told


def told():
    return Told()


def names(h, **more):
    """The rules that found something."""
    found = check(h.records, h.final, **more)
    return sorted({text.split(":")[0] for text in found})


def assert_good(h, **more):
    assert check(h.records, h.final, **more) == []


def life(job, begin, token, **more):
    """A job that is created, taken and completed within a second."""
    h = told().enqueue(job, begin, **more)
    h.fetch(job, begin + 0.3, token).ack(job, begin + 0.6, token)
    return h.end(job, "completed", [("enqueued", 0), ("started", 1),
                                    ("completed", 1)])


def merged(*parts):
    h = told()
    for p in parts:
        h.records += p.records
        h.final.update(p.final)
    return h


def test_good_lives():
    assert_good(merged(*(life(f"j{i}", i * 0.2, i) for i in range(20))),
                fifo=["q"])
    assert_good(told())


# --- lost --------------------------------------------------------------------

def test_lost_unknown_enqueues_may_be_there_or_not():
    assert_good(told().enqueue("a", 1, "unknown"))
    assert_good(told().enqueue("a", 1, "unknown").end("a", "pending"))


def test_lost_deleted_jobs_need_not_be_there():
    assert_good(told().enqueue("a", 1).delete("a", 2))
    assert_good(told().enqueue("a", 1).delete("a", 2, "unknown"))
    assert_good(told().enqueue("a", 1).delete("a", 2, "unknown")
                .end("a", "pending"))


@pytest.mark.parametrize("h", [
    told().enqueue("a", 1),
    told().enqueue("a", 1).end("b", "pending"),
    told().batch(["a", "b"], 1).end("a", "pending"),
    # Refused, so it was not deleted.
    told().enqueue("a", 1).delete("a", 2, "refused"),
    # Its enqueue is unknown, but somebody was given it.
    told().enqueue("a", 1, "unknown").fetch("a", 2, 1),
    # A duplicate names it.
    told().enqueue("a", 1, key="k", duplicate=True),
], ids=range(6))
def test_lost(h):
    assert "lost" in names(h)


# --- refused -----------------------------------------------------------------

def test_refused_may_be_sent_again():
    assert_good(told().enqueue("a", 1, "refused").enqueue("a", 2)
                .end("a", "pending"))
    assert_good(told().enqueue("a", 1, "refused"))
    assert_good(told().enqueue("a", 1, "unknown").enqueue("a", 2, "refused")
                .end("a", "pending"))


def test_refused_ack_beside_one_that_is_unknown():
    assert_good(told().enqueue("a", 1).fetch("a", 2, 1)
                .ack("a", 3, 1, "unknown").ack("a", 3.5, 1, "refused")
                .end("a", "completed"))


@pytest.mark.parametrize("h", [
    told().enqueue("a", 1, "refused").end("a", "pending"),
    told().batch(["a", "b"], 1, "refused").end("a", "pending")
    .end("b", "pending"),
    told().enqueue("a", 1).end("a", "completed"),
    told().enqueue("a", 1).fetch("a", 2, 1).ack("a", 3, 1, "refused")
    .end("a", "completed"),
], ids=range(4))
def test_refused(h):
    assert names(h) == ["refused"]


def test_refused_and_handed_out():
    h = told().enqueue("a", 1, "refused").fetch("a", 2, 1).end("a", "active")
    assert names(h) == ["refused"]


# --- twice -------------------------------------------------------------------

def test_twice_sent_and_once_done():
    assert_good(told().enqueue("a", 1, "unknown").enqueue("a", 2)
                .end("a", "pending"))
    assert_good(told().batch(["a", "b"], 1, "unknown").end("a", "pending")
                .end("b", "pending"))
    assert_good(told().batch(["a", "b"], 1, "unknown"))
    assert_good(told().batch(["a", "b"], 1).delete("b", 2)
                .end("a", "pending"))


@pytest.mark.parametrize("h", [
    # Two answers.
    told().enqueue("a", 1, mark="m").enqueue("b", 2, mark="m")
    .end("a", "pending", mark="m").end("b", "pending", mark="m"),
    # One answer, and one found at the end.
    told().enqueue("a", 1, "unknown", mark="m").enqueue("b", 2, mark="m")
    .end("a", "pending", mark="m").end("b", "pending", mark="m"),
    # A part of a batch.
    told().batch(["a", "b"], 1, "unknown").end("b", "pending"),
], ids=range(3))
def test_twice(h):
    assert names(h) == ["twice"]


# --- completed ---------------------------------------------------------------

def test_completed_and_the_ack_sent_again():
    assert_good(told().enqueue("a", 1).fetch("a", 2, 1)
                .ack("a", 3, 1, "unknown").ack("a", 3.2, 1).ack("a", 3.4, 1)
                .end("a", "completed"))
    # Of two acks with two tokens one was refused.
    assert_good(told().enqueue("a", 1).fetch("a", 2, 1).fetch("a", 5, 2, 2)
                .ack("a", 5.05, 1, "refused", "LEASE_LOST").ack("a", 5.3, 2)
                .end("a", "completed"))


def test_completed_by_two_tokens():
    h = told().enqueue("a", 1).fetch("a", 2, 1).fetch("a", 5, 2, 2)
    # The first one's ack is on its way when the second gets the job.
    h.ack("a", 5.05, 1).ack("a", 5.3, 2).end("a", "completed")
    assert names(h) == ["completed", "ended"]


def test_completed_twice_by_its_events():
    h = told().enqueue("a", 1).fetch("a", 2, 1).ack("a", 2.2, 1)
    h.end("a", "completed", [("started", 1), ("completed", 1), ("started", 2),
                             ("completed", 2)])
    assert names(h) == ["completed"]


@pytest.mark.parametrize("op", ["ack", "fail"])
def test_completed_with_a_token_of_nobody(op):
    h = told().enqueue("a", 1).fetch("a", 2, 1)
    h.with_token(op, "a", 2.2, 7).end("a", "completed")
    assert "completed" in names(h)


# --- ended -------------------------------------------------------------------

def test_ended_cancelled_where_it_was_asked_for():
    assert_good(told().enqueue("a", 1).fetch("a", 2, 1)
                .cancel("a", 2.2, status="cancelling").ack("a", 2.4, 1)
                .end("a", "cancelled"))
    assert_good(told().enqueue("a", 1).fetch("a", 2, 1)
                .cancel("a", 2.2, "unknown").ack("a", 2.4, 1)
                .end("a", "completed"))


@pytest.mark.parametrize("state", ["pending", "active", "retrying", "dead",
                                   "cancelled"])
def test_ended_job_is_undone(state):
    h = told().enqueue("a", 1).fetch("a", 2, 1).ack("a", 3, 1).end("a", state)
    assert names(h) == ["ended"]


def test_ended_job_is_handed_out_again():
    h = told().enqueue("a", 1).fetch("a", 2, 1).ack("a", 3, 1)
    h.fetch("a", 8, 2, 2).end("a", "completed")
    assert names(h) == ["ended"]


# --- lease -------------------------------------------------------------------

def test_lease_that_passed_to_another():
    assert_good(told().enqueue("a", 1).fetch("a", 2, 1).fetch("a", 5, 2, 2)
                .ack("a", 6, 1, "refused", "LEASE_LOST")
                .beat("a", 6, 1, code="LEASE_LOST").ack("a", 6, 2)
                .end("a", "completed"))


def test_lease_and_a_fail_sent_again():
    """Its first answer was lost; the job went on meanwhile."""
    assert_good(told().enqueue("a", 1).fetch("a", 2, 1)
                .fail("a", 2.5, 1, "unknown").fetch("a", 3, 2, 2)
                .fail("a", 3.5, 1).ack("a", 3.6, 2).end("a", "completed"))


@pytest.mark.parametrize("op", ["beat", "fail"])
def test_lease_is_no_longer_its(op):
    h = told().enqueue("a", 1).fetch("a", 2, 1).fetch("a", 5, 2, 2)
    h.with_token(op, "a", 6, 1).end("a", "active")
    assert names(h) == ["lease"]


def test_lease_is_no_longer_its_and_it_completes():
    h = told().enqueue("a", 1).fetch("a", 2, 1).fetch("a", 5, 2, 2)
    h.ack("a", 6, 1).end("a", "completed")
    assert "lease" in names(h)


def test_lease_and_a_fail_that_was_refused_before():
    h = told().enqueue("a", 1).fetch("a", 2, 1).fetch("a", 5, 2, 2)
    h.fail("a", 6, 1, "refused", "LEASE_LOST").fail("a", 7, 1)
    assert names(h.end("a", "active")) == ["lease"]


# --- events ------------------------------------------------------------------

def test_events_of_an_attempt_that_was_started_again():
    h = life("a", 1, 1)
    h.end("a", "completed", [("started", 1), ("started", 1), ("reclaimed", 1),
                             ("started", 2), ("completed", 2)])
    assert_good(h)


@pytest.mark.parametrize("events", [
    [("completed", 1)],
    [("reclaimed", 1), ("started", 2), ("completed", 2)],
])
def test_events_of_which_the_log_has_lost_the_first(events):
    assert_good(life("a", 1, 1).end("a", "completed", events))


@pytest.mark.parametrize("events", [
    [("enqueued", 0), ("completed", 1)],
    [("started", 1), ("reclaimed", 1), ("completed", 1)],
    [("started", 1), ("failed", 1), ("completed", 1)],
    [("started", 1), ("started", 2), ("completed", 2)],
    [("reclaimed", 1), ("completed", 1)],
], ids=range(5))
def test_events(events):
    assert names(life("a", 1, 1).end("a", "completed", events)) == ["events"]


# --- overlap -----------------------------------------------------------------

def test_overlap_is_none_after_the_end_of_a_lease():
    # The lease is counted from the earliest moment of the grant.
    assert_good(told().enqueue("a", 1).fetch("a", 2, 1)
                .fetch("a", 3, 2, 2, end=4.0).end("a", "active"))
    # One that waited long: the job is not older than its enqueue.
    assert_good(told().enqueue("a", 9).fetch("a", 2, 1, end=9.1)
                .fetch("a", 10, 2, 2, end=11.0).end("a", "active"))


def test_overlap_is_none_after_it_was_given_up():
    for op in ("fail", "ack"):
        for outcome in ("ok", "unknown"):
            if (op, outcome) != ("ack", "ok"):
                assert_good(told().enqueue("a", 1).fetch("a", 2, 1)
                            .with_token(op, "a", 2.2, 1, outcome)
                            .fetch("a", 2.4, 2, 2).end("a", "active"))


def test_overlap_of_two_leases():
    h = told().enqueue("a", 1).fetch("a", 2, 1).fetch("a", 2.5, 2, 2)
    assert names(h.end("a", "active")) == ["overlap"]


def test_overlap_with_one_that_waited_long():
    """Its grant is not before the job was there."""
    h = told().enqueue("a", 9).fetch("a", 2, 1, end=9.1)
    h.fetch("a", 9.5, 2, 2)
    assert names(h.end("a", "active")) == ["overlap"]


def test_overlap_with_a_lease_that_was_extended():
    h = told().enqueue("a", 1).fetch("a", 2, 1).beat("a", 3.5, 1)
    h.fetch("a", 4.5, 2, 2)
    assert names(h.end("a", "active")) == ["overlap"]


def test_overlap_is_none_when_the_heartbeat_is_not_known_to_count():
    assert_good(told().enqueue("a", 1).fetch("a", 2, 1)
                .beat("a", 3.5, 1, "unknown").fetch("a", 4.5, 2, 2)
                .end("a", "active"))


def test_overlap_beyond_the_tolerance_only():
    h = told().enqueue("a", 1).fetch("a", 2, 1).fetch("a", 3.7, 2, 2)
    h.end("a", "active")
    assert_good(h)
    assert names(h, tolerance=0.1) == ["overlap"]


def test_overlap_by_one_token_for_two():
    h = told().enqueue("a", 1).fetch("a", 2, 1)
    h.fetch("a", 6, 1, client="another").end("a", "active")
    assert "overlap" in names(h)


def test_overlap_although_the_giving_up_was_refused():
    h = told().enqueue("a", 1).fetch("a", 2, 1).fail("a", 2.2, 1, "refused")
    h.fetch("a", 2.4, 2, 2)
    assert names(h.end("a", "active")) == ["overlap"]


# --- order -------------------------------------------------------------------

def test_order_of_tokens():
    h = told().enqueue("a", 1).fetch("a", 2, 5).fetch("a", 9, 3, 2)
    assert "order" in names(h.end("a", "active"))
    # Both at once: either may be first.
    assert_good(told().enqueue("a", 1).fetch("a", 2, 5, end=9)
                .fetch("a", 2, 3, end=9).end("a", "active"))


# --- taken -------------------------------------------------------------------

@pytest.mark.parametrize("op", ["ack", "fail", "beat"])
def test_taken_from_a_worker_in_time(op):
    h = told().enqueue("a", 1).fetch("a", 2, 1)
    h.with_token(op, "a", 2.5, 1, "ok" if op == "beat" else "refused",
                 "LEASE_LOST")
    assert names(h.end("a", "pending")) == ["taken"]


def test_taken_although_a_heartbeat_was_acknowledged():
    h = told().enqueue("a", 1).fetch("a", 2, 1).beat("a", 3.9, 1)
    h.ack("a", 5, 1, "refused", "LEASE_LOST")
    assert names(h.end("a", "pending")) == ["taken"]


def test_taken_is_nothing_from_who_is_late():
    assert_good(told().enqueue("a", 1).fetch("a", 2, 1)
                .ack("a", 4, 1, "refused", "LEASE_LOST").end("a", "pending"))
    # Refused for another reason, and later by its own earlier ack.
    assert_good(told().enqueue("a", 1).fetch("a", 2, 1)
                .ack("a", 2.2, 1, "refused", "LEADER_UNAVAILABLE")
                .ack("a", 2.4, 1, "unknown")
                .ack("a", 2.6, 1, "refused", "LEASE_LOST")
                .end("a", "completed"))
    assert_good(told().enqueue("a", 1).fetch("a", 2, 1).delete("a", 2.2)
                .ack("a", 2.4, 1, "refused", "LEASE_LOST"))


# --- cancelled ---------------------------------------------------------------

def test_cancelled_on_the_way():
    """The fetch was sent before the cancellation was answered."""
    assert_good(told().enqueue("a", 1).cancel("a", 2, status="cancelling")
                .fetch("a", 1.9, 1).end("a", "cancelled"))
    assert_good(told().enqueue("a", 1).cancel("a", 2, "unknown")
                .fetch("a", 3, 1).ack("a", 3.2, 1).end("a", "completed"))
    assert_good(told().enqueue("a", 1).cancel("a", 2, "refused")
                .end("a", "pending"))


@pytest.mark.parametrize("status", ["cancelled", "cancelling"])
@pytest.mark.parametrize("state", ["pending", "active", "dead"])
def test_cancelled_ends_so(status, state):
    h = told().enqueue("a", 1).cancel("a", 2, status=status).end("a", state)
    assert names(h) == ["cancelled"]


def test_cancelled_and_handed_out():
    h = told().enqueue("a", 1).cancel("a", 2).fetch("a", 3, 1)
    assert names(h.end("a", "cancelled")) == ["cancelled"]


# --- unique ------------------------------------------------------------------

def test_unique_key_is_free_after_an_end():
    for end in (lambda h: h.fetch("a", 2, 1).ack("a", 2.2, 1)
                .end("a", "completed"),
                lambda h: h.fetch("a", 2, 1).ack("a", 2.2, 1, "unknown")
                .end("a", "completed"),
                lambda h: h.cancel("a", 2).end("a", "cancelled"),
                lambda h: h.delete("a", 2)):
        h = end(told().enqueue("a", 1, key="k"))
        assert_good(h.enqueue("b", 3, key="k").end("b", "pending"))


def test_unique_keys_of_two_queues_are_two():
    assert_good(told().enqueue("a", 1, key="k").end("a", "pending")
                .enqueue("b", 2, key="k", queue="other").end("b", "pending")
                .enqueue("c", 2, key="l").end("c", "pending"))


def test_unique_duplicates():
    assert_good(told().enqueue("a", 1, key="k").end("a", "pending")
                .enqueue("a", 2, key="k", duplicate=True, mark="other"))
    # The answer to its enqueue is still on its way.
    assert_good(told().enqueue("a", 1, key="k", end=3).end("a", "pending")
                .enqueue("a", 2, key="k", duplicate=True, mark="other"))
    # Nobody was told of it.
    assert_good(told().enqueue("a", 1, "unknown", key="k").end("a", "pending")
                .enqueue("a", 2, key="k", duplicate=True, mark="other"))


    # It has ended since the request was sent for the first time.
    first = told().enqueue("a", 1.5, "unknown", key="k", mark="other")
    again = told().enqueue("a", 5, key="k", duplicate=True, mark="other")
    assert_good(merged(life("a", 1, 1, key="k"), first, again))


@pytest.mark.parametrize("h", [
    told().enqueue("a", 1, key="k").enqueue("b", 2, key="k"),
    # Both at once, and both there afterwards.
    told().enqueue("a", 1, key="k", end=3).enqueue("b", 1, key="k", end=2),
    # The second is over before anybody could end the first.
    told().enqueue("a", 1, key="k").enqueue("b", 2, key="k", end=3)
    .fetch("b", 2.2, 1).ack("b", 2.4, 1).end("b", "completed"),
    # What would have ended the first was refused.
    told().enqueue("a", 1, key="k").cancel("a", 1.5, "refused")
    .enqueue("b", 2, key="k"),
    # Nobody was told of the first but the worker that has it.
    told().enqueue("a", 1, "unknown", key="k").fetch("a", 1.2, 1)
    .enqueue("b", 2, key="k"),
    # A duplicate of what has another key.
    told().enqueue("a", 1, key="k")
    .enqueue("a", 2, key="l", duplicate=True, mark="other"),
    told().enqueue("a", 1)
    .enqueue("a", 2, key="l", duplicate=True, mark="other"),
    # And of what had ended.
    life("a", 1, 1, key="k")
    .enqueue("a", 5, key="k", duplicate=True, mark="other"),
    # Also when it was refused at first.
    merged(life("a", 1, 1, key="k"),
           told().enqueue("a", 1.5, "refused", key="k", mark="other"),
           told().enqueue("a", 5, key="k", duplicate=True, mark="other")),
], ids=range(9))
def test_unique(h):
    for job in ("a", "b"):
        if any(r["answer"].get("job_id") == job or
               r["request"].get("mark") == "m-" + job for r in h.records):
            h.final.setdefault(job, {"state": "active", "mark": "m-" + job})
    assert names(h) == ["unique"]


# --- fifo, stranded ----------------------------------------------------------

def line(*rows, **more):
    """(job, created, handed out, priority), one after the other."""
    h = told()
    for token, (job, created, taken, priority) in enumerate(
            sorted(rows, key=lambda r: r[2]), 1):
        h.enqueue(job, created, priority=priority)
        h.fetch(job, taken, token, client="one").ack(job, taken + 0.1, token)
        h.end(job, "completed")
    return h


def test_fifo_with_priorities():
    assert_good(line(("a", 1, 10, "normal"), ("b", 2, 11, "normal"),
                     ("c", 20, 21, "high"), ("d", 15, 22, "normal")),
                fifo=["q"])
    # Created at the same time: either may be first.
    assert_good(line(("b", 1.0, 10, "normal"), ("a", 1.05, 9, "normal")),
                fifo=["q"])
    # The better one came while the fetch was under way.
    h = told().enqueue("a", 1).enqueue("b", 2.05, priority="high")
    h.fetch("a", 2, 1).fetch("b", 3, 2).end("a", "active").end("b", "active")
    assert_good(h, fifo=["q"])


def test_fifo_knows_what_comes_back():
    """Its first attempt nobody was told of."""
    h = told().enqueue("a", 1).enqueue("b", 2).fetch("b", 3, 2)
    h.fetch("a", 9, 7, attempt=2).end("a", "active").end("b", "active")
    assert_good(h, fifo=["q"])


def test_fifo_and_enqueues_that_are_unknown():
    h = told().enqueue("a", 1, "unknown").enqueue("b", 2)
    h.fetch("b", 3, 1).fetch("a", 4, 2).end("a", "active").end("b", "active")
    assert_good(h, fifo=["q"])
    # Sent again: it may have been created at any time until the answer.
    h = told().enqueue("a", 1, "unknown").enqueue("b", 2).enqueue("a", 3)
    h.fetch("b", 5, 1).fetch("a", 6, 2).end("a", "active").end("b", "active")
    assert_good(h, fifo=["q"])


@pytest.mark.parametrize("h", [
    line(("a", 1, 11, "normal"), ("b", 2, 10, "normal")),
    line(("a", 1, 12, "high"), ("b", 2, 10, "high"), ("c", 3, 14, "high")),
    # Far apart, with others in between.
    line(("a", 1, 20, "normal"), ("b", 2, 5, "high"), ("c", 3, 6, "normal")),
    # A worse one first.
    line(("a", 1, 11, "high"), ("b", 2, 10, "normal")),
    line(("a", 1, 11, "critical"), ("b", 1, 10, "high")),
    # Unknown, and certainly later than the other.
    told().enqueue("a", 1).enqueue("b", 2, "unknown").fetch("b", 3, 1)
    .fetch("a", 4, 2).end("a", "active").end("b", "active"),
], ids=range(6))
def test_fifo(h):
    assert names(h, fifo=["q"]) == ["fifo"]
    assert_good(h)  # only where one consumer is said to be


def test_stranded():
    h = line(("a", 1, 10, "normal")).enqueue("b", 0).end("b", "pending")
    assert names(h, fifo=["q"]) == ["stranded"]
    h = line(("a", 1, 10, "normal")).enqueue("b", 2).end("b", "pending")
    assert_good(h, fifo=["q"])


# --- around it ---------------------------------------------------------------

def test_every_rule_is_tested_here():
    here = globals()
    for rule in RULES:
        name = rule.__doc__.split(":")[0]
        mine = [t for t in here if t.startswith(f"test_{name}")]
        assert len(mine) >= (1 if name in ("order", "stranded") else 2), name


def test_unseen_is_what_a_node_has_acknowledged():
    assert names(told().acked("a", 1).read("a", 2)) == ["unseen"]
    assert_good(told().acked("a", 1).read("a", 2, status=200))
    assert_good(told().acked("a", 1).read("a", 2, status=503))
    assert_good(told().acked("a", 2).read("a", 1))
    assert_good(told().acked("a", 1).read("a", 2, port=2))
    assert_good(told().acked("a", 1).delete("a", 1.5, "unknown")
                .read("a", 2))


def test_unseen_is_what_comes_before_a_min_index():
    assert names(told().acked("a", 1, index=7)
                 .read("a", 2, port=2, min_index=7)) == ["unseen"]
    assert_good(told().acked("a", 1, index=7)
                .read("a", 2, port=2, min_index=7, behind=True))
    assert_good(told().acked("a", 1, index=7)
                .read("a", 2, port=2, min_index=6))


def test_statuses():
    assert [outcome_of(s) for s in (200, 201, 204)] == ["ok"] * 3
    assert [outcome_of(s) for s in (400, 404, 409, 429, 503)] == \
        ["refused"] * 5
    assert [outcome_of(s) for s in (None, 500, 502, 504)] == ["unknown"] * 4


def test_files(tmp_path, monkeypatch, capsys):
    """What clients write down is what is judged."""
    log = Log(tmp_path, "p1")
    log.write("enqueue", {"mark": "m", "queue": "q", "priority": "normal"},
              1.0, "ok", {"job_id": "a", "duplicate": False})
    log.close()
    (tmp_path / "final.json").write_text(json.dumps({}))
    monkeypatch.setattr("sys.argv", ["history.py", str(tmp_path)])
    assert history.main() == 1
    assert "lost: a" in capsys.readouterr().out
    (tmp_path / "final.json").write_text(json.dumps(
        {"a": {"state": "pending", "mark": "m", "events": []}}))
    assert history.main() == 0
    assert "1 observations, 1 jobs, 0 violations" in capsys.readouterr().out
