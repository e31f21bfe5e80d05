"""A damaged file of the store: it is named, nothing is written past it, what
can be read is read, and with the file put back nothing is lost."""

import re

import pytest

from node import API, wait_until

BLOCK = 8 << 10  # of the store's files: records this large share none
MARK = "a record that will be damaged "


def fill(text):
    return {"text": text * (2 * BLOCK // len(text))}


@pytest.fixture
def damaged(make_node):
    """A stopped node, its jobs, and the file with the second one's record, of
    which a byte was changed."""
    node = make_node()
    node.start()
    with node.client() as c:
        # What comes first may be flushed by itself. Small records, which a
        # start needs, stand in a file before the large ones: not with ours.
        c.enqueue("other", payload=fill("first "))
        ids = [c.enqueue("good", payload=fill("before ")),
               c.enqueue("bad", payload=fill(MARK)),
               c.enqueue("good", payload=fill("behind "))]
    node.stop()
    files = [f for f in (node.data / "rocks").glob("*.sst")
             if MARK.encode() in f.read_bytes()]
    assert len(files) == 1
    return node, ids, files[0], files[0].read_bytes()


def damage(file, whole):
    at = whole.index(MARK.encode())
    with file.open("r+b") as f:
        f.seek(at)
        f.write(bytes([whole[at] ^ 1]))


def put_back(file, whole):
    file.write_bytes(whole)


def refused(answer):
    return (answer.status, answer.code) == (503, "STORAGE_ERROR")


def spawn(node, words):
    before = len(node.log())
    node.spawn()
    wait_until(lambda: words in node.log()[before:], 60, words)


def test_a_job_that_cannot_be_read_is_not_one_that_is_gone(damaged):
    node, (first, bad, last), file, whole = damaged
    damage(file, whole)
    node.start()
    with node.client() as c:
        for path in ["", "/why", "/logs"]:
            a = c.get(f"{API}/jobs/{bad}{path}")
            assert refused(a), (path, a)
        beat = {"worker_id": "w", "jobs": {bad: {}}}
        for path, body in [("heartbeat", beat),
                           (f"jobs/{bad}/cancel", {}),
                           (f"jobs/{bad}/hold", {"reason": "look"}),
                           (f"jobs/{bad}/move", {"queue": "good"})]:
            a = c.post(f"{API}/{path}", body)
            assert refused(a), (path, a)
        assert refused(c.request("DELETE", f"{API}/jobs/{bad}"))
        # All of that was refused before it was in the log: the others go on.
        assert c.job(first)["state"] == "pending"
        c.ack(c.fetch("good"))
        c.enqueue("good")
        assert node.is_ready()
    wait_until(lambda: str(file) in node.log(), 10, "the file to be named")
    assert node.ps("raftd")["restarts"] == 0


def test_an_entry_that_meets_damage_is_kept_for_later(damaged):
    node, (first, bad, last), file, whole = damaged
    damage(file, whole)
    node.start()
    with node.client() as c:
        done = c.enqueue("good")
        a = c.post(f"{API}/fetch", {"queues": ["bad"], "worker_id": "w"})
        assert (a.status, a.code) == (504, "OUTCOME_UNKNOWN"), a
        a = c.get("/readyz")
        assert refused(a), a
        assert str(file) in a.json["error"]
        assert "put that file back" in a.json["error"]
        # All that was answered can be read, and nothing is written.
        assert [c.job(i)["state"] for i in (first, last, done)] \
            == ["pending"] * 3
        assert refused(c.get(f"{API}/jobs/{bad}"))
        assert c.get(f"{API}/queues").status == 200
        for a in [c.post(f"{API}/enqueue", {"queue": "good", "payload": {}}),
                  c.post(f"{API}/fetch", {"queues": ["good"],
                                          "worker_id": "w"}),
                  c.post(f"{API}/jobs/{last}/cancel", {})]:
            assert refused(a), a
        assert node.ps("raftd")["restarts"] == 0
    node.stop()
    # The next start meets the same entry. It does not crash, nor guess.
    spawn(node, "the store cannot apply entry")
    with node.client() as c:
        wait_until(lambda: refused(c.get("/readyz")), 60, "an answer")
        assert str(file) in c.get("/readyz").json["error"]
        assert refused(c.get(f"{API}/jobs/{first}"))
        assert node.ps("raftd")["restarts"] == 0
    node.stop()
    put_back(file, whole)
    node.start()
    with node.client() as c:
        assert c.job(bad)["state"] == "active"  # the entry of the fetch
        assert [c.job(i)["state"] for i in (first, last, done)] \
            == ["pending"] * 3
        c.ack(c.fetch("good"))
        c.enqueue("good")


def test_an_error_of_the_log_is_told_with_its_file(make_node):
    node = make_node("--raft-segment-size=64KiB", "--apply-batch-bytes=32KiB")
    node.start()
    log, away = node.data / "raft", node.data / "raft.away"
    with node.client() as c:
        ids = [c.enqueue("q") for _ in range(3)]
    log.rename(away)
    log.write_text("in the way")  # no segment can be made
    while "cannot be written" not in node.log():
        try:
            with node.client(timeout=1) as c:
                c.post(f"{API}/enqueue", {"queue": "q", "payload": fill("x")})
        except TimeoutError:  # it waits for corvo-raftd to come back
            pass
    line = next(x for x in node.log().splitlines() if "cannot be written" in x)
    assert str(log) in line and re.search("open-|log-", line), line
    node.kill_all()
    log.unlink()
    away.rename(log)
    node.start()
    with node.client() as c:
        assert {c.job(i)["state"] for i in ids} == {"pending"}
