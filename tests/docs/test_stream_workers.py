"""The workers of docs/features/streams.md, run as they stand there."""

import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from node import running, wait_until  # noqa: E402
from remote import go_client, protoc  # noqa: E402

ROOT = Path(os.environ["CORVO_SOURCE_DIR"])
PAGE = ROOT / "docs/features/streams.md"


def block(language):
    text, = re.findall(r"^```%s\n(.*?)^```$" % language, PAGE.read_text(),
                       re.S | re.M)
    return text


@pytest.fixture(scope="module")
def node():
    with running() as n:
        yield n


@contextlib.contextmanager
def worker(command, node, directory):
    log = directory / "log"
    with open(log, "w") as out:
        p = subprocess.Popen([*command, f"127.0.0.1:{node.port}"],
                             cwd=directory, stdout=out, stderr=out)
        try:
            yield log
        finally:
            p.kill()
            p.wait()


def does_jobs(node, queue, log):
    """It takes those that wait and those that come, one after the other."""
    with node.client() as c:
        for i in range(3):
            job = c.enqueue(queue, payload={"n": i})
            wait_until(lambda: c.state(job) == "completed", 20,
                       f"job {i}; the worker says: {log.read_text()}")
    assert 'did {"n": 2}' in log.read_text()


def test_the_worker_in_python(node, tmp_path):
    protoc(f"--python_out={tmp_path}")
    (tmp_path / "worker.py").write_text(block("python"))
    with worker([sys.executable, "worker.py"], node, tmp_path) as log:
        does_jobs(node, "thumbs", log)


def test_the_worker_in_go(node, tmp_path):
    built = go_client(tmp_path, block("go"))
    with worker([built], node, tmp_path) as log:
        does_jobs(node, "covers", log)
