"""verify-view: finds every kind of difference between view and store.

The faults are put into the SQLite file of a running node, as somebody with
the sqlite3 shell could.
"""

import json
import sqlite3
import subprocess
import threading
import time

import pytest

from node import API, CORVO, wait_until


def edit(node, *statements):
    """Changes the file as another program would."""
    db = sqlite3.connect(node.data / "view" / "corvo.db", timeout=30)
    try:
        # Else it might move the log into the file; that is noticed at once.
        db.execute("PRAGMA wal_autocheckpoint=0")
        for sql, *values in statements:
            changed = db.execute(sql, values).rowcount
            assert changed > 0, sql
        db.commit()
    finally:
        db.close()


def read(node, sql, *values):
    db = sqlite3.connect(node.data / "view" / "corvo.db", timeout=30)
    try:
        return db.execute(sql, values).fetchall()
    finally:
        db.close()


def verify(client):
    a = client.post(f"{API}/admin/verify-view")
    assert a.status == 200, a
    return a.json


def is_current(client):
    a = client.get(f"{API}/queues")
    return a.status == 200 and "X-Corvo-View-Lag-Ms" not in a.headers


def rebuild(client):
    a = client.post(f"{API}/admin/rebuild-sqlite")
    assert a.status == 200, a
    return a.json


def difference(found, table, key, column=""):
    rows = [d for d in found["first"]
            if (d["table"], d["key"], d["column"]) == (table, key, column)]
    assert len(rows) == 1, found
    return rows[0]


def make_life(c):
    """Something in every table that is filled; the ids of some jobs. Nothing
    of it changes by itself while the tests run, however long they take: an
    event of a queue would make the row again that a test has removed."""
    ids = [c.enqueue("verify", payload={"n": n, "text": f"word{n}"},
                     tags={"a": str(n)}) for n in range(20)]
    c.enqueue("verify", unique_key="only one", payload=1)
    done = c.fetch("verify")
    c.ack(done, result=[1])
    failed = c.fetch("verify")
    c.fail(failed, retry_after="1h")
    c.fetch("verify", lease_duration=3600)  # stays active
    c.post(f"{API}/jobs/{ids[10]}/cancel")
    a = c.post(f"{API}/batches", {"callback_queue": "later",
                                  "callback_payload": {"x": 1}})
    batch = a.json["batch_id"]
    c.enqueue("verify.batch", batch_id=batch)
    c.ack(c.fetch("verify.batch"))
    c.post(f"{API}/schedules", {"name": "new year", "queue": "verify",
                                "cron": "@yearly", "payload": {"p": 1}})
    c.post(f"{API}/webhooks", {
        "id": "teller", "url": "http://me:s3cr3t@127.0.0.1:1/in?a=b",
        "events": ["completed", "dead"], "queues": ["verify*"],
        "secret": "0123456789abcdef", "enabled": False,
        "headers": {"X-Api-Key": "k3y"}})
    assert is_current(c)
    return {"jobs": ids, "failed": failed["job_id"], "batch": batch}


@pytest.fixture(scope="module")
def life(node):
    with node.client() as c:
        return make_life(c)


@pytest.fixture
def good(node, client, life):
    """The ids of a view without faults, before and after the test."""
    wait_until(lambda: is_current(client), 30, "a current view")
    assert verify(client)["status"] == "ok"
    yield life
    rebuild(client)
    found = verify(client)
    assert found["status"] == "ok", found


def test_untouched_view_is_ok(client, good):
    found = verify(client)
    assert found["status"] == "ok" and found["differences"] == 0
    assert found["first"] == []
    assert found["rows"] > 25 and found["seq"] > 0


def test_every_documented_table_exists(node, life):
    tables = {r[0] for r in read(
        node, "SELECT name FROM sqlite_master"
        " WHERE type IN ('table', 'view')")}
    assert tables >= {
        "jobs", "job_errors", "unique_locks", "batches", "queues", "workers",
        "schedules", "job_usage", "budgets", "job_iterations", "job_scores",
        "providers", "approval_policies", "webhooks", "api_keys",
        "auth_roles", "auth_key_roles", "audit_logs", "namespaces",
        "sso_settings"}
    assert read(node, "SELECT name FROM namespaces") == [("default",)]
    assert read(node, "SELECT id FROM sso_settings") == [("singleton",)]


def test_batches_schedules_and_locks_have_rows(node, life):
    (total, succeeded, payload), = read(
        node, "SELECT total, succeeded, callback_payload FROM batches"
        " WHERE id=?", life["batch"])
    assert (total, succeeded, json.loads(payload)) == (1, 1, {"x": 1})
    assert read(node, "SELECT name, queue, cron FROM schedules") == \
        [("new year", "verify", "@yearly")]
    assert read(node, "SELECT queue, unique_key FROM unique_locks") == \
        [("verify", "only one")]


def test_webhooks_have_rows_without_their_secrets(node, client, good):
    (row,) = read(node, "SELECT url, events, queues, enabled, retry_limit,"
                  " secret, last_status_code FROM webhooks WHERE id='teller'")
    assert row == ("http://127.0.0.1:1/in?a=b", '["completed","dead"]',
                   '["verify*"]', 0, 3, None, None)
    for path in (node.data / "view").iterdir():
        for word in (b"s3cr3t", b"0123456789abcdef", b"k3y"):
            assert word not in path.read_bytes(), path
    # a change is there, and a row that is another one is found
    a = client.request("PATCH", f"{API}/webhooks/teller", {"retry_limit": 7})
    assert a.status == 200, a
    wait_until(lambda: read(node, "SELECT retry_limit FROM webhooks") ==
               [(7,)], what="the change")
    edit(node, ("UPDATE webhooks SET enabled=1 WHERE id=?", "teller"))
    row = difference(verify(client), "webhooks", "teller", "enabled")
    assert (row["view"], row["store"]) == ("1", "0")


def test_a_webhook_that_is_deleted_has_no_row(node, client, good):
    a = client.post(f"{API}/webhooks", {
        "id": "brief", "url": "http://127.0.0.1:1/", "enabled": False})
    assert a.status == 200, a
    ids = "SELECT id FROM webhooks ORDER BY id"
    wait_until(lambda: read(node, ids) == [("brief",), ("teller",)],
               what="its row")
    assert client.request("DELETE", f"{API}/webhooks/brief").status == 200
    wait_until(lambda: read(node, ids) == [("teller",)], what="its end")


def test_changed_state_is_found(node, client, good):
    job = good["jobs"][5]
    edit(node, ("UPDATE jobs SET state='dead' WHERE id=?", job))
    found = verify(client)
    assert found["status"] == "differs"
    row = difference(found, "jobs", job, "state")
    assert (row["view"], row["store"]) == ("dead", "pending")


def test_changed_payload_is_found_in_text_too(node, client, good):
    job = good["jobs"][6]
    edit(node, ("UPDATE jobs SET payload='{}' WHERE id=?", job))
    found = verify(client)
    difference(found, "jobs", job, "payload")
    difference(found, "jobs_fts", "")


def test_missing_row_is_found(node, client, good):
    job = good["jobs"][7]
    edit(node, ("DELETE FROM jobs WHERE id=?", job))
    row = difference(verify(client), "jobs", job)
    assert (row["view"], row["store"]) == ("missing", "present")


def test_additional_row_is_found(node, client, good):
    edit(node, ("INSERT INTO jobs(id, queue, created_at, payload)"
                " VALUES('job_zz', 'verify', 'x', '1')",))
    row = difference(verify(client), "jobs", "job_zz")
    assert (row["view"], row["store"]) == ("present", "missing")


def test_changed_counter_is_found(node, client, good):
    edit(node, ("UPDATE queue_stats SET pending=pending+1"
                " WHERE queue='verify'",))
    row = difference(verify(client), "queue_stats", "verify", "pending")
    assert int(row["view"]) == int(row["store"]) + 1


def test_missing_counters_are_found(node, client, good):
    edit(node, ("DELETE FROM queue_stats WHERE queue='verify'",))
    difference(verify(client), "queue_stats", "verify")


def test_missing_words_are_found(node, client, good):
    # 10 and below are its structure and averages, the rest are its words.
    edit(node, ("DELETE FROM jobs_fts_data WHERE id > 10",))
    difference(verify(client), "jobs_fts", "")


@pytest.mark.parametrize("table,column,key", [
    ("job_errors", "error", "job_id || ' ' || n"), ("queues", "paused", "name"),
    ("workers", "hostname", "id"), ("batches", "succeeded", "id"),
    ("schedules", "cron", "id"),
    ("unique_locks", "expires_at", "queue || ' ' || unique_key")])
def test_changed_row_of_any_table_is_found(node, client, good, table, column,
                                           key):
    name, = read(node, f"SELECT {key} FROM {table} LIMIT 1")[0]
    edit(node, (f"UPDATE {table} SET {column}='wrong' WHERE {key}=?", name))
    row = difference(verify(client), table, name, column)
    assert row["view"] == "wrong"


@pytest.mark.parametrize("table,key", [
    ("job_errors", "job_id || ' ' || n"), ("queues", "name"),
    ("workers", "id"), ("batches", "id"), ("schedules", "id"),
    ("unique_locks", "queue || ' ' || unique_key")])
def test_missing_row_of_any_table_is_found(node, client, good, table, key):
    name, = read(node, f"SELECT {key} FROM {table} LIMIT 1")[0]
    edit(node, (f"DELETE FROM {table} WHERE {key}=?", name))
    assert difference(verify(client), table, name)["view"] == "missing"


def test_more_than_a_hundred_differences(node, client, good):
    many = [("INSERT INTO batches(id, status, total, pending, created_at)"
             " VALUES(?, 'open', 1, 1, 'x')", f"b{n:03}") for n in range(150)]
    edit(node, *many)
    found = verify(client)
    assert found["differences"] == 150
    assert len(found["first"]) == 100


def corvo(node, *arguments):
    return subprocess.run([CORVO, *arguments,
                           f"--server=http://127.0.0.1:{node.port}"],
                          capture_output=True, text=True)


def test_command_line(node, client, good):
    r = corvo(node, "admin", "verify-view")
    assert r.returncode == 0, r
    assert "0 differences" in r.stdout
    job = good["jobs"][8]
    edit(node, ("UPDATE jobs SET attempt=7 WHERE id=?", job))
    r = corvo(node, "admin", "verify-view")
    assert r.returncode == 1, r
    assert job in r.stdout and "attempt" in r.stdout
    r = corvo(node, "admin", "rebuild-view")
    assert r.returncode == 0 and r.stdout.startswith("View rebuilt"), r
    assert corvo(node, "admin", "verify-view").returncode == 0


def test_exact_while_jobs_come_and_go(node, good):
    """Nothing is at rest, and still nothing differs."""
    stop = threading.Event()
    errors = []

    def work(number):
        try:
            with node.client() as c:
                while not stop.is_set():
                    queue = f"busy{number}"
                    c.enqueue(queue, unique_key="k", payload={"a": number})
                    batch = c.post(f"{API}/batches", {}).json["batch_id"]
                    for _ in range(3):
                        c.enqueue(queue, batch_id=batch)
                    c.post(f"{API}/batches/{batch}/seal")
                    while job := c.fetch(queue):
                        (c.fail if job["attempt"] == 1 else c.ack)(job)
                        c.request("DELETE", f"{API}/jobs/{job['job_id']}")
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for t in threads:
        t.start()
    try:
        with node.client() as c:
            for _ in range(10):
                found = verify(c)
                assert found["status"] == "ok", found
    finally:
        stop.set()
        for t in threads:
            t.join()
    assert not errors, errors


def ask_at_once(node, path, n):
    """The answers to n requests that are under way together."""
    answers = []

    def ask():
        with node.client() as c:
            answers.append(c.post(path))

    threads = [threading.Thread(target=ask) for _ in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(answers) == n
    return answers


def test_one_comparison_at_a_time(node, good):
    """Those that meet another one are told so; nobody is told nonsense."""
    answers = ask_at_once(node, f"{API}/admin/verify-view", 6)
    assert any(a.status == 200 for a in answers)
    for a in answers:
        assert a.status == 200 and a.json["status"] == "ok" or \
            (a.status, a.code) == (409, "CONFLICT"), a


def test_rebuilds_asked_for_together_are_one(node, good):
    with node.client() as c:
        before = c.metrics()["corvo_view_rebuilds_total"]
    answers = ask_at_once(node, f"{API}/admin/rebuild-sqlite", 8)
    for a in answers:
        assert a.status == 200, a
        assert a.json["status"] == "ok" and a.json["rebuilt"] is True
        assert a.json["jobs"] >= 20
    with node.client() as c:
        after = c.metrics()["corvo_view_rebuilds_total"]
    assert before < after < before + 8


def test_lists_are_answered_during_a_rebuild(node, good):
    """Not one refusal, and each list has what was acknowledged before."""
    stop = threading.Event()
    wrong = []

    def look():
        with node.client() as c:
            n = 0
            while not stop.is_set():
                n += 1
                job = c.enqueue("during", payload=n)
                a = c.post(f"{API}/jobs/search", {"queue": "during",
                                                  "limit": 1})
                if a.status != 200:
                    wrong.append(a)
                elif "X-Corvo-View-Lag-Ms" not in a.headers and \
                        a.json["jobs"][0]["id"] != job:
                    wrong.append((job, a))

    t = threading.Thread(target=look)
    t.start()
    try:
        with node.client() as c:
            for _ in range(10):
                rebuild(c)
    finally:
        stop.set()
        t.join()
    assert not wrong, wrong[:3]


def test_comparisons_do_not_make_later_rows_late(make_node):
    """Each withdraws the question for events that waits; those of 150 would
    have been answered before the one that counts, 25 ms each."""
    node = make_node()
    node.start()
    with node.client() as c:
        c.enqueue("late")

        def row_after():
            began = time.monotonic()
            c.enqueue("late")
            n = c.get(f"{API}/queues/late").json["enqueued"]
            wait_until(lambda: c.search(queue="late")["total"] == n, 30,
                       "the row")
            return time.monotonic() - began
        wait_until(lambda: is_current(c), what="the view to be current")
        alone = max(row_after() for _ in range(5))
        for _ in range(150):
            verify(c)
        after = row_after()
        assert after < 10 * alone + 1, (after, alone)
