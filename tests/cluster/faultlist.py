"""What can go wrong with a cluster, one class each.

A fault says what it touches, so that two at once do not undo each other: links,
or one of the nodes. All that it needs of chance is drawn when it is made.
"""

import contextlib
import http.client
import os
import shutil
import signal

from node import API, PROCS, Client, fill_disk, wait_until

DOWN_S = 20.0
ANSWER_S = 20.0


class Fault:
    text = ""

    def __init__(self, run):
        self.run = run
        self.rng = run.rng
        self.cluster = run.cluster
        self.touches = {"links"}
        self.draw()

    @classmethod
    def needs(cls, run):
        """What is missing for it here, or None."""
        return None

    def draw(self):
        pass

    def begin(self):
        pass

    def end(self):
        pass

    def wait(self):
        """Until it is forgotten, when all that went wrong with it has ended."""

    def some_node(self):
        """The leader as often as all others together."""
        leader = self.cluster.leader()
        if self.rng.random() < 0.5:
            return leader
        return self.rng.choice(self.cluster.nodes)


# --- the network -------------------------------------------------------------

class Links(Fault):
    """Links that are bad in some way."""

    def begin(self):
        self.cluster.bad(self.links)

    def end(self):
        self.cluster.heal()

    def numbers(self):
        return range(1, len(self.cluster.nodes) + 1)

    def all_links(self, how):
        return {f"{a}>{b}": how for a in self.numbers()
                for b in self.numbers() if a != b}


class Cut(Links):
    """One node is alone."""

    def draw(self):
        node = self.some_node()
        n = self.cluster.number(node)
        self.text = f"{node.name} from all others"
        self.links = {k: {"cut": True} for k in self.all_links({})
                      if str(n) in k.split(">")}


class CutAll(Links):
    """Every node is alone: nobody can lead."""
    text = "every node from every other"

    def draw(self):
        self.links = self.all_links({"cut": True})


class CutPair(Links):
    """Two nodes do not reach each other, but the others do."""

    def draw(self):
        a, b = self.rng.sample(self.numbers(), 2)
        self.text = f"n{a} and n{b} from each other"
        self.links = {f"{a}>{b}": {"cut": True}, f"{b}>{a}": {"cut": True}}


class OneWay(Links):
    """A node is not heard, or does not hear."""

    def draw(self):
        node = self.some_node()
        n = self.cluster.number(node)
        end = self.rng.randrange(2)
        self.text = f"{node.name} " + ("is not heard", "hears nothing")[end]
        self.links = {k: {"cut": True} for k in self.all_links({})
                      if k.split(">")[end] == str(n)}


class Delay(Links):
    def draw(self):
        delay = self.rng.choice([0.005, 0.02, 0.05, 0.15])
        self.text = f"{delay * 1000:.0f} ms, and up to as much again"
        self.links = self.all_links({"delay": delay, "jitter": delay})


class Loss(Links):
    def draw(self):
        share = self.rng.choice([0.02, 0.1, 0.3])
        self.text = f"{share * 100:.0f} % of packets"
        self.links = self.all_links({"loss": share})


class Double(Links):
    """Packets come twice, and in another order."""

    @classmethod
    def needs(cls, run):
        return None if run.o.network == "namespaces" else "packets"

    def draw(self):
        share = self.rng.choice([0.1, 0.5])
        self.text = f"{share * 100:.0f} % of packets"
        self.links = self.all_links({"double": share, "jitter": 0.01})


class Narrow(Links):
    def draw(self):
        rate = self.rng.choice([20000, 100000, 500000])
        self.text = f"{rate} bytes per second"
        self.links = self.all_links({"rate": rate})


# --- one node ----------------------------------------------------------------

class OfNode(Fault):
    def draw(self):
        self.node = self.some_node()
        self.text = self.node.name
        self.touches = {self.node.name}

    def pid(self, name):
        return self.node.pids().get(name)

    def ask(self, whom, what):
        """Asks a node for a change of the cluster."""
        self.post(whom, f"cluster/{what}", {"node_id": self.node.name})

    def post(self, whom, what, body=None):
        """It may be in no state to answer."""
        try:
            with Client(whom.port) as c:
                c.timeout = ANSWER_S
                a = c.post(f"{API}/{what}", body)
        except (OSError, http.client.HTTPException) as e:
            a = e
        if getattr(a, "status", 0) not in (200, 202):
            self.run.say(f"  {what}: {a!r}")


class KillRaftd(OfNode):
    def begin(self):
        pid = self.pid("raftd")
        if pid:
            os.kill(pid, signal.SIGKILL)


class StopRaftd(OfNode):
    """Its supervisor gives it up after a while."""

    def begin(self):
        self.stopped = self.pid("raftd")
        if self.stopped:
            os.kill(self.stopped, signal.SIGSTOP)

    def end(self):
        if self.stopped and self.node.is_ours(self.stopped):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.stopped, signal.SIGCONT)


class StopNode(OfNode):
    """All its processes stand still, as when a machine is suspended."""

    def all(self, sig):
        for pid in self.stopped:
            if self.node.is_ours(pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, sig)

    def begin(self):
        # The supervisor first: it would give the others up.
        self.stopped = [self.node.process.pid, *self.node.pids().values()]
        self.all(signal.SIGSTOP)

    def end(self):
        self.stopped.reverse()
        self.all(signal.SIGCONT)


class KillProcess(OfNode):
    """One of those that the others can do without for a while."""

    def draw(self):
        super().draw()
        self.name_of_it = self.rng.choice([p for p in PROCS if p != "raftd"])
        self.text = f"{self.name_of_it} of {self.node.name}"

    def begin(self):
        pid = self.pid(self.name_of_it)
        if pid:
            os.kill(pid, signal.SIGKILL)


class StopProcess(KillProcess):
    """It stands still; its supervisor gives it up after a while."""

    def begin(self):
        self.stopped = self.pid(self.name_of_it)
        if self.stopped:
            os.kill(self.stopped, signal.SIGSTOP)

    end = StopRaftd.end


class RebuildView(OfNode):
    """The view of a node is made anew."""

    def begin(self):
        self.post(self.node, "admin/rebuild-sqlite")


class KillNode(OfNode):
    def begin(self):
        self.node.kill_all()

    def end(self):
        self.node.spawn()

    def wait(self):
        wait_until(self.node.is_ready, DOWN_S, f"{self.node.name} to be back")
        self.node.pids()


class KillSupervisor(KillNode):
    """Its children notice, and leave."""

    def begin(self):
        self.node.pids()
        self.node.process.kill()
        self.node.process.wait()
        wait_until(lambda: not any(map(self.node.is_ours,
                                       self.node.seen_pids)),
                   DOWN_S, "children without a supervisor to leave")


class RestartNode(KillNode):
    """In order, as an upgrade does it."""

    def begin(self):
        self.node.stop()


class NewDisk(KillNode):
    """A node comes back with nothing, under its old name. Two such at once
    would be more than a cluster of three can bear."""

    def draw(self):
        super().draw()
        self.touches.add("disks")

    def begin(self):
        self.node.kill_all()
        for path in list(self.node.data.iterdir()):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    def wait(self):
        super().wait()
        wait_until(self.is_member, DOWN_S, f"{self.node.name} to vote")
        self.cluster.wait_whole()

    def is_member(self):
        """By the leader's word: others may know its former self only."""
        rows = self.cluster.rows(self.cluster.leader())
        return any(r.get("id") == self.node.name and r["voter"]
                   and r["alive"] for r in rows) and len(rows) == len(
                       self.cluster.nodes)


class Remove(NewDisk):
    """A node is removed from the cluster, and joins it again as a new one."""

    def begin(self):
        self.ask(self.node, "remove")
        super().begin()


class WithSeam(OfNode):
    @classmethod
    def needs(cls, run):
        return None if run.seams else "a build with CORVO_FAULTS"


class SlowDisk(WithSeam):
    def draw(self):
        super().draw()
        self.seconds = self.rng.choice([0.01, 0.05, 0.2])
        self.text += f" writes {self.seconds * 1000:.0f} ms later"

    def begin(self):
        self.node.slow_log(self.seconds)

    def end(self):
        self.node.slow_log(0)


class FullDisk(OfNode):
    @classmethod
    def needs(cls, run):
        return None if run.mounts else "small disks"

    def begin(self):
        self.filler = fill_disk(self.node.data)

    def end(self):
        self.filler.unlink()
        if self.node.process.poll() is not None:
            self.run.say(f"  {self.node.name} gave up")
            self.node.spawn()


class Clock(WithSeam):
    def draw(self):
        super().draw()
        self.seconds = self.rng.choice([-3600, -30, -5, 5, 30, 3600])
        self.text += f" is {self.seconds:+} s off"

    def begin(self):
        self.node.set_clock(self.seconds)

    def end(self):
        self.node.set_clock(0)


class SmallClock(Clock):
    """Less than what counts as a step."""

    def draw(self):
        super().draw()
        self.seconds = self.rng.choice([-0.9, -0.4, 0.4, 0.9])
        self.text = f"{self.node.name} is {self.seconds:+} s off"


class Transfer(OfNode):
    """Leadership is handed to a node."""

    def draw(self):
        super().draw()
        self.asked = self.rng.choice(self.cluster.nodes)

    def begin(self):
        self.ask(self.asked, "transfer")


FAULTS = {
    "cut": Cut, "cut-all": CutAll, "cut-pair": CutPair, "one-way": OneWay,
    "delay": Delay, "loss": Loss, "double": Double, "narrow": Narrow,
    "kill-raftd": KillRaftd, "stop-raftd": StopRaftd, "stop-node": StopNode,
    "kill-process": KillProcess, "stop-process": StopProcess,
    "kill-supervisor": KillSupervisor, "rebuild-view": RebuildView,
    "kill-node": KillNode, "restart-node": RestartNode, "new-disk": NewDisk,
    "remove": Remove, "slow-disk": SlowDisk, "full-disk": FullDisk,
    "clock": Clock, "small-clock": SmallClock, "transfer": Transfer,
}
for name, kind in FAULTS.items():
    kind.name = name
