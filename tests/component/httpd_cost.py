"""What hostile clients cost corvo-httpd: memory at its peak, and whether
others are served meanwhile."""

import contextlib
from pathlib import Path

from httpd_fixture import SANITIZED

GROWN_MAX_KB = 8 << 10


def memory_kb(h, name):
    text = Path(f"/proc/{h.proc.pid}/status").read_text()
    return int(text.split(name + ":")[1].split()[0])


@contextlib.contextmanager
def bounded(h, what, most_kb=GROWN_MAX_KB):
    """What it does takes little memory, and others are served beside it."""
    Path(f"/proc/{h.proc.pid}/clear_refs").write_text("5")  # the peak is now
    before = memory_kb(h, "VmRSS")
    yield
    assert h.request("GET", "/healthz").status == 200
    grown = memory_kb(h, "VmHWM") - before
    print(f"{what}: {grown} KB more at most")
    assert SANITIZED or grown < most_kb


def metric(h, name, label=""):
    text = h.request("GET", "/metrics").body.decode()
    line = next(x for x in text.splitlines()
                if x.startswith(name) and label in x)
    return float(line.split()[-1])


def ended(h, reason):
    """Connections of HTTP/2 that were."""
    return metric(h, "corvo_http2_ended_total", f'reason="{reason}"')


def held(h):
    return metric(h, "corvo_http_memory_bytes")
