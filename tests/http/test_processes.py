"""The processes of a node and what they were started with."""

import contextlib
import os

from node import full_pipe, wait_until

PROCS = ("raftd", "viewd", "httpd-0")


def all_words(fd):
    """What can be read there by now."""
    words = b""
    os.set_blocking(fd, False)
    with contextlib.suppress(BlockingIOError):
        while chunk := os.read(fd, 1 << 16):
            words += chunk
    return words.decode()


def test_nobody_reads_the_log(make_node):
    """All processes start, serve and stop although stderr is full, and say
    what is missing once somebody has read it."""
    node = make_node()
    with full_pipe() as (r, w):
        node.start(stderr=w)
        wait_until(node.has_view, 60, "the view to answer")
        node.ask("log-level debug")
        with node.client() as c:
            c.enqueue("q")
            c.ack(c.fetch("q"))
            assert c.queue("q")["completed"] == 1
            lost = c.metrics()
        for p in PROCS:
            assert lost[f'corvo_process_log_dropped_total{{process="{p}"}}'] > 0
        words = [all_words(r)]

        def said():
            words.append(all_words(r))
            return all(f" {p} node-1 log lines were dropped" in "".join(words)
                       for p in ("supervisor", "sched") + PROCS)

        wait_until(said, 20, "what was dropped")
        node.stop()
