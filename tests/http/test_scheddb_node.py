"""`corvo scheduled-db`: a node that takes the flags and the environment of
Scheduled-DB, and looks like it."""

import subprocess

import pytest

from node import API, CORVO, Client, Node, free_port
from scheddb import create, health, once

TOKEN = "a token of some bytes"


class Lookalike(Node):
    """Started by its flags and environment, not by ours."""

    def __init__(self, *flags, **env):
        super().__init__(*flags)
        self.numbers = free_port()
        self.env = {"HTTP_PORT": str(self.port), "DATA_DIR": str(self.data),
                    "RAFT_PORT": str(self.raft_port),
                    "METRICS_PORT": str(self.numbers), **env}

    def command(self, *flags):
        return [str(self.corvo), "scheduled-db", *self.flags, *flags]


@pytest.fixture
def lookalike():
    made = []

    def make(*flags, **env):
        made.append(Lookalike(*flags, **env))
        return made[-1]

    yield make
    for n in made:
        n.clean_up()


def test_its_environment_and_flags_become_settings(lookalike):
    node = lookalike("-queue-job-limit=7", "--max-attempts", "5",
                     "--execution-timeout=90s", "--slot-gap=10s",
                     NODE_ID="sdb-1", QUEUE_MEMORY_LIMIT="2MB",
                     QUEUE_JOB_LIMIT="9", LOG_LEVEL="INFO",
                     HEALTH_FAILURE_THRESHOLD="0.25",
                     JOB_INPROGRESS_TIMEOUT="7s", AUTH_TOKEN=TOKEN,
                     EXECUTION_HISTORY_RETENTION="48h", TZ="Europe/Berlin")
    node.start()
    with node.client() as c:
        h = health(c)
        assert h["node_id"] == "sdb-1" and h["jobs"]["limit"] == 7
        assert h["memory"]["limit_bytes"] == 2 << 20
        once(c, after=3600)
        s = c.get(f"{API}/queues/scheduled-db").json["settings"]
        assert s["max_retries"] == 5 and s["push"]["timeout"] == "1m30s"
        assert s["lease_duration"] == "7s" and s["retention"] == "48h"
        create(c, id="r", type="recurrente", cron_expression="0 3 * * *")
        assert c.get(f"{API}/schedules/r").json["timezone"] == "Europe/Berlin"
        a = c.post("/join", {"node_id": "x", "address": "127.0.0.1:1"})
        assert a.status == 401, a
    with Client(node.numbers) as m:
        assert b"\nscheduled_db_queue_job_limit 7\n" in m.get(
            "/metrics").body
    assert "slot-gap (SLOT_GAP) means nothing here" in node.log()
    assert TOKEN not in node.log()
    token = node.data / "scheddb-auth-token"
    assert token.read_text() == TOKEN and token.stat().st_mode & 0o77 == 0


@pytest.mark.parametrize("flag,words", [
    ("--discovery-strategy=pigeons", "unknown discovery strategy: pigeons"),
    ("--health-failure-threshold=7",
     "health-failure-threshold: must be a number from 0 to 1"),
    ("--auth-token=short", "must have at least 16 bytes"),
    ("--queue-memory-limit=lots", '--scheddb-memory-limit: "lots" cannot be'),
    ("--http-host=0.0.0.0", "can be reached from other machines"),
])
def test_what_cannot_be_is_refused(flag, words, tmp_path):
    port = free_port()
    done = subprocess.run(
        [CORVO, "scheduled-db", flag, f"--data-dir={tmp_path}/data",
         f"--http-port={port}", "--metrics-port=0"], timeout=60,
        stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode not in (0, None)
    assert words in done.stderr, done.stderr
