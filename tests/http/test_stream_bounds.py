"""How much a stream holds: frames, bytes, jobs on their way and jobs whose
cancels are told. Beyond that it waits, gives back or forgets, and says so."""

import struct

from h2client import DATA, Client, Raw, frame
from node import API, wait_until
from remote import envelope, make, messages
from sse import EventStream
from test_streams_grpc import Stream, channel, stream  # noqa: F401
from waiting import patience

NODE_FLAGS = ["--stream-max-fps=0"]
LIFECYCLE = "/corvo.v1.WorkerService/StreamLifecycle"
GRPC = ("content-type", "application/grpc")
S = 20  # seconds an answer may take on an idle machine
FRAMES = 256  # of one stream at a time
KEPT = 1 << 20  # bytes of them
JOBS_KEPT = 16 << 20  # bytes of jobs that are not sent yet
PUSHED = 4096  # jobs whose cancels are told


def enqueue_all(client, queue, number, size=0):
    payload = {"payload": "x" * size} if size else {}
    a = client.post(f"{API}/enqueue/batch",
                    {"jobs": [{"queue": queue, **payload}] * number})
    assert a.status == 201, a
    return a.json["job_ids"]


def asking(queue, **fields):
    """An envelope with a frame that asks for one job and waits."""
    return envelope(0, make("LifecycleStreamRequest", queues=[queue],
                            fetch_count=1, wait_ms=60000,
                            **fields).SerializeToString())


def test_more_frames_wait_until_one_is_answered(
        channel, stream, client, queue):
    for i in range(FRAMES):
        stream.send(request_id=i + 1, queues=[queue], fetch_count=1,
                    wait_ms=60000)
    wait_until(lambda: client.parked() == FRAMES, 20, "all to wait")
    stream.send(request_id=1000)
    other = Stream(channel)  # what it says comes behind that
    assert other.ask(request_id=1).request_id == 1
    assert other.end() is None
    job = client.enqueue(queue)
    first = stream.receive()
    assert [j.job_id for j in first.jobs] == [job]
    assert stream.receive().request_id == 1000


def test_frames_under_way_hold_a_bounded_number_of_bytes(
        node, stream, client, queue):
    """No more are read while the log has those there are."""
    size, number = 60000, 100
    item = make("LifecycleEnqueueItem", queue=queue,
                payload_json='"' + "x" * size + '"')

    def frames():
        return client.metrics()["corvo_lifecycle_frames_total"]
    before = frames()
    node.slow_log(1)
    try:
        for i in range(number):
            stream.send(request_id=i + 1, enqueues=[item])
        assert stream.receive().request_id == 1
        # those of the first round, and of the next
        taken = frames() - before
    finally:
        node.slow_log(0)
    assert taken * size <= 3 * KEPT < number * size, taken
    got = [stream.receive() for _ in range(number - 1)]
    assert [a.request_id for a in got] == list(range(2, number + 1))
    assert all(len(a.enqueued_job_ids) == 1 for a in got)


def test_jobs_of_a_client_that_does_not_read_are_bounded_by_bytes(
        node, client, queue):
    """It had asked for them before; what does not fit goes back."""
    size, number = 200000, 120
    no_window = struct.pack(">HI", 4, 0)  # SETTINGS_INITIAL_WINDOW_SIZE
    with Raw(node.port, patience(S), no_window) as c:
        c.send(c.request(1, False, LIFECYCLE, "POST", [GRPC]))
        for i in range(number):
            c.send(frame(DATA, 0, 1, asking(queue, request_id=i + 1)))
        wait_until(lambda: client.parked() == number, 20, "all to wait")
        for _ in range(number // 20):
            enqueue_all(client, queue, 20, size)
        wait_until(lambda: client.parked() == 0, 30, "the last answer")

        def is_settled():
            q = client.queue(queue)
            return q["pending"] + q["active"] == number and \
                q["active"] * size <= JOBS_KEPT + size
        wait_until(is_settled, 20, "what is too much to go back")
        assert client.queue(queue)["active"] > 10
    wait_until(lambda: client.queue(queue)["active"] == 0, 20,
               "all others back")


def test_cancels_of_the_newest_jobs_are_told(stream, client, queue):
    ids = enqueue_all(client, queue, PUSHED + 1)
    got = []
    while len(got) <= PUSHED:
        a = stream.ask(request_id=1, queues=[queue], fetch_count=512,
                       push_cancels=True, lease_duration=600)
        assert a.jobs and a.error == ""
        got += [j.job_id for j in a.jobs]
    assert got == ids
    for job in (ids[0], ids[-1], ids[1]):
        assert client.post(f"{API}/jobs/{job}/cancel").status == 200
    told = [list(stream.receive().cancelled_job_ids) for _ in range(2)]
    assert told == [[ids[-1]], [ids[1]]]  # the oldest was one too many


def test_a_fetch_has_a_largest_number_of_jobs(stream, client, queue):
    enqueue_all(client, queue, 600)
    a = stream.ask(request_id=1, queues=[queue], fetch_count=1000000)
    assert (len(a.jobs), a.error) == (512, "")
    a = stream.ask(request_id=2, queues=[queue], fetch_count=1000000)
    assert len(a.jobs) == 88


def read_messages(c, i, number):
    """So many of the stream, from its first on."""
    found, at = [], 0
    while len(found) < number:
        body = c.answers[i].body
        n = struct.unpack(">I", body[at + 1:at + 5])[0] \
            if len(body) >= at + 5 else len(body)
        if len(body) < at + 5 + n:
            assert c.read()
            continue
        found.append(messages()["LifecycleStreamResponse"].FromString(
            body[at + 5:at + 5 + n]))
        at += 5 + n
    return found


def test_a_cancel_of_a_job_on_its_way_follows_the_job(node, client, queue):
    """A large one before it keeps it here, as the client does not read."""
    with Client(node.port, patience(S), eager=False) as c:
        i = c.begin("POST", LIFECYCLE,
                    asking(f"{queue}-large", request_id=1, push_cancels=True) +
                    asking(queue, request_id=2), [GRPC], end=False)
        wait_until(lambda: client.parked() == 2, 10, "both to wait")
        large, = enqueue_all(client, f"{queue}-large", 1, 200000)
        job = client.enqueue(queue)
        wait_until(lambda: client.state(job) == "active", 10, "the fetch")
        with EventStream(node.port, f"?job_ids={job}&types=cancelling") as s:
            assert client.post(f"{API}/jobs/{job}/cancel").status == 200
            s.take(1)  # it was heard of here
        for stream_id in (i, None):
            c.h2.increment_flow_control_window(1 << 20, stream_id)
        c.flush()
        got = read_messages(c, i, 3)
    assert [[j.job_id for j in m.jobs] for m in got] == [[large], [job], []]
    assert list(got[2].cancelled_job_ids) == [job]


def test_jobs_for_a_full_queue_cost_few_entries(stream, client, queue):
    """As many as there is room for are added, the first ones."""
    def entries():
        return client.metrics()["corvo_raft_entries_total"]
    a = client.request("PATCH", f"{API}/queues/{queue}", {"max_backlog": 3})
    assert a.status == 200, a
    job = make("LifecycleEnqueueItem", queue=queue)
    other = make("LifecycleEnqueueItem", queue=f"{queue}-other")
    before = entries()
    a = stream.ask(request_id=1, enqueues=[job] * 1000 + [other])
    assert [bool(e.job_id) for e in a.enqueued] == \
        [True] * 3 + [False] * 997 + [True]
    assert (a.code, a.retry_after_ms) == ("QUEUE_FULL", 1000)
    assert client.queue(queue)["pending"] == 3
    assert entries() - before < 40
