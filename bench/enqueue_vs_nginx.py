#!/usr/bin/env python3
"""Durable enqueues and whole lifecycles beside nginx on the same machine.

Each round measures nginx (`return 200`, wrk, 128 connections), then single
enqueues (wrk, 128 and 512 connections), one-by-one lifecycles (64 producers, 64
workers), enqueues in batches of 100 and whole lifecycles in such batches, each
on a fresh node. What counts is the ratio within a round, and the processor time
per job.

  enqueue_vs_nginx.py [rounds] [seconds]
"""

import contextlib
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from figures import (cpu_seconds, head, load, median, running_node, say, spread,
                     wait_until)
from node import free_port

CONNECTIONS = 128
MANY = 512
BATCHED = 100000  # jobs put in by batches, for each second of the others
MS = {"us": 1e-3, "ms": 1, "s": 1e3}
NGINX = """
daemon off;
worker_processes auto;
pid {dir}/nginx.pid;
error_log {dir}/error.log;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    client_body_temp_path {dir}/body;
    proxy_temp_path {dir}/proxy;
    fastcgi_temp_path {dir}/fastcgi;
    uwsgi_temp_path {dir}/uwsgi;
    scgi_temp_path {dir}/scgi;
    server {{
        listen 127.0.0.1:{port};
        location / {{ return 200; }}
    }}
}}
"""


def wrk(port, seconds, path, script=None, connections=CONNECTIONS):
    """(requests per second, its output)"""
    command = ["wrk", "-t2", f"-c{connections}", f"-d{seconds}s", "--latency"]
    if script:
        command += ["-s", str(script)]
    out = subprocess.run([*command, f"http://127.0.0.1:{port}{path}"],
                         text=True, capture_output=True, check=True).stdout
    return float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1]), out


@contextlib.contextmanager
def nginx():
    place = Path(tempfile.mkdtemp(prefix="corvo-nginx-"))
    port = free_port()
    conf = place / "nginx.conf"
    conf.write_text(NGINX.format(dir=place, port=port))
    p = subprocess.Popen([shutil.which("nginx") or "/usr/sbin/nginx", "-c",
                          str(conf), "-p", str(place)],
                         stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: is_up(port), 10, "nginx")
        yield port
    finally:
        p.terminate()
        p.wait(10)
        shutil.rmtree(place)


def is_up(port):
    try:
        wrk_one = subprocess.run(
            ["wrk", "-t1", "-c1", "-d1s", f"http://127.0.0.1:{port}/"],
            capture_output=True, text=True)
        return "Requests/sec" in wrk_one.stdout
    except OSError:
        return False


def p99_ms(out):
    value, unit = re.search(r"99%\s+([\d.]+)(us|ms|s)", out).groups()
    return float(value) * MS[unit]


class Kind:
    """One kind of load: its figures, a row per round."""

    def __init__(self, name, limit, run):
        self.name, self.limit, self.run = name, limit, run
        self.rates, self.ratios, self.cpu, self.late = [], [], [], []

    def round(self, plain, seconds):
        with running_node() as node:
            pids = [node.pids()[p] for p in ("raftd", "httpd-0")]
            before = cpu_seconds(pids)
            rate, jobs, late = self.run(node, seconds)
            self.cpu.append((cpu_seconds(pids) - before) * 1e6 / jobs)
        self.rates.append(rate)
        self.ratios.append(rate / plain)
        self.late.append(late)

    def tell(self):
        say(f"{self.name}, /s", spread(self.rates),
            f"raftd + httpd {median(self.cpu):.1f} us per job")
        say("  / nginx", f"{median(self.ratios):.3f}", f">= {self.limit}")
        if any(self.late):
            say("  p99", f"{median(self.late):.1f} ms", "< 8 ms")


def enqueues(connections):
    def run(node, seconds):
        script = Path(__file__).with_name("enqueue.lua")
        rate, out = wrk(node.port, seconds, "/api/v1/enqueue", script,
                        connections)
        jobs = int(re.search(r"(\d+) requests in", out)[1])
        refused = int(re.search(r"Refused: (\d+)", out)[1])
        with node.client() as c:
            there = c.queue("bench")["pending"]
        if refused or there < jobs:
            print(f"  {refused} of {jobs} enqueues were refused, {there} jobs "
                  "are there; the figure is wrong")
        return rate, jobs, p99_ms(out)
    return run


def loaded(mode, rate, **options):
    def run(node, seconds):
        got = load(node, mode, time=seconds, **options)[rate]
        return got, got * seconds, 0
    return run


def batched(node, seconds):
    jobs = BATCHED * seconds
    return load(node, "fill", count=jobs, connections=4,
                batch=100)["fill_jobs_per_s"], jobs, 0


def main(rounds=5, seconds=4):
    head(f"G  enqueue and lifecycle beside nginx ({rounds} rounds)")
    kinds = [Kind("enqueues, 128 connections", 0.42, enqueues(CONNECTIONS)),
             Kind("enqueues, 512 connections", 0.45, enqueues(MANY)),
             Kind("lifecycles one by one, 64 + 64", 0.16,
                  loaded("lifecycle", "lifecycles_per_s", producers=64,
                         workers=64)),
             Kind("enqueues in batches of 100", 2.2, batched),
             Kind("lifecycles in batches of 100", 1.4,
                  loaded("lifecycle-batch", "batch_lifecycles_per_s",
                         producers=4, workers=4, backlog=5000))]
    plain = []
    with nginx() as port:
        for _ in range(rounds):
            plain.append(wrk(port, seconds, "/")[0])
            for kind in kinds:
                kind.round(plain[-1], seconds)
    say("nginx return 200, requests/s", spread(plain))
    for kind in kinds:
        kind.tell()


if __name__ == "__main__":
    main(*(int(x) for x in sys.argv[1:]))
