"""Each penalty's formulas are those of its definition, found here by one-dimensional minimisation."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from pairframe.errors import ProblemError
from pairframe.problem import KL, PENALTIES, TV, Balanced, Partial, Penalty, penalty_class, penalty_of
from pairframe.problem.penalties.kl import kl_terms

KINDS = ("kl", "tv", "partial", "balanced")
LAM = 1.7


def divergence(kind: str, p: float, a: float, lam: float = LAM) -> float:
    """The definition, written out."""
    if kind == "kl":
        return lam * ((p * math.log(p / a) if p > 0 else 0.0) - p + a)
    return lam * abs(p - a)


def one(value: float) -> np.ndarray:
    return np.array([value])


@pytest.mark.parametrize("kind", ["kl", "tv", "partial"])
@pytest.mark.parametrize("f", [-1.6, -0.4, 0.0, 0.9, 1.7, 2.5])
def test_the_dual_is_the_smallest_penalty_plus_price(kind: str, f: float) -> None:
    a = 0.8
    upper = a if kind == "partial" else 50.0
    best = minimize_scalar(
        lambda p: divergence(kind, p, a) + f * p, bounds=(0.0, upper), method="bounded", options={"xatol": 1e-12}
    )
    ends = [divergence(kind, p, a) + f * p for p in (0.0, a, upper)]
    assert penalty_of(kind, LAM).dual_value(one(f), one(a)) == pytest.approx(min(best.fun, *ends), abs=1e-7)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kernel", [1e-3, 0.3, 0.8, 2.0, 40.0])
def test_the_update_maximises_the_dual_of_its_side(kind: str, kernel: float) -> None:
    a, eps, penalty = 0.8, 0.6, penalty_of(kind, LAM)
    s = eps * math.log(a / kernel)  # the plan has the marginal kernel * exp(f/eps)
    low = -LAM if kind == "tv" else -20.0
    best = minimize_scalar(
        lambda f: eps * kernel * math.exp(f / eps) - penalty.dual_value(one(f), one(a)),
        bounds=(low, 20.0),
        method="bounded",
        options={"xatol": 1e-10},
    )
    assert penalty.update(one(s), eps)[0] == pytest.approx(best.x, abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_the_slope_is_the_derivative_of_the_update(kind: str) -> None:
    penalty, s, h = penalty_of(kind, LAM), np.array([-3.0, -1.0, 0.2, 1.0, 3.0]), 1e-6
    numeric = (penalty.update(s + h, 0.6) - penalty.update(s - h, 0.6)) / (2 * h)
    np.testing.assert_allclose(penalty.slope(s, 0.6), numeric, atol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_a_shifted_update_is_the_update_seen_from_there(kind: str) -> None:
    penalty, s, t = penalty_of(kind, LAM), np.linspace(-4, 4, 17), 1.3
    np.testing.assert_allclose(penalty.update(s, 0.6, t), penalty.update(s + t, 0.6) - t, atol=1e-14)


positive = st.floats(1e-3, 1e3)


@given(
    st.sampled_from(["kl", "tv", "partial"]), positive, positive, st.floats(-5, 5), st.floats(0.1, 100), st.booleans()
)
def test_the_gap_is_primal_minus_dual_and_never_negative(
    kind: str, p: float, a: float, f: float, lam: float, empty: bool
) -> None:
    penalty = penalty_of(kind, lam)
    p = 0.0 if empty else min(p, a) if kind == "partial" else p
    f = float(penalty.admissible(one(f))[0]) if kind == "tv" else f
    gap = penalty.gap(one(p), one(f), one(a))
    plain = divergence(kind, p, a, lam) + f * p - penalty.dual_value(one(f), one(a))
    assert gap >= 0
    assert gap == pytest.approx(plain, rel=1e-9, abs=1e-9 * (1 + abs(f)) * (p + a) * (1 + lam))
    assert penalty.divergence(one(p), one(a)) == pytest.approx(divergence(kind, p, a, lam), rel=1e-9, abs=1e-12)


def test_a_tiny_kl_gap_keeps_its_digits() -> None:
    penalty, a, f = KL(3.0), one(2.0), one(0.7)
    p = penalty.optimal_marginal(f, a) * (1 + 1e-9)
    assert penalty.gap(p, f, a) == pytest.approx(3.0 * float(p[0]) * 0.5e-18, rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mass", [1e-300, 1e-12, 1e12, 1e300])
def test_extreme_masses_give_no_nan(kind: str, mass: float) -> None:
    penalty, a = penalty_of(kind, 1e3), one(mass)
    for factor in (0.0, 1e-200, 0.5, 1.0):
        p = a * factor
        for f in (-999.0, 0.0, 1e3):
            for value in (penalty.gap(p, one(f), a), penalty.divergence(p, a), penalty.dual_value(one(f), a)):
                assert not math.isnan(value)
            assert not math.isnan(penalty.residual(p, one(f), a))


def test_a_potential_far_below_is_minus_infinity_not_nan() -> None:
    assert KL(1.0).dual_value(one(-2000.0), one(1.0)) == -math.inf
    assert KL(1.0).gap(one(1.0), one(-2000.0), one(1.0)) == math.inf
    assert TV(1.0).dual_value(one(-1.1), one(1.0)) == -math.inf
    assert TV(1.0).gap(one(1.0), one(-1.1), one(1.0)) == math.inf


def test_hard_sides_forbid_and_soft_sides_only_charge() -> None:
    a, f = one(1.0), one(0.2)
    assert Balanced().divergence(one(0.9), a) == math.inf
    assert Balanced().gap(one(0.9), f, a) == math.inf
    assert Partial(LAM).divergence(one(1.1), a) == math.inf
    assert Partial(LAM).gap(one(1.1), f, a) == math.inf
    assert Partial(LAM).divergence(one(0.9), a) == pytest.approx(0.1 * LAM)
    assert math.isfinite(TV(LAM).divergence(one(1.1), a))
    assert [penalty_of(kind, LAM).is_hard for kind in KINDS] == [False, False, True, True]


@pytest.mark.parametrize("kind", KINDS)
def test_the_side_just_updated_has_no_residual_and_no_gap(kind: str) -> None:
    penalty, eps, a = penalty_of(kind, LAM), 0.6, np.full(5, 0.8)
    s = np.array([-5.0, -1.0, 0.0, 1.0, 5.0])
    f = penalty.update(s, eps)
    p = a * np.exp((f - s) / eps)
    assert penalty.residual(p, f, a) <= 1e-14 * p.sum()
    assert penalty.gap(p, f, a) <= 1e-14 * p.sum()


BAD = {
    "name": (("huber", 1.0), "a penalty: kl, tv, partial, balanced, got 'huber'"),
    "no name": ((["kl"], 1.0), r"got \['kl'\]"),
    "zero": (("kl", 0.0), 'positive, finite marginal_relaxation of "kl", got 0.0'),
    "negative": (("tv", -1.0), "got -1.0"),
    "infinite": (("partial", math.inf), 'got inf.*use "balanced"'),
    "text": (("kl", "x"), "got 'x'"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_penalty_is_refused(case: str) -> None:
    arguments, message = BAD[case]
    with pytest.raises(ProblemError, match=message):
        penalty_of(*arguments)


def test_a_penalty_is_found_by_its_name() -> None:
    assert PENALTIES == KINDS
    assert [penalty_of(kind, LAM) for kind in KINDS] == [KL(LAM), TV(LAM), Partial(LAM), Balanced()]
    assert [str(penalty_of(kind, LAM)) for kind in KINDS] == ["kl(1.7)", "tv(1.7)", "partial(1.7)", "balanced"]
    assert Balanced().marginal_relaxation == math.inf
    assert penalty_class("tv") is TV


@pytest.mark.parametrize("kind", KINDS)
def test_other_cost_units_change_nothing_but_the_unit(kind: str) -> None:
    penalty, unit = penalty_of(kind, LAM), 4.0
    p, f, a = one(0.7), one(0.9), one(0.7 if kind == "balanced" else 0.8)
    rescaled = penalty.rescaled(unit)
    assert rescaled.gap(p, f / unit, a) * unit == pytest.approx(penalty.gap(p, f, a), rel=1e-13)
    assert rescaled.dual_value(f / unit, a) * unit == pytest.approx(penalty.dual_value(f, a), rel=1e-13)


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_plan_costs_the_divergence_of_nothing(kind: str) -> None:
    penalty, mass = penalty_of(kind, LAM), np.array([0.3, 1.2, 0.5])
    assert penalty.empty_cost(2.0) == pytest.approx(penalty.divergence(np.zeros(3), mass), rel=1e-14)
    assert math.isfinite(penalty.soft_divergence(np.zeros(3), mass))


@pytest.mark.parametrize("kind", KINDS)
def test_the_defaults_of_the_base_class_agree_with_the_closed_forms(kind: str) -> None:
    penalty, a = penalty_of(kind, LAM), np.array([0.3, 1.2, 0.5])
    f = np.array([-1.1, 0.2, 1.3])
    np.testing.assert_allclose(Penalty.optimal_marginal(penalty, f, a), penalty.optimal_marginal(f, a), rtol=1e-14)
    np.testing.assert_allclose(Penalty.decay(penalty, f, 0.6), penalty.decay(f, 0.6), atol=1e-14)
    p = penalty.optimal_marginal(f, a)
    assert Penalty.residual(penalty, p, f, a) == pytest.approx(penalty.residual(p, f, a), abs=1e-15)
    assert (
        Penalty._gap(penalty, 0.9 * p, f, a) == pytest.approx(penalty._gap(0.9 * p, f, a), abs=1e-13)
        or kind == "balanced"
    )
    for t in (-0.4, 0.1):
        expected = penalty.dual_slope(f, a).at(t, from_above=True)
        assert Penalty.dual_slope(penalty, f, a).at(t, from_above=True) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("largest", [1e-9, 1e-6, 1e-4, 1e-2, 0.0999, 0.5, 20.0])
def test_terms_of_kl_are_exact_however_close_the_marginals_are(largest: float) -> None:
    """p (d + e^-d - 1) with d = log(p/r), against 40 digits: fewer terms of its series where all d are small."""
    r = np.array([1.7, 0.3, 2.5])
    p = r * np.exp(largest * np.array([0.99, -0.5, 0.01]))
    log_r = np.log(r)
    with localcontext() as context:
        context.prec = 60
        differences = [Decimal(float(np.log(x) - y)) for x, y in zip(p, log_r, strict=True)]
        expected = [float(Decimal(float(x)) * (d + (-d).exp() - 1)) for x, d in zip(p, differences, strict=True)]
    np.testing.assert_allclose(kl_terms(p, log_r, r), expected, rtol=1e-15 if largest < 0.1 else 1e-13)
