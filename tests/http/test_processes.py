"""The processes of a node and what they were started with."""

import contextlib
import os
import resource
import subprocess

import pytest

from node import BUILD, full_pipe, wait_until

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


def is_at_end(fd):
    """Nobody has the writing end of that pipe any more."""
    os.set_blocking(fd, False)
    with contextlib.suppress(BlockingIOError):
        return os.read(fd, 1) == b""
    return False


@contextlib.contextmanager
def by_hand(name, tmp_path, *flags, **popen):
    """A process without a supervisor, as a unit of systemd starts it."""
    with open(tmp_path / f"{name}.log", "ab") as log:
        p = subprocess.Popen(
            [BUILD / f"corvo-{name}" / f"corvo-{name}",
             f"--data-dir={tmp_path / 'data'}", *flags],
            stdin=subprocess.DEVNULL, stderr=log, **popen)
    try:
        yield p
    finally:
        p.terminate()
        p.wait(30)


def test_a_process_started_by_hand_closes_what_it_inherited(tmp_path):
    r, w = os.pipe()
    with by_hand("sched", tmp_path, pass_fds=(w,)) as p:
        os.close(w)
        wait_until(lambda: is_at_end(r), 30, "the end of the pipe")
        assert p.poll() is None
    os.close(r)


def test_a_process_started_by_hand_refuses_too_few_files(tmp_path):
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))

    with by_hand("sched", tmp_path, preexec_fn=limit) as p:
        assert p.wait(30) == 1
    assert "may open 100 files here" in (tmp_path / "sched.log").read_text()


@pytest.mark.parametrize("name", ["raftd", "viewd", "sched"])
def test_no_second_one_in_a_node(node, tmp_path, name):
    pid = node.pids()[name]
    # The last flag counts; without its own sockets it would only disturb.
    with by_hand(name, tmp_path, f"--data-dir={node.data}",
                 f"--run-dir={tmp_path}") as p:
        assert p.wait(30) == 1
    words = (tmp_path / f"{name}.log").read_text()
    assert f"another corvo-{name} (pid {pid}) uses {node.data}" in words
    assert node.pids()[name] == pid
    with node.client() as c:
        c.enqueue("q")
        assert c.search(queue="q")["total"] > 0


def test_the_least_number_of_open_files_is_enough(make_node):
    node = make_node()
    node.start(preexec_fn=lambda: resource.setrlimit(
        resource.RLIMIT_NOFILE, (256, 256)))
    wait_until(node.has_view, 60, "the view to answer")
    with node.client() as c:
        c.enqueue("q")
        c.ack(c.fetch("q"))
        assert c.queue("q")["completed"] == 1
