"""A receiver of calls: an HTTP server that keeps what it was sent, and answers
what a test tells it to."""

import contextlib
import http.server
import socketserver
import threading
import time


class Call:
    """One request: when it came, and what it was."""

    def __init__(self, handler, body):
        self.at = time.time()
        self.method = handler.command
        self.path = handler.path
        self.headers = {k.lower(): v for k, v in handler.headers.items()}
        self.body = body

    @property
    def job_id(self):
        return self.headers["x-corvo-job-id"]


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _take(self):
        sink = self.server.sink
        n = int(self.headers.get("Content-Length", 0))
        call = Call(self, self.rfile.read(n))
        with sink.lock:
            sink.calls.append(call)
        status, headers, body = sink.answer(call)
        self.send_response(status)
        for k, v in headers.items():
            self.send_header(k, v)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_PUT = do_PATCH = do_GET = _take

    def log_message(self, *_):
        pass


class _Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 1024
    address_family = http.server.HTTPServer.address_family

    def handle_error(self, *_):
        pass  # clients may go away


class Sink:
    """`answer` takes a Call and gives (status, headers, body)."""

    def __init__(self, answer=None, port=0, host="127.0.0.1"):
        self.lock = threading.Lock()
        self.calls = []
        self.answer = answer or (lambda call: (200, {}, b""))
        self.server = _Server((host, port), _Handler)
        self.server.sink = self
        self.host = host
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever,
                                       kwargs={"poll_interval": 0.05},
                                       daemon=True)
        self.thread.start()

    def url(self, path="/"):
        return f"http://{self.host}:{self.port}{path}"

    def of(self, job_id):
        with self.lock:
            return [c for c in self.calls if c.job_id == job_id]

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@contextlib.contextmanager
def sink(answer=None, **named):
    s = Sink(answer, **named)
    try:
        yield s
    finally:
        s.close()
