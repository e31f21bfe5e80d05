#!/usr/bin/env python3
"""What compilers and ThreadSanitizer find, of a build by the preset tsan.

  analyze.py BUILD [--only tidy,gcc,threads] [--jobs N] [FILE ...]

  tidy     clang-tidy on each source; .clang-tidy says which checks are off
  gcc      gcc's -fanalyzer on each source; GCC_OFF says what is off
  threads  the tests with the label threads, with ThreadSanitizer

FILE: only these sources, as they begin: corvo-raftd/fsm, common/util/cron.c.
The last line is the verdict; exit 1 when something was found.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("common/", "corvo-", "cli/", "tools/", "bench/")
FINDING = re.compile(r"^.*(?:warning|error): .*\[[\w.,=-]+\]$", re.M)
# Of -fanalyzer, what is off, and why.
GCC_OFF = {
    "null-argument": "a buf with room has memory, which it does not see; "
                     "UBSan does, in each test",
}
# And in one source only.
GCC_OFF_IN = {
    "corvo-raftd/cluster/peer_link.c":
        {"use-after-free": "a link is freed when the last user leaves it"},
    "corvo-raftd/cluster/node_fault.c":
        {"use-after-free": "what is freed has left the list before"},
    "common/proto/mpk.c":
        {"use-of-uninitialized-value": "in msgpack's parser, a header"},
}


def commands(build, wanted):
    """The source and the words of the compiler, once for each source."""
    rows = {}
    for row in json.loads((build / "compile_commands.json").read_text()):
        name = os.path.relpath(row["file"], ROOT)
        if name.startswith(PARTS) and name.startswith(wanted):
            rows.setdefault(name, (row["directory"],
                                   shlex.split(row["command"])))
    return rows


def tidy(build, name, _row):
    r = subprocess.run(["clang-tidy", "-p", str(build), "--quiet", name],
                       cwd=ROOT, capture_output=True, text=True)
    return r.stdout if r.returncode else ""


def gcc(build, name, row):
    """ccache keeps what it says of a source that has not changed."""
    directory, words = row
    out = build / "analyze" / (name.replace("/", "_") + ".o")
    words = [w for w in words if not w.startswith(("-fsanitize", "-Werror"))]
    at = words.index("-o")
    words[at + 1] = str(out)
    words += ["-fanalyzer", "-fdiagnostics-plain-output",
              *(f"-Wno-analyzer-{w}" for w in GCC_OFF),
              *(f"-Wno-analyzer-{w}" for w in GCC_OFF_IN.get(name, ()))]
    out.parent.mkdir(exist_ok=True)
    r = subprocess.run(words, cwd=directory, capture_output=True, text=True)
    out.unlink(missing_ok=True)
    return r.stderr if r.returncode or FINDING.search(r.stderr) else ""


def each(what, build, wanted, jobs):
    """How many sources and findings."""
    rows = commands(build, wanted)
    seen = set()
    with ThreadPoolExecutor(jobs) as pool:
        for text in pool.map(lambda r: what(build, *r), rows.items()):
            lines = [m.group(0) for m in FINDING.finditer(text)]
            # a header is met in each source that includes it
            if text and (not lines or not seen.issuperset(lines)):
                print(text, flush=True)
            seen.update(lines or [text] * bool(text))
    return len(rows), len(seen)


def threads(build, jobs):
    """How many tests and failures; a report fails even the process that
    nobody looks at."""
    reports = build / "tsan"
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir()
    xml = build / "threads.xml"
    xml.unlink(missing_ok=True)  # or an old one would speak for this run
    r = subprocess.run(["ctest", "--test-dir", str(build), "-L", "^threads$",
                        "-j", str(2 * jobs), "--output-on-failure",
                        "--output-junit", str(xml)],
                       stdout=(build / "threads.log").open("w"),
                       stderr=subprocess.STDOUT)
    ran = failed = 0
    if xml.exists():
        tests = ElementTree.parse(xml).getroot()
        ran = int(tests.get("tests"))
        failed = sum(int(tests.get(word, 0))
                     for word in ("failures", "disabled", "skipped"))
    if r.returncode and not failed:
        failed = 1  # before it came to any, or after
    if failed:
        print((build / "threads.log").read_text())
    for path in reports.iterdir():
        print(path.read_text(errors="replace"))
    return ran, failed + len(list(reports.iterdir()))


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build", type=Path)
    p.add_argument("--only", default="tidy,gcc,threads")
    p.add_argument("--jobs", type=int, default=os.cpu_count())
    p.add_argument("files", nargs="*", default=[""])
    o = p.parse_intermixed_args()
    build = o.build.resolve()
    words, found = [], 0
    for name in o.only.split(","):
        begin = time.monotonic()
        if name == "threads":
            what, (n, bad) = "tests with threads", threads(build, o.jobs)
        else:
            what = "sources"
            n, bad = each({"tidy": tidy, "gcc": gcc}[name], build,
                          tuple(o.files), o.jobs)
        if n == 0:
            sys.exit(f"analyze.py: {name}: there is nothing to look at")
        found += bad
        words.append(f"{name}: {n} {what}, {bad} findings, "
                     f"{time.monotonic() - begin:.0f} s")
    print(f"analyze: {'; '.join(words)}: {'FAILED' if found else 'good'}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
