"""Clients as their makers publish them, unmodified: connect-go, grpc-go,
connect-node, grpcurl and curl."""

import json
import subprocess
from pathlib import Path

import pytest

from remote import go_client, program, protoc
from waiting import patience

HERE = Path(__file__).resolve().parent


def test_connect_go_and_grpc_go(node, tmp_path):
    built = go_client(tmp_path, (HERE / "clients.go").read_text())
    p = subprocess.run([built, f"127.0.0.1:{node.port}"], text=True,
                       capture_output=True, timeout=patience(60))
    assert (p.returncode, p.stdout.split()) == (0, ["ok"] * 6), p


def test_connect_node(node, tmp_path):
    """Connect with protobuf, JSON and gzip, gRPC-Web and gRPC; by HTTP/1.1,
    too, where that has the protocol."""
    (tmp_path / "node_modules").symlink_to(program("connect-node"))
    (tmp_path / "clients.mjs").write_text((HERE / "clients.mjs").read_text())
    messages = tmp_path / "worker.bin"
    protoc("--include_imports", f"--descriptor_set_out={messages}")
    p = subprocess.run(
        ["node", "clients.mjs", f"127.0.0.1:{node.port}", messages],
        cwd=tmp_path, text=True, capture_output=True, timeout=patience(60))
    assert (p.returncode, p.stdout.split()) == (0, ["ok"] * 9), p


@pytest.fixture
def grpcurl(node):
    path = program("grpcurl")

    def run(*words, data=None):
        flags = ["-d", json.dumps(data)] if data is not None else []
        return subprocess.run(
            [path, "-plaintext", *flags, f"127.0.0.1:{node.port}", *words],
            text=True, capture_output=True, timeout=patience(30))
    return run


def test_grpcurl_needs_no_file(grpcurl, queue):
    services = grpcurl("list").stdout.split()
    assert "corvo.v1.WorkerService" in services
    assert "grpc.health.v1.Health" in services
    assert "rpc Fail" in grpcurl("describe", "corvo.v1.WorkerService").stdout
    p = grpcurl("corvo.v1.WorkerService/Enqueue", data={"queue": queue})
    assert json.loads(p.stdout)["status"] == "pending", p
    p = grpcurl("corvo.v1.WorkerService/Enqueue", data={})
    assert "Code: InvalidArgument" in p.stderr
    assert "queue is required" in p.stderr
    p = grpcurl("corvo.v1.WorkerService/StreamLifecycle",
                data={"requestId": 3, "queues": [queue], "fetchCount": 1})
    assert json.loads(p.stdout)["jobs"][0]["queue"] == queue, p
    assert "SERVING" in grpcurl("grpc.health.v1.Health/Check").stdout


@pytest.mark.parametrize("version", ["--http1.1", "--http2-prior-knowledge"])
def test_curl(node, queue, version):
    def call(method, body):
        return subprocess.run(
            ["curl", "-s", version, "-w", " %{http_version}", "-H",
             "content-type: application/json", "-d", json.dumps(body),
             f"http://127.0.0.1:{node.port}/corvo.v1.WorkerService/{method}"],
            text=True, check=True, capture_output=True,
            timeout=patience(30)).stdout

    text = call("Enqueue", {"queue": queue})
    assert '"status":"pending"' in text
    assert text.endswith("1.1" if "1.1" in version else " 2")
    assert '"found":true' in call("Fetch", {"queues": [queue]})
    assert '"code":"invalid_argument"' in call("Enqueue", {})
