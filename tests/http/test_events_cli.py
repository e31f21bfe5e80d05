"""`corvo events`: a page, and what happens as it happens."""

import json
import os
import signal
import subprocess

from node import API, CORVO, wait_until


def command(node, *args):
    return [str(CORVO), "events", "--server", f"http://127.0.0.1:{node.port}",
            *args]


def run(node, *args):
    return subprocess.run(command(node, *args), capture_output=True, text=True,
                          timeout=30)


def events_of(node, *args):
    done = run(node, "--output", "json", *args)
    assert done.returncode == 0, done
    return json.loads(done.stdout)["events"]


class Follow:
    """A running `corvo events --follow --output json`."""

    def __init__(self, node, path, *args):
        self.path = path
        with open(path, "wb") as out:
            self.process = subprocess.Popen(
                command(node, "--follow", "--output", "json", *args),
                stdout=out, stderr=subprocess.DEVNULL)

    def events(self):
        lines = self.path.read_text().split("\n")[:-1]
        return [json.loads(x) for x in lines]

    def wait_for(self, condition, what):
        return wait_until(lambda: condition(self.events()), 30, what)

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(10)


def test_shows_the_newest_page(node, client, queue):
    for _ in range(120):
        client.enqueue("before")
    job_id = client.enqueue(queue)
    done = run(node)
    assert done.returncode == 0, done
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["SEQ", "TIME", "TYPE", "QUEUE", "JOB",
                                "ATTEMPT", "WORKER", "DATA"]
    assert len(lines) == 101
    assert job_id in lines[-1] and "enqueued" in lines[-1]


def test_filters_and_places(node, client, queue):
    job_id, other = client.enqueue(queue), client.enqueue(queue)
    client.fetch(queue)
    done = run(node, "--queue", f"{queue},none", "--type", "enqueued,started",
               "--job", job_id, "--output", "json")
    events = json.loads(done.stdout)["events"]
    assert [e["type"] for e in events] == ["enqueued", "started"]
    after = run(node, "--after", str(events[0]["seq"]), "--output", "json")
    after = json.loads(after.stdout)["events"]
    assert after[0]["seq"] == events[0]["seq"] + 1
    assert after[0]["job_id"] == other


def test_a_page_without_any_says_so(node, client, queue):
    client.enqueue(queue)
    assert run(node, "--queue", "nobody").stdout == "No such events\n"
    assert run(node, "--after", "99999999").stdout == "No events\n"


def test_a_filter_looks_until_it_has_found(node, client, queue):
    """What it asks for is thousands of events away, in both directions."""
    job_id = client.enqueue(queue)
    (first,) = events_of(node, "--job", job_id)
    many = [{"queue": f"{queue}-others"} for _ in range(600)]
    for _ in range(4):
        assert client.post(f"{API}/enqueue/batch", {"jobs": many}).status == 201
    assert events_of(node, "--job", job_id) == [first]
    assert events_of(node, "--queue", queue, "--type", "enqueued") == [first]
    last = client.enqueue(queue)
    after = str(first["seq"])
    assert [e["job_id"] for e in events_of(
        node, "--queue", queue, "--after", after)] == [last]
    newest = events_of(node, "--queue", f"{queue}-others")
    assert len(newest) >= 100
    assert [e["seq"] for e in newest] == sorted({e["seq"] for e in newest})


def test_what_is_wrong_is_said(node):
    for status, args, word in (
            (1, ["--type", "nope"], "nope"), (2, ["--after", "x"], "after"),
            (1, ["--follow", "--type", "nope"], "nope"),
            (1, ["--follow", "--after", "99999999"], "no longer kept")):
        done = run(node, *args)
        assert (done.returncode, done.stdout) == (status, ""), done
        assert word in done.stderr, done


def test_follow_ends_well_when_interrupted(node, client, queue, tmp_path):
    first = client.enqueue(queue)
    f = Follow(node, tmp_path / "out", "--queue", queue, "--after", "0")
    f.wait_for(lambda e: e and e[-1].get("job_id") == first, "the past")
    second = client.enqueue(queue)
    f.wait_for(lambda e: e[-1].get("job_id") == second, "the present")
    assert f.interrupt() == 0


def test_follow_writes_json_whatever_an_event_holds(node, client, tmp_path):
    """Control characters may stand in JSON as they are; not on a terminal."""
    f = Follow(node, tmp_path / "out", "--queue", "odd", "--after", "0")
    client.enqueue("odd", max_retries=1)
    job = client.fetch("odd", worker_id="w\x9b\x7f\x85\u00fc")
    client.fail(job, error="\x9b31m red")
    f.wait_for(lambda e: e and e[-1]["type"] in ("failed", "dead"), "its end")
    assert f.interrupt() == 0
    assert not set(f.path.read_text()) & {"\x9b", "\x7f", "\x85"}
    assert "w\x9b\x7f\x85\u00fc" in json.dumps(f.events(),
                                            ensure_ascii=False)


def test_follow_goes_on_when_the_connection_breaks(node, client, queue,
                                                   tmp_path):
    client.enqueue(queue)
    f = Follow(node, tmp_path / "out", "--after", "0")
    f.wait_for(lambda e: e, "the past")
    for _ in range(2):
        pid = node.pids()["httpd-0"]
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: node.ps("httpd-0")["pid"] not in (0, pid) and
                   node.is_ready(), 60, "httpd to be back")
        job_id = client.enqueue(queue)
        f.wait_for(lambda e: e[-1].get("job_id") == job_id, "what came since")
    assert f.interrupt() == 0
    seqs = [e["seq"] for e in f.events()]
    assert seqs == list(range(1, len(seqs) + 1))


def test_follow_of_no_server_fails(make_node):
    done = run(make_node(), "--follow")
    assert done.returncode == 1
    assert "cannot reach" in done.stderr
