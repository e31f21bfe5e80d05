"""The pages of docs/features: every command shown there works as written.

A page's ```sh blocks run from top to bottom in one shell. The pages are
followed one after the other, as docs/features/README.md names them, on one
node; see docs/hacking.md, "Pages of features".
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from node import API, BUILD, running  # noqa: E402
from waiting import patience  # noqa: E402

ROOT = Path(os.environ["CORVO_SOURCE_DIR"])
FEATURES = ROOT / "docs/features"
PAGES = [FEATURES / name for name in re.findall(
    r"^\| \[(\S+\.md)\]", (FEATURES / "README.md").read_text(), re.M)]

# Where a command names a queue.
QUEUE = re.compile(r'"(?:callback_)?queues?": \[?"([^"]+)"'
                   r"|/queues/([\w.-]+)"
                   r"|[?&]queues?=([\w.-]+)"
                   r"|--(?:callback-)?queue (\S+)"
                   r"|corvo (?:enqueue|pause|queue|queue set) (?!set )(\S+)")

# jq of nothing says nothing and succeeds, also with -e, and a member that is
# not there is null: what a page shows of an answer must be in it.
JQ = r"""
jq() {
    local out
    out=$(command jq "$@"; s=$?; printf x; exit $s) || {
        printf %s "${out%x}"
        return 1
    }
    out=${out%x}
    case $out in
    "") echo "jq has nothing to say: $*" >&2; return 1 ;;
    null$'\n') echo "jq says null: $*" >&2; return 1 ;;
    esac
    printf %s "$out"
}
"""

# What the words mean in a block, and in one whose commands are refused.
WORKS = r"""
curl() { command curl --silent --show-error --fail-with-body "$@"; }
corvo() { command corvo "$@"; }
"""
FAILS = r"""
curl() {
    local out
    out=$(command curl --silent --show-error --write-out '\n%{http_code}' \
        "$@") || return
    printf '%s\n' "${out%$'\n'*}"
    [ "${out##*$'\n'}" -ge 400 ]
}
corvo() { ! command corvo "$@"; }
"""


def blocks(page):
    """[(works, [command])] of the page's ```sh and ```sh fails blocks."""
    found = []
    for words, text in re.findall(r"^```sh\b(.*?)\n(.*?)^```$",
                                  page.read_text(), re.S | re.M):
        assert words.strip() in ("", "fails"), f"unknown mark: {words}"
        lines = text.replace("\\\n", " ").splitlines()
        found.append((not words.strip(),
                      [x for x in lines if x.strip()
                       and not x.startswith("#")]))
    return found


def script_of(page):
    script = ["set -o pipefail", JQ]
    for works, commands in blocks(page):
        script.append(WORKS if works else FAILS)
        for line in commands:
            shown = line.replace("'", "'\\''")
            script += [f"printf '%s\\n' '$ {shown}'", line,
                       "s=$?; [ $s -eq 0 ] || { echo \"status $s\"; exit 1; }"]
    return "\n".join(script) + "\n"


def queues_of(commands):
    return {name for line in commands for found in QUEUE.findall(line)
            for name in found if name}


@pytest.mark.parametrize("line, works", [
    ("printf '' | jq -e .x", False), ("printf '{}' | jq -r .x", False),
    ("printf '{}' | jq -e '.x == 1'", False), ("true | jq -r '.[].x'", False),
    ("X=$(printf '' | jq -r .x)", False), ("printf '{' | jq .", False),
    ("printf '[]' | jq '.[]' | grep x", False),
    ("printf '{\"x\": 1}' | jq -e '.x == 1'", True),
    ("X=$(printf '{\"x\": 1}' | jq .x) && [ $X = 1 ]", True),
    ("printf '{\"x\": null}' | jq -e '.x == null'", True),
    ("printf '{\"x\": \"\"}' | jq -r .x | grep '^$'", True),
])
def test_an_answer_that_says_nothing_is_found(line, works):
    p = subprocess.run(["bash"], input=f"set -o pipefail\n{JQ}\n{line}\n",
                       capture_output=True, text=True, timeout=patience(60))
    assert (p.returncode == 0) == works, p


@pytest.fixture(scope="module")
def node():
    with running() as n:
        yield n


def goes_on(node):
    """What works on by itself, or stands still, when its page has ended."""
    with node.client() as c:
        schedules = c.get(API + "/schedules").json["schedules"]
        queues = c.get(API + "/queues").json
        bulk = c.get(API + "/bulk").json["operations"]
    return ({f"schedule {s['name']}" for s in schedules}
            | {f"paused queue {q['name']}" for q in queues if q["paused"]}
            | {f"bulk operation {b['id']}" for b in bulk
               if b["status"] not in ("completed", "cancelled", "failed")})


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_page(page, node):
    assert any(works and commands for works, commands in blocks(page)), \
        "a page without a command that can be tried"
    before = goes_on(node)
    env = {k: v for k, v in os.environ.items() if not k.startswith("CORVO_")}
    env["CORVO_URL"] = f"http://127.0.0.1:{node.port}"
    env["PATH"] = f"{BUILD / 'cli'}:{env['PATH']}"
    # A file, not a pipe: a stream whose reader has left holds its end open
    # until the next frame.
    with tempfile.TemporaryFile("w+") as out:
        p = subprocess.run(
            ["bash"], input=script_of(page).replace(":8080", f":{node.port}"),
            cwd=node.dir, env=env, stdout=out, stderr=subprocess.STDOUT,
            text=True, timeout=patience(120))
        out.seek(0)
        assert p.returncode == 0, out.read()
    assert goes_on(node) <= before, "the page leaves this to the next ones"


def test_each_page_has_queues_of_its_own():
    """Whoever follows the pages, after the README's tour perhaps, finds in a
    page's queues what that page has put there."""
    tour = re.search(r"^## A five-minute tour$(.*?)^## ",
                     (ROOT / "README.md").read_text(), re.S | re.M).group(1)
    user = dict.fromkeys(queues_of(tour.splitlines()), "README.md")
    assert user, "no queue found in the tour"
    shared = []
    for page in PAGES:
        found = queues_of(x for _, commands in blocks(page) for x in commands)
        assert found, f"no queue found in {page.name}"
        shared += [f"{q}: {user[q]} and {page.name}" for q in sorted(found)
                   if q in user]
        user |= dict.fromkeys(found, page.name)
    assert not shared, shared


def test_index_names_every_page():
    there = {p.name for p in FEATURES.glob("*.md")} - {"README.md"}
    named = [p.name for p in PAGES]
    assert sorted(named) == sorted(there), "docs/features/README.md"
