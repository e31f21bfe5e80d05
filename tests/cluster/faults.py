#!/usr/bin/env python3
"""A cluster under load while its network, disks, clocks and processes fail.

  faults.py [--seconds 120 | --minutes M] [--seed N] [--nodes 3]
            [--network auto|namespaces|proxy] [--only FAULT,...] [--keep]
            [--snapshot-bytes small|large|both|SIZE]

Prints the seed, a line for each fault, and what was found. It ends with 0 when
nothing was: the history of all clients keeps the rules (rules.py), all nodes
have equal digests at an equal index, after each fault and at the end, and the
view of each is like its store.
Every kind of fault comes before any comes again. What is left when something
was found, or with --keep: the histories, the nodes' words and their data.
"""

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "lib")]
os.environ.setdefault("CORVO_BUILD_DIR", str(HERE.parents[1] / "build/asan"))

import history  # noqa: E402
from clients import LINE, NETWORK, Load  # noqa: E402
from faultlist import FAULTS  # noqa: E402
from network import NetCluster, may_have_namespaces  # noqa: E402
from node import API, BUILD, CORVO, Client, wait_until  # noqa: E402

# Small files, so that logs are cut and snapshots sent in a short run too.
FLAGS = ["--log-level=info", "--raft-segment-size=4MiB",
         "--rocksdb-write-buffer=2MiB"]
# small: logs are cut all the time; large: never, in a short run.
SNAPSHOT_BYTES = {"small": "256KiB", "large": "64MiB"}
FAULT_S = (1.0, 6.0)   # how long one lasts
QUIET_S = (1.0, 4.0)   # and the time until the next
TWO_AT_ONCE = 0.2
SERVES_S = 30.0        # until writes are taken again, on an idle machine
DISK_MB, DISK_MB_PER_S = 256, 0.3
DIGEST_S = 20.0        # for a node to say its digest, between faults


def has_seams():
    """True for a build that can be told to be slow, or of the time."""
    cache = BUILD / "CMakeCache.txt"
    return cache.exists() and "CORVO_FAULTS:BOOL=ON" in cache.read_text()


class Run:
    FLAGS = FLAGS

    def __init__(self, options):
        self.o = options
        self.rng = random.Random(options.seed)
        self.dir = Path(tempfile.mkdtemp(prefix="corvo-faults-"))
        self.stop = threading.Event()
        self.found = []
        self.faults = {}
        self.bag = []          # names of faults yet to come in this round
        self.longest_s = 0.0   # until writes were taken again
        self.compared = 0      # digests at an equal index
        self.mounts = []
        self.seams = has_seams()
        self.cluster = None
        self.load = None
        self.is_over = False   # to its end, with whatever result

    def say(self, text):
        print(f"{time.monotonic() - self.began:7.1f} {text}", flush=True)

    # --- around it -------------------------------------------------------

    def mount_disks(self):
        """Small disks of their own, so that one can be filled."""
        size = min(DISK_MB + int(self.o.seconds * DISK_MB_PER_S), 1000)
        for n in self.cluster.nodes:
            n.data.mkdir()
            made = subprocess.run(
                ["mount", "-t", "tmpfs", "-o", f"size={size}m,mode=0700",
                 "tmpfs", str(n.data)], capture_output=True)
            if made.returncode != 0:
                self.say("disks are not filled: mount is not permitted here")
                return
            self.mounts.append(n.data)

    def run(self):
        self.began = time.monotonic()
        try:
            size = SNAPSHOT_BYTES.get(self.o.snapshot_bytes,
                                      self.o.snapshot_bytes)
            self.cluster = NetCluster(self.o.network, self.o.seed, *self.FLAGS,
                                      f"--snapshot-bytes={size}",
                                      size=self.o.nodes)
            self.mount_disks()
            self.cluster.start()
            self.say(f"{self.o.nodes} nodes are up")
            for name, kind in FAULTS.items():
                if kind.needs(self):
                    self.say(f"no {name}: that needs {kind.needs(self)}")
            self.load = self.make_load().start()
            self.fail_again_and_again()
            self.settle()
            self.judge()
            self.is_over = True
        except AssertionError:
            self.show()
            raise
        finally:
            self.end()

    def make_load(self):
        return Load(self.cluster.nodes, self.dir, self.o.seed)

    def show(self):
        """What each node says of itself."""
        for n in self.cluster.nodes if self.cluster else ():
            with contextlib.suppress(*NETWORK), Client(n.port) as c:
                c.timeout = 5.0
                self.say(f"{n.name}: {c.get(f'{API}/cluster/status').body}")

    def end(self):
        """Nothing stays, whatever happened; only own processes are ended."""
        if self.load is not None:
            self.load.watch.produced.set()
            self.load.watch.stop.set()
        keep = self.o.keep or self.found or not self.is_over
        for n in self.cluster.nodes if self.cluster else ():
            if n.err.exists():
                shutil.copy(n.err, self.dir / f"{n.name}.log")
            with contextlib.suppress(OSError, AssertionError):
                n.kill_all()
            if keep and n.data.exists():
                shutil.copytree(n.data, self.dir / n.name, symlinks=True,
                                ignore=shutil.ignore_patterns("run", "filler"))
        for path in self.mounts:  # the last of its users may still be going
            wait_until(lambda: subprocess.run(
                ["umount", str(path)], capture_output=True).returncode == 0,
                20, f"{path} to be given up", every=0.1)
        if self.cluster is not None:
            self.cluster.clean_up(check=False)
        if keep:
            print(f"kept: {self.dir}")
        else:
            shutil.rmtree(self.dir)

    # --- faults ----------------------------------------------------------

    def next_fault(self):
        if not self.bag:
            self.bag = sorted(n for n, f in FAULTS.items()
                              if (not self.o.only or n in self.o.only)
                              and not f.needs(self))
            self.rng.shuffle(self.bag)
        return FAULTS[self.bag.pop()](self)

    def draw(self):
        first = self.next_fault()
        if self.rng.random() >= TWO_AT_ONCE:
            return [first]
        second = self.next_fault()
        if not first.touches & second.touches:
            return [first, second]
        # They would undo each other: another time.
        self.bag.insert(0, second.name)
        return [first]

    def fail_again_and_again(self):
        end = self.began + self.o.seconds
        while time.monotonic() < end:
            self.stop.wait(self.rng.uniform(*QUIET_S))
            self.fail(self.draw(), self.rng.uniform(*FAULT_S))
            self.between()

    def between(self):
        """After each fault."""
        self.wait_serving()
        self.compare_digests()
        self.load.backlog()

    def drained(self):
        """Producers have ended, and workers are still there."""

    def fail(self, faults, lasts):
        for f in faults:
            self.faults[f.name] = self.faults.get(f.name, 0) + 1
            self.say(f"{f.name}: {f.text} ({lasts:.1f} s)")
        with contextlib.ExitStack() as ends:
            for f in faults:
                ends.callback(self.look_at, f)
                ends.callback(f.end)
                f.begin()
                self.look_at(f)
            self.stop.wait(lasts)
        for f in faults:
            f.wait()
            self.look_at(f)

    def look_at(self, fault):
        if hasattr(fault, "node"):
            self.load.look_at(fault.node)

    def wait_serving(self):
        """Writes are taken again, soon after the end of any fault."""
        began = time.monotonic()
        port = self.rng.choice(self.cluster.nodes).port

        def is_taken():
            with contextlib.suppress(*NETWORK), Client(port) as c:
                c.timeout = 5.0
                return c.post(f"{API}/queues/probe/pause").status == 200
            return False

        wait_until(is_taken, SERVES_S, "writes to be taken again", every=0.05)
        took = time.monotonic() - began
        self.longest_s = max(self.longest_s, took)
        if took > 3:
            self.say(f"writes are taken again after {took:.1f} s")

    # --- the end ---------------------------------------------------------

    def settle(self):
        self.cluster.heal()
        self.say("all is healed")
        self.cluster.wait_whole()
        self.load.drain(90, self.drained)
        self.say("every job is done")

    def judge(self):
        self.wait_equal()
        digests = self.digests()
        if len(set(digests.values())) != 1:
            self.found.append(f"digests differ: {digests}")
        for n in self.cluster.nodes:
            with n.client(120) as c:
                wait_until(lambda: c.post(f"{API}/admin/verify-view")
                           .status == 200, 60, "the view to be compared")
                a = c.post(f"{API}/admin/verify-view").json
            if a["status"] != "ok" or a["differences"]:
                self.found.append(f"the view of {n.name} differs: {a}")
            try:
                n.check_log()
            except AssertionError as e:
                self.found.append(f"{n.name} says: {e}")
        final = self.load.write_final(self.cluster.leader())
        records, final = history.read(self.dir)
        self.found += history.check(records, final, fifo=[LINE])
        self.say(f"{len(records)} observations, {len(final)} jobs, "
                 f"{sum(self.faults.values())} faults, "
                 f"{self.compared} times equal digests, "
                 f"{len(self.found)} findings; writes were taken again after "
                 f"{self.longest_s:.1f} s at most")

    def compare_digests(self):
        """Of the nodes that can say theirs now; all of them at the end."""
        by_index = {}
        for name, answer in self.digests(DIGEST_S).items():
            if isinstance(answer, tuple):
                by_index.setdefault(answer[0], {})[name] = answer[1]
        for index, rows in by_index.items():
            self.compared += len(rows) > 1
            if len(set(rows.values())) > 1:
                self.found.append(f"digests differ at {index}: {rows}")
                self.say(self.found[-1])

    def index_of(self, node):
        with Client(node.port) as c:
            a = c.get(f"{API}/cluster/status")
        return int(a.json["applied_index"])

    def wait_equal(self):
        wait_until(lambda: len({self.index_of(n)
                                for n in self.cluster.nodes}) == 1,
                   60, "all nodes to have applied the same", every=0.1)

    def digests(self, seconds=120):
        """{node: digest} at one index, which no node has passed yet."""
        index, answers, threads = 0, {}, []
        for n in self.cluster.nodes:
            with contextlib.suppress(*NETWORK, KeyError, TypeError):
                index = max(index, self.index_of(n) + 1)
        for n in self.cluster.nodes:
            def ask(n=n):
                try:
                    with n.client(seconds) as c:
                        a = c.get(f"{API}/admin/digest?at_index={index}")
                except NETWORK as e:
                    answers[n.name] = repr(e)
                    return
                answers[n.name] = (a.json["index"], a.json["digest"]) \
                    if a.status == 200 else repr(a)
            threads.append(threading.Thread(target=ask))
            threads[-1].start()
        while any(t.is_alive() for t in threads):
            with contextlib.suppress(*NETWORK), \
                    self.cluster.nodes[0].client() as c:
                c.post(f"{API}/queues/probe/pause")
            for t in threads:
                t.join(0.2)
        return answers


def in_user_namespace():
    """Starts this program anew where it may make namespaces, if it is not
    root; returns when that cannot be."""
    command = ["unshare", "--user", "--map-root-user", "--mount"]
    if os.geteuid() == 0 or not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return
    with contextlib.suppress(OSError):
        if subprocess.run([*command, "true"]).returncode == 0:
            os.execvp(command[0], [*command, sys.executable, *sys.argv])


def options():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--seconds", type=float, default=120)
    p.add_argument("--minutes", type=float)
    p.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    p.add_argument("--nodes", type=int, default=3)
    p.add_argument("--network", default="auto",
                   choices=["auto", "namespaces", "proxy"])
    p.add_argument("--only", type=lambda t: t.split(","), default=[])
    p.add_argument("--keep", action="store_true")
    p.add_argument("--snapshot-bytes", default="4MiB",
                   help="small, large, both (half the time each), or a size")
    o = p.parse_args()
    if o.minutes is not None:
        o.seconds = 60 * o.minutes
    return o


def run_once(o):
    run = Run(o)
    try:
        run.run()
    except KeyboardInterrupt:
        sys.exit("faults.py: interrupted")
    if run.load is not None:
        for word, n in sorted(run.load.watch.outcomes.items()):
            print(f"  {word}: {n}")
    for name, n in sorted(run.faults.items()):
        print(f"  fault {name}: {n}")
    print("\n".join(run.found))
    print("1 failed" if run.found else "1 passed", flush=True)
    return 1 if run.found else 0


def main():
    o = options()
    unknown = set(o.only) - set(FAULTS)
    if unknown:
        sys.exit(f"faults.py: there is no fault {' '.join(sorted(unknown))}; "
                 f"there are {' '.join(sorted(FAULTS))}")
    if not CORVO.exists():
        sys.exit(f"faults.py: there is no {CORVO}; build it, or set "
                 "CORVO_BUILD_DIR")
    if o.network != "proxy":
        in_user_namespace()
    print(f"faults.py --seconds {o.seconds:g} --seed {o.seed} "
          f"--nodes {o.nodes} --snapshot-bytes {o.snapshot_bytes}", flush=True)
    if o.network == "auto":
        why = may_have_namespaces()
        o.network = "proxy" if why else "namespaces"
        if why:
            print(f"a proxy goes between the nodes: {why}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sizes = [o.snapshot_bytes]
    if o.snapshot_bytes == "both":
        sizes = list(SNAPSHOT_BYTES)
        o.seconds /= len(sizes)
    results = []
    for o.snapshot_bytes in sizes:
        print(f"snapshot_bytes is {o.snapshot_bytes}", flush=True)
        results.append(run_once(o))
    return max(results)


if __name__ == "__main__":
    sys.exit(main())
