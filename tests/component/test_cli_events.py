"""corvo events --follow against a fake server: what a stream may hold."""

import json

from cli_fixture import corvo, fake  # noqa: F401 (a fixture)

STREAM = "/api/v1/events?"
LOST = (b'event: error\ndata: {"error": "what comes next is no longer kept", '
        b'"code": "EVENTS_LOST"}\n\n')


def event(seq, **members):
    data = {"type": "enqueued", "seq": seq, **members}
    return f"id: {seq}\nevent: enqueued\ndata: {json.dumps(data)}\n\n".encode()


def follow(fake, *streams, output=()):
    """Ends with the last of the streams, which says that it has to."""
    left = list(streams)
    fake.reply("GET", STREAM, lambda asked: left.pop(0))
    p = corvo("events", "--follow", *output, fake=fake)
    assert left == []
    return p


def test_events_of_every_form(fake):
    p = follow(fake, b":keepalive\n\n" + event(1, queue="q") + b"id: 7\n\n"
               b'retry: 5\nunknown\ndata:{"seq":8,"type":"moved"}\n\n'
               b"data: no json\n\ndata: [1]\n\n" + LOST)
    assert p.stdout == "1  enqueued  q\n8  moved\n"
    assert (p.returncode, p.stderr) == \
        (1, "Error: what comes next is no longer kept\n")


def test_goes_on_behind_the_last_whole_event(fake):
    """One that broke off comes again."""
    p = follow(fake, event(1) + event(2)[:-1], b":keepalive\n\n",
               event(2) + LOST, output=("--output", "json"))
    assert [json.loads(x)["seq"] for x in p.stdout.splitlines()] == [1, 2]
    assert [r[3].get("Last-Event-ID") for r in fake.requests] == \
        [None, "1", "1"]
    assert p.stderr.splitlines() == [
        "The connection ended; trying again"] * 2 + [
        "Error: what comes next is no longer kept"]


def test_refused(fake):
    fake.reply("GET", STREAM, {"error": "no", "code": "FORBIDDEN"}, 403)
    p = corvo("events", "--follow", fake=fake)
    assert (p.returncode, p.stdout, p.stderr) == (1, "", "Error: no\n")
    assert len(fake.requests) == 1


def test_line_without_an_end(fake):
    fake.reply("GET", STREAM, b"data: " + b"x" * (17 << 20))
    p = corvo("events", "--follow", fake=fake)
    assert p.returncode == 1 and "answer is too large" in p.stderr
