"""corvo-supervisor with small programs in the place of the real ones."""

import os
import re
import signal
import socket
import tempfile
from pathlib import Path

import pytest

from superv_node import NODE, Node, PROCS, alive, node, refused, wait_for
from waiting import patience


# --- starting ------------------------------------------------------------


def test_starts_in_order_each_after_the_one_before_is_ready(node):
    for name in PROCS:
        node.mode(name, "slow")
    node.start()
    got = [(n, w) for n, w, _ in node.events() if w in ("start", "ready")]
    assert got == [(n, w) for n in NODE for w in ("start", "ready")]
    assert f"listening on 127.0.0.1:{node.port}" in node.log()
    assert "node_id=node-1" in node.log() and "start_ms=" in node.log()
    assert "unexpected-listener" not in [w for _, w, _ in node.events()]


def test_stops_in_reverse_order_with_status_0(node):
    node.start()
    assert node.stop() == 0
    left = [n for n, w, _ in node.events() if w == "left"]
    assert left == list(reversed(NODE))
    order = [(n, w) for n, w, _ in node.events() if w in ("drain", "left")]
    assert order == [(n, w) for n in reversed(NODE) for w in ("drain", "left")]
    assert not (node.data / "run" / "control.sock").exists()


def test_ctrl_c_is_an_ordered_drain(node):
    node.start()
    pids = {p["pid"] for p in node.ps()["processes"]}
    for pid in pids:  # the terminal signals the whole group
        os.kill(pid, signal.SIGINT)
    node.process.send_signal(signal.SIGINT)
    assert node.exit() == 0
    assert [n for n, w, _ in node.events() if w == "left"] == NODE[::-1]


def test_several_httpd_processes_share_the_port(node):
    node.start("--httpd-processes=3")
    names = [p["name"] for p in node.ps()["processes"]]
    assert names == ["raftd", "viewd", "sched", "httpd-0", "httpd-1", "httpd-2"]
    pids = {p["pid"] for p in node.ps()["processes"]}
    assert node.request() in pids
    assert node.stop() == 0


def test_second_node_on_the_same_directory_names_the_first(node, tmp_path):
    node.start()
    other = tmp_path / "other"
    other.mkdir()
    second = Node(other)
    second.data = node.data
    status, log = refused(second)
    assert status == 1
    assert f"in use by another node (process {node.process.pid})" in log
    assert node.process.poll() is None


def test_second_node_on_the_same_run_directory_names_the_first(node,
                                                               tmp_path):
    run = tmp_path / "run"
    node.start(f"--run-dir={run}")
    other = tmp_path / "other"
    other.mkdir()
    status, log = refused(Node(other), f"--run-dir={run}")
    assert status == 1
    assert f"run directory {run} is in use by another node" in log
    assert f"(process {node.process.pid})" in log and "--run-dir" in log
    assert (run / "control.sock").exists()


def test_busy_port(node):
    with socket.socket() as s:
        s.bind(("127.0.0.1", node.port))
        s.listen()
        status, log = refused(node)
    assert status == 1
    assert f"cannot listen on 127.0.0.1:{node.port}" in log
    assert "in use" in log


def test_data_directory_that_cannot_be_made(node):
    (node.dir / "file").write_text("")
    node.data = node.dir / "file" / "data"
    status, log = refused(node)
    assert status == 1
    assert "cannot write in the directory" in log and "--data-dir" in log


def test_unwritable_data_directory():
    """As nobody when the tests run as root, who may write everywhere."""
    with tempfile.TemporaryDirectory(prefix="corvo-test-") as tmp:
        node = Node(Path(tmp))
        node.copy_program()
        node.data.mkdir(mode=0o555)
        if os.geteuid() == 0:
            node.user = 65534
        status, log = refused(node)
    assert status == 1
    assert f"cannot write in the directory {node.data}" in log
    assert "Permission denied" in log and "--data-dir" in log


def test_missing_program_is_named(node):
    node.copy_program()  # the build has a real corvo-sched beside it
    (node.libexec / "corvo-sched").unlink()
    status, log = refused(node)
    assert status == 1
    assert "the program corvo-sched is missing" in log


def test_broken_config_file_names_the_line(node):
    conf = node.dir / "corvo.conf"
    conf.write_text("# fine\nlog_level = info\nwhat is this\n")
    status, log = refused(node, f"--config={conf}")
    assert status == 2
    assert f"{conf}:3: this line cannot be read" in log


def test_unknown_flag(node):
    status, log = refused(node, "--colour=blue")
    assert status == 2
    assert "unknown flag --colour" in log


def test_an_address_for_other_machines_needs_open(node):
    status, log = refused(node, f"--bind=0.0.0.0:{node.port}")
    assert status == 2
    assert "--open" in log and "127.0.0.1" in log


def test_open_allows_it(node):
    node.start(f"--bind=0.0.0.0:{node.port}", "--open")
    assert node.request() == node.pid("httpd-0")


# --- crashes and hangs ---------------------------------------------------


def pauses(node):
    """Milliseconds before each start of a process that died."""
    return [int(ms) for ms in
            re.findall(r"starting it again in (\d+) ms", node.log())]


@pytest.mark.parametrize("name", NODE)
def test_killed_child_is_started_again_at_once(node, name):
    node.start()
    old = node.pid(name)
    os.kill(old, signal.SIGKILL)
    p = node.wait_back(name, old)
    assert pauses(node) == [0]
    assert p["restarts"] == 1
    assert p["last_exit"] == "killed by SIGKILL"
    others = [x["restarts"] for x in node.ps()["processes"]
              if x["name"] != name]
    assert others == [0, 0, 0]


def test_many_kills_do_not_exhaust_the_patience(node):
    node.start("--crash-limit=3")
    for _ in range(12):
        old = node.pid("viewd")
        os.kill(old, signal.SIGKILL)
        node.wait_back("viewd", old)
    assert max(pauses(node)) <= 100  # of a process that got to work
    assert node.ps("viewd")["restarts"] == 12
    assert node.stop() == 0


def test_connections_wait_while_httpd_restarts(node):
    node.start()
    node.mode("httpd", "slow")
    old = node.pid("httpd-0")
    os.kill(old, signal.SIGSTOP)  # accepts nothing any more
    with socket.create_connection(("127.0.0.1", node.port), patience(10)) as s:
        os.kill(old, signal.SIGKILL)
        s.settimeout(patience(10))
        assert int(s.recv(64)) != old
    assert node.request() == node.pid("httpd-0")


def test_stopped_process_is_replaced(node):
    node.start()
    old = node.pid("raftd")
    os.kill(old, signal.SIGSTOP)
    node.wait_back("raftd", old)
    # that is after 500 ms; the watchdog would have needed five seconds
    assert "is stopped by a signal" in node.log()
    assert "no sign of life" not in node.log()


def test_stop_and_continue_is_forgiven(node):
    node.start("--stopped-timeout=5s")
    old = node.pid("raftd")
    os.kill(old, signal.SIGSTOP)
    state = f"/proc/{old}/stat"
    wait_for(lambda: Path(state).read_text().split()[2] == "T")
    os.kill(old, signal.SIGCONT)
    wait_for(lambda: Path(state).read_text().split()[2] != "T")
    assert node.pid("raftd") == old


def test_crash_loop_gives_up_and_says_why(node):
    node.mode("viewd", "die")
    node.start("--crash-limit=4", wait=False)
    assert node.exit() == 1
    log = node.log()
    assert "giving up: viewd died 4 times in a row before it was ready" in log
    assert "exit status 7" in log
    assert node.words("viewd") == ["start"] * 4
    assert node.words("raftd")[-2:] == ["drain", "left"]  # was drained


def test_a_start_that_cannot_help_is_tried_once(node):
    node.mode("raftd", "refuse")
    node.start(wait=False)
    assert node.exit() == 2
    assert "giving up: starting raftd again would not help" in node.log()
    assert node.words("raftd") == ["start"]


def test_one_that_sees_later_that_it_cannot_help_ends_the_node(node):
    node.mode("raftd", "regret")
    node.start(wait=False)
    assert node.exit() == 2
    assert "giving up: starting raftd again would not help" in node.log()
    assert node.words("raftd") == ["start", "ready"]


def test_a_program_that_cannot_be_executed_is_tried_again(node):
    node.start()
    program = node.libexec / "corvo-viewd"
    sound = program.read_text()
    program.unlink()  # in use: it must not be written to
    program.write_text("\x7fELF, almost")
    program.chmod(0o755)
    old = node.pid("viewd")
    os.kill(old, signal.SIGKILL)
    wait_for(lambda: f"cannot execute {program}" in node.log())
    wait_for(lambda: node.ps("viewd")["state"] == "backoff")
    program.write_text(sound)
    node.wait_back("viewd", old)
    assert node.stop() == 0


def test_restarts_leave_no_descriptors_behind(node):
    def fds():
        return sorted(os.readlink(x) for x in fd_dir.iterdir()
                      if x.is_symlink())

    node.mode("sched", "swift")
    node.start()
    fd_dir = Path(f"/proc/{node.process.pid}/fd")
    node.ask("restart sched")
    before = len(fds())
    for _ in range(200):
        assert "pid" in node.ask("restart sched")
    # the connection of the last request may still be being closed
    wait_for(lambda: len(fds()) <= before, text=str(fds()))
    assert node.ps("sched")["restarts"] == 201
    assert node.stop() == 0


def test_a_new_node_waits_for_the_processes_of_a_killed_one(node):
    node.mode("raftd", "linger")
    node.start()
    node.process.kill()
    node.process.wait()
    node.err.unlink()
    node.start()
    words = node.words("raftd")
    assert words == ["start", "ready", "orphan", "gone", "start", "ready"]


@pytest.mark.parametrize("kind", ["full", "closed"])
def test_a_log_that_cannot_be_written_stops_nothing(node, kind):
    if kind == "full":
        err = open("/dev/full", "wb")
    else:
        reader, writer = os.pipe()
        os.close(reader)
        err = open(writer, "wb", closefd=True)
    with err:
        node.start(wait=False, stderr=err)
    sock = node.data / "run" / "control.sock"
    wait_for(sock.exists)
    wait_for(lambda: node.ps()["supervisor"]["state"] == "running")
    old = node.pid("sched")
    os.kill(old, signal.SIGKILL)
    node.wait_back("sched", old)
    assert node.stop() == 0


def test_children_leave_when_the_supervisor_is_killed(node):
    node.start()
    pids = [p["pid"] for p in node.ps()["processes"]]
    node.process.kill()
    node.process.wait()
    wait_for(lambda: not any(alive(p) for p in pids), text="orphans")
    # and the node can be started again at once, on the same port
    node.err.unlink()
    node.start()
    assert node.request() == node.pid("httpd-0")


def test_start_right_after_a_kill_waits_for_the_port(node):
    node.start()
    node.process.kill()
    node.process.wait()
    node.err.unlink()
    node.start()
    assert node.stop() == 0


# --- stopping ------------------------------------------------------------


def test_child_that_ignores_drain_is_killed_in_time(node):
    node.mode("httpd", "stubborn")
    node.start("--shutdown-timeout=10s")  # half of it for the first
    node.process.terminate()
    assert node.exit() == 1  # it would have stayed for ever
    assert "process=httpd-0" in node.log()
    assert "did not leave in time" in node.log()
    # the others still had their turn
    assert [n for n, w, _ in node.events() if w == "left"] == NODE[2::-1]


def test_second_signal_kills_at_once(node):
    node.mode("httpd", "stubborn")
    node.start("--shutdown-timeout=1h")
    node.process.terminate()
    wait_for(lambda: "drain" in node.words("httpd-0"))

    def again():  # one that follows in no time is still the first
        node.process.terminate()
        return node.process.poll() is not None

    wait_for(again)
    assert node.exit() == 1
    pids = {pid for _, _, pid in node.events()}
    assert not any(alive(p) for p in pids)


def test_stop_while_starting(node):
    node.mode("viewd", "die")
    node.start("--crash-limit=1000", wait=False)
    wait_for(lambda: len(node.words("viewd")) >= 3)
    assert node.stop() == 0
    assert node.words("raftd")[-1] == "left"


def test_stop_while_a_process_is_not_ready_yet(node):
    node.mode("viewd", "unready")
    node.start(wait=False)
    wait_for(lambda: "start" in node.words("viewd"))
    assert node.stop() == 0
    assert node.words("viewd") == ["start", "drain", "left"]
    assert node.words("sched") == []
    assert node.words("raftd")[-1] == "left"


# --- the control socket --------------------------------------------------


def test_ps(node):
    node.start()
    reply = node.ps()
    sup = reply["supervisor"]
    assert sup["pid"] == node.process.pid
    assert sup["state"] == "running"
    assert sup["memory_bytes"] > 0 and sup["uptime_s"] > 0
    assert [p["name"] for p in reply["processes"]] == NODE
    for p in reply["processes"]:
        assert p["state"] == "ready" and p["restarts"] == 0
        assert p["memory_bytes"] > 0 and p["cpu_s"] >= 0
        assert p["uptime_s"] > 0
        assert p["status"] == "all is well" and p["last_exit"] is None
    mode = (node.data / "run" / "control.sock").stat().st_mode
    assert mode & 0o777 == 0o600


def test_restart_drains_and_answers_when_ready(node):
    node.start()
    old = node.pid("httpd-0")
    reply = node.ask("restart httpd-0")
    assert reply["name"] == "httpd-0" and reply["pid"] != old
    p = node.ps("httpd-0")
    assert p["pid"] == reply["pid"] and p["last_exit"] == "exit status 0"
    assert node.words("httpd-0")[-4:] == ["drain", "left", "start", "ready"]
    assert "died" not in node.log()


def test_restart_of_a_process_that_does_not_exist(node):
    node.start()
    assert node.ask("restart nothing")["code"] == "NOT_FOUND"


def test_log_level_reaches_all_also_later(node):
    node.start()
    assert node.ask("log-level debug") == {"ok": True}
    for name in NODE:
        wait_for(lambda n=name: "log-level debug" in node.words(n))
    node.ask("restart sched")
    wait_for(lambda: node.words("sched").count("log-level debug") == 2)
    assert node.ask("log-level loud")["code"] == "VALIDATION_ERROR"


def test_stop_request(node):
    node.start()
    assert node.ask("stop") == {"ok": True}
    assert node.exit() == 0


def test_bad_requests_and_silent_clients_do_no_harm(node):
    node.start()
    path = str(node.data / "run" / "control.sock")
    silent = []
    for _ in range(10):
        s = socket.socket(socket.AF_UNIX)
        s.connect(path)
        silent.append(s)
    assert node.ask("dance")["code"] == "VALIDATION_ERROR"
    assert node.ask("restart")["code"] == "VALIDATION_ERROR"
    assert node.ask("x" * 5000)["code"] == "VALIDATION_ERROR"
    assert node.ps()["supervisor"]["state"] == "running"
    for s in silent:  # each is dropped by the server
        s.settimeout(patience(10))
        assert s.recv(1) == b""
        s.close()


# --- reload --------------------------------------------------------------


def test_hangup_reads_the_file_again(node):
    conf = node.dir / "corvo.conf"
    conf.write_text("log_level = info\nnode_id = node-1\n")
    node.start(f"--config={conf}")
    conf.write_text("log_level = debug\nnode_id = other\n")
    node.process.send_signal(signal.SIGHUP)
    for name in NODE:
        wait_for(lambda n=name: "reload" in node.words(n))
    wait_for(lambda: "only at the next start: node_id" in node.log())
    node.ask("restart sched")
    assert " debug supervisor node-1 " in node.log()


def test_hangup_with_a_broken_file_keeps_the_settings(node):
    conf = node.dir / "corvo.conf"
    conf.write_text("log_level = info\n")
    node.start(f"--config={conf}")
    conf.write_text("log_level = info\nlog_level = debug\n")
    node.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "the old ones stay" in node.log())
    assert f"{conf}:2: log_level is already set in line 1" in node.log()
    assert node.ask("reload")["code"] == "VALIDATION_ERROR"
    assert not any(w == "reload" for _, w, _ in node.events())
    assert node.ps()["supervisor"]["state"] == "running"


def test_an_edited_file_is_nothing_to_a_process_that_starts_again(node):
    """Whether it cannot be read, or names what only a new node may have."""
    def config(name):
        return (node.dir / f"{name}.config").read_text()

    conf = node.dir / "corvo.conf"
    conf.write_text("log_level = info\nnode_id = a # one\n")
    node.start(f"--config={conf}")
    first = config("viewd")
    assert 'log_level = "info"' in first and 'node_id = "a"' in first
    for text in ("this is no line\n", "node_id = b\nlog_level = warn\n"):
        conf.write_text(text)
        node.ask("restart viewd")
        assert config("viewd") == first
    assert node.ask("reload")["ok"] is True
    node.ask("restart viewd")
    assert 'log_level = "warn"' in config("viewd")
    assert 'node_id = "a"' in config("viewd")


def test_a_reload_says_what_changed_and_what_waits(node):
    conf = node.dir / "corvo.conf"
    conf.write_text("log_level = info\nnode_id = a\n")
    node.start(f"--config={conf}")
    same = {"ok": True, "changed": [], "waiting": []}
    assert node.ask("reload") == same
    conf.write_text("log_level = debug\nnode_id = b\naccess_log = log\n")
    waiting = [{"name": "node_id", "value": "a", "next": "b"},
               {"name": "access_log", "value": "", "next": "log"}]
    assert node.ask("reload") == {
        "ok": True, "waiting": waiting,
        "changed": [{"name": "log_level", "before": "info",
                     "value": "debug"}]}
    # what waits does so until the restart, or until it is taken back
    assert node.ask("reload") == same | {"waiting": waiting}
    conf.write_text("log_level = debug\nnode_id = a\n")
    assert node.ask("reload") == same


def test_config_shows_what_runs_and_what_waits(node):
    def rows():
        reply = node.ask("config")
        assert "problem" not in reply
        return {r["name"]: r for r in reply["settings"]}

    def waits():
        return {n: (r["value"], r["next"], r["at"])
                for n, r in rows().items() if "next" in r}

    conf = node.dir / "corvo.conf"
    conf.write_text("log_level = info\nnode_id = a\n")
    node.start(f"--config={conf}", "--memory-limit=512MiB")
    first = rows()
    assert (first["node_id"]["value"], first["node_id"]["source"]) == \
        ("a", "file")
    assert (first["rocksdb_cache"]["value"],
            first["rocksdb_cache"]["source"]) == ("32MiB", "memory")
    assert waits() == {}
    conf.write_text("log_level = debug\nnode_id = b\n")
    assert waits() == {"log_level": ("info", "debug", "reload"),
                       "node_id": ("a", "b", "restart")}
    node.ask("reload")
    assert waits() == {"node_id": ("a", "b", "restart")}
    conf.write_text("no setting\n")
    reply = node.ask("config")
    assert f"{conf}:1" in reply["problem"]
    assert {r["name"]: r["value"] for r in reply["settings"]}[
        "log_level"] == "debug"
    assert not any("next" in r for r in reply["settings"])


# --- systemd -------------------------------------------------------------


def test_systemd_hears_ready_watchdog_and_stopping(node, tmp_path,
                                                   monkeypatch):
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind(str(path))
        s.settimeout(patience(10))
        monkeypatch.setenv("NOTIFY_SOCKET", str(path))
        monkeypatch.setenv("WATCHDOG_USEC", "400000")
        heard = []

        def until(word):
            while not any(word in x for x in heard):
                heard.append(s.recv(4096).decode())

        node.start()
        until("READY=1")
        until("STATUS=listening")
        until("WATCHDOG=1")
        node.process.send_signal(signal.SIGHUP)
        until("RELOADING=1")
        node.process.terminate()
        until("STOPPING=1")
        assert node.exit() == 0
