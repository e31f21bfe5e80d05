"""A receiver that speaks HTTP/2 over TLS, as little of it as calls need: every
request is answered 204, and what of it is told apart is its connection and its
stream."""

import contextlib
import socket
import ssl
import struct
import subprocess
import threading

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS, PING, WINDOW_UPDATE = 0, 1, 4, 6, 8
END_STREAM, ACK, END_HEADERS = 1, 1, 4
STATUS_204 = b"\x89"  # of HPACK's table


def certificate(folder, name, address="127.0.0.1"):
    """A key and a certificate that it signed itself, for that address."""
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days",
         "2", "-keyout", str(key), "-out", str(cert), "-subj", f"/CN={name}",
         "-addext", f"subjectAltName=IP:{address}"],
        check=True, capture_output=True, timeout=60)
    return cert, key


def frame(kind, flags, stream, body=b""):
    return struct.pack(">I", len(body))[1:] + \
        struct.pack(">BBI", kind, flags, stream) + body


class H2Sink:
    def __init__(self, cert, key):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(cert, key)
        self.context.set_alpn_protocols(["h2"])
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.calls = []  # (connection, stream)
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self):
        return f"https://127.0.0.1:{self.port}/"

    def _accept(self):
        while True:
            try:
                conn, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(conn,),
                             daemon=True).start()

    def _serve(self, conn):
        with contextlib.suppress(OSError, EOFError), conn, \
                self.context.wrap_socket(conn, server_side=True) as tls:
            self.connections += 1
            number = self.connections
            assert tls.selected_alpn_protocol() == "h2"
            assert self._read(tls, len(PREFACE)) == PREFACE
            tls.sendall(frame(SETTINGS, 0, 0))
            while True:
                self._take(tls, number)

    def _read(self, tls, n):
        got = b""
        while len(got) < n:
            part = tls.recv(n - len(got))
            if not part:
                raise EOFError
            got += part
        return got

    def _take(self, tls, number):
        head = self._read(tls, 9)
        n = int.from_bytes(head[:3], "big")
        kind, flags, stream = struct.unpack(">BBI", head[3:])
        body = self._read(tls, n)
        if kind == SETTINGS and not flags & ACK:
            tls.sendall(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            tls.sendall(frame(PING, ACK, 0, body))
        if kind == DATA and n > 0:
            tls.sendall(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", n)))
        if kind in (DATA, HEADERS) and flags & END_STREAM:
            self.calls.append((number, stream))
            tls.sendall(frame(HEADERS, END_HEADERS | END_STREAM, stream,
                              STATUS_204))

    def close(self):
        self.listener.close()


@contextlib.contextmanager
def h2sink(cert, key):
    s = H2Sink(cert, key)
    try:
        yield s
    finally:
        s.close()
