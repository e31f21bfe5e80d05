"""What a node may use and inherit, and what it says about it at start."""

import contextlib
import fcntl
import os
import resource
from pathlib import Path

import pytest

from superv_node import NODE, node, refused, wait_for

MIB = 1 << 20


def environment(pid):
    raw = Path(f"/proc/{pid}/environ").read_bytes()
    return dict(v.split("=", 1) for v in raw.decode().split("\0") if v)


# --- memory --------------------------------------------------------------


def test_budgets_are_shares_of_the_memory_and_shown(node):
    node.start("--memory-limit=512MiB", "--snapshot-bytes=1MiB")
    memory = node.ps()["memory"]
    assert memory["limit_bytes"] == 512 * MIB
    assert memory["from"] == "the setting memory_limit"
    assert memory["budgets"]["rocksdb_cache"] == 32 * MIB
    assert memory["budgets"]["raft_max_pending_bytes"] == 96 * MIB
    assert memory["budgets"]["snapshot_bytes"] == MIB
    line = next(x for x in node.log().splitlines() if "budgets:" in x)
    assert "memory=512MiB (the setting memory_limit)" in line
    assert "rocksdb_cache=32MiB" in line and "snapshot_bytes=1MiB" in line
    assert "these budgets" not in node.log()


def test_all_processes_have_the_memory_the_supervisor_found(node):
    node.start()
    found = node.ps()["memory"]
    assert found["limit_bytes"] > 64 * MIB and found["from"]
    for name in NODE:
        env = environment(node.pid(name))
        assert env["CORVO_MEMORY_LIMIT"] == str(found["limit_bytes"])


def test_budgets_that_leave_too_little_are_a_warning(node):
    node.start("--memory-limit=512MiB", "--rocksdb-cache=300MiB")
    wait_for(lambda: "these budgets may take" in node.log())


def test_a_limit_above_what_there_is_is_a_warning(node):
    node.start("--memory-limit=100000GiB")
    wait_for(lambda: "memory_limit is 102400000MiB, but " in node.log())


# --- descriptors ---------------------------------------------------------


def is_at_end(fd):
    """Nobody has the writing end of that pipe any more."""
    os.set_blocking(fd, False)
    with contextlib.suppress(BlockingIOError):
        return os.read(fd, 1) == b""
    return False


def test_inherited_descriptors_are_closed(node):
    """Whoever waits for the end of a pipe does not wait for the node."""
    r, w = os.pipe()
    high = fcntl.fcntl(w, fcntl.F_DUPFD, 200)
    node.start(pass_fds=(w, high))
    os.close(w)
    os.close(high)
    wait_for(lambda: is_at_end(r), text="the end of the pipe")
    os.close(r)


def limit_files(n):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (n, n))


@pytest.mark.parametrize("n", [12, 40, 255])
def test_too_few_open_files_are_refused(node, n):
    node.start(wait=False, preexec_fn=limit_files(n))
    assert node.exit() == 1
    assert node.events() == []
    assert f"a process may open {n} files here, and needs 256" in node.log()


def test_few_open_files_are_a_warning(node):
    node.start(preexec_fn=limit_files(300))
    assert "too few for max_connections=10000, which needs 10128" in node.log()
    assert "the store keeps fewer open" in node.log()


def test_enough_open_files_are_no_warning(node):
    node.start("--max-connections=512", preexec_fn=limit_files(640))
    assert "files here" not in node.log()


def test_a_limit_lowered_later_leaves_it_able_to_stop(node):
    """poll refuses more entries than a process may have open files."""
    node.start()
    pid = node.process.pid
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (8, 8))
    node.process.terminate()
    node.exit(30)


# --- folders and locks ---------------------------------------------------


def test_a_data_directory_others_may_write_in_is_refused(node):
    node.data.mkdir()
    node.data.chmod(0o777)
    status, log = refused(node)
    assert status == 1
    assert f"other users may write in the data directory {node.data}" in log
    assert "chmod go-w" in log and "--data-dir" in log
    assert list(node.data.iterdir()) == []


def test_a_run_directory_others_may_write_in_is_refused(node):
    run = node.dir / "r"
    run.mkdir()
    run.chmod(0o1777)
    status, log = refused(node, f"--run-dir={run}")
    assert status == 1
    assert f"other users may write in the run directory {run}" in log
    assert list(run.iterdir()) == []


@pytest.mark.parametrize("name", ["data/corvo.lock", "data/run/run.lock"])
def test_a_lock_that_is_a_link_is_refused(node, name):
    """It would be written to, and may be a file of somebody else."""
    lock = node.dir / name
    victim = node.dir / "victim"
    victim.write_text("precious")
    lock.parent.mkdir(parents=True)
    lock.symlink_to(victim)
    status, log = refused(node)
    assert status == 1
    assert f"cannot lock {lock}: it is a symbolic link" in log
    assert victim.read_text() == "precious"


def test_root_is_warned(node):
    node.start()
    assert ("running as root" in node.log()) == (os.geteuid() == 0)


# --- leaving -------------------------------------------------------------


def test_a_stop_gives_no_more_time_to_a_process_that_was_aborted(node):
    """It has 200 ms to write a core, whatever the stop as a whole may take."""
    node.mode("httpd", "mute", "hardy")
    node.start("--watchdog-timeout=300ms", "--shutdown-timeout=100s")
    wait_for(lambda: "sigabrt" in node.words("httpd-0"))
    node.process.terminate()
    assert node.exit(30) == 0
