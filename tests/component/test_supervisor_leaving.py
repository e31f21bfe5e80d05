"""Processes that die when they are to leave; signals for the whole group."""

import os
import re
import signal
import threading
import time

import pytest

from superv_node import NODE, node, wait_for


def hold(node, name):
    """It leaves only when `let_go` says so, whatever it is told."""
    node.mode(name.split("-")[0], "held")


def let_go(node):
    (node.dir / "go").write_text("")


def is_drained(node, name):
    return wait_for(lambda: "drain" in node.words(name))


# --- deaths --------------------------------------------------------------


@pytest.mark.parametrize("sig, said", [
    (signal.SIGKILL, "killed by SIGKILL"),
    (signal.SIGSEGV, "killed by SIGSEGV")])
@pytest.mark.parametrize("name", ["raftd", "httpd-0"])
def test_a_death_in_a_stop_is_named(node, name, sig, said):
    hold(node, name)
    node.start()
    pid = node.pid(name)
    node.process.terminate()
    is_drained(node, name)
    os.kill(pid, sig)
    assert node.exit() == 1
    assert f"process={name} died when it was to leave: {said}" in node.log()
    assert "stopped, not cleanly" in node.log()


def test_a_stop_that_a_process_ends_with_an_error_is_named(node):
    node.mode("viewd", "bad")
    node.start()
    assert node.stop() == 1
    assert "process=viewd died when it was to leave: exit status 3" in \
        node.log()
    assert [n for n, w, _ in node.events() if w == "left"] == NODE[::-1]


def test_a_death_while_others_leave_is_no_clean_stop(node):
    hold(node, "httpd-0")
    node.start()
    pid = node.pid("raftd")
    node.process.terminate()
    is_drained(node, "httpd-0")
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: node.words("raftd").count("ready") == 2)
    let_go(node)
    assert node.exit() == 1
    assert "process=raftd died: killed by SIGKILL" in node.log()


def test_a_death_in_a_restart_is_told_to_who_asked(node):
    hold(node, "viewd")
    node.start()
    pid = node.pid("viewd")
    told = []
    asks = threading.Thread(
        target=lambda: told.append(node.ask("restart viewd")))
    asks.start()
    is_drained(node, "viewd")
    os.kill(pid, signal.SIGKILL)
    asks.join()
    assert told[0]["code"] == "INTERNAL_ERROR"
    assert told[0]["error"] == ("viewd did not leave in order: killed by "
                                "SIGKILL; it is started again")
    assert "process=viewd died when it was to leave: killed by SIGKILL" in \
        node.log()
    node.wait_back("viewd", pid)
    let_go(node)
    assert node.stop() == 0  # the node did all it was asked for


def test_a_start_that_fails_waits_for_none_before_it(node):
    """A client kills it again and again; then one start fails, by chance."""
    node.start("--crash-limit=1000")
    for last in (False, ) * 7 + (True, ):
        old = node.pid("viewd")
        if last:
            node.mode("viewd", "die")
        os.kill(old, signal.SIGKILL)
        if not last:
            node.wait_back("viewd", old)
    wait_for(lambda: "viewd died: exit status 7" in node.log())
    node.mode("viewd")
    node.wait_back("viewd", old)
    pauses = [int(ms) for ms in re.findall(
        r"viewd died: killed by SIGKILL; starting it again in (\d+) ms",
        node.log())]
    assert len(pauses) == 8 and max(pauses) < 200
    first = re.search(r"viewd died: exit status 7; starting it again in "
                      r"(\d+) ms", node.log())
    assert int(first[1]) < 200


def test_an_end_in_order_is_no_death(node):
    """As that of corvo-raftd when it makes or joins a cluster."""
    node.mode("raftd", "finish")
    node.start()
    old = node.pid("raftd")
    node.mode("raftd")
    let_go(node)
    node.wait_back("raftd", old)
    assert "info supervisor node-1 process=raftd ended in order; " in \
        node.log()
    assert "died" not in node.log()


# --- signals for all -----------------------------------------------------


def test_a_signal_for_the_group_is_one_stop_in_order(node):
    """kill %1, and what systemd does to a control group."""
    node.start(start_new_session=True)
    os.killpg(node.process.pid, signal.SIGTERM)
    assert node.exit() == 0
    assert [n for n, w, _ in node.events() if w == "left"] == NODE[::-1]
    assert [n for n, w, _ in node.events() if w == "start"] == NODE


def test_two_signals_in_a_row_are_one_order(node):
    """timeout(1) signals the node, and at once the group that it is in."""
    hold(node, "httpd-0")
    for _ in range(20):
        node.start(start_new_session=True)
        node.process.send_signal(signal.SIGTERM)
        wait_for(lambda: "signal=TERM" in node.log())
        known = time.monotonic()
        os.killpg(node.process.pid, signal.SIGTERM)
        was_fast = time.monotonic() - known < 0.02
        let_go(node)
        status = node.exit()
        if was_fast and status == 0:
            break
        # the machine was too busy for two in a row
        node.err.unlink()
        (node.dir / "events").unlink()
        (node.dir / "go").unlink()
    assert status == 0
    assert "killing all" not in node.log()
    assert [n for n, w, _ in node.events() if w == "left"] == NODE[::-1]
