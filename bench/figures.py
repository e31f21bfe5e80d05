"""What the measuring scripts share: a node, the load program, figures.

The build measured is CORVO_BUILD_DIR, or build/release. Each figure is printed
with the limit it is read against; those of clusters end with a verdict.
"""

import contextlib
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1]
os.environ.setdefault("CORVO_BUILD_DIR", str(SOURCE / "build" / "release"))
sys.path.insert(0, str(SOURCE / "tests" / "lib"))

from cluster import Cluster  # noqa: E402
from node import BUILD, Node, wait_until  # noqa: E402

Node.PATIENT_FLAGS = []  # figures are those of the defaults
LOAD = BUILD / "bench" / "load"
TICKS = os.sysconf("SC_CLK_TCK")


def faults_built():
    """Whether disks can be made slow and clocks set in this build."""
    cache = BUILD / "CMakeCache.txt"
    return cache.exists() and "CORVO_FAULTS:BOOL=ON" in cache.read_text()


@contextlib.contextmanager
def running_node(*flags, build=BUILD):
    """A fresh node, ended and removed afterwards."""
    node = Node("--log-level=warn", *flags)
    node.corvo = build / "cli" / "corvo"
    try:
        node.start()
        yield node
    finally:
        node.clean_up(check=False)


@contextlib.contextmanager
def running_cluster(*flags, size=3):
    """A fresh cluster, ended and removed afterwards."""
    cluster = Cluster("--log-level=warn", *flags, size=size)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.clean_up(check=False)


def arguments(node, mode, options):
    out = [str(LOAD), mode, f"--port={node.port}"]
    return out + [f"--{name}={value}" for name, value in options.items()]


def load(node, mode, **options):
    """Runs the load program; {name: number}."""
    done = subprocess.run(arguments(node, mode, options), text=True,
                          stdout=subprocess.PIPE, check=True)
    return {name: float(value) for name, value in
            (line.split() for line in done.stdout.splitlines())}


def load_cost(node, mode, rate, processes, seconds, **options):
    """The same for so long: (figures, {process: CPU us per job}), that of the
    load program among them. rate: the name of its figure of jobs per second."""
    pids = node.pids()
    before = {p: cpu_seconds([pids[p]]) for p in processes}
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    got = load(node, mode, time=seconds, **options)
    spent = {p: cpu_seconds([pids[p]]) - before[p] for p in processes}
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent["load"] = (now.ru_utime + now.ru_stime - own.ru_utime -
                     own.ru_stime)
    return got, {p: s * 1e6 / (got[rate] * seconds) for p, s in spent.items()}


@contextlib.contextmanager
def meanwhile(node, mode, **options):
    """The load program runs while the block does."""
    with subprocess.Popen(arguments(node, mode, options),
                          stdout=subprocess.PIPE) as p:
        try:
            yield
        finally:
            p.kill()


@contextlib.contextmanager
def held(node, n, mode, **options):
    """The same, from when n fetches wait."""
    with meanwhile(node, mode, **options):
        with node.client() as c:
            wait_until(lambda: c.metrics()["corvo_parked_fetches"] >= n,
                       30, f"{n} fetches to be parked", every=0.1)
        yield


def parked_fetches(node, n, seconds, queue="parked"):
    """n long-polling fetches, held while the block runs."""
    return held(node, n, "park", workers=n, time=seconds, queue=queue)


def wait_for_view(node, seconds=600):
    """Until the view has taken in everything: it works behind a load."""
    with node.client(timeout=60) as c:
        wait_until(lambda: c.metrics().get("corvo_view_lag_events") == 0,
                   seconds, "the view", every=0.1)


def all_pids(node):
    return {"supervisor": node.process.pid, **node.pids()}


def pss_mb(pid):
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"no Pss of {pid}")


def rss_mb(pid):
    """More than Pss where something is shared, but nobody waits for it: to
    look at Pss holds a large process up."""
    pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def memory_mb(pid, name="VmRSS"):
    """VmHWM: the most it was since forget_peak."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"no {name} of {pid}")


def forget_peak(pid):
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def disk_mb(node):
    """Files with several names are counted once; those that go meanwhile make
    du complain, and are not counted."""
    out = subprocess.run(["du", "-sm", str(node.data)], text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return int(out.stdout.split()[0])


def cpu_seconds(pids):
    total = 0
    for pid in pids:
        stat = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        total += int(stat[11]) + int(stat[12])
    return total / TICKS


def exact_cpu_seconds(pid):
    """Of the threads it has now, to the nanosecond: for what takes less than
    many ticks of the clock."""
    return sum(int(task.read_text().split()[0])
               for task in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def let_pass(seconds):
    """The interval of a measurement."""
    time.sleep(seconds)


def median(values):
    return statistics.median(values)


def spread(values):
    """Median with the smallest and largest, so that noise can be seen."""
    return f"{median(values):,.0f} ({min(values):,.0f} .. {max(values):,.0f})"


def say(name, value, limit=""):
    print(f"  {name:<46} {value:<34} {limit}".rstrip(), flush=True)


def verdict(good):
    """Whether all figures that have a limit kept it."""
    say("verdict", "good" if good else "NOT GOOD")


def head(text):
    print(f"\n{text}", flush=True)
