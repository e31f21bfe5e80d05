"""Python packages some comparisons need, from pip, into the build folder."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest


def pip_folder(name, version):
    """Where the files of a package are, which is not imported."""
    folder = Path(os.environ["CORVO_BUILD_DIR"]) / "tests" / "pip"
    folder = folder / f"{name}-{version}"
    if not folder.exists():
        new = Path(f"{folder}.new.{os.getpid()}")
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "-q", "--no-deps",
             "--no-compile", "--target", str(new), f"{name}=={version}"],
            check=True, timeout=300)
        new.rename(folder)
    return folder


def pip_package(name):
    """The module of that name. Where pip cannot get it, the comparison is
    skipped: it is a second opinion, never the only test."""
    folder = Path(os.environ["CORVO_BUILD_DIR"]) / "tests" / "pip"
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(name)
    except ImportError:
        got = subprocess.run(
            [sys.executable, "-m", "pip", "install", "-q", "--no-deps",
             "--target", str(folder), name],
            capture_output=True, text=True, check=False, timeout=120)
    if got.returncode != 0:  # a machine without a way to the packages
        pytest.skip(f"{name} cannot be had: {got.stderr[-200:]}")
    importlib.invalidate_caches()
    return importlib.import_module(name)
