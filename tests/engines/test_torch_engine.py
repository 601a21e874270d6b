"""The torch engine solves the same problem as the oracle, certified in float64, and says what it cannot do."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pairframe.engines import Solution, SolveOptions, Status, solve
from pairframe.engines.points import Points
from pairframe.problem import KL, TV, Balanced, Partial, Penalty, Potentials, TransportProblem
from pairframe.testing import disc

torch = pytest.importorskip("torch", reason="torch is not installed")

from pairframe.engines.torch import TorchEngine  # noqa: E402

ENGINE = TorchEngine()
TIGHT = SolveOptions(tol=1e-11, max_iterations=4000)
BALANCED = Balanced()


def kl(strength: float) -> Penalty:
    return KL(strength)


def random_problem(
    kinds: tuple[str, str], reference: str, epsilon: float = 4.0, metric: str = "sqeuclidean", lam: float = 20.0
) -> TransportProblem:
    rng = np.random.default_rng(3)
    a, b = rng.random((9, 12)) * (rng.random((9, 12)) < 0.6), 2.0 * rng.random((9, 12)) * (rng.random((9, 12)) < 0.6)
    if kinds == ("balanced", "balanced"):
        b *= a.sum() / b.sum()
    sides = [BALANCED if kind == "balanced" else kl(lam) for kind in kinds]
    return TransportProblem(a, b, epsilon, *sides, reference=reference, metric=metric)


def assert_same(found: Solution, problem: TransportProblem, tol: float = 1e-8) -> None:
    wanted = solve(problem, "oracle", SolveOptions(tol=1e-12, max_iterations=5000))
    assert found.status is Status.converged, found
    assert found.certificate.primal_upper == pytest.approx(wanted.certificate.primal_upper, rel=tol)
    on_a, on_b = problem.support_a, problem.support_b
    sums = [np.add.outer(one.potential_a[on_a], one.potential_b[on_b]) for one in (found, wanted)]
    assert np.abs(sums[0] - sums[1]).max() <= 1e2 * tol * np.abs(sums[1]).max()
    for name in ("marginal_a", "marginal_b"):
        assert np.abs(getattr(found, name) - getattr(wanted, name)).max() <= tol * getattr(wanted, name).sum()
    assert np.isnan(found.potential_a[~on_a]).all()
    assert (found.marginal_b[~on_b] == 0).all()


@pytest.mark.parametrize("reference", ["heat", "product", "counting"])
@pytest.mark.parametrize(
    "kinds", [("kl", "kl"), ("kl", "balanced"), ("balanced", "kl"), ("balanced", "balanced")], ids="-".join
)
def test_it_equals_the_oracle(kinds: tuple[str, str], reference: str) -> None:
    problem = random_problem(kinds, reference)
    assert_same(ENGINE.run(problem, TIGHT), problem)


@pytest.mark.parametrize("epsilon", [0.3, 30.0])
@pytest.mark.parametrize("lam", [1.0, 1e7])
def test_it_equals_the_oracle_at_extreme_settings(epsilon: float, lam: float) -> None:
    problem = random_problem(("kl", "kl"), "heat", epsilon, lam=lam)
    # What the numbers allow: potentials of 10^7 epsilons leave nine digits of the marginals.
    assert_same(ENGINE.run(problem, SolveOptions(tol=1e-9, max_iterations=20000)), problem, tol=1e-7)


def test_it_knows_the_euclidean_metric() -> None:
    problem = random_problem(("kl", "kl"), "heat", 1.0, "euclidean")
    assert_same(ENGINE.run(problem, TIGHT), problem)


@pytest.mark.parametrize("epsilon", [33.0, 3.3])
def test_near_balanced_problems_with_unequal_masses_converge(epsilon: float) -> None:
    """Strengths of 10^5 to 10^6 epsilons: plain iterations without translation would take as many."""
    a, b = disc((30, 60), (15, 16), 12).astype(float), disc((30, 60), (15, 40), 9).astype(float)
    found = ENGINE.run(TransportProblem(a, b, epsilon, kl(10 * 576.0**2), kl(10 * 576.0**2)), SolveOptions())
    assert found.status is Status.converged
    assert found.iterations <= 600
    assert found.marginal_a.sum() == pytest.approx(math.sqrt(a.sum() * b.sum()), rel=1e-3)


def test_float32_is_certified_in_float64_and_recorded() -> None:
    problem = random_problem(("kl", "kl"), "heat", lam=2500.0)
    found = ENGINE.run(problem, SolveOptions(tol=1e-4, dtype="float32"))
    assert found.status is Status.converged
    assert found.dtype == "float32"
    assert found.device == "cpu"
    exact = solve(problem, "oracle", SolveOptions(tol=1e-12, max_iterations=5000)).certificate.primal_upper
    assert found.certificate.dual_lower - 1e-12 * exact <= exact <= found.certificate.primal_upper + 1e-12 * exact
    beyond = ENGINE.run(problem, SolveOptions(tol=1e-13, dtype="float32", max_iterations=600))
    assert beyond.status is Status.max_iterations  # float32 cannot, and says so


def test_a_start_at_the_solution_needs_next_to_nothing() -> None:
    problem = random_problem(("kl", "kl"), "heat")
    first = ENGINE.run(problem, SolveOptions())
    again = ENGINE.run(problem, SolveOptions(), init=(first.potential_a, first.potential_b))
    assert again.status is Status.converged
    assert again.iterations == 0


def test_stopping_early_is_said_and_progress_is_told() -> None:
    seen = []
    found = ENGINE.run(
        random_problem(("kl", "kl"), "heat", 0.3, lam=1e5), SolveOptions(max_iterations=8), progress=seen.append
    )
    assert found.status is Status.max_iterations
    assert found.iterations <= 8
    assert tuple(seen) == found.trace


@pytest.mark.parametrize(
    ("problem", "options", "reason"),
    [
        (TransportProblem(np.ones((3, 3)), np.ones((3, 3)), 1.0, TV(3.0), kl(3.0)), SolveOptions(), "penalty tv on the source"),
        (TransportProblem(np.ones((3, 3)), np.ones((3, 3)), 1.0, kl(3.0), Partial(3.0)), SolveOptions(), "penalty partial on the target"),
        (random_problem(("kl", "kl"), "heat"), SolveOptions(device="nowhere"), "torch has no such device"),
        (random_problem(("kl", "kl"), "heat"), SolveOptions(device="meta"), "runs on cpu and cuda"),
        (TransportProblem(np.ones((150, 150)), np.ones((150, 150)), 1.0, kl(3.0), kl(3.0), metric="euclidean"), SolveOptions(), "a stored cost of 3.8 GB"),
    ],
    ids=["tv", "partial", "unknown device", "other device", "too large"],
)  # fmt: skip
def test_what_it_does_not_do_it_refuses_with_the_reason(
    problem: TransportProblem, options: SolveOptions, reason: str
) -> None:
    found = ENGINE.supports(problem, options)
    assert found is not None
    assert reason in found


def test_a_missing_gpu_is_refused() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    found = ENGINE.supports(random_problem(("kl", "kl"), "heat"), SolveOptions(device="cuda"))
    assert found is not None
    assert "no GPU here" in found


@pytest.mark.parametrize("kinds", [("kl", "kl"), ("balanced", "kl"), ("balanced", "balanced")], ids="-".join)
def test_its_certificate_is_the_one_of_every_engine_on_points(kinds: tuple[str, str]) -> None:
    problem = random_problem(kinds, "heat")
    found = ENGINE.run(problem, TIGHT)
    end = Points(problem).end(Potentials(found.potential_a[problem.support_a], found.potential_b[problem.support_b]))
    assert end.certificate.dual_lower == pytest.approx(found.certificate.dual_lower, rel=1e-11)
    assert end.certificate.meets(TIGHT.tol)
    assert end.marginal_a == pytest.approx(found.marginal_a[problem.support_a], rel=1e-9)
