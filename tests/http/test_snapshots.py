"""Snapshots that fail: told, counted, tried again, and healed without
traffic."""

from node import API, wait_until

FLAGS = ["--snapshot-bytes=256KiB"]
FAILURES = "corvo_raft_snapshot_failures_total"


def fill(client, bytes_):
    for _ in range(bytes_ // 50000):
        client.enqueue("q", payload={"text": "x" * 50000})


def test_a_failed_snapshot_is_told_and_tried_again(make_node):
    node = make_node(*FLAGS).start()
    place = node.data / "checkpoints"
    with node.client() as c:
        assert c.metrics()[FAILURES] == 0
        place.rmdir()
        place.write_text("in the way")
        fill(c, 400000)
        # Nobody asks for anything more; it tries by itself.
        wait_until(lambda: c.metrics()[FAILURES] >= 3, 60, "three failures")
        a = c.get("/readyz")
        assert (a.status, a.code) == (503, "STORAGE_ERROR"), a
        assert "snapshot" in a.json["error"]
        words = [x for x in node.log().splitlines()
                 if "the log cannot be cut" in x]
        assert len(words) >= 3
        assert str(place) in words[0] and "trying again in 1 s" in words[0]
        assert "trying again in 2 s" in words[1]
        job = c.enqueue("q")  # writes go on
        before = c.metrics()["corvo_raft_log_bytes"]
        place.unlink()
        place.mkdir()
        wait_until(node.is_ready, 60, "the node to be ready again")
        assert c.metrics()["corvo_raft_log_bytes"] < before
        assert "the log is cut again" in node.log()
        assert c.job(job)["state"] == "pending"
    node.kill_all()
    node.start()
    with node.client() as c:
        assert c.get(f"{API}/jobs/{job}").status == 200
