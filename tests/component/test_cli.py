"""The corvo command against a fake server: output, exit status, requests."""

import json
import os
import signal
import socket
import subprocess

import pytest

from cli_fixture import CORVO, corvo, fake, ok  # noqa: F401 (a fixture)

JOB = {"id": "job_1", "queue": "mail", "state": "dead", "priority": "high",
       "attempt": 3, "created_at": "2026-02-11T10:00:00.123456789Z",
       "payload": {"a": [], "b": {}, "c": [1, "x\"{},"]}}
QUEUE = {"name": "mail", "paused": True, "pending": 7, "active": 1,
         "held": 0, "completed": 5, "dead": 2, "scheduled": 3, "retrying": 4,
         "cancelled": 6}
WORKER = {"id": "w1", "hostname": "h1", "state": "idle", "jobs": [],
          "jobs_held": 0, "queues": "[\"mail\"]",
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
    fake.reply("GET", "/api/v1/queues/mail", {"name": "mail"})
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
              "lease_duration_ms=9000", fake=fake) == "Queue mail changed\n"
    assert json.loads(fake.requests[-1][2]) == {
        "max_concurrency": 5, "period": "1m", "retention": None,
        "lease_duration_ms": 9000,
        "groups": {"vip": {"weight": 2}}}
    assert ok("concurrency", "mail", "3", fake=fake) == "Queue mail changed\n"
    assert json.loads(fake.requests[-1][2]) == {"max": 3}
    assert ok("throttle", "mail", "100", "1m", fake=fake) == \
        "Queue mail throttled\n"
    assert json.loads(fake.requests[-1][2]) == {"rate": 100, "period": "1m"}
    assert ok("unthrottle", "mail", fake=fake) == \
        "Queue mail no longer throttled\n"
    assert ok("drain", "mail", fake=fake) == "Queue mail drained, 0 active\n"
    for output in ([], ["--output", "json"]):
        p = corvo("drain", "mail", "--wait", "5s", *output, fake=fake)
        assert p.returncode == 1 and p.stderr == ""
        assert "draining" in p.stdout and "2" in p.stdout
    assert ok("clear", "mail", "--yes", fake=fake) == \
        "Queue mail cleared (7 jobs)\n"
    assert ok("destroy", "mail", "--confirm", fake=fake) == \
        "Queue mail destroyed (9 jobs)\n"


@pytest.mark.parametrize("name, path", [
    ("a/b", "a%2Fb"), ("a b?c#d", "a%20b%3Fc%23d"), ("ü", "%C3%BC"),
    ("..", ".."), ("100%", "100%25"), ("a.b-c_d~e", "a.b-c_d~e")])
def test_names_are_encoded_in_paths(fake, name, path):
    fake.reply("GET", "/api/v1/queues/%s" % path, {"name": name})
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
    head, row = out.splitlines()
    assert dict(zip(head.split(), row.split()[:5])) == {
        "ID": "w1", "HOSTNAME": "h1", "STATE": "idle", "JOBS": "0",
        "QUEUES": '["mail"]'}
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


def test_status_without_the_lists(fake):
    """At night somebody wants to know what still works."""
    fake.reply("GET", "/api/v1/cluster/status", NODE)
    fake.reply("GET", "/api/v1/queues",
               {"error": "the view is down", "code": "VIEW_UNAVAILABLE"}, 503)
    p = corvo("status", fake=fake)
    assert (p.returncode, p.stderr) == (1, "Error: the view is down\n")
    assert p.stdout.startswith("Mode: cluster  Status: healthy")
    p = corvo("status", "--output", "json", fake=fake)
    assert p.returncode == 1
    assert json.loads(p.stdout) == {"cluster": NODE}


def test_an_unknown_outcome_has_a_status_of_its_own(fake):
    fake.reply("POST", "/api/v1/jobs/job_1/retry",
               {"error": "nobody knows", "code": "OUTCOME_UNKNOWN"}, 504)
    p = corvo("retry", "job_1", fake=fake)
    assert (p.returncode, p.stderr) == (3, "Error: nobody knows\n")


def test_control_characters_do_not_reach_the_terminal(fake):
    fake.reply("GET", "/api/v1/queues",
               [{**QUEUE, "name": "a\x1b[31mb\nc\x00d"}])
    out = ok("queues", fake=fake)
    assert "\x1b" not in out and len(out.splitlines()) == 2
    fake.reply("GET", "/api/v1/workers", {"error": "a\x1b[31mb"}, 400)
    p = corvo("workers", fake=fake)
    assert p.stderr == "Error: a\\x1b[31mb\n"


def test_nothing_turns_the_direction_of_a_terminal(fake):
    """Text behind U+202E is read from the right."""
    fake.reply("GET", "/api/v1/queues",
               [{**QUEUE, "name": "a\u202eb\u061c"}, QUEUE])
    _, odd, plain = ok("queues", fake=fake).splitlines()
    assert odd.startswith("a\\u202eb\\u061c ")
    assert len(odd) == len(plain)
    fake.reply("GET", "/api/v1/workers", {"error": "a\u2066b"}, 400)
    p = corvo("workers", fake=fake)
    assert p.stderr == "Error: a\\u2066b\n"


C1 = "a\x9b31mb\x7fc\x85\u202e\u2066\u200f\u00fc"


@pytest.mark.parametrize("args, method, path, answer", [
    (["enqueue", "q", "{}"], "POST", "/api/v1/enqueue",
     {"job_id": C1, "status": "\x1b[2J"}),
    (["cancel", "j"], "POST", "/api/v1/jobs/j/cancel", {"status": C1}),
    (["clear", "q", "--yes"], "POST", "/api/v1/queues/q/clear", {"count": C1}),
    (["drain", "q"], "POST", "/api/v1/queues/q/drain?wait=60s",
     {"status": "drained", "active": C1}),
    (["batch", "open"], "POST", "/api/v1/batches", {"batch_id": C1}),
    (["inspect", "j"], "GET", "/api/v1/jobs/j", {"payload": {C1: [C1]}})],
    ids=lambda v: v[0] if isinstance(v, list) else "")
def test_answers_are_made_harmless(fake, args, method, path, answer):
    """Also the control characters that JSON may hold as they are."""
    fake.reply("GET", "/api/v1/queues/q", {"name": "q"})
    fake.reply(method, path, json.dumps(answer, ensure_ascii=False).encode())
    out = ok(*args, fake=fake)
    assert not any(c < " " and c != "\n" or "\x7f" <= c < "\xa0" for c in out)
    assert not set(out) & set("\u202e\u2066\u200f")
    assert "\u00fc" in out
    if args[0] == "inspect":
        assert json.loads(out) == answer


def test_names_are_shown_where_no_language_is_set(fake):
    fake.reply("GET", "/api/v1/queues", [{**QUEUE, "name": "gr\u00fc\u00df"}])
    for env in ({"LC_ALL": "C"}, {"LC_ALL": "POSIX"}, {"LC_ALL": ""}):
        assert "gr\u00fc\u00df " in ok("queues", fake=fake, **env)


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
    assert p.stderr.endswith("--server or CORVO_URL name another\n")


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


def test_every_request_is_strict(fake):
    fake.reply("GET", "/api/v1/queues", [])
    enqueued(fake)
    ok("queues", fake=fake)
    ok("enqueue", "mail", "{}", fake=fake)
    assert [r[3]["X-Corvo-Strict"] for r in fake.requests] == ["1", "1"]


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
    (["config"], 'no command "config"; there are: config list, config'),
    (["config", "lst"], 'no command "config lst"; there are: config list'),
    (["batch"], "there are: batch open, batch seal, batch get"),
    (["help", "batch", "shut"], "there are: batch open, batch seal"),
    (["batch", "shut", "--help"], "there are: batch open, batch seal"),
    (["enqueue", "q", "{}", "-p", "high"], "unknown option -p"),
    (["enqueue", "q", "{}", "--priority", "urgent"],
     "--priority takes one of: critical high normal"),
    (["schedules", "create", "n", "q", "* * * * *", "--priority=High"],
     "--priority takes one of"),
    (["enqueue", "q", "{}", "--retry-backoff", "slow"],
     "--retry-backoff takes one of: none fixed linear exponential"),
    (["priority", "j", "urgent"], "PRIORITY takes one of"),
    (["queue", "set", "q", "max_concurency=5"],
     'knows no "max_concurency"; it knows max_concurrency, rate'),
    (["queue", "set", "q", "queue=x"], 'knows no "queue"'),
    (["inspect"], "an argument is missing; use: corvo inspect ID"),
    (["inspect", ""], "the id or name is empty"),
    (["pause", ""], "the id or name is empty"),
    (["destroy", "q"], "add --confirm"),
    (["queue", "set", "q"], "at least one setting"),
    (["settings", "set"], "at least one setting"),
    (["settings", "set", "retention"], "is not name=value"),
    (["settings", "set", "retenton=1h"], 'knows no "retenton"'),
    (["settings", "set", "seeds={}"], 'knows no "seeds"'),
    (["admin", "digest", "--at-index", "0"], "--at-index takes a whole number"),
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


@pytest.mark.parametrize("verb", ["queues", "help"])
def test_a_reader_that_has_had_enough_hears_nothing(fake, verb):
    """`corvo queues | head -1` ends as any other program does there."""
    fake.reply("GET", "/api/v1/queues", [QUEUE])
    r, w = os.pipe()
    os.close(r)
    p = subprocess.run([CORVO, verb], stdout=w, stderr=subprocess.PIPE,
                       env={**os.environ, "CORVO_URL": fake.url}, timeout=30)
    os.close(w)
    assert (p.returncode, p.stderr) == (-signal.SIGPIPE, b"")


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
    assert ok("help", "enqueue") == ok("enqueue", "--help") == \
        ok("enqueue", "-h")
    assert "--data-dir (data)" in ok("help", "server")
    family = ok("cluster", "--help")
    assert "cluster status" in family and "cluster recover" in family
    assert "admin digest" not in family
    assert family == ok("help", "cluster") == ok("cluster", "-h")
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
    out = ok("config", "list", "--memory-limit=512MiB", "--output", "json",
             CORVO_SNAPSHOT_BYTES="64MiB")
    rows = {r["name"]: (r["value"], r["source"]) for r in json.loads(out)}
    assert rows["rocksdb_cache"] == ("32MiB", "memory")
    assert rows["snapshot_bytes"] == ("64MiB", "environment")
    table = ok("config", "list", "--config", str(conf))
    assert table.splitlines()[0].split() == ["NAME", "VALUE", "SOURCE"]
    assert ["node_id", "n7", "file"] in [r.split()
                                         for r in table.splitlines()]


def test_value_of_a_setting_may_begin_with_a_dash():
    out = ok("config", "list", "--node-id", "-n", "--output", "json")
    assert {r["name"]: r["value"] for r in json.loads(out)}["node_id"] == "-n"


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
