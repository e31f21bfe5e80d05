"""Every node is stopped in order and started again, one after the other, under
load: nobody notices who sends a failed request once more. With
CORVO_OTHER_BUILD, the build directory of another version, the nodes are of
that one at first and of this one in the end."""

import os
import random
from pathlib import Path

import pytest

from clients import Load
from cluster import Cluster
from node import BUILD, patience
from test_failover import check, progress

SEED = int(os.environ.get("CORVO_TEST_SEED") or random.randrange(1 << 32))
OTHER = os.environ.get("CORVO_OTHER_BUILD")
FROM = {"restart": BUILD}
if OTHER:
    FROM["upgrade"] = Path(OTHER).resolve()


@pytest.mark.parametrize("how", FROM)
def test_rolling_under_load_fails_no_request(how, tmp_path):
    print(f"CORVO_TEST_SEED={SEED}")
    three = Cluster("--log-level=info")
    load = None
    try:
        for n in three.nodes:
            n.corvo = FROM[how] / "cli" / "corvo"
        three.start()
        load = Load(three.nodes, tmp_path, SEED, answer_s=patience(10)).start()
        for n in three.nodes:
            progress(load)
            n.stop()
            n.corvo = BUILD / "cli" / "corvo"
            progress(load)
            n.start()
            three.wait_whole()
        check(load, three, tmp_path)
        three.clean_up()
    finally:
        if load is not None:
            load.watch.produced.set()
            load.watch.stop.set()
        three.clean_up(check=False)
