"""Operations that fail a check of the state machine, and entries of the log
that kill the node at every start, with `corvo admin skip-entry` as the last way
out. Both are planted: CORVO_FAULT_APPLY_FAILS and CORVO_FAULT_APPLY_DIES name
an operation."""

import re
import subprocess

import pytest

from node import API, CORVO, wait_until

PAUSE = f"{API}/queues/q/pause"
LEFT_OUT = "is left out on this node, as corvo admin skip-entry was told"


def skip(node, *args, expect=0):
    """Runs the command; returns what it said."""
    r = subprocess.run(
        [str(CORVO), "admin", "skip-entry", *args,
         f"--data-dir={node.data}",
         f"--raft-bind=127.0.0.1:{node.raft_port}", *node.flags],
        timeout=60, capture_output=True, text=True)
    print(r.stdout, r.stderr)
    assert "AddressSanitizer" not in r.stderr
    assert r.returncode == expect, (r.returncode, r.stdout, r.stderr)
    return r.stdout if expect == 0 else r.stderr


def events(c, kind):
    found = c.get(f"{API}/cluster/events?limit=1000").json["events"]
    return [e for e in found if e["type"] == kind]


def test_an_operation_that_fails_a_check_is_answered_500(make_node):
    node = make_node()
    node.env["CORVO_FAULT_APPLY_FAILS"] = "pause"
    node.start()
    pid = node.ps("raftd")["pid"]
    with node.client() as c:
        job = c.enqueue("q")
        a = c.post(PAUSE)
        assert (a.status, a.code) == (500, "INTERNAL_ERROR"), a
        assert not c.queue("q").get("paused")
        assert c.fetch("q")["job_id"] == job  # and everything goes on
        assert c.total("corvo_ops_undone_total") == 1
        assert c.total("corvo_state_reloads_total") == 2
    assert node.ps("raftd")["pid"] == pid
    said = [x for x in node.log().splitlines()
            if "operation pause, number 1 of entry" in x]
    assert len(said) == 2 and "dispatch.c" in said[1], said
    assert "it was undone and answered 500" in said[1]
    node.stop()
    node.start()  # the log is applied again, with the same end
    with node.client() as c:
        assert not c.queue("q").get("paused")


@pytest.fixture
def killed(make_node):
    """A node that dies at every start, and the index of what kills it."""
    node = make_node("--crash-limit=2", "--op-timeout=1s")
    node.env["CORVO_FAULT_APPLY_DIES"] = "pause"
    node.start()
    with node.client() as c:
        c.enqueue("q")
        assert c.post(PAUSE).status >= 500
    assert node.process.wait(60) != 0
    index = re.findall(r"applying entry (\d+)", node.log())
    assert len(set(index)) == 1, index
    yield node, index[0]
    node.err.unlink()  # nobody looks for what was planted


def test_an_entry_that_kills_is_left_out(killed):
    node, index = killed
    status, _ = node.refuses()
    assert status != 0
    words = skip(node, index, expect=2)
    assert "every node of the cluster must leave it out alike" in words
    assert "nothing was changed" in words
    assert not (node.data / "skip").exists()
    words = skip(node, index, "--yes")
    assert f"entry {index} of the log: term" in words
    assert "1 operation: pause" in words
    assert "do the same on every other node" in words
    for start in (1, 2):
        node.start()
        wait_until(lambda: node.log().count(LEFT_OUT) >= start, 60, LEFT_OUT)
        with node.client() as c:
            assert c.queue("q")["pending"] == 1
            assert not c.queue("q").get("paused")
            assert [str(e["data"]["index"])
                    for e in events(c, "entry_skipped")] == [index]
            assert c.total("corvo_entries_skipped") == 1
            status = c.get(f"{API}/cluster/status").json
            assert status["entries_skipped"] == 1
        shown = subprocess.run(
            [str(CORVO), "status", "--server",
             f"http://127.0.0.1:{node.port}"],
            timeout=60, capture_output=True, text=True).stdout
        assert "this node leaves out: 1" in shown, shown
        node.process.terminate()
        assert node.process.wait(60) == 0
    assert "is applied already" in skip(node, index, "--yes", expect=2)


def test_only_an_entry_that_is_there_can_be_left_out(killed):
    node, index = killed
    far = str(int(index) + 1000)
    assert f"the log has no entry {far}" in skip(node, far, "--yes", expect=2)
    assert "give the INDEX" in skip(node, "--yes", expect=2)
    skip(node, index, "--yes")
    assert "is marked already" in skip(node, index, "--yes", expect=2)
    (node.data / "skip").write_text("what is this\n")
    status, words = node.refuses()
    assert status == 2 and "skip is damaged" in words, words
