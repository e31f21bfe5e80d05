"""The API on a UNIX socket."""

import contextlib
import grp
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest

from node import API, CORVO, UnixConnection, patience, wait_until


@pytest.fixture
def path():
    """Of a socket, in a short folder of its own."""
    folder = tempfile.mkdtemp(prefix="corvo-sock-")
    yield Path(folder) / "api.sock"
    shutil.rmtree(folder)


def connection(path):
    return UnixConnection(path, patience(30), host="any.example")


def ask(path, method, url, body=None):
    with contextlib.closing(connection(path)) as c:
        c.request(method, url, None if body is None else json.dumps(body))
        r = c.getresponse()
        return r.status, r.read()


def post(path, url, **body):
    status, text = ask(path, "POST", API + url, body)
    return status, json.loads(text or b"{}")


def both(node, path):
    return f"--bind=127.0.0.1:{node.port},unix:{path}"


def start(make_node, path, *flags):
    node = make_node()
    return node.start(both(node, path), *flags)


def test_a_job_goes_in_and_out_by_it(make_node, path):
    node = start(make_node, path, "--access-log=log",
                 "--client-max-requests-per-second=1",
                 "--client-max-connections=1")
    assert f"listening on 127.0.0.1:{node.port},unix:{path}" in node.log()
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    status, job = post(path, "/enqueue", queue="q", payload=7)
    assert status == 201
    status, got = post(path, "/fetch", queues=["q"], worker_id="w")
    assert (status, got["job_id"]) == (200, job["job_id"])
    assert post(path, f"/ack/{job['job_id']}")[0] == 200
    # a fetch that waits for its job
    with contextlib.closing(connection(path)) as c:
        c.request("POST", f"{API}/fetch", json.dumps(
            {"queues": ["later"], "timeout": 30}))
        assert post(path, "/enqueue", queue="later")[0] == 201
        assert c.getresponse().status == 200
    with contextlib.closing(connection(path)) as c:
        c.request("GET", f"{API}/events")
        r = c.getresponse()
        assert r.status == 200
        assert post(path, "/enqueue", queue="seen")[0] == 201
        while b"seen" not in r.readline():
            pass
    wait_until(lambda: "caller=unix" in node.log(), 20, "the caller")
    node.stop()
    assert not path.exists()


def test_mode_and_group(make_node, path):
    # root may give it to any group, others to those they are in
    mine = [1] if os.geteuid() == 0 else [*os.getgroups(), os.getgid()]
    group = grp.getgrgid(mine[0])
    start(make_node, path, "--socket-mode=0600",
          f"--socket-group={group.gr_name}")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.stat().st_gid == group.gr_gid


def test_alone(make_node, path):
    node = make_node()
    node.spawn(f"--bind=unix:{path}")
    wait_until(lambda: path.exists() and ask(path, "GET", "/readyz")[0] == 200,
               60, "the node")
    assert node.ask("ps")["supervisor"]["address"] == f"unix:{path}"
    node.pids()


def test_what_a_killed_node_left_is_replaced(make_node, path):
    node = start(make_node, path)
    node.kill_all()
    assert path.exists()
    node.start(both(node, path))
    assert ask(path, "GET", "/readyz")[0] == 200


def test_another_front_goes_on_with_it(make_node, path):
    node = start(make_node, path)
    before = node.pids()["httpd-0"]
    os.kill(before, signal.SIGKILL)
    assert ask(path, "GET", f"{API}/info")[0] == 200
    assert node.pids()["httpd-0"] != before


def refused(make_node, path, *flags):
    status, words = make_node().refuses(f"--bind=unix:{path}", *flags)
    assert status != 0
    return words


def test_paths_that_are_refused(make_node, path):
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(path))
        s.listen(1)
        assert "another program listens there" in refused(make_node, path)
        assert path.is_socket()
    path.unlink()
    path.write_text("mine")
    assert "something else than a socket" in refused(make_node, path)
    assert path.read_text() == "mine"
    assert "too long for a socket" in refused(make_node, f"/tmp/{'x' * 200}")
    assert "its folder must exist" in refused(make_node, path.parent / "a/b")
    assert "must begin with /" in refused(make_node, "here")
    path.unlink()
    assert "no group" in refused(make_node, path, "--socket-group=no-such")
    assert "octal" in refused(make_node, path, "--socket-mode=rw")
    assert not path.exists()


def test_the_command(make_node, path):
    start(make_node, path)
    for how in ([f"--server=unix:{path}"], []):
        done = subprocess.run(
            [CORVO, "enqueue", "q", "1", *how], text=True, timeout=patience(30),
            capture_output=True, env=dict(os.environ, CORVO_URL=f"unix:{path}"))
        assert done.returncode == 0, done.stderr
    done = subprocess.run([CORVO, "status", f"--server=unix:{path}x"],
                          text=True, timeout=patience(30), capture_output=True)
    assert done.returncode != 0 and f"unix:{path}x" in done.stderr
