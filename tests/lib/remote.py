"""Remote calls over HTTP/1.1, by hand: Connect, and gRPC-Web.

The messages are made by Google's protobuf from docs/reference/worker.proto,
so that nothing of ours reads what we write.
"""

import base64
import functools
import gzip
import json
import os
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

from google.protobuf import descriptor_pb2, descriptor_pool, json_format
from google.protobuf import message_factory

from waiting import patience

ROOT = Path(__file__).resolve().parents[2]
PROTO = ROOT / "docs/reference/worker.proto"
SERVICE = "/corvo.v1.WorkerService/"
PACKED, END, TRAILERS = 1, 2, 128


def protoc(*flags):
    subprocess.run(["protoc", "-I", str(PROTO.parent), *flags, PROTO.name],
                   check=True)


def program(name):
    """The path of one that tools/deps builds."""
    out = subprocess.run([ROOT / "tools/deps", "path", name], check=True,
                         capture_output=True, text=True).stdout.strip()
    assert os.access(out, os.X_OK), f"tools/deps test installs {name}"
    return out


def go_client(directory, text):
    """A Go program with the package client/corvov1, of protobuf, grpc-go and
    connect-go as they come from their makers; the path of it, built."""
    flags = []
    for name in ("go", "go-grpc", "connect-go"):
        flags += [f"--plugin={program('protoc-gen-' + name)}",
                  f"--{name}_out={directory}", f"--{name}_opt=module=client",
                  f"--{name}_opt=Mworker.proto=client/corvov1"]
    protoc(*flags)
    for name in ("go.mod", "go.sum"):
        shutil.copy(ROOT / "tests/lib/go" / name, directory)
    (directory / "main.go").write_text(text)
    subprocess.run(["go", "build", "-o", "client", "."], cwd=directory,
                   check=True, timeout=patience(60))
    return directory / "client"


@functools.lru_cache(None)
def messages():
    """{name: class}"""
    with tempfile.NamedTemporaryFile() as out:
        protoc("--include_imports", f"--descriptor_set_out={out.name}")
        files = descriptor_pb2.FileDescriptorSet.FromString(out.read())
    pool = descriptor_pool.DescriptorPool()
    for f in files.file:
        pool.Add(f)
    factory = message_factory.MessageFactory(pool)
    file = pool.FindFileByName("worker.proto")
    return {n: factory.GetPrototype(d)
            for n, d in file.message_types_by_name.items()}


def make(name, **fields):
    return messages()[name](**fields)


class CallError(Exception):
    def __init__(self, code, message, details, status=None):
        super().__init__(f"{code}: {message}")
        self.code, self.message, self.details = code, message, details
        self.status = status


CODES = ["ok", "canceled", "unknown", "invalid_argument", "deadline_exceeded",
         "not_found", "already_exists", "permission_denied",
         "resource_exhausted", "failed_precondition", "aborted",
         "out_of_range", "unimplemented", "internal", "unavailable",
         "data_loss", "unauthenticated"]


def envelope(flags, data):
    return struct.pack(">BI", flags, len(data)) + data


def envelopes(body):
    """[(flags, data)]"""
    found = []
    while body:
        flags, n = struct.unpack(">BI", body[:5])
        assert len(body) >= 5 + n, body
        found.append((flags, body[5:5 + n]))
        body = body[5 + n:]
    return found


class Connect:
    """Unary calls of Connect."""

    def __init__(self, client, is_json=False, packed=False, headers=None):
        self.client, self.is_json, self.packed = client, is_json, packed
        self.headers = headers or {}
        self.answer = None

    def encode(self, m):
        if self.is_json:
            return json_format.MessageToJson(m).encode()
        return m.SerializeToString()

    def decode(self, kind, data):
        if self.is_json:
            return json_format.Parse(data.decode(), kind())
        return kind.FromString(data)

    def call(self, method, request, headers=None):
        kind = messages()[method + "Response"]
        data = self.encode(request)
        all_headers = {
            "Content-Type": "application/" +
                            ("json" if self.is_json else "proto"),
            "Connect-Protocol-Version": "1", **self.headers,
            **(headers or {})}
        if self.packed:
            data = gzip.compress(data)
            all_headers["Content-Encoding"] = "gzip"
            all_headers["Accept-Encoding"] = "gzip"
        a = self.answer = self.client.post(SERVICE + method, data, all_headers)
        if a.status != 200:
            e = json.loads(a.body)
            assert a.headers["Content-Type"] == "application/json"
            raise CallError(e["code"], e.get("message"),
                            {d["type"]: base64.b64decode(d["value"] + "==")
                             for d in e.get("details", [])}, a.status)
        assert a.headers["Content-Type"] == all_headers["Content-Type"]
        body = a.body
        if a.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        return self.decode(kind, body)


class GrpcWeb(Connect):
    """Unary calls of gRPC-Web, binary or as text."""

    def __init__(self, client, is_text=False, **named):
        super().__init__(client, **named)
        self.is_text = is_text

    def call(self, method, request, headers=None):
        kind = messages()[method + "Response"]
        content = "application/grpc-web" + ("-text" if self.is_text else "") + \
            ("+json" if self.is_json else "+proto")
        data = self.encode(request)
        all_headers = {"Content-Type": content, "X-Grpc-Web": "1",
                       **self.headers, **(headers or {})}
        if self.packed:
            data = gzip.compress(data)
            all_headers["Grpc-Encoding"] = "gzip"
            all_headers["Grpc-Accept-Encoding"] = "identity, gzip"
        data = envelope(PACKED if self.packed else 0, data)
        if self.is_text:
            data = base64.b64encode(data)
        a = self.answer = self.client.post(SERVICE + method, data, all_headers)
        assert a.status == 200, a
        assert a.headers["Content-Type"] == content
        body = base64.b64decode(a.body) if self.is_text else a.body
        *found, (flags, trailers) = envelopes(body)
        assert flags == TRAILERS, body
        self.check(trailers.decode())
        (flags, data), = found
        if flags & PACKED:
            assert a.headers["Grpc-Encoding"] == "gzip"
            data = gzip.decompress(data)
        return self.decode(kind, data)

    @staticmethod
    def check(text):
        rows = dict(x.split(": ", 1) for x in text.split("\r\n") if x)
        code = int(rows["grpc-status"])
        if code != 0:
            raise CallError(CODES[code], rows.get("grpc-message"),
                            rows.get("grpc-status-details-bin"))
