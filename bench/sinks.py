"""The receiver of push.py and exact.py, and what it saw."""

import contextlib
import subprocess
from collections import namedtuple

from figures import BUILD
from node import API, free_port

Call = namedtuple("Call", "at host t id")


class Sink:
    def __init__(self, hosts, silent, late):
        self.port = free_port()
        self.process = subprocess.Popen(
            [str(BUILD / "bench" / "sink"), str(self.port), str(hosts),
             str(silent), str(late)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"

    def url(self, host=0):
        return f"http://127.0.{1 + host // 200}.{1 + host % 200}:{self.port}/"

    def end(self):
        """All calls, in the order they came."""
        out, _ = self.process.communicate(timeout=60)
        return [Call(int(at), int(host), int(t), id_) for at, host, t, id_ in
                (line.split(" ") for line in out.splitlines())]


@contextlib.contextmanager
def sinking(hosts=1, silent=-1, late=-1):
    s = Sink(hosts, silent, late)
    try:
        yield s
    finally:
        if s.process.poll() is None:
            s.process.kill()
            s.process.communicate()


def push_queue(client, queue, url, **members):
    a = client.request("PATCH", f"{API}/queues/{queue}",
                       {"push": {"url": url, **members}})
    assert a.status == 200, a


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))]
