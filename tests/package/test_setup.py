"""The Makefile finishes what it finds half done, and exact versions are written down."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NO_INSTALL = "PIP=.venv/bin/python -m pip --version #"  # the rest of the line, what to install, is a comment


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def make(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", *words], cwd=project, capture_output=True, text=True, check=False)


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_a_venv_without_pip_is_completed_and_a_second_run_installs_nothing(project: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", project / ".venv"], check=True)
    done = make(project, "setup", f"PYTHON={sys.executable}", NO_INSTALL)
    assert done.returncode == 0, done.stderr
    assert "installing pairframe" in done.stdout
    again = make(project, "setup", f"PYTHON={sys.executable}", NO_INSTALL)
    assert (again.returncode, "installing" in again.stdout) == (0, False)


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_a_python_that_is_not_there_is_named(project: Path) -> None:
    done = make(project, "setup", "PYTHON=nopython")
    assert done.returncode != 0
    assert "there is no program 'nopython'. Try: make PYTHON=python3.11" in done.stdout
    assert not (project / ".venv").exists()


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_packages_go_into_the_venv_or_nowhere(project: Path) -> None:
    assert ".venv/bin/python -m pip install --require-virtualenv" in make(project, "--dry-run", "setup").stdout


def test_every_package_that_is_needed_has_its_exact_version() -> None:
    metadata = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = metadata["optional-dependencies"]
    needed = metadata["dependencies"] + [line for name in extras for line in extras[name]]
    names = {re.split(r"[^\w-]", line)[0].lower() for line in needed} - {"pairframe"}
    pinned = set(re.findall(r"^([\w-]+)==", (ROOT / "constraints.txt").read_text().lower(), flags=re.MULTILINE))
    assert names <= pinned
