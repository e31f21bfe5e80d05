"""Style as a test: limits, directions of includes, banned calls, tables.

Rules are in deps.txt beside this file. Each check is a function that yields
"file:line: text"; pytest runs one test per check and shows them all.
"""

import fnmatch
import os
import re
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

import pytest

ROOT = Path(os.environ.get("CORVO_SOURCE_DIR",
                           Path(__file__).resolve().parents[2]))
HERE = Path(__file__).resolve().parent
FILE_LINES = 600
FUNCTION_LINES = 70
COLUMNS = 80
TAB = 8
# Written by programs, or by the licence's authors.
GENERATED = ("docs/reference/*", "LICENSE", "*.lock", "*.bin")
HEADER_FLAGS = ["-std=gnu11", "-D_GNU_SOURCE", "-fsyntax-only", "-Wall",
                "-Wextra", "-Werror", "-Wno-unused-function"]


# --- the tree ------------------------------------------------------------


@lru_cache(None)
def files():
    """Everything git knows or would add; a source archive has no git."""
    try:
        out = subprocess.run(
            ["git", "-C", str(ROOT), "ls-files", "--cached", "--others",
             "--exclude-standard"], check=True, capture_output=True,
            text=True).stdout.split("\n")
    except (OSError, subprocess.CalledProcessError):
        out = [str(p.relative_to(ROOT)) for p in ROOT.rglob("*")
               if p.is_file()]
        out = [f for f in out if not f.startswith(("build/", "data/"))]
    return sorted(f for f in out if f and (ROOT / f).is_file())


def matching(*patterns):
    return [f for f in files()
            if any(fnmatch.fnmatch(f, p) for p in patterns)
            and not any(fnmatch.fnmatch(f, p) for p in GENERATED)]


@lru_cache(None)
def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


def lines_of(name):
    return text_of(name).split("\n")


@lru_cache(None)
def code_of(name):
    """C without comments and the insides of literals; lines stay."""
    pattern = re.compile(
        r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'",
        re.S)

    def blank(m):
        got = m.group(0)
        if got[0] in "\"'":
            return got[0] * 2
        return "\n" * got.count("\n") or " "

    return pattern.sub(blank, text_of(name)).split("\n")


def c_files():
    return matching("*.c", "*.h")


@lru_cache(None)
def floors():
    return [n for n, _ in rules("layer")]


@lru_cache(None)
def folder_of(name):
    """The row of deps.txt a file belongs to: the longest that fits."""
    fit = [n for n in floors() if name.startswith(n + "/")]
    return max(fit, key=len) if fit else "/".join(name.split("/")[:-1])


@lru_cache(None)
def rules(kind):
    """The rows of deps.txt of one kind: [(name, rest)]."""
    rows = []
    for line in (HERE / "deps.txt").read_text().split("\n"):
        word, _, rest = line.partition(" ")
        if word == kind:
            name, _, rest = rest.partition(":")
            rows.append((name.strip(), rest.strip()))
    assert rows, "deps.txt has no rows of kind " + kind
    return rows


# --- limits --------------------------------------------------------------


def check_file_length():
    for f in matching("*.c", "*.h", "*.py"):
        n = text_of(f).count("\n")
        if n > FILE_LINES:
            yield "%s:%d: %d lines, at most %d" % (f, n, n, FILE_LINES)


def check_line_length():
    for f in matching("*.c", "*.h", "*.py", "*.sh", "CMakeLists.txt",
                      "*.cmake", "tools/*", "bench/run"):
        if f.startswith("tools/") and "." in f.split("/")[-1] and \
                not f.endswith((".c", ".h", ".py", ".sh")):
            continue
        for i, line in enumerate(lines_of(f), 1):
            n = len(line.expandtabs(TAB))
            if n > COLUMNS:
                yield "%s:%d: %d columns, at most %d" % (f, i, n, COLUMNS)


def check_trailing_space():
    for f in matching("*.c", "*.h", "*.def", "*.py", "*.md", "*.txt",
                      "*.cmake", "*.yaml", "Makefile"):
        for i, line in enumerate(lines_of(f), 1):
            if line != line.rstrip():
                yield "%s:%d: white space at the end" % (f, i)
        if not text_of(f).endswith("\n") and text_of(f):
            yield "%s: no newline at the end" % f


def check_function_length():
    """A function's body starts with { in the first column (Linux braces)."""
    for f in matching("*.c", "*.h"):
        start = None
        for i, line in enumerate(code_of(f), 1):
            if line == "{":
                start = i
            elif line == "}" and start is not None:
                if i - start - 1 > FUNCTION_LINES:
                    yield "%s:%d: function of %d lines, at most %d" % (
                        f, start, i - start - 1, FUNCTION_LINES)
                start = None


# --- includes ------------------------------------------------------------

INCLUDE = re.compile(r"^\s*#\s*include\s+([\"<])([^\">]+)[\">]")


def includes():
    for f in matching("*.c", "*.h", "*.def"):
        for i, line in enumerate(lines_of(f), 1):
            m = INCLUDE.match(line)
            if m:
                yield f, i, m.group(2), m.group(1) == '"'


@lru_cache(None)
def header_path(f, name):
    """The header of ours that `name` means in the file f, or None. What it
    may be: beside the file, of common, of f's own process; of any process
    where f is a test, a benchmark or a tool."""
    places = [str(Path(f).parent), "common", f.split("/")[0]]
    if f.startswith(("tests/", "bench/", "tools/")):
        places += ["tests", *sorted(d.name for d in ROOT.glob("corvo-*"))]
    for place in places:
        if (ROOT / place / name).is_file():
            return place + "/" + name
    return None


def check_include_directions():
    """A folder's row names the folders below it, or single headers."""
    allowed = {n: r.split() for n, r in rules("layer")}
    for f, i, name, quoted in includes():
        here = folder_of(f)
        if here not in allowed:
            yield "%s: its folder has no layer row in deps.txt" % f
            continue
        may = allowed[here]
        to = header_path(f, name)
        if to is None:
            for other in ROOT.glob("corvo-*") if quoted else ():
                if "*" not in may and (other / name).is_file():
                    yield "%s:%d: %s belongs to %s" % (
                        f, i, name, other.name)
        elif "*" not in may and to not in may and \
                folder_of(to) != here and folder_of(to) not in may:
            yield "%s:%d: %s may not include %s" % (f, i, here, name)


def check_layers_have_an_order():
    """No two floors include each other, by whatever way around."""
    below = {n: [x for x in r.split() if x != "*" and "." not in x]
             for n, r in rules("layer")}

    def reaches(a, b, seen):
        return any(x == b or (x not in seen and reaches(
            x, b, seen | {x})) for x in below.get(a, ()))

    for n in below:
        if reaches(n, n, set()):
            yield "deps.txt: %s stands on itself" % n


def check_library_seams():
    for f, i, name, _ in includes():
        for library, where in rules("only"):
            if name.startswith(library) and not any(
                    fnmatch.fnmatch(f, w) for w in where.split()):
                yield "%s:%d: %s may be included only in %s" % (
                    f, i, name, where)


def check_private_headers():
    for f, i, name, _ in includes():
        for header, where in rules("header"):
            if name == header and not any(
                    fnmatch.fnmatch(f, w) for w in where.split()):
                yield "%s:%d: %s is not for this folder" % (f, i, name)


def package_flags(name):
    out = subprocess.run(["pkg-config", "--cflags", name],
                         capture_output=True, text=True)
    return out.stdout.split()


def check_headers_compile_alone():
    flags = [f for p in ("raft", "libuv", "rocksdb", "sqlite3",
                         "libmicrohttpd", "libnghttp2", "libcurl",
                         "smartcols")
             for f in package_flags(p)]

    # A process's headers are named from its folder; a test's header may
    # stand on the process it tests. Quoted names only: there is a sched.h
    # among them.
    processes = [x for d in sorted(ROOT.glob("corvo-*"))
                 for x in ("-iquote", str(d))]

    def compile_one(header):
        path = ROOT / header
        more = processes if header.startswith("tests/") else [
            "-I", str(ROOT / header.split("/")[0])]
        with tempfile.NamedTemporaryFile("w", suffix=".c") as c:
            # Twice: the guard must work.
            c.write('#include "%s"\n#include "%s"\n' % (path, path))
            c.flush()
            p = subprocess.run(
                ["gcc", *HEADER_FLAGS, "-I", str(ROOT / "common"),
                 "-I", str(ROOT / "tests"), "-I", str(path.parent), *more,
                 "-DCORVO_VERSION=\"0\"", *flags, c.name],
                capture_output=True, text=True)
        return header, p

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for header, p in pool.map(compile_one, matching("*.h")):
            if p.returncode != 0:
                first = re.search(r"error: (.*)", p.stderr)
                yield "%s: does not compile alone: %s" % (
                    header, first.group(1) if first else p.stderr)


# --- words ---------------------------------------------------------------


def check_banned_calls():
    banned = []
    for name, text in rules("ban"):
        text, _, where = text.partition(" except ")
        banned.append((re.compile(r"(?<![\w.>])%s\s*\(" % name), name, text,
                       where.split()))
    for f in c_files():
        for i, line in enumerate(code_of(f), 1):
            for pattern, name, text, where in banned:
                if pattern.search(line) and f not in where:
                    yield "%s:%d: %s: %s" % (f, i, name, text)


def check_python_waits():
    """Tests wait for a condition; only a wait-until helper may sleep."""
    for f in matching("tests/*.py"):
        inside = ""
        for i, line in enumerate(lines_of(f), 1):
            m = re.match(r"\s*def (\w+)", line)
            inside = m.group(1) if m else inside
            if re.search(r"\btime\.sleep\(", line) and \
                    not inside.startswith("wait"):
                yield "%s:%d: sleeps in %s" % (f, i, inside)


def check_markers():
    marker = re.compile(r"\b(FIXME|XXX|HACK)\b|\bTODO\b(?!\(#\d+\))")
    for f in matching("*.c", "*.h", "*.def", "*.py", "*.sh", "*.md",
                      "*.cmake", "CMakeLists.txt", "Makefile", "*.yaml"):
        if f == "tests/tidy/tidy.py":
            continue
        for i, line in enumerate(lines_of(f), 1):
            m = marker.search(line)
            if m:
                yield "%s:%d: %s" % (f, i, m.group(0))


def check_file_headers():
    """A C file says first what it is for, or its header does; the name of
    a unit test says it."""
    for f in matching("*.c", "*.h", "*.def"):
        if f.endswith(".c") and (ROOT / f).with_suffix(".h").is_file():
            continue
        if f.startswith("tests/unit/test_"):
            continue
        if not text_of(f).startswith("/*"):
            yield "%s:1: no comment at the top" % f


# --- tables --------------------------------------------------------------

ROW = re.compile(r"^([A-Z][A-Z_]+)\(.*\"((?:\\.|[^\"\\])*)\"\)$")
DOCUMENTED = ("OP", "QUERY", "ROUTE", "SETTING", "MSG", "FIELD", "FIELD_ENUM",
              "FIELD_MSG", "FIELD_MSGS", "PROC", "LINK", "ERR", "EVENT",
              "METRIC", "CMD", "OPT")


def check_rows_have_docs():
    for f in matching("*.def"):
        for i, line in enumerate(lines_of(f), 1):
            name = line.partition("(")[0]
            if name not in DOCUMENTED:
                continue
            m = ROW.match(line)
            if m is None or len(m.group(2).strip()) < 3:
                yield "%s:%d: the row has no doc text" % (f, i)


LIMIT = re.compile(r"\bLIMIT_[A-Z0-9_]+\b")


def check_limits_of_apply_are_locked():
    """What the state machine reads is part of the protocol."""
    rows = (ROOT / "tests/golden/wire.lock").read_text().splitlines()
    locked = {r.split()[1] for r in rows if r.startswith("limit ")}
    for f in matching("corvo-raftd/fsm/*.c", "corvo-raftd/fsm/*.h"):
        used = set(LIMIT.findall("\n".join(code_of(f))))
        for name in sorted(used - locked):
            yield ("%s: %s is not in tests/golden/wire.lock; name it in "
                   "tools/wire_lock.c" % (f, name))


# --- outside tools -------------------------------------------------------


def check_format():
    if shutil.which("clang-format") is None:
        pytest.skip("clang-format is not installed; run tools/deps test")
    names = c_files()
    p = subprocess.run(["clang-format", "--dry-run", "-Werror", *names],
                       cwd=ROOT, capture_output=True, text=True)
    seen = set()
    for line in p.stderr.split("\n"):
        f = line.split(":")[0]
        if ": error:" in line and f not in seen:
            seen.add(f)
            yield "%s: not formatted; run: make format" % \
                line.split(": ")[0]


def check_mutants_apply():
    """One that does not plants no bug, and shows nothing."""
    for f in matching("tests/sim/mutants/*.patch"):
        p = subprocess.run(["patch", "--dry-run", "-s", "-f", "-p1", "-F0",
                            "-i", f], cwd=ROOT, capture_output=True, text=True)
        if p.returncode != 0:
            yield "%s: does not apply: %s" % (f, p.stdout.split("\n")[0])


CHECKS = {name[len("check_"):]: fn for name, fn in list(globals().items())
          if name.startswith("check_")}


@pytest.mark.parametrize("check", CHECKS)
def test_tidy(check):
    found = list(CHECKS[check]())
    assert not found, "\n" + "\n".join(found)


if __name__ == "__main__":
    raise SystemExit(pytest.main(["-q", "--tb=short", __file__]))
