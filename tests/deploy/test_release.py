"""A release of the chart over its life: the secret of the cluster is made once.

helm installs into a stand-in for the API of Kubernetes, which keeps whatever
it is given.
"""

import base64
import http.server
import json
import os
import re
import subprocess
import threading
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

ROOT = Path(os.environ["CORVO_SOURCE_DIR"])
CHART = ROOT / "helm" / "corvo"
KINDS = {"/api/v1": {"secrets": "Secret", "services": "Service",
                     "configmaps": "ConfigMap", "pods": "Pod"},
         "/apis/apps/v1": {"statefulsets": "StatefulSet"},
         "/apis/policy/v1": {"poddisruptionbudgets": "PodDisruptionBudget"},
         "/apis/networking.k8s.io/v1": {"networkpolicies": "NetworkPolicy"}}
SECRET = "/api/v1/namespaces/jobs/secrets/rel-corvo-cluster"


def merge(old, change):
    """RFC 7396."""
    if not isinstance(change, dict):
        return change
    new = dict(old) if isinstance(old, dict) else {}
    for key, value in change.items():
        if value is None:
            new.pop(key, None)
        else:
            new[key] = merge(new.get(key), value)
    return new


def discovery(path):
    """What the API says of itself, or None."""
    if path == "/version":
        return {"major": "1", "minor": "30", "gitVersion": "v1.30.0"}
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        groups = []
        for at in list(KINDS)[1:]:
            _, _, group, version = at.split("/")
            one = {"groupVersion": f"{group}/{version}", "version": version}
            groups.append({"name": group, "versions": [one],
                           "preferredVersion": one})
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
    if path in KINDS:
        return {"kind": "APIResourceList", "apiVersion": "v1",
                "groupVersion": re.sub("^/apis?/", "", path),
                "resources": [
                    {"name": name, "singularName": "", "namespaced": True,
                     "kind": kind, "verbs": ["create", "delete", "get",
                                             "list", "patch", "update"]}
                    for name, kind in KINDS[path].items()]}
    return None


class Api(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, body):
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def missing(self):
        self.reply(404, {"kind": "Status", "apiVersion": "v1", "code": 404,
                         "status": "Failure", "reason": "NotFound",
                         "message": self.path + " not found"})

    def body(self):
        return json.loads(self.rfile.read(
            int(self.headers.get("Content-Length", 0))) or b"{}")

    def do_GET(self):
        url = urlsplit(self.path)
        known = discovery(url.path)
        if known is not None:
            return self.reply(200, known)
        if url.path in self.server.objects:
            return self.reply(200, self.server.objects[url.path])
        if not re.search("/namespaces/jobs/[a-z]+$", url.path):
            return self.missing()
        want = parse_qs(url.query).get("labelSelector", [""])[0]
        want = dict(w.split("=") for w in want.split(",") if w)
        found = [o for p, o in self.server.objects.items()
                 if p.startswith(url.path + "/") and want.items()
                 <= o["metadata"].get("labels", {}).items()]
        group, _, name = url.path.partition("/namespaces/jobs/")
        return self.reply(200, {"kind": KINDS[group][name] + "List",
                                "apiVersion": re.sub("^/apis?/", "", group),
                                "metadata": {}, "items": found})

    def do_POST(self):
        new = self.body()
        path = urlsplit(self.path).path + "/" + new["metadata"]["name"]
        assert path not in self.server.objects, path
        self.server.objects[path] = new
        self.reply(201, new)

    def do_PUT(self):
        self.server.objects[urlsplit(self.path).path] = new = self.body()
        self.reply(200, new)

    def do_PATCH(self):
        path = urlsplit(self.path).path
        new = merge(self.server.objects[path], self.body())
        self.server.objects[path] = new
        self.reply(200, new)

    def do_DELETE(self):
        self.body()
        if self.server.objects.pop(urlsplit(self.path).path, None) is None:
            return self.missing()
        return self.reply(200, {"kind": "Status", "apiVersion": "v1",
                                "status": "Success"})


class Kubernetes:
    def __init__(self, folder, port, objects):
        self.objects = objects
        self.folder = folder
        name = {"name": "x", "context": {"cluster": "x", "user": ""}}
        (folder / "kubeconfig").touch(0o600)
        (folder / "kubeconfig").write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "x",
            "contexts": [name], "clusters": [
                {"name": "x", "cluster": {
                    "server": f"http://127.0.0.1:{port}"}}]}))

    def helm(self, verb, *words):
        program = subprocess.run([ROOT / "tools/deps", "path", "helm"],
                                 check=True, capture_output=True,
                                 text=True).stdout.strip()
        chart = [] if verb == "uninstall" else [
            CHART, "--disable-openapi-validation"]
        return subprocess.run(
            [program, verb, "--namespace", "jobs", "rel", *chart, *words],
            capture_output=True, text=True, check=False, env={
                **os.environ, "HOME": str(self.folder),
                "KUBECONFIG": str(self.folder / "kubeconfig")})

    def secret(self):
        data = self.objects[SECRET]["data"]["secret"]
        return base64.b64decode(data).decode()

    def replicas(self):
        return self.objects["/apis/apps/v1/namespaces/jobs/statefulsets/"
                            "rel-corvo"]["spec"]["replicas"]


@pytest.fixture
def kubernetes(tmp_path):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Api)
    server.objects = {}
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield Kubernetes(tmp_path, server.server_address[1], server.objects)
    server.shutdown()
    server.server_close()


def ok(p):
    assert p.returncode == 0, p.stdout + p.stderr
    return p.stdout


def test_the_secret_is_made_once(kubernetes):
    notes = ok(kubernetes.helm("install", "--set", "replicas=3"))
    assert "a cluster of 3 nodes" in notes
    first = kubernetes.secret()
    assert re.fullmatch(r"\w{48}", first) and kubernetes.replicas() == 3
    ok(kubernetes.helm("upgrade", "--set", "replicas=5"))
    assert kubernetes.secret() == first and kubernetes.replicas() == 5
    # The volumes stay too, and their nodes must understand each other.
    ok(kubernetes.helm("uninstall"))
    assert [p for p in kubernetes.objects if "/statefulsets/" in p] == []
    assert kubernetes.secret() == first
    ok(kubernetes.helm("install", "--set", "replicas=3"))
    assert kubernetes.secret() == first


def test_two_releases_have_two_secrets(kubernetes, tmp_path):
    ok(kubernetes.helm("install"))
    first = kubernetes.secret()
    kubernetes.objects.clear()
    ok(kubernetes.helm("install"))
    assert kubernetes.secret() != first


def test_a_secret_without_its_key_is_not_written_over(kubernetes):
    ok(kubernetes.helm("install"))
    kubernetes.objects[SECRET]["data"] = {"other": "eA=="}
    p = kubernetes.helm("upgrade")
    assert p.returncode != 0 and "has no key secret" in p.stderr
    assert kubernetes.objects[SECRET]["data"] == {"other": "eA=="}
