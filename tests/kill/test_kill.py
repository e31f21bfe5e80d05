"""Every process of a node is killed, again and again, under load.

CORVO_KILLS says how often each one. How long it takes until a process is back
is a figure of bench/restart.py.
"""

import os
import signal
import time

import pytest

from load import Load
from node import Node, is_alive, is_sanitized, wait_until

KILLS = int(os.environ.get("CORVO_KILLS") or ("3" if is_sanitized() else "5"))
BETWEEN = 150  # jobs that must be done between two kills
VICTIMS = ["raftd", "viewd", "sched", "httpd-0"]


@pytest.fixture
def node():
    n = Node("--log-level=warn")
    n.start()
    yield n
    n.clean_up()


def wait_back(node, name, old):
    """Seconds until another process of that name is ready."""
    began = time.monotonic()

    def is_back():
        p = node.ps(name)
        return p["state"] == "ready" and p["pid"] not in (0, old)

    wait_until(is_back, 30, f"{name} to be back", every=0.005)
    node.pids()
    return time.monotonic() - began


def kill_once(node, name):
    old = node.pids()[name]
    os.kill(old, signal.SIGKILL)
    return wait_back(node, name, old)


def stop_once(node, name):
    """SIGSTOP: it is given up, long before the watchdog would do it."""
    old = node.pids()[name]
    os.kill(old, signal.SIGSTOP)
    wait_until(lambda: not is_alive(old), 30,
               f"the stopped {name} to be killed", every=0.005)
    assert "is stopped by a signal" in node.log()
    return wait_back(node, name, old)


@pytest.mark.parametrize("name", VICTIMS)
def test_killed_under_load(node, name):
    load = Load(node.port).start()
    load.progress(BETWEEN)
    back = []
    for _ in range(KILLS):
        back.append(kill_once(node, name))
        load.progress(BETWEEN)
    after = stop_once(node, name)
    load.progress(BETWEEN)
    with node.client() as c:
        load.drain(c)
        load.report()
        print(f"{name}: back after {' '.join(f'{s:.3f}' for s in back)} s, "
              f"after a stop {after:.3f} s")
        load.check(c)
    assert "no sign of life" not in node.log()
    rows = node.ps()
    assert rows[name]["restarts"] == KILLS + 1
    for other in set(VICTIMS) - {name}:
        assert rows[other]["restarts"] == 0, rows[other]


def test_all_killed_at_once_under_load(node):
    load = Load(node.port).start()
    load.progress(BETWEEN)
    for _ in range(max(1, KILLS // 3)):
        old = node.pids()
        for name in VICTIMS:
            os.kill(old[name], signal.SIGKILL)
        for name in VICTIMS:
            wait_back(node, name, old[name])
        load.progress(BETWEEN)
    with node.client() as c:
        load.drain(c)
        load.report()
        load.check(c)


def test_whole_node_killed_under_load(node):
    load = None
    for _ in range(max(2, KILLS // 2)):
        load = Load(node.port, before=load).start()
        load.progress(BETWEEN)
        node.kill_all()
        load.stop()
        load.report()
        began = time.monotonic()
        node.start()
        print(f"ready again after {time.monotonic() - began:.3f} s")
    load = Load(node.port, producers=0, before=load).start()
    with node.client() as c:
        load.drain(c)
        load.report()
        load.check(c)
