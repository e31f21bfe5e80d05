"""Stopping and starting again, and starts that must be refused."""

import os
import subprocess

import pytest

from node import API, free_port, programs_for_everybody, wait_until


def without_lease(job):
    """A new leader gives every lease a full period; that end may differ."""
    return {k: v for k, v in job.items() if k != "lease_expires_at"}


def without_times(worker):
    """The store has its first job, and signs of life within some seconds."""
    return {k: v for k, v in worker.items()
            if k not in ("started_at", "last_heartbeat")}


def everything(client):
    """All a node can tell about its jobs."""
    wait_until(lambda: client.get(f"{API}/queues").status == 200, 20,
               "the view")
    jobs = client.search(limit=1000)["jobs"]
    return ([without_lease(client.job(j["id"])) for j in jobs],
            [without_lease(j) for j in jobs],
            client.get(f"{API}/queues").json,
            [without_times(w) for w in client.get(f"{API}/workers").json])


def fill(client):
    """Jobs in every state; returns the active one."""
    for n in range(5):
        client.enqueue("keep", payload={"n": n}, max_retries=2,
                       tags={"k": "v"}, priority="high")
    client.enqueue("keep", scheduled_at="2100-01-01T00:00:00Z")
    done, dead, retrying, active = [client.fetch("keep", lease_duration=3600)
                                    for _ in range(4)]
    client.ack(done, result={"r": 1}, checkpoint=[1])
    client.fail(dead, retry=False, error="e", backtrace="b")
    client.fail(retrying, retry_after="1h")
    client.post(f"{API}/heartbeat", {"jobs": {active["job_id"]: {
        "progress": 5, "checkpoint": {"c": 1}}}})
    gone = client.enqueue("keep")
    client.post(f"{API}/jobs/{gone}/cancel")
    client.post(f"{API}/queues/keep/pause")
    return active


def test_a_stop_keeps_everything(make_node):
    node = make_node()
    node.start()
    with node.client() as c:
        active = fill(c)
        before = everything(c)
        token = active["lease_token"]
    for _ in range(3):
        node.stop()
        node.start()
    with node.client() as c:
        assert everything(c) == before
        a = c.post(f"{API}/ack/{active['job_id']}", {"lease_token": token})
        assert a.status == 200
        assert c.fetch("keep") is None  # still paused
        c.post(f"{API}/queues/keep/resume")
        job = c.fetch("keep")
        assert job["payload"] == {"n": 4}
        assert job["lease_token"] > token


def test_a_lost_view_is_made_again(make_node):
    node = make_node()
    node.start()
    with node.client() as c:
        fill(c)
        before = everything(c)
    node.stop()
    for path in (node.data / "view").iterdir():
        path.unlink()
    node.start()
    with node.client() as c:
        after = everything(c)
    assert after[0] == before[0]
    assert after[1] == before[1] and after[2] == before[2]


def test_a_broken_view_is_made_again(make_node):
    node = make_node()
    node.start()
    with node.client() as c:
        fill(c)
        before = everything(c)
    node.stop()
    for path in (node.data / "view").iterdir():
        path.write_bytes(b"this is no database" * 1000)
    node.start()
    with node.client() as c:
        assert everything(c)[:3] == before[:3]


def test_scheduled_in_the_past_of_a_stop(make_node):
    """What became due while the node was down is done at once."""
    node = make_node()
    node.start()
    with node.client() as c:
        job_id = c.enqueue("later", retry_base_delay="100ms")
        c.fail(c.fetch("later"))
        lost = c.enqueue("lost")
        c.fetch("lost", lease_duration_ms=100)
    node.stop()
    node.start()
    with node.client() as c:
        assert c.fetch("later", timeout=10)["job_id"] == job_id
        assert c.fetch("lost", timeout=10)["job_id"] == lost


# --- refused ----------------------------------------------------------------


def test_second_node_on_the_same_directory(make_node):
    first = make_node()
    first.start()
    second = make_node()
    second.data = first.data
    status, words = second.refuses()
    assert status != 0
    assert "in use by another node" in words and str(first.process.pid) in words
    assert "--data-dir" in words
    with first.client() as c:
        c.enqueue("fine")


def test_busy_port(make_node):
    first = make_node()
    first.start()
    second = make_node()
    second.port = first.port
    status, words = second.refuses()
    assert status != 0
    assert str(first.port) in words and "in use" in words.lower()
    assert first.is_ready()


def test_unwritable_directory(make_node):
    node = make_node()
    (node.dir / "file").write_text("not a directory")
    node.data = node.dir / "file" / "data"
    status, words = node.refuses()
    assert status != 0 and str(node.data) in words


def test_directory_of_somebody_else(make_node):
    """As a user without the right to write there."""
    node = make_node()
    node.data.mkdir(mode=0o555)
    corvo = programs_for_everybody(node.dir)
    nobody = {}
    if os.geteuid() == 0:  # who may write everywhere
        nobody = {"user": 65534, "group": 65534, "extra_groups": []}
    r = subprocess.run([str(corvo), *node.command()[1:]], timeout=30,
                       capture_output=True, text=True, **nobody)
    assert r.returncode == 1, r
    assert f"cannot write in the directory {node.data}" in r.stderr
    assert "--data-dir" in r.stderr


@pytest.mark.parametrize("text,words", [
    ("this is no setting\n", "1"),
    ("no_such_setting = 1\n", "no_such_setting"),
    ("raft_segment_size = lots\n", "raft_segment_size"),
    ("shutdown_timeout = -5s\n", "shutdown_timeout"),
    ("log_level = loud\n", "log_level"),
    ("bind = nowhere:port\n", "bind"),
    ("httpd_processes = 0\n", "httpd_processes"),
    ("\xff\xfe\x00\n", ""),
])
def test_broken_configuration_file(make_node, text, words):
    node = make_node()
    path = node.dir / "corvo.conf"
    path.write_bytes(text.encode("latin-1"))
    # The flags of the command line must not hide what the file says.
    command = [x for x in node.command(f"--config={path}")
               if not (x.startswith("--bind") and "bind =" in text)]
    r = subprocess.run(command, timeout=30, capture_output=True, text=True)
    assert r.returncode != 0
    assert str(path) in r.stderr and words in r.stderr, r.stderr


def test_missing_configuration_file(make_node):
    node = make_node()
    status, words = node.refuses("--config=/nowhere/corvo.conf")
    assert status != 0 and "/nowhere/corvo.conf" in words


def test_configuration_file(make_node):
    node = make_node()
    path = node.dir / "corvo.conf"
    path.write_text("# a comment\n\ncompat = 0.3\nmax_payload_size = 1KiB\n")
    node.start(f"--config={path}")
    with node.client() as c:
        assert c.job(c.enqueue("q"))["priority"] == 2
        a = c.post(f"{API}/enqueue", {"queue": "q", "payload": "x" * 1024})
        assert (a.status, a.code) == (413, "PAYLOAD_TOO_LARGE")


def test_unknown_flag(make_node):
    status, words = make_node().refuses("--no-such-flag=1")
    assert status != 0 and "no-such-flag" in words


@pytest.mark.parametrize("address", ["0.0.0.0", "[::]"])
def test_open_address_needs_open(make_node, address):
    node = make_node()
    status, words = node.refuses(f"--bind={address}:{free_port()}")
    assert status != 0
    assert "--open" in words and "127.0.0.1" in words


def test_open_address_with_open(make_node):
    node = make_node()
    node.start(f"--bind=0.0.0.0:{node.port}", "--open")
    with node.client() as c:
        c.enqueue("open")


def test_address_that_is_not_ours(make_node):
    status, words = make_node().refuses("--bind=192.0.2.1:8080", "--open")
    assert status != 0 and "192.0.2.1" in words


def test_a_refused_start_leaves_nothing_behind(make_node):
    first = make_node()
    first.start()
    second = make_node()
    second.port = first.port
    second.refuses()
    second.port = free_port()
    second.start()
    with second.client() as c:
        c.enqueue("fine")
