"""Several nodes that make one cluster, on this machine."""

import contextlib
import http.client

from node import API, Client, Node, wait_until


class Cluster:
    def __init__(self, *flags, size=3):
        self.flags = flags
        self.nodes = []
        for _ in range(size):
            self.add()

    def add(self, *flags):
        """One more node, which is to be started yet."""
        n = len(self.nodes) + 1
        node = Node("--cluster", f"--node-id=n{n}", *self.flags, *flags)
        if self.nodes:
            first = ",".join(f"127.0.0.1:{x.raft_port}" for x in self.nodes)
            node.flags.append(f"--join={first}")
        self.nodes.append(node)
        return node

    def start(self):
        self.nodes[0].start()
        for n in self.nodes[1:]:
            n.spawn()
        self.wait_whole()
        return self

    def wait_whole(self, seconds=60):
        """All nodes vote, serve, and answer lists."""
        def whole():
            return (all(n.is_ready() for n in self.nodes)
                    and self.voters() == len(self.nodes))
        wait_until(whole, seconds, "all nodes to vote")
        for n in self.nodes:
            n.pids()
            wait_until(n.has_view, seconds, "the view to answer")

    def rows(self, node=None):
        """The nodes, as one of them tells."""
        for n in [node] if node else self.alive():
            with contextlib.suppress(OSError, http.client.HTTPException):
                with Client(n.port, timeout=5) as c:
                    a = c.get(f"{API}/cluster/status")
                    if a.status == 200:
                        return a.json["nodes"]
        return []

    def voters(self):
        return sum(r["voter"] for r in self.rows())

    def alive(self):
        return [n for n in self.nodes if n.is_running()]

    def leads(self, node):
        with contextlib.suppress(OSError, http.client.HTTPException):
            with Client(node.port, timeout=5) as c:
                return c.get("/healthz").json.get("leader", False)
        return False

    def leader(self, seconds=30):
        """The one that leads, waited for."""
        found = []

        def look():
            found[:] = [n for n in self.alive() if self.leads(n)]
            return len(found) == 1
        wait_until(look, seconds, "one leader")
        return found[0]

    def followers(self):
        leader = self.leader()
        return [n for n in self.alive() if n is not leader]

    def clean_up(self, check=True):
        errors = []
        for n in self.nodes:
            try:
                n.clean_up(check)
            except AssertionError as e:
                errors.append(e)
        if errors:
            raise errors[0]


class _Changed(Exception):
    """Another term began."""


def term_of(node):
    with node.client() as c:
        return c.metrics()["corvo_raft_term"]


def under_one_leader(three, body):
    """body(leader, wait): what holds only while one node leads. wait() is
    wait_until(). If another term begins, as on a busy machine, it is done
    anew."""
    while True:
        leader = three.leader()
        term = term_of(leader)

        def wait(cond, *args):
            def met():
                value = cond()
                if not value and term_of(leader) != term:
                    raise _Changed
                return value
            return wait_until(met, *args)
        try:
            return body(leader, wait)
        except _Changed:
            pass
        except (AssertionError, KeyError):
            if term_of(leader) == term:
                raise
        print("another node leads, once more")


@contextlib.contextmanager
def cluster(*flags, size=3):
    """A whole cluster; checked and gone at the end."""
    c = Cluster(*flags, size=size)
    try:
        c.start()
        yield c
    except BaseException:
        c.clean_up(check=False)
        raise
    c.clean_up()


def events(node, kind):
    """Data of the events of that kind, oldest first."""
    with node.client() as c:
        a = c.get(f"{API}/cluster/events?limit=1000&types={kind}")
        assert a.status == 200, a
    return [e["data"] for e in a.json["events"]]


def ask_digest(node, index=None):
    with node.client() as c:
        a = c.get(f"{API}/admin/digest" +
                  (f"?at_index={index}" if index else ""))
        assert a.status == 200, a
        return a.json


def have_the_same(nodes):
    """True when all were found at one index, and then have one digest."""
    first = ask_digest(nodes[0])
    all_ = [first] + [ask_digest(n, first["index"]) for n in nodes[1:]]
    if {d["index"] for d in all_} != {first["index"]}:
        return False  # something was written meanwhile
    assert len({d["digest"] for d in all_}) == 1, all_
    assert len({d["seq"] for d in all_}) == 1, all_
    return True
