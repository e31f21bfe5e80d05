"""What may be sent to each row of routes.def and rpc.def, made from the tables
as they are printed: openapi.json of a node, and the rows of rpc.def. A row that
is added is sent the same by itself.
"""

import json
import re
import subprocess
from urllib.parse import quote

from node import HARMLESS, SOURCE

LONG = 60000  # more than any name, less than an HTTP/2 window

# Bodies that are no messages; None: no body at all.
SHAPES = [None, b"{}", b"null", b"[]", b'""', b"1", b" ", b"{", b"\xff"]
NAMES = ["", "?", "?wait", "?wait[1]", "a\0b", "a b", "%", "\u20ac", ".", "[0]",
         "x" * LONG]

# For each member: every JSON type, and numbers at the ends of what there is.
VALUES = [b"null", b"true", b"0", b"-1", b"0.5", b"1e308", b"-1e-308",
          b"9223372036854775807", b"-9223372036854775809",
          b"18446744073709551615", b"18446744073709551616", b'""', b'"x"',
          b'"\\u0000"', b"[]", b"[null]", b"[[]]", b"{}", b'{"":null}',
          b'{"?wait":[1e99]}']
ARGUMENTS = ["", "x", "-1", "18446744073709551616", "%00", "%ff", "a" * 3000]
PLACES = ["q", "%00", "%ff", "a%2Fb", "%3Fwait", "a" * 3000]


class Row:
    def __init__(self, method, path, members, base, arguments=(),
                 refusals=(), name=""):
        self.method, self.path, self.name = method, path, name or path
        self.members = members
        self.base = base  # so that it is no refusal for what is missing
        self.arguments = arguments
        self.refusals = refusals  # 5xx that are documented

    def __repr__(self):
        return f"{self.method} {self.name}"

    def at(self, place="q"):
        return re.sub(r"\{\w+\}", place, self.path)

    def body(self, name, value):
        members = {k: json.dumps(v).encode() for k, v in self.base.items()}
        members[name] = value
        return b"{" + b",".join(json.dumps(k).encode() + b":" + v
                                for k, v in members.items()) + b"}"

    def shapes(self):
        """(path, body), as strange as they can be as a whole."""
        yield from ((self.at(), shape) for shape in SHAPES)
        yield self.at(), self.body("?", b"null")
        for i, name in enumerate(NAMES):
            yield self.at(), b"{%s:%s}" % (json.dumps(name).encode(),
                                           (b"null", b"1")[i % 2])
        yield from ((self.at(place), b"{}") for place in PLACES
                    if "{" in self.path)
        for argument in self.arguments:
            for value in ARGUMENTS:
                yield f"{self.at()}?{argument}={value}", b"{}"
        for argument in ("", "nobody", "a\0b", "x" * 3000):
            yield f"{self.at()}?{quote(argument)}=1", b"{}"

    def wrong(self):
        """(path, body), each with one member that is not what it should be."""
        for name in self.members:
            for value in VALUES:
                yield self.at(), self.body(name, value)


class Api:
    def __init__(self, doc):
        self.doc = doc

    def schema(self, s):
        while "$ref" in s:
            at = self.doc
            for step in s["$ref"].removeprefix("#/").split("/"):
                at = at[step]
            s = at
        return s

    def some(self, s, depth=0):
        """A value of that schema."""
        s = self.schema(s)
        if "oneOf" in s:
            return self.some(s["oneOf"][-1], depth)
        kind = s.get("type")
        if "enum" in s:
            return s["enum"][0]
        if kind == "object":
            props = s.get("properties", {})
            return {} if depth > 4 else {
                n: self.some(props[n], depth + 1)
                for n in s.get("required", []) if n in props}
        if kind == "array":
            return [self.some(s["items"], depth + 1)]
        return {"integer": 1, "number": 1, "boolean": True}.get(kind, "q")

    def row(self, method, path, op):
        body = op.get("requestBody", {}).get("content", {}).get(
            "application/json", {}).get("schema", {})
        schema = self.schema(body)
        members = schema.get("properties", {})
        base = self.some(schema) if members else {}
        base.update(HARMLESS.get(path, {}))
        if "timeout_ms" in members:
            base["timeout_ms"] = 0  # it does not wait
        return Row(method.upper(), path, list(members), base,
                   [p["name"] for p in op.get("parameters", [])
                    if p["in"] == "query"],
                   [int(s) for s in op["responses"] if s >= "500"])

    def rows(self):
        return [self.row(method, path, op)
                for path, methods in self.doc["paths"].items()
                for method, op in methods.items() if "responses" in op]


def camel(name):
    head, *rest = name.split("_")
    return head + "".join(x.capitalize() for x in rest)


class Method(Row):
    def __init__(self, package, service, name, members, kind):
        super().__init__("POST", f"/{package}.{service}/{name}", members, {},
                         refusals=[501, 503, 504])
        self.kind = kind


PRINTED = """
#define RPC_FILE(file, path, package) @ FILE file package
#define RPC_FIELD(Name, number, type, name, ...) @ FIELD Name name
#define RPC_SUB(Name, number, Sub, name, ...) @ FIELD Name name
#define RPC_MAP(Name, number, Sub, name, ...) @ FIELD Name name
#define RPC_UNUSED(Name, number, type, name, ...) @ FIELD Name name
#define RPC_UNUSED_SUB(Name, number, Sub, name, ...) @ FIELD Name name
#define RPC_METHOD(file, service, Name, Request, Reply, kind, doc) \\
    @ METHOD file service Name Request kind
#include "proto/defs/rpc.def"
"""


def methods():
    """The rows of rpc.def, by the preprocessor: some are macros of several."""
    out = subprocess.run(["cc", "-E", "-P", "-I", SOURCE / "common", "-"],
                         input=PRINTED, check=True, capture_output=True,
                         text=True).stdout
    rows = [r.split() for r in out.replace("\n", " ").split("@")]
    packages = {r[1]: r[2].strip('"') for r in rows if r[:1] == ["FILE"]}
    fields = {}
    for r in rows:
        if r[:1] == ["FIELD"]:
            fields.setdefault(r[1], []).append(camel(r[2]))
    return [Method(packages[r[1]], r[2], r[3], fields.get(r[4], []), r[5])
            for r in rows if r[:1] == ["METHOD"]]
