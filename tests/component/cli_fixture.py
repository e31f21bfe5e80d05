"""The corvo command, and a fake server for it to talk to."""

import json
import os
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from waiting import patience

BUILD = Path(os.environ["CORVO_BUILD_DIR"])
CORVO = BUILD / "cli" / "corvo"


class Fake:
    """Answers what `replies` says and keeps what it was asked. A reply that
    is a function is given the request's JSON and returns the answer.
    `headers` are added to every answer."""

    def __init__(self):
        self.requests = []
        self.replies = {}
        self.headers = {}
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                n = int(self.headers.get("Content-Length") or 0)
                asked = self.rfile.read(n).decode()
                fake.requests.append((self.command, self.path, asked,
                                      dict(self.headers)))
                status, body = fake.replies.get(
                    (self.command, self.path),
                    (404, {"error": "no such route", "code": "NOT_FOUND"}))
                if callable(body):
                    body = body(json.loads(asked or "null"))
                raw = body if isinstance(body, bytes) \
                    else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(raw)))
                for name, value in fake.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(raw)

            do_GET = do_POST = do_DELETE = do_PATCH = answer

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = "http://127.0.0.1:%d" % self.server.server_port
        self.thread = threading.Thread(target=self.server.serve_forever,
                                       args=(0.01,))
        self.thread.start()

    def reply(self, method, path, body, status=200):
        self.replies[(method, path)] = (status, body)

    def stop(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def fake():
    f = Fake()
    yield f
    f.stop()


def all_shown(ours):
    """What a terminal got, whose other end nobody has open any more; what was
    written there comes in pieces, and not at once."""
    out = b""
    try:
        while chunk := os.read(ours, 4096):
            out += chunk
    except OSError:  # that was all
        pass
    return out.decode()


def corvo(*args, fake=None, stdin="", cwd=None, **env):
    full = {k: v for k, v in os.environ.items()
            if not k.startswith("CORVO_") and "proxy" not in k.lower()}
    if fake is not None:
        full["CORVO_URL"] = fake.url
    full.update(env)
    return subprocess.run([CORVO, *args], input=stdin, env=full, cwd=cwd,
                          capture_output=True, text=True, timeout=patience(30))


def ok(*args, **kw):
    p = corvo(*args, **kw)
    assert (p.returncode, p.stderr) == (0, ""), p
    return p.stdout
