"""corvo bulk, against a fake server."""

import json

import pytest

from cli_fixture import corvo, fake, ok  # noqa: F401 (a fixture)

DONE = {"affected": 2, "skipped": 1, "errors": 0, "total": 3, "duration_ms": 4}
BULK = "/api/v1/jobs/bulk"
ACCEPTED = {"bulk_operation_id": "bulk_1", "status": "processing",
            "estimated_total": 3,
            "progress_url": "/api/v1/bulk/bulk_1/progress"}


def asked(fake):
    return json.loads(fake.requests[-1][2])


@pytest.mark.parametrize("stdin,ids", [
    ("", []),
    ("job_1\n\n job_2 \n", ["job_1", "job_2"]),
    ('{"id":"job_1","queue":"q"}\n{"job_id":"job_2"}\n"job_3"\n',
     ["job_1", "job_2", "job_3"]),
    ('{"jobs": [{"id": "job_1"},\n {"id": "job_2"}], "total": 2}',
     ["job_1", "job_2"]),
    ('{"q": "x", "results": [{"id": "job_1"}]}', ["job_1"]),
    ('["job_1", {"id": "job_2"}, 5]', ["job_1", "job_2"])])
def test_ids_from_standard_input(fake, stdin, ids):
    fake.reply("POST", BULK, DONE)
    assert ok("bulk", "retry", fake=fake, stdin=stdin) == \
        "2 affected, 1 skipped\n"
    assert asked(fake) == {"action": "retry", "job_ids": ids}


@pytest.mark.parametrize("args,body", [
    (["move", "other"], {"action": "move", "move_to_queue": "other"}),
    (["change_priority", "high"],
     {"action": "change_priority", "priority": "high"}),
    (["cancel"], {"action": "cancel"}),
    (["hold", "--reason", "odd"], {"action": "hold", "reason": "odd"}),
    (["retry", "--rate=5", "--canary=2", "--async"],
     {"action": "retry", "rate": 5, "canary": 2, "async": True})])
def test_arguments(fake, args, body):
    fake.reply("POST", BULK, DONE)
    ok("bulk", *args, "--filter", '{"queue": "q"}', fake=fake)
    assert asked(fake) == {**body, "filter": {"queue": "q"}}


def test_dry_run(fake):
    fake.reply("POST", BULK, {**DONE, "dry_run": True})
    assert ok("bulk", "delete", "--dry-run", fake=fake, stdin="x\n") == \
        "Dry run: 2 affected, 1 skipped\n"
    assert asked(fake)["dry_run"] is True


@pytest.mark.parametrize("args, text", [
    (["retry", "x"], "only move and change_priority"),
    (["retry", "--rate", "fast"], "--rate takes a whole number"),
    (["retry", "--filter", "{"], "filter is not valid JSON"),
    (["delete", "--filter", '{"stat": ["dead"]}'],
     '--filter knows no "stat"; it knows queue, state'),
    (["delete", "--filter", '["dead"]'], "--filter takes an object"),
    (["change_priority", "urgent"], "PRIORITY takes one of"),
    ([], "an argument is missing")])
def test_wrong_use(fake, args, text):
    p = corvo("bulk", *args, fake=fake)
    assert (p.returncode, p.stdout, fake.requests) == (2, "", [])
    assert text in p.stderr


@pytest.mark.parametrize("stdin, line", [
    ("ID    QUEUE  STATE\njob_1 mail   dead\n", 1),
    ('[\n{"id":"job_1"},\n{"id":"jo', 1),
    ('job_1\n\n{"id":"job_2"}\n{"id":"jo\n', 4)])
def test_what_is_no_list_of_ids_is_refused(fake, stdin, line):
    """A table, or a list whose writer failed: nothing is done by halves."""
    p = corvo("bulk", "delete", fake=fake, stdin=stdin)
    assert (p.returncode, fake.requests) == (1, [])
    assert f"line {line} of standard input is neither an id" in p.stderr


def test_more_ids_than_a_request_may_have(fake):
    fake.reply("POST", BULK, DONE)
    ok("bulk", "retry", fake=fake, stdin="j\n" * 500_000)
    p = corvo("bulk", "retry", fake=fake, stdin="j\n" * 500_001)
    assert p.returncode == 1 and len(fake.requests) == 1
    assert "500001 ids are more than" in p.stderr and "--filter" in p.stderr


@pytest.mark.parametrize("body", [b"[]", b"7", b'{"operations": 1}'])
def test_strange_answers(fake, body):
    fake.reply("POST", BULK, body)
    fake.reply("GET", "/api/v1/bulk", body)
    assert ok("bulk", "retry", fake=fake, stdin="x\n") == \
        "0 affected, 0 skipped\n"
    p = corvo("bulk", "list", fake=fake)
    assert p.returncode == 1 and "no list" in p.stderr


def frame(number, kind, **members):
    data = {"type": kind, "total": 3, "skipped": 0, **members}
    return f"id: {number}\nevent: {kind}\ndata: {json.dumps(data)}\n\n"


def progress(end, **members):
    return (":keepalive\n" + frame(1, "bulk.async.started", status="running",
                                   processed=0, affected=0, percent=0)
            + frame(2, "bulk.async.progress", status="running", processed=1,
                    affected=1, percent=33)
            + frame(3, "bulk.async." + end, status=end, processed=3,
                    affected=3, percent=100, **members)).encode()


def test_wait_shows_the_progress_to_the_end(fake):
    fake.reply("POST", BULK, ACCEPTED, 202)
    fake.reply("GET", ACCEPTED["progress_url"], progress("completed"))
    assert ok("bulk", "delete", "--wait", fake=fake, stdin="x\n") == (
        "Bulk operation: bulk_1 (3 jobs)\n"
        "33%: 1 of 3\n"
        "completed: 3 affected, 0 skipped, of 3\n")
    last = json.loads(ok("bulk", "delete", "--wait", "--output", "json",
                         fake=fake, stdin="x\n"))
    assert last["status"] == "completed"


def test_wait_for_one_that_fails(fake):
    fake.reply("POST", BULK, ACCEPTED, 202)
    fake.reply("GET", ACCEPTED["progress_url"],
               progress("failed", error="canary: 1 of 2 failed again"))
    p = corvo("bulk", "retry", "--wait", fake=fake, stdin="x\n")
    assert p.returncode == 1
    assert p.stdout.splitlines()[-1] == ("failed: 3 affected, 0 skipped, of 3;"
                                         " canary: 1 of 2 failed again")


def test_wait_for_a_stream_that_says_nothing(fake):
    fake.reply("POST", BULK, ACCEPTED, 202)
    fake.reply("GET", ACCEPTED["progress_url"], b"")
    p = corvo("bulk", "retry", "--wait", fake=fake, stdin="x\n")
    assert p.returncode == 1 and "tells no progress" in p.stderr
    fake.reply("GET", ACCEPTED["progress_url"],
               {"error": "it is gone", "code": "NOT_FOUND"}, 404)
    p = corvo("bulk", "retry", "--wait", fake=fake, stdin="x\n")
    assert p.returncode == 1 and "it is gone" in p.stderr


def test_operations(fake):
    op = {"id": "bulk_1", "action": "retry", "status": "paused",
          "processed": 2, "affected": 1, "skipped": 1, "total": 9}
    for what in ("pause", "resume", "cancel"):
        fake.reply("POST", f"/api/v1/bulk/bulk_1/{what}", op)
        assert ok("bulk", what, "bulk_1", fake=fake) == \
            "Bulk operation: paused\n"
    fake.reply("GET", "/api/v1/bulk/bulk_1", op)
    assert json.loads(ok("bulk", "status", "bulk_1", fake=fake)) == op
    fake.reply("GET", "/api/v1/bulk", {"operations": [op]})
    rows = ok("bulk", "list", fake=fake).splitlines()
    assert rows[0].split()[0] == "ID" and rows[1].split()[:3] == \
        ["bulk_1", "retry", "paused"]
    fake.reply("GET", "/api/v1/bulk", {"operations": []})
    assert ok("bulk", "list", fake=fake) == "No bulk operations\n"
