"""Verbs about the node on this machine, against a fake supervisor."""

import contextlib
import json
import socket
import threading

import pytest

from cli_fixture import corvo, ok

PS = {"supervisor": {"pid": 10, "version": "0.4.0", "node_id": "node-1",
                     "address": "127.0.0.1:8080", "state": "running",
                     "uptime_s": 3.5, "memory_bytes": 1048576, "cpu_s": 0.1},
      "processes": [{"name": "raftd", "pid": 11, "state": "up",
                     "restarts": 2, "uptime_s": 230000,
                     "memory_bytes": 3 * 1048576, "cpu_s": 1.25,
                     "status": "leader", "last_exit": None}],
      "memory": {"limit_bytes": 512 << 20, "from": "the machine",
                 "budgets": {"rocksdb_cache": 32 << 20}}}


@contextlib.contextmanager
def supervisor(run_dir, reply):
    """One answer on the control socket; yields the request's list."""
    got = []
    run_dir.mkdir(parents=True, exist_ok=True)
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
    assert lines[3] == "Total memory: 4.0 MiB of 512.0 MiB (the machine)"


def test_ps_of_a_node_that_does_not_know_its_memory(tmp_path):
    reply = {k: PS[k] for k in ("supervisor", "processes")}
    for more in ({}, {"memory": {"limit_bytes": 0, "from": ""}},
                 {"memory": 7}):
        with supervisor(tmp_path / "run", json.dumps(reply | more).encode()):
            out = ok("ps", "--run-dir", tmp_path / "run")
        assert out.splitlines()[3] == "Total memory: 4.0 MiB"
        (tmp_path / "run" / "control.sock").unlink()


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


def test_reload_says_what_changed_and_what_waits(tmp_path):
    reply = {"ok": True,
             "changed": [{"name": "log_level", "before": "info",
                          "value": "debug"}],
             "waiting": [{"name": "access_log", "value": "",
                          "next": "/tmp/a\x1b"}]}
    raw = json.dumps(reply).encode()
    with supervisor(tmp_path / "run", raw):
        assert ok("reload", "--run-dir", tmp_path / "run") == (
            "Settings reloaded\n"
            "Changed:\n  log_level: info -> debug\n"
            "Waiting for a restart of the node:\n"
            '  access_log: "" -> /tmp/a\\x1b\n')
    with supervisor(tmp_path / "run2", raw):
        assert json.loads(ok("reload", "--run-dir", tmp_path / "run2",
                             "--output=json")) == reply


SETTINGS = {"settings": [
    {"name": "node_id", "value": "a", "source": "file", "next": "b",
     "at": "restart"},
    {"name": "log_level", "value": "info", "source": "file", "next": "",
     "at": "reload"},
    {"name": "rocksdb_cache", "value": "8MiB", "source": "memory"}]}


def test_config_list_of_a_running_node(tmp_path):
    run = tmp_path / "data" / "run"
    with supervisor(run, json.dumps(SETTINGS).encode()) as got:
        lines = ok("config", "list", cwd=tmp_path).splitlines()
    assert got == ["config\n"]
    assert lines[0].split() == ["NAME", "VALUE", "SOURCE", "WAITING"]
    assert lines[1].split() == ["node_id", "a", "file", "b", "at", "the",
                                "next", "restart"]
    assert lines[2].split() == ["log_level", "info", "file", '""', "at",
                                "the", "next", "reload"]
    assert lines[3].split() == ["rocksdb_cache", "8MiB", "memory"]
    (run / "control.sock").unlink()
    with supervisor(run, json.dumps(SETTINGS | {"problem": "corvo.conf:1: "
                                                "no"}).encode()):
        p = corvo("config", "list", "--data-dir", "data", "--output=json",
                  cwd=tmp_path)
    assert (p.returncode, json.loads(p.stdout)) == (0, SETTINGS["settings"])
    assert "cannot be read any more: corvo.conf:1: no" in p.stderr


def test_config_list_with_flags_is_about_a_node_to_be(tmp_path):
    """Nobody is asked then: this supervisor would answer something else."""
    run = tmp_path / "data" / "run"
    with supervisor(run, json.dumps(SETTINGS).encode()) as got:
        out = ok("config", "list", "--node-id=x", cwd=tmp_path)
        assert got == []
        ok("config", "list", cwd=tmp_path)
    assert ["node_id", "x", "flag"] in [r.split() for r in out.splitlines()]
    assert "WAITING" not in out


def test_config_list_of_a_server_that_does_not_know_the_request(tmp_path):
    with supervisor(tmp_path / "data" / "run",
                    b'{"error":"the requests are: ps","code":"X"}'):
        lines = ok("config", "list", cwd=tmp_path).splitlines()
    assert lines[0].split() == ["NAME", "VALUE", "SOURCE"]
