"""The stored kernel of tiny grids gives the sums of the passes along the axes, and its rounds the same solutions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pairframe.engines import SolveOptions, Status, solve
from pairframe.engines.grid import stored
from pairframe.engines.grid.kernel import SupportKernel
from pairframe.engines.grid.level import Level
from pairframe.engines.grid.stored import MOST_PAIRS, StoredKernel, stored_kernel
from pairframe.maps import PlanOperator, feasible_part
from pairframe.maps.kernels import SeparableKernel
from pairframe.problem import KL, TV, Balanced, Partial, TransportProblem, penalty_of

SHAPE = (9, 11)


def supports(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.random(SHAPE) < 0.4, rng.random(SHAPE) < 0.5


def masses() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    a, b = (on * (0.5 + rng.random(SHAPE)) for on in supports())
    return a, b


# At 1e-3 the numbers of a stored kernel would underflow, and sums are taken from exponents.
@pytest.mark.parametrize("epsilon", [1e-3, 0.3, 4.0, 1e4])
@pytest.mark.parametrize("spacing", [(), (2.5, 1.0)])
def test_sums_are_those_of_the_passes(epsilon: float, spacing: tuple[float, ...]) -> None:
    on_in, on_out = supports()
    found, wanted = (
        stored_kernel(on_in, on_out, epsilon, spacing),
        SupportKernel(on_in, on_out, epsilon, "float64", spacing),
    )
    assert isinstance(found, StoredKernel)
    rng = np.random.default_rng(2)
    log_weight, channels = rng.normal(size=found.n_in), rng.normal(size=(3, found.n_in))
    log_weight[3] = -np.inf
    np.testing.assert_allclose(found.log_sum(log_weight), wanted.log_sum(log_weight), rtol=1e-13, atol=1e-13)
    for one, other in zip(
        found.log_sum_and_means(log_weight, channels), wanted.log_sum_and_means(log_weight, channels), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_no_weight_sums_to_nothing() -> None:
    on_in, on_out = supports()
    kernel = stored_kernel(on_in, on_out, 1.0)
    assert kernel is not None
    assert (kernel.log_sum(np.full(kernel.n_in, -np.inf)) == -np.inf).all()
    assert np.isnan(kernel.log_sum(np.full(kernel.n_in, np.nan))).all()


@pytest.mark.parametrize("spacing", [(), (2.5, 1.0)])
@pytest.mark.parametrize("epsilon", [1e-2, 2.0])
def test_moments_are_those_of_the_passes(
    monkeypatch: pytest.MonkeyPatch, epsilon: float, spacing: tuple[float, ...]
) -> None:
    on_in, on_out = supports()
    log_weight = np.random.default_rng(3).normal(size=int(on_in.sum()))
    found = SeparableKernel(on_in, on_out, epsilon, spacing).moments(log_weight)
    monkeypatch.setattr(stored, "MOST_PAIRS", 0)
    wanted = SeparableKernel(on_in, on_out, epsilon, spacing).moments(log_weight)
    for name in ("log_sum", "displacement", "cost"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=1e-11, atol=1e-11)


def test_a_kernel_of_many_pixels_is_not_stored() -> None:
    side = int(MOST_PAIRS**0.25) + 2
    on = np.ones((side, side), bool)
    assert stored_kernel(on, on, 1.0) is None


PENALTIES = {
    "kl": (KL(30.0), KL(30.0)),
    "kl, far": (KL(1e7), KL(1e7)),
    "partial": (Partial(20.0), Partial(20.0)),
    "tv": (TV(20.0), TV(20.0)),
    "balanced": (Balanced(), Balanced()),
    "mixed": (Balanced(), KL(30.0)),
    "two kinds": (Partial(20.0), KL(30.0)),
}


@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.parametrize("epsilon", [0.2, 4.0])
@pytest.mark.parametrize("is_own", [False, True])
def test_solutions_are_those_of_larger_grids(
    monkeypatch: pytest.MonkeyPatch, name: str, epsilon: float, is_own: bool
) -> None:
    a, b = masses()
    if name == "balanced":
        b = b * (a.sum() / b.sum())
    problem = TransportProblem(a, b, epsilon, *PENALTIES[name])
    if is_own:
        problem = problem.self_problem("a")
    options = SolveOptions(1e-10)
    found = solve(problem, "grid", options)
    monkeypatch.setattr(stored, "MOST_PAIRS", 0)
    wanted = solve(problem, "grid", options)
    assert found.status == wanted.status == Status.converged
    assert found.certificate.dual_lower == pytest.approx(wanted.certificate.dual_lower, rel=1e-9)
    np.testing.assert_allclose(found.marginal_a, wanted.marginal_a, atol=1e-6)
    parts = [feasible_part(PlanOperator.of(solution)) for solution in (found, wanted)]
    np.testing.assert_allclose(parts[0].displacement, parts[1].displacement, atol=1e-5)
    assert parts[0].transport_cost == pytest.approx(parts[1].transport_cost, rel=1e-7)


@pytest.mark.parametrize("most", [1, 2, 5, 20])
def test_the_budget_holds(most: int) -> None:
    problem = TransportProblem(*masses(), 0.05, KL(1e3), KL(1e3))
    found = solve(problem, "grid", SolveOptions(1e-12, most))
    assert found.status == Status.max_iterations
    assert found.iterations <= most + 2  # a round is two


def test_a_shifted_problem_has_the_same_digits() -> None:
    a, b = masses()
    here = solve(TransportProblem(a, b, 2.0, KL(30.0), KL(30.0)), "grid")
    larger = [np.pad(one, ((3, 5), (2, 7))) for one in (a, b)]
    there = solve(replace(here.problem, mass_a=larger[0], mass_b=larger[1]), "grid")
    np.testing.assert_array_equal(here.potential_a, there.potential_a[3:-5, 2:-7])


def test_plain_rounds_that_do_not_get_there_are_no_start() -> None:
    """Specks at a blur of a pixel: plain rounds stay far off, and the coarser grids have to lead."""
    rng = np.random.default_rng(0)
    a, b = (1.0 * (rng.random((148, 104)) < 0.01) for _ in range(2))
    problem = TransportProblem(a, b, 1.2, penalty_of("partial", 0.5 * 70.0**2), penalty_of("kl", 70.0**2))
    level = Level(problem)
    assert level.plain_start(1e-8, 20) is None
    found = solve(problem, "grid", SolveOptions(1e-6, 5000))
    assert found.status == Status.converged
    assert found.iterations <= 500


@pytest.mark.parametrize("penalty", [KL(400.0), Partial(200.0)])
def test_a_small_budget_is_left_to_the_accelerated_rounds(penalty: KL | Partial) -> None:
    rng = np.random.default_rng(0)
    a, b = np.zeros((16, 16)), np.zeros((16, 16))
    a[3:12, 2:10], b[5:13, 6:15] = rng.uniform(0.5, 1.0, (9, 8)), rng.uniform(0.5, 1.0, (8, 9))
    assert (
        solve(TransportProblem(a, b, 2.0, penalty, penalty), "grid", SolveOptions(1e-6, 40)).status == Status.converged
    )
