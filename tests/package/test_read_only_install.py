"""A package and a home that cannot be written to, as in containers with arbitrary user ids, are enough to work."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pairframe
from pairframe import compiler

_DROP_FROM_BOUNDING_SET = 24  # PR_CAPBSET_DROP
COMPARE = """
import pairframe
from pairframe.testing import disc
result = pairframe.compare(disc((20, 20), (10, 8), 4), disc((20, 20), (10, 10), 4))
print(pairframe.__file__, result.status, pairframe.w2(disc((20, 20), (10, 8), 4), disc((20, 20), (10, 10), 4)).lower)
"""
TWICE = """
from pairframe.compiler import compiled
@compiled()
def twice(x):
    return 2 * x
print(twice(21), twice.stats.cache_path)
"""


# Run by a program in between: code between fork and exec is not safe beside other libraries' threads. Permissions count for
# root as well once all capabilities are gone.
WITHOUT_PRIVILEGES = f"""
import ctypes, os, sys
if os.geteuid() == 0:
    libc = ctypes.CDLL(None)
    for capability in range(64):
        libc.prctl({_DROP_FROM_BOUNDING_SET}, capability, 0, 0, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A copy of the package and a home, both read-only, and a temporary folder."""
    here = Path(pairframe.__file__).parent
    shutil.copytree(here, tmp_path / "site/pairframe", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "site/twice.py").write_text(TWICE)
    (tmp_path / "home").mkdir()
    (tmp_path / "tmp").mkdir()
    read_only = [tmp_path / "home", *(folder for folder, _, _ in os.walk(tmp_path / "site"))]
    for folder in read_only:
        Path(folder).chmod(0o555)
    yield tmp_path
    for folder in read_only:
        Path(folder).chmod(0o755)


def run(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    unset = {"NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "MPLCONFIGDIR"}
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    environment |= {"HOME": str(place / "home"), "TMPDIR": str(place / "tmp"), "PYTHONPATH": str(place / "site")}
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_PRIVILEGES, *words],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def cannot_write(place: Path) -> None:
    done = run(place, "-c", "open('site/pairframe/probe', 'w')")
    if done.returncode == 0:
        pytest.skip("this user may write to read-only folders, and that cannot be given up here")


@pytest.mark.slow
@pytest.mark.usefixtures("cannot_write")
def test_a_pair_is_compared_from_a_read_only_install(place: Path) -> None:
    done = run(place, "-c", COMPARE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[:2] == [str(place / "site/pairframe/__init__.py"), "converged"]
    kept = sorted(path.suffix for path in place.glob("tmp/pairframe-compiled-*/*/*"))
    assert {".nbc", ".nbi"} <= set(kept)
    again = run(place, "-c", COMPARE)
    assert (again.stdout, again.stderr) == (done.stdout, "")  # compiled once


@pytest.mark.usefixtures("cannot_write")
def test_without_any_safe_folder_every_process_compiles_for_itself(place: Path) -> None:
    shared = place / f"tmp/pairframe-compiled-{os.geteuid()}"
    shared.mkdir()
    shared.chmod(0o777)
    done = run(place, "-m", "twice")
    assert (done.returncode, done.stdout) == (0, "42 None\n"), done.stderr
    assert list(shared.iterdir()) == []


@pytest.mark.parametrize("kind", ["link", "file", "open to others"])
def test_a_folder_that_others_could_have_made_holds_no_code(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = tmp_path / f"pairframe-compiled-{os.geteuid()}"
    compiler._temporary_cache.cache_clear()
    assert compiler._temporary_cache() == folder
    assert folder.stat().st_mode & 0o777 == 0o700
    if kind == "open to others":
        folder.chmod(0o770)
    else:
        folder.rmdir()
        (folder.touch if kind == "file" else lambda: folder.symlink_to(tmp_path))()
    compiler._temporary_cache.cache_clear()
    assert compiler._temporary_cache() is None
    compiler._temporary_cache.cache_clear()
