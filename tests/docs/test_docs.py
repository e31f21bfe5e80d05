"""The documents: links lead somewhere, generated pages are current."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(os.environ["CORVO_SOURCE_DIR"])
BUILD = Path(os.environ["CORVO_BUILD_DIR"])
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def anchors(path):
    """What GitHub makes of the headings."""
    for title in re.findall(r"^#+ (.*)$", path.read_text(), re.M):
        text = re.sub(r"[^\w\- ]", "", title.lower())
        yield text.replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.name))
def test_links(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = page.parent / name if name else page
        assert path.exists(), target
        if anchor:
            assert anchor in anchors(path), target


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.name))
def test_named_files_exist(page):
    """`common/…/x.c` in a text is a promise; that it is of a process may be
    left out where the text is about it."""
    if page.parent.name == "reference" or page.name == "CHANGELOG.md":
        return
    for name in re.findall(r"`([\w./-]+/[\w.-]+\.(?:c|h|def|py|md|txt))`",
                           page.read_text()):
        folders = [ROOT, page.parent, *ROOT.glob("corvo-*")]
        assert any((f / name).exists() for f in folders), name


def test_command_reference_is_current():
    out = subprocess.run([BUILD / "cli" / "corvo", "help", "--markdown"],
                         check=True, capture_output=True, text=True).stdout
    assert (ROOT / "docs/reference/cli.md").read_text() == out, \
        "run: make docs"
