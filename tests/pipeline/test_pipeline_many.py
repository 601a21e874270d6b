"""`compare_many`: the answers of `compare`, in order, on one process or several."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from pairframe.errors import ArgumentError, FrameError, WorkerError
from pairframe.parallel import in_order
from pairframe.pipeline import compare, compare_many, iter_results, many, self_problem
from pairframe.pipeline.self_problem import clear_self_cache
from pairframe.problem import TransportConfig
from pairframe.results import TransportResult
from pairframe.testing import disc

CANVAS = (36, 40)
SERIES = [disc(CANVAS, (16, 14 + 2 * t), 6 + 0.5 * t) for t in range(6)]
PAIRS = list(pairwise(SERIES))
CONFIG = TransportConfig(reach_um=12.0)


def assert_equal(one: TransportResult, other: TransportResult) -> None:
    for name in ("mass_created", "mass_destroyed", "velocity_field", "cost_source"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=1e-9, err_msg=name)
    assert one.divergence == pytest.approx(other.divergence, rel=1e-9)
    assert one.transform == other.transform


def one_thread_each(seconds: float) -> tuple[int, tuple[str | None, int]]:
    import numba

    time.sleep(seconds)
    return os.getpid(), (os.getenv("OMP_NUM_THREADS"), numba.get_num_threads())


@pytest.mark.parametrize("jobs", [1, 2])
def test_many_are_the_same_as_one_by_one_and_in_order(jobs: int) -> None:
    before = dict(os.environ)
    seen: list[int] = []
    many = compare_many(PAIRS, CONFIG, jobs=jobs, on_result=lambda index, result: seen.append(index))
    assert seen == list(range(len(PAIRS)))
    assert dict(os.environ) == before
    for result, pair in zip(many, PAIRS, strict=True):
        assert_equal(result, compare(*pair, CONFIG))
    assert not many[0].mass_created.flags.writeable


def test_self_problems_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    clear_self_cache()
    solved = []
    solve = self_problem._solve
    monkeypatch.setattr(self_problem, "_solve", lambda problem, *args: solved.append(problem) or solve(problem, *args))
    compare_many(PAIRS, CONFIG, jobs=1)
    assert len(solved) == len(SERIES)


def test_results_come_one_by_one_from_an_iterator() -> None:
    taken = []

    def pairs() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for pair in PAIRS:
            taken.append(pair)
            yield pair

    results = iter_results(pairs(), CONFIG, jobs=1)
    next(results)
    assert len(taken) == 1
    results.close()  # type: ignore[attr-defined]
    assert compare_many([], jobs=2) == []


def test_workers_have_one_thread_and_their_errors_come_home() -> None:
    with in_order.worker_pool(2) as pool:
        busy = [pool.submit(one_thread_each, 1.0) for _ in range(2)]
        found = [future.result() for future in busy]
        assert len({pid for pid, _ in found}) == 2  # both, however late they started
        assert all(threads == ("1", 1) for _, threads in found)
        assert os.getenv("OMP_NUM_THREADS") != "1"
        future = pool.submit(many._compare_chunk, [(3, (np.zeros(CANVAS), np.zeros(CANVAS)))], CONFIG)
        with pytest.raises(FrameError, match="two empty masks") as caught:
            in_order.chunk_results(future)
        assert caught.value.__notes__ == ["in pair number 3"]
    with pytest.raises(WorkerError, match=r"exit code 3.*__main__"), in_order.worker_pool(1) as pool:
        in_order.chunk_results(pool.submit(os._exit, 3))


def test_the_first_error_is_raised_with_its_number() -> None:
    bad = [*PAIRS[:1], (np.zeros(CANVAS), np.zeros(CANVAS))]
    with pytest.raises(FrameError) as caught:
        compare_many(bad, CONFIG, jobs=1)
    assert caught.value.__notes__ == ["in pair number 1"]
    with pytest.raises(ArgumentError, match=r"every pair to be \(mask_a, mask_b\), got int as pair number 0"):
        compare_many([3], jobs=1)  # type: ignore[list-item]
    for jobs in (0, -1, 1.5, True):
        with pytest.raises(ArgumentError, match="jobs to be an integer >= 1"):
            compare_many(PAIRS, jobs=jobs)  # type: ignore[arg-type]


def test_all_cores_is_the_default() -> None:
    assert many._checked_jobs(None) >= 1


@pytest.mark.slow
def test_a_script_without_a_guard_is_told_what_to_do(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np\nfrom pairframe.pipeline import compare_many\n"
        "m = np.ones((9, 9), bool)\ncompare_many([(m, m)] * 3, jobs=2)\n"
    )
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert run.returncode != 0
    assert 'if __name__ == "__main__":' in run.stderr
    assert "WorkerError" in run.stderr
