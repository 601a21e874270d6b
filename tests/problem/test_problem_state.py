"""A problem checks itself, and a pair is stated in work pixels whatever its units were."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pairframe import GridTransform, errors
from pairframe.engines import SolveOptions, solve
from pairframe.problem import KL, TV, Balanced, Partial, TransportConfig, TransportProblem, state_problem

PENALTY = KL(9.0)
A = np.zeros((6, 7))
A[1:4, 1:5] = 2.0
B = np.zeros((6, 7))
B[2:6, 2:6] = 1.0


def transform_of(s: int = 1, px_size_um: float = 1.0) -> GridTransform:
    return GridTransform.from_pair(np.ones((24, 28)), np.ones((24, 28)), s=s, px_size_um=px_size_um)


BAD = {
    "shapes": ((A, B[:, :5], 1.0, PENALTY, PENALTY), errors.FrameError, r"one work grid.*\(6, 7\) and \(6, 5\)"),
    "empty": ((A, 0 * B, 1.0, PENALTY, PENALTY), errors.ProblemError, "some mass in mass_b, got none"),
    "negative": ((-A, B, 1.0, PENALTY, PENALTY), errors.MaskError, "values >= 0 in mass_a"),
    "NaN": ((A, B * np.nan, 1.0, PENALTY, PENALTY), errors.MaskError, "finite values in mass_b"),
    "epsilon": ((A, B, 0.0, PENALTY, PENALTY), errors.ProblemError, r"positive, finite epsilon, got 0\.0"),
    "epsilon text": ((A, B, "x", PENALTY, PENALTY), errors.ProblemError, "got 'x'"),
    "penalty": ((A, B, 1.0, "kl", PENALTY), errors.ProblemError, "penalty_a to be a Penalty, got 'kl'"),
    "reference": ((A, B, 1.0, PENALTY, PENALTY, "x"), errors.ProblemError, "got 'x'"),
    "metric": ((A, B, 1.0, PENALTY, PENALTY, "heat", "x"), errors.ProblemError, "got 'x'"),
    "balanced": (
        (A, B, 1.0, Balanced(), Balanced()),
        errors.ProblemError,
        'balanced and balanced allow, got 24 against 16.*normalization="each"',
    ),
    "partial": (
        (A, B, 1.0, Balanced(), Partial(2.0)),
        errors.ProblemError,
        "balanced and partial",
    ),
    "partial, other side": (
        (B, A, 1.0, Partial(2.0), Balanced()),
        errors.ProblemError,
        "partial and balanced",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_problem_is_refused(case: str) -> None:
    arguments, error, message = BAD[case]
    with pytest.raises(error, match=message):
        TransportProblem(*arguments)


def test_a_problem_cannot_be_changed_from_outside() -> None:
    mass = A.copy()
    problem = TransportProblem(mass, B, 1.0, PENALTY, PENALTY)
    mass[:] = 7
    assert problem.total_a == 24
    with pytest.raises(ValueError, match="read-only"):
        problem.mass_a[0, 0] = 1
    assert "6 x 7 px, 12 against 16 pixels" in repr(problem)


def test_swapping_and_self_problems_carry_penalties_along() -> None:
    tv = TV(3.0)
    problem = TransportProblem(A, B, 1.0, PENALTY, tv, "product")
    swapped = problem.swapped()
    assert (swapped.penalty_a, swapped.penalty_b) == (tv, PENALTY)
    assert (swapped.mass_a == problem.mass_b).all()
    own = problem.self_problem("b")
    assert (own.penalty_a, own.penalty_b, own.total_a, own.reference) == (tv, tv, 16, "product")


def test_reference_ratios_are_finite_on_the_support_and_zero_off_it() -> None:
    problem = TransportProblem(A, B, 1.0, PENALTY, PENALTY)
    on = problem.support_a
    np.testing.assert_allclose(np.exp(problem.log_u + problem.log_a_over_u)[on], A[on])
    assert (problem.log_a_over_u[~on] == 0).all()
    assert (problem.log_u[~on] == -np.inf).all()


def test_joint_normalisation_keeps_growth_and_scales_back() -> None:
    problem, scale = state_problem(A, B, TransportConfig(), transform_of())
    assert scale == pytest.approx(math.sqrt(24 * 16))
    assert problem.total_b / problem.total_a == pytest.approx(16 / 24)
    assert problem.total_a * scale == pytest.approx(24)
    assert problem.total_a * problem.total_b == pytest.approx(1)


def test_normalising_each_side_forgets_growth() -> None:
    problem, scale = state_problem(A, B, TransportConfig(normalization="each", penalty="balanced"), transform_of())
    assert (problem.total_a, problem.total_b) == (pytest.approx(1), pytest.approx(1))
    assert scale == 16


def test_balanced_with_unequal_masses_is_refused_with_advice() -> None:
    wanted = 'equal masses with penalty "balanced", got a source of 24 and a target of 16 pixels.*normalization="each"'
    with pytest.raises(errors.ProblemError, match=wanted) as raised:
        state_problem(A, B, TransportConfig(penalty="balanced"), transform_of())
    assert raised.value.field == "penalty"
    with pytest.raises(errors.ProblemError, match=r"a source of 24 and a target of 16\."):
        state_problem(A, B, TransportConfig(penalty="balanced", mass_mode="intensity"), transform_of())
    state_problem(A, B, TransportConfig(penalty=("partial", "balanced")), transform_of())
    wanted = 'a source of no more mass than the target with penalty "balanced,partial", got a source of 24'
    with pytest.raises(errors.ProblemError, match=wanted):
        state_problem(A, B, TransportConfig(penalty=("balanced", "partial")), transform_of())
    state_problem(A, B, TransportConfig(penalty=("balanced", "kl")), transform_of())
    with pytest.raises(errors.ProblemError, match="some mass in mass_work_b"):
        state_problem(A, 0 * B, TransportConfig(), transform_of())


@pytest.mark.parametrize("reference", ["heat", "product"])
@pytest.mark.parametrize("penalty", ["kl", "tv", "partial"])
def test_joint_normalisation_changes_nothing_but_the_scale(reference: str, penalty: str) -> None:
    config = TransportConfig(reference=reference, penalty=penalty, reach_um=4.0)
    problem, scale = state_problem(A, B, config, transform_of())
    raw = TransportProblem(A, B, problem.epsilon, problem.penalty_a, problem.penalty_b, reference)
    options = SolveOptions(tol=1e-12)
    one, other = solve(problem, "oracle", options), solve(raw, "oracle", options)
    np.testing.assert_allclose(scale * one.marginal_a, other.marginal_a, rtol=1e-9)
    assert scale * one.certificate.primal_upper == pytest.approx(other.certificate.primal_upper, rel=1e-10)


@pytest.mark.parametrize("s", [1, 2, 4])
def test_the_default_lengths_do_not_depend_on_the_downsample_factor(s: int) -> None:
    problem, _ = state_problem(A, B, TransportConfig(reach_um=26.0), transform_of(s, 0.65))
    assert problem.epsilon * s**2 == pytest.approx(4.0)
    assert problem.penalty_a.marginal_relaxation * s**2 == pytest.approx(40.0**2 / 2)


def test_without_a_reach_it_is_the_length_of_the_objects() -> None:
    mass = np.zeros((40, 60))
    mass[5:35, 10:50] = 1.0
    problem, _ = state_problem(mass, mass[::-1], TransportConfig(), transform_of(1, 0.65))
    assert isinstance(problem.penalty_a, Partial)
    assert problem.penalty_a.marginal_relaxation == pytest.approx((30**2 + 40**2) / 2)
    kl, _ = state_problem(mass, mass[::-1], TransportConfig(penalty="kl"), transform_of(1, 0.65))
    assert isinstance(kl.penalty_a, KL)
    assert kl.penalty_a.marginal_relaxation == pytest.approx(30**2 + 40**2)
    speck = np.zeros((40, 60))
    speck[3, 3] = 1.0
    problem, _ = state_problem(speck, speck, TransportConfig(blur_um=3.0), transform_of(1, 1.0))
    assert problem.penalty_a.marginal_relaxation == pytest.approx(12.0**2 / 2), "four blurs at least"


def test_lengths_are_read_with_the_pixel_size_of_the_transform() -> None:
    config = TransportConfig(blur_um=8.0, reach_um=80.0, penalty=("kl", "balanced"))
    problem, _ = state_problem(A, B, config, transform_of(2, 2.0))
    assert problem.epsilon == pytest.approx(4.0)
    assert problem.penalty_a.marginal_relaxation == pytest.approx(400.0)
    assert problem.penalty_b.marginal_relaxation == math.inf


def test_seed_units_survive_the_way_to_work_pixels() -> None:
    config = TransportConfig(epsilon=1e-4, marginal_relaxation=10.0, coord_scale=1 / 576)
    problem, _ = state_problem(A, B, config, transform_of())
    assert problem.epsilon == pytest.approx(33.1776)
    assert problem.penalty_a.marginal_relaxation == pytest.approx(3317760)
