#!/usr/bin/env python3
"""Which lines and branches of common and corvo-raftd the tests came to.

  coverage.py BUILD [--show N] [--least-lines PERCENT]
              [--least-branches PERCENT]

BUILD was built by the preset coverage, and its tests have run; gcov reads what
they left. --show lists the N files with most that nothing came to, with their
lines. Exit 1 below the shares that are asked for.

Left out are the branches of lines with CHECK, MUST or REQUIRE: their failing
side is a bug, which nothing here should come to. Their lines count.
"""

import argparse
import collections
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("common", "corvo-raftd")
BUG = re.compile(r"\b(CHECK|MUST|REQUIRE)\(")


class File:
    def __init__(self, name):
        self.name = name
        self.text = (ROOT / name).read_text().splitlines()
        self.lines = collections.Counter()
        self.branches = {}  # (line, function, place): how often

    def add(self, row):
        at = row["line_number"]
        self.lines[at] += row["count"]
        if self.is_check(at):
            return
        # one file may be a part of several programs
        for i, b in enumerate(row["branches"]):
            key = at, row.get("function_name"), i
            self.branches[key] = self.branches.get(key, 0) + b["count"]

    def is_check(self, at):
        """Also in a line that goes on in the next one."""
        begin = at
        while begin > 1 and not self.text[begin - 2].rstrip().endswith(
                (";", "{", "}", ":", "*/")) and at - begin < 6:
            begin -= 1
        return any(map(BUG.search, self.text[begin - 1:at]))

    def missed(self):
        return [n for n, count in sorted(self.lines.items()) if not count]


def source_of(path, folder):
    """Its name from ROOT on; None: it is none of ours."""
    path = Path(os.path.normpath(Path(folder) / path))
    if not path.is_relative_to(ROOT):
        return None
    name = str(path.relative_to(ROOT))
    return name if name.startswith(tuple(p + "/" for p in PARTS)) else None


def read(notes):
    """gcov's own words of one object file."""
    with tempfile.TemporaryDirectory() as folder:
        r = subprocess.run(["gcov", "--json-format", "--branch-probabilities",
                            str(notes)], cwd=folder, capture_output=True)
        if r.returncode != 0:
            sys.exit(f"coverage.py: gcov {notes}: "
                     f"{r.stderr.decode(errors='replace')}")
        return [json.loads(gzip.decompress(p.read_bytes()))
                for p in Path(folder).glob("*.gcov.json.gz")]


def collect(build):
    files = {}
    notes = [n for part in PARTS for n in (build / part).rglob("*.gcno")]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for words in pool.map(read, notes):
            for word in words:
                for f in word["files"]:
                    name = source_of(f["file"],
                                     word["current_working_directory"])
                    if name is None:
                        continue
                    file = files.setdefault(name, File(name))
                    for row in f["lines"]:
                        file.add(row)
    return files.values()


def share(counts):
    counts = list(counts)
    return sum(c > 0 for c in counts), len(counts)


def spans(numbers):
    """[3, 4, 5, 9] as 3-5 9."""
    rows = []
    for n in numbers:
        if rows and rows[-1][1] == n - 1:
            rows[-1][1] = n
        else:
            rows.append([n, n])
    return " ".join(f"{a}-{b}" if a != b else f"{a}" for a, b in rows)


def show(files, most):
    for f in sorted(files, key=lambda f: -len(f.missed()))[:most]:
        missed = f.missed()
        print(f"{f.name}: {len(missed)} of {len(f.lines)} lines: "
              f"{spans(missed)}")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build", type=Path)
    p.add_argument("--show", type=int, default=0)
    p.add_argument("--least-lines", type=float, default=0)
    p.add_argument("--least-branches", type=float, default=0)
    o = p.parse_args()
    files = collect(o.build.resolve())
    good = True
    show(files, o.show)
    for part in (*PARTS, ""):
        some = [f for f in files if f.name.startswith(part)]
        words = []
        for what, counts, least in (
                ("lines", [c for f in some for c in f.lines.values()],
                 o.least_lines),
                ("branches", [c for f in some for c in f.branches.values()],
                 o.least_branches)):
            hit, n = share(counts)
            percent = 100 * hit / n if n else 0
            good &= percent >= least
            words.append(f"{percent:.1f} % of {n} {what}")
        print(f"{part or 'both'}: {', '.join(words)}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
