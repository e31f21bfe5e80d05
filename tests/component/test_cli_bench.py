"""corvo bench against a server that errs: what it shows, and what not."""

import json
import os
import signal
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from cli_fixture import CORVO, corvo
from waiting import patience

JOBS = 40
MODES = ["enqueue", "fetch", "ack", "combined", "burst"]


class Queue:
    """A server with one queue in memory. `spoil` is asked about every answer
    and may change it: (what, answer) -> answer, where what is enqueue, fetch
    or ack. Jobs that `loses` says yes to are taken in and forgotten."""

    def __init__(self):
        self.lock = threading.Condition()
        self.waiting = []
        self.made = 0
        self.removed = []
        self.queues = set()
        self.asked = threading.Event()
        self.spoil = lambda what, answer: answer
        self.loses = lambda job_id: False
        queue = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # an answer is one packet

            def answer(self):
                n = int(self.headers.get("Content-Length") or 0)
                asked = json.loads(self.rfile.read(n) or "null")
                status, body = queue.answer(self.command, self.path, asked)
                raw = json.dumps(body, separators=(",", ":")).encode()
                self.send_response(status)
                self.send_header("Content-Length",
                                 "0" if status == 204 else str(len(raw)))
                self.end_headers()
                if status != 204:
                    self.wfile.write(raw)
                self.wfile.flush()

            do_GET = do_POST = do_DELETE = answer

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever,
                                       args=(0.01,))
        self.thread.start()

    def stop(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def answer(self, method, path, asked):
        if method == "GET" and path == "/api/v1/info":
            return 200, {"server_version": "0.0.1"}
        if method == "DELETE":
            self.removed.append(path)
            return 200, {"deleted": self.made}
        what = path.split("/")[3]
        if method != "POST" or what not in ("enqueue", "fetch", "ack"):
            return 404, {"error": "no such route", "code": "NOT_FOUND"}
        with self.lock:
            self.asked.set()
            made = getattr(self, what)(asked, path.endswith("/batch"))
            self.lock.notify_all()
        return self.spoil(what, made)

    def enqueue(self, asked, batch):
        ids = []
        for job in asked["jobs"] if batch else [asked]:
            self.made += 1
            ids.append(f"job_{self.made:026}")
            self.queues.add(job["queue"])
            if not self.loses(ids[-1]):
                self.waiting.append(
                    {"job_id": ids[-1], "queue": job["queue"],
                     "payload": job["payload"], "attempt": 1,
                     "lease_token": self.made})
        return 201, {"job_ids": ids} if batch else {"job_id": ids[0]}

    def fetch(self, asked, batch):
        def meant():
            # a fetch of the run before may still be waiting
            return [j for j in self.waiting if j["queue"] in asked["queues"]]

        self.lock.wait_for(meant, min(asked["timeout"], 0.1))
        taken = meant()[:asked.get("count", 1)]
        self.waiting = [j for j in self.waiting if j not in taken]
        if batch:
            return 200, {"jobs": taken}
        return (200, taken[0]) if taken else (204, None)

    def ack(self, asked, batch):
        return 200, {"acked": len(asked["acks"])} if batch else {}


@pytest.fixture
def queue():
    q = Queue()
    yield q
    q.stop()


def bench(queue, *args, count=JOBS, connections=4):
    return corvo("bench", *args, "--count", str(count),
                 "--connections", str(connections), fake=queue)


def refused(p, *texts):
    assert (p.returncode, p.stdout) == (1, ""), p
    assert p.stderr.startswith("Error: ") and p.stderr.count("\n") == 1
    assert "there are no figures" in p.stderr
    for text in texts:
        assert text in p.stderr, p.stderr


def is_cleaned_up(queue):
    """Its queue, and no other."""
    (name,) = queue.queues
    assert name.startswith("corvo-bench-")
    return queue.removed == [f"/api/v1/queues/{name}?confirm=true"]


# --- all is well ---------------------------------------------------------


@pytest.mark.parametrize("protocol", ["http", "batch"])
@pytest.mark.parametrize("mode", MODES)
def test_every_mode_shows_figures_and_cleans_up(queue, mode, protocol):
    more = ["--burst", "15"] if mode == "burst" else []
    if protocol == "batch":
        more += ["--batch", "7"]
    p = bench(queue, mode, "--protocol", protocol, *more)
    assert (p.returncode, p.stderr) == (0, ""), p
    assert f"mode {mode}, protocol {protocol}, connections 4" in p.stdout
    assert f"{JOBS} jobs in " in p.stdout
    assert f"url {queue.url}, version 0.0.1" in p.stdout
    assert queue.made == JOBS and queue.waiting == []
    assert is_cleaned_up(queue)


def test_jobs_are_as_large_as_asked_for(queue):
    sizes = set()

    def spoil(what, answer):
        if what == "fetch" and answer[0] == 200:
            for job in answer[1].get("jobs", [answer[1]]):
                sizes.add(len(json.dumps(job["payload"],
                                         separators=(",", ":"))))
        return answer

    queue.spoil = spoil
    assert bench(queue, "--payload", "333").returncode == 0
    assert sizes == {333}


def test_a_refused_request_is_sent_again(queue):
    turns = iter(range(10 ** 9))

    def answer(method, path, asked, real=queue.answer):
        if "enqueue" in path and next(turns) % 3 == 0:
            return 429, {"error": "busy", "code": "OVERLOADED"}
        return real(method, path, asked)

    queue.answer = answer
    p = bench(queue, "enqueue")
    assert p.returncode == 0 and "were refused for a moment" in p.stdout, p
    assert queue.made == JOBS


# --- what spoils figures -------------------------------------------------


@pytest.mark.parametrize("mode", ["enqueue", "combined"])
def test_a_lost_job_is_named_and_nothing_shown(queue, mode):
    queue.loses = lambda job_id: job_id.endswith("07")
    refused(bench(queue, mode), "1 job was lost (job_" + "0" * 24 + "07)")
    assert is_cleaned_up(queue)


@pytest.mark.parametrize("mode, connections", [("fetch", 1), ("combined", 2)])
def test_a_job_handed_out_twice_is_named(queue, mode, connections):
    done = []

    def again(asked, batch, real=queue.fetch):
        answer = real(asked, batch)
        if answer[0] == 200 and not done:
            jobs = answer[1].get("jobs", [answer[1]])
            done.append(jobs[0]["job_id"])
            queue.waiting.insert(0, jobs[0])
        return answer

    queue.fetch = again
    # one worker: no other can end the run while it waits for the second
    p = bench(queue, mode, connections=connections)
    refused(p, f"1 job was handed out twice ({done[0]})")
    assert is_cleaned_up(queue)


def test_one_id_for_two_jobs_is_noticed(queue):
    def same(what, answer):
        if what == "enqueue" and answer[1].get("job_id", "").endswith("02"):
            return 201, {"job_id": "job_" + "0" * 25 + "1"}
        return answer

    queue.spoil = same
    refused(bench(queue, "enqueue"), "under another id")


def test_a_job_of_somebody_else_is_noticed(queue):
    def foreign(what, answer):
        if what == "fetch" and answer[0] == 200:
            for job in answer[1].get("jobs", [answer[1]]):
                job["payload"] = {"bench": 10 ** 9}
        return answer

    queue.spoil = foreign
    refused(bench(queue, "fetch"), "never taken in")


@pytest.mark.parametrize("what", ["enqueue", "fetch", "ack"])
def test_an_error_of_the_server_ends_it(queue, what):
    queue.spoil = lambda asked, answer: (
        (504, {"error": "nobody knows", "code": "OUTCOME_UNKNOWN"})
        if asked == what else answer)
    refused(bench(queue, "combined"), "status 504", "nobody knows")
    assert is_cleaned_up(queue)


def test_a_partial_ack_ends_it(queue):
    queue.spoil = lambda what, answer: (
        (200, {"acked": 1, "refused": [{"job_id": "x", "code": "LEASE_LOST"}]})
        if what == "ack" else answer)
    refused(bench(queue, "--protocol", "batch"), "jobs were acked",
            "LEASE_LOST")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_cleans_up(queue, number):
    env = {**os.environ, "CORVO_URL": queue.url}
    with subprocess.Popen([CORVO, "bench", "--duration", "1h",
                           "--connections", "4"], env=env, text=True,
                          stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as p:
        assert queue.asked.wait(patience(30))
        p.send_signal(number)
        out, err = p.communicate(timeout=patience(30))
    assert (p.returncode, out) == (1, ""), err
    assert err == "Error: interrupted; there are no figures\n"
    assert is_cleaned_up(queue)


def test_a_queue_that_stays_is_named(queue):
    def answer(method, path, asked, real=queue.answer):
        if method == "DELETE":
            return 503, {"error": "no leader", "code": "LEADER_UNAVAILABLE"}
        return real(method, path, asked)

    queue.answer = answer
    p = bench(queue, "enqueue")
    assert (p.returncode, p.stdout) == (1, ""), p
    (name,) = queue.queues
    assert f"queue {name} is left: no leader" in p.stderr
    assert f"corvo destroy {name} --confirm" in p.stderr


# --- the command line ----------------------------------------------------


@pytest.mark.parametrize("args, text", [
    (["race"], "bench takes one of: enqueue fetch ack combined burst"),
    (["--protocol", "stream"], "--protocol takes one of: http batch"),
    (["--batch", "10"], "--batch needs --protocol batch"),
    (["--burst", "10"], "--burst is for `corvo bench burst`"),
    (["--protocol", "batch", "--batch", "513"], "from 1 to 512"),
    (["--connections", "1"], "--connections takes a whole number from 2"),
    (["--connections", "many"], "--connections takes a whole number from 2"),
    (["--payload", "39"], "--payload takes a whole number from 40"),
    (["--payload", "200000", "--protocol", "batch"], "smaller --payload or"),
    (["--count", "0"], "--count takes a whole number from 1"),
    (["--duration", "0s"], "--duration takes a time such as 10s"),
    (["--duration", "soon"], "--duration takes a time such as 10s"),
    (["--server", "https://a:1"], "bench speaks plain HTTP"),
    (["enqueue", "fetch"], "too many arguments"),
])
def test_what_makes_no_sense_is_said(args, text):
    p = corvo("bench", *args)
    assert (p.returncode, p.stdout) == (2, "") and text in p.stderr, p


def test_no_server():
    p = corvo("bench", "--server", "http://127.0.0.1:1")
    assert p.returncode == 1 and p.stderr.startswith("Error: "), p


# --- results -------------------------------------------------------------


def result(path, rate, cpu, **run):
    path.write_text(json.dumps({
        "corvo_bench": 1, "at": "2026-01-02T03:04:05Z",
        "run": {"mode": "combined", "connections": 64, **run},
        "machine": {"cpu": "x", "load_after": rate},
        "server": {"version": "1"},
        "jobs": 10, "seconds": 1, "jobs_per_s": rate, "refused": 0,
        "times": [{"name": "ack", "count": 1, "p50_us": 100, "p90_us": 0,
                   "max_us": cpu}],
        "processes": [{"name": "raftd", "cpu_us_per_job": cpu},
                      {"name": "viewd"}]}))
    return path


def rows(text):
    return {line.rsplit(None, 3)[0]: line.split()[-3:]
            for line in text.splitlines()
            if len(line.split()) > 3 and "not the same" not in line}


def test_two_results_beside_each_other(tmp_path):
    a = result(tmp_path / "a", 1000, 10)
    b = result(tmp_path / "b", 1500, 5, connections=128, burst=7)
    p = corvo("bench", "compare", str(a), str(b))
    assert (p.returncode, p.stderr) == (0, ""), p
    assert "not the same: run connections, 64 and 128\n" in p.stdout
    assert "not the same: run burst, none and 7\n" in p.stdout
    assert p.stdout.count("not the same") == 2
    assert rows(p.stdout) == {
        "FIGURE": ["FIRST", "SECOND", "RATIO"],
        "jobs_per_s": ["1000.0", "1500.0", "1.500"],
        "ack p50_us": ["100.0", "100.0", "1.000"],
        "ack max_us": ["10.0", "5.0", "0.500"],
        "raftd cpu_us_per_job": ["10.0", "5.0", "0.500"]}


def test_a_run_is_saved_and_compared(queue, tmp_path):
    saved = tmp_path / "result"
    p = bench(queue, "--save", str(saved), "--output", "json")
    assert p.returncode == 0, p
    document = json.loads(saved.read_text())
    assert document == json.loads(p.stdout)
    assert document["jobs"] == JOBS
    assert document["run"]["payload_bytes"] == 100
    assert {t["name"] for t in document["times"]} == {
        "enqueue", "fetch", "ack", "start"}
    for t in document["times"]:
        # the last producers may hear of it after the last worker
        assert JOBS - 4 < t["count"] <= JOBS
        assert 0 < t["p50_us"] <= t["p90_us"] <= t["p99_us"] <= \
            t["p99.9_us"] <= t["max_us"]
    # the fake tells nothing of its processes
    assert [p["name"] for p in document["processes"]] == ["bench"]
    assert document["machine"]["cores"] == os.cpu_count()
    p = bench(queue, "--compare", str(saved))
    assert p.returncode == 0, p
    assert "jobs_per_s" in rows(p.stdout), p.stdout


@pytest.mark.parametrize("text", [
    None, "", "{}", "[1]", '{"corvo_bench": 2}', '{"corvo_bench": 1}'])
def test_what_is_no_result_is_refused_before_the_run(queue, tmp_path, text):
    path = tmp_path / "no"
    if text is not None:
        path.write_text(text)
    p = bench(queue, "--compare", str(path))
    assert (p.returncode, p.stdout) == (1, "") and str(path) in p.stderr, p
    assert queue.made == 0


def test_a_result_that_cannot_be_saved_is_said(queue, tmp_path):
    p = bench(queue, "--save", str(tmp_path / "no" / "file"))
    assert p.returncode == 1 and "cannot write" in p.stderr, p
    assert f"{JOBS} jobs in " in p.stdout
