"""Three real nodes, started as make cluster and as a StatefulSet start them."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from node import API, CORVO, Client, free_port, is_alive  # noqa: E402
from waiting import patience, wait_until  # noqa: E402

ROOT = Path(os.environ["CORVO_SOURCE_DIR"])
NAMES = ["n1", "n2", "n3"]


def view(port):
    """(leader, voters) as the node there sees them, or None."""
    try:
        with Client(port, 5) as c:
            d = c.get(API + "/cluster/status")
    except OSError:
        return None
    if d.status != 200 or not d.json.get("leader_id"):
        return None
    return d.json["leader_id"], sorted(n["id"] for n in d.json["nodes"]
                                       if n["voter"])


def wait_together(ports, log):
    """All three see the same leader and each other."""
    def is_so():
        seen = [view(p) for p in ports]
        return all(s and s == seen[0] and s[1] == NAMES for s in seen)

    try:
        wait_until(is_so, 60, "one cluster", every=0.1)
    except AssertionError:
        raise AssertionError(f"{[view(p) for p in ports]}\n{log()}") from None


def put_job(port, queue):
    with Client(port) as c:
        return c.enqueue(queue)


def has_job(port, job):
    with Client(port) as c:
        return c.get(f"{API}/jobs/{job}").status == 200


# --- make cluster ------------------------------------------------------------


def test_make_cluster(tmp_path):
    ports = [free_port() for _ in NAMES]
    out = tmp_path / "out"
    with open(out, "w") as f:
        p = subprocess.Popen(
            [ROOT / "tools/cluster"], stdout=f, stderr=f, cwd=tmp_path,
            start_new_session=True, env={
                **os.environ, "CORVO": str(CORVO),
                "HTTP_PORTS": " ".join(map(str, ports)),
                "PEER_PORTS": " ".join(str(free_port()) for _ in NAMES)})
    try:
        wait_until(lambda: "^C ends them" in out.read_text()
                   or p.poll() is not None, 60, "three nodes")
        wait_together(ports, out.read_text)
        job = put_job(ports[1], "q")
        wait_until(lambda: has_job(ports[2], job), 20, "the job on n3")
        pids = [w.split()[0] for w in out.read_text().split("pid ")[1:]]
    finally:
        os.killpg(p.pid, signal.SIGINT)
        assert p.wait(patience(30)) == 0, out.read_text()
    assert len(pids) == 3 and not any(map(is_alive, pids))


# --- a StatefulSet -----------------------------------------------------------


class Pods:
    def __init__(self, folder):
        self.folder = folder
        self.secret = folder / "secret"
        self.secret.write_text("s" * 32)
        self.peer = [f"127.0.0.1:{free_port()}" for _ in NAMES]
        self.http = [free_port() for _ in NAMES]
        self.running = {}

    def data(self, i):
        return self.folder / NAMES[i]

    def start(self, i):
        self.data(i).mkdir(mode=0o750, exist_ok=True)
        with open(self.folder / f"log{i}", "a") as log:
            self.running[i] = subprocess.Popen(
                [CORVO, "server", f"--bind=127.0.0.1:{self.http[i]}"],
                stderr=log, env={
                    **os.environ, "CORVO_CLUSTER": "true",
                    "CORVO_BOOTSTRAP_EXPECT": "3",
                    "CORVO_JOIN": ",".join(self.peer),
                    "CORVO_CLUSTER_SECRET_FILE": str(self.secret),
                    "CORVO_DATA_DIR": str(self.data(i)),
                    "CORVO_NODE_ID": NAMES[i],
                    "CORVO_RAFT_ADVERTISE": self.peer[i],
                    "CORVO_RAFT_BIND": self.peer[i]})

    def stop(self, i):
        p = self.running.pop(i)
        p.send_signal(signal.SIGTERM)
        assert p.wait(patience(30)) == 0, self.log(i)

    def lose_disk(self, i):
        shutil.rmtree(self.data(i))

    def log(self, i):
        return (self.folder / f"log{i}").read_text()

    def wait_together(self):
        wait_together(self.http, lambda: "\n".join(
            self.log(i)[-3000:] for i in range(3)))


@pytest.fixture
def pods(tmp_path):
    p = Pods(tmp_path)
    yield p
    for one in p.running.values():
        one.send_signal(signal.SIGTERM)
    for one in p.running.values():
        one.wait(patience(30))


def test_pods_stay_one_cluster(pods):
    for i in (2, 1, 0):
        pods.start(i)
    pods.wait_together()
    job = put_job(pods.http[1], "q")

    # The first loses its disk.
    pods.stop(0)
    pods.lose_disk(0)
    pods.start(0)
    pods.wait_together()
    wait_until(lambda: has_job(pods.http[0], job), 20, "the job on n1")

    # It loses it in an outage, and comes back before the others.
    for i in range(3):
        pods.stop(i)
    pods.lose_disk(0)
    told = pods.log(0).count("waits for")
    pods.start(0)
    wait_until(lambda: pods.log(0).count("waits for") > told, 20, "n1")
    for i in (1, 2):
        pods.start(i)
    pods.wait_together()
    wait_until(lambda: has_job(pods.http[0], job), 20, "the job on n1")


def test_a_leader_hands_over(pods):
    for i in range(3):
        pods.start(i)
    pods.wait_together()
    leader = NAMES.index(view(pods.http[0])[0])
    pods.stop(leader)
    rest = next(i for i in range(3) if i != leader)
    wait_until(lambda: (view(pods.http[rest]) or (NAMES[leader],))[0]
               != NAMES[leader], 20, "another leader")
    assert "no longer leading" in pods.log(leader)
