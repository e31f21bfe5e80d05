"""docs/features/agents.md: the worker in Python, with a model of our own."""

import http.server
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from node import API, CORVO, running  # noqa: E402
from waiting import patience  # noqa: E402

PAGE = Path(os.environ["CORVO_SOURCE_DIR"]) / "docs/features/agents.md"


class Model(http.server.BaseHTTPRequestHandler):
    """Says "draft N"; the third one is good enough."""

    def do_POST(self):
        talk = json.loads(self.rfile.read(
            int(self.headers["Content-Length"])))["messages"]
        n = len(talk)
        answer = json.dumps({
            "content": f"draft {n}", "finished": n == 3, "model": "stub",
            "cost": 0.01 * n, "input_tokens": 100 * n, "output_tokens": 50})
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer.encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def model_url():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    thread.join()
    server.server_close()


def test_three_iterations_a_hold_an_approval_and_a_replay(
        tmp_path, model_url):
    code, = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(),
                       re.S | re.M)
    (tmp_path / "agent.py").write_text(code)
    with running() as node, node.client() as c:
        url = f"http://127.0.0.1:{node.port}"

        def work():
            subprocess.run([sys.executable, "agent.py"], cwd=tmp_path,
                           check=True, timeout=patience(30),
                           env={**os.environ, "CORVO_URL": url,
                                "MODEL_URL": model_url})

        def corvo(*words):
            return subprocess.run([CORVO, *words, "--server", url], text=True,
                                  check=True, capture_output=True).stdout
        job_id = c.enqueue("drafts", payload={"task": "a sonnet"},
                           agent={"max_iterations": 2})
        work()
        job = c.job(job_id)
        assert job["hold_reason"] == "max_iterations exceeded (2)"
        corvo("approve", job_id, "--max-iterations", "20")
        work()
        job = c.job(job_id)
        assert (job["state"], job["result"]) == ("completed", "draft 3")
        assert job["agent"]["total_cost_usd"] == 0.06
        rows = c.get(f"{API}/jobs/{job_id}/iterations").json["iterations"]
        assert [(r["status"], r["cost_usd"], len(r["checkpoint"]))
                for r in rows] == [
            ("continue", 0.01, 2), ("hold", 0.02, 3), ("done", 0.03, 4)]
        assert {r["worker_id"] for r in rows} == {"agent.py"}
        new = re.search(r"job_\w+",
                        corvo("replay", job_id, "--from", "1"))[0]
        work()
        again = c.job(new)
        assert (again["state"], again["result"]) == ("completed", "draft 3")
        assert again["agent"]["replay_of"] == job_id
        assert again["agent"]["iteration"] == 2
