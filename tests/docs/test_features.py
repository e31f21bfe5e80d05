"""The pages of docs/features: every command shown there works as written.

A page's ```sh blocks run from top to bottom in one shell against a node of
the page's own; see docs/hacking.md, "Pages of features".
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from node import BUILD, Node  # noqa: E402
from waiting import patience  # noqa: E402

ROOT = Path(os.environ["CORVO_SOURCE_DIR"])
PAGES = sorted(p for p in (ROOT / "docs/features").glob("*.md")
               if p.name != "README.md")

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
    script = ["set -o pipefail"]
    for works, commands in blocks(page):
        script.append(WORKS if works else FAILS)
        for line in commands:
            shown = line.replace("'", "'\\''")
            script += [f"printf '%s\\n' '$ {shown}'", line,
                       "s=$?; [ $s -eq 0 ] || { echo \"status $s\"; exit 1; }"]
    return "\n".join(script) + "\n"


@pytest.fixture
def node():
    n = Node()
    try:
        yield n.start()
    except BaseException:
        n.clean_up(check=False)
        raise
    n.clean_up()


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_page(page, node):
    assert any(works and commands for works, commands in blocks(page)), \
        "a page without a command that can be tried"
    env = {k: v for k, v in os.environ.items() if not k.startswith("CORVO_")}
    env["CORVO_URL"] = f"http://127.0.0.1:{node.port}"
    env["PATH"] = f"{BUILD / 'cli'}:{env['PATH']}"
    p = subprocess.run(
        ["bash"], input=script_of(page).replace(":8080", f":{node.port}"),
        cwd=node.dir, env=env, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=patience(120))
    assert p.returncode == 0, p.stdout


def test_index_names_every_page():
    text = (ROOT / "docs/features/README.md").read_text()
    missing = [p.name for p in PAGES if f"]({p.name})" not in text]
    assert not missing, f"not in docs/features/README.md: {missing}"
