"""Answers that say what is meant: what is missing is missing, what is told
twice is refused, and what a worker is given says where it comes from.
"""

import socket
import subprocess

import pytest

from node import API, CORVO, Node, free_port, seconds_of


def test_a_node_to_remove_must_be_named(client):
    for body in ({}, {"node_id": ""}, {"node_id": None}):
        a = client.post(f"{API}/cluster/remove", body)
        assert (a.status, a.code) == (400, "VALIDATION_ERROR"), a
        assert a.json["error"] == "node_id is required"
    a = client.post(f"{API}/cluster/remove", {"node": "x"})
    assert (a.status, a.code) == (400, "VALIDATION_ERROR"), a
    assert a.json["error"] == \
        "node (perhaps node_id): there is no such member"
    a = client.post(f"{API}/cluster/remove", {"node_id": "nobody"})
    assert (a.status, a.code) == (404, "NOT_FOUND"), a


@pytest.mark.parametrize("path,body", [
    ("enqueue", '{"queue": "q", "tags": {"a": "1", "b": "2", "a": "1"}}'),
    ("enqueue/batch", '{"jobs": [{"queue": "q", "tags": '
                      '{"a": "1", "b": "2", "\\u0061": "3"}}]}'),
    ("jobs/search", '{"tags": {"a": "1", "a": "2"}}'),
    ("webhooks", '{"url": "http://x/", "headers": {"a": "1", "a": "2"}}')])
def test_a_name_is_given_once(client, path, body):
    a = client.post(f"{API}/{path}", body)
    assert (a.status, a.code) == (400, "PARSE_ERROR"), a
    assert "a: is given twice" in a.json["error"], a


def test_a_payload_is_passed_through_as_it_is(client, queue):
    body = f'{{"queue": "{queue}", "payload": {{"a": 1, "a": 2}}}}'
    assert client.post(f"{API}/enqueue", body).status == 201


def test_a_fetched_job_says_where_it_comes_from(client, queue):
    job_id = client.enqueue(queue)
    job = client.fetch(queue)
    assert job["created_at"] == client.job(job_id)["created_at"]
    assert "schedule_id" not in job and "scheduled_for" not in job
    made = client.post(f"{API}/schedules", {
        "name": queue, "queue": queue, "cron": "@yearly"}).json
    client.post(f"{API}/schedules/{queue}/run", {})
    job = client.fetch(queue)
    shown = client.job(job["job_id"])
    assert job["schedule_id"] == made["id"] == shown["schedule_id"]
    assert job["scheduled_for"] == shown["scheduled_for"]
    assert seconds_of(job["created_at"]) > 0


def test_a_fetched_job_of_a_remote_call_says_it_too(client, queue):
    client.post(f"{API}/schedules", {
        "name": queue, "queue": queue, "cron": "@yearly"})
    client.post(f"{API}/schedules/{queue}/run", {})
    a = client.post("/corvo.v1.WorkerService/Fetch",
                    {"queues": [queue], "workerId": "w"},
                    {"Content-Type": "application/json"})
    assert a.status == 200, a
    shown = client.job(a.json["jobId"])
    assert a.json["scheduleId"] == shown["schedule_id"]
    assert seconds_of(a.json["createdAt"]) == seconds_of(shown["created_at"])
    assert seconds_of(a.json["scheduledFor"]) == \
        seconds_of(shown["scheduled_for"])


def test_a_schedule_may_be_put_back_as_it_was_shown(client, queue):
    made = client.post(f"{API}/schedules", {
        "name": queue, "queue": queue, "cron": "@yearly"}).json
    path = f"{API}/schedules/{queue}"
    a = client.request("PUT", path, client.get(path).json)
    assert a.status == 200 and a.json["id"] == made["id"], a
    a = client.request("PUT", path, {**made, "crom": "@daily", "odd": 1})
    assert (a.status, a.code) == (400, "VALIDATION_ERROR"), a
    assert a.json["error"] == \
        "crom (perhaps cron), odd: there are no such members"


# What v0.3.0 answers, as far as there is such a thing here.
STATUS_03 = {
    "mode": str, "status": str, "state": str, "leader_id": str,
    "leader_addr": str, "node_id": str, "applied_index": str,
    "commit_index": str, "raft_nosync": bool, "raft_store": str,
    "pebble_nosync": bool, "sqlite_mirror_async": bool,
    "lifecycle_events": bool, "snapshot_threshold": int,
    "apply_max_pending": int, "apply_max_fetch_queue_inflight": int,
    "apply_batch_max": int, "apply_batch_min_wait": str,
    "apply_pending_now": int, "overload_total": int,
    "fetch_overload_total": int, "applied_total": int,
    "queue_time_hist": dict, "apply_time_hist": dict, "snapshot": dict,
    "sqlite_mirror": dict, "sqlite_rebuild": dict, "nodes": list}


def test_cluster_status_has_what_clients_look_for(client, queue):
    client.enqueue(queue)
    status = client.get(f"{API}/cluster/status").json
    assert {k: type(status.get(k)) for k in STATUS_03} == STATUS_03
    assert status["leader_addr"] == status["nodes"][0]["address"]
    assert status["applied_total"] > 0
    assert status["snapshot"] == {"count": 0, "latest_index": 0,
                                  "latest_term": 0, "latest_size": 0}
    assert status["sqlite_rebuild"]["ran"] in (False, True)


# --- hosts

def asked(node, *head):
    with socket.create_connection(("127.0.0.1", node.port), timeout=30) as s:
        s.sendall("\r\n".join([*head, "Connection: close", "", ""]).encode())
        answer = b""
        while more := s.recv(65536):
            answer += more
    return int(answer.split(b" ", 2)[1])


@pytest.mark.parametrize("target,host,status", [
    ("http://localhost/api/v1/queues", "evil.example", 200),
    ("http://evil.example/api/v1/queues", "localhost", 421),
    ("http://evil.example:80/api/v1/queues?limit=1", "localhost", 421),
    ("/api/v1/queues", "evil.example", 421),
    ("/api/v1/queues", "localhost", 200),
    ("http://evil.example/healthz", "localhost", 200)])
def test_the_target_decides_over_the_header(node, target, host, status):
    assert asked(node, f"GET {target} HTTP/1.1", f"Host: {host}") == status


# --- the secret of a cluster

@pytest.mark.parametrize("secret,why", [
    ("short", "has 5 bytes; it takes 16 to 1024"), (None, "No such file")])
def test_a_secret_that_is_none_ends_the_start(tmp_path, secret, why):
    path = tmp_path / "secret"
    if secret is not None:
        path.write_text(secret)
    done = subprocess.run(
        [CORVO, "server", f"--data-dir={tmp_path}/data", "--bootstrap",
         f"--bind=127.0.0.1:{free_port()}",
         f"--raft-bind=127.0.0.1:{free_port()}",
         f"--cluster-secret-file={path}"],
        capture_output=True, text=True, timeout=60)
    assert done.returncode not in (0, None)
    (line,) = (done.stdout + done.stderr).splitlines()
    assert why in line and str(path) in line


def test_words_of_one_cluster_imply_it(tmp_path):
    """--bootstrap alone makes a cluster, which joins can find."""
    raft_port = free_port()
    node = Node("--bootstrap", f"--raft-bind=127.0.0.1:{raft_port}")
    try:
        node.start()
        with node.client() as c:
            (only,) = c.get(f"{API}/cluster/nodes").json["nodes"]
            assert only["voter"]
            assert c.get(f"{API}/cluster/status").json["leader_addr"] == \
                only["address"]
        with socket.create_connection(("127.0.0.1", raft_port), timeout=30):
            pass
    finally:
        node.clean_up()
