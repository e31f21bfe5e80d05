#!/usr/bin/env python3
"""The same seeds in several builds, and whether the same happens in them.

  same_hash.py [--seeds 10] [BUILD ...]

A BUILD is a tree with tests/sim/test_sim_whole in it; none: gcc and clang, and
the build with sanitizers, made in build/sim, build/sim-clang and build/asan.
What is compared is the hash of the traces: every event of every seed.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEST = "tests/sim/test_sim_whole"
# How each tree is configured.
BUILDS = {
    "sim": ["--preset", "sim"],
    "sim-clang": ["--preset", "sim", "-DCMAKE_C_COMPILER=clang", "-B",
                  "build/sim-clang"],
    "asan": ["--preset", "asan"],
}


def run(*args):
    subprocess.run(args, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)


def build(name):
    launcher = shutil.which("ccache")
    more = [f"-DCMAKE_C_COMPILER_LAUNCHER={launcher}"] if launcher else []
    tree = ROOT / "build" / name
    run("cmake", *BUILDS[name], *more)
    run("cmake", "--build", str(tree), "--target", "test_sim_whole")
    return tree


def trace(tree, seeds):
    """The hash of the traces, and the line it stands in."""
    env = dict(os.environ, CORVO_TEST_SEEDS=str(seeds),
               CORVO_TEST_JOBS=str(os.cpu_count()))
    env.pop("CORVO_TEST_KNOWN", None)
    p = subprocess.run([tree / TEST], env=env, capture_output=True, text=True)
    print(f"{tree}: {p.stdout.strip()}", flush=True)
    found = re.search(r"traces ([0-9a-f]{16})", p.stdout)
    return found[1] if found and p.returncode == 0 else None


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--seeds", type=int, default=10)
    p.add_argument("builds", nargs="*", type=Path)
    args = p.parse_args()
    trees = args.builds or [build(name) for name in BUILDS]
    traces = {trace(tree.resolve(), args.seeds) for tree in trees}
    same = len(traces) == 1 and None not in traces
    print("the same" if same else "NOT the same")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
