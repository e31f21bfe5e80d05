"""What a node says of itself."""

import json
import re
import time

from node import API, HARMLESS, SOURCE, seconds_of, wait_until

SAMPLE = re.compile(
    r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(?:[a-zA-Z_][a-zA-Z0-9_]*='
    r'"(?:[^"\\\n]|\\["\\n])*",?)*\})? ([-+]?(?:[0-9.eE+-]+|Inf|NaN))$')
HEAD = re.compile(r"^# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)$")


def routes():
    """(method, path) of every row of routes.def."""
    text = (SOURCE / "common/proto/defs/routes.def").read_text()
    # of another build, see test_feature_level.py
    text = re.sub(r"^#ifdef CORVO_EXTRA_OP$.*?^#endif$", "", text,
                  flags=re.S | re.M)
    return re.findall(r'^ROUTE\((\w+),\s*"([^"]+)"', text, re.M)


def metrics_def():
    text = (SOURCE / "common/proto/defs/metrics.def").read_text()
    return re.findall(r'^METRIC\(\s*\d+, \w+,\s*"(\w+)",\s*(\w+),', text, re.M)


def test_healthz(client):
    a = client.get("/healthz")
    assert a.status == 200 and a.json["status"] == "ok"


def test_readyz(client):
    a = client.get("/readyz")
    assert a.status == 200


def test_info(client):
    a = client.get(f"{API}/info")
    assert a.status == 200
    assert re.match(r"^\d+\.\d+\.\d+", a.json["server_version"])
    assert a.json["api_version"]


def status(client):
    a = client.get(f"{API}/cluster/status")
    assert a.status == 200, a
    return a.json


def test_cluster_status(node, client):
    s = status(client)
    assert s["node_id"] == "node-1"
    assert s["state"] == ("Leader" if node.leader() is node else "Follower")


def test_cluster_status_tells_times(node, queue):
    """Members of the catalogue: the leader counts what it does meanwhile."""
    with node.leader().client() as client:
        before = status(client)
        for _ in range(5):
            client.enqueue(queue)
        now = status(client)
    for name in "queue_time_hist", "apply_time_hist":
        h = now[name]
        assert h["count"] >= before[name]["count"] + 5
        assert 0 < h["p50"] <= h["p90"] <= h["p99"] and h["avg"] > 0
        counts = [b["count"] for b in h["buckets"]]
        assert counts == sorted(counts) and counts[-1] <= h["count"]


def test_cluster_status_tells_of_the_view(client, queue):
    before = status(client)["sqlite_mirror"]["queued"]
    for _ in range(5):
        job = client.enqueue(queue)
    assert client.state(job) == "pending"  # this node has it
    assert status(client)["sqlite_mirror"]["queued"] >= before + 5
    wait_until(lambda: status(client)["sqlite_mirror"]["lag"] == 0, 30,
               "the view")
    m = status(client)["sqlite_mirror"]
    assert m["applied"] == m["queued"] and m["dropped"] == 0
    assert m["async"] and m["queue_capacity"] > 0


def began(s):
    return seconds_of(s["sqlite_rebuild"].get("last_started_at",
                                              "1970-01-01T00:00:00Z"))


def test_cluster_status_tells_of_rebuilds(make_node):
    node = make_node().start()
    with node.client() as c:
        wait_until(node.has_view, 60, "a view")
        c.enqueue("q")
        before = time.time()
        a = c.post(f"{API}/admin/rebuild-sqlite")
        assert a.status == 200, a
        wait_until(lambda: began(status(c)) >= before, 30,
                   "what raftd hears of it")
        told = status(c)["sqlite_rebuild"]
        assert told["ran"] is True and told["last_success"] is True, told
        assert "last_error" not in told
        assert 0 <= told["last_duration_ms"] <= a.json["duration_ms"] + 1
        assert seconds_of(told["last_started_at"]) <= time.time()

        # one that fails: something stands where the new file is to be
        (node.data / "view" / "corvo.db.new").mkdir()
        (node.data / "view" / "corvo.db.new" / "file").touch()
        a = c.post(f"{API}/admin/rebuild-sqlite")
        assert a.status == 500, a
        wait_until(lambda: not status(c)["sqlite_rebuild"]["last_success"],
                   30, "what raftd hears of it")
        told = status(c)["sqlite_rebuild"]
        assert told["ran"] is True, told
        assert told["last_error"] == a.json["error"]
        assert c.queue("q")["pending"] == 1  # the old one serves


def test_cluster_status_tells_of_the_snapshot(make_node):
    node = make_node("--snapshot-bytes=64KiB").start()
    with node.client() as c:
        for _ in range(4):
            c.enqueue("q", payload="x" * 60000)
        wait_until(lambda: status(c)["snapshot"]["count"], 60, "a snapshot")
        # writes may take another one in between
        wait_until(lambda: size_is_true(node, status(c)["snapshot"]), 30,
                   "its size")
        told = status(c)["snapshot"]
        assert told["latest_term"] == status(c)["term"] > 0
        assert told["latest_id"] == str(told["latest_index"])
    node.stop()
    node.start()
    with node.client() as c:
        after = status(c)
        assert size_is_true(node, after["snapshot"])
        assert 0 < after["snapshot"]["latest_term"] <= after["term"]


def size_is_true(node, told):
    folder = node.data / "checkpoints" / f"snapshot-{told['latest_index']}"
    return told["latest_size"] == sum(f.stat().st_size
                                      for f in folder.iterdir()) > 0


def test_headers(client, queue):
    a = client.post(f"{API}/enqueue", {"queue": queue})
    assert a.headers["Content-Type"] == "application/json"
    assert re.match(r"^proc;dur=\d+\.\d{3}$", a.headers["Server-Timing"])
    assert a.body.endswith(b"}\n")


def parse(text):
    """{family: (type, [sample names])}; every line must be right."""
    families, helped = {}, set()
    for line in text.splitlines():
        if head := HEAD.match(line):
            word, name, rest = head.groups()
            if word == "HELP":
                assert name not in helped, f"{name} is explained twice"
                helped.add(name)
            else:
                assert rest in ("counter", "gauge", "histogram",
                                "untyped"), line
                assert name not in families, f"{name} is declared twice"
                families[name] = (rest, [])
            continue
        sample = SAMPLE.match(line)
        assert sample, f"no Prometheus text: {line!r}"
        name = sample[1]
        base = re.sub(r"_(bucket|sum|count)$", "", name)
        family = name if name in families else base
        assert family in families, f"{name} comes before its TYPE"
        families[family][1].append((name, sample[2] or "", float(sample[3])))
    assert helped == set(families)
    return families


def test_metrics(client, queue):
    client.enqueue(queue + '"\\')
    client.ack(client.fetch(queue + '"\\'))
    client.get("/nowhere")
    a = client.get(f"{API}/metrics")
    assert a.status == 200
    assert a.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    families = parse(a.body.decode())
    for name, kind in metrics_def():
        assert name in families, f"{name} is missing"
        assert families[name][0] == kind.lower(), name
    for name, (kind, samples) in families.items():
        keys = [(s[0], s[1]) for s in samples]
        assert len(set(keys)) == len(keys), f"{name} has a series twice"
        if kind == "counter":
            assert all(s[2] >= 0 for s in samples), name


def test_histograms(client, queue):
    client.enqueue(queue)
    families = parse(client.get(f"{API}/metrics").body.decode())
    seen = {}
    for name, (kind, samples) in families.items():
        if kind != "histogram":
            continue
        series = {}
        for sample, labels, value in samples:
            le = re.search(r'le="([^"]+)"', labels)
            rest = re.sub(r',?le="[^"]+"', "", labels).replace("{,", "{")
            rest = "" if rest == "{}" else rest
            series.setdefault(rest, {"buckets": []})
            if sample.endswith("_bucket"):
                series[rest]["buckets"].append((float(le[1]), value))
            else:
                series[rest][sample[len(name):]] = value
        for labels, s in series.items():
            bounds = [b for b, _ in s["buckets"]]
            counts = [n for _, n in s["buckets"]]
            assert bounds == sorted(bounds) and bounds[-1] == float("inf")
            assert counts == sorted(counts), (name, labels)
            assert s["_count"] == counts[-1] and s["_sum"] >= 0
            seen[name] = seen.get(name, 0) + s["_count"]
    assert set(seen) == {name for name, kind in metrics_def()
                         if kind == "HISTOGRAM"}
    assert seen["corvo_http_request_duration_seconds"] > 0


def test_metrics_count(node, client, queue):
    before = client.metrics()
    entries = client.total("corvo_raft_entries_total")
    for _ in range(3):
        client.enqueue(queue)
    done = client.fetch(queue)
    client.ack(done)
    assert client.state(done["job_id"]) == "completed"  # this node has it
    after = client.metrics()

    def grew(name):
        return after[name] - before[name]

    assert grew("corvo_throughput_enqueued_total") == 3
    assert grew("corvo_throughput_completed_total") == 1
    assert client.total("corvo_raft_entries_total") > entries
    assert after["corvo_cluster_is_leader"] == (node.leader() is node)
    row = f'corvo_queue_jobs{{queue="{queue}",state="pending"}}'
    assert after[row] == 2


def test_openapi(client):
    a = client.get("/openapi.json")
    assert a.status == 200
    doc = json.loads(a.body)
    assert doc["openapi"].startswith("3.")
    assert doc["info"]["title"] and doc["info"]["version"]
    listed = {(m.upper(), path) for path, methods in doc["paths"].items()
              for m in methods if m != "parameters"}
    for method, path in routes():
        assert (method, path) in listed, f"{method} {path} is missing"
    text = json.dumps(doc)
    for ref in set(re.findall(r'"\$ref": "#/([^"]+)"', text)):
        at = doc
        for step in ref.split("/"):
            assert step in at, f"#/{ref} leads nowhere"
            at = at[step]


def test_every_route_is_served(client):
    """No row of the table is without its handler."""
    assert len(routes()) > 50
    for method, path in routes():
        path = re.sub(r"\{[^}]+\}", "x", path)
        if path == f"{API}/events":
            path += "?types=none"  # refused: the answer would have no end
        body = HARMLESS.get(path, {}) if method == "POST" else None
        a = client.request(method, path, body)
        assert a.status != 405 and a.status < 500, (method, path, a)
        if a.status == 404:
            assert a.code == "NOT_FOUND" and "path" not in a.json["error"]
