"""The corvo command against a real node: search, dead, held, top."""

import functools
import json
import os
import pty
import re
import signal
import subprocess
import time

import pytest

from node import CORVO, wait_until


def run_at(node, *args, status=0, stdin=""):
    p = subprocess.run(
        [CORVO, *args], input=stdin, capture_output=True, text=True,
        timeout=60, env={**os.environ,
                         "CORVO_URL": f"http://127.0.0.1:{node.port}"})
    assert p.returncode == status, p
    return p.stdout


@pytest.fixture
def corvo(node):
    return functools.partial(run_at, node)


def shell(node, line):
    env = {**os.environ, "CORVO_URL": f"http://127.0.0.1:{node.port}",
           "PATH": f"{CORVO.parent}:{os.environ['PATH']}"}
    p = subprocess.run(["bash", "-o", "pipefail", "-c", line], env=env,
                       capture_output=True, text=True, timeout=60)
    assert p.returncode == 0, p
    return p.stdout


def kill(client, queue, n, error="SMTP: no"):
    ids = [client.enqueue(queue, max_retries=1, payload={"n": i},
                          tags={"tenant": "acme", "odd.name": "a=b"})
           for i in range(n)]
    for _ in ids:
        client.fail(client.fetch(queue, worker_id="w-" + queue), error=error)
    return ids


def test_search_into_a_pipe(client, corvo, queue):
    """More than one page of them."""
    ids = []
    for _ in range(3):
        a = client.post("/api/v1/enqueue/batch",
                        {"jobs": [{"queue": queue}] * 500})
        ids += a.json["job_ids"]
    assert corvo("search", "--queue", queue, "--order",
                 "asc").split() == ids
    assert len(corvo("search", "--queue", queue, "--limit",
                     "1200").split()) == 1200
    jobs = json.loads(corvo("search", "--queue", queue, "--output", "json"))
    assert [j["id"] for j in jobs] == ids[::-1]


@pytest.mark.parametrize("flags, matches", [
    (["--state", "dead,retrying"], True),
    (["--state", "pending"], False),
    (["--priority", "normal"], True),
    (["--priority", "high"], False),
    (["--tag", "tenant=acme", "--tag", "odd.name=a=b"], True),
    (["--tag", "tenant=other"], False),
    (["--text", "acme tenant"], True),
    (["--text", "nobody"], False),
    (["--payload-contains", '"N"'], True),
    (["--payload-jq", ".n < 2"], True),
    (["--payload-jq", ".n > 100"], False),
    (["--has-errors"], True),
    (["--no-errors"], False),
    (["--error-contains", "smtp"], True),
    (["--error-contains", "%"], False),
    (["--created-after", "2020-01-01", "--created-before",
      "2199-01-01T00:00:00+01:00"], True),
    (["--created-before", "2020-01-01"], False),
    (["--started-after", "2020-01-01"], True),
    (["--completed-after", "2020-01-01"], False),
    (["--scheduled-after", "2020-01-01"], False),
    (["--expire-before", "2199-01-01"], False),
    (["--attempt-min", "1", "--attempt-max", "1"], True),
    (["--attempt-min", "2"], False),
    (["--worker-id", "w-flags"], True),
    (["--unique-key", "k"], False),
    (["--batch-id", "b"], False),
    (["--chain-id", "c"], False),
    (["--parent-id", "p"], False),
    (["--schedule-id", "s"], False),
    (["--group", "g"], False),
    (["--job-id-prefix", "job_"], True),
    (["--sort", "attempt", "--order", "asc", "--time-budget", "5s"], True),
], ids=lambda v: " ".join(v) if isinstance(v, list) else "")
def test_flags_of_search(client, corvo, flags, matches):
    if not corvo("search", "--queue", "flags"):
        kill(client, "flags", 2)
    got = corvo("search", "--queue", "flags", *flags).split()
    assert len(got) == (2 if matches else 0)


def test_bad_filter_is_refused(corvo):
    assert corvo("search", "--state", "sleeping", status=1) == ""
    assert corvo("search", "--created-after", "yesterday", status=1) == ""
    assert corvo("search", "--payload-jq", ".a ==", status=1) == ""


def test_dead_and_held(client, corvo, queue):
    dead = kill(client, queue, 2)
    held = client.enqueue(queue)
    corvo("hold", held, "--reason", "ask first")
    assert set(corvo("dead", "--queue", queue).split()) == set(dead)
    assert "SMTP: no" in corvo("dead", "--queue", queue, "--output=table")
    assert corvo("held", "--queue", queue) == held + "\n"
    assert "ask first" in corvo("held", "--output=table")
    assert corvo("iterations", held) == "No iterations\n"
    corvo("iterations", "job_unknown", status=1)


@pytest.mark.parametrize("output", [[], ["--output", "json"],
                                    ["--output-json"]])
def test_pipes_from_search_to_bulk(node, client, queue, output):
    """As in the documents: dead jobs with an error, retried."""
    dead = kill(client, queue, 3)
    others = kill(client, queue + "-other", 1, error="something else")
    words = " ".join(["--state dead --error-contains SMTP", *output])
    shell(node, f"corvo search --queue '{queue}' {words} | corvo bulk retry")
    assert {client.state(i) for i in dead} == {"pending"}
    assert client.state(others[0]) == "dead"


def test_bulk_waits_through_a_restart_of_the_node(make_node):
    node = make_node()
    node.start()
    with node.client() as c:
        for _ in range(20):
            c.enqueue("slow")
    with subprocess.Popen(
            [CORVO, "bulk", "hold", "--filter", '{"queue": "slow"}', "--rate",
             "2", "--wait", "--server", f"http://127.0.0.1:{node.port}"],
            stdout=subprocess.PIPE, text=True) as p:
        assert p.stdout.readline().startswith("Bulk operation: ")
        assert "of 20" in p.stdout.readline()  # some of it is done
        node.stop()
        node.start()
        lines = p.stdout.read().splitlines()
        assert p.wait(60) == 0, lines
    assert lines[-1] == "completed: 20 affected, 0 skipped, of 20"


def test_count_of_dead_jobs_per_queue(node, client, queue):
    """The documents' line with jq."""
    kill(client, queue, 4)
    out = shell(node, "corvo search --state dead --output json | jq '"
                "group_by(.queue) | map({queue: .[0].queue, count: length})'")
    assert {"queue": queue, "count": 4} in json.loads(out)


def test_top_once(client, corvo, queue):
    kill(client, queue, 1, error="of the " + queue)
    client.enqueue(queue)
    client.enqueue(queue)
    client.fetch(queue, worker_id="w-" + queue)
    rows = [r.split() for r in corvo("top", "--once").splitlines()]
    # pending, active, scheduled, retrying, dead
    assert next(r for r in rows if r and r[0] == queue)[1:6] \
        == ["1", "1", "0", "0", "1"]
    assert next(r for r in rows if r and r[0] == "w-" + queue)[1] == "1"
    assert any(r[-1] == queue and r[2] == "dead" for r in rows if len(r) > 4)
    out = json.loads(corvo("top", "--once", "--output", "json"))
    assert {"cluster", "queues", "workers", "failures", "scale",
            "throughput"} <= set(out)


def test_top_counts_what_happened_just_now(make_node):
    node = make_node().start()
    with node.client() as c:
        kill(c, "now", 1)
        c.enqueue("now")
        c.ack(c.fetch("now"))
    head = run_at(node, "top", "--once").splitlines()[2]
    counts = re.search(r"last (\d+) s: 2 enqueued, 1 completed, 1 failed$",
                       head)
    assert counts and 1 <= int(counts[1]) <= 60, head


def test_uptime_is_that_of_the_node(make_node):
    """Not that of raftd, which may be a new one."""
    began = time.monotonic()
    node = make_node().start()

    def uptime():
        with node.client() as c:
            return c.get("/api/v1/cluster/status").json["uptime_seconds"]

    wait_until(lambda: uptime() >= 3, 30, "the node to be up for a while")
    before = uptime()
    pid = node.pids()["raftd"]
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: node.pids().get("raftd", pid) != pid and
               node.is_ready(), 60, "raftd to be back")
    assert before <= uptime() <= time.monotonic() - began


@pytest.mark.parametrize("language", ["C", "POSIX", "C.UTF-8", "xx_YY"])
def test_names_in_any_language(node, client, queue, language):
    kill(client, queue, 1, error="SMTP: aΫ, \u00e9\u0301, \u5348\u524d")
    p = subprocess.run(
        [CORVO, "dead", "--queue", queue, "--output=table"],
        capture_output=True, timeout=60,
        env={**os.environ, "LC_ALL": language,
             "CORVO_URL": f"http://127.0.0.1:{node.port}"})
    assert p.returncode == 0, p
    assert "SMTP: aΫ, \u00e9\u0301, \u5348\u524d" in p.stdout.decode(), p


def test_top_on_a_terminal(node, client, queue):
    client.enqueue(queue)
    pid, fd = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm"
        os.execv(CORVO, [CORVO, "top", "--server",
                         f"http://127.0.0.1:{node.port}"])
    seen = b""

    def shows_it():
        nonlocal seen
        seen += os.read(fd, 65536)
        return queue.encode() in seen and b"q quit" in seen

    wait_until(shows_it, 30, "the queue on the screen")
    os.write(fd, b"q")

    def ended():
        try:
            os.read(fd, 65536)
        except OSError:
            return True
        return False

    wait_until(ended, 30, "its end")
    os.close(fd)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
