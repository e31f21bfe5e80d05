"""A log and a store that do not belong together, and `corvo recover`.

Whatever happens to the folders of a stopped node: either it starts with
everything it acknowledged, or it does not start, says in one sentence which
two things do not fit, and `corvo recover` makes a node of what is left.
"""

import os
import re
import shutil
import subprocess

import pytest

from node import API, CORVO, wait_until

# Entries of the snapshot tests: large enough for a few snapshots.
SNAPSHOTS = ["--snapshot-bytes=256KiB"]


def recover(node, expect=0):
    """Runs the command; returns what it said."""
    r = subprocess.run(
        [str(CORVO), "recover", f"--data-dir={node.data}",
         f"--raft-bind=127.0.0.1:{node.raft_port}", *node.flags],
        timeout=60, capture_output=True, text=True)
    print(r.stdout, r.stderr)
    assert "AddressSanitizer" not in r.stderr
    assert r.returncode == expect, (r.returncode, r.stdout, r.stderr)
    return r.stdout if expect == 0 else r.stderr


def refuses(node, *parts):
    """The node does not start, tries it once, and says all parts in one
    sentence."""
    before = len(node.log())
    status, words = node.refuses()
    words = words[before:]
    lines = [x for x in words.splitlines() if "cannot start" in x]
    assert status == 2 and len(lines) == 1, words
    for part in [*parts, "corvo recover", str(node.data)]:
        assert part in lines[0], (part, lines[0])


def fill(client, queue, n, size=10):
    return [client.enqueue(queue, payload={"n": i, "text": "x" * size})
            for i in range(n)]


def has(client, queue, ids):
    """How many of these jobs there are, by id and in the lists."""
    found = [x for x in ids if client.get(f"{API}/jobs/{x}").status == 200]
    wait_until(lambda: client.get(f"{API}/queues").status == 200, 60,
               "the view")
    q = client.queue(queue)
    assert (q["pending"] if q else 0) == len(found)
    return len(found)


def snapshots(node):
    """Those the log was cut for: its last two. The checkpoint, which is told
    in the log, comes before that."""
    return sum(bool(re.fullmatch(r"snapshot-\d+-\d+-\d+", x.name))
               for x in (node.data / "raft").iterdir())


def segments(node):
    """Files of the log, of either kind, those first written first."""
    return sorted(x for x in (node.data / "raft").rglob("*")
                  if re.fullmatch(r"\d+-\d+|open-\d+|log-\d+", x.name))


@pytest.fixture(params=["uv", "segment"])
def store(request):
    """What is damaged is named whichever way the log is kept."""
    return request.param


def wait_for_mark(node, index):
    """Until it is written down that so much was acknowledged."""
    mark = node.data / "raft" / "acked"

    def marked():
        found = re.findall(rb"acked (\d+) ", mark.read_bytes())
        return max(map(int, found), default=0) >= index

    wait_until(marked, 20, "the mark")


def applied_index(client):
    return int(client.get(f"{API}/cluster/status").json["applied_index"])


def crashed(make_node, n=300, store="uv"):
    """A node that was killed right after the last of n answers."""
    node = make_node(f"--raft-store={store}").start()
    with node.client() as c:
        ids = fill(c, "q", n)
    node.kill_all()
    return node, ids


def works(node, queue="after"):
    """It takes jobs and hands them out, at once and after another start."""
    with node.client() as c:
        ids = fill(c, queue, 3)
        assert c.fetch(queue)["job_id"] == ids[0]
    node.stop()
    node.start()
    with node.client() as c:
        assert c.fetch(queue)["job_id"] == ids[1]


# --- the log is lost, or of another moment ----------------------------------


def test_a_lost_log(make_node):
    node = make_node().start()
    with node.client() as c:
        ids = fill(c, "q", 20)
    node.stop()
    shutil.rmtree(node.data / "raft")
    refuses(node, "the store has applied entry", "the log is empty")
    words = recover(node)
    assert "goes on after entry" in words
    node.start()
    with node.client() as c:
        assert has(c, "q", ids) == 20
    works(node)


def test_a_lost_log_of_a_node_that_was_killed_young(make_node):
    """Its store had little time to be written, but knows that it lived."""
    node = make_node().start()
    with node.client() as c:
        fill(c, "q", 1)
    node.kill_all()
    shutil.rmtree(node.data / "raft")
    refuses(node, "the store has applied entry", "the log is empty")


def test_a_log_older_than_the_store(make_node):
    node = make_node().start()
    with node.client() as c:
        ids = fill(c, "q", 10)
    node.stop()
    shutil.copytree(node.data / "raft", node.dir / "old")
    node.start()
    with node.client() as c:
        ids += fill(c, "q", 10)
    node.stop()
    shutil.move(node.data / "raft", node.dir / "good")
    shutil.copytree(node.dir / "old", node.data / "raft")
    refuses(node, "the store has applied entry", "but the log ends with entry")
    # A refused start changes nothing: the right folder still fits.
    shutil.move(node.data / "raft", node.dir / "tried")
    shutil.copytree(node.dir / "good", node.data / "raft")
    node.start()
    with node.client() as c:
        assert has(c, "q", ids) == 20
    node.stop()
    shutil.rmtree(node.data / "raft")
    shutil.copytree(node.dir / "tried", node.data / "raft")
    recover(node)
    assert (node.data / "raft.old-1").is_dir()
    node.start()
    with node.client() as c:
        assert has(c, "q", ids) == 20


def test_a_store_older_than_the_cut_of_the_log(make_node):
    """What the log no longer has is in the checkpoint of its snapshot."""
    node = make_node(*SNAPSHOTS).start()
    with node.client() as c:
        ids = fill(c, "q", 5)
    node.stop()
    shutil.copytree(node.data / "rocks", node.dir / "old")
    node.start()
    with node.client() as c:
        while snapshots(node) < 2:
            ids += fill(c, "q", 5, size=10000)
        ids += fill(c, "q", 3)
    node.stop()
    shutil.rmtree(node.data / "rocks")
    shutil.copytree(node.dir / "old", node.data / "rocks")
    refuses(node, "the store has applied entry", "the log was cut after entry")
    words = recover(node)
    assert "takes the place of" in words and "nothing is lost" in words
    node.start()
    with node.client() as c:
        assert has(c, "q", ids) == len(ids)


def test_a_lost_store_comes_back_from_log_and_checkpoint(make_node):
    node = make_node(*SNAPSHOTS).start()
    with node.client() as c:
        ids = fill(c, "q", 5)
        while snapshots(node) < 1:
            ids += fill(c, "q", 5, size=10000)
        ids += fill(c, "q", 3)
    node.kill_all()
    shutil.rmtree(node.data / "rocks")
    refuses(node, "the store has applied entry 0")
    assert "nothing is lost" in recover(node)
    node.start()
    with node.client() as c:
        assert has(c, "q", ids) == len(ids)


def test_a_log_of_another_node(make_node):
    nodes = [make_node().start() for _ in range(2)]
    for node in nodes:
        with node.client() as c:
            fill(c, "q", 5)
        node.stop()
    shutil.rmtree(nodes[0].data / "raft")
    shutil.copytree(nodes[1].data / "raft", nodes[0].data / "raft")
    refuses(nodes[0], "the store is of history", "the log of history")


# --- the end of the log is damaged ------------------------------------------


def damage(node, text, change):
    """Changes the segment with this text in it: change(bytes, place)."""
    for path in segments(node):
        content = path.read_bytes()
        at = content.find(text)
        if at >= 0:
            path.write_bytes(change(content, at))
            return path.name
    raise AssertionError(f"no {text} in the log")


def flipped(content, at):
    return content[:at] + bytes([content[at] ^ 4]) + content[at + 1:]


def test_a_flipped_bit_in_the_open_segment(make_node, store):
    node = make_node(f"--raft-store={store}").start()
    with node.client() as c:
        ids = fill(c, "q", 300)
        last = applied_index(c)
    if store == "segment":  # nothing is read behind the damage
        wait_for_mark(node, last)
    node.kill_all()
    name = damage(node, ids[100].encode(), flipped)
    if store == "uv":
        assert name.startswith("open-")
        refuses(node, name, "does not match its checksum",
                "it was acknowledged")
    else:
        refuses(node, f"segments/{name} cannot be read at byte",
                "which was flushed")
    words = recover(node)
    assert "applied entries" in words
    lost = re.search(r"lost: entries (\d+) to (\d+), which were ack", words)
    assert lost, words
    node.start()
    with node.client() as c:
        assert has(c, "q", ids) == has(c, "q", ids[:100]) == 100
    works(node)


def test_a_flipped_bit_in_what_was_written_last(make_node, store):
    """Nothing follows it; what was acknowledged is known a second later."""
    node = make_node(f"--raft-store={store}").start()
    with node.client() as c:
        ids = fill(c, "q", 3)
        last = applied_index(c)
    wait_for_mark(node, last)
    node.kill_all()
    damage(node, ids[2].encode(), flipped)
    refuses(node, "were acknowledged")
    recover(node)
    node.start()
    with node.client() as c:
        assert has(c, "q", ids) == 2


def test_a_truncated_open_segment(make_node):
    """The library crashes on it."""
    node, ids = crashed(make_node, 50)
    name = damage(node, ids[20].encode(), lambda content, at: content[:at])
    refuses(node, f"{name} ends after", "in the middle of entry")
    recover(node)
    node.start()
    with node.client() as c:
        assert has(c, "q", ids) == 20


def test_a_truncated_segment_of_our_own(make_node):
    """As far as it was acknowledged, it is missed."""
    node = make_node("--raft-store=segment").start()
    with node.client() as c:
        ids = fill(c, "q", 50)
        last = applied_index(c)
    wait_for_mark(node, last)
    node.kill_all()
    damage(node, ids[20].encode(), lambda content, at: content[:at])
    refuses(node, "were acknowledged")
    recover(node)
    node.start()
    with node.client() as c:
        assert has(c, "q", ids) == 20


def test_an_unfinished_last_write_is_what_a_crash_leaves(make_node, store):
    node, ids = crashed(make_node, 20, store)

    def torn(content, at):
        return content[:at] + bytes(len(content) - at)

    mark = node.data / "raft" / "acked"
    if mark.exists():  # as if the second had not been over
        mark.unlink()
    damage(node, ids[19].encode(), torn)
    node.start()
    assert "was not finished" in node.log()
    with node.client() as c:
        assert has(c, "q", ids) == 19


# --- the two kinds of log ---------------------------------------------------


def test_a_log_becomes_one_of_the_other_kind(make_node):
    """At a start with the other setting, after a kill and after a stop; nobody
    but the log says so."""
    node = make_node()
    ids = []
    for i, store in enumerate(["uv", "segment", "uv", "segment"]):
        before = len(node.log())
        node.start(f"--raft-store={store}")
        words = node.log()[before:]
        assert (f"is kept as --raft-store={store} now" in words) == (i > 0)
        names = {re.sub(r"\d+", "N", x.name) for x in segments(node)}
        assert names <= ({"open-N", "N-N"} if store == "uv" else {"log-N"})
        with node.client() as c:
            assert c.get(f"{API}/cluster/status").json["raft_store"] == store
            assert has(c, "q", ids) == len(ids)
            ids += fill(c, "q", 20)
        if i % 2 == 0:
            node.kill_all()
        else:
            node.stop()


# --- the view ---------------------------------------------------------------


def test_a_view_of_another_history(make_node):
    """It has as many events, and other jobs."""
    nodes = [make_node().start() for _ in range(2)]
    for node, queue in zip(nodes, ["mine", "theirs"]):
        wait_until(node.has_view, 60, "the view")
        with node.client() as c:
            fill(c, queue, 7)
            assert c.queue(queue)["pending"] == 7
        node.stop()
    shutil.rmtree(nodes[0].data / "view")
    shutil.copytree(nodes[1].data / "view", nodes[0].data / "view")
    nodes[0].start()
    with nodes[0].client() as c:
        wait_until(lambda: c.get(f"{API}/queues").status == 200, 60,
                   "the view")
        assert [q["name"] for q in c.get(f"{API}/queues").json] == ["mine"]
        assert c.search(queue="theirs")["total"] == 0
    assert "it is of another history" in nodes[0].log()


def test_the_view_of_this_history_is_kept(make_node):
    node = make_node().start()
    with node.client() as c:
        fill(c, "q", 3)
    for _ in range(2):
        node.stop()
        node.start()
        wait_until(node.has_view, 60, "the view")
        with node.client() as c:
            fill(c, "q", 1)
            assert c.queue("q")["pending"] > 3
    assert "rebuilding the view" not in node.log()


# --- the command ------------------------------------------------------------


def test_recover_leaves_alone_what_fits(make_node):
    node = make_node().start()
    with node.client() as c:
        ids = fill(c, "q", 3)
    words = recover(node, expect=2)
    assert "stop the node first" in words
    node.stop()
    before = sorted(x.name for x in (node.data / "raft").iterdir())
    assert "nothing to recover" in recover(node)
    assert before == sorted(x.name for x in (node.data / "raft").iterdir())
    node.start()
    with node.client() as c:
        assert has(c, "q", ids) == 3
    assert "rebuilding the view" not in node.log()


def test_recover_without_data(make_node):
    node = make_node()
    assert "there is no data directory" in recover(node, expect=2)
    assert not node.data.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")
def test_recover_as_another_user(make_node):
    node = make_node()
    node.data.mkdir()
    os.chown(node.data, 65534, 65534)
    assert "run this as that user" in recover(node, expect=2)
    assert list(node.data.iterdir()) == []
