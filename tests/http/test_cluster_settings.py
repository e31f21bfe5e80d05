"""Settings that all nodes share: seeded by flags, changed by API and command,
kept over restarts."""

import json
import subprocess

import pytest

from node import API, CORVO, wait_until

PATH = f"{API}/settings"
DEFAULTS = {"lease_duration": "1m", "lease_duration_ms": 60000,
            "retention": "168h", "retention_ms": 168 * 3600 * 1000,
            "event_retention": 5000000, "queue_idle": "1h",
            "queue_idle_ms": 3600 * 1000, "max_queues": 100000}


def patch(c, **members):
    a = c.request("PATCH", PATH, members)
    assert a.status == 200, a
    return a.json


def shown(c):
    a = c.get(PATH)
    assert a.status == 200, a
    return a.json


def lines_of(node, name):
    return [line for line in node.log().splitlines()
            if f" {name} is " in line and "only seeds a new cluster" in line]


def test_a_new_node_has_what_its_flags_say(make_node):
    node = make_node("--lease-duration=7s", "--max-queues=9").start()
    with node.client() as c:
        assert shown(c) == DEFAULTS | {
            "lease_duration": "7s", "lease_duration_ms": 7000, "max_queues": 9}
        events = c.get(f"{API}/cluster/events").json["events"]
        assert not [e for e in events if e["type"] == "settings_changed"]


def test_a_change_holds_at_once_and_over_restarts(make_node, queue):
    node = make_node("--lease-duration=7s").start()
    with node.client() as c:
        now = patch(c, lease_duration=11, event_retention=1234)
        assert now == DEFAULTS | {"lease_duration": "11s",
                                  "lease_duration_ms": 11000,
                                  "event_retention": 1234}
        c.enqueue(queue)
        assert c.fetch(queue)["lease_duration"] == 11
        events = c.get(f"{API}/cluster/events").json["events"]
        told = [e["data"] for e in events if e["type"] == "settings_changed"]
        assert told == [{"lease_duration": {"from": "7s", "to": "11s"},
                         "event_retention": {"from": 5000000, "to": 1234}}]
    node.stop()
    assert not lines_of(node, "lease_duration")
    node.start()  # with the same flag: nobody has touched it
    with node.client() as c:
        assert shown(c) == now
    said = lines_of(node, "lease_duration")
    assert len(said) == 1 and said[0].endswith(
        "lease_duration is 11s in the cluster; the flag says 7s, which only "
        "seeds a new cluster; use corvo settings")
    assert not lines_of(node, "retention")


def test_another_flag_on_a_node_that_is_alone_is_taken_over(make_node):
    node = make_node().start("--retention=1h", "--queue-idle=2h")
    with node.client() as c:
        patch(c, queue_idle="3h")
    node.stop()
    node.start("--retention=2h", "--queue-idle=2h")
    with node.client() as c:
        now = shown(c)
        assert (now["retention"], now["queue_idle"]) == ("2h", "3h")
    node.stop()
    node.start()  # no flag says nothing
    with node.client() as c:
        now = shown(c)
        assert (now["retention"], now["queue_idle"]) == ("2h", "3h")
        events = c.get(f"{API}/cluster/events").json["events"]
        told = [e["data"] for e in events if e["type"] == "settings_changed"]
        assert told[-1] == {"retention": {"from": "1h", "to": "2h"}}


def test_a_reload_says_what_it_does_not_change(make_node, tmp_path):
    conf = tmp_path / "corvo.conf"
    conf.write_text("retention = 1h\n")
    node = make_node(f"--config={conf}").start()
    with node.client() as c:
        patch(c, retention="5h")
        assert node.ask("reload")["ok"] is True
        wait_until(lambda: lines_of(node, "retention"), what="the line")
        assert "the file says 1h" in lines_of(node, "retention")[0]
        assert shown(c)["retention"] == "5h"


@pytest.mark.parametrize("body,words", [
    ({}, "name what to change"),
    ({"retention": None}, "retention: must have a value"),
    ({"retention": "soon"}, "retention"),
    ({"retention": -1}, "retention"),
    ({"lease_duration": 0}, "lease_duration: must be from 0.001 to 86400"),
    ({"lease_duration": "25h"}, "lease_duration: must be from 0.001"),
    ({"event_retention": 0}, "event_retention: must be from 1 to"),
    ({"event_retention": 10 ** 13}, "event_retention"),
    ({"max_queues": "many"}, "max_queues"),
    ({"lease_duration": "30s", "event_retention": 0}, "event_retention"),
])
def test_bad_values_are_refused_and_change_nothing(client, body, words):
    before = shown(client)
    a = client.request("PATCH", PATH, body)
    assert (a.status, a.code) == (400, "VALIDATION_ERROR"), a
    assert words in a.json["error"]
    assert shown(client) == before


def corvo(node, *args):
    return subprocess.run(
        [CORVO, *args, f"--server=http://127.0.0.1:{node.port}"],
        capture_output=True, text=True, check=False)


def test_the_command_shows_and_changes_them(make_node):
    node = make_node().start()
    r = corvo(node, "settings", "set", "retention=24h", "max_queues=5")
    assert r.returncode == 0, r.stderr
    rows = dict(line.split() for line in r.stdout.splitlines()[1:])
    assert rows == {"lease_duration": "1m", "retention": "24h",
                    "event_retention": "5000000", "queue_idle": "1h",
                    "max_queues": "5"}
    r = corvo(node, "settings", "--output=json")
    assert json.loads(r.stdout)["retention_ms"] == 24 * 3600 * 1000
    r = corvo(node, "settings", "set", "retenton=24h")
    assert r.returncode == 2 and "retenton" in r.stderr
    r = corvo(node, "settings", "set")
    assert r.returncode == 2 and "at least one" in r.stderr


def test_the_list_of_flags_marks_those_that_seed(make_node):
    node = make_node("--retention=1h").start()
    r = subprocess.run([CORVO, "config", "list", f"--data-dir={node.data}"],
                       capture_output=True, text=True, check=True)
    lines = [line.split(maxsplit=2) for line in r.stdout.splitlines()[1:]]
    seeds = {name: source.strip() for name, _, source
             in (line for line in lines if len(line) == 3)
             if source.strip().endswith(", seeds")}
    assert seeds == {"lease_duration": "default, seeds",
                     "retention": "flag, seeds",
                     "event_retention": "default, seeds",
                     "queue_idle": "default, seeds",
                     "max_queues": "default, seeds"}
