#!/usr/bin/env python3
"""Three nodes that are used and ill-treated for hours.

  soak.py [--hours 1] [--seed N] [--keep]

All features (cluster/features.py, cluster/clients.py) and all faults
(cluster/faultlist.py), and meanwhile memory, descriptors, disks and views are
watched. It fails when the history of the clients breaks a rule, when nodes have
other digests at an equal index, when a feature does not come to its end, when a
process, a disk or the number of descriptors outgrows its limit, or when a view
does not catch up. Then the data is kept. The last line is the verdict.

It takes build/release, or the build that CORVO_BUILD_DIR names.
"""

import argparse
import collections
import contextlib
import os
import random
import signal
import statistics
import sys
import threading
import time
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "cluster"), str(HERE / "lib")]
os.environ.setdefault("CORVO_BUILD_DIR", str(HERE.parent / "build/release"))

import faults  # noqa: E402
import features  # noqa: E402
from clients import NETWORK, Load  # noqa: E402
from node import API, CORVO, Client, wait_until  # noqa: E402

FLAGS = ["--push-allow=127.0.0.0/8", "--push-breaker-pause=100ms",
         "--scheddb-history-retention=1m", "--event-retention=100000",
         "--compare-interval=5m"]
PACE = 10         # so much slower are clients than those of faults.py
SAMPLE_S = 5.0
TELL_S = 300.0    # a line of how it goes
QUIET_S = 60.0    # until features have come to their ends
LAG_S = 2.0       # a view that is no older is current
CAUGHT_UP_S = 30.0
# What a process may have at any moment, in MiB and descriptors.
MEMORY_MB = {"raftd": 400, "viewd": 250, "httpd-0": 250, "sched": 100,
             "supervisor": 50}
DESCRIPTORS = 400
# Between the second and the last quarter of the run the median may grow by so
# much; a leak does not stop.
GROWS_MB, GROWS_DESCRIPTORS = 64, 40
# Of a node's files: of each job that is kept, and besides.
DISK_JOB, DISK_MB = 4096, 200


def status_mb(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0  # it just ended


def disk_mb(directory):
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            with contextlib.suppress(OSError):
                if name != "filler":
                    total += os.stat(f"{folder}/{name}").st_blocks * 512
    return total / (1 << 20)


class Samples:
    """What nodes take, looked at again and again in a thread of its own."""

    def __init__(self, nodes):
        self.nodes = nodes
        self.rows = collections.defaultdict(list)  # (what, whose): [(s, n)]
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        while not self.stop.wait(SAMPLE_S):
            for n in self.nodes:
                with contextlib.suppress(*NETWORK, ValueError, KeyError):
                    self.look(n)

    def note(self, what, whose, value):
        self.rows[what, whose].append((time.monotonic(), value))

    def look(self, node):
        pids = {"supervisor": node.process.pid, **node.pids()}
        for name, pid in pids.items():
            self.note("MiB", f"{name} of {node.name}", status_mb(pid))
            self.note("descriptors", f"{name} of {node.name}",
                      len(os.listdir(f"/proc/{pid}/fd")))
        self.note("disk MiB", node.name, disk_mb(node.data))
        with Client(node.port) as c:
            c.timeout = 5.0
            self.note("lag s", node.name,
                      c.metrics()["corvo_view_lag_seconds"])

    def most(self, what):
        """{whose kind: the most there was}"""
        most = collections.defaultdict(float)
        for (kind, whose), rows in list(self.rows.items()):
            if kind == what:
                name = whose.split()[0]
                most[name] = max(most[name], *(v for _, v in rows))
        return dict(most)

    def missing(self, begin, end):
        """Whose memory nobody saw in the last quarter."""
        late = begin + 0.75 * (end - begin)
        seen = {whose for (kind, whose), rows in self.rows.items()
                if kind == "MiB" and any(t >= late for t, _ in rows)}
        return [f"{name} of {n.name}" for n in self.nodes
                for name in MEMORY_MB if f"{name} of {n.name}" not in seen]

    def growth(self, what, begin, end):
        """{whose: by how much the median of the last quarter is more}"""
        grown = {}
        for (kind, whose), rows in self.rows.items():
            def median(a, b):
                some = [v for t, v in rows if begin + a * (end - begin) <= t
                        < begin + b * (end - begin)]
                return statistics.median(some) if some else None
            before, after = median(0.25, 0.5), median(0.75, 1)
            if kind == what and before is not None and after is not None:
                grown[whose] = after - before
        return grown


class Soak(faults.Run):
    FLAGS = [*faults.FLAGS, *FLAGS]

    def make_load(self):
        self.sinks = features.Sinks()
        load = Load(self.cluster.nodes, self.dir, self.o.seed, pace=PACE)
        self.features = features.everybody(
            load.watch, [n.port for n in self.cluster.nodes], self.dir,
            self.o.seed, self.sinks)
        load.people += self.features
        for queue in (*features.QUEUES, features.HEAP):
            self.ask("PATCH", f"/queues/{queue}", {"retention": features.KEPT})
        for f in self.features:
            f.set_up(self.ask)
        self.samples = Samples(self.cluster.nodes)
        self.samples.thread.start()
        self.told_at = time.monotonic()
        return load

    def ask(self, method, path, body=None):
        with Client(self.cluster.leader().port) as c:
            a = c.request(method, API + path, body)
        assert a.status < 300 or a.status == 404, (path, body, a)
        return a

    def between(self):
        super().between()
        self.wait_current()
        if time.monotonic() - self.told_at > TELL_S:
            self.told_at = time.monotonic()
            self.tell()

    def wait_current(self):
        """All views catch up, once nothing is wrong."""
        def lag():
            worst = 0.0
            for n in self.cluster.nodes:
                with contextlib.suppress(*NETWORK, KeyError), \
                        Client(n.port) as c:
                    c.timeout = 5.0
                    worst = max(worst, c.metrics()["corvo_view_lag_seconds"])
                    continue
                worst = LAG_S + 1
            return worst
        wait_until(lambda: lag() < LAG_S, CAUGHT_UP_S,
                   "all views to be current", every=0.2)

    def tell(self):
        for what in ("MiB", "descriptors", "disk MiB", "lag s"):
            self.say(f"most {what}: " + ", ".join(
                f"{k} {v:.0f}" for k, v in sorted(
                    self.samples.most(what).items())))

    # --- the end ---------------------------------------------------------

    def settle(self):
        super().settle()
        self.samples.stop.set()
        self.watched_until = time.monotonic()
        self.samples.thread.join()

    def drained(self):
        """While there are hands yet."""
        quiet = [*features.QUEUES, features.PUSHED]
        rows = []

        def look():
            rows[:] = [q for q in self.ask("GET", "/queues").json
                       if q["name"] in quiet and q["pending"] + q["active"]
                       + q["retrying"] + q["scheduled"]]
            return not rows
        for s in self.ask("GET", "/schedules").json["schedules"]:
            if s["name"] != features.SCHEDULE:
                self.ask("DELETE", f"/schedules/{s['id']}")
        self.ask("POST", f"/schedules/{features.SCHEDULE}/pause")
        try:
            wait_until(look, QUIET_S, "features to come to their ends",
                       every=0.2)
        except AssertionError:
            self.found.append(f"jobs of features are left: {rows}")

    def judge_features(self):
        def gone():
            return all(not list(f.judge(self.ask)) for f in self.features)
        with contextlib.suppress(AssertionError):
            wait_until(gone, QUIET_S, "features to have ended", every=1)
        for f in self.features:
            self.found += f.judge(self.ask)
        self.found += self.load.watch.found

    def judge_samples(self):
        s, end = self.samples, self.watched_until
        self.found += [f"{whose} was not looked at in the last quarter"
                       for whose in s.missing(self.began, end)]
        for what, limits, grows in (
                ("MiB", MEMORY_MB, GROWS_MB),
                ("descriptors", {}, GROWS_DESCRIPTORS)):
            for name, most in s.most(what).items():
                if most > limits.get(name, DESCRIPTORS):
                    self.found.append(f"{name} had {most:.0f} {what}")
            for whose, n in s.growth(what, self.began, end).items():
                if n > grows:
                    self.found.append(f"{whose} grew by {n:.0f} {what}")
        kept = len(self.load.ids()) * DISK_JOB / (1 << 20)
        for n in self.cluster.nodes:
            mb = disk_mb(n.data)
            if mb > DISK_MB + kept:
                self.found.append(f"{n.name} takes {mb:.0f} MiB of disk, for "
                                  f"{kept:.0f} MiB of jobs")
        self.tell()

    def judge(self):
        self.judge_features()
        self.judge_samples()
        super().judge()


def options():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--hours", type=float, default=1.0)
    p.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    p.add_argument("--keep", action="store_true")
    o = p.parse_args()
    o.seconds = 3600 * o.hours
    o.nodes, o.network, o.only = 3, "proxy", []
    o.snapshot_bytes = "4MiB"
    return o


def main():
    o = options()
    if not CORVO.exists():
        sys.exit(f"soak.py: there is no {CORVO}; build it, or set "
                 "CORVO_BUILD_DIR")
    print(f"soak.py --hours {o.hours:g} --seed {o.seed}", flush=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    run = Soak(o)
    try:
        run.run()
        words = f"{len(run.found)} findings"
    except KeyboardInterrupt:
        words = "interrupted"
    except Exception as e:
        traceback.print_exc()
        words = repr(e)
    if not sum(run.faults.values()):
        run.found.append("no fault was done")
    is_good = run.is_over and not run.found
    for word, n in sorted(run.load.watch.outcomes.items()) if run.load else ():
        print(f"  {word}: {n}")
    for name, n in sorted(run.faults.items()):
        print(f"  fault {name}: {n}")
    print("\n".join(run.found))
    print(f"soak: {'good' if is_good else 'BAD'}, {o.hours:g} hours, seed "
          f"{o.seed}, {sum(run.faults.values())} faults, {words}", flush=True)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
