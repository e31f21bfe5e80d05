"""Remote calls by grpcio, over HTTP/2: every method, streams, deadlines and
errors, as a worker of any language makes them."""

import json
import queue as queues
import threading

import grpc
import pytest
from google.protobuf import descriptor_pb2

from node import API, wait_until
from remote import make, messages
from waiting import patience

SERVICE = "/corvo.v1.WorkerService/"
S = 20  # seconds a call may take on an idle machine


def unary(channel, method, service=SERVICE, **named):
    return channel.unary_unary(
        service + method, request_serializer=lambda m: m.SerializeToString(),
        response_deserializer=messages()[method + "Response"].FromString)


class Stub:
    """The methods of the service, by name."""

    def __init__(self, channel):
        self.channel = channel

    def __getattr__(self, method):
        call = unary(self.channel, method)

        def run(timeout=patience(S), metadata=None, compression=None,
                **fields):
            return call(make(method + "Request", **fields), timeout=timeout,
                        metadata=metadata, compression=compression)
        return run


class Stream:
    """One StreamLifecycle stream: frames out, answers in."""

    def __init__(self, channel, metadata=None):
        self.frames = queues.Queue()
        call = channel.stream_stream(
            SERVICE + "StreamLifecycle",
            request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=messages()[
                "LifecycleStreamResponse"].FromString)
        self.call = call(iter(self.frames.get, None), metadata=metadata)
        self.answers = queues.Queue()
        self.error = None
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        try:
            for answer in self.call:
                self.answers.put(answer)
        except grpc.RpcError as e:
            self.error = e
        self.answers.put(None)

    def send(self, **fields):
        self.frames.put(make("LifecycleStreamRequest", **fields))

    def receive(self):
        return self.answers.get(timeout=patience(S))

    def ask(self, **fields):
        self.send(**fields)
        return self.receive()

    def end(self):
        self.frames.put(None)
        assert self.receive() is None
        self.thread.join(patience(S))
        return self.error


@pytest.fixture
def channel(node):
    with grpc.insecure_channel(f"127.0.0.1:{node.port}") as c:
        yield c


@pytest.fixture
def stub(channel):
    return Stub(channel)


@pytest.fixture
def stream(channel):
    s = Stream(channel)
    yield s
    s.call.cancel()


def refused(fn, **named):
    with pytest.raises(grpc.RpcError) as e:
        fn(**named)
    return e.value


# --- unary ---


def test_the_life_of_a_job(stub, client, queue):
    made = stub.Enqueue(queue=queue, payload_json='{"n":1}', max_retries=5)
    job = stub.Fetch(queues=[queue], worker_id="w", lease_duration=30)
    assert (job.found, job.job_id, job.max_retries) == (True, made.job_id, 5)
    beat = stub.Heartbeat(jobs={job.job_id: make("HeartbeatJobUpdate")})
    assert beat.jobs[job.job_id].status == "ok"
    assert stub.Fail(job_id=job.job_id, error="x",
                     requeue=True).status == "pending"
    job, = stub.FetchBatch(queues=[queue], count=9).jobs
    assert stub.AckBatch(items=[make("AckBatchItem",
                                     job_id=job.job_id)]).acked == 1
    assert client.state(job.job_id) == "completed"
    other = stub.Enqueue(queue=queue).job_id
    stub.Fetch(queues=[queue])
    stub.Ack(job_id=other)
    assert client.state(other) == "completed"
    assert stub.GetServerInfo().server_version


def test_an_error_has_code_text_and_details(stub):
    e = refused(stub.Enqueue)
    assert e.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert e.details() == "queue is required"
    details = dict(e.trailing_metadata())["grpc-status-details-bin"]
    assert b"VALIDATION_ERROR" in details
    assert refused(stub.Ack, job_id="job_none").code() == \
        grpc.StatusCode.NOT_FOUND


def test_unknown_methods_are_unimplemented(channel):
    call = channel.unary_unary(SERVICE + "Nothing")
    e = refused(lambda: call(b"", timeout=patience(S)))
    assert e.code() == grpc.StatusCode.UNIMPLEMENTED


def test_a_deadline_of_the_client(stub, queue):
    """It is answered in time, with nothing, where it would wait for 30 s."""
    assert not stub.Fetch(queues=[queue], timeout=5).found


def test_gzip_both_ways(stub, queue):
    text = json.dumps("x" * 100000)
    stub.Enqueue(queue=queue, payload_json=text,
                 compression=grpc.Compression.Gzip)
    assert stub.Fetch(queues=[queue]).payload_json == text


# --- one stream ---


def test_a_frame_with_no_work_is_a_ping(stream):
    for i in range(1, 4):
        assert stream.ask(request_id=i) == make("LifecycleStreamResponse",
                                                request_id=i)
    assert stream.end() is None


def test_jobs_are_added_fetched_and_acked(stream, queue):
    item = make("LifecycleEnqueueItem", queue=queue, payload_json="7")
    a = stream.ask(request_id=1, enqueues=[item, item])
    ids = list(a.enqueued_job_ids)
    assert len(ids) == 2 and a.error == ""
    a = stream.ask(request_id=2, queues=[queue], worker_id="w", fetch_count=5)
    assert [j.job_id for j in a.jobs] == ids
    assert {j.payload_json for j in a.jobs} == {"7"} and len(a.jobs) == 2
    acks = [make("AckBatchItem", job_id=j.job_id, lease_token=j.lease_token)
            for j in a.jobs]
    a = stream.ask(request_id=3, acks=acks, queues=[queue], fetch_count=1,
                   enqueues=[item])
    assert (a.acked, len(a.enqueued_job_ids), len(a.jobs)) == (2, 1, 0)
    a = stream.ask(request_id=4, queues=[queue], fetch_count=1)
    assert len(a.jobs) == 1


def test_answers_come_in_order(stream, queue):
    item = make("LifecycleEnqueueItem", queue=queue)
    for i in range(1, 201):
        stream.send(request_id=i, enqueues=[item] if i % 3 else [])
    got = [stream.receive().request_id for _ in range(200)]
    assert got == list(range(1, 201))


def test_errors_do_not_end_the_stream(stream, queue):
    good = make("LifecycleEnqueueItem", queue=queue)
    a = stream.ask(request_id=1,
                   enqueues=[make("LifecycleEnqueueItem"), good])
    assert a.error == "enqueue: queue is required"
    assert a.code == "VALIDATION_ERROR" and len(a.enqueued_job_ids) == 1
    a = stream.ask(request_id=2, acks=[make("AckBatchItem")])
    assert a.error == "ack: job_id is required"
    a = stream.ask(request_id=3, fetch_count=1)
    assert a.error == "fetch: queues is required"
    a = stream.ask(request_id=4, enqueues=[make(
        "LifecycleEnqueueItem", queue=queue, payload_json="{")])
    assert a.error.startswith("enqueues[0].payload_json: must be JSON")
    assert stream.ask(request_id=5).error == ""


def test_a_fetch_that_waits_is_answered_when_a_job_comes(
        stream, client, queue):
    stream.send(request_id=1, queues=[queue], fetch_count=1, wait_ms=60000)
    # others are answered meanwhile
    assert stream.ask(request_id=2).request_id == 2
    job = client.enqueue(queue)
    a = stream.receive()
    assert (a.request_id, a.jobs[0].job_id) == (1, job)


def test_fails_and_heartbeats(stream, client, queue):
    client.enqueue(queue)
    job, = stream.ask(request_id=1, queues=[queue], fetch_count=1).jobs
    a = stream.ask(request_id=2, heartbeats=[
        make("LifecycleHeartbeatItem", job_id=job.job_id,
             progress_json="5", lease_token=job.lease_token),
        make("LifecycleHeartbeatItem", job_id="job_none")])
    assert [(b.job_id, b.status) for b in a.heartbeats] == [
        (job.job_id, "ok"), ("job_none", "cancel")]
    a = stream.ask(request_id=3, fails=[
        make("LifecycleFailItem", job_id=job.job_id, error="no",
             lease_token=job.lease_token),
        make("LifecycleFailItem", job_id="job_none")])
    assert [f.status for f in a.failed] == ["retrying", ""]
    assert a.failed[1].code == "NOT_FOUND"
    assert a.error.startswith("fail: ")
    assert client.job(job.job_id)["progress"] == 5


def test_a_cancel_is_pushed(stream, client, queue):
    client.enqueue(queue)
    job, = stream.ask(request_id=1, queues=[queue], fetch_count=1,
                      push_cancels=True).jobs
    assert client.post(f"{API}/jobs/{job.job_id}/cancel").status == 200
    a = stream.receive()
    assert (a.request_id, list(a.cancelled_job_ids)) == (0, [job.job_id])


def test_a_frame_sent_again_adds_nothing_twice(channel, client, queue):
    item = make("LifecycleEnqueueItem", queue=queue)
    got = []
    for i in range(2):  # a client that lost its connection sends it again
        s = Stream(channel)
        a = s.ask(request_id=i + 1, enqueues=[item], worker_id=f"w{i}",
                  idempotency_key=queue)
        assert a.error == ""
        got.append(a.enqueued_job_ids[0])
        assert s.end() is None
    assert got[0] == got[1]
    assert client.queue(queue)["pending"] == 1
    s = Stream(channel)
    a = s.ask(request_id=3, enqueues=[item, item], idempotency_key=queue)
    assert a.code == "IDEMPOTENCY_MISMATCH"
    assert s.end() is None


def test_fields_that_do_nothing_are_named(channel, stream, client, queue):
    """Or refused, when the client asks for that."""
    client.enqueue(queue)
    job, = stream.ask(request_id=1, queues=[queue], fetch_count=1).jobs
    ack = make("AckBatchItem", job_id=job.job_id,
               usage=make("UsageReport", input_tokens=5))
    item = make("LifecycleEnqueueItem", queue=queue)
    beat = make("LifecycleHeartbeatItem", job_id=job.job_id, stream_delta="x")
    strict = Stream(channel, metadata=[("x-corvo-strict", "1")])
    a = strict.ask(request_id=2, acks=[ack], enqueues=[item],
                   heartbeats=[beat])
    assert a.error.startswith("heartbeats[0].stream_delta: would be ignored")
    assert (a.acked, a.code) == (0, "VALIDATION_ERROR")
    assert not a.enqueued_job_ids
    strict.call.cancel()
    a = stream.ask(request_id=3, acks=[ack], enqueues=[item],
                   heartbeats=[beat])
    assert (a.acked, len(a.enqueued_job_ids), a.error) == (1, 1, "")
    assert list(a.ignored) == ["heartbeats[0].stream_delta"]
    assert client.job(job.job_id)["usage"]["input_tokens"] == 5


def test_an_agent_on_a_stream(stream, client, queue):
    item = make("LifecycleEnqueueItem", queue=queue,
                agent=make("AgentConfig", max_iterations=2, max_cost_usd=1.5,
                           iteration_timeout="90s"))
    a = stream.ask(request_id=1, enqueues=[item])
    job, = stream.ask(request_id=2, queues=[queue], fetch_count=1).jobs
    assert job.job_id == a.enqueued_job_ids[0]
    assert (job.agent.iteration, job.agent.max_iterations) == (1, 2)
    assert (job.agent.max_cost_usd, job.agent.iteration_timeout) == (
        1.5, "1m30s")
    ack = make("AckBatchItem", job_id=job.job_id, lease_token=job.lease_token,
               agent_status="continue", checkpoint_json="[1]")
    assert stream.ask(request_id=3, acks=[ack]).acked == 1
    job, = stream.ask(request_id=4, queues=[queue], fetch_count=1).jobs
    assert (job.agent.iteration, job.checkpoint_json) == (2, "[1]")
    ack = make("AckBatchItem", job_id=job.job_id, lease_token=job.lease_token,
               agent_status="hold", hold_reason="ask me")
    assert stream.ask(request_id=5, acks=[ack]).acked == 1
    assert client.job(job.job_id)["hold_reason"] == "ask me"


def test_a_fetch_is_checked_as_over_http(stream, queue):
    for fields, text in [
            ({"lease_duration": 90000}, "lease_duration: must be from 0.001"),
            ({"queues": [f"{queue}{i}" for i in range(257)]}, "at most 256")]:
        fields = {"queues": [queue], "fetch_count": 1, **fields}
        a = stream.ask(request_id=1, **fields)
        assert text in a.error and a.code == "VALIDATION_ERROR"


def test_jobs_of_a_client_that_left_go_back(node, client, queue):
    """Waiting fetches of a broken stream take nothing with them."""
    with grpc.insecure_channel(f"127.0.0.1:{node.port}") as c:
        s = Stream(c)
        assert s.ask(request_id=1).request_id == 1
        s.send(request_id=2, queues=[queue], fetch_count=1, wait_ms=60000)
        wait_until(lambda: client.parked() >= 1, 10, "a waiting fetch")
        s.call.cancel()
    wait_until(lambda: client.parked() == 0, 10, "the end of the fetch")
    job = client.enqueue(queue)
    assert client.fetch(queue)["job_id"] == job


def test_bad_bytes_end_the_stream_or_the_frame(channel):
    call = channel.stream_stream(SERVICE + "StreamLifecycle")
    got = list(call(iter([b"\x08\x07\xff\xff\xff"]), timeout=patience(S)))
    answer = messages()["LifecycleStreamResponse"].FromString(got[0])
    assert answer.request_id == 7
    assert answer.error.startswith("invalid protobuf")


# --- other streams ---


def test_events_are_sent_as_they_happen(channel, client, queue):
    call = channel.unary_stream(
        SERVICE + "Subscribe",
        request_serializer=lambda m: m.SerializeToString(),
        response_deserializer=messages()["SubscribeEvent"].FromString)
    events = call(make("SubscribeRequest", queues=[queue],
                       types=["enqueued", "started"]), timeout=patience(S * 3))
    events.initial_metadata()
    job = client.enqueue(queue)
    client.fetch(queue)
    got = [next(events), next(events)]
    assert [(e.type, e.job_id, e.queue) for e in got] == [
        ("enqueued", job, queue), ("started", job, queue)]
    assert got[0].seq > 0 and got[0].at_ns > 1e18
    events.cancel()
    later = call(make("SubscribeRequest", queues=[queue],
                      last_event_id=got[0].seq), timeout=patience(S * 3))
    assert next(e for e in later if e.type == "started").seq == got[1].seq
    later.cancel()
    e = refused(lambda: list(call(make("SubscribeRequest", types=["x"]))))
    assert e.code() == grpc.StatusCode.INVALID_ARGUMENT


def test_health_for_probes(channel):
    check = channel.unary_unary("/grpc.health.v1.Health/Check")
    assert check(b"", timeout=patience(S)) == b"\x08\x01"
    assert check(b"\x0a\x16corvo.v1.WorkerService",
                 timeout=patience(S)) == b"\x08\x01"
    e = refused(lambda: check(b"\x0a\x01x", timeout=patience(S)))
    assert e.code() == grpc.StatusCode.NOT_FOUND
    watch = channel.unary_stream("/grpc.health.v1.Health/Watch")
    seen = watch(b"", timeout=patience(S))
    assert next(seen) == b"\x08\x01"
    seen.cancel()


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_reflection_tells_what_there_is(channel, version):
    call = channel.stream_stream(
        f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo")
    symbol = b"corvo.v1.WorkerService.Enqueue"
    answers = list(call(iter([b"\x3a\x00", b"\x22" + bytes([len(symbol)]) +
                              symbol, b"\x22\x01x"]), timeout=patience(S)))
    assert b"corvo.v1.WorkerService" in answers[0]
    assert f"grpc.reflection.{version}.".encode() in answers[0]
    at = answers[1].index(b"\x0a\x15corvo/v1/worker.proto")
    file = descriptor_pb2.FileDescriptorProto.FromString(answers[1][at:])
    assert len(file.service[0].method) == 10
    assert b"there is nothing of that name" in answers[2]
