"""Which silence of a process is held against it."""

import contextlib
import ctypes
import os
import re
import signal
import subprocess
import sys

import pytest

from superv_node import node, wait_for


def test_silent_process_is_killed_by_the_watchdog(node):
    node.mode("sched", "mute")
    node.start("--watchdog-timeout=400ms")
    old = node.pid("sched")
    node.mode("sched")
    p = node.wait_back("sched", old)
    assert p["last_exit"] == "killed by SIGABRT"
    assert "process=sched" in node.log() and "no sign of life" in node.log()


def test_a_process_that_spins_is_killed_by_the_watchdog(node):
    node.mode("sched", "spin")
    node.start("--watchdog-timeout=400ms")
    old = node.pid("sched")
    node.mode("sched")
    assert node.wait_back("sched", old)["last_exit"] == "killed by SIGABRT"


@contextlib.contextmanager
def crowd(pid):
    """Others want the processor that pid is kept to, and it is the last."""
    cpu = {min(os.sched_getaffinity(0))}
    others = [subprocess.Popen([sys.executable, "-S", "-c",
                                "while True: pass"]) for _ in range(3)]
    try:
        threads = [int(t) for t in os.listdir(f"/proc/{pid}/task")]
        for p in threads + [o.pid for o in others]:
            os.sched_setaffinity(p, cpu)
        for t in threads:
            os.sched_setscheduler(t, os.SCHED_IDLE, os.sched_param(0))
        yield
    finally:
        for o in others:
            o.kill()
            o.wait()


@pytest.mark.parametrize("who", ["spin", "helper"])
def test_a_process_that_gets_no_processor_is_given_time(node, who):
    """helper: the first thread waits for another, which does not run."""
    node.mode("sched", who)
    node.start("--watchdog-timeout=1s")
    old = node.pid("sched")
    with crowd(old):
        wait_for(lambda: "it waits for the processor" in node.log())
        assert node.pid("sched") == old
        assert "no sign of life" not in node.log()
        # but not for ever
        node.mode("sched")
        node.wait_back("sched", old)
    said = re.search(r"process=sched .* for (\d+) ms: it waits", node.log())
    assert 1000 <= int(said[1]) < 12000


def test_a_process_under_a_debugger_is_left_alone(node):
    seize, detach = 0x4206, 17
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    ptrace.argtypes = [ctypes.c_long] + [ctypes.c_void_p] * 3
    node.mode("sched", "mute")
    node.mode("viewd", "mute")
    node.start("--watchdog-timeout=1s")
    # viewd, not traced, shows that the watchdog had its time meanwhile
    traced, other = node.pid("sched"), node.pid("viewd")
    if ptrace(seize, traced, None, None) != 0:
        pytest.skip("ptrace is not allowed here")
    for _ in range(2):
        other = node.wait_back("viewd", other)["pid"]
    assert node.pid("sched") == traced
    os.kill(traced, signal.SIGSTOP)  # detaching needs a stop
    os.waitpid(traced, 0x40000000)  # __WALL
    assert ptrace(detach, traced, None, None) == 0
    node.mode("sched")
    node.wait_back("sched", traced)
