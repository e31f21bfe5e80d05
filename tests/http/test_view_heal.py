"""The view's file is damaged under the running node, in every way.

Writes go on all the time. Lists are right, or say that they are behind, or
are refused with 503 VIEW_UNAVAILABLE; they are never wrong. In the end the
view is whole again without a restart, and equals the store.
"""

import os
import shutil
import signal
import sqlite3
import subprocess
import threading

import pytest

from node import API, fill_disk, wait_until

MANY = 400
FAST = 100  # what a test writes as fast as it can; then some a second
WORDS = " ".join(f"filler{n}" for n in range(300))  # several pages of file


class Writer:
    """Enqueues, fetches and acks; what was acknowledged is in `known`."""

    def __init__(self, node):
        self.node = node
        self.known = {}
        self.wrong = []
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        try:
            with self.node.client() as c:
                while not self.stop.is_set():
                    self.step(c)
                    # Leaves time for the others. A view is as slow to make
                    # and to compare as there are jobs, and all tests of this
                    # file write into it: a slow machine would never end.
                    self.stop.wait(0.002 if len(self.known) < FAST else 0.1)
        except BaseException as e:
            self.wrong.append(e)

    def step(self, c):
        n = len(self.known)
        payload = {"n": n, "text": WORDS}
        self.known[c.enqueue("heal", payload=payload)] = payload
        c.enqueue("work")
        c.ack(c.fetch("work"))

    def __enter__(self):
        self.thread.start()
        wait_until(lambda: len(self.known) > 5 or self.wrong, 30, "writes")
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join(60)
        assert not self.wrong, self.wrong


def look(client, known):
    """True: a current list, and a right one."""
    before = dict(known)
    a = client.post(f"{API}/jobs/search", {"queue": "heal", "limit": 100,
                                           "sort": "created_at",
                                           "order": "desc"})
    if a.status == 503:
        assert a.code == "VIEW_UNAVAILABLE", a
        return False
    assert a.status == 200, a
    for job in a.json["jobs"]:
        if job["id"] in before:
            assert job["payload"] == before[job["id"]], job["id"]
    if "X-Corvo-View-Lag-Ms" in a.headers:
        return False
    assert a.json["total"] >= len(before), a.json["total"]
    # Ids grow with time: from the oldest listed on, none may be missing.
    listed = {j["id"] for j in a.json["jobs"]}
    assert {i for i in before if i >= min(listed)} <= listed
    return True


def verify(client):
    a = client.post(f"{API}/admin/verify-view")
    return a.json if a.status == 200 else None


def view_dir(node):
    return node.data / "view"


def file_of(node):
    return view_dir(node) / "corvo.db"


def garbage(path):
    """Every byte anew, and no byte more or less."""
    with open(path, "r+b") as f:
        f.write(os.urandom(path.stat().st_size))


def delete_all(node):
    for path in list(view_dir(node).iterdir()):
        path.unlink(missing_ok=True)


def replace_by_empty(node):
    new = view_dir(node) / "other"
    new.write_bytes(b"")
    new.replace(file_of(node))


def replace_by_old(node):
    """A whole file of the view, of another time."""
    old = node.dir / "old.db"
    db = sqlite3.connect(file_of(node), timeout=30)
    copy = sqlite3.connect(old)
    with copy:
        db.backup(copy)
        copy.execute("UPDATE jobs SET payload='\"wrong\"'")
    db.close()
    copy.close()
    old.replace(file_of(node))


def statement(sql):
    def run(node):
        db = sqlite3.connect(file_of(node), timeout=30)
        db.execute("PRAGMA wal_autocheckpoint=0")
        db.execute(sql)
        db.commit()
        db.close()
    return run


def move_log(node):
    """Another program moves the log into the file."""
    db = sqlite3.connect(file_of(node), timeout=30)
    db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    db.close()


def no_directory(node):
    shutil.rmtree(view_dir(node))


FAULTS = {
    "deleted": lambda n: file_of(n).unlink(),
    "all deleted": delete_all,
    "directory deleted": no_directory,
    "log deleted": lambda n: (view_dir(n) / "corvo.db-wal").unlink(),
    "index deleted": lambda n: (view_dir(n) / "corvo.db-shm").unlink(),
    "replaced by an empty file": replace_by_empty,
    "replaced by an old view": replace_by_old,
    "cut to nothing": lambda n: os.truncate(file_of(n), 0),
    "cut in half": lambda n: os.truncate(file_of(n),
                                         file_of(n).stat().st_size // 2),
    "log cut": lambda n: os.truncate(view_dir(n) / "corvo.db-wal", 0),
    "garbage": lambda n: garbage(file_of(n)),
    "garbage in the log": lambda n: garbage(view_dir(n) / "corvo.db-wal"),
    "log moved by another program": move_log,
    "table dropped": statement("DROP TABLE jobs"),
    "column renamed": statement("ALTER TABLE jobs RENAME payload TO p"),
}


@pytest.fixture(scope="module", autouse=True)
def filled(node):
    with node.client() as c:
        for n in range(MANY):
            c.enqueue("before", payload={"n": n, "text": WORDS})


def is_whole(node, client, writer):
    """The view is current and equals the store, row for row."""
    if writer.wrong or not look(client, writer.known):
        return bool(writer.wrong)
    found = verify(client)
    return found is not None and found["status"] == "ok" and \
        found["rows"] > MANY and file_of(node).exists() and \
        (view_dir(node) / "corvo.db-shm").exists()


@pytest.mark.parametrize("name", FAULTS)
def test_heals(node, client, name):
    with Writer(node) as w:
        wait_until(lambda: is_whole(node, client, w), 60, "a whole view")
        before = len(w.known)
        FAULTS[name](node)
        wait_until(lambda: is_whole(node, client, w), 60,
                   f"the view to be whole again after: {name}", every=0.02)
        wait_until(lambda: len(w.known) > before + 5 or w.wrong, 30,
                   "writes to go on")
    assert look(client, w.known) or wait_until(
        lambda: look(client, w.known), 30, "a current list")
    assert node.ps("viewd")["restarts"] == 0


def test_deleted_file_of_an_idle_node_comes_back(node, client):
    path = file_of(node)
    wait_until(lambda: verify(client), 60, "a view")
    path.unlink()
    wait_until(path.exists, 30, "the file to be back")
    wait_until(lambda: (verify(client) or {}).get("status") == "ok", 60,
               "a whole view")


@pytest.mark.parametrize("ask", [verify, lambda c: look(c, {})])
def test_altered_tables_of_an_idle_node_are_noticed(node, client, ask):
    """Nothing is written that would meet them: whoever asks next does."""
    wait_until(lambda: (verify(client) or {}).get("status") == "ok", 60,
               "a whole view")
    FAULTS["column renamed"](node)
    wait_until(lambda: ask(client) and
               (verify(client) or {}).get("status") == "ok", 60,
               "a whole view")


def test_file_damaged_while_viewd_is_down(node, client):
    """What another process left is judged before it is shown."""
    for fault in ("garbage", "cut in half", "log deleted"):
        wait_until(lambda: verify(client), 60, "a view")
        old = node.pids()["viewd"]
        os.kill(old, signal.SIGSTOP)
        FAULTS[fault](node)
        os.kill(old, signal.SIGKILL)
        wait_until(lambda: (verify(client) or {}).get("status") == "ok", 60,
                   f"a whole view after {fault}")


def test_index_cut_is_survived(make_node, monkeypatch):
    """SQLite maps it into memory: viewd dies of that, and comes back."""
    options = os.environ.get("ASAN_OPTIONS", "")
    monkeypatch.setenv("ASAN_OPTIONS", options + ":handle_sigbus=0")
    node = make_node().start()
    with node.client() as c:
        c.enqueue("before", payload=1)
        wait_until(lambda: verify(c), 60, "a view")
        old = node.pids()["viewd"]
        os.truncate(view_dir(node) / "corvo.db-shm", 0)
        c.enqueue("before", payload=1)
        wait_until(lambda: node.pids().get("viewd", old) != old and
                   (verify(c) or {}).get("status") == "ok" and
                   c.queue("before")["enqueued"] == 2, 60, "a whole view")


def test_viewd_dies_while_another_program_reads(node, client):
    """The program goes on reading, and the view comes back meanwhile."""
    wait_until(lambda: verify(client), 60, "a view")
    db = sqlite3.connect(file_of(node), isolation_level=None, timeout=30)
    db.execute("BEGIN")
    count = "SELECT count(*) FROM jobs"
    seen = db.execute(count).fetchone()
    client.enqueue("before", payload=1)
    restart_viewd(node)
    wait_until(lambda: (verify(client) or {}).get("status") == "ok", 60,
               "a whole view")
    assert db.execute(count).fetchone() == seen
    db.execute("COMMIT")
    assert db.execute(count).fetchone()[0] == seen[0] + 1
    db.close()


def test_checkpoint_of_a_dead_viewd_is_removed(node, client):
    """Its hard links would keep deleted files on the disk."""
    wait_until(lambda: verify(client), 60, "a view")
    left = node.data / "checkpoints" / "view"
    (left / "some").mkdir(parents=True)
    (view_dir(node) / "corvo.db.new").write_bytes(b"x" * 100)
    restart_viewd(node)
    new = view_dir(node) / "corvo.db.new"
    wait_until(lambda: not left.exists() and not new.exists(), 30,
               "what is left to be gone")


# --- file systems ---------------------------------------------------------

needs_mount = pytest.mark.skipif(os.geteuid() != 0, reason="mounts")


def mount(*arguments):
    r = subprocess.run(["mount", *map(str, arguments)], capture_output=True)
    if r.returncode != 0:
        pytest.skip("mount is not allowed here")


def restart_viewd(node):
    old = node.pids()["viewd"]
    os.kill(old, signal.SIGKILL)
    wait_until(lambda: node.ps("viewd")["state"] == "ready" and
               node.ps("viewd")["pid"] not in (0, old), 60, "viewd")


def is_refused(client):
    a = client.get(f"{API}/queues")
    return a.status == 503 and a.code == "VIEW_UNAVAILABLE"


def works(client):
    client.enqueue("fs")
    client.ack(client.fetch("fs"))
    return True


@needs_mount
def test_read_only_directory(make_node):
    node = make_node("--view-wait=100ms").start()
    wait_until(node.has_view, 60, "a view")
    with node.client() as c:
        works(c)
        mount("--bind", view_dir(node), view_dir(node))
        try:
            mount("-o", "remount,bind,ro", view_dir(node))
            restart_viewd(node)
            for _ in range(5):
                works(c)
                assert is_refused(c)
        finally:
            subprocess.run(["umount", "-l", str(view_dir(node))], check=True)
        wait_until(lambda: (verify(c) or {}).get("status") == "ok", 60,
                   "a whole view")


@needs_mount
def test_full_disk_of_the_view_only(make_node):
    node = make_node("--view-wait=100ms")
    view_dir(node).mkdir(parents=True)
    mount("-t", "tmpfs", "-o", "size=24m", "tmpfs", view_dir(node))
    try:
        node.start()
        wait_until(node.has_view, 60, "a view")
        with node.client() as c:
            filler = fill_disk(view_dir(node))
            for _ in range(300):
                c.enqueue("fs", payload=WORDS)
            works(c)
            a = c.get(f"{API}/queues")  # behind, and it says so
            assert a.status == 503 or "X-Corvo-View-Lag-Ms" in a.headers, a
            a = c.post(f"{API}/admin/rebuild-sqlite")
            assert a.status == 503, a
            filler.unlink()
            wait_until(lambda: (verify(c) or {}).get("status") == "ok", 60,
                       "a whole view")
            assert c.queue("fs")["enqueued"] == 301
        node.stop()
    finally:
        node.kill_all()
        subprocess.run(["umount", str(view_dir(node))], check=True)
