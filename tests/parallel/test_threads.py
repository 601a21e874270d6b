"""Two jobs side by side in threads."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from pairframe.parallel.threads import at_most, run_in_threads, side_by_side


@pytest.mark.parametrize("n_outputs", [10, 10**4, 10**6])
@pytest.mark.parametrize("threads", [1, 2])
def test_two_jobs_side_by_side_give_both_results(n_outputs: int, threads: int) -> None:
    with at_most(threads):
        names = side_by_side(
            lambda: threading.current_thread().name, lambda: threading.current_thread().name, n_outputs
        )
    is_divided = threads > 1 and n_outputs == 10**4
    assert (names[0] != names[1]) == is_divided


def test_the_error_of_a_job_beside_another_is_raised() -> None:
    with at_most(2), pytest.raises(ZeroDivisionError):
        side_by_side(lambda: 1, lambda: 1 // 0, 10**4)


def test_a_job_beside_another_may_divide_its_own_work() -> None:
    """The pool may have one thread only: a job in it that waited for the pool would wait forever."""
    seen = np.zeros(10**6)

    def job() -> None:
        run_in_threads(lambda first, step: seen[first::step].fill(1.0), seen.size)

    with at_most(2):
        side_by_side(lambda: None, job, 10**4)
    assert seen.all()
