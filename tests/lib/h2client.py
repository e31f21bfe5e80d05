"""HTTP/2 on a plain socket: a client by python3-h2, and one of raw frames."""

import json
import socket
import struct

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import hpack

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
(DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY,
 WINDOW_UPDATE, CONTINUATION) = range(10)
END_STREAM, END_HEADERS, ACK = 1, 4, 1
ENHANCE_YOUR_CALM = 11


class Answer:
    def __init__(self):
        self.headers = {}
        self.body = b""
        self.over = False
        self.reset = None  # the code it was reset with

    @property
    def status(self):
        return int(self.headers[":status"])

    def json(self):
        return json.loads(self.body)

    def error(self):
        return self.status, self.json()["code"]


class Client:
    """Several requests at a time; reads when it is asked for an answer."""

    def __init__(self, port, timeout, eager=True):
        self.sock = socket.create_connection(("127.0.0.1", port), timeout)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.eager = eager  # takes what comes; else its windows fill
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(
            client_side=True, header_encoding="utf-8",
            validate_outbound_headers=False,
            normalize_outbound_headers=False))
        self.h2.initiate_connection()
        self.answers = {}
        self.gone = None  # the code of GOAWAY
        self.closed = False
        self.flush()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def flush(self):
        self.sock.sendall(self.h2.data_to_send())

    def begin(self, method, path, body=None, headers=(), end=True,
              authority="localhost"):
        """Sends the head, and the body as far as the windows go."""
        i = self.h2.get_next_available_stream_id()
        self.answers[i] = Answer()
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
        head = [(":method", method), (":path", path), (":scheme", "http"),
                (":authority", authority), *headers]
        self.h2.send_headers(i, head, end_stream=body is None and end)
        self.flush()
        if body is not None:
            self.send(i, body, end)
        return i

    def send(self, i, body, end=True):
        a = self.answers[i]
        while not a.over and a.reset is None:
            room = min(self.h2.local_flow_control_window(i), 16384)
            if room == 0 and body:
                self.read()
                continue
            piece, body = body[:room], body[room:]
            self.h2.send_data(i, piece, end_stream=end and not body)
            self.flush()
            if not body:
                return

    def read(self):
        """What comes next; False at the end."""
        data = self.sock.recv(65536)
        if not data:
            self.closed = True
            return False
        for e in self.h2.receive_data(data):
            self.note(e)
        self.flush()
        return True

    def note(self, e):
        if isinstance(e, h2.events.ConnectionTerminated):
            self.gone = int(e.error_code)
            return
        a = self.answers.get(getattr(e, "stream_id", None))
        if a is None:
            return
        if isinstance(e, (h2.events.ResponseReceived,
                          h2.events.TrailersReceived)):
            a.headers.update(e.headers)
        elif isinstance(e, h2.events.DataReceived):
            a.body += e.data
            if self.eager:
                self.h2.acknowledge_received_data(
                    e.flow_controlled_length, e.stream_id)
        elif isinstance(e, h2.events.StreamEnded):
            a.over = True
        elif isinstance(e, h2.events.StreamReset):
            a.reset = int(e.error_code)

    def is_over(self, i):
        a = self.answers[i]
        return a.over or a.reset is not None

    def answer(self, i):
        while not self.is_over(i) and self.read():
            pass
        return self.answers[i]

    def ask(self, method, path, body=None, headers=()):
        return self.answer(self.begin(method, path, body, headers))

    def reset(self, i):
        self.h2.reset_stream(i, 8)  # CANCEL
        self.flush()

    def is_ended(self):
        """Told to go, or closed."""
        while self.gone is None and not self.closed:
            try:
                self.read()
            except ConnectionResetError:
                self.closed = True
        return True


def frame(kind, flags=0, stream=0, payload=b""):
    return (struct.pack(">I", len(payload))[1:] +
            struct.pack(">BBI", kind, flags, stream) + payload)


def head(path="/healthz", method="GET", more=(), encoder=None):
    return (encoder or hpack.Encoder()).encode(
        [(":method", method), (":path", path), (":scheme", "http"),
         (":authority", "localhost"), *more])


class Raw:
    """Frames as they are, right or wrong."""

    def __init__(self, port, timeout, settings=b"", receive=None):
        """receive: bytes that fit its socket, which count only if they are
        said before it is connected."""
        self.sock = socket.socket()
        self.sock.settimeout(timeout)
        if receive is not None:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        self.sock.connect(("127.0.0.1", port))
        self.sock.sendall(PREFACE + frame(SETTINGS, payload=settings))
        self.held = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def send(self, data):
        """False: the other side has ended it."""
        try:
            self.sock.sendall(data)
            return True
        except (BrokenPipeError, ConnectionResetError):
            return False

    def request(self, stream, end=True, path="/healthz", method="GET",
                more=()):
        flags = END_HEADERS | (END_STREAM if end else 0)
        return frame(HEADERS, flags, stream, head(path, method, more))

    def frames(self):
        """(kind, flags, stream, payload) of what comes, to the end."""
        while True:
            while len(self.held) >= 9:
                n = int.from_bytes(self.held[:3], "big")
                if len(self.held) < 9 + n:
                    break
                kind, flags, stream = struct.unpack(">BBI", self.held[3:9])
                payload, self.held = self.held[9:9 + n], self.held[9 + n:]
                yield kind, flags, stream, payload
            try:
                data = self.sock.recv(65536)
            except ConnectionResetError:
                return
            if not data:
                return
            self.held += data

    def ended_with(self):
        """The code of its GOAWAY; None: it was closed without a word."""
        code = None
        for kind, _, _, payload in self.frames():
            if kind == GOAWAY:
                code = struct.unpack(">I", payload[4:8])[0]
        return code
