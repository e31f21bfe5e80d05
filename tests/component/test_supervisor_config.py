"""Configuration files that change at a bad moment, or are none."""

import os
import resource
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from superv_node import BUILD, node, refused, wait_for
from waiting import patience


def config_of(node, name):
    """The path of the settings it was given, as others may open it."""
    words = Path(f"/proc/{node.pid(name)}/cmdline").read_text().split("\0")
    path = [w for w in words if w.startswith("--config=")][-1][9:]
    return path.replace("self", str(node.pid(name)))


def setting(node, name):
    rows = {r["name"]: r for r in node.ask("config")["settings"]}
    return rows[name]["value"], rows[name]["source"]


def start_with_pipe(node, text):
    reader, writer = os.pipe()
    os.write(writer, text)
    os.close(writer)
    node.start(f"--config=/dev/fd/{reader}", pass_fds=(reader, ))
    os.close(reader)


def test_what_a_pipe_said_stays(node):
    """--config <(...), which is empty when it is read again"""
    start_with_pipe(node, b"log_level = debug\nnode_id = a\n")
    reply = node.ask("reload")
    assert reply["changed"] == [] and reply["waiting"] == []
    assert "can be read only once" in reply["note"]
    assert "can be read only once" in node.log()
    node.process.send_signal(signal.SIGHUP)
    wait_for(lambda: node.words("viewd").count("reload") == 2)
    assert setting(node, "log_level") == ("debug", "file")
    assert setting(node, "node_id") == ("a", "file")
    node.ask("restart viewd")
    assert 'log_level = "debug"' in (node.dir / "viewd.config").read_text()
    assert node.stop() == 0


def test_the_command_says_that_it_stays(node):
    start_with_pipe(node, b"log_level = debug\n")
    p = corvo(node, "reload")
    assert (p.returncode, p.stderr) == (0, "")
    assert "can be read only once" in p.stdout


def test_a_pipe_is_read_to_its_end(node):
    conf = node.dir / "corvo.conf"
    os.mkfifo(conf)

    def write():
        with open(conf, "w") as f:
            for i in range(3000):
                f.write(f"# {i}\n" * 10)
            f.write("node_id = a\n")

    t = threading.Thread(target=write)
    t.start()
    node.start(f"--config={conf}")
    t.join()
    assert setting(node, "node_id") == ("a", "file")


def test_a_pipe_nobody_writes_to_is_refused(node):
    conf = node.dir / "corvo.conf"
    os.mkfifo(conf)
    status, log = refused(node, f"--config={conf}")
    assert status == 2
    assert f"cannot read the file {conf}: it is a pipe, and nobody writes" \
        in log


def test_a_file_that_became_a_pipe_is_not_waited_for(node):
    conf = node.dir / "corvo.conf"
    conf.write_text("log_level = debug\n")
    node.start(f"--config={conf}")
    conf.unlink()
    os.mkfifo(conf)
    reply = node.ask("reload")
    assert reply["code"] == "VALIDATION_ERROR"
    assert f"cannot read the file {conf}: it is a pipe now" in reply["error"]
    assert "it is a pipe now" in node.ask("config")["problem"]
    assert setting(node, "log_level") == ("debug", "file")
    assert node.stop() == 0


@pytest.mark.parametrize("first, then", [("5s", "5000ms"), ("5000ms", "5s")])
def test_who_reads_settings_while_others_are_published_reads_the_old(
        node, first, then):
    def write(stopped, level):
        conf.write_text(f"log_level = {level}\nstopped_timeout = {stopped}\n"
                        f"watchdog_timeout = 9s\n")

    conf = node.dir / "corvo.conf"
    write(first, "info")
    node.start(f"--config={conf}")
    with open(config_of(node, "raftd"), "rb", buffering=0) as f:
        text = f.read(5)  # a process that starts, and is slow
        write(then, "warn")
        assert node.ask("reload")["ok"] is True
        text += f.read()
    assert text == (node.dir / "raftd.config").read_bytes()
    assert b'log_level = "info"' in text
    node.ask("restart raftd")
    text = (node.dir / "raftd.config").read_text()
    assert 'log_level = "warn"' in text and f'"{then}"' in text


def corvo(node, verb):
    env = {k: v for k, v in os.environ.items() if not k.startswith("CORVO_")}
    return subprocess.run(
        [BUILD / "cli" / "corvo", verb, f"--data-dir={node.data}"], env=env,
        capture_output=True, text=True, timeout=patience(30))


@pytest.mark.parametrize("line, why", [
    (b"gr\xfc\xdfe = 1", "unknown setting \"gr\\xfc\\xdfe\""),
    (b"lease_duration = 1\xb5s", "\"1\\xb5s\" cannot be read"),
    ("log_level = debug".encode("utf-16"), "this line cannot be read")])
def test_a_reload_says_why_what_is_not_utf8_is_refused(node, line, why):
    conf = node.dir / "corvo.conf"
    conf.write_text("log_level = info\n")
    node.start(f"--config={conf}")
    conf.write_bytes(b"log_level = info\n" + line + b"\n")
    p = corvo(node, "reload")
    assert p.returncode == 1 and p.stdout == ""
    assert f"{conf}:2: " in p.stderr and why in p.stderr
    assert "the line is not UTF-8" in p.stderr
    problem = node.ask("config")["problem"]
    assert why in problem and "the line is not UTF-8" in problem
    node.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "the line is not UTF-8" in node.log())


def file_limit(node, n):
    """It may write so many bytes to a file, and what is in memory is one."""
    _, hard = resource.prlimit(node.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(node.process.pid, resource.RLIMIT_FSIZE, (n, hard))


def test_a_reload_that_fails_leaves_the_old_settings(node):
    conf = node.dir / "corvo.conf"
    conf.write_text("log_level = info\nstopped_timeout = 5s\n")
    # its log is no file, and the signal of the limit is ignored
    node.start(f"--config={conf}", wait=False, stderr=subprocess.DEVNULL,
               restore_signals=False)
    wait_for(lambda: (node.data / "run" / "control.sock").exists() and
             node.ps("httpd-0")["state"] == "ready")
    conf.write_text("log_level = debug\nstopped_timeout = 7s\n")
    file_limit(node, 0)
    reply = node.ask("reload")
    assert reply["code"] == "INTERNAL_ERROR", reply
    assert "cannot write the settings down" in reply["error"]
    assert setting(node, "log_level") == ("info", "file")
    assert setting(node, "stopped_timeout") == ("5s", "file")
    assert "reload" not in node.words("viewd")
    file_limit(node, resource.RLIM_INFINITY)
    node.ask("restart viewd")
    assert 'log_level = "info"' in (node.dir / "viewd.config").read_text()
    reply = node.ask("reload")
    assert reply["ok"] is True and len(reply["changed"]) == 2, reply
    assert setting(node, "stopped_timeout") == ("7s", "file")
    wait_for(lambda: "reload" in node.words("viewd"))
    assert node.stop() == 0


def test_a_process_that_cannot_be_told_is_named(node):
    """It is stopped, and takes nothing of what it is sent."""
    node.start("--stopped-timeout=10m")
    pid = node.pid("sched")
    os.kill(pid, signal.SIGSTOP)

    def is_named():
        assert node.ask("reload")["ok"] is True
        return "sched takes no words" in node.log()
    wait_for(is_named)
    os.kill(pid, signal.SIGCONT)
    wait_for(lambda: "reload" in node.words("sched"))
    assert "viewd takes no words" not in node.log()
    assert node.stop() == 0
