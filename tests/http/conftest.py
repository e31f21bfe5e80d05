"""Fixtures of the black-box tests: a node per module, a client per test."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from node import new_node, running  # noqa: E402


@pytest.fixture(scope="module")
def node(request):
    """A running node; a module's NODE_FLAGS are added to its command."""
    with running(*getattr(request.module, "NODE_FLAGS", [])) as n:
        yield n


@pytest.fixture
def client(node):
    with node.client() as c:
        yield c


@pytest.fixture
def queue(request):
    """A queue name no other test uses."""
    return request.node.name.replace("[", "-").replace("]", "")


@pytest.fixture
def make_node():
    """Makes nodes of this test's own; all are ended after it."""
    made = []

    def make(*flags, **named):
        made.append(new_node(*flags, **named))
        return made[-1]

    yield make
    for n in made:
        n.clean_up()
