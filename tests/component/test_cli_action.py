"""Verbs about one job, against a fake server."""

import json

import pytest

from cli_fixture import fake, ok  # noqa: F401 (a fixture)

JOB = {"id": "job_1", "state": "dead"}


@pytest.mark.parametrize("args,path,body", [
    (["move", "job_1", "other"], "move", {"queue": "other"}),
    (["priority", "job_1", "high"], "priority", {"priority": "high"}),
    (["requeue", "job_1"], "requeue", {}),
    (["hold", "job_1"], "hold", {}),
    (["hold", "job_1", "--reason", "wait"], "hold", {"reason": "wait"}),
    (["approve", "job_1"], "approve", {}),
    (["reject", "job_1", "--reason=no"], "reject", {"reason": "no"})])
def test_actions(fake, args, path, body):
    fake.reply("POST", f"/api/v1/jobs/job_1/{path}", {"status": "done"})
    assert ok(*args, fake=fake) == "Job job_1: done\n"
    assert json.loads(fake.requests[0][2]) == body
    assert json.loads(ok(*args, "--output", "json", fake=fake)) == \
        {"status": "done"}


def test_inspect_waits(fake):
    fake.reply("GET", "/api/v1/jobs/job_1?wait=30s", JOB)
    assert json.loads(ok("inspect", "job_1", "--wait", "30s",
                         fake=fake))["id"] == "job_1"


def test_why(fake):
    fake.reply("GET", "/api/v1/jobs/job_1/why", {
        "summary": "the queue is paused", "reasons": [
            {"code": "paused", "text": "queue \"q\" is paused"},
            {"code": "ahead", "text": "2 jobs ahead"}]})
    assert ok("why", "job_1", fake=fake) == (
        "the queue is paused\n"
        "- queue \"q\" is paused\n"
        "- 2 jobs ahead\n")
    fake.reply("GET", "/api/v1/jobs/job_1/why", {
        "summary": "dead: it died: Traceback\n  File x", "reasons": []})
    assert ok("why", "job_1", fake=fake) == "dead: it died: Traceback...\n"


LOGS = [{"seq": 1, "at": "2026-02-11T10:00:00.5Z", "attempt": 1,
         "line": "one \x1b[31m\x9b\u00fc"}]


def test_logs_keep_control_characters_from_the_terminal(fake):
    fake.reply("GET", "/api/v1/jobs/job_1/logs?after=0",
               {"logs": LOGS, "next": 1})
    assert ok("logs", "job_1", fake=fake) == \
        "2026-02-11T10:00:00Z  one \\x1b[31m\\x9b\u00fc\n"
    assert json.loads(ok("logs", "job_1", "--output", "json",
                         fake=fake)) == LOGS


def test_logs_follow_until_the_job_has_ended(fake):
    fake.reply("GET", "/api/v1/jobs/job_1/logs?after=0",
               {"logs": LOGS, "next": 1})
    fake.reply("GET", "/api/v1/jobs/job_1/logs?after=1",
               {"logs": [], "next": 1})
    fake.reply("GET", "/api/v1/jobs/job_1?wait=1s", JOB)
    out = ok("logs", "job_1", "--follow", fake=fake)
    assert len(out.splitlines()) == 1
    assert [r[1].split("job_1")[1] for r in fake.requests] == [
        "/logs?after=0", "/logs?after=1", "?wait=1s", "/logs?after=1"]
