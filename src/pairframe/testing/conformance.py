"""The suite every engine must pass: inherit `EngineSuite`, name your engine, and let pytest collect the class.

A problem that the engine refuses is a skipped test with the engine's own reason, so ``pytest -rs`` lists and counts what
an engine cannot do.

>>> from pairframe.testing import EngineSuite
>>> class TestMine(EngineSuite):
...     engine = "mine"  # as your entry point in the group "pairframe.engines" names it
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar, NoReturn

import numpy as np

from pairframe.engines import Engine, Solution, SolveOptions, Status, TraceRecord, get_engine, solve
from pairframe.errors import UnsupportedProblemError
from pairframe.pipeline import compare
from pairframe.problem import TransportConfig
from pairframe.testing.agreement import agreement
from pairframe.testing.problems import CASES, Case
from pairframe.testing.shapes import disc


class EngineSuite:
    """Claims about one engine, each for every problem of the table that it supports.

    Attributes
    ----------
    engine : str
        Name of the engine.
    cases : tuple of Case
        The table of problems; add your own.
    may_stop_short : frozenset of str
        Names of cases that the engine's library cannot solve. On these, and below the engine's own smallest epsilon, the
        suite checks that the engine does not claim convergence, and skips the rest.
    options : dict
        Options of the solve, such as the number of iterations and the device.
    accuracy : dict
        By dtype, the relative tolerances against the oracle: objective, marginals, maps.
    tol : dict
        By dtype, the tolerance of the solve.
    """

    engine: ClassVar[str]
    cases: ClassVar[tuple[Case, ...]] = CASES
    may_stop_short: ClassVar[frozenset[str]] = frozenset()
    options: ClassVar[dict[str, Any]] = {"max_iterations": 100_000}
    accuracy: ClassVar[dict[str, tuple[float, float, float]]] = {
        "float64": (1e-6, 1e-5, 1e-4),
        "float32": (1e-3, 1e-3, 1e-3),
    }
    tol: ClassVar[dict[str, float]] = {"float64": 1e-8, "float32": 2e-5}

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """The table of problems times the table of claims."""
        if "case" in metafunc.fixturenames:
            metafunc.parametrize("case", self.cases, ids=repr)
        if "dtype" in metafunc.fixturenames:
            metafunc.parametrize("dtype", list(self.accuracy))

    # --- claims about every problem ----------------------------------------------------------

    def test_it_gives_the_oracles_answer(self, case: Case, dtype: str) -> None:
        """Objective, marginals, created and destroyed mass, and displacement."""
        solution = self._solve(case, dtype)
        objective, marginals, maps = self.accuracy[dtype]
        assert case.truth.certificate.relative_gap < 1e-3 * objective
        found = agreement(solution, case.truth)
        assert found.objective <= objective
        assert found.marginals <= marginals
        assert found.maps <= maps
        assert found.velocity_angle <= 1e-3
        assert max(found.created_share, found.destroyed_share) <= 1e-3

    def test_its_certificate_is_true(self, case: Case) -> None:
        """The optimum lies between its bounds, and a converged solution meets its tolerance."""
        solution = self._solve(case, "float64")
        bounds, truth = solution.certificate, case.truth.certificate
        slack = 1e-9 * abs(truth.primal_upper) + truth.gap
        assert bounds.dual_lower <= truth.primal_upper + slack
        assert bounds.primal_upper >= truth.dual_lower - slack
        assert bounds.gap >= 0.0
        assert bounds.relative_gap <= self.tol["float64"]
        assert bounds.marginal_error <= self.tol["float64"]

    def test_it_returns_arrays_on_the_grid(self, case: Case) -> None:
        """Outside the supports, and only there, potentials are NaN; marginals are 0 there."""
        solution = self._solve(case, "float64")
        for potential, marginal, support in (
            (solution.potential_a, solution.marginal_a, case.problem.support_a),
            (solution.potential_b, solution.marginal_b, case.problem.support_b),
        ):
            assert np.array_equal(np.isnan(potential), ~support)
            assert (marginal[~support] == 0).all()
            assert (marginal >= 0).all()
        assert solution.engine == self.engine
        assert solution.dtype == "float64"

    # --- claims about the engine -------------------------------------------------------------

    def test_a_solve_that_is_cut_short_reports_it(self) -> None:
        """With few iterations and a tight tolerance, status and certificate show that the solve did not converge."""
        case = self._supported_case()
        solution = self._engine().run(case.problem, SolveOptions(tol=1e-13, max_iterations=2))
        assert solution.status in (Status.max_iterations, Status.impossible)
        assert not solution.certificate.meets(1e-13)

    def test_a_start_at_the_answer_is_kept(self) -> None:
        """A warm start saves iterations and leaves the answer unchanged."""
        case = self._supported_case()
        start = (case.truth.potential_a, case.truth.potential_b)
        options = SolveOptions(tol=self.tol["float64"], **self.options)
        cold, warm = self._engine().run(case.problem, options), self._engine().run(case.problem, options, start)
        assert warm.status is Status.converged
        assert warm.iterations <= cold.iterations
        assert agreement(warm, cold).marginals <= 1e-5

    def test_progress_is_reported(self) -> None:
        """At least once, always with the marginal error; the gap is known at the end at the latest."""
        reported: list[TraceRecord] = []
        case = self._supported_case()
        options = SolveOptions(tol=self.tol["float64"], **self.options)
        solution = self._engine().run(case.problem, options, None, reported.append)
        assert reported
        assert solution.trace
        assert not any(np.isnan(record.marginal_error) for record in (*reported, *solution.trace))
        assert not np.isnan(solution.trace[-1].gap)

    def test_a_mask_against_itself_shows_nothing(self) -> None:
        """Nothing moves, and only the bias of the method is destroyed."""
        mask = disc((20, 24), (9.0, 11.0), 6.0)
        result = compare(mask, mask, self._config())
        assert np.nanmax(np.abs(result.velocity_field)) == 0.0
        assert result.total_mass_destroyed <= 5e-3 * result.M_source
        assert abs(result.divergence) <= 1e-6 * result.M_source

    def test_the_books_balance(self) -> None:
        """Moved + destroyed mass is the source, moved + created mass the target, whether or not the solve converged."""
        source, target = disc((20, 24), (9.0, 9.0), 6.0), disc((20, 24), (10.0, 15.0), 4.0)
        for iterations in (2, 20_000):
            compare(source, target, self._config(max_iterations=iterations)).check_books()

    # --- shared steps -----------------------------------------------------------------------------------

    def _engine(self) -> Engine:
        return get_engine(self.engine)

    def _config(self, max_iterations: int = 20_000) -> TransportConfig:
        return TransportConfig(backend=self.engine, pad=2, penalty="kl", reach_um=20.0, max_iterations=max_iterations)

    def _supported_case(self) -> Case:
        options = SolveOptions(**self.options)
        return next(case for case in reversed(self.cases) if self._engine().supports(case.problem, options) is None)

    def _solve(self, case: Case, dtype: str) -> Solution:
        """The engine's converged solution. Skips the test if the engine refuses the problem or may stop short of it."""
        options = SolveOptions(tol=self.tol[dtype], dtype=dtype, **self.options)
        reason = self._engine().supports(case.problem, options)
        if reason is not None:
            self._check_refusal(case, options, reason)
            _skip(f"{self.engine} refuses this problem: {reason}")
        solution = _solved(self.engine, case, options)
        if solution.status is not Status.converged:
            smallest = self._engine().smallest_epsilon(case.problem.shape, dtype)
            may = case.name in self.may_stop_short or case.problem.epsilon < smallest
            assert may, f"{solution!r} on {case}, although the engine supports epsilon down to {smallest:.2g}"
            assert not solution.certificate.meets(options.tol)
            _skip(f"{self.engine} cannot reach tol {options.tol:g} here and reports it: {solution.status.advice}")
        return solution

    def _check_refusal(self, case: Case, options: SolveOptions, reason: str) -> None:
        """The reason is a sentence, and `solve` refuses the problem with the same reason."""
        assert len(reason.split()) >= 3, f"expected a sentence that explains the refusal, got {reason!r}"
        given = None
        try:
            solve(case.problem, self.engine, options)
        except UnsupportedProblemError as error:
            given = error.got
        assert given == reason, "solve() must refuse what the engine does not support, with the engine's reason"


def _skip(reason: str) -> NoReturn:
    import pytest  # the suite runs inside pytest; `pairframe.testing` itself also serves without it

    pytest.skip(reason)


@lru_cache(maxsize=64)
def _solved(engine: str, case: Case, options: SolveOptions) -> Solution:
    """Solve once for all claims about this case."""
    return solve(case.problem, engine, options)
