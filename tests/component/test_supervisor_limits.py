"""What a node may use and inherit, and what it says about it at start."""

import contextlib
import fcntl
import os
import resource
import time
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
    assert memory["budgets"]["raft_max_pending_bytes"] == 64 * MIB
    assert memory["budgets"]["snapshot_bytes"] == MIB
    line = next(x for x in node.log().splitlines() if "budgets:" in x)
    assert "memory=512MiB (the setting memory_limit)" in line
    assert "rocksdb_cache=32MiB" in line and "snapshot_bytes=1MiB" in line
    assert " warn " not in node.log()


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


# --- leaving -------------------------------------------------------------


def test_a_stop_gives_no_more_time_to_a_process_that_was_aborted(node):
    """It has 200 ms to write a core, whatever the stop as a whole may take."""
    node.mode("httpd", "mute", "hardy")
    node.start("--watchdog-timeout=300ms", "--shutdown-timeout=100s")
    wait_for(lambda: "sigabrt" in node.words("httpd-0"))
    node.process.terminate()
    assert node.exit(30) == 0
