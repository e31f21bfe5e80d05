#!/usr/bin/env python3
"""The fuzzers of a build with libFuzzer, so many at a time.

  run.py [--minutes 10] [--jobs N] [--keep] [NAME ...]

NAME is json, msg, ...; none: all. --jobs: one for each processor, if it is not
given. Each begins with its corpus here and with
what earlier runs left in the build folder, and has so many minutes. An input
that fails ends its fuzzer and is printed: as --input it fails in build/asan
too, and its digits are a line of a corpus. --keep writes a small part of what
was found to tests/fuzz/corpus, BYTES at most of each.
"""

import argparse
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD = Path(os.environ.get("CORVO_BUILD_DIR",
                            HERE.parents[1] / "build/fuzz")) / "tests/fuzz"
BYTES = 3000
INPUT_BYTES = 1024  # of those that are tried
KEPT_BYTES = 300    # of those that are kept
LIMIT_MB = 2048
FINDING = re.compile(r"^(crash|leak|timeout|oom|slow-unit)-")


def corpus_of(name):
    return [bytes.fromhex(line) for line in
            (HERE / "corpus" / name).read_text().splitlines()
            if not line.startswith("#")]


def fill(folder, name):
    folder.mkdir(parents=True, exist_ok=True)
    for i, data in enumerate(corpus_of(name)):
        (folder / f"kept-{i}").write_bytes(data)


def libfuzzer(name, folder, *flags):
    env = {**os.environ, "ASAN_OPTIONS": "detect_leaks=1",
           "UBSAN_OPTIONS": "print_stacktrace=1"}
    return subprocess.run(
        [str(BUILD / f"fuzz_{name}"), f"-artifact_prefix={folder}/",
         f"-max_len={INPUT_BYTES}", "-timeout=20",
         f"-rss_limit_mb={LIMIT_MB}", *map(str, flags)],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env,
        text=True, errors="replace")


def run(name, minutes):
    """True: nothing was found."""
    folder = BUILD / "work" / name
    found = folder / "found"
    found.mkdir(parents=True, exist_ok=True)
    for old in found.iterdir():
        old.unlink()
    fill(folder / "inputs", name)
    r = libfuzzer(name, found, f"-max_total_time={max(1, int(60 * minutes))}",
                  "-print_final_stats=1", folder / "inputs")
    stat = dict(re.findall(r"stat::(\w+):\s+(\d+)", r.stderr))
    places = re.findall(r"cov: (\d+)", r.stderr)
    verdict = "good" if r.returncode == 0 else "FAILED"
    lines = [f"fuzz_{name}: {stat.get('number_of_executed_units', '?')} inputs "
             f"in {minutes:g} minutes, {places[-1] if places else '?'} places: "
             f"{verdict}"]
    if r.returncode != 0:
        lines.append(r.stderr[-6000:])
        lines += [f"the input was: --input {path.read_bytes().hex()}"
                  for path in found.iterdir() if FINDING.match(path.name)]
    # in one piece: others print as well
    print("\n".join(lines), flush=True)
    return r.returncode == 0


def keep(name):
    """The shortest inputs that reach what all of them do, as far as there is
    room; those of the corpus stay."""
    folder = BUILD / "work" / name
    small = folder / "small"
    small.mkdir(exist_ok=True)
    for old in small.iterdir():
        old.unlink()
    libfuzzer(name, folder / "found", "-merge=1", small, folder / "inputs")
    head = [line for line in (HERE / "corpus" / name).read_text().splitlines()
            if line.startswith("#")]
    rows = corpus_of(name)
    n = sum(map(len, rows))
    new = sorted((p.read_bytes() for p in small.iterdir()),
                 key=lambda d: (len(d), d))
    new = [d for d in new if 0 < len(d) <= KEPT_BYTES]
    # short ones say little, so some of each length
    for data in new[::max(1, sum(map(len, new)) // BYTES)]:
        if data not in rows and n + len(data) <= BYTES:
            rows.append(data)
            n += len(data)
    (HERE / "corpus" / name).write_text(
        "\n".join(head + [d.hex() for d in rows]) + "\n")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--minutes", type=float, default=10)
    p.add_argument("--jobs", type=int, default=os.cpu_count())
    p.add_argument("--keep", action="store_true")
    p.add_argument("names", nargs="*")
    o = p.parse_args()
    there = sorted(p.name for p in (HERE / "corpus").iterdir())
    unknown = set(o.names) - set(there)
    if unknown:
        sys.exit(f"run.py: there is no {' '.join(sorted(unknown))}; there are "
                 f"{' '.join(there)}")
    names = o.names or there
    with ThreadPoolExecutor(o.jobs) as pool:
        good = list(pool.map(lambda name: run(name, o.minutes), names))
        if o.keep:
            list(pool.map(keep, names))
    print(f"fuzz: {len(names)} fuzzers, {o.minutes:g} minutes each, "
          f"{good.count(False)} with findings")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
