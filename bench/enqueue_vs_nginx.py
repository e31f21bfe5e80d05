#!/usr/bin/env python3
"""Durable enqueues and whole lifecycles beside nginx on the same machine.

Each round measures nginx (`return 200`, wrk, 128 connections), then single
enqueues (wrk, 128 connections) and one-by-one lifecycles (64 producers, 64
workers), each on a fresh node. What counts is the ratio within a round.

  enqueue_vs_nginx.py [rounds] [seconds]
"""

import contextlib
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from figures import head, load, median, running_node, say, spread, wait_until
from node import free_port

CONNECTIONS = 128
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


def wrk(port, seconds, path, script=None):
    """(requests per second, its output)"""
    command = ["wrk", "-t2", f"-c{CONNECTIONS}", f"-d{seconds}s"]
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


def enqueues(seconds):
    with running_node() as node:
        script = Path(__file__).with_name("enqueue.lua")
        rate, out = wrk(node.port, seconds, "/api/v1/enqueue", script)
        refused = int(re.search(r"Refused: (\d+)", out)[1])
        if refused:
            print(f"  {refused} enqueues were refused; the figure is wrong")
        return rate


def lifecycles(seconds):
    with running_node() as node:
        return load(node, "lifecycle", producers=64, workers=64,
                    time=seconds)["lifecycles_per_s"]


def main(rounds=5, seconds=4):
    head(f"G  enqueue and lifecycle beside nginx ({rounds} rounds)")
    rows = []
    with nginx() as port:
        for _ in range(rounds):
            rows.append((wrk(port, seconds, "/")[0], enqueues(seconds),
                         lifecycles(seconds)))
    plain, enqueued, lived = zip(*rows)
    say("nginx return 200, requests/s", spread(plain))
    say("durable enqueue, requests/s", spread(enqueued))
    say("lifecycles one by one, 64 + 64, /s", spread(lived))
    say("enqueue / nginx", f"{median(e / n for n, e, _ in rows):.3f}",
        ">= 0.30")
    say("lifecycles / nginx", f"{median(x / n for n, _, x in rows):.3f}",
        ">= 0.10")
    with running_node() as node:
        batch = load(node, "lifecycle-batch", producers=4, workers=4,
                     backlog=5000, time=seconds)
    say("lifecycles in batches of 100, /s",
        f"{batch['batch_lifecycles_per_s']:,.0f}")


if __name__ == "__main__":
    main(*(int(x) for x in sys.argv[1:]))
