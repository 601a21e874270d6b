"""Without `fcntl`, `resource` and what else only Unix has, pairframe works all the same. See `helpers/like_windows`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
IN_TIME_S = 240

COMPARE = """
import builtins, sys
import numpy as np
import pairframe as pf
from pairframe import system
assert builtins.LIKE_WINDOWS and not system.IS_UNIX
assert system.physical_memory_bytes() is None and system.peak_memory_bytes() is None
source, target = np.zeros((2, 24, 32), bool)
source[8:16, 8:16] = target[8:16, 12:22] = True
if __name__ == "__main__":
    result = pf.compare(source, target)
    result.save("out")
    assert pf.load("out").divergence == result.divergence
    both = pf.compare_many([(source, target), (target, source)], jobs=2)
    assert both[0].divergence == result.divergence
    print("done")
"""


def run(*words: object, cwd: Path) -> str:
    """Output of a Python process that is like one on Windows; it must end well."""
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS / "helpers/like_windows"), *sys.path])},
        capture_output=True,
        text=True,
        timeout=IN_TIME_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_pairs_are_compared_and_kept_without_what_only_unix_has(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(COMPARE)
    assert run("script.py", cwd=tmp_path) == "done\n"


def test_a_cohort_runs_and_resumes_without_what_only_unix_has(tmp_path: Path) -> None:
    mask = [[0] * 20 for _ in range(16)]
    for name, columns in (("a", range(4, 10)), ("b", range(7, 15))):
        for row in range(5, 11):
            mask[row] = [int(column in columns) for column in range(20)]
        run("-c", f"import numpy as np; np.save('{name}.npy', np.array({mask}, np.uint8))", cwd=tmp_path)
    (tmp_path / "m.csv").write_text("pair_id,source,target\nfirst,a.npy,b.npy\nsecond,b.npy,a.npy\n")
    command = ("-m", "pairframe", "run", "m.csv", "--out", "out", "--jobs", 2, "--no-report")
    assert "2 done" in run(*command, cwd=tmp_path)
    assert "2 skipped" in run(*command, cwd=tmp_path)
    assert "memory" not in run(*command[:-1], "--dry-run", cwd=tmp_path)
    run("-m", "pairframe", "report", "out", cwd=tmp_path)
    left = [path.name for path in (tmp_path / "out").rglob(".tmp-*")]
    assert left == []


@pytest.mark.parametrize(
    "module",
    [
        "test_files.py",
        "results/test_results_store.py",
        "results/test_results_roundtrip.py",
        "results/test_results_other_tools.py",
        "parallel/test_parcels.py",
    ],
)
def test_a_part_of_the_suite_passes_without_what_only_unix_has(module: str) -> None:
    said = run("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", TESTS / module, cwd=TESTS.parent)
    assert " passed" in said
