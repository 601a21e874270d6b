"""A penalty that the package has never seen: its class is all that the oracle and the grid engine need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from scipy.special import xlogy

from pairframe.engines import SolveOptions, solve
from pairframe.errors import UnsupportedProblemError
from pairframe.problem import KL, Balanced, Partial, Penalty, TransportProblem
from pairframe.problem.penalties import RelaxedPenalty
from pairframe.testing.shapes import disc


@dataclass(frozen=True)
class SmoothPartial(RelaxedPenalty):
    """The destroyed mass r = a - p >= 0 at ``lambda r + kappa KL(r || a)``: ``partial`` with a smooth edge."""

    name: ClassVar[str] = "smooth partial"
    is_capped: ClassVar[bool] = True
    kappa: float

    @classmethod
    def reach_description(cls, metric: str) -> str:
        return "mass is destroyed a little everywhere, and all of it far away"

    @property
    def bounds(self) -> tuple[float, float]:
        return -np.inf, self.marginal_relaxation

    def update(self, s: np.ndarray, epsilon: float, shift: float = 0.0) -> np.ndarray:
        high = self.marginal_relaxation - shift
        f = np.minimum(s, high)
        for _ in range(50):  # Newton from above on a convex function: a e^((f - s)/eps) + r(f) = a
            kept, destroyed = np.exp((f - s) / epsilon), np.exp((f - high) / self.kappa)
            f = f - (kept + destroyed - 1.0) / (kept / epsilon + destroyed / self.kappa)
        return f

    def slope(self, s: np.ndarray, epsilon: float) -> np.ndarray:
        f = self.update(s, epsilon)
        kept, destroyed = np.exp((f - s) / epsilon) / epsilon, self._destroyed(f) / self.kappa
        return kept / (kept + destroyed)

    def dual_value(self, f: np.ndarray, mass: np.ndarray) -> float:
        f = self.admissible(f)
        return float(np.sum(mass * (f + self.kappa * (1.0 - self._destroyed(f)))))

    def soft_divergence(self, p: np.ndarray, mass: np.ndarray) -> float:
        r = np.maximum(mass - p, 0.0)
        return float(np.sum(self.marginal_relaxation * r + self.kappa * (xlogy(r, r / mass) - r + mass)))

    def log_optimal_marginal(self, f: np.ndarray, log_mass: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return log_mass + np.log1p(-self._destroyed(self.admissible(f)))

    def _destroyed(self, f: np.ndarray) -> np.ndarray:
        return np.exp((f - self.marginal_relaxation) / self.kappa)


def problem_of(penalty_a: Penalty, penalty_b: Penalty, growth: float = 1.3) -> TransportProblem:
    a = disc((28, 32), (12.0, 11.0), 6.0).astype(float)
    b = disc((28, 32), (15.0, 17.0), 7.0).astype(float)
    return TransportProblem(a / a.sum(), growth * b / b.sum(), 2.0, penalty_a, penalty_b)


SMOOTH = SmoothPartial(60.0, 5.0)
PAIRS = {
    "both": (SMOOTH, SmoothPartial(90.0, 2.0)),
    "with kl": (SMOOTH, KL(80.0)),
    "with partial": (Partial(80.0), SMOOTH),
    "with balanced": (Balanced(), SMOOTH),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_the_grid_engine_and_the_oracle_agree_and_certify_it(pair: str) -> None:
    problem = problem_of(*PAIRS[pair])
    grid = solve(problem, "grid", SolveOptions(tol=1e-7, max_iterations=5000))
    oracle = solve(problem, "oracle", SolveOptions(tol=1e-9, max_iterations=20_000))
    assert (grid.status, oracle.status) == ("converged", "converged")
    assert grid.certificate.primal_upper == pytest.approx(oracle.certificate.primal_upper, rel=1e-6)
    for side in ("marginal_a", "marginal_b"):
        off = np.abs(getattr(grid, side) - getattr(oracle, side)).sum()
        assert off < 1e-5 * getattr(oracle, side).sum()


def test_without_its_smooth_term_it_is_partial() -> None:
    values = [
        solve(
            problem_of(penalty, penalty), "grid", SolveOptions(tol=1e-7, max_iterations=5000)
        ).certificate.primal_upper
        for penalty in (SmoothPartial(60.0, 5.0), SmoothPartial(60.0, 1e-3), Partial(60.0))
    ]
    assert values[1] == pytest.approx(values[2], rel=1e-4)
    assert values[0] != pytest.approx(values[2], rel=1e-2)


def test_a_self_problem_of_it_is_solved_too() -> None:
    a = problem_of(SMOOTH, SMOOTH).mass_a
    found = solve(TransportProblem(a, a, 2.0, SMOOTH, SMOOTH), "grid")
    assert found.status == "converged"
    np.testing.assert_array_equal(found.potential_a, found.potential_b)


@pytest.mark.parametrize("engine", ["pot", "torch", "ott"])
def test_engines_that_only_know_some_penalties_name_it(engine: str) -> None:
    pytest.importorskip({"pot": "ot", "torch": "torch", "ott": "ott"}[engine])
    with pytest.raises(UnsupportedProblemError, match=r"penalty .?smooth partial"):
        solve(problem_of(SMOOTH, KL(80.0)), engine)
