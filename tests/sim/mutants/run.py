#!/usr/bin/env python3
"""Bugs that somebody could write, one at a time, and whether the simulation
finds them.

  run.py [--seeds 300] [--from 1] [--tree build/mutants] [--markdown]
         [NAME ...]

No name: all patches of this folder. Each begins with a sentence about what it
breaks. It is applied to a copy of the tree, and what the simulation needs is
built there. Prints a table: the first seed that finds it, how many seconds
that took, and what was found. One that nothing finds is a hole; a line
`Kept out:` in its patch says why it may be one, and then it is not run.

A line `Test: NAME` names another test that is to find it: the simulation has
not got what it is about, or comes to it too seldom. A line `Env: NAME=VALUE` is
for that test.

What finds a bug has to pass without it: the other test is run before, and the
seed that failed once more, without the patch.

With --markdown each row is also put into docs/internals/mutants.md; rows of
mutants that are not run stay as they are, so two runs can share the names.
"""

import argparse
import fcntl
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
SIM = "test_sim_whole"
OTHER_S = 600  # of another test; one that goes on longer hangs
PAGE = ROOT / "docs" / "internals" / "mutants.md"
PAGE_HEAD = """# Mutants

A mutant is a patch in `tests/sim/mutants` that plants one bug. It shows that
the tests would notice that bug. Simulated clusters (`test_sim_whole`) run
against each mutant with seeds 1, 2, 3 and so on until one reports a violation,
300 of them at most; a mutant that none of them reports is a hole. "Seed" is the
one that did. The last column is the violation as it was reported.

A patch with a line `Test:` plants a bug in what the simulation replaces, or one
that a storm leads to too seldom. The test of that line is run instead; the last
column names it, and "-" stands for one without seeds.

What reports a violation passes without the patch.

`tests/sim/mutants/run.py --markdown` writes this page.

| mutant | the bug it plants | seed | found by |
|---|---|---|---|
"""


def run(*args, **more):
    return subprocess.run(args, check=True, **more)


class Tree:
    """A copy of what git tracks, as it is in the work tree; what was built in
    it the last time stays."""

    def __init__(self, path):
        self.path = path
        self.build = path / "build" / "sim"
        self.is_ready = False
        self.control = {}  # what is not patched, by its name
        # what two trees have in common is compiled once
        self.env = dict(os.environ, CCACHE_BASEDIR=str(path),
                        CCACHE_NOHASHDIR="1")
        names = subprocess.run(["git", "-C", ROOT, "ls-files"], check=True,
                               capture_output=True, text=True).stdout
        for name in filter(None, names.split("\n")):
            self.copy(ROOT / name, path / name)

    @staticmethod
    def copy(source, target):
        if not source.exists() or (target.exists() and
                                   target.read_bytes() == source.read_bytes()):
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)

    def patch(self, path, *more):
        # what is patched is another file, also for a clock that is coarse
        run("patch", "-s", "-p1", "-F0", "--no-backup-if-mismatch", "-i",
            str(path), *more, cwd=self.path)

    def make(self, target):
        if not self.is_ready:
            launcher = shutil.which("ccache")
            more = [f"-DCMAKE_C_COMPILER_LAUNCHER={launcher}"] if launcher \
                else []
            run("cmake", "--preset", "sim", "-DCORVO_WERROR=OFF", *more,
                cwd=self.path, env=self.env, stdout=subprocess.DEVNULL)
            self.is_ready = True
        p = subprocess.run(["cmake", "--build", str(self.build), "--target",
                            target], env=self.env, capture_output=True,
                           text=True)
        if p.returncode != 0:
            raise RuntimeError("does not build: " + p.stdout[-2000:])
        return next(x for x in self.build.rglob(target)
                    if x.is_file() and os.access(x, os.X_OK))


    def unpatched(self, target):
        """A copy that later builds leave as it is, beside the other one: some
        look for their neighbours."""
        if target not in self.control:
            made = self.make(target)
            copy = made.with_name(f"unpatched_{target}")
            shutil.copy(made, copy)
            self.control[target] = copy
        return self.control[target]


class Mutant:
    def __init__(self, path):
        self.path, self.name = path, path.stem
        self.head = path.read_text().split("\ndiff ")[0]

        self.bug = " ".join(self.head.split("\n\n")[0].split())

    def word(self, name):
        found = re.search(rf"^{name}: (.*)$", self.head, re.M)
        return found and found[1]


def first_seed(test, first, seeds):
    """The first of those that fail, and what it says."""
    env = dict(os.environ, CORVO_TEST_FIRST=str(first),
               CORVO_TEST_SEEDS=str(seeds), CORVO_TEST_STOP="1")
    env.setdefault("CORVO_TEST_JOBS", str(os.cpu_count()))
    p = subprocess.run([test], env=env, capture_output=True, text=True)
    found = re.findall(r"^CORVO_TEST_SEED=(\d+): (.*)$", p.stdout, re.M)
    if not found:
        return None
    seed, verdict = min(found, key=lambda x: int(x[0]))
    return int(seed), verdict


def other_test(test, more):
    env = dict(os.environ, CMOCKA_MESSAGE_OUTPUT="stdout")
    env.update([more.split("=", 1)] if more else [])
    try:
        p = subprocess.run([test], env=env, capture_output=True, text=True,
                           timeout=OTHER_S)
    except subprocess.TimeoutExpired:
        return 0, f"{test.name}: has no end"
    if p.returncode == 0:
        return None
    failed = re.findall(r"^\[  FAILED  \] (\S+)$", p.stdout + p.stderr, re.M)
    seed = re.search(r"^CORVO_TEST_SEED=(\d+): (.*)$", p.stdout, re.M)
    if seed:
        return int(seed[1]), f"{test.name}: {seed[2]}"
    return 0, f"{test.name}: {failed[0] if failed else 'fails'}"


passed = {}  # by the test: what is wrong with it, without a patch


def control(tree, other, more):
    """What the other test says before anything is planted; None: nothing."""
    if (other, more) not in passed:
        passed[other, more] = other_test(tree.unpatched(other), more)
    return passed[other, more]


def look_for(tree, mutant, args):
    """What found it, or None; and how long that took."""
    other, more = mutant.word("Test"), mutant.word("Env")
    sim = None if other else tree.unpatched(SIM)
    wrong = control(tree, other, more) if other else None
    if wrong:
        raise RuntimeError(f"fails without it: {wrong[1]}")
    tree.patch(mutant.path)
    try:
        test = tree.make(other or SIM)
        began = time.monotonic()
        found = other_test(test, more) if other else \
            first_seed(test, args.first, args.seeds)
    finally:
        tree.patch(mutant.path, "-R")
    if found and not other and first_seed(sim, found[0], 1):
        raise RuntimeError(f"seed {found[0]} fails without it")
    return found, time.monotonic() - began


def row(name, found, seconds, last):
    if found is None:
        return f"{name:26} {last:5} {seconds:5.0f} NOT FOUND"
    return f"{name:26} {found[0] or '-':>5} {seconds:5.0f} {found[1]}"


def as_cells(found, last):
    if found is None:
        return f"none of {last}", "nothing"
    return str(found[0] or "-"), found[1]


def cell(text):
    """What fits into a table, and is no link or markup."""
    return re.sub(r"([|<`\[_*])", r"\\\1", text[:140])


def into_page(mutant, seed, found_by):
    """Under a lock: another run may be at the other half."""
    known = {x.stem for x in HERE.glob("*.patch")}
    PAGE.parent.mkdir(exist_ok=True)
    with open(PAGE, "a+", encoding="utf-8") as page:
        fcntl.flock(page, fcntl.LOCK_EX)
        page.seek(0)
        rows = {m[1]: m[0] for m in
                re.finditer(r"^\| (\w+) \| .*\|$", page.read(), re.M)
                if m[1] in known}
        rows[mutant.name] = (f"| {mutant.name} | {cell(mutant.bug)} | {seed}"
                             f" | {cell(found_by)} |")
        page.truncate(0)
        page.write(PAGE_HEAD + "".join(rows[x] + "\n" for x in sorted(rows)))


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--seeds", type=int, default=300)
    p.add_argument("--from", type=int, default=1, dest="first")
    p.add_argument("--tree", type=Path, default=ROOT / "build" / "mutants")
    p.add_argument("--markdown", action="store_true")
    p.add_argument("names", nargs="*")
    args = p.parse_args()
    os.nice(5)
    names = args.names or sorted(x.stem for x in HERE.glob("*.patch"))
    tree = Tree(args.tree.resolve())
    missed, last = 0, args.first + args.seeds - 1
    print(f"{'mutant':26}  seed     s found by", flush=True)
    for mutant in (Mutant(HERE / f"{name}.patch") for name in names):
        if mutant.word("Kept out"):
            print(f"{mutant.name:26}     -     - kept out: "
                  f"{mutant.word('Kept out')}", flush=True)
            if args.markdown:
                into_page(mutant, "-", "kept out: " + mutant.word("Kept out"))
            continue
        try:
            found, seconds = look_for(tree, mutant, args)
        except (RuntimeError, subprocess.CalledProcessError) as e:
            missed += 1
            print(f"{mutant.name:26}     -     - {e}", flush=True)
            continue
        missed += found is None
        if args.markdown:
            into_page(mutant, *as_cells(found, last))
        print(row(mutant.name, found, seconds, last), flush=True)
    print(f"{missed} not found" if missed else "all found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
