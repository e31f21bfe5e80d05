"""Data of an earlier release: a node of this version starts with it and has
everything, and does not touch data of a later one.

tests/golden/0.4.0/data.tar.xz is the data directory of a node of 0.4.0 that was
stopped once, so that its store holds the first half, and killed later, so that
the second half is in its raft log only."""

import subprocess
import tarfile

from node import API, BUILD, SOURCE, wait_until

DATA = SOURCE / "tests" / "golden" / "0.4.0" / "data.tar.xz"
FLAGS = ["--node-id=node-1", "--retention=0"]


def unpack(node):
    node.data.mkdir(mode=0o700)
    with tarfile.open(DATA) as tar:
        tar.extractall(node.data)


def verify_view(node, client):
    wait_until(node.has_view, 60, "the view to answer")
    a = client.post(f"{API}/admin/verify-view")
    assert a.status == 200, a
    return a.json


def assert_everything(client):
    counts = {q["name"]: q for q in client.get(f"{API}/queues").json}
    assert sorted(counts) == ["dead", "emails", "held", "later", "plain",
                              "stopped"]
    assert counts["emails"]["pending"] == 4
    assert counts["emails"]["max_concurrency"] == 5
    assert counts["later"]["scheduled"] == 1
    assert counts["held"]["held"] == 1
    assert counts["stopped"]["paused"]
    assert counts["stopped"]["pending"] == 0  # cleared, says the log
    dead = client.search(queue="dead")["jobs"]
    assert [j["state"] for j in dead] == ["dead"]
    assert client.job(dead[0]["id"])["errors"][0]["error"] == "out of memory"
    schedules = client.get(f"{API}/schedules").json["schedules"]
    names = [s["name"] for s in schedules]
    assert names == ["nightly"]


def test_data_of_0_4_0_is_upgraded_and_complete(make_node):
    n = make_node(*FLAGS)
    unpack(n)
    n.start()
    assert "upgrading the store from format 1 to" in n.log()
    with n.client() as c:
        assert verify_view(n, c)["differences"] == 0
        assert_everything(c)
        # the lock of a unique key is still held
        a = c.post(f"{API}/enqueue", {"queue": "plain", "unique_key": "only"})
        assert a.status == 200 and a.json["unique_existing"], a
        job = c.fetch("plain")
        assert job["payload"] == "kept byte for byte \u00e9"
        assert job["attempt"] == 1  # it was given back
        c.ack(job)
        assert [c.fetch("emails")["payload"]["n"] for _ in range(4)] == [
            1, 2, 3, 4]


def test_the_upgrade_is_done_once(make_node):
    n = make_node(*FLAGS)
    unpack(n)
    n.start()
    n.kill_all()
    n.err.unlink()
    n.start()
    assert "upgrading" not in n.log()
    with n.client() as c:
        assert verify_view(n, c)["differences"] == 0
        assert_everything(c)


def test_data_of_a_later_version_is_refused_by_name(make_node):
    n = make_node(*FLAGS)
    n.start()
    n.stop()
    rocks = n.data / "rocks"
    subprocess.run([BUILD / "tests" / "golden" / "set_format", rocks, "77"],
                   check=True)
    status, words = n.refuses()
    assert status != 0
    assert f"{rocks}: the store has format 77 and this version of Corvo " \
        "knows formats up to" in words
    assert "start the version that wrote it" in words
