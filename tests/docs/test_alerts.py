"""The alert rules: which numbers make them fire, and which do not.

promtool plays series of one sample a minute to the rules.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(os.environ["CORVO_SOURCE_DIR"])
RULES = ROOT / "docs/monitoring/alerts.yaml"
UP = 'up{job="corvo",instance="a"}'
LEADER = 'corvo_cluster_is_leader{instance="%s"}'
NODE = 'corvo_cluster_is_leader{job="corvo",instance="%s"}'
UPTIME = 'corvo_process_uptime_seconds{instance="a",process="viewd"}'
DEAD = 'corvo_queue_jobs{instance="%s",queue="q",state="dead"}'
PENDING = 'corvo_jobs{instance="a",state="pending"}'
WORKERS = 'corvo_workers_active{instance="a"}'
PARKED = 'corvo_parked_fetches{instance="a"}'


def fires(tmp_path, alert, series, labels=None):
    """Is the alert firing after half an hour of the series?"""
    assert shutil.which("promtool"), "promtool is missing: tools/deps test"
    rules = yaml.safe_load(RULES.read_text())
    rule = next(r for g in rules["groups"] for r in g["rules"]
                if r["alert"] == alert)
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(
        {"groups": [{"name": "x", "rules": [
            {**rule, "annotations": {}}]}]}))
    want = [{"exp_labels": {"severity": rule["labels"]["severity"],
                            **(labels or {})}}]

    def agrees(expected):
        (tmp_path / "test.yaml").write_text(yaml.safe_dump({
            "rule_files": ["rules.yaml"], "evaluation_interval": "1m",
            "tests": [{"interval": "1m", "input_series": [
                {"series": k, "values": v} for k, v in series.items()],
                "alert_rule_test": [{"eval_time": "30m", "alertname": alert,
                                     "exp_alerts": expected}]}]}))
        return subprocess.run(
            ["promtool", "test", "rules", tmp_path / "test.yaml"],
            capture_output=True, text=True, check=False)

    if agrees(want).returncode == 0:
        return True
    quiet = agrees([])
    assert quiet.returncode == 0, quiet.stdout + quiet.stderr
    return False


def all_rules():
    return [r for g in yaml.safe_load(RULES.read_text())["groups"]
            for r in g["rules"]]


def test_each_alert_has_its_section_in_the_runbook():
    text = (ROOT / "docs/runbook.md").read_text()
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", text,
                               re.M | re.S))
    assert list(sections) == [r["alert"] for r in all_rules()]
    for name, section in sections.items():
        for part in ("**Means:** ", "**Look at:**\n\n- ", "**Do:**\n\n- "):
            assert part in section, (name, part)


def test_each_metric_of_an_alert_exists():
    table = (ROOT / "common/proto/defs/metrics.def").read_text()
    known = set(re.findall(r'^METRIC\(.*?"(corvo_\w+)"', table, re.M))
    known |= {f"{name}_bucket" for name in known}
    for rule in all_rules():
        used = set(re.findall(r"\bcorvo_\w+", rule["expr"]))
        assert used <= known, (rule["alert"], used - known)


UP_NODE = 'corvo_cluster_node_up{job="corvo",instance="%s",node="n3"}'


@pytest.mark.parametrize("leader,follower,expected", [
    ("1x40", "1x40", False),
    ("0x40", "1x40", True),   # which does not know better
    ("1x40", "0x40", False),  # it is cut off itself
    ("1x29 0 1x10", "1x40", False),
])
def test_a_lost_node(tmp_path, leader, follower, expected):
    series = {UP_NODE % "a": leader, UP_NODE % "b": follower,
              NODE % "a": "1x40", NODE % "b": "0x40"}
    assert fires(tmp_path, "CorvoNodeLost", series, {
        "job": "corvo", "instance": "a", "node": "n3"}) is expected


@pytest.mark.parametrize("alert,name,good,bad", [
    ("CorvoNoContact", "cluster_last_contact_seconds", "0.5x40", "60x40"),
    ("CorvoNodeLags", "cluster_lag_seconds", "1x40", "30x40"),
    ("CorvoClockOff", "cluster_clock_offset_seconds", "-0.3x40", "-0.7x40"),
    ("CorvoSnapshotFails", "snapshot_fetch_failures_total", "0x40", "0+1x40"),
    ("CorvoOperationsUndone", "ops_undone_total", "3x40", "0+1x40"),
    ("CorvoOperationsUndone", "state_reloads_total", "3x40", "0+1x40"),
])
def test_alerts_about_one_node(tmp_path, alert, name, good, bad):
    for values, expected in ((good, False), (bad, True)):
        series = {'corvo_%s{instance="a"}' % name: values,
                  'corvo_raft_snapshot_failures_total{instance="a"}': "0x40"}
        assert fires(tmp_path, alert, series, {"instance": "a"}) is expected


@pytest.mark.parametrize("other,expected", [("1x40", False), ("0x40", True)])
def test_entries_are_skipped_on_all_nodes_or_none(tmp_path, other, expected):
    skipped = 'corvo_entries_skipped{job="corvo",instance="%s"}'
    assert fires(tmp_path, "CorvoEntriesSkipped", {
        skipped % "a": "1x40", skipped % "b": other},
        {"job": "corvo"}) is expected


@pytest.mark.parametrize("series,expected", [
    ({LEADER % "a": "1x40"}, False),
    ({LEADER % "a": "0x40", LEADER % "b": "1x40"}, False),
    ({LEADER % "a": "0x40", LEADER % "b": "0x40"}, True),
    # The process that would tell is away.
    ({}, True),
])
def test_no_leader(tmp_path, series, expected):
    assert fires(tmp_path, "CorvoNoLeader",
                 {UP: "1x40", **series}) is expected


def test_no_leader_is_silent_where_nothing_is_scraped(tmp_path):
    assert not fires(tmp_path, "CorvoNoLeader", {"other": "1x40"})


DIFFERS = 'corvo_cluster_node_differs{job="corvo",instance="%s",node="n3"}'


@pytest.mark.parametrize("a,b,expected", [
    ("0x40", "0x40", False),
    ("1x40", "1x40", True),
    ("0x40", "1x40", True),  # the other has not heard of it yet
])
def test_stores_that_differ(tmp_path, a, b, expected):
    assert fires(tmp_path, "CorvoStoresDiffer",
                 {DIFFERS % "a": a, DIFFERS % "b": b},
                 {"job": "corvo", "node": "n3"}) is expected


INDEX = 'corvo_raft_applied_index{job="%s",instance="%s"}'


@pytest.mark.parametrize("a,b,expected", [
    ("1x40", "0x40", False),
    ("1x40", "1x40", True),
    # One that has not yet heard of the other.
    ("1x29 1 0x9", "0x29 1x10", False),
])
def test_two_leaders(tmp_path, a, b, expected):
    # A server by itself, which is another job.
    other = {'corvo_cluster_is_leader{job="x",instance="c"}': "1x40"}
    assert fires(tmp_path, "CorvoTwoLeaders",
                 {NODE % "a": a, NODE % "b": b, **other},
                 {"job": "corvo"}) is expected


@pytest.mark.parametrize("a,b,expected", [
    ("1x40", "0x40", False),
    # A rolling restart hands over twice or three times.
    ("0x20 1x5 0x15", "1x20 0x5 1x15", False),
    ("0 1 " * 20, "1 0 " * 20, True),
])
def test_leader_changes(tmp_path, a, b, expected):
    assert fires(tmp_path, "CorvoLeaderChanges",
                 {NODE % "a": a.strip(), NODE % "b": b.strip()},
                 {"job": "corvo"}) is expected


@pytest.mark.parametrize("b,expected", [
    ("0+60000x40", False),
    ("0+59900x40", False),        # 3,000 behind
    ("0+60000x10 600000x30", True),  # stands still
])
def test_a_node_behind(tmp_path, b, expected):
    # Another cluster is further; that is nobody's lag.
    series = {INDEX % ("corvo", "a"): "0+60000x40",
              INDEX % ("corvo", "b"): b,
              INDEX % ("x", "c"): "9000000+60000x40"}
    assert fires(tmp_path, "CorvoNodeBehind", series,
                 {"job": "corvo", "instance": "b"}) is expected


@pytest.mark.parametrize("values,expected", [
    ("0+60x40", False),                              # never
    (" ".join(["0+60x20", "5+60x20"]), True),        # once
    (" ".join(["10+60x3"] * 10), True),              # again and again
])
def test_restarts(tmp_path, values, expected):
    assert fires(tmp_path, "CorvoProcessRestarts", {UPTIME: values},
                 {"instance": "a", "process": "viewd"}) is expected


def test_deaths_are_counted_once_in_a_cluster(tmp_path):
    one = {DEAD % n: "0+0.5x40" for n in "abc"}  # 7.5 in 15 minutes
    assert not fires(tmp_path, "CorvoJobsDie", one, {"queue": "q"})
    many = {DEAD % n: "0+1x40" for n in "abc"}
    assert fires(tmp_path, "CorvoJobsDie", many, {"queue": "q"})


@pytest.mark.parametrize("pending,workers,parked,expected", [
    (5, 0, 0, True),
    (0, 0, 0, False),
    (5, 1, 0, False),
    # Idle workers of other queues are workers too.
    (5, 0, 2, False),
])
def test_no_workers(tmp_path, pending, workers, parked, expected):
    series = {PENDING: f"{pending}x40", WORKERS: f"{workers}x40",
              PARKED: f"{parked}x40"}
    assert fires(tmp_path, "CorvoNoWorkers", series,
                 {"instance": "a"}) is expected
