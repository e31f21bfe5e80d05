"""docs/deploy.md: the commands that can be run here work as written."""

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(os.environ["CORVO_SOURCE_DIR"])
BUILD = Path(os.environ["CORVO_BUILD_DIR"])
PAGE = (ROOT / "docs/deploy.md").read_text()


def test_commands(tmp_path):
    blocks = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.S | re.M)
    assert len(blocks) >= 3
    for name in ("helm", "systemd", "tools", "docs"):
        (tmp_path / name).symlink_to(ROOT / name)
    tool = subprocess.run([ROOT / "tools/deps", "path", "helm"], check=True,
                          capture_output=True, text=True).stdout
    path = f"{Path(tool).parent}:{BUILD / 'cli'}:{os.environ['PATH']}"
    p = subprocess.run(["bash", "-ex"], input="".join(blocks), cwd=tmp_path,
                       env={**os.environ, "PATH": path}, text=True,
                       capture_output=True, check=False)
    assert p.returncode == 0, p.stdout + p.stderr


def test_names_of_files_and_values():
    """What the page tells others to type names things that exist."""
    for name in re.findall(r"-f (\S+\.yaml)|`(\w+\.yaml)`", PAGE):
        assert (ROOT / (name[0] or name[1])).exists(), name
    values = (ROOT / "helm/corvo/values.yaml").read_text()
    for name in re.findall(r"--set ([\w.]+)=", PAGE):
        assert re.search(rf"^ *{name.split('.')[-1]}:", values, re.M), name
    targets = (ROOT / "Makefile").read_text()
    for name in re.findall(r"^make (\w+)", PAGE, re.M):
        assert re.search(rf"^{name}:", targets, re.M), name
    cmake = (ROOT / "CMakeLists.txt").read_text()
    version = re.search(r"project\(corvo VERSION ([\d.]+)", cmake).group(1)
    assert set(re.findall(r"corvo:(\d[\d.]*\d)", PAGE)) == {version}


def test_lines_of_a_configuration():
    """The block of settings of one of three machines is taken by a node."""
    lines = re.search(r"^```\n(node_id = .*?)^```$", PAGE, re.S | re.M)
    known = set(re.findall(
        r"^SETTING\((\w+),", (ROOT / "common/proto/defs/settings.def")
        .read_text(), re.M))
    keys = re.findall(r"^(\w+) = ", lines.group(1), re.M)
    assert len(keys) == lines.group(1).count("\n")
    assert set(keys) <= known
