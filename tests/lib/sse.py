"""A client of server-sent events: text/event-stream as the standard reads it.

What arrived of a frame before the connection ended counts for nothing, and
the id of the last complete one is where a client goes on.
"""

import http.client
import json
import socket
import struct
from dataclasses import dataclass

from waiting import patience

API = "/api/v1"


@dataclass
class Frame:
    id: int | None = None
    event: str | None = None
    data: str | None = None
    comment: str | None = None

    @property
    def json(self):
        return json.loads(self.data)


class EventStream:
    """One connection. The head has been read; status is not 200 if refused."""

    def __init__(self, port, query="", path=f"{API}/events", last_id=None,
                 headers=None, receive_buffer=None, timeout=30.0):
        self.last_id = last_id
        self.rest = b""  # of a frame that is not complete
        self.received = 0  # bytes so far
        self.conn = http.client.HTTPConnection("127.0.0.1", port)
        sock = socket.socket()
        if receive_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF,
                            receive_buffer)
        sock.settimeout(patience(timeout))
        self.conn.sock = sock
        headers = dict(headers or {})
        if last_id is not None:
            headers["Last-Event-ID"] = str(last_id)
        try:
            sock.connect(("127.0.0.1", port))
            self.conn.request("GET", path + query, headers=headers)
            self.answer = self.conn.getresponse()
        except BaseException:
            self.conn.close()
            raise
        self.status = self.answer.status
        self.headers = self.answer.headers

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.answer.close()
        self.conn.close()

    def reset(self):
        """Closes without saying goodbye."""
        self.conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                  struct.pack("ii", 1, 0))
        self.close()

    def refusal(self):
        return json.loads(self.answer.read())

    def read(self, most=65536):
        """Frames that became complete by the next bytes; None at the end."""
        chunk = self.answer.read1(most)
        if not chunk:
            assert not self.rest, f"ended inside a frame: {self.rest[-200:]}"
            return None
        self.received += len(chunk)
        *frames, self.rest = (self.rest + chunk).split(b"\n\n")
        return [self._frame(f.decode()) for f in frames]

    def _frame(self, text):
        frame = Frame()
        for line in text.split("\n"):
            name, colon, value = line.partition(":")
            assert colon, f"no field: {line!r}"
            value = value.removeprefix(" ")
            if name == "id":
                frame.id = self.last_id = int(value)
            elif name == "event":
                frame.event = value
            elif name == "data":
                assert frame.data is None, "data of several lines"
                frame.data = value
            elif name == "":
                frame.comment = value
            else:
                raise AssertionError(f"unknown field: {line!r}")
        return frame

    def frames(self):
        """All frames up to the end of the stream."""
        while (some := self.read()) is not None:
            yield from some

    def events(self):
        """The data of each frame that has some, parsed and checked."""
        for frame in self.frames():
            if frame.data is None:
                continue
            event = frame.json
            if frame.event != "error":
                assert frame.id == event["seq"]
                assert frame.event == event["type"]
            yield event

    def take(self, count):
        """So many events; a timeout fails the test."""
        got = []
        for event in self.events():
            got.append(event)
            if len(got) == count:
                break
        return got

    def until(self, condition):
        """Events up to the first one that meets the condition."""
        got = []
        for event in self.events():
            got.append(event)
            if condition(event):
                break
        else:
            raise AssertionError(f"the stream ended after {got[-3:]}")
        return got


class Stream(EventStream):
    """One that must be there; only frames with data count."""

    def __init__(self, port, path, headers=None, timeout=60.0):
        super().__init__(port, path=path, headers=headers, timeout=timeout)
        assert self.status == 200, self.refusal()
        kind = self.headers["Content-Type"]
        assert kind.startswith("text/event-stream"), kind

    def frames(self):
        for frame in super().frames():
            if frame.data is not None:
                yield frame
