"""docs/promises.md names only tests that exist."""

import os
import re
from pathlib import Path

import pytest

ROOT = Path(os.environ["CORVO_SOURCE_DIR"])
NAMED = re.compile(r"`(test_\w+\.(?:py|c))::(\w+|\*)`")
ROW = re.compile(r"^\| (?!Rule |-)(.+?) \| (.+) \|$", re.M)


def rows():
    return ROW.findall((ROOT / "docs" / "promises.md").read_text())


def source_of(name):
    found = list((ROOT / "tests").glob("*/" + name))
    assert len(found) == 1, f"{name}: {found}"
    return found[0].read_text()


def test_there_are_promises():
    assert len(rows()) >= 40


@pytest.mark.parametrize("rule,tests", rows(), ids=[r[:60] for r, _ in rows()])
def test_every_promise_has_its_tests(rule, tests):
    named = NAMED.findall(tests)
    assert named, rule
    for file, test in named:
        if test == "*":
            assert re.search(r"^def test_", source_of(file), re.M)
        else:
            assert re.search(rf"\b{test}\(", source_of(file)), \
                f"{file} has no {test}"
