"""A client of server-sent events: one connection, frame by frame."""

import http.client
import json


class Frame:
    def __init__(self, id, event, data):
        self.id = id
        self.event = event
        self.data = data

    @property
    def json(self):
        return json.loads(self.data)

    def __repr__(self):
        return f"<{self.id} {self.event} {self.data[:200]}>"


class Stream:
    """Open from the start; the answer's head is checked."""

    def __init__(self, port, path, headers=None, timeout=60.0):
        self.conn = http.client.HTTPConnection("127.0.0.1", port,
                                               timeout=timeout)
        self.conn.request("GET", path, headers=headers or {})
        self.answer = self.conn.getresponse()
        assert self.answer.status == 200, self.answer.read()
        kind = self.answer.getheader("Content-Type")
        assert kind.startswith("text/event-stream"), kind

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.conn.close()

    def frames(self):
        """Frames that carry data, until the server ends the stream."""
        members = {}
        while line := self.answer.readline():
            text = line.decode().rstrip("\n")
            if text == "":
                if "data" in members:
                    yield Frame(members.get("id"), members.get("event"),
                                members["data"])
                members = {}
            elif not text.startswith(":"):
                name, _, value = text.partition(":")
                members[name] = value.removeprefix(" ")
