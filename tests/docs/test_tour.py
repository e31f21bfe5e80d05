"""The README's tour, line by line, against a fresh node."""

import contextlib
import os
import re
import signal
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

from node import free_port
from waiting import patience

ROOT = Path(os.environ["CORVO_SOURCE_DIR"])
BUILD = Path(os.environ["CORVO_BUILD_DIR"])


def tour():
    """The lines of the shell blocks under the tour's heading."""
    text = (ROOT / "README.md").read_text()
    section = re.search(r"^## A five-minute tour$(.*?)^## ", text,
                        re.S | re.M).group(1)
    blocks = re.findall(r"^```sh\n(.*?)^```$", section, re.S | re.M)
    return [line for b in blocks for line in b.splitlines() if line]


def wait_ready(url, node):
    deadline = time.monotonic() + patience(60)
    while time.monotonic() < deadline:
        assert node.poll() is None, "the node ended"
        with contextlib.suppress(OSError):
            with urllib.request.urlopen(url + "/readyz", timeout=5) as r:
                if r.status == 200:
                    return
        time.sleep(0.05)
    raise AssertionError("the node did not become ready")


@pytest.fixture
def place(tmp_path):
    """What `make run` leaves: a build, a node, its data beside it."""
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "release").symlink_to(BUILD)
    port = free_port()
    env = {k: v for k, v in os.environ.items()
           if not k.startswith("CORVO_")}
    with open(tmp_path / "log", "w") as log:
        node = subprocess.Popen(
            ["build/release/cli/corvo", "server", "--data-dir", "./data",
             "--bind", "127.0.0.1:%d" % port], cwd=tmp_path, env=env,
            stderr=log)
        try:
            wait_ready("http://127.0.0.1:%d" % port, node)
            yield tmp_path, port, env
            node.send_signal(signal.SIGTERM)
            assert node.wait(60) == 0, (tmp_path / "log").read_text()
        finally:
            if node.poll() is None:
                node.kill()
                node.wait()
            print((tmp_path / "log").read_text())


def test_tour(place):
    cwd, port, env = place
    script = ["set -o pipefail",
              'curl() { command curl --fail-with-body "$@"; }']
    for n, line in enumerate(tour()):
        script += ["echo '### %d'" % n, line,
                   "s=$?; [ $s -eq 0 ] || { echo status $s; exit 1; }"]
    env["CORVO_URL"] = "http://127.0.0.1:%d" % port
    p = subprocess.run(
        ["bash"], input="\n".join(script).replace(":8080", ":%d" % port),
        cwd=cwd, env=env, capture_output=True, text=True, timeout=patience(120))
    assert p.returncode == 0, "\n".join([*tour(), p.stdout, p.stderr])
    out = dict(re.findall(r"### (\d+)\n(.*?)(?=### |\Z)", p.stdout, re.S))

    def of(words):
        n = [i for i, line in enumerate(tour()) if words in line]
        assert n, "the tour has no line with " + words
        return [out[str(i)] for i in n]

    done, retried = of("corvo inspect")
    assert '"state": "completed"' in done and "grace@" in done
    assert '"attempt": 2' in retried and "out of memory" in retried
    assert "status 204" in of("status %{http_code}")[0]
    assert "Status: healthy" in of("corvo status")[0]
    assert "emails" in of("corvo search --text")[0]
    assert "LAST FAILURES" in of("corvo top --once")[0]
    before, after = (next(r.split() for r in text.splitlines()
                          if r.startswith("raftd"))
                     for text in of("corvo ps") if "supervisor" in text)
    assert before[1] != after[1] and (before[3], after[3]) == ("0", "1")
    # Nothing that was acknowledged before the kill is gone.
    rows = {r.split()[0]: [int(n) for n in r.split()[1:-1]]
            for r in of("corvo queues")[-1].splitlines()[1:]}
    # pending, active, scheduled, retrying, held, completed, dead, cancelled
    assert rows == {"emails": [2, 1, 0, 0, 0, 1, 0, 0],
                    "reports": [0, 0, 0, 0, 0, 1, 0, 0],
                    "thumbnails": [0, 0, 0, 0, 0, 1, 0, 0]}
