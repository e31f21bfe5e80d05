"""What a server says may hold anything; of control characters only newlines
and tabs reach a terminal, and nothing that turns the direction of its text,
whichever verb shows it."""

import itertools
import json
import os
import re
import socket
import subprocess
import threading
import urllib.parse
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from node import API, CORVO
from waiting import patience

TABLE = Path(os.environ["CORVO_SOURCE_DIR"]) / "cli" / "cmds.def"
# These turn the direction of the text around them, as Arabic would, and with it
# the order in which it is read.
TURNS = {0x61c, 0x200e, 0x200f, *range(0x202a, 0x202f), *range(0x2066, 0x206a)}
ODD = "\x1b[7m\u009b7m\x7f" + "".join(map(chr, sorted(TURNS)))
# They become a program that runs a node, or work on a stopped one.
OTHERS = {"server", "scheduled-db", "recover", "cluster recover",
          "admin skip-entry"}
HARMLESS = (9, 10)
NUMBERS = itertools.count()


def verbs():
    """{verb: (its arguments, its groups)}, as the command itself has them."""
    rows = re.findall(
        r'^CMD\("([^"]+)",\s*\w+,\s*"([^"]*)",\s*([^,]+),', TABLE.read_text(),
        re.M)
    assert len(rows) > 90
    return {verb: (arguments, groups.split(" | "))
            for verb, arguments, groups in rows if verb not in OTHERS}


def spoil(v):
    """The same with something odd at the end of each text."""
    if isinstance(v, str):
        return v + ODD
    if isinstance(v, list):
        return [spoil(x) for x in v]
    if isinstance(v, dict):
        return {k: spoil(x) for k, x in v.items()}
    return v


def mend(v):
    if isinstance(v, str):
        return v.replace(ODD, "")
    if isinstance(v, list):
        return [mend(x) for x in v]
    if isinstance(v, dict):
        return {k: mend(x) for k, x in v.items()}
    return v


def spoil_json(raw):
    """C1 and DEL as they are: JSON escapes only what is below a space."""
    return json.dumps(spoil(json.loads(raw)), ensure_ascii=False).encode()


class Proxy:
    """Between the command and a node; spoils what the node answers, and mends
    what it is asked. how: "spoil", or "refuse" or "page": it answers itself."""

    def __init__(self, port):
        self.how = "spoil"
        self.spoiled = 0
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def ask(self, body):
                if proxy.how == "refuse":
                    return 409, json.dumps(
                        {"error": "no", "code": "CONFLICT"}).encode()
                path = urllib.parse.unquote(self.path)
                path = self.path if ODD not in path else \
                    urllib.parse.quote(path.replace(ODD, ""), safe="/?&=")
                c = HTTPConnection("127.0.0.1", port, timeout=patience(60))
                c.request(self.command, path, body,
                          {"Content-Type": "application/json"})
                a = c.getresponse()
                raw = a.read()
                c.close()
                return a.status, raw

            def answer(self):
                n = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(n)
                if body:
                    body = json.dumps(mend(json.loads(body))).encode()
                status, raw = self.ask(body)
                if proxy.how == "page":
                    status, raw = 502, \
                        b"<h1>\x1b[7m\x9b7m\x00" + ODD.encode()
                elif raw:
                    raw = spoil_json(raw)
                proxy.spoiled += len(raw) > 2
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = answer

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = "http://127.0.0.1:%d" % self.server.server_port
        self.thread = threading.Thread(target=self.server.serve_forever,
                                       args=(0.01, ))
        self.thread.start()

    def stop(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


class Control:
    """The same before the control socket of a node: reads, and spoils."""

    def __init__(self, node, run_dir):
        self.node = node
        self.how = "spoil"
        self.spoiled = 0
        run_dir.mkdir()
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(str(run_dir / "control.sock"))
        self.socket.listen()
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        while True:
            try:
                c, _ = self.socket.accept()
            except OSError:
                return
            with c:
                word = c.makefile().readline().strip()
                if self.how == "refuse":
                    reply = {"error": "no", "code": "CONFLICT"}
                elif word.split()[0] in ("restart", "stop"):
                    reply = {"ok": True, "name": word}
                else:
                    reply = self.node.ask(word)
                if word == "reload":
                    change = {"name": "n", "before": "a", "value": "b",
                              "next": "c"}
                    reply |= {"changed": [change], "waiting": [change],
                              "note": "x"}
                if word == "config":
                    reply |= {"problem": "cannot be read"}
                    reply.get("settings", [{}])[0]["next"] = "more"
                self.spoiled += 1
                c.sendall(spoil_json(json.dumps(reply)))

    def stop(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.socket.close()


@pytest.fixture(scope="module")
def proxy(node):
    p = Proxy(node.port)
    yield p
    p.stop()


@pytest.fixture(scope="module")
def control(node, tmp_path_factory):
    c = Control(node, tmp_path_factory.mktemp("control") / "run")
    c.run_dir = Path(c.socket.getsockname()).parent
    yield c
    c.stop()


def make(client, what):
    """A new one of what a verb is about."""
    if what == "batch":
        return client.post(f"{API}/batches", {}).json["batch_id"]
    if what in ("dead", "done"):
        queue = f"ends-{next(NUMBERS)}"
        job_id = client.enqueue(queue, max_retries=1)
        taken = client.fetch(queue, worker_id="w1")
        if what == "dead":
            client.fail(taken, error="no")
        else:
            client.ack(taken)
        return job_id
    job_id = client.enqueue("odd", payload={"a": "b"}, tags={"t": "u"})
    if what == "held":
        client.post(f"{API}/jobs/{job_id}/hold", {"reason": "why"})
    return job_id


WORDS = {
    "QUEUE": "odd", "PAYLOAD": '{"a":"b"}', "PRIORITY": "high", "NAME": "one",
    "CRON": "0 5 * * *", "SETTING": "max_cost=1", "MAX": "5", "RATE": "100",
    "PERIOD": "1m", "ADDRESS": "127.0.0.1:1", "NODE": "nobody",
    "PROCESS": "viewd", "LEVEL": "info", "PROVIDER": "p", "MODEL": "m",
    "PRICE": "input_per_million=3", "SCOPE": "queue", "TARGET": "odd",
    "VALUE": "1", "URL": "http://127.0.0.1:1/x", "EVENT": "1",
    "ACTION": "hold", "VERB": "enqueue", "FILE": "nothing",
}
# Where the words of the table do not lead to an answer worth showing.
LINES = {
    "bulk status": ["bulk_1"], "bulk pause": ["bulk_1"],
    "bulk resume": ["bulk_1"],
    "policies set": ["one", "queue=none.*"], "policies try": ["queue=odd"],
    "settings set": ["queue_idle=2h"], "usage set": ["tags=[]"],
    "budgets set": ["queue", "none", "daily_usd=10"],
    "hooks set": ["one", "odd"], "queue set": ["odd", "max_concurrency=50"],
    "webhooks set": ["one", "http://127.0.0.1:1/x"],
    "webhooks change": ["one", "retry_limit=4"],
    "webhooks get": ["one"], "webhooks test": ["one"],
    "webhooks deliveries": ["one"], "webhooks replay": ["one", "1"],
    "webhooks delete": ["one"], "approval-links": ["{held}"],
    "approve": ["{held}"], "retry": ["{dead}"], "requeue": ["{dead}"],
    "batch get": ["{batch}"], "batch seal": ["{batch}"],
    "replay": ["{ID}", "--from", "1"], "destroy": ["gone", "--confirm"],
    "reject": ["{held}"], "clear": ["gone"], "concurrency": ["gone", "9"],
    "score": ["{done}", "good", "0.5"], "scores": ["{done}"],
    "drain": ["gone", "--wait", "1s"],
    "bulk": ["hold", "--filter", '{"queue":"none"}'],
    "bulk cancel": ["--filter", '{"queue":"none"}'],
    "bench": ["enqueue", "--count", "200", "--connections", "2"],
    "bench compare": ["nothing", "nothing"], "top": ["--once"],
    "push test": ["odd"], "config check": ["/dev/null"],
}
LAST = ("delete", "destroy", "stop")


def in_order():
    """What makes things goes before what shows them, and that before what
    takes them away."""
    def rank(verb):
        words = verb.split()
        if words[-1] in ("set", "create", "open"):
            return 0
        return 2 if words[-1] in LAST else 1

    return sorted(verbs(), key=rank)


def line_of(verb, arguments, client):
    words = LINES.get(verb)
    if words is None:
        needed = [w for w in arguments.split() if w[0] != "["]
        words = ["{ID}" if w == "ID" else WORDS[w] for w in needed]
    return verb.split() + [make(client, w[1:-1])
                           if re.fullmatch(r"{\w+}", w) else w for w in words]


def run(line, proxy, control, groups):
    env = {k: v for k, v in os.environ.items() if not k.startswith("CORVO_")}
    env |= {"CORVO_URL": proxy.url, "LC_ALL": "C.UTF-8"}
    if "G_NODE" in groups or line[:2] == ["config", "list"]:
        line = [*line, f"--run-dir={control.run_dir}"]
    p = subprocess.run([CORVO, *line], env=env, stdin=subprocess.DEVNULL,
                       capture_output=True, timeout=patience(60))
    assert b"Sanitizer" not in p.stderr, p
    return p


def odd_in(text):
    """What a terminal would take for an order, or for no text at all."""
    shown = text.decode("utf-8", "surrogateescape")
    return sorted({repr(c) for c in shown
                   if ord(c) not in HARMLESS and
                   (c < " " or "\x7f" <= c < "\xa0" or ord(c) in TURNS or
                    "\ud800" <= c <= "\udfff")})


def check(p):
    assert odd_in(p.stdout) == [] and odd_in(p.stderr) == [], p


@pytest.mark.parametrize("how", ["spoil", "json", "refuse", "page"])
def test_no_verb_lets_control_characters_through(client, proxy, control, how):
    client.enqueue("gone")
    client.enqueue("odd")
    silent = []
    for at in (proxy, control):
        at.how = how if how in ("refuse", "page") else "spoil"
    for verb in in_order():
        arguments, groups = verbs()[verb]
        line = line_of(verb, arguments, client)
        if how == "json" and verb != "help":
            line += ["--output", "json"]
        asked = proxy.spoiled + control.spoiled
        check(run(line, proxy, control, groups))
        if proxy.spoiled + control.spoiled == asked:
            silent.append(verb)
    # the others were told something, so that there was something to show
    assert set(silent) <= {"bench compare", "config check", "version", "help"}


def test_no_control_characters_reach_the_log(node, client):
    client.post(f"{API}/enqueue", {"queue": "a" + ODD})
    client.get(f"{API}/jobs/" + urllib.parse.quote("a" + ODD))
    reply = node.ask("log-level a" + ODD)
    assert reply["code"] == "VALIDATION_ERROR"
    assert odd_in(node.err.read_bytes()) == []
