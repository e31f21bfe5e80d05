"""The corvo command against a fake server: output, exit status, requests."""

import contextlib
import json
import os
import socket
import subprocess
import threading

import pytest

from cli_fixture import CORVO, corvo, fake, ok  # noqa: F401 (a fixture)

JOB = {"id": "job_1", "queue": "mail", "state": "dead", "priority": "high",
       "attempt": 3, "created_at": "2026-02-11T10:00:00.123456789Z",
       "payload": {"a": [], "b": {}, "c": [1, "x\"{},"]}}
QUEUE = {"name": "mail", "paused": True, "pending": 7, "active": 1,
         "held": 0, "completed": 5, "dead": 2, "scheduled": 3, "retrying": 4,
         "cancelled": 6}
WORKER = {"id": "w1", "hostname": "h1", "queues": "[\"mail\"]",
          "last_heartbeat": "2026-02-11T10:00:00Z"}
NODE = {"mode": "cluster", "node_id": "node-1", "state": "Leader",
        "leader_id": "node-1", "disk_ok": True, "ready": True}


# --- jobs ----------------------------------------------------------------


def enqueued(fake, status="pending"):
    fake.reply("POST", "/api/v1/enqueue",
               {"job_id": "job_1", "status": status,
                "unique_existing": False}, 201)


def test_enqueue(fake):
    enqueued(fake)
    out = ok("enqueue", "mail", '{"to": "x"}', fake=fake)
    assert out == "Job enqueued: job_1 (status: pending)\n"
    method, path, body, headers = fake.requests[0]
    assert body == '{"queue":"mail","payload":{"to": "x"}}'
    assert headers["Content-Type"] == "application/json"
    assert "X-API-Key" not in headers


def test_enqueue_options(fake):
    enqueued(fake, "scheduled")
    ok("enqueue", "mail", "[1]", "--priority=high", "--max-retries", "5",
       "--scheduled-at", "2030-01-01T00:00:00Z", "--tags", '{"t":"a"}',
       "--retry-backoff", "linear", "--retry-base-delay", "1s",
       "--retry-max-delay", "2m", "--expire-after", "1h", "--parent-id", "p",
       "--checkpoint", '{"at":1}', "--depends-on", "job_1,job_2",
       "--on-dependency-failure", "ignore", fake=fake)
    assert json.loads(fake.requests[0][2]) == {
        "queue": "mail", "payload": [1], "priority": "high",
        "max_retries": 5, "scheduled_at": "2030-01-01T00:00:00Z",
        "tags": {"t": "a"}, "retry_backoff": "linear",
        "retry_base_delay": "1s", "retry_max_delay": "2m",
        "expire_after": "1h", "parent_id": "p", "checkpoint": {"at": 1},
        "depends_on": ["job_1", "job_2"], "on_dependency_failure": "ignore"}


def test_enqueue_options_of_features(fake):
    enqueued(fake)
    ok("enqueue", "mail", "{}", "--unique-key", "k", "--unique-period", "10m",
       "--unique-action", "replace", "--timeout", "30s", "--retry-jitter",
       "0.5", "--depends-on", "job_1, job_2", "--group", "acme", "--batch-id",
       "batch_1", "--idempotency-key", "once 1", fake=fake)
    _, _, body, headers = fake.requests[0]
    assert json.loads(body) == {
        "queue": "mail", "payload": {}, "unique_key": "k",
        "unique_period": "10m", "unique_action": "replace", "timeout": "30s",
        "retry_jitter": 0.5, "depends_on": ["job_1", "job_2"],
        "group": "acme", "batch_id": "batch_1"}
    assert headers["Idempotency-Key"] == "once 1"


def test_idempotency_key_is_one_line(fake):
    p = corvo("enqueue", "mail", "{}", "--idempotency-key", "a\nX: y",
              fake=fake)
    assert p.returncode == 1 and "one line" in p.stderr
    assert fake.requests == []


def test_enqueue_delay(fake):
    enqueued(fake, "scheduled")
    ok("enqueue", "mail", "{}", "--delay", "1h30m", fake=fake)
    assert json.loads(fake.requests[0][2])["scheduled_at"].endswith("Z")


def test_enqueue_from_stdin(fake):
    enqueued(fake)
    ok("enqueue", "mail", "-", stdin='  {"big": true}\n', fake=fake)
    assert json.loads(fake.requests[0][2])["payload"] == {"big": True}


def test_dashes_end_the_options(fake):
    enqueued(fake)
    ok("enqueue", "--", "--mail", "-1", fake=fake)
    assert json.loads(fake.requests[0][2]) == {"queue": "--mail",
                                               "payload": -1}


def test_enqueue_json(fake):
    enqueued(fake)
    for option in (["--output", "json"], ["--output=json"],
                   ["--output-json"]):
        out = ok("enqueue", "mail", "{}", *option, fake=fake)
        assert json.loads(out)["job_id"] == "job_1"


def test_inspect_is_indented_json(fake):
    fake.reply("GET", "/api/v1/jobs/job_1", JOB)
    out = ok("inspect", "job_1", fake=fake)
    assert json.loads(out) == JOB
    assert out == json.dumps(JOB, indent=2) + "\n"


def test_actions(fake):
    fake.reply("POST", "/api/v1/jobs/job_1/retry", {"status": "retried"})
    fake.reply("POST", "/api/v1/jobs/job_1/cancel", {"status": "cancelling"})
    fake.reply("DELETE", "/api/v1/jobs/job_1", {"status": "deleted"})
    fake.reply("POST", "/api/v1/queues/mail/pause", {"status": "paused"})
    fake.reply("POST", "/api/v1/queues/mail/resume", {"status": "resumed"})
    assert ok("retry", "job_1", fake=fake) == "Job retried\n"
    assert ok("cancel", "job_1", fake=fake) == "Job job_1: cancelling\n"
    assert ok("delete", "job_1", fake=fake) == "Job deleted\n"
    assert ok("pause", "mail", fake=fake) == "Queue mail paused\n"
    assert ok("resume", "mail", fake=fake) == "Queue mail resumed\n"
    out = ok("retry", "job_1", "--output", "json", fake=fake)
    assert json.loads(out) == {"status": "retried"}


def test_queue_verbs(fake):
    base = "/api/v1/queues/mail"
    fake.reply("GET", base, {"name": "mail", "settings": {}})
    fake.reply("PATCH", base, {"name": "mail", "settings": {}})
    fake.reply("POST", f"{base}/concurrency", {"status": "ok"})
    fake.reply("POST", f"{base}/throttle", {"status": "ok"})
    fake.reply("DELETE", f"{base}/throttle", {"status": "ok"})
    fake.reply("POST", f"{base}/clear", {"status": "cleared", "count": 7})
    fake.reply("DELETE", f"{base}?confirm=true",
               {"status": "deleted", "count": 9})
    fake.reply("POST", f"{base}/drain?wait=60s",
               {"status": "drained", "active": 0})
    fake.reply("POST", f"{base}/drain?wait=5s",
               {"status": "draining", "active": 2})
    assert json.loads(ok("queue", "mail", fake=fake))["name"] == "mail"
    assert ok("queue", "set", "mail", "max_concurrency=5", "period=1m",
              "retention=null", 'groups={"vip": {"weight": 2}}',
              fake=fake) == "Queue mail changed\n"
    assert json.loads(fake.requests[-1][2]) == {
        "max_concurrency": 5, "period": "1m", "retention": None,
        "groups": {"vip": {"weight": 2}}}
    assert ok("concurrency", "mail", "3", fake=fake) == "Queue mail changed\n"
    assert json.loads(fake.requests[-1][2]) == {"max": 3}
    assert ok("throttle", "mail", "100", "1m", fake=fake) == \
        "Queue mail throttled\n"
    assert json.loads(fake.requests[-1][2]) == {"rate": 100, "period": "1m"}
    assert ok("unthrottle", "mail", fake=fake) == \
        "Queue mail no longer throttled\n"
    assert ok("drain", "mail", fake=fake) == "Queue mail drained, 0 active\n"
    assert ok("drain", "mail", "--wait", "5s", fake=fake) == \
        "Queue mail draining, 2 active\n"
    assert ok("clear", "mail", fake=fake) == "Queue mail cleared (7 jobs)\n"
    assert ok("destroy", "mail", "--confirm", fake=fake) == \
        "Queue mail destroyed (9 jobs)\n"


@pytest.mark.parametrize("name, path", [
    ("a/b", "a%2Fb"), ("a b?c#d", "a%20b%3Fc%23d"), ("ü", "%C3%BC"),
    ("..", ".."), ("100%", "100%25"), ("a.b-c_d~e", "a.b-c_d~e")])
def test_names_are_encoded_in_paths(fake, name, path):
    fake.reply("POST", "/api/v1/queues/%s/pause" % path, {"status": "paused"})
    assert ok("pause", name, fake=fake) == "Queue %s paused\n" % name


# --- lists ---------------------------------------------------------------


def test_queues(fake):
    fake.reply("GET", "/api/v1/queues", [QUEUE])
    head, row = ok("queues", fake=fake).splitlines()
    assert dict(zip(head.split(), row.split())) == {
        "QUEUE": "mail", "PENDING": "7", "ACTIVE": "1", "SCHEDULED": "3",
        "RETRYING": "4", "HELD": "0", "COMPLETED": "5", "DEAD": "2",
        "CANCELLED": "6", "PAUSED": "true"}
    assert json.loads(ok("queues", "--output", "json", fake=fake)) == [QUEUE]


def test_workers(fake):
    fake.reply("GET", "/api/v1/workers", [WORKER])
    out = ok("workers", fake=fake)
    assert out.splitlines()[0].startswith("ID")
    assert "w1" in out and "h1" in out
    fake.reply("GET", "/api/v1/workers", [])
    assert ok("workers", fake=fake) == "No workers connected\n"


@pytest.mark.parametrize("change, word", [
    ({}, "healthy"), ({"leader_id": ""}, "no leader"),
    ({"ready": False}, "catching up"), ({"disk_ok": False}, "disk full")])
def test_status(fake, change, word):
    fake.reply("GET", "/api/v1/cluster/status", {**NODE, **change})
    fake.reply("GET", "/api/v1/queues", [QUEUE])
    lines = ok("status", fake=fake).splitlines()
    assert lines[0] == \
        "Mode: cluster  Status: %s  Node: node-1 (Leader)" % word
    assert lines[2].split()[0] == "mail"
    both = json.loads(ok("status", "--output=json", fake=fake))
    assert both["queues"] == [QUEUE]
    assert both["cluster"]["node_id"] == "node-1"


def test_control_characters_do_not_reach_the_terminal(fake):
    fake.reply("GET", "/api/v1/queues",
               [{**QUEUE, "name": "a\x1b[31mb\nc\x00d"}])
    out = ok("queues", fake=fake)
    assert "\x1b" not in out and len(out.splitlines()) == 2
    fake.reply("GET", "/api/v1/workers", {"error": "a\x1b[31mb"}, 400)
    p = corvo("workers", fake=fake)
    assert p.stderr == "Error: a?[31mb\n"


# --- what can go wrong ---------------------------------------------------


def test_refused(fake):
    fake.reply("POST", "/api/v1/jobs/x/retry",
               {"error": 'job "x" not found', "code": "NOT_FOUND"}, 404)
    p = corvo("retry", "x", fake=fake)
    assert (p.returncode, p.stdout) == (1, "")
    assert p.stderr == 'Error: job "x" not found\n'


@pytest.mark.parametrize("status, body, text", [
    (502, b"<h1>Bad Gateway</h1>\n",
     "the server answered 502: <h1>Bad Gateway</h1>"),
    (500, b"", "the server answered 500"),
    (500, b'{"error": 5}', 'the server answered 500: {"error": 5}'),
    (301, b"", "the server answered 301"),
    (200, b"hello", "does not answer as a Corvo server does"),
    (200, b"", "does not answer as a Corvo server does"),
    (200, b"{}", "the server's answer is no list"),
    (200, b'[{"name": "cut', "does not answer as a Corvo server does")])
def test_strange_answers(fake, status, body, text):
    fake.reply("GET", "/api/v1/queues", body, status)
    p = corvo("queues", fake=fake)
    assert p.returncode == 1 and p.stdout == ""
    assert p.stderr.startswith("Error: ") and text in p.stderr


def test_batch(fake):
    fake.reply("POST", "/api/v1/batches", {"batch_id": "batch_1"}, 201)
    fake.reply("POST", "/api/v1/batches/batch_1/seal",
               {"id": "batch_1", "status": "running"})
    fake.reply("GET", "/api/v1/batches/batch_1", {"id": "batch_1"})
    assert ok("batch", "open", fake=fake) == "Batch opened: batch_1\n"
    out = ok("batch", "open", "--callback-queue", "done", "--parent-id", "b0",
             "--callback-payload", '{"k": [1]}', "--output", "json", fake=fake)
    assert json.loads(out) == {"batch_id": "batch_1"}
    assert [json.loads(r[2]) for r in fake.requests] == [
        {}, {"callback_queue": "done", "parent_id": "b0",
             "callback_payload": {"k": [1]}}]
    assert ok("batch", "seal", "batch_1", fake=fake) == \
        "Batch sealed, status: running\n"
    assert json.loads(ok("batch", "get", "batch_1", fake=fake)) == \
        {"id": "batch_1"}


def test_enqueue_with_chain_and_batch(fake, tmp_path):
    fake.reply("POST", "/api/v1/enqueue",
               {"job_id": "job_1", "status": "pending"}, 201)
    chain = tmp_path / "chain.json"
    chain.write_text('\n{"steps": [{"queue": "q"}, {"queue": "r"}]}\n')
    ok("enqueue", "q", "{}", "--chain-file", str(chain), "--batch-id", "b1",
       fake=fake)
    body = json.loads(fake.requests[0][2])
    assert body["chain"] == {"steps": [{"queue": "q"}, {"queue": "r"}]}
    assert body["batch_id"] == "b1"
    p = corvo("enqueue", "q", "{}", "--chain-file", str(tmp_path / "none"),
              fake=fake)
    assert p.returncode == 1 and "cannot read" in p.stderr
    chain.write_text("{")
    p = corvo("enqueue", "q", "{}", "--chain-file", str(chain), fake=fake)
    assert p.returncode == 2 and "not valid JSON" in p.stderr
    assert len(fake.requests) == 1


def test_rows_that_are_no_objects(fake):
    fake.reply("GET", "/api/v1/queues", [1, None, QUEUE, [], {"name": None}])
    assert len(ok("queues", fake=fake).splitlines()) == 3


def test_unreachable():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        url = "http://127.0.0.1:%d" % s.getsockname()[1]
        p = corvo("queues", "--server", url)
    assert p.returncode == 1
    assert p.stderr.startswith("Error: cannot reach %s: " % url)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "nonsense://x", "::"])
def test_bad_server_url(url):
    p = corvo("queues", "--server", url)
    assert p.returncode == 1 and p.stderr.startswith("Error: cannot reach")


def test_server_option_forms(fake):
    fake.reply("GET", "/api/v1/queues", [])
    for url in (fake.url, fake.url + "/", fake.url[len("http://"):]):
        assert ok("queues", "--server", url) == "No queues\n"
    assert ok("queues", "--server", fake.url, CORVO_URL="http://x.invalid",
              http_proxy="http://127.0.0.1:1") == "No queues\n"


def test_api_key(fake):
    fake.reply("GET", "/api/v1/queues", [])
    ok("queues", "--api-key", "k1", fake=fake, CORVO_API_KEY="k2")
    ok("queues", fake=fake, CORVO_API_KEY="k2")
    assert [r[3]["X-API-Key"] for r in fake.requests] == ["k1", "k2"]
    p = corvo("queues", "--api-key", "k\r\nX-Evil: 1", fake=fake)
    assert p.returncode == 1 and len(fake.requests) == 2


@pytest.mark.parametrize("args, text", [
    ([], "no command given"),
    (["frobnicate"], 'no command "frobnicate"'),
    (["config"], 'no command "config"'),
    (["inspect"], "an argument is missing; use: corvo inspect ID"),
    (["inspect", ""], "the id or name is empty"),
    (["pause", ""], "the id or name is empty"),
    (["destroy", "q"], "add --confirm"),
    (["queue", "set", "q"], "at least one setting"),
    (["queue", "set", "q", "max_backlog"], "is not name=value"),
    (["concurrency", "q", "few"], "MAX must be a whole number"),
    (["throttle", "q", "x", "1m"], "RATE must be a whole number"),
    (["batch", "get", ""], "the id or name is empty"),
    (["batch", "open", "--callback-payload", "x"],
     "callback-payload is not valid JSON"),
    (["inspect", "a", "b"], "too many arguments; use: corvo inspect ID"),
    (["queues", "--nonsense"], "unknown option --nonsense"),
    (["queues", "--queue", "x"], "unknown option --queue"),
    (["queues", "--server"], "--server needs a value: URL"),
    (["queues", "--output", "xml"], "--output takes table or json"),
    (["queues", "--output-json=yes"], "--output-json takes no value"),
    (["enqueue", "q", "not json"], "the payload is not valid JSON"),
    (["enqueue", "q", ""], "the payload is not valid JSON"),
    (["enqueue", "q", "{} {}"], "the payload is not valid JSON"),
    (["enqueue", "q", "{}", "--tags", "{"], "tags is not valid JSON"),
    (["enqueue", "q", "{}", "--checkpoint", "x"], "checkpoint is not valid"),
    (["enqueue", "q", "{}", "--max-retries", "-1"], "takes a whole number"),
    (["enqueue", "q", "{}", "--delay", "soon"], "--delay takes a duration"),
    (["enqueue", "q", "{}", "--delay", "1s", "--scheduled-at", "x"],
     "either --delay or --scheduled-at"),
    (["search", "--limit", "many"], "--limit takes a whole number"),
    (["restart", "a b"], "restart takes one word"),
    (["restart", "a\nps"], "restart takes one word"),
    (["help", "frobnicate"], 'no command "frobnicate"')])
def test_usage_errors(fake, args, text):
    p = corvo(*args, fake=fake)
    assert (p.returncode, p.stdout, fake.requests) == (2, "", [])
    assert p.stderr.startswith("Error: ") and text in p.stderr


def test_output_that_cannot_be_written(fake):
    fake.reply("GET", "/api/v1/queues", [QUEUE])
    with open("/dev/full", "w") as full:
        p = subprocess.run([CORVO, "queues", "--server", fake.url],
                           stdout=full, stderr=subprocess.PIPE, text=True,
                           timeout=30)
    assert p.returncode == 1
    assert p.stderr == "Error: cannot write the output\n"


# --- without a server ----------------------------------------------------


def test_help():
    out = ok("help")
    assert out == ok("--help") == ok("-h")
    for verb in ("server", "enqueue", "ps", "config list"):
        assert "\n  %s " % verb in out
    assert "--max-retries N" in ok("help", "enqueue")
    assert ok("help", "enqueue") == ok("enqueue", "--help")
    assert "--data-dir (data)" in ok("help", "server")
    assert ok("help", "config", "list").startswith("Use: corvo config list")


def test_version():
    assert ok("version") == ok("--version")
    assert ok("version").startswith("corvo 0.")
    assert "commit" in json.loads(ok("version", "--output=json"))


def test_config_list(tmp_path):
    conf = tmp_path / "corvo.conf"
    conf.write_text("node_id = n7\nlog_level = warn\n")
    out = ok("config", "list", "--config", str(conf), "--bind=127.0.0.1:1",
             "--output", "json", CORVO_LOG_LEVEL="error")
    rows = {r["name"]: (r["value"], r["source"]) for r in json.loads(out)}
    assert rows["node_id"] == ("n7", "file")
    assert rows["bind"] == ("127.0.0.1:1", "flag")
    assert rows["log_level"] == ("error", "environment")
    assert rows["durable"] == ("true", "default")
    table = ok("config", "list", "--config", str(conf))
    assert table.splitlines()[0].split() == ["NAME", "VALUE", "SOURCE"]
    assert ["node_id", "n7", "file"] in [r.split()
                                         for r in table.splitlines()]


def test_config_list_refuses(tmp_path):
    p = corvo("config", "list", "--nonsense")
    assert p.returncode == 1 and "--nonsense" in p.stderr


@pytest.mark.parametrize("text, answer", [
    ("node_id = a\n", None), ("nonsense = 1\n", "nonsense"),
    ("bind\n", "corvo.conf:1"), ("bind = 0.0.0.0:8080\n", "--open"),
    ("bind = 0.0.0.0:8080\nopen = true\n", None)])
def test_config_check(tmp_path, text, answer):
    conf = tmp_path / "corvo.conf"
    conf.write_text(text)
    p = corvo("config", "check", str(conf))
    if answer is None:
        assert (p.returncode, p.stdout) == (0, "%s: ok\n" % conf)
    else:
        assert p.returncode == 1 and answer in p.stderr


def test_config_check_missing_file():
    p = corvo("config", "check", "/nonexistent/corvo.conf")
    assert p.returncode == 1 and "/nonexistent/corvo.conf" in p.stderr


def test_server_becomes_the_supervisor(tmp_path):
    program = tmp_path / "corvo-supervisor"
    program.write_text('#!/bin/sh\nprintf "%s," "$$" "$@"\nexit 7\n')
    program.chmod(0o755)
    p = subprocess.Popen([CORVO, "server", "--data-dir", "x y", "--output"],
                         stdout=subprocess.PIPE, text=True,
                         env={**os.environ, "CORVO_LIBEXEC": str(tmp_path)})
    out, _ = p.communicate(timeout=30)
    assert p.returncode == 7
    assert out.split(",")[:-1] == [str(p.pid), "--data-dir", "x y",
                                   "--output"]


def test_server_without_a_supervisor(tmp_path):
    copy = tmp_path / "bin" / "corvo"
    copy.parent.mkdir()
    copy.write_bytes(CORVO.read_bytes())
    copy.chmod(0o755)
    p = subprocess.run([copy, "server"], capture_output=True, text=True,
                       timeout=30)
    assert p.returncode == 1
    assert p.stderr.startswith("Error: corvo-supervisor is missing")


# --- the supervisor's socket ---------------------------------------------

PS = {"supervisor": {"pid": 10, "version": "0.4.0", "node_id": "node-1",
                     "address": "127.0.0.1:8080", "state": "running",
                     "uptime_s": 3.5, "memory_bytes": 1048576, "cpu_s": 0.1},
      "processes": [{"name": "raftd", "pid": 11, "state": "up",
                     "restarts": 2, "uptime_s": 230000,
                     "memory_bytes": 3 * 1048576, "cpu_s": 1.25,
                     "status": "leader", "last_exit": None}]}


@contextlib.contextmanager
def supervisor(run_dir, reply):
    """One answer on the control socket; yields the request's list."""
    got = []
    run_dir.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(run_dir / "control.sock"))
        s.listen()

        def serve():
            c, _ = s.accept()
            with c:
                got.append(c.makefile().readline())
                c.sendall(reply)

        t = threading.Thread(target=serve)
        t.start()
        yield got
        t.join()


def test_ps(tmp_path):
    with supervisor(tmp_path / "data" / "run", json.dumps(PS).encode()) as got:
        lines = ok("ps", cwd=tmp_path).splitlines()
    assert got == ["ps\n"]
    assert lines[0].split() == ["NAME", "PID", "STATE", "RESTARTS", "UPTIME",
                                "MEMORY", "CPU", "STATUS"]
    assert lines[1].split() == ["supervisor", "10", "running", "3.5s", "1.0",
                                "MiB", "0.1s", "127.0.0.1:8080"]
    assert lines[2].split() == ["raftd", "11", "up", "2", "2d15h", "3.0",
                                "MiB", "1.2s", "leader"]
    assert lines[3] == "Total memory: 4.0 MiB"


def test_ps_json_and_directories(tmp_path):
    raw = json.dumps(PS).encode()
    with supervisor(tmp_path / "d" / "run", raw):
        out = ok("ps", "--data-dir", tmp_path / "d", "--output=json")
    assert json.loads(out) == PS
    with supervisor(tmp_path / "r", raw):
        ok("ps", "--run-dir", tmp_path / "r")
    conf = tmp_path / "corvo.conf"
    conf.write_text("run_dir = %s\n" % (tmp_path / "r2"))
    with supervisor(tmp_path / "r2", raw):
        ok("ps", "--config", conf)


@pytest.mark.parametrize("args, request_line, text", [
    (["restart", "httpd-0"], "restart httpd-0\n", "Restarted httpd-0\n"),
    (["log-level", "debug"], "log-level debug\n", "Log level is debug\n"),
    (["reload"], "reload\n", "Settings reloaded\n"),
    (["stop"], "stop\n", "The node is stopping\n")])
def test_control_requests(tmp_path, args, request_line, text):
    with supervisor(tmp_path / "data" / "run", b'{"ok":true}') as got:
        assert ok(*args, cwd=tmp_path) == text
    assert got == [request_line]


@pytest.mark.parametrize("reply, text", [
    (b'{"error":"no process has that name","code":"NOT_FOUND"}',
     "Error: no process has that name\n"),
    (b"", "Error: the supervisor's answer cannot be read\n"),
    (b"{}", "Error: the supervisor's answer has no processes\n"),
    (b'{"supervisor":1,"processes":2}',
     "Error: the supervisor's answer has no processes\n")])
def test_control_refusals(tmp_path, reply, text):
    with supervisor(tmp_path / "data" / "run", reply):
        p = corvo("ps", cwd=tmp_path)
    assert (p.returncode, p.stdout, p.stderr) == (1, "", text)


def test_no_node_here(tmp_path):
    p = corvo("ps", cwd=tmp_path)
    assert p.returncode == 1 and "no node is running" in p.stderr
