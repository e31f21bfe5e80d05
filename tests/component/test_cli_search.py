"""corvo search, dead, held and iterations against a fake server."""

import json
import os
import pty
import signal
import subprocess

import pytest

from cli_fixture import (CORVO, all_shown, corvo, fake,  # noqa: F401
                         ok)

JOB = {"id": "job_1", "queue": "mail", "state": "dead", "priority": "high",
       "attempt": 3, "created_at": "2026-02-11T10:00:00.123456789Z",
       "failed_at": "2026-02-11T10:00:01.5Z", "last_error": "SMTP: no",
       "payload": {"a": [], "b": {}, "c": [1, "x\"{},"]}}
SEARCH = "/api/v1/jobs/search"


def jobs(n):
    return [{"id": f"job_{i}", "queue": "mail", "state": "dead"}
            for i in range(n)]


def paged(fake, total):
    """A server with so many jobs, in pages as large as asked for."""
    every = jobs(total)

    def answer(asked):
        at = int(asked.get("cursor", 0))
        end = at + asked["limit"]
        more = {"cursor": str(end)} if end < total else {}
        return {"jobs": every[at:end], "total": total,
                "has_more": end < total, **more}

    fake.reply("POST", SEARCH, answer)
    return [j["id"] for j in every]


def asked(fake):
    return [json.loads(r[2]) for r in fake.requests]


def one(fake, job=JOB):
    fake.reply("POST", SEARCH, {"jobs": [job], "total": 1, "has_more": False})


def test_table(fake):
    one(fake)
    out = ok("search", "--queue", "mail", "--state", "dead,retrying",
             "--limit", "10", "--cursor", "c", "--output", "table", fake=fake)
    assert asked(fake) == [{"queue": "mail", "state": ["dead", "retrying"],
                            "limit": 10, "cursor": "c"}]
    head, row = out.splitlines()
    assert head.split() == ["ID", "QUEUE", "STATE", "PRIORITY", "ATTEMPT",
                            "CREATED"]
    assert row.split() == ["job_1", "mail", "dead", "high", "3",
                           "2026-02-11T10:00:00Z"]


def test_every_filter_is_a_flag(fake):
    one(fake)
    texts = ("queue", "text", "payload-contains", "payload-jq",
             "error-contains", "unique-key", "batch-id", "chain-id",
             "parent-id", "schedule-id", "worker-id", "group",
             "job-id-prefix", "time-budget")
    times = [f"{what}-{when}" for what in
             ("created", "scheduled", "started", "completed", "expire")
             for when in ("after", "before")]
    args = [f"--{name}=<{name}>" for name in texts]
    args += [f"--{name}=2026-02-10" for name in times]
    ok("search", *args, "--attempt-min", "1", "--attempt-max", "9",
       "--tag", "tenant=acme", "--tag=a.b=c=d", "--has-errors",
       "--limit", "5", "--priority", "high", "--sort", "attempt", "--order",
       "asc", fake=fake)
    expected = {name.replace("-", "_"): f"<{name}>" for name in texts}
    expected |= {name.replace("-", "_"): "2026-02-10T00:00:00Z"
                 for name in times}
    assert asked(fake) == [{
        **expected, "priority": "high", "sort": "attempt", "order": "asc",
        "attempt_min": 1, "attempt_max": 9, "has_errors": True,
        "tags": {"tenant": "acme", "a.b": "c=d"}, "limit": 5}]


def test_flags_cover_the_members_of_a_search(fake):
    """A new filter of the API needs a flag here."""
    page = os.path.join(os.path.dirname(__file__), "../..",
                        "common/proto/defs/messages.def")
    with open(page) as f:
        rows = [line for line in f if line.startswith("FIELD")
                and "(search," in line and "F_INTERNAL" not in line]
    members = {row.split(",")[4 if "_WORD" in row else 3].strip()
               for row in rows}
    out = ok("help", "search")
    flags = {line.split()[0][2:].replace("-", "_")
             for line in out.splitlines() if line.startswith("  --")}
    assert members - {"tags"} <= flags and "tag" in flags


def test_time_is_passed_on_as_it_is(fake):
    one(fake)
    ok("search", "--created-after", "2026-02-10T01:02:03+02:00", fake=fake)
    assert asked(fake)[0]["created_after"] == "2026-02-10T01:02:03+02:00"


def test_no_errors(fake):
    one(fake)
    ok("search", "--no-errors", fake=fake)
    assert asked(fake)[0]["has_errors"] is False


def test_ids_into_a_pipe(fake):
    ids = paged(fake, 3)
    for args in ([], ["--output", "ids"], ["--output-json"]):
        assert ok("search", *args, fake=fake).split("\n") == ids + [""]


def test_pipe_gets_all_pages(fake):
    ids = paged(fake, 2500)
    assert ok("search", fake=fake).split() == ids
    assert [a["limit"] for a in asked(fake)] == [1000] * 3


def test_json_is_one_array(fake):
    one(fake)
    assert json.loads(ok("search", "--output=json", fake=fake)) == [JOB]
    paged(fake, 2500)
    out = ok("search", "--output=json", fake=fake)
    assert json.loads(out) == jobs(2500)
    assert len(out.splitlines()) == 2502  # one a line
    paged(fake, 0)
    assert ok("search", "--output=json", fake=fake) == "[]\n"


def test_table_has_fifty_rows_and_names_the_next_page(fake):
    paged(fake, 60)
    p = corvo("search", "--output=table", fake=fake)
    assert p.returncode == 0 and len(p.stdout.splitlines()) == 51
    assert p.stderr == "There are more: add --all, or --cursor 50\n"


def test_limit_beyond_a_page(fake):
    ids = paged(fake, 2500)
    p = corvo("search", "--limit", "1200", fake=fake)
    assert p.stdout.split() == ids[:1200]
    assert [a["limit"] for a in asked(fake)] == [1000, 200]
    assert "There are more" in p.stderr


def test_all_in_a_table(fake):
    ids = paged(fake, 1500)
    out = ok("search", "--all", "--output=table", fake=fake)
    assert [row.split()[0] for row in out.splitlines()
            if row.startswith("job_")] == ids


def test_partial_pages_are_followed(fake):
    """The server's time was up before it found anything."""
    pages = [{"jobs": [], "has_more": True, "cursor": "1", "partial": True},
             {"jobs": [JOB], "has_more": False}]
    fake.reply("POST", SEARCH, lambda a: pages[int(a.get("cursor", 0))])
    out = ok("search", "--output", "table", fake=fake)
    assert len(out.splitlines()) == 2


def test_terminal_gets_a_table(fake):
    one(fake)
    ours, theirs = pty.openpty()
    with subprocess.Popen([CORVO, "search", "--server", fake.url],
                          stdout=theirs) as p:
        os.close(theirs)
        out = all_shown(ours)
        assert p.wait(30) == 0
    os.close(ours)
    assert "PRIORITY" in out and "job_1" in out


def test_search_ends_with_its_reader(fake):
    """`corvo search | head -1` does not read a million jobs."""
    fake.reply("POST", SEARCH, lambda a: {
        "jobs": jobs(1000), "has_more": True,
        "cursor": str(int(a.get("cursor", 0)) + 1)})
    with subprocess.Popen([CORVO, "search", "--server", fake.url],
                          stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as p:
        assert p.stdout.readline() == b"job_0\n"
        p.stdout.close()
        assert p.wait(30) == -signal.SIGPIPE
        assert p.stderr.read() == b""


def test_lists_that_are_behind_say_so_once(fake):
    fake.headers = {"X-Corvo-View-Lag-Ms": "350"}
    ids = paged(fake, 2500)
    p = corvo("search", fake=fake)
    assert p.returncode == 0 and p.stdout.split() == ids
    assert p.stderr == ("Lists are 350 ms behind; the newest changes may be "
                        "missing here\n")
    for value in ("0", "soon", "-1", ""):
        fake.headers = {"X-Corvo-View-Lag-Ms": value}
        ok("search", fake=fake)


def test_nothing_found(fake):
    fake.reply("POST", SEARCH, {"jobs": [], "total": 0})
    assert ok("search", "--output=table", fake=fake) == "No jobs\n"
    assert ok("search", fake=fake) == ""
    assert ok("dead", "--output=table", fake=fake) == "No dead jobs\n"
    assert ok("held", "--output=table", fake=fake) == "No held jobs\n"


def test_dead(fake):
    one(fake)
    head, row = ok("dead", "--queue", "mail", "--output=table",
                   fake=fake).splitlines()
    assert asked(fake) == [{"queue": "mail", "state": ["dead"], "limit": 50}]
    assert head.split() == ["ID", "QUEUE", "ATTEMPT", "FAILED", "ERROR"]
    assert row.split() == ["job_1", "mail", "3", "2026-02-11T10:00:01Z",
                           "SMTP:", "no"]
    assert ok("dead", fake=fake) == "job_1\n"


@pytest.mark.parametrize("error, shown", [
    ("Traceback:\n  File x\n", "Traceback:..."), ("one\n", "one"),
    ("\n\r\n", ""), ("\u00fc" * 150, "\u00fc" * 100 + "..."),
    ("a" + "\u00fc" * 150, "a" + "\u00fc" * 99 + "..."),
    ("x" * 200, "x" * 200)])
def test_dead_shows_where_an_error_begins(fake, error, shown):
    one(fake, {**JOB, "last_error": error})
    row = ok("dead", "--output=table", fake=fake).splitlines()[1]
    assert row.partition("10:00:01Z")[2].strip() == shown


def test_held(fake):
    one(fake, {"id": "job_2", "queue": "mail", "state": "held",
               "hold_reason": "too dear"})
    out = ok("held", "--output=table", fake=fake)
    assert asked(fake)[0]["state"] == ["held"]
    assert out.splitlines()[1].split()[:3] == ["job_2", "mail", "held"]
    assert "too dear" in out


def test_iterations(fake):
    path = "/api/v1/jobs/job_1/iterations"
    fake.reply("GET", path, {"iterations": []})
    assert ok("iterations", "job_1", fake=fake) == "No iterations\n"
    rounds = [{"iteration": 1, "status": "continue", "cost_usd": 0.0125},
              {"iteration": 2, "status": "hold", "hold_reason": "ask me"}]
    fake.reply("GET", path, {"iterations": rounds})
    _, first, second = ok("iterations", "job_1", fake=fake).splitlines()
    assert first.split() == ["1", "continue", "0.012500"]
    assert second.split() == ["2", "hold", "0.000000", "ask", "me"]
    out = ok("iterations", "job_1", "--output=json", fake=fake)
    assert json.loads(out)["iterations"] == rounds
    fake.reply("GET", path + "?after=2&limit=9", {"iterations": []})
    assert ok("iterations", "job_1", "--after=2", "--limit=9", fake=fake) == (
        "No iterations\n")


@pytest.mark.parametrize("body", [b"[]", b"{}", b'{"jobs": 1}', b"7"])
def test_strange_answers(fake, body):
    fake.reply("POST", SEARCH, body)
    p = corvo("search", fake=fake)
    assert p.returncode == 1 and "no list of jobs" in p.stderr


@pytest.mark.parametrize("more, text", [
    ({}, "no cursor"), ({"cursor": 5}, "no cursor"),
    ({"cursor": ""}, "leads nowhere")])
def test_answers_that_never_end(fake, more, text):
    fake.reply("POST", SEARCH, {"jobs": [], "has_more": True, **more})
    p = corvo("search", fake=fake)
    assert p.returncode == 1 and text in p.stderr


@pytest.mark.parametrize("args, text", [
    (["search", "--limit", "many"], "--limit takes a whole number"),
    (["search", "--limit", "0"], "--limit takes a whole number"),
    (["search", "--limit", "5", "--all"], "either --limit or --all"),
    (["search", "--tag", "tenant"], '"tenant" is not NAME=TEXT'),
    (["search", "--attempt-min", "few"], "--attempt-min takes a whole"),
    (["search", "--has-errors", "--no-errors"], "either --has-errors or"),
    (["search", "--output", "xml"], "--output takes table, json or ids"),
    (["queues", "--output", "ids"], "--output takes table or json"),
    (["search", "--sort", "name"], "--sort takes one of: created_at"),
    (["dead", "--order", "up"], "--order takes one of: asc desc"),
    (["search", "--priority", "urgent"], "--priority takes one of"),
    (["dead", "--state", "held"], "unknown option --state")])
def test_usage_errors(fake, args, text):
    p = corvo(*args, fake=fake)
    assert (p.returncode, p.stdout, fake.requests) == (2, "", [])
    assert p.stderr.startswith("Error: ") and text in p.stderr
