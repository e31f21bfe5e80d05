"""The corvo command: help where it is asked for, questions before what cannot
be taken back, and several servers."""

import json
import os
import pty
import subprocess

import pytest

from cli_fixture import CORVO, Fake, all_shown, corvo, fake, ok  # noqa: F401

ALL = '{"all": true}'
BULK = "/api/v1/jobs/bulk"
DONE = {"affected": 3, "skipped": 0, "errors": 0, "total": 3,
        "duration_ms": 1}


# --- help

@pytest.mark.parametrize("verb", [
    ["server"], ["scheduled-db"], ["recover"], ["cluster", "recover"],
    ["admin", "skip-entry"]])
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_verbs_that_become_another_program_have_help(verb, flag):
    out = ok(*verb, flag)
    assert out.startswith("Use: corvo " + " ".join(verb))
    assert "data-dir" in out


def test_help_of_a_stopped_node_is_about_that():
    """Not a list of all settings, of which it needs few."""
    for verb, asks in ((["admin", "skip-entry"], True), (["recover"], False),
                       (["cluster", "recover"], True)):
        out = ok("help", *verb)
        assert out == ok(*verb, "--help")
        rows = [r.split()[0] for r in out.splitlines() if r[:3] == "  -"]
        assert rows == ["--yes"] * asks + ["--data-dir", "--run-dir",
                                           "--config"], out
        assert "corvo help server" in out


@pytest.mark.parametrize("index", ["abc", "0", "-1", "1x", ""])
def test_an_entry_is_named_by_its_number(index, tmp_path):
    p = corvo("admin", "skip-entry", index, f"--data-dir={tmp_path}")
    assert p.returncode == 2, p
    assert p.stderr.startswith(
        "corvo admin skip-entry: INDEX is the number of an entry of the log, "
        f'from 1 on, not "{index}"'), p


def test_an_entry_has_to_be_named(tmp_path):
    p = corvo("admin", "skip-entry", f"--data-dir={tmp_path}")
    assert p.returncode == 2 and "give the INDEX" in p.stderr, p


def test_a_misspelt_verb_of_a_family():
    for args, known in ((("schedules", "crate"), "schedules create"),
                        (("policies", "sett", "x"), "policies set")):
        p = corvo(*args)
        assert p.returncode == 2, p
        assert f'there is no command "{args[0]} {args[1]}"; there are: ' \
            in p.stderr and known in p.stderr, p


def test_why_says_it_once(fake):
    first = "the queue is paused"
    fake.reply("GET", "/api/v1/jobs/job_1/why", {
        "summary": f"job_1 waits: {first}",
        "reasons": [{"text": first}, {"text": "it is limited to 1"}]})
    assert ok("why", "job_1", fake=fake) == \
        f"job_1 waits: {first}\n- it is limited to 1\n"


# --- questions

def test_clear_needs_a_yes(fake):
    fake.reply("GET", "/api/v1/queues/q", {"name": "q"})
    fake.reply("POST", "/api/v1/queues/q/clear", {"count": 7})
    p = corvo("clear", "q", fake=fake)
    assert p.returncode == 2 and "add --yes" in p.stderr, p
    assert [r[0] for r in fake.requests] == ["GET"]
    assert "7 jobs" in ok("clear", "q", "--yes", fake=fake)


def test_deleting_all_needs_a_yes(fake):
    fake.reply("POST", BULK, DONE)
    p = corvo("bulk", "delete", "--filter", ALL, fake=fake)
    assert p.returncode == 2 and "add --yes" in p.stderr, p
    assert fake.requests == []
    for args in (["delete", "--filter", ALL, "--yes"],
                 ["delete", "--filter", ALL, "--dry-run"],
                 ["delete", "--filter", '{"queue": "q"}'],
                 ["retry", "--filter", ALL]):
        ok("bulk", *args, fake=fake)
    assert len(fake.requests) == 4


@pytest.mark.parametrize("answer,status", [("y", 0), ("n", 1), ("", 1)])
@pytest.mark.parametrize("args,asked", [
    (["clear", "q"], 'Delete the waiting jobs of queue "q"? [y/N] '),
    (["bulk", "delete", "--filter", ALL],
     "Delete all jobs of all queues? [y/N] ")])
def test_a_terminal_is_asked(fake, args, asked, answer, status):
    fake.reply("GET", "/api/v1/queues/q", {"name": "q"})
    fake.reply("POST", "/api/v1/queues/q/clear", {"count": 7})
    fake.reply("POST", BULK, DONE)
    ours, theirs = pty.openpty()
    os.write(ours, (answer + "\n").encode())
    env = {**os.environ, "CORVO_URL": fake.url}
    p = subprocess.run([CORVO, *args], stdin=theirs, stdout=subprocess.PIPE,
                       stderr=theirs, env=env, timeout=60)
    os.close(theirs)
    shown = all_shown(ours)
    os.close(ours)
    assert asked in shown, shown
    assert p.returncode == status, shown
    posts = [r for r in fake.requests if r[0] == "POST"]
    assert len(posts) == (status == 0)


# --- several servers

def free_url():
    gone = Fake()
    gone.stop()
    return gone.url


def test_the_next_is_asked_when_one_cannot_be_reached(fake):
    fake.reply("POST", "/api/v1/enqueue", {
        "job_id": "j", "status": "pending", "unique_existing": False}, 201)
    fake.reply("GET", "/api/v1/jobs/j", {"id": "j"})
    both = f"{free_url()}, {fake.url}"
    assert "j" in ok("enqueue", "q", "{}", CORVO_URL=both)
    assert json.loads(ok("inspect", "j", "--server", both)) == {"id": "j"}
    p = corvo("inspect", "j", "--server", f"{free_url()},{free_url()}")
    assert p.returncode == 1 and "cannot reach" in p.stderr, p
    assert "(the last of 2 that were asked)" in p.stderr, p
    p = corvo("inspect", "j", "--server", free_url())
    assert "the last of" not in p.stderr, p


@pytest.mark.parametrize("status,asked", [(503, 1), (500, 0), (504, 0),
                                          (429, 0)])
def test_what_may_have_been_done_is_not_sent_again(fake, status, asked):
    other = Fake()
    try:
        path = "/api/v1/enqueue"
        fake.reply("POST", path, {"error": "no", "code": "X"}, status)
        other.reply("POST", path, {"job_id": "j", "status": "pending",
                                   "unique_existing": False}, 201)
        p = corvo("enqueue", "q", "{}", CORVO_URL=f"{fake.url},{other.url}")
        assert len(fake.requests) == 1 and len(other.requests) == asked
        assert (p.returncode == 0) == (asked == 1), p
    finally:
        other.stop()
