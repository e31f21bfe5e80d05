"""The commands of docs/cluster.md, in order, on one machine."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from node import API, CORVO, Client, free_port  # noqa: E402
from waiting import patience, wait_until  # noqa: E402

ROOT = Path(os.environ["CORVO_SOURCE_DIR"])
PORTS = re.compile(r"127\.0\.0\.1:(8\d{3}|9\d{3})")


class Page:
    """The shell of a reader, and the nodes started from it."""

    def __init__(self, folder):
        self.folder = folder
        self.ports = {}
        self.nodes = []  # (process, port of its API)
        (folder / "bin").mkdir()
        (folder / "bin" / "corvo").symlink_to(CORVO)
        self.env = {k: v for k, v in os.environ.items()
                    if not k.startswith("CORVO_")}
        self.env["PATH"] = f"{folder / 'bin'}:{self.env['PATH']}"

    def here(self, line):
        """With ports that are free."""
        def other(m):
            if m[1] not in self.ports:
                self.ports[m[1]] = free_port()
            return f"127.0.0.1:{self.ports[m[1]]}"
        return PORTS.sub(other, line)

    def start(self, line):
        words = shlex.split(line.rstrip("& "))
        with open(self.folder / "log", "a") as log:
            p = subprocess.Popen(words, cwd=self.folder, env=self.env,
                                 stdin=subprocess.DEVNULL, stdout=log,
                                 stderr=log)
        port = next(w for w in words if w.startswith("--bind"))
        self.nodes.append((p, int(port.rsplit(":", 1)[1])))

    def run(self, block):
        for line in map(self.here, block.splitlines()):
            if line.startswith("corvo server"):
                self.start(line)
                continue
            p = subprocess.run(["bash", "-ec", line], cwd=self.folder,
                               env=self.env, capture_output=True, text=True,
                               check=False, timeout=patience(60))
            assert p.returncode == 0, f"{line}\n{p.stdout}{p.stderr}"
            if line.startswith("kill"):
                self.wait_ended(line.count("corvo.lock"))
            self.last = p.stdout
        if "corvo " in block:
            wait_until(self.is_whole, 60, "the nodes, after\n" + block)

    def wait_ended(self, count):
        def ended():
            return sum(p.poll() is not None for p, _ in self.nodes) == count
        wait_until(ended, 30, "nodes to end")
        assert all(p.poll() in (None, 0) for p, _ in self.nodes)
        self.nodes = [n for n in self.nodes if n[0].poll() is None]

    def ask(self, port, path):
        try:
            with Client(port, 5) as c:
                return c.get(path)
        except OSError:
            return None

    def is_whole(self):
        """All answer; those that are members vote and are ready."""
        members = set()
        for p, port in self.nodes:
            assert p.poll() is None, (self.folder / "log").read_text()[-4000:]
            a = self.ask(port, "/readyz")
            if a is None:
                return False
            if a.status == 503 and "in no cluster" in a.json["error"]:
                continue
            rows = self.ask(port, f"{API}/cluster/nodes")
            if a.status != 200 or rows is None or rows.status != 200:
                return False
            rows = rows.json["nodes"]
            if not all(r["voter"] and r["alive"] for r in rows):
                return False
            members.add(tuple(sorted(r.get("id", "") for r in rows)))
        return len(members) <= 1

    def end(self):
        for p, _ in self.nodes:
            p.terminate()
        for p, _ in self.nodes:
            p.wait(patience(30))


def test_each_command_works(tmp_path):
    text = (ROOT / "docs/cluster.md").read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.S | re.M)
    assert len(blocks) > 10
    page = Page(tmp_path)
    try:
        for block in blocks:
            page.run(block)
        # What was written at the beginning is there at the end.
        assert "mail" in page.last or "job_" in page.last, page.last
        assert len(page.nodes) == 3
    finally:
        page.end()
