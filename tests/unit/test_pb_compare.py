"""Our protobuf against Google's, both ways: the description of the messages,
their bytes and their JSON."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, json_format
from google.protobuf import message_factory

SOURCE = Path(os.environ["CORVO_SOURCE_DIR"])
CONVERT = Path(os.environ["CORVO_BUILD_DIR"]) / "tests/unit/pb_convert"
PROTO = SOURCE / "docs/reference/worker.proto"
ROUNDS = 60
WORDS = {
    "priority": ["critical", "high", "normal"],
    "retry_backoff": ["none", "fixed", "linear", "exponential"],
    "unique_action": ["drop", "replace"],
    "on_dependency_failure": ["fail", "ignore"],
    "step_status": ["continue", "exit"],
    "agent_status": ["done", "continue", "hold"],
    "FailResponse.status": ["retrying", "dead", "pending"],
    "LifecycleFailResult.status": ["retrying", "dead", "cancelled"],
    "type": ["enqueued", "started", "completed"],
}
REQUIRED = {"queue", "queues", "job_id", "items"}
# Nothing is done with them, or they are only read.
# Money is rounded to billionths.
UNUSED = {"agent", "usage", "stream_delta", "chain_json", "found"}


@pytest.fixture(scope="module")
def protoc(tmp_path_factory):
    out = tmp_path_factory.mktemp("pb") / "set"
    subprocess.run(["protoc", "-I", str(PROTO.parent), "--include_imports",
                    "--descriptor_set_out=%s" % out, str(PROTO)], check=True)
    return descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())


@pytest.fixture(scope="module")
def messages(protoc):
    pool = descriptor_pool.DescriptorPool()
    for f in protoc.file:
        pool.Add(f)
    file = pool.FindFileByName("worker.proto")
    factory = message_factory.MessageFactory(pool)
    return {n: factory.GetPrototype(d)
            for n, d in file.message_types_by_name.items()}


@pytest.fixture(scope="module")
def rng():
    seed = int(os.environ.get("CORVO_TEST_SEED") or
               random.SystemRandom().getrandbits(32))
    print("CORVO_TEST_SEED=%d" % seed, file=sys.stderr)
    return random.Random(seed)


def our_files():
    out = subprocess.run([CONVERT, "files"], check=True, capture_output=True,
                         text=True).stdout.split()
    files = [descriptor_pb2.FileDescriptorProto.FromString(bytes.fromhex(x))
             for x in out]
    return {f.name: f for f in files}


def test_the_description_is_what_protoc_makes_of_the_file(protoc):
    ours = our_files()
    theirs = {f.name: f for f in protoc.file}
    got = ours["corvo/v1/worker.proto"]
    got.name = "worker.proto"
    assert str(got) == str(theirs["worker.proto"])


def test_every_description_is_one_that_others_can_use():
    pool = descriptor_pool.DescriptorPool()
    for f in our_files().values():
        pool.Add(f)
    for name in ("corvo.v1.WorkerService", "grpc.health.v1.Health",
                 "grpc.reflection.v1.ServerReflection"):
        assert pool.FindServiceByName(name).methods
    field = pool.FindFieldByName("corvo.v1.HeartbeatRequest.jobs")
    assert field.message_type.GetOptions().map_entry
    one = pool.FindFieldByName(
        "grpc.reflection.v1.ServerReflectionRequest.list_services")
    assert one.containing_oneof.name == "message_request"


# --- messages at random ---


def any_text(rng):
    return "".join(rng.choice("abcXYZ019 _-é€😀\"\\/\n")
                   for _ in range(rng.randint(1, 12))).strip() or "x"


def scalar(rng, owner, f):
    key = "%s.%s" % (owner, f.name)
    if f.name in WORDS or key in WORDS:
        return rng.choice(WORDS.get(key) or WORDS[f.name])
    if f.name == "tags_json":
        return json.dumps({any_text(rng): any_text(rng)})
    if f.name.endswith("_json"):
        return json.dumps(rng.choice([1, "x", None, {"é": [1.5, any_text(rng)]},
                                      []]))
    if f.name in ("queue", "queues", "job_id", "group"):
        return "n%d" % rng.randint(0, 999)
    if f.cpp_type == f.CPPTYPE_STRING:
        return any_text(rng)
    if f.cpp_type == f.CPPTYPE_BOOL:
        return rng.random() < 0.5
    if f.cpp_type == f.CPPTYPE_DOUBLE:
        return rng.random()
    if f.cpp_type == f.CPPTYPE_UINT64:
        return rng.choice([0, 1, 2**32, 2**53 + 1, 2**64 - 1])
    if f.name.endswith("_ms"):
        return rng.choice([0, 1, 999, 10**12])
    return rng.choice([0, 1, 127, 128, 999999])


def fill(rng, m, depth=0):
    owner = m.DESCRIPTOR.name
    for f in m.DESCRIPTOR.fields:
        must = f.name in REQUIRED
        if f.name in UNUSED or (not must and rng.random() < 0.4):
            continue
        n = rng.randint(1, 3) if f.label == f.LABEL_REPEATED else 1
        for i in range(n):
            fill_one(rng, m, owner, f, depth)
    if "lease_duration_ms" in m.DESCRIPTOR.fields_by_name:
        seconds = rng.choice([0, 1, 60])
        m.lease_duration = seconds
        m.lease_duration_ms = seconds * 1000
    if "found" in m.DESCRIPTOR.fields_by_name:
        m.job_id = "n1"
        m.found = True


def fill_one(rng, m, owner, f, depth):
    value = getattr(m, f.name)
    if f.message_type is None:
        if f.label == f.LABEL_REPEATED:
            value.append(scalar(rng, owner, f))
        else:
            setattr(m, f.name, scalar(rng, owner, f))
    elif f.message_type.name == "Timestamp":
        value.seconds = rng.choice([0, 1, 1771000000, 7200000000])
        value.nanos = rng.choice([0, 1, 120000000, 999999999])
        value.SetInParent()
    elif f.message_type.GetOptions().map_entry:
        fill(rng, value["n%d" % rng.randint(0, 99)], depth + 1)
    elif f.label == f.LABEL_REPEATED:
        fill(rng, value.add(), depth + 1)
    else:
        fill(rng, value, depth + 1)


def convert(rows):
    text = "".join("%s %s %s\n" % (name, form, data.hex())
                   for name, form, data in rows)
    out = subprocess.run([CONVERT], input=text, check=True, text=True,
                         capture_output=True).stdout.split("\n")[:-1]
    assert len(out) == len(rows)
    return out


def usable(messages):
    """Not those nothing is done with, nor what needs the key of its map."""
    return sorted(set(messages) - {"AgentConfig", "AgentState", "UsageReport",
                                   "HeartbeatJobUpdate"})


def test_messages_at_random_come_back_as_they_went(messages, rng):
    sent, rows = [], []
    for name in usable(messages):
        for _ in range(ROUNDS):
            m = messages[name]()
            fill(rng, m)
            text = json_format.MessageToJson(
                m, preserving_proto_field_name=rng.random() < 0.5)
            sent += [m, m]
            rows += [(name, "p", m.SerializeToString()),
                     (name, "j", text.encode())]
    for m, row, answer in zip(sent, rows, convert(rows)):
        assert answer.startswith("ok"), (row, answer, m)
        ours, text = answer[3:].split(" ")
        got = type(m).FromString(bytes.fromhex(ours))
        assert got == m, row
        parsed = json_format.Parse(bytes.fromhex(text).decode(), type(m)())
        assert parsed == m, row


def test_json_with_all_defaults_says_nothing_more(messages):
    rows = []
    for name in usable(messages):
        m = messages[name]()
        for f in REQUIRED & set(m.DESCRIPTOR.fields_by_name):
            field = m.DESCRIPTOR.fields_by_name[f]
            if field.message_type is not None:
                getattr(m, f).add().job_id = "j"
            elif field.label == field.LABEL_REPEATED:
                getattr(m, f).append("q")
            else:
                setattr(m, f, "q")
        text = json_format.MessageToJson(
            m, including_default_value_fields=True)
        rows.append((m, (name, "j", text.encode())))
    for (m, row), answer in zip(rows, convert([r for _, r in rows])):
        assert answer.startswith("ok"), (row, answer)
        got = type(m).FromString(bytes.fromhex(answer.split(" ")[1]))
        if "found" in m.DESCRIPTOR.fields_by_name:
            m.found = True
        assert got == m, (row, answer)


def test_fields_of_a_later_version_are_skipped(messages):
    m = messages["AckRequest"](job_id="j")
    later = bytes.fromhex(
        "c03e05"            # 1000: varint
        "c13e0102030405060708"  # 64 bits
        "c53e01020304"      # 32 bits
        "c23e0178"          # bytes
        "c33ec33e0801c43e0a0178c43e")  # groups, nested
    answer, = convert([("AckRequest", "p", m.SerializeToString() + later)])
    assert answer.startswith("ok")
    assert bytes.fromhex(answer.split(" ")[1]) == m.SerializeToString()
