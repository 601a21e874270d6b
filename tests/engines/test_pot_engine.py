"""The POT engine gives the oracle's answer, and says so honestly when it cannot."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairframe.engines import SolveOptions, Status, TraceRecord, points, solve
from pairframe.errors import StartError
from pairframe.problem import KL, Balanced, Penalty, Potentials, TransportProblem, penalty_of
from pairframe.testing import disc, growing_embryo

pytest.importorskip("ot", reason="POT is not installed")
from pairframe.engines import pot
from pairframe.engines.pot import PotEngine

ENGINE = PotEngine()
TIGHT = SolveOptions(tol=1e-8, max_iterations=4000)
SINGLE = SolveOptions(tol=1e-6, max_iterations=4000, dtype="float32")
# What has to agree with the oracle, relative: objective and marginals.
ACCURACY = {"float64": (1e-6, 1e-5), "float32": (1e-3, 1e-3)}


def discs(epsilon: float, lam: float, *, far: bool = False, **changes: object) -> TransportProblem:
    """Discs of 253 and 441 pixels that overlap, or of 253 and 145 that do not, on 64 x 64."""
    a = disc((64, 64), (40, 40), 9) * 1.0
    b = (disc((64, 64), (60, 60), 7) if far else disc((64, 64), (46, 44), 12)) * 1.0
    penalty = KL(lam)
    return replace(TransportProblem(a, b, epsilon, penalty, penalty), **changes)  # type: ignore[arg-type]


def canonical(epsilon: float, lam: float = 10.0) -> TransportProblem:
    """Two embryos on 256 x 576, downsampled by 4; epsilon and lam in units of coord_scale = 1/576."""
    frames = growing_embryo(6)
    a, b = (frames[k].reshape(64, 4, 144, 4).sum(axis=(1, 3)) * 1.0 for k in (0, 3))
    penalty = KL(lam * 576.0**2)
    return TransportProblem(a, b, epsilon * 576.0**2, penalty, penalty)


def small(
    penalty_a: Penalty, penalty_b: Penalty, *, epsilon: float = 2.0, seed: int = 0, **changes: object
) -> TransportProblem:
    """Random masses with holes on 9 x 11, of unequal totals unless both sides are balanced."""
    rng = np.random.default_rng(seed)
    a, b = (rng.uniform(0.2, 2.0, (9, 11)) * (rng.random((9, 11)) < 0.6) for _ in range(2))
    if penalty_a.name == penalty_b.name == "balanced":
        b = b * (a.sum() / b.sum())
    return TransportProblem(a, b, epsilon, penalty_a, penalty_b, **changes)  # type: ignore[arg-type]


def assert_agrees(problem: TransportProblem, *several: SolveOptions) -> None:
    """With each of the options: converged, certified, within the default limit, and as near to the oracle as it must be."""
    solutions = [ENGINE.run(problem, options) for options in several]
    # Where the oracle starts saves it time; where it ends, its own certificate says.
    start = (solutions[0].potential_a, solutions[0].potential_b)
    truth = solve(problem, "oracle", SolveOptions(tol=1e-12, max_iterations=20_000), start)
    assert truth.certificate.meets(1e-11)
    for options, found in zip(several, solutions, strict=True):
        assert found.status is Status.converged, found
        assert found.certificate.meets(options.tol)
        assert (found.engine, found.dtype, found.device) == ("pot", options.dtype, "cpu")
        assert found.iterations <= SolveOptions().max_iterations
        objective, marginals = ACCURACY[options.dtype]
        assert found.certificate.primal_upper == pytest.approx(truth.certificate.primal_upper, rel=objective)
        for name in ("marginal_a", "marginal_b"):
            off = np.abs(getattr(found, name) - getattr(truth, name)).sum()
            assert off <= marginals * getattr(truth, name).sum(), (name, options)


# --- the oracle's answer ---------------------------------------------------------------------


@pytest.mark.parametrize("lam", [10.0, 100.0])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0, 10.0])
def test_discs_agree_with_the_oracle(epsilon: float, lam: float) -> None:
    assert_agrees(discs(epsilon, lam), TIGHT, SINGLE)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0, 10.0])
def test_discs_apart_agree_with_the_oracle(epsilon: float) -> None:
    assert_agrees(discs(epsilon, 100.0, far=True), TIGHT, SINGLE)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0, 10.0])
def test_discs_out_of_reach_agree_with_the_oracle(epsilon: float) -> None:
    """Nearly all is destroyed: the plan has 1e-6 of the mass, and tol counts in shares of the mass."""
    assert_agrees(discs(epsilon, 10.0, far=True), replace(TIGHT, tol=1e-12), replace(SINGLE, tol=1e-10))


@pytest.mark.parametrize("epsilon", [1e-4, 1e-5])
def test_canonical_masks_agree_with_the_oracle(epsilon: float) -> None:
    assert_agrees(canonical(epsilon), TIGHT, SINGLE)


PENALTIES = [
    (KL(30.0), KL(300.0)),
    (KL(50.0), Balanced()),
    (Balanced(), KL(50.0)),
    (Balanced(), Balanced()),
]


@pytest.mark.parametrize("metric", ["sqeuclidean", "euclidean"])
@pytest.mark.parametrize("reference", ["heat", "product", "counting"])
@pytest.mark.parametrize("penalties", PENALTIES, ids=lambda pair: f"{pair[0].name}-{pair[1].name}")
def test_every_penalty_reference_and_metric(penalties: tuple[Penalty, Penalty], reference: str, metric: str) -> None:
    assert_agrees(small(*penalties, reference=reference, metric=metric), TIGHT, SINGLE)


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 1000),
    log_epsilon=st.floats(-1.0, 2.0),
    log_lam=st.floats(-1.0, 7.0),
    log_ratio=st.floats(-3.0, 3.0),
)
def test_a_converged_run_is_right(seed: int, log_epsilon: float, log_lam: float, log_ratio: float) -> None:
    penalty = KL(10**log_lam)
    problem = small(penalty, penalty, epsilon=10**log_epsilon, seed=seed)
    problem = replace(problem, mass_b=problem.mass_b * 10**log_ratio)
    found = ENGINE.run(problem, SolveOptions(tol=1e-8))
    truth = solve(problem, "oracle", SolveOptions(tol=1e-11, max_iterations=20_000))
    assert found.status is not Status.impossible
    assert (found.status is Status.converged) == found.certificate.meets(1e-8)
    slack = 1e-10 * abs(truth.certificate.primal_upper)
    assert found.certificate.dual_lower <= truth.certificate.primal_upper + slack
    assert found.certificate.primal_upper >= truth.certificate.dual_lower - slack


def test_masses_may_have_any_size() -> None:
    problem = discs(4.0, 50.0)
    huge = replace(problem, mass_a=problem.mass_a * 1e30, mass_b=problem.mass_b * 1e30)
    one, other = ENGINE.run(problem, SINGLE), ENGINE.run(huge, SINGLE)
    assert other.status is Status.converged
    assert other.certificate.primal_upper == pytest.approx(1e30 * one.certificate.primal_upper, rel=1e-6)


def test_swapping_source_and_target_swaps_the_answer() -> None:
    problem = small(KL(20.0), Balanced())
    there, back = ENGINE.run(problem, TIGHT), ENGINE.run(problem.swapped(), TIGHT)
    np.testing.assert_allclose(there.marginal_a, back.marginal_b, rtol=1e-6)
    np.testing.assert_allclose(there.potential_a, back.potential_b, atol=1e-5)


def test_one_pixel_against_one() -> None:
    a, b = np.zeros((5, 5)), np.zeros((5, 5))
    a[0, 1], b[4, 4] = 2.0, 3.0
    for penalty in (KL(1.0), KL(1e5)):
        assert_agrees(TransportProblem(a, b, 0.5, penalty, penalty), TIGHT)


# --- honest ends -----------------------------------------------------------------------------


def test_too_few_iterations_are_said() -> None:
    for limit in (1, 7, 60):
        found = ENGINE.run(discs(0.1, 100.0), replace(TIGHT, max_iterations=limit))
        assert found.status is Status.max_iterations
        assert not found.certificate.meets(TIGHT.tol)
        assert found.iterations <= max(limit, 2)


def test_a_small_epsilon_ends_honestly_and_with_numbers() -> None:
    """Far below what the grid resolves POT crawls; the certificate says how far it came, and is true."""
    problem = discs(0.02, 1e4, far=True)
    found = ENGINE.run(problem, replace(TIGHT, max_iterations=400))
    assert found.status in (Status.max_iterations, Status.impossible)
    truth = solve(problem, "oracle", SolveOptions(tol=1e-10, max_iterations=20_000))
    assert found.certificate.dual_lower <= truth.certificate.primal_upper <= found.certificate.primal_upper * (1 + 1e-9)
    assert np.isfinite(found.potential_a[problem.support_a]).all()
    assert np.isfinite(found.marginal_a).all()


def test_an_epsilon_beyond_all_digits_is_impossible() -> None:
    problem = small(KL(5.0), KL(5.0), epsilon=1e-307)
    for options in (TIGHT, SINGLE):
        found = ENGINE.run(problem, options)
        assert found.status is Status.impossible
        assert found.certificate.marginal_error == math.inf
        assert np.isfinite(found.potential_a[problem.support_a]).all()
        assert np.isfinite(found.marginal_a).all()


def test_numbers_that_give_out_are_impossible_not_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    """POT that stops at its first iteration, every time: what is handed back is the start, with its own certificate."""

    def gives_out(a: np.ndarray, b: np.ndarray, *_: object, **__: object) -> tuple[None, dict[str, object]]:
        warnings.warn("Numerical errors at iteration 0", stacklevel=1)
        return None, {"err": [], "logu": np.zeros(a.shape), "logv": np.zeros(b.shape)}

    monkeypatch.setattr(pot, "sinkhorn_unbalanced", gives_out)
    found = ENGINE.run(discs(1.0, 100.0), TIGHT)
    assert found.status is Status.impossible
    assert found.certificate.marginal_error > TIGHT.tol
    assert math.isfinite(found.certificate.marginal_error)


def test_nan_from_the_library_never_gets_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def nonsense(a: np.ndarray, b: np.ndarray, *_: object, **__: object) -> tuple[None, dict[str, object]]:
        return None, {"err": [math.nan], "logu": np.full(a.shape, math.nan), "logv": np.full(b.shape, math.nan)}

    monkeypatch.setattr(pot, "sinkhorn_unbalanced", nonsense)
    found = ENGINE.run(discs(1.0, 100.0), TIGHT)
    assert found.status is Status.impossible
    assert np.isfinite(found.potential_b[found.problem.support_b]).all()
    assert np.isfinite(found.marginal_b).all()


def test_final_solution_of_nan_potentials_is_impossible() -> None:
    problem = small(KL(5.0), KL(5.0))
    nothing = np.full(int(problem.support_a.sum()), math.nan)
    g = np.zeros(int(problem.support_b.sum()))
    found = points.final_solution(problem, TIGHT, Potentials(nothing, g), engine="pot", iterations=0)
    assert found.status is Status.impossible
    assert math.isfinite(found.certificate.primal_upper)


def test_final_solution_keeps_a_translation_apart() -> None:
    problem = discs(10.0, 1e6)
    found = ENGINE.run(problem, TIGHT)
    f, g = found.potential_a[problem.support_a], found.potential_b[problem.support_b]
    again = points.final_solution(problem, TIGHT, Potentials(f - 1e6, g + 1e6, 1e6), engine="pot", iterations=0)
    assert again.certificate.marginal_error <= 1e-8


# --- starts, progress, refusals --------------------------------------------------------------


def test_a_warm_start_is_used() -> None:
    problem = discs(1.0, 100.0)
    cold = ENGINE.run(problem, TIGHT)
    warm = ENGINE.run(problem, TIGHT, (cold.potential_a, cold.potential_b))
    assert warm.iterations == 2 < cold.iterations
    near = ENGINE.run(replace(problem, epsilon=1.05), TIGHT, (cold.potential_a, cold.potential_b))
    assert near.iterations < ENGINE.run(replace(problem, epsilon=1.05), TIGHT).iterations


def test_a_useless_start_does_no_harm() -> None:
    problem = discs(1.0, 100.0)
    noise = np.random.default_rng(0).normal(0.0, 1e6, (64, 64))
    assert ENGINE.run(problem, TIGHT, (noise, noise)).status is Status.converged
    with pytest.raises(StartError, match="starting potentials of shape"):
        ENGINE.run(problem, TIGHT, (noise[1:], noise))


def test_progress_is_told_and_traced() -> None:
    seen: list[TraceRecord] = []
    found = ENGINE.run(discs(0.1, 100.0), TIGHT, progress=seen.append)
    assert tuple(seen) == found.trace
    assert [r.iterations for r in seen] == sorted(r.iterations for r in seen)
    assert seen[-1].marginal_error == found.certificate.marginal_error < seen[0].marginal_error


@pytest.mark.parametrize("kind", ["tv", "partial"])
def test_penalties_that_pot_does_not_know_are_refused(kind: str) -> None:
    reason = ENGINE.supports(small(KL(3.0), penalty_of(kind, 3.0)), SolveOptions())
    assert reason is not None
    assert f'penalty "{kind}"' in reason


def test_other_devices_are_refused() -> None:
    reason = ENGINE.supports(discs(1.0, 10.0), SolveOptions(device="cuda"))
    assert reason is not None
    assert '"cuda"' in reason


def test_a_problem_past_the_memory_limit_is_refused_with_the_ways_out(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = discs(1.0, 10.0)
    assert ENGINE.supports(problem, SolveOptions()) is None
    needed = points.dense_bytes(problem, dtype="float64", copies=pot._COPIES)
    monkeypatch.setattr(points, "memory_limit_bytes", lambda: needed - 1)
    reason = ENGINE.supports(problem, SolveOptions())
    assert reason is not None
    for words in ("253 x 441", "GB", "limit", "downsample_factor", "max_support_points", 'backend="grid"'):
        assert words in reason
    assert ENGINE.supports(problem, SolveOptions(dtype="float32")) is None


def test_the_memory_limit_is_below_what_the_machine_has() -> None:
    import os

    assert 0 < points.memory_limit_bytes() <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def test_chunks_and_one_piece_give_the_same_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = small(KL(5.0), KL(5.0), metric="euclidean")
    whole = points.Points(problem)
    monkeypatch.setattr(points, "_CHUNK_ENTRIES", 100)
    parts = points.Points(problem)
    rng = np.random.default_rng(0)
    f, g = rng.normal(0.0, 9.0, whole.mass_a.size), rng.normal(0.0, 9.0, whole.mass_b.size)
    np.testing.assert_allclose(parts.log_sums_a(g), whole.log_sums_a(g), rtol=1e-14)
    np.testing.assert_allclose(parts.log_sums_b(f), whole.log_sums_b(f), rtol=1e-14)
    assert len(list(parts.costs())) > 5
