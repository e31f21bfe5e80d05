"""What Scheduled-DB promises in its documents, each by a test of that name."""

import os
import signal
import threading
import time

import pytest

import h2client
from node import API, Client, free_port, patience, running, wait_until
from scheddb import (calls_of, create, executions, health, once, post,
                     rfc3339, set_queue, soon, status, wait_for)
from sink import sink

NODE_FLAGS = ["--scheddb-inprogress-timeout=2s", "--scheddb-max-attempts=3",
              "--scheddb-history-retention=2s"]


@pytest.fixture(autouse=True)
def quick_retries(client):
    """The queue is there, and waits for a moment only between attempts."""
    client.request("DELETE", "/jobs/" + once(client, after=3600))
    set_queue(client, retry_base_delay_ms=30, retention="720h")


def answers(*statuses):
    """One after the other, then the last for ever."""
    left = list(statuses)
    lock = threading.Lock()

    def answer(call):
        with lock:
            s = left.pop(0) if len(left) > 1 else left[0]
        return s, {}, b"why not"
    return answer


# --- retries -------------------------------------------------------------


def test_retries_up_to_the_limit_with_backoff(client):
    with sink(answers(500)) as s:
        job_id = once(client, s.url())
        state = wait_for(client, job_id, "failed")
        state = wait_until(
            lambda: (lambda x: x if x["attempt_count"] == 3 and
                     len(x["attempts"]) == 3 else None)(
                         status(client, job_id)), what="three attempts")
        assert client.state(job_id) == "dead"
        at = [c.at for c in s.calls]
    assert len(at) == 3
    assert at[1] - at[0] >= 0.03 and at[2] - at[1] >= 0.06  # exponential
    assert [a["attempt_num"] for a in state["attempts"]] == [1, 2, 3]
    for a in state["attempts"]:
        assert a["status"] == "failed" and a["http_status"] == 500
        assert a["error_type"] == "http_error" and "500" in a["error_message"]
        assert a["node_id"] == "node-1" and a["end_time"] >= a["start_time"]


def test_every_failure_is_retried(client):
    statuses = {f"/{n}": answers(n, 200) for n in (400, 404, 429, 503)}
    with sink(lambda call: statuses[call.path](call)) as s:
        ids = {path: once(client, s.url(path)) for path in statuses}
        for path, job_id in ids.items():
            state = wait_for(client, job_id, "completed")
            assert [a["status"] for a in state["attempts"]] == [
                "failed", "completed"]
            assert [c.path for c in s.calls].count(path) == 2


def test_below_400_is_a_success_and_redirects_are_followed(client):
    def answer(call):
        if call.path == "/from":
            return 307, {"Location": "/to"}, b""
        if call.path == "/round":
            return 307, {"Location": "/round"}, b""
        return (304 if call.path == "/same" else 202), {}, b""

    with sink(answer) as s:
        ids = {path: once(client, s.url(path))
               for path in ("/from", "/same", "/202", "/round")}
        state = wait_for(client, ids.pop("/round"), "failed")
        assert state["attempts"][0]["error_type"] == "http_error"
        for job_id in ids.values():
            assert wait_for(client, job_id, "completed")["attempt_count"] == 1
        assert [c.path for c in s.calls].count("/to") == 1


def test_errors_are_classified(client):
    kinds = {once(client, f"http://127.0.0.1:{free_port()}/"):
             "connection_error",
             once(client, "http://no.such.host.invalid/"): "dns_error",
             once(client, "http://169.254.169.254/"): "connection_error"}
    for job_id, kind in kinds.items():
        state = wait_for(client, job_id, "failed")
        assert state["attempts"][0]["error_type"] == kind, state
        assert client.request("DELETE", f"/jobs/{job_id}").status == 204


def test_one_that_takes_too_long_is_a_timeout_and_is_retried(client):
    gate = threading.Event()

    def answer(call):
        if len(s.calls) == 1:
            gate.wait(60)
        return 200, {}, b""

    with sink(answer) as s:
        set_queue(client, push={"timeout": "100ms"})
        try:
            job_id = once(client, s.url())
            state = wait_for(client, job_id, "completed")
        finally:
            gate.set()
            set_queue(client, push={"timeout": "5m"})
    assert [(a["status"], a.get("error_type")) for a in state["attempts"]] == [
        ("timeout", "timeout"), ("completed", None)]


# --- history -------------------------------------------------------------


def test_history_is_kept_for_its_retention(client):
    with sink(answers(500, 200)) as s:
        job_id = once(client, s.url())
        wait_for(client, job_id, "completed")
    assert [a["status"] for a in executions(client, job_id)] == [
        "failed", "completed"]
    assert client.get(f"/jobs/{job_id}").status == 200
    # it is that of the queue, and then it is gone
    set_queue(client, retention="1ms")
    wait_until(lambda: client.get(f"/jobs/{job_id}/executions").status == 404,
               30, "the history to be forgotten")


# --- times ---------------------------------------------------------------


def test_exact_times(client):
    """Never early; how late is measured in bench."""
    with sink() as s:
        due = {}
        for n in range(20):
            before = time.time()
            due[once(client, s.url(), 0.2 + n / 100)] = before + 0.2 + n / 100
        for job_id, at in due.items():
            wait_for(client, job_id, "completed")
            (call,) = calls_of(s, job_id)
            assert call.at >= int(at * 1000) / 1000, "early"


@pytest.fixture(scope="module")
def recurrentes(node):
    """All that the tests below look at, made at once: seconds pass for all of
    them together. What was called; of each the time before it was made, what
    was asked for, and the answer."""
    made = {}

    def make(client, job_id, **members):
        before = time.time()
        a = post(client, id=job_id, type="recurrente", webhook_url=s.url(),
                 **members)
        made[job_id] = before, members, a.json
        return a.status == 200

    every = "* * * * * *"
    with sink() as s, node.client() as c:
        assert make(c, "rare", cron_expression="0 0 1 1 *")
        assert make(c, "every", cron_expression=every, payload={"n": 1})
        assert make(c, "later", cron_expression=every,
                    timestamp=rfc3339(time.time() + 1.1))
        # refused by a machine that takes so long that none is left
        wait_until(lambda: make(c, "short", cron_expression=every,
                                last_date=rfc3339(time.time() + 1.5)),
                   what="a time to come")
        yield s, made


def test_a_recurrente_runs_by_its_expression_and_not_at_creation(
        client, recurrentes):
    s, made = recurrentes
    before, asked, job = made["every"]
    assert job["cron_expression"] == asked["cron_expression"]
    wait_until(lambda: len(calls_of(s, "every")) >= 2, what="two runs")
    # at seconds that begin after it was made
    assert calls_of(s, "every")[0].at >= int(before) + 1
    assert calls_of(s, "every")[1].at >= int(before) + 2
    runs = wait_until(lambda: executions(client, "every"), what="executions")
    assert runs[0]["status"] == "completed"
    assert calls_of(s, "rare") == []
    state = status(client, "rare")
    assert state["status"] == "pending" and state["attempts"] == []
    # it counts once, whatever its runs do
    for job_id in ("every", "rare"):
        n = health(client)["jobs"]["count"]
        assert client.request("DELETE", f"/jobs/{job_id}").status == 204
        assert health(client)["jobs"]["count"] == n - 1
        assert client.get(f"/jobs/{job_id}").status == 404


def test_last_date_ends_a_recurrente(client, recurrentes):
    s, _ = recurrentes
    state = wait_for(client, "short", "completed")
    assert state["attempt_count"] == 1
    done = len(calls_of(s, "short"))
    assert 1 <= done <= 2
    assert "short" not in {j["job_id"] for j in client.get(
        "/jobs?status=pending").json["jobs"]}
    assert "short" in {j["job_id"] for j in client.get(
        "/jobs?status=completed").json["jobs"]}
    assert len(executions(client, "short")) == done


def test_timestamp_of_a_recurrente_is_its_beginning(client, recurrentes):
    s, made = recurrentes
    before, _, job = made["later"]
    assert job["timestamp"] == job["created_at"] >= int(before + 1.1)
    wait_until(lambda: calls_of(s, "later"), what="a run")
    assert calls_of(s, "later")[0].at >= before + 1.099
    a = client.post("/jobs/later/cancel", {"reason": "enough"})
    assert a.status == 200 and a.json["status"] == "cancelled", a
    n = health(client)["jobs"]["count"]
    state = status(client, "later")
    assert state["status"] == "cancelled"
    assert state["cancellation_reason"] == "enough"
    assert client.request("DELETE", "/jobs/later").status == 204
    assert health(client)["jobs"]["count"] == n


# --- concurrency ---------------------------------------------------------


def test_one_slow_endpoint_delays_nobody(client):
    gate = threading.Event()

    def answer(call):
        if call.path == "/slow":
            gate.wait(120)
        return 200, {}, b""

    with sink(answer) as s:
        try:
            slow = [once(client, s.url("/slow")) for _ in range(40)]
            wait_until(lambda: sum(c.path == "/slow" for c in s.calls) >= 16,
                       what="as many slow calls as there may be")
            quick = [once(client, s.url("/quick")) for _ in range(40)]
            for job_id in quick:
                wait_for(client, job_id, "completed")
            assert sum(c.path == "/slow" for c in s.calls) == 16
        finally:
            gate.set()
        for job_id in slow:
            wait_for(client, job_id, "completed", 30)


def test_cancel_aborts_a_call_that_is_under_way(client):
    gate = threading.Event()

    def answer(call):
        gate.wait(120)
        return 200, {}, b""

    with sink(answer) as s:
        try:
            job_id = once(client, s.url())
            wait_for(client, job_id, "in_progress")
            state = status(client, job_id)
            assert state["executing_node_id"] == "node-1"
            assert job_id in {j["job_id"] for j in client.get(
                "/jobs?status=in_progress").json["jobs"]}
            a = client.post(f"/jobs/{job_id}/cancel", {"reason": "stop"})
            assert a.status == 200 and a.json["message"], a
            state = status(client, job_id)
            assert state["status"] == "cancelled"
            assert state["attempts"][0]["status"] == "cancelled"
            assert state["attempts"][0]["error_type"] == "cancelled"
            # the one that called lets go of it
            wait_until(lambda: client.metrics()[
                "corvo_push_calls_open"] == 0, 30, "the call to be given up")
        finally:
            gate.set()


# --- what is lost --------------------------------------------------------


def test_nothing_is_lost_over_a_restart_with_pending_jobs(make_node):
    node = make_node("--scheddb-inprogress-timeout=1s")
    node.start()
    with sink() as s:
        with node.client() as c:
            ids = [once(c, s.url(), 1) for _ in range(20)]
            create(c, id="cron", type="recurrente", webhook_url=s.url(),
                   cron_expression="* * * * * *")
            before = health(c)["jobs"]
        node.kill_all()
        # a machine may be so slow that some were called already
        early = {i for i in ids if calls_of(s, i)}
        node.start()
        with node.client() as c:
            wait_until(lambda: c.get("/health").status == 200, 30, "health")
            assert health(c)["jobs"] == before or s.calls, before
            for job_id in ids:
                wait_for(c, job_id, "completed", 30)
            assert all(len(calls_of(s, i)) == 1 for i in ids
                       if i not in early)
            wait_until(lambda: calls_of(s, "cron"), 30, "the recurrente")
            assert c.request("DELETE", "/jobs/cron").status == 204


def test_an_execution_that_its_process_left_is_made_again(client, node):
    gate = threading.Event()

    def answer(call):
        if len(s.calls) == 1:
            gate.wait(120)
        return 200, {}, b""

    with sink(answer) as s:
        try:
            job_id = once(client, s.url())
            wait_until(lambda: s.calls, what="the first call")
            os.kill(node.pids()["sched"], signal.SIGKILL)
            wait_for(client, job_id, "completed", 30)
        finally:
            gate.set()
        ids = {c.headers["idempotency-key"] for c in s.calls}
        assert len(s.calls) == 2 and ids == {job_id}


# --- capacity ------------------------------------------------------------


def size_of(job_id, url="", payload=b""):
    return 192 + len(job_id) + len(url) + len(payload)


@pytest.fixture(scope="module")
def small():
    """A node with little room, whose jobs have one attempt."""
    with running("--scheddb-job-limit=12", "--scheddb-memory-limit=4000",
                 "--scheddb-max-attempts=1") as n:
        yield n


def test_capacity_by_count_and_its_text(small):
    with small.client() as c:
        ids = [once(c, after=3600) for _ in range(12)]
        a = post(c, type="unico", timestamp=soon(3600))
        assert a.status == 507, a
        body = a.json
        assert body.pop("code") == "INSUFFICIENT_STORAGE"
        assert body == {"error": "maximum jobs reached: current=12, limit=12",
                        "type": "job_count", "current": 12, "limit": 12,
                        "requested": 0}
        assert health(c)["jobs"] == {"count": 12, "limit": 12, "available": 0}
        name = 'corvo_scheddb_rejections_total{reason="job_count"}'
        assert c.metrics()[name] == 1
        # a job of the same id takes no second place
        assert post(c, id=ids[0], type="unico",
                    timestamp=soon(3600)).status == 200
        assert c.request("DELETE", f"/jobs/{ids[0]}").status == 204
        ids.append(once(c, after=3600))
        assert c.post(f"/jobs/{ids[1]}/cancel").status == 200
        ids.append(once(c, after=3600))
        before = c.metrics()["corvo_scheddb_deleted_total"]
        for job_id in ids[1:]:
            assert c.request("DELETE", f"/jobs/{job_id}").status == 204
        assert health(c)["jobs"]["count"] == 0
        assert c.metrics()["corvo_scheddb_deleted_total"] == before + 13


def test_capacity_by_bytes_its_text_and_its_release(small):
    with small.client() as c:
        first = once(c, after=3600, id="a" * 36, payload={"x": "y" * 3000})
        used = size_of(first, payload=b'{"x": "%s"}' % (b"y" * 3000))
        assert health(c)["memory"] == {
            "current_bytes": used, "limit_bytes": 4000,
            "available_bytes": 4000 - used,
            "utilization_percent": used / 40}
        a = post(c, id="b", type="unico", timestamp=soon(3600),
                 payload={"x": "y" * 600})
        more = size_of("b", payload=b'{"x": "%s"}' % (b"y" * 600))
        assert a.status == 507, a
        assert a.json["error"] == (
            f"insufficient memory: current={used} bytes, limit=4000 bytes, "
            f"requested={more} bytes")
        assert a.json["type"] == "memory" and a.json["requested"] == more
        assert c.get("/jobs/b").status == 404
        # released at the end of a job, whatever the end
        done = once(c, id="c")
        wait_for(c, done, "completed")
        assert health(c)["memory"]["current_bytes"] == used
        assert health(c)["jobs"]["count"] == 1
        assert c.post(f"/jobs/{first}/cancel").status == 200
        assert health(c)["memory"]["current_bytes"] == 0


def test_health_is_degraded_by_failures(small):
    with small.client() as c, sink(answers(500)) as s:
        assert health(c)["status"] == "ok"
        ids = [once(c, s.url()) for _ in range(10)]
        for job_id in ids:
            wait_for(c, job_id, "failed")
        h = health(c)
        assert h["status"] == "degraded", h
        assert h["execution"]["failure_rate"] > 0.5
        assert h["execution"]["failed"] == 10
        m = c.metrics()
        assert m['corvo_scheddb_failures_total{error_type="http_error"}'] == 10
        assert m["corvo_scheddb_execution_seconds_count"] >= 10
        # and unhealthy with no memory left as well
        once(c, after=3600, payload={"x": "y" * 3600})
        a = c.get("/health")
        assert a.status == 503 and a.json["status"] == "unhealthy", a


# --- where it is served --------------------------------------------------


TOKEN = "a token of some bytes"


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """A node with ports of its own for Scheduled-DB, and its old habits."""
    token = tmp_path_factory.mktemp("token") / "token"
    token.write_text(TOKEN + "\n")
    ports = free_port(), free_port()
    with running(f"--scheddb-bind=127.0.0.1:{ports[0]}",
                 f"--scheddb-metrics-bind=127.0.0.1:{ports[1]}",
                 "--scheddb-run-on-create=true", "--memory-limit=512MiB",
                 f"--scheddb-auth-token-file={token}") as n:
        n.sdb_ports = ports
        yield n


def test_addresses_of_its_own_for_jobs_and_for_metrics(other):
    jobs, numbers = other.sdb_ports
    with Client(jobs) as c, Client(numbers) as m:
        job_id = once(c, after=3600)
        assert c.get(f"/jobs/{job_id}").status == 200
        for path in ("/health", "/debug/cluster", "/healthz", "/metrics"):
            assert c.get(path).status == 200, path
        for path in (f"{API}/queues", f"{API}/jobs/{job_id}", "/openapi.json",
                     "/jobsx"):
            a = c.get(path)
            assert a.status == 404 and a.code == "NOT_FOUND", a
        assert c.post("/corvo.v1.WorkerService/Enqueue", {}).status == 404
        text = m.get("/metrics").body.decode()
        assert "\nscheduled_db_queue_job_count 1\n" in text
        assert "\nqueue_job_count 1\n" in text
        assert '\njobs_by_status{status="pending"} 1\n' in text
        assert "# TYPE queue_job_count gauge" in text
        assert "\ncluster_nodes 1\n" in text
        assert '\nhttp_requests_total{' in text
        assert '\njobs_total{type="unico"} 1\n' in text
        assert '\njobs_by_type{type="recurrente"} 0\n' in text
        for name in ("job_execution_duration", "http_request_duration"):
            assert f"# TYPE {name}_seconds histogram" in text
            assert f"\n{name}_seconds_count" in text
        assert '\nsystem_uptime_seconds{' in text
        assert m.get(f"/jobs/{job_id}").status == 404
        assert m.get("/health").status == 404
    with other.client() as c:
        assert c.request("DELETE", f"/jobs/{job_id}").status == 204
        assert "\nqueue_job_count" not in c.get("/metrics").body.decode()


@pytest.mark.parametrize("method", [
    "/corvo.v1.WorkerService/StreamLifecycle",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"])
def test_nor_are_streams_served_at_them(other, method):
    kind = [("content-type", "application/connect+json")]
    for port in other.sdb_ports:
        with h2client.Client(port, patience(30)) as c:
            a = c.answer(c.begin("POST", method, b"\0\0\0\0\2{}", kind,
                                 end=False))
            assert a.error() == (404, "NOT_FOUND"), a.body


def test_run_on_create_for_the_old_habit(other):
    with other.client() as c, sink() as s:
        create(c, id="old", type="recurrente", webhook_url=s.url(),
               cron_expression="0 0 1 1 *")
        wait_until(lambda: s.calls, what="a run at creation")
        wait_until(lambda: len(executions(c, "old")) == 1, what="its history")
        assert status(c, "old")["status"] == "pending"


def test_who_may_join_is_asked_for_a_token(other):
    body = {"node_id": "n2", "address": "127.0.0.1:1"}
    with other.client() as c:
        for headers in ({}, {"Authorization": "Bearer wrong"},
                        {"Authorization": "Basic " + TOKEN}):
            a = c.post("/join", body, headers)
            assert a.status == 401 and a.json["error"] == "Unauthorized", a
        good = {"Authorization": "Bearer " + TOKEN}
        a = c.post("/join", {"node_id": "n2"}, good)
        assert a.status == 400 and "address" in a.json["error"], a
        a = c.post("/join", body, good)
        assert a.status == 500, a
        assert a.json["error"].startswith("Failed to join cluster"), a


def test_a_share_of_the_memory_there_really_is(client, other):
    with other.client() as c:
        limit = health(c)["memory"]["limit_bytes"]
        assert abs(limit - (256 << 20)) < 1 << 20  # half of memory_limit
    total = next(int(line.split()[1]) << 10 for line in open("/proc/meminfo")
                 if line.startswith("MemTotal:"))
    # what the machine has, or the container it is in
    limit = health(client)["memory"]["limit_bytes"]
    assert 32 << 20 < limit <= total // 2
