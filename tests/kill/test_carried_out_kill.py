"""raftd is killed when operations are in its log and not answered yet.

The log is slow: what was sent is on the disk, and is carried out when raftd
starts again. corvo-httpd sends all of it a second time. Each must be answered
with what was done, also when a worker has the job again meanwhile, and nothing
may be done twice.
"""

import os
import signal

import pytest

from node import API, Node, wait_until

SLOW_S = 600  # until it is killed
ROUNDS = 2
# Nobody but the test ends what is stopped or slow, and all that is sent goes
# into the log at once.
FLAGS = ("--op-timeout=60s", "--stopped-timeout=10m", "--watchdog-timeout=10m",
         "--apply-inflight=64")


@pytest.fixture
def node():
    n = Node(*FLAGS)
    n.start()
    yield n
    n.clean_up()


class Cases:
    """Requests whose answers will be lost: {name: (path, body, what)}. The
    last is a word the request has in the log, mostly the id of its job."""

    def __init__(self, c, n):
        self.c = c
        self.n = n
        self.all = {}
        for name in ("retry", "requeue", "hold", "approve", "reject",
                     "cancel", "move", "priority"):
            getattr(self, "add_" + name)(f"{name}.{n}")
        self.add_ends()
        self.add_heartbeat(f"heartbeat.{n}")
        self.add_more()

    def queues(self):
        """Of jobs that wait again afterwards, and go to the next worker."""
        return [f"{name}.{self.n}" for name in ("retry", "requeue", "approve",
                                                "give_back")]

    def add(self, name, path, body, word):
        self.all[name] = (path, body, word)

    def action(self, name, job, body=None):
        self.add(name, f"/jobs/{job}/{name}", body or {}, job)

    def taken(self, queue, **members):
        self.c.enqueue(queue, **members)
        return self.c.fetch(queue, lease_duration=600)

    def held(self, queue):
        job = self.c.enqueue(queue)
        assert self.c.post(f"{API}/jobs/{job}/hold").status == 200
        return job

    def add_retry(self, queue):
        job = self.taken(queue)
        self.c.ack(job)
        self.action("retry", job["job_id"])

    def add_requeue(self, queue):
        job = self.taken(queue)
        assert self.c.fail(job, retry=False)["status"] == "dead"
        self.action("requeue", job["job_id"])

    def add_hold(self, queue):
        self.action("hold", self.c.enqueue(queue))

    def add_approve(self, queue):
        self.action("approve", self.held(queue))

    def add_reject(self, queue):
        self.action("reject", self.held(queue), {"reason": "no"})

    def add_cancel(self, queue):
        self.action("cancel", self.c.enqueue(queue))

    def add_move(self, queue):
        self.action("move", self.c.enqueue(queue), {"queue": queue + ".to"})

    def add_priority(self, queue):
        self.action("priority", self.c.enqueue(queue), {"priority": "high"})

    def end(self, name, kind, **body):
        job = self.taken(f"{name}.{self.n}")
        self.add(name, f"/{kind}/{job['job_id']}",
                 {"lease_token": job["lease_token"], **body}, job["job_id"])

    def add_ends(self):
        self.end("ack", "ack", result={"n": 1}, logs=["done"])
        self.end("fail", "fail", error="no", logs=["failed"])
        self.end("give_back", "fail", error="no", requeue=True)
        job = self.taken(f"nameless.{self.n}")["job_id"]
        self.add("nameless", f"/ack/{job}", {}, job)

    def add_heartbeat(self, queue):
        job = self.taken(queue)
        self.add("heartbeat", "/heartbeat", {"jobs": {job["job_id"]: {
            "lease_token": job["lease_token"], "logs": ["alive"],
            "progress": {"at": 1}}}}, job["job_id"])

    def add_more(self):
        name = f"plan-{self.n}"
        a = self.c.post(f"{API}/schedules",
                        {"name": name, "cron": "@yearly",
                         "queue": f"run.{self.n}"})
        assert a.status == 201, a
        self.add("run", f"/schedules/{name}/run", {}, name)
        queue = f"enqueue.{self.n}"
        self.add("enqueue", "/enqueue", {"queue": queue}, queue)
        jobs = [self.c.enqueue(f"bulk.{self.n}") for _ in range(3)]
        self.add("bulk", "/jobs/bulk", {"action": "cancel", "job_ids": jobs},
                 jobs[2])


def count_in_log(node, cases):
    log = b"".join(f.read_bytes() for f in (node.data / "raft").rglob("*")
                   if f.is_file())
    return [log.count(word.encode()) for _, _, word in cases.all.values()]


def sent_to_the_log(node, cases, stack):
    """All of them, each on its own connection."""
    before = count_in_log(node, cases)
    clients = [node.client(timeout=120) for _ in cases.all]
    stack.extend(clients)
    node.slow_log(SLOW_S)
    for c, (path, body, _) in zip(clients, cases.all.values()):
        c.send("POST", API + path, body)
    wait_until(lambda: all(x < y for x, y in zip(before,
                                                 count_in_log(node, cases))),
               60, "all requests to be in the log")
    return clients


@pytest.fixture
def stack():
    clients = []
    yield clients
    for c in clients:
        c.close()


def lines_of(c, job):
    a = c.get(f"{API}/jobs/{job}/logs")
    assert a.status == 200, a
    return [x["line"] for x in a.json["logs"]]


def check_done_once(c, cases, answers):
    jobs = {name: job for name, (_, _, job) in cases.all.items()}
    status = {name: a.json.get("status") for name, a in answers.items()}
    want = {"retry": "retried", "requeue": "requeued", "hold": "held",
            "approve": "pending", "reject": "dead", "cancel": "cancelled",
            "move": "moved", "priority": "changed", "ack": "ok",
            "nameless": "ok", "fail": "retrying", "give_back": "pending"}
    assert {n: status[n] for n in want} == want
    assert answers["bulk"].json["affected"] == 3, answers["bulk"]
    assert lines_of(c, jobs["ack"]) == ["done"]
    assert lines_of(c, jobs["fail"]) == ["failed"]
    assert lines_of(c, jobs["heartbeat"]) == ["alive"]
    assert len(c.job(jobs["fail"])["errors"]) == 1
    for name in ("run", "enqueue"):
        first = c.fetch(f"{name}.{cases.n}")
        assert first["job_id"] == answers[name].json["job_id"]
        assert c.fetch(f"{name}.{cases.n}") is None, name


def receive_all(cases, clients):
    """Each was carried out, so none is refused."""
    answers = dict(zip(cases.all, [x.receive() for x in clients]))
    bad = {name: a for name, a in answers.items()
           if a.status not in (200, 201)}
    assert not bad, bad
    return answers


def test_what_was_carried_out_is_answered_so_after_a_kill(node, stack):
    with node.client(timeout=120) as c:
        for n in range(ROUNDS):
            cases = Cases(c, n)
            clients = sent_to_the_log(node, cases, stack)
            os.kill(node.pids()["raftd"], signal.SIGKILL)
            node.slow_log(0)
            check_done_once(c, cases, receive_all(cases, clients))
    assert node.ps("raftd")["restarts"] == ROUNDS


@pytest.fixture
def pair():
    """Two corvo-httpd share the port; the second does nothing yet."""
    n = Node(*FLAGS, "--httpd-processes=2")
    n.start()
    wait_until(lambda: "httpd-1" in n.pids(), 60, "the second corvo-httpd")
    os.kill(n.pids()["httpd-1"], signal.SIGSTOP)
    yield n
    for name in ("httpd-0", "httpd-1"):
        os.kill(n.pids()[name], signal.SIGCONT)
    n.clean_up()


def test_what_was_carried_out_is_answered_so_when_others_have_the_job(
        pair, stack):
    """The one that has to send again sleeps, while workers come through the
    other and take the jobs: 200 all the same, and nobody loses his lease."""
    with pair.client(timeout=120) as c:
        cases = Cases(c, 0)
        clients = sent_to_the_log(pair, cases, stack)
    os.kill(pair.pids()["httpd-0"], signal.SIGSTOP)
    os.kill(pair.pids()["raftd"], signal.SIGKILL)
    pair.slow_log(0)
    os.kill(pair.pids()["httpd-1"], signal.SIGCONT)
    with pair.client(timeout=120) as c:
        taken = {}
        for queue in cases.queues():
            name = queue.split(".")[0]
            taken[name] = c.fetch(queue, worker_id="next", timeout=60,
                                  lease_duration=600)
            assert taken[name]["job_id"] == cases.all[name][2], taken
        os.kill(pair.pids()["httpd-0"], signal.SIGCONT)
        answers = receive_all(cases, clients)
        for job in taken.values():
            c.ack(job)
        check_done_once(c, cases, answers)


def test_a_second_ack_with_another_result_is_refused(node):
    """Whether or not raftd was killed under the first one."""
    with node.client(timeout=120) as c:
        c.enqueue("q")
        job = c.fetch("q", lease_duration=600)
        path = f"{API}/ack/{job['job_id']}"
        first = {"lease_token": job["lease_token"], "result": {"n": 1}}
        other = {"lease_token": job["lease_token"], "result": {"n": 2}}
        assert c.post(path, first).status == 200
        for _ in range(2):
            assert c.post(path, first).json == {"status": "ok"}
            a = c.post(path, other)
            assert (a.status, a.code) == (409, "LEASE_LOST"), a
            assert c.job(job["job_id"])["result"] == {"n": 1}
            os.kill(node.pids()["raftd"], signal.SIGKILL)
        # a death that is noticed only at the stop would be one of the stop
        assert c.job(job["job_id"])["result"] == {"n": 1}
