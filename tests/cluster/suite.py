#!/usr/bin/python3
"""The black-box tests of tests/http against a follower of a cluster of three.

    tests/cluster/suite.py [--build DIR] [--jobs N] [--seconds N] [FILE ...]

One pytest for each file, with an end to its time; what failed is shown, and a
line at the end counts all. Tests about one node alone are listed in suite.txt,
each with the reason, and left out. Too slow for every run of make test.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
HTTP = SOURCE / "tests" / "http"
LIST = Path(__file__).with_name("suite.txt")
NODES = 3
END_S = 120  # to clean up after a file whose time is over
NEED_LATER = {"test_feature_level.py"}


@dataclass
class Result:
    name: str
    tests: Counter  # pytest's words: passed, failed, error, deselected, ...
    seconds: float
    is_late: bool
    status: int
    words: str

    def is_good(self):
        return self.status == 0 and not self.is_late

    def line(self):
        counts = ", ".join(f"{n} {what}" for what, n in self.tests.items())
        late = "its time was over; " if self.is_late else ""
        return (f"{'ok  ' if self.is_good() else 'FAIL'} {self.name}: "
                f"{late}{counts or 'no tests'} in {self.seconds:.0f} s")


def left_out():
    """Names of suite.txt: whole files, and cases."""
    names = [line.split()[0] for line in LIST.read_text().splitlines()
             if line.strip() and not line.startswith("#")]
    for name in names:
        assert (HTTP / name.split("::")[0]).exists(), f"{LIST}: no {name}"
    return ({n for n in names if "::" not in n},
            [n for n in names if "::" in n])


def counted(words):
    """What the last line of pytest counts."""
    lines = re.findall(r"^=*\s*((?:\d+ \w+(?:, )?)+) in [\d.]+s", words, re.M)
    return Counter({what: int(n) for n, what in
                    re.findall(r"(\d+) (\w+)", lines[-1] if lines else "")})


class Suite:
    def __init__(self, build, seconds):
        self.seconds = seconds
        self.files, self.cases = left_out()
        self.env = {**os.environ, "CORVO_TEST_NODES": str(NODES),
                    "CORVO_BUILD_DIR": str(build),
                    "CORVO_SOURCE_DIR": str(SOURCE),
                    "PYTHONPATH": str(SOURCE / "tests" / "lib"),
                    "PYTHONDONTWRITEBYTECODE": "1"}
        self.lock = threading.Lock()
        self.under_way = set()

    def need_later(self):
        """The build of a later version, made where ctest makes it."""
        if "CORVO_LATER_DIR" in self.env:
            return
        later = Path(self.env["CORVO_BUILD_DIR"]) / "later"
        self.env["CORVO_LATER_DIR"] = str(later)
        if not (later / "cli" / "corvo").exists():
            subprocess.run(
                ["cmake", f"-DSOURCE={SOURCE}", f"-DBUILD={later}",
                 f"-DLAUNCHER={shutil.which('ccache') or ''}", "-P",
                 str(HTTP / "later_build.cmake")], check=True)

    def wait(self, process):
        """True: in time. Else it is asked to end, which ends its nodes."""
        try:
            process.wait(self.seconds)
            return True
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return False

    def run(self, path):
        cases = [f"--deselect=tests/http/{c}" for c in self.cases
                 if c.startswith(f"{path.name}::")]
        began = time.monotonic()
        with tempfile.TemporaryFile("w+") as out:
            p = subprocess.Popen(
                [sys.executable, "-m", "pytest", "-q", "-p",
                 "no:cacheprovider", f"--rootdir={SOURCE}", *cases,
                 str(path)],
                env=self.env, cwd=SOURCE, stdin=subprocess.DEVNULL,
                stdout=out, stderr=out, start_new_session=True)
            with self.lock:
                self.under_way.add(p)
            in_time = self.wait(p)
            with self.lock:
                self.under_way.remove(p)
            out.seek(0)
            words = out.read()
        return Result(path.name, counted(words), time.monotonic() - began,
                      not in_time, p.returncode, words)

    def interrupt(self):
        with self.lock:
            for p in self.under_way:
                p.send_signal(signal.SIGINT)

    def run_all(self, paths, jobs):
        results = []
        with ThreadPoolExecutor(jobs) as pool:
            waiting = [pool.submit(self.run, p) for p in paths]
            try:
                for done in as_completed(waiting):
                    results.append(done.result())
                    if not results[-1].is_good():
                        print(results[-1].words)
                    print(results[-1].line(), flush=True)
            except KeyboardInterrupt:
                for w in waiting:
                    w.cancel()
                self.interrupt()
                raise
        return results


def arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--build", type=Path, default=Path(
        os.environ.get("CORVO_BUILD_DIR", SOURCE / "build" / "asan")),
        help="a build with CORVO_FAULTS: build/asan, build/dev")
    p.add_argument("--jobs", type=int,
                   default=max(1, (os.cpu_count() or 1) // NODES),
                   help="files at a time; by the number of processors")
    p.add_argument("--seconds", type=int, default=600,
                   help="of one file, at most")
    p.add_argument("files", nargs="*", type=Path,
                   help="of tests/http; all of them")
    return p.parse_args()


def main():
    a = arguments()
    if not (a.build / "cli" / "corvo").exists():
        sys.exit(f"suite.py: {a.build} holds no build; see docs/hacking.md")
    suite = Suite(a.build.resolve(), a.seconds)
    paths = [p.resolve() for p in a.files] or sorted(HTTP.glob("test_*.py"))
    absent = [p for p in paths if p.name in suite.files]
    paths = [p for p in paths if p not in absent]
    if any(p.name in NEED_LATER for p in paths):
        suite.need_later()
    results = suite.run_all(paths, a.jobs)
    tests = sum((r.tests for r in results), Counter())
    bad = [r for r in results if not r.is_good()]
    for r in bad:
        print(r.line())
    print(f"{len(results)} files, {len(bad)} of them bad: "
          f"{tests['passed']} tests passed, "
          f"{tests['failed'] + tests['error'] + tests['errors']} failed; "
          f"left out: {len(absent)} files, {tests['deselected']} tests")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
