"""GET /api/v1/metrics and debug/runtime; what docs/monitoring relies on."""

import contextlib
import json
import math
import os
import re
import shutil
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import yaml
from node import API, PROCS, SOURCE, wait_until

MONITORING = SOURCE / "docs/monitoring"

# The series of Corvo 0.3 that mean something here.
CATALOGUE = """
corvo_throughput_enqueued_total corvo_throughput_completed_total
corvo_throughput_failed_total corvo_lifecycle_streams_open
corvo_cluster_is_leader corvo_sqlite_mirror_lag_updates
corvo_sqlite_mirror_dropped_total corvo_raft_apply_pending
corvo_raft_apply_max_pending corvo_raft_apply_overload_total
corvo_raft_fetch_overload_total corvo_raft_applied_total corvo_raft_state
corvo_raft_applied_index corvo_raft_commit_index
corvo_raft_snapshot_latest_index corvo_raft_queue_time_seconds_bucket
corvo_raft_apply_time_seconds_bucket corvo_metrics_errors_total
corvo_queues_total corvo_queue_jobs corvo_jobs corvo_workers_registered
corvo_workers_active corvo_process_goroutines corvo_process_heap_inuse_bytes
corvo_process_stack_inuse_bytes corvo_scheduler_promote_total
corvo_scheduler_reclaim_total corvo_scheduler_expire_total
corvo_scheduler_purge_total corvo_scheduler_promote_errors_total
corvo_scheduler_reclaim_errors_total corvo_scheduler_expire_errors_total
corvo_scheduler_purge_errors_total corvo_scheduler_last_promote_seconds
corvo_scheduler_last_reclaim_seconds corvo_scheduler_last_expire_seconds
corvo_scheduler_last_purge_seconds corvo_http_requests_total
corvo_http_request_errors_total corvo_http_request_duration_seconds_bucket
corvo_http_requests_in_flight corvo_rate_limit_throttled_total
""".split()

HTTP_BOUNDS = (".001 .005 .01 .025 .05 .1 .25 .5 1 2.5 5 10".split())


def text_of(client):
    a = client.get(f"{API}/metrics")
    assert a.status == 200, a
    return a.body.decode()


def names_of(client):
    """Names of all samples, histograms with their suffixes."""
    return {re.split(r"[{ ]", line)[0] for line in
            text_of(client).splitlines() if not line.startswith("#")}


def by_label(metrics, name, label):
    """{value of the label: value} of the series of that name."""
    found = {}
    for series, value in metrics.items():
        m = re.match(re.escape(name) + r'\{(?:.*,)?' + label + r'="([^"]*)"',
                     series)
        if m:
            found[m[1]] = found.get(m[1], 0) + value
    return found


def promtool(*args, text=None):
    assert shutil.which("promtool"), "promtool is missing: tools/deps test"
    done = subprocess.run(["promtool", *args], input=text, text=True,
                          capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "error" not in (done.stdout + done.stderr).lower()


def test_promtool_is_content(client, queue):
    for name in (queue, 'a"b\\c', "line\\n", "ünïcode", "{}=,"):
        client.enqueue(name)
    client.ack(client.fetch(queue))
    client.get("/no/such/path")
    promtool("check", "metrics", text=text_of(client))


def test_every_series_of_the_catalogue(client, queue):
    client.enqueue(queue)
    assert set(CATALOGUE) - names_of(client) == set()


def test_bounds_of_histograms(client):
    client.get("/healthz")
    les = {}
    for series in client.metrics():
        if m := re.match(r'(\w+)_bucket\{.*le="([^"]+)"', series):
            les.setdefault(m[1], set()).add(m[2])
    http = {float(x) for x in les["corvo_http_request_duration_seconds"]}
    assert http == {float(x) for x in HTTP_BOUNDS} | {float("inf")}
    raft = sorted(float(x) for x in les["corvo_raft_apply_time_seconds"])
    assert len(raft) == 15 and raft[0] == 50e-6 and raft[-2] == 1
    assert les["corvo_raft_queue_time_seconds"] == \
        les["corvo_raft_flush_time_seconds"] == \
        les["corvo_raft_turn_time_seconds"] == \
        les["corvo_raft_turn_cpu_seconds"] == \
        les["corvo_raft_apply_time_seconds"]


def test_a_flush_of_the_log_is_timed(client, queue):
    """Each job that is answered was flushed, and others wait for it."""
    before = client.metrics()
    for _ in range(5):
        client.enqueue(queue)
    after = client.metrics()
    flushes = after["corvo_raft_flush_time_seconds_count"] - \
        before["corvo_raft_flush_time_seconds_count"]
    took = after["corvo_raft_flush_time_seconds_sum"] - \
        before["corvo_raft_flush_time_seconds_sum"]
    assert flushes >= 5 and took > 0


def test_counters_never_go_down(client, queue):
    kinds = {}
    seen = {}
    for i in range(10):
        client.enqueue(queue)
        job = client.fetch(queue)
        if i % 2:
            client.ack(job)
        else:
            client.fail(job, retry=False)
        for line in text_of(client).splitlines():
            if m := re.match(r"# TYPE (\w+) (\w+)", line):
                kinds[m[1]] = m[2]
        for series, value in client.metrics().items():
            name = re.split(r"[{ ]", series)[0]
            family = re.sub(r"_(bucket|sum|count)$", "", name)
            if "counter" == kinds.get(name) or \
                    "histogram" == kinds.get(family):
                assert value >= seen.get(series, 0), series
                seen[series] = value
    assert len(seen) > 50


def test_every_process_tells_of_itself(client, node):
    want = set(PROCS) | {"supervisor"}
    wait_until(lambda: set(by_label(client.metrics(),
                                    "corvo_process_open_fds",
                                    "process")) == want, 20, "all processes")
    m = client.metrics()
    for name in ("uptime_seconds", "resident_memory_bytes",
                 "cpu_seconds_total", "open_fds", "goroutines",
                 "heap_inuse_bytes", "stack_inuse_bytes"):
        rows = by_label(m, f"corvo_process_{name}", "process")
        assert set(rows) == want, name
        if name != "cpu_seconds_total":
            assert all(v > 0 for v in rows.values()), (name, rows)
    fds = by_label(m, "corvo_process_open_fds", "process")
    pid = node.pids()["raftd"]
    assert abs(fds["raftd"] - len(os.listdir(f"/proc/{pid}/fd"))) < 10


def test_sizes(client):
    m = client.metrics()
    parts = by_label(m, "corvo_storage_bytes", "part")
    assert set(parts) == {"rocksdb", "raft", "sqlite"}
    assert all(v > 0 for v in parts.values())
    assert m["corvo_disk_free_bytes"] > 0
    assert by_label(m, "corvo_build_info", "version")


@pytest.mark.parametrize("store", ["uv", "segment"])
def test_the_size_of_the_log_is_that_of_its_files(make_node, store):
    """Whichever way it is kept: segments of 4 MiB are there from the start."""
    node = make_node(f"--raft-store={store}", "--raft-segment-size=4MiB")
    node.start()
    with node.client() as c:
        wait_until(lambda: by_label(c.metrics(), "corvo_storage_bytes",
                                    "part").get("raft", 0) > 4 << 20,
                   30, "the segments to be counted")


@contextlib.contextmanager
def hanging(pid):
    """The supervisor may kill it for that."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def test_numbers_of_jobs_do_not_wait_for_the_view(client, node, queue):
    wait_until(lambda: is_whole(client.metrics()), 60, "every number")
    before = client.metrics()
    silent = 'corvo_metrics_errors_total{process="viewd"}'
    with hanging(node.pids()["viewd"]):
        client.enqueue(queue)
        job = client.fetch(queue, worker_id=queue)
        assert client.state(job["job_id"]) == "active"  # this node has it
        m = client.metrics()
    assert m[silent] == before[silent] + 1
    assert by_label(m, "corvo_queue_jobs", "queue")[queue] == 1
    assert m[f'corvo_queue_jobs{{queue="{queue}",state="active"}}'] == 1

    def grew(name):
        return m[name] - before[name]

    assert grew('corvo_jobs{state="active"}') == 1
    assert grew("corvo_queues") == grew("corvo_queues_total") == 1
    assert grew("corvo_workers_registered") == 1
    assert grew("corvo_workers_active") == 1
    assert m["corvo_disk_free_bytes"] > 0
    # and it is said how far behind the view is
    assert m["corvo_view_seq"] == before["corvo_view_seq"]
    assert m["corvo_view_lag_events"] == \
        m["corvo_event_seq"] - before["corvo_view_seq"]
    assert m["corvo_view_lag_seconds"] > 0
    wait_until(lambda: client.metrics()["corvo_view_lag_events"] == 0, 30,
               "the view")


def is_whole(metrics):
    """No process is away, and nothing is unknown."""
    return len(by_label(metrics, "corvo_storage_bytes", "part")) == 3 and \
        not any(map(math.isnan, metrics.values()))


def test_no_series_goes_with_the_view(client, node, queue):
    client.enqueue(queue)
    wait_until(lambda: is_whole(client.metrics()), 60, "every number")
    series = set(client.metrics())
    old = node.pids()["viewd"]
    with hanging(old):
        m = client.metrics()
        assert series - set(m) == set()
        assert all(math.isnan(v) for v in
                   by_label(m, "corvo_storage_bytes", "part").values())
        promtool("check", "metrics", text=text_of(client))
        with contextlib.suppress(ProcessLookupError):
            os.kill(old, signal.SIGKILL)

    def is_back():
        m = client.metrics()
        assert series - set(m) == set()
        return is_whole(m) and node.ps("viewd")["state"] == "ready"

    wait_until(is_back, 60, "viewd to be back")


def test_page_is_answered_while_raftd_hangs(make_node):
    node = make_node("--stopped-timeout=1m").start()
    with node.client() as c:
        with hanging(node.pids()["raftd"]):
            m = c.metrics()
        assert m['corvo_metrics_errors_total{process="raftd"}'] == 1
        assert "corvo_raft_state" not in m
        assert m["corvo_http_connections"] >= 1


def test_timed_work_is_counted(client, queue):
    before = client.metrics()
    soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 2))
    client.enqueue(queue, scheduled_at=soon)
    client.enqueue(queue + "-e", expire_after="1s")
    client.enqueue(queue + "-l")
    client.fetch(queue + "-l", lease_duration=1)
    a = client.request("PATCH", f"{API}/queues/{queue}-p",
                       {"retention": "1s"})
    assert a.status == 200, a
    client.enqueue(queue + "-p")
    client.ack(client.fetch(queue + "-p"))

    def grown(kind):
        return client.metrics()[f"corvo_scheduler_{kind}_total"] > \
            before[f"corvo_scheduler_{kind}_total"]

    for kind in ("promote", "expire", "reclaim", "purge"):
        wait_until(lambda k=kind: grown(k), 30, kind)
        m = client.metrics()
        last = m[f"corvo_scheduler_last_{kind}_seconds"]
        assert abs(last - time.time()) < 60
        assert m[f"corvo_scheduler_{kind}_errors_total"] == 0


def test_latency_and_run_time(client, queue):
    before = client.metrics()
    client.enqueue(queue)
    client.enqueue(queue)
    client.ack(client.fetch(queue))
    job = client.fetch(queue)
    client.fail(job, retry=False)
    assert client.state(job["job_id"]) == "dead"  # this node has it
    after = client.metrics()
    for name in ("corvo_job_start_latency_seconds", "corvo_job_run_seconds"):
        assert after[name + "_count"] - before[name + "_count"] == 2
        assert after[name + "_sum"] > before[name + "_sum"]


def test_oldest_waiting_of_a_queue(client, queue):
    row = f'corvo_queue_oldest_waiting_seconds{{queue="{queue}"}}'
    job = client.enqueue(queue)
    assert client.state(job) == "pending"  # this node has it
    first = client.metrics()[row]
    wait_until(lambda: client.metrics()[row] > first, 10, "time to pass")
    client.ack(client.fetch(queue))
    assert client.state(job) == "completed"
    assert client.metrics()[row] == 0


def test_refusals_for_load_are_counted(client, queue):
    client.request("PATCH", f"{API}/queues/{queue}", {"max_backlog": 1})
    client.enqueue(queue)
    row = ('corvo_rate_limit_throttled_total{method="POST",'
           'route="/api/v1/enqueue"}')
    before = client.metrics()[row]
    a = client.post(f"{API}/enqueue", {"queue": queue})
    assert a.status == 429
    assert client.metrics()[row] == before + 1


def test_series_of_queues_are_bounded(make_node):
    node = make_node().start()
    wait_until(node.has_view, 60, "the view")
    with node.client() as c:
        jobs = [{"queue": f"q{i:04}"} for i in range(1100)]
        jobs += [{"queue": "zz-busy"}] * 3
        a = c.post(f"{API}/enqueue/batch", {"jobs": jobs})
        assert a.status == 201, a
        assert c.state(a.json["job_ids"][-1]) == "pending"  # this node has it
        m = c.metrics()
        assert m["corvo_queues"] == 1101
        rows = by_label(m, "corvo_queue_jobs", "queue")
        assert len(rows) == 1000 and rows["zz-busy"] == 3
        rows = by_label(m, "corvo_queue_oldest_waiting_seconds", "queue")
        assert len(rows) == 1000 and "zz-busy" in rows
        assert m['corvo_jobs{state="pending"}'] == 1103
        assert len(c.get(f"{API}/scale").json["queues"]) == 1000
        promtool("check", "metrics", text=text_of(c))
    # Who waits longest is read in little by little after a start.
    node.stop()
    node.start()
    with node.client() as c:
        waits = waiting(c)
        assert len(waits) == 1000 and any(map(math.isnan, waits))
        wait_until(lambda: all(w > 0 for w in waiting(c)), 20, "all of them")


def waiting(client):
    rows = by_label(client.metrics(), "corvo_queue_oldest_waiting_seconds",
                    "queue")
    return list(rows.values())


def test_several_httpd_processes_are_all_told_of(make_node, queue):
    node = make_node("--httpd-processes=2").start()
    wait_until(node.has_view, 60, "the view")
    name = "corvo_http_requests_total"
    seen = {}
    # who comes alone is taken by the same process each time
    for other in ("httpd-0", "httpd-1"):
        pid = node.pids()[other]
        os.kill(pid, signal.SIGSTOP)
        try:
            with node.client() as c:
                c.enqueue(queue)
        finally:
            os.kill(pid, signal.SIGCONT)

    def scrape():
        with node.client() as c:
            c.enqueue(queue)
            m = c.metrics()
        rows = by_label(m, name, "httpd")
        for httpd, value in rows.items():
            assert value >= seen.get(httpd, 0), (httpd, rows, seen)
        seen.update(rows)
        return m

    wait_until(lambda: scrape() and set(seen) == {"0", "1"}, 20, "both")
    for _ in range(50):
        m = scrape()
    assert sum(by_label(m, name, "httpd").values()) >= 100
    assert {"httpd-0", "httpd-1"} <= set(
        by_label(m, "corvo_process_open_fds", "process"))
    with node.client() as c:
        promtool("check", "metrics", text=text_of(c))


def test_runtime(client):
    a = client.get(f"{API}/debug/runtime")
    assert a.status == 200
    assert set(a.json) == {
        "goroutines", "gomaxprocs", "heap_inuse_bytes", "stack_inuse_bytes",
        "gc_pause_p99_ns", "cpu_user_ns", "cpu_sys_ns"}
    assert all(isinstance(v, int) and v >= 0 for v in a.json.values())
    assert a.json["goroutines"] >= len(PROCS)
    assert a.json["heap_inuse_bytes"] > 1 << 20


def test_processor_time_grows(client, queue):
    before = client.get(f"{API}/debug/runtime").json

    def cpu():
        for _ in range(50):
            client.enqueue(queue)
        now = client.get(f"{API}/debug/runtime").json
        return sum(now[k] - before[k] for k in ("cpu_user_ns", "cpu_sys_ns"))

    wait_until(lambda: cpu() > 0, 30, "processor time to be counted")


def test_scrapes_beside_each_other(node):
    def scrape(_):
        with node.client() as c:
            return len(text_of(c))

    with ThreadPoolExecutor(8) as pool:
        assert min(pool.map(scrape, range(40))) > 1000


# --- docs/monitoring ------------------------------------------------------

def named(text):
    return set(re.findall(r"\bcorvo_\w+", text))


def test_alert_rules_are_valid_and_name_what_exists(client, queue):
    client.enqueue(queue)
    path = MONITORING / "alerts.yaml"
    promtool("check", "rules", str(path))
    rules = [r for g in yaml.safe_load(path.read_text())["groups"]
             for r in g["rules"]]
    used = set().union(*(named(r["expr"]) for r in rules))
    assert used and used - names_of(client) == set()
    for rule in rules:  # tests/docs/test_alerts.py: each is in the runbook
        assert rule["labels"]["severity"] in ("warning", "critical")


def test_dashboard_is_valid_and_names_what_exists(client, queue):
    client.enqueue(queue)
    board = json.loads((MONITORING / "grafana-dashboard.json").read_text())
    panels = [p for p in board["panels"] if p["type"] != "row"]
    ids = [p["id"] for p in board["panels"]]
    assert len(set(ids)) == len(ids)
    exprs = [t["expr"] for p in panels for t in p["targets"]]
    assert all(p["targets"] and p["title"] for p in panels)
    used = set().union(*map(named, exprs))
    assert len(used) > 20 and used - names_of(client) == set()
    # A minute is too short where Prometheus asks once a minute, its default.
    assert not [e for e in exprs if re.search(r"\[(\d+s|[1-4]m)\]", e)]
    plain = [e.replace("$instance", ".*").replace("$__rate_interval", "5m")
             for e in exprs]
    rules = {"groups": [{"name": "dashboard", "rules": [
        {"record": f"x{i}", "expr": e} for i, e in enumerate(plain)]}]}
    promtool("check", "rules", "/dev/stdin", text=yaml.safe_dump(rules))


def test_names_in_the_readme_exist(client, queue):
    client.enqueue(queue)
    families = names_of(client)
    families |= {re.sub(r"_(bucket|sum|count)$", "", n) for n in families}
    used = named((MONITORING / "README.md").read_text())
    assert used - families == set()
