"""Cases that once went wrong: far beyond the reach, very unequal masses, specks, an epsilon beyond all digits."""

from __future__ import annotations

import numpy as np
import pytest

import pairframe as pf
from pairframe.engines import SolveOptions, Status, solve
from pairframe.problem import KL, TransportProblem, penalty_of
from pairframe.testing import disc


@pytest.mark.parametrize("reach", [5.0, 15.0, 20.5])
def test_masks_far_beyond_the_reach_are_solved_and_agree_with_the_oracle(reach: float) -> None:
    a, b = disc((30, 600), (15, 15), 6), disc((30, 600), (15, 580), 7)
    grid, oracle = (pf.compare(a, b, pf.TransportConfig(reach_um=reach, backend=name)) for name in ("grid", "oracle"))
    assert grid.status is Status.converged
    assert grid.total_mass_moved < 1e-3
    assert grid.divergence == pytest.approx(oracle.divergence, rel=1e-6)


@pytest.mark.parametrize("penalty", [("kl", "partial"), ("partial", "kl"), ("kl", "kl"), ("kl", "tv")])
@pytest.mark.parametrize("ratio", [1e-3, 1e-7])
def test_the_tiny_side_of_a_very_unequal_pair_decides_when_it_is_converged(
    penalty: tuple[str, str], ratio: float
) -> None:
    big, small = disc((60, 90), (30, 20), 12).astype(float), ratio * disc((60, 90), (30, 35), 12)
    pair = (big, small) if penalty[0] == "kl" else (small, big)
    config = pf.TransportConfig(penalty=penalty, mass_mode="intensity")
    usual, tight = (pf.compare(*pair, c) for c in (config, pf.TransportConfig(**{**vars(config), "tol": 1e-12})))
    assert usual.status is Status.converged
    known = usual.velocity_valid & tight.velocity_valid
    assert np.abs(usual.velocity_field - tight.velocity_field)[known].max() < 0.05
    assert usual.total_transport_cost_um2 == pytest.approx(tight.total_transport_cost_um2, rel=1e-3)


@pytest.mark.parametrize("epsilon", [1e-12, 1e-15, 1e-30, 1e-300])
def test_an_epsilon_beyond_all_digits_is_a_status(epsilon: float) -> None:
    kl = KL(400.0)
    masses = [disc((40, 50), centre, 8).astype(float) for centre in ((15, 15), (25, 30))]
    found = solve(TransportProblem(*masses, epsilon, kl, kl), options=SolveOptions(max_iterations=40))
    for array, on in ((found.potential_a, found.problem.support_a), (found.potential_b, found.problem.support_b)):
        assert np.isfinite(array[on]).all() or found.status is Status.impossible
    assert not np.isnan(found.certificate.gap)
    result = pf.compare(masses[0], masses[1], pf.TransportConfig(epsilon=epsilon, max_iterations=40))
    result.check_books()
    assert np.isfinite(result.mass_created).all()


@pytest.mark.parametrize("kinds", [("tv", "tv"), ("partial", "partial"), ("tv", "balanced")], ids="-".join)
def test_specks_are_solved_with_pinned_penalties_too(kinds: tuple[str, str]) -> None:
    rng = np.random.default_rng(3)
    a, b = ((rng.random((40, 40)) < 0.05).astype(float) for _ in "ab")
    sides = [penalty_of(kind, 100.0) for kind in kinds]
    found = solve(TransportProblem(a, b, 1.0, *sides), options=SolveOptions(max_iterations=5000))
    assert found.certificate.relative_gap < 1e-4
    assert found.certificate.marginal_error < 1e-4


def test_what_no_engine_here_samples_is_refused() -> None:
    mask = disc((20, 20), (10, 10), 5)
    with pytest.raises(pf.PairframeError, match=r"uses every pixel.*max_support_points=5"):
        pf.compare(mask, np.roll(mask, 2), pf.TransportConfig(max_support_points=5))


def test_a_result_where_nothing_moved_reads_well() -> None:
    mask = disc((20, 20), (10, 10), 5)
    assert "nan um" not in pf.compare(mask, np.zeros_like(mask)).summary()
