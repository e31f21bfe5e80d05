"""Verbs about a queue that does not exist, against a fake server."""

import os
import pty
import subprocess

import pytest

from cli_fixture import (CORVO, all_shown, corvo, fake,  # noqa: F401
                         ok)
from waiting import patience

QUEUE_VERBS = [
    (["pause"], [], "pause"), (["resume"], [], "resume"),
    (["queue", "set"], ["max_retries=1"], "change"),
    (["concurrency"], ["3"], "limit"),
    (["throttle"], ["1", "1m"], "throttle"),
    (["unthrottle"], [], "unthrottle"), (["drain"], [], "drain")]


def answer_queue(fake):
    base = "/api/v1/queues/emials"
    for method, path in (("POST", "/pause"), ("POST", "/resume"),
                         ("PATCH", ""), ("POST", "/concurrency"),
                         ("POST", "/throttle"), ("DELETE", "/throttle"),
                         ("POST", "/drain?wait=60s")):
        fake.reply(method, base + path, {"status": "drained", "active": 0})


@pytest.mark.parametrize("verb, args, word", QUEUE_VERBS)
def test_a_queue_is_not_created_by_a_slip(fake, verb, args, word):
    """There is no terminal to ask on: it is refused, and nothing sent."""
    answer_queue(fake)
    p = corvo(*verb, "emials", *args, fake=fake)
    assert (p.returncode, p.stdout) == (1, "")
    assert p.stderr == ('Error: queue "emials" does not exist; add --yes to '
                        f"create it and {word} it\n")
    assert [r[0] for r in fake.requests] == ["GET"]
    ok(*verb, "emials", *args, "--yes", fake=fake)
    assert [r[0] for r in fake.requests] != ["GET", "GET"]
    assert len(fake.requests) == 2  # who says yes is not checked


@pytest.mark.parametrize("typed, done", [
    ("y\n", True), ("Yes\n", True), ("n\n", False), ("\n", False),
    ("\x04", False)])
def test_before_a_queue_is_created_people_are_asked(fake, typed, done):
    answer_queue(fake)
    ours, its = pty.openpty()
    try:
        os.write(ours, typed.encode())
        p = subprocess.run([CORVO, "pause", "emials", "--server", fake.url],
                           stdin=its, stdout=subprocess.PIPE, stderr=its,
                           timeout=patience(20))
    finally:
        os.close(its)
    shown = all_shown(ours)
    os.close(ours)
    assert ('Queue "emials" does not exist; create it and pause it? [y/N] '
            in shown)
    assert p.returncode == (0 if done else 1)
    assert [r[0] for r in fake.requests] == ["GET", "POST"][:1 + done]


def test_clear_of_a_queue_that_does_not_exist(fake):
    p = corvo("clear", "emials", fake=fake)
    assert (p.returncode, p.stderr) == \
        (1, 'Error: queue "emials" does not exist\n')
    assert [r[0] for r in fake.requests] == ["GET"]
