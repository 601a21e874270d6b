"""The grid engine under stress: right, or an honest status; never NaN or infinity."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from pairframe.engines import SolveOptions, Status, get_engine, solve
from pairframe.engines.grid.level import Level
from pairframe.engines.grid.rounds import run_rounds
from pairframe.engines.grid.watch import Watch
from pairframe.errors import StartError, UnsupportedProblemError
from pairframe.parallel.processes import QUIET
from pairframe.problem import KL, TransportProblem, certificate, penalty_of
from pairframe.testing import disc, embryo, tiny_and_huge_embryo

PENALTY = KL(2500.0)


def assert_sound(found) -> None:
    problem = found.problem
    for array, on in ((found.potential_a, problem.support_a), (found.potential_b, problem.support_b)):
        assert np.isfinite(array[on]).all()
        assert np.isnan(array[~on]).all()
    for array, on in ((found.marginal_a, problem.support_a), (found.marginal_b, problem.support_b)):
        assert np.isfinite(array).all()
        assert (array >= 0).all()
        assert (array[~on] == 0).all()
    assert not np.isnan(found.certificate.gap)
    assert not np.isnan(found.certificate.marginal_error)


def pair(mass_a: np.ndarray, mass_b: np.ndarray, epsilon: float = 4.0, lam: float = 2500.0) -> TransportProblem:
    return TransportProblem(mass_a.astype(float), mass_b.astype(float), epsilon, KL(lam), KL(lam))


def test_two_equal_far_spikes() -> None:
    a, b = np.zeros((3, 301)), np.zeros((3, 301))
    a[1, [0, 300]] = 1.0
    b[1, 150] = 2.0
    for epsilon in (1e-2, 1.0, 100.0):
        found = solve(pair(a, b, epsilon, 1e5))
        assert_sound(found)
        assert found.status is Status.converged
        assert found.marginal_a[1, 0] == pytest.approx(found.marginal_a[1, 300], rel=1e-6)


def test_potentials_that_span_1e5_epsilon() -> None:
    a, b = np.zeros((2, 400)), np.zeros((2, 400))
    a[:, :5], b[:, -5:] = 1.0, 1.0
    found = solve(pair(a, b, epsilon=0.5, lam=1e6))
    assert_sound(found)
    span = np.nanmax(found.potential_a + np.nanmax(found.potential_b))
    assert span / 0.5 > 1e5
    assert found.status is Status.converged


@pytest.mark.parametrize("low", [1e-12, 1e-150])
def test_masses_over_many_magnitudes(low: float) -> None:
    rng = np.random.default_rng(0)
    a, b = (10.0 ** rng.uniform(np.log10(low), -np.log10(low), (20, 25)) for _ in range(2))
    found = solve(pair(a, b, epsilon=4.0, lam=400.0))
    assert_sound(found)
    assert found.status is Status.converged


@pytest.mark.parametrize("epsilon", [1e-1, 1e-3, 1e-6])
def test_an_epsilon_so_small_that_float64_cannot_hold_a_tile(epsilon: float) -> None:
    found = solve(
        pair(disc((40, 60), (20, 20), 8), disc((40, 60), (20, 40), 9), epsilon, 900.0),
        options=SolveOptions(max_iterations=300),
    )
    assert_sound(found)
    assert found.status in (Status.converged, Status.max_iterations)


def test_the_production_setting_is_solved_at_full_resolution() -> None:
    a, b = embryo(), embryo(length_px=380, thickness_px=28, bend=-0.3, yolk_px=38)
    for epsilon, most in ((1e-4, 60), (1e-5, 130)):
        found = solve(pair(a, b, epsilon * 576**2, 10.0 * 576**2))
        assert_sound(found)
        assert found.status is Status.converged
        assert found.iterations <= most  # alternating updates alone need thousands
        again = certificate(found.problem, found.potential_a, found.potential_b, found.marginal_a, found.marginal_b)
        assert again.meets(1e-6)


@pytest.mark.parametrize("order", [1, -1])
def test_tiny_and_huge_converge_both_ways(order: int) -> None:
    tiny, huge = tiny_and_huge_embryo((128, 288))[::order]
    for lam in (100.0, 2500.0, 1e6):
        found = solve(pair(tiny, huge, 4.0, lam))
        assert found.status is Status.converged
        assert found.iterations <= 150


def test_the_dual_never_drops_between_accepted_rounds() -> None:
    found = solve(pair(*tiny_and_huge_embryo((64, 144)), epsilon=2.0))
    gaps = np.array([record.gap for record in found.trace])
    scale = abs(found.certificate.primal_upper)
    assert len(gaps) > 5
    assert (np.diff(gaps) <= 1e-9 * scale).all()


@pytest.mark.parametrize("kind", ["tv", "partial"])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_a_mixed_step_that_lowers_the_dual_is_undone(kind: str, epsilon: float) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.random((12, 16)) * (rng.random((12, 16)) < 0.5) for _ in range(2))
    penalty = penalty_of(kind, 1000.0)
    level = Level(TransportProblem(a, b, epsilon, penalty, penalty), "float64", None)
    duals: list[float] = []
    watch = Watch(level, lambda point: point.residual <= 1e-9, 300, lambda point: duals.append(point.dual))
    run_rounds(level, np.zeros(level.mass_a.size), watch)
    assert len(duals) > 10
    assert (np.diff(duals) >= -1e-10 * np.abs(duals[1:])).all()


def test_a_mask_against_itself_takes_a_handful_of_steps_and_is_symmetric() -> None:
    mask = disc((50, 50), (25, 25), 18)
    found = solve(pair(mask, mask))
    assert found.status is Status.converged
    assert found.iterations <= 12
    np.testing.assert_array_equal(found.potential_a, found.potential_b)


def test_a_solution_is_a_good_start_for_itself_and_for_a_neighbour() -> None:
    one, two = (embryo((128, 288), growth=0.5, bend=bend) for bend in (0.6, 0.65))
    target = embryo((128, 288), growth=0.55, bend=0.2)
    cold = solve(pair(one, target))
    warm = solve(pair(one, target), init=(cold.potential_a, cold.potential_b))
    assert warm.iterations <= 6
    near = solve(pair(two, target), init=(cold.potential_a, cold.potential_b))
    alone = solve(pair(two, target))
    assert near.status is Status.converged
    assert near.certificate.primal_upper == pytest.approx(alone.certificate.primal_upper, rel=1e-6)


def test_a_hopeless_start_does_no_harm() -> None:
    problem = pair(disc((40, 60), (20, 20), 8), disc((40, 60), (20, 40), 9))
    rng = np.random.default_rng(0)
    wild = tuple(1e6 * rng.normal(size=(40, 60)) for _ in range(2))
    assert solve(problem, init=wild).status is Status.converged
    with pytest.raises(StartError, match="potentials of shape"):
        solve(problem, init=(np.zeros((3, 3)), np.zeros((3, 3))))


def test_too_few_iterations_are_an_honest_status_with_a_true_bound() -> None:
    problem = pair(disc((40, 60), (20, 20), 8), disc((40, 60), (20, 40), 9))
    best = solve(problem, options=SolveOptions(tol=1e-10)).certificate
    short = solve(problem, options=SolveOptions(max_iterations=3))
    assert short.status is Status.max_iterations
    assert short.iterations <= 4
    assert "max_iterations" in short.status.advice
    assert short.certificate.dual_lower <= best.primal_upper
    assert short.certificate.primal_upper >= best.dual_lower


def test_float32_products_close_the_certificate_at_a_loose_tolerance() -> None:
    problem = pair(disc((40, 60), (20, 20), 8), disc((40, 60), (20, 40), 9))
    found = solve(problem, options=SolveOptions(dtype="float32", tol=1e-5))
    assert found.status is Status.converged
    assert found.dtype == "float32"
    exact = solve(problem, options=SolveOptions(tol=1e-9))
    assert found.certificate.primal_upper == pytest.approx(exact.certificate.primal_upper, rel=1e-6)


def test_what_it_cannot_do_is_refused_with_the_reason() -> None:
    mass = np.ones((4, 4))
    euclidean = TransportProblem(mass, mass, 1.0, PENALTY, PENALTY, metric="euclidean")
    with pytest.raises(UnsupportedProblemError, match="does not separate into axes"):
        solve(euclidean)
    with pytest.raises(UnsupportedProblemError, match="runs on the CPU and on CUDA devices"):
        solve(pair(mass, mass), options=SolveOptions(device="tpu"))
    import torch

    if not torch.cuda.is_available():
        with pytest.raises(UnsupportedProblemError, match="torch finds no CUDA device on this machine"):
            solve(pair(mass, mass), options=SolveOptions(device="cuda"))
    assert get_engine("grid").supports(pair(mass, mass), SolveOptions()) is None


@pytest.mark.slow
def test_only_a_real_compilation_prints_a_notice(tmp_path) -> None:
    code = """
from pairframe.engines.grid.compiling import make_ready
make_ready("float64")
make_ready("float64")
"""
    fresh = {"NUMBA_CACHE_DIR": str(tmp_path / "fresh")}
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
        for env in (fresh, fresh, {"NUMBA_CACHE_DIR": str(tmp_path / "quiet"), QUIET: "1"})
    ]
    (line,) = runs[0].stderr.splitlines()
    for words in ("compiling the grid engine, once on this machine", "float64", "about 25 s", "kept for next time"):
        assert words in line
    assert runs[1].stderr == runs[2].stderr == ""
