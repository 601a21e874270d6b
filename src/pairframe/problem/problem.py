"""`TransportProblem`: the one statement of the problem that every engine is given."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from pairframe.errors import CanvasMismatchError, EmptyMeasureError, EpsilonError, PenaltyError, UnequalMassesError
from pairframe.frame.crop import check_density
from pairframe.problem.penalties import Penalty
from pairframe.problem.reference import check_metric, check_reference_name, log_reference

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]
Array = TypeVar("Array", bound=NDArray[Any])

# Totals of two balanced sides may differ by this much (relative): what pooling and normalising leave.
_TOTALS_AGREE = 1e-9


@dataclass(frozen=True, eq=False)
class TransportProblem:
    """Minimise over P >= 0:  <C, P> + eps KL(P || u (x) v) + D_a(P1 || a) + D_b(P'1 || b).

    Everything is in work pixels: ``C_ij = |x_i - x_j|^2`` (or ``|x_i - x_j|``) between pixel indices (y, x).

    Parameters
    ----------
    mass_a, mass_b : (H, W)
        Source and target mass per work pixel: finite, >= 0, one shape, both with some mass.
    epsilon : float
        Strength of the entropy, in cost units.
    penalty_a, penalty_b : Penalty
    reference : {"heat", "product", "counting"}
    metric : {"sqeuclidean", "euclidean"}
    """

    mass_a: Float
    mass_b: Float
    epsilon: float
    penalty_a: Penalty
    penalty_b: Penalty
    reference: str = "heat"
    metric: str = "sqeuclidean"

    def __post_init__(self) -> None:
        for name in ("mass_a", "mass_b"):
            array, box = check_density(getattr(self, name), name)
            if box is None:
                raise EmptyMeasureError(
                    f"some mass in {name}", "none", "an empty mask needs no solve: all mass is created or destroyed"
                )
            mass = np.array(array, dtype=np.float64)
            mass.setflags(write=False)
            object.__setattr__(self, name, mass)
        if self.mass_a.shape != self.mass_b.shape:
            raise CanvasMismatchError(
                "mass_a and mass_b on one work grid",
                f"shapes {self.mass_a.shape} and {self.mass_b.shape}",
                "pool both with one GridTransform",
            )
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        for name in ("penalty_a", "penalty_b"):
            if not isinstance(getattr(self, name), Penalty):
                raise PenaltyError(
                    f"{name} to be a Penalty", repr(getattr(self, name)), 'e.g. Penalty("kl", strength=2500.0)'
                )
        check_reference_name(self.reference)
        check_metric(self.metric)
        self._check_totals()

    def _check_totals(self) -> None:
        kinds = (self.penalty_a.kind, self.penalty_b.kind)
        ratio = self.total_b / self.total_a
        if kinds == ("balanced", "balanced"):
            impossible = abs(ratio - 1.0) > _TOTALS_AGREE
        elif kinds == ("balanced", "partial"):
            impossible = ratio < 1.0 - _TOTALS_AGREE
        elif kinds == ("partial", "balanced"):
            impossible = ratio > 1.0 + _TOTALS_AGREE
        else:
            impossible = False
        if impossible:
            raise UnequalMassesError(
                f"totals that penalties {kinds[0]} and {kinds[1]} allow",
                f"{self.total_a:.6g} against {self.total_b:.6g}",
                'use normalization="each", or another penalty ("kl", "tv") on one side',
            )

    # --- what engines read -------------------------------------------------------------------

    @property
    def shape_hw(self) -> tuple[int, int]:
        """(H, W) of the work grid."""
        return self.mass_a.shape[0], self.mass_a.shape[1]

    @cached_property
    def support_a(self) -> Bool:
        """(H, W): where the source has mass."""
        return _frozen(self.mass_a > 0)

    @cached_property
    def support_b(self) -> Bool:
        """(H, W): where the target has mass."""
        return _frozen(self.mass_b > 0)

    @cached_property
    def total_a(self) -> float:
        """M_a."""
        return float(self.mass_a.sum())

    @cached_property
    def total_b(self) -> float:
        """M_b."""
        return float(self.mass_b.sum())

    @cached_property
    def log_u(self) -> Float:
        """(H, W): log of the source factor of the reference; -inf off the support."""
        return _frozen(log_reference(self.mass_a, self.reference, self.epsilon, self.metric, self.total_b))

    @cached_property
    def log_v(self) -> Float:
        """(H, W): log of the target factor of the reference; -inf off the support."""
        return _frozen(log_reference(self.mass_b, self.reference, self.epsilon, self.metric, self.total_a))

    @cached_property
    def log_a_over_u(self) -> Float:
        """(H, W): log(a/u); 0 off the support."""
        return _frozen(_log_ratio(self.mass_a, self.log_u))

    @cached_property
    def log_b_over_v(self) -> Float:
        """(H, W): log(b/v); 0 off the support."""
        return _frozen(_log_ratio(self.mass_b, self.log_v))

    @cached_property
    def total_reference(self) -> float:
        """Sum of u times sum of v."""
        return float(np.exp(self.log_u).sum()) * float(np.exp(self.log_v).sum())

    @cached_property
    def is_symmetric(self) -> bool:
        """Whether source and target, mass and penalty, are the same: a self-problem."""
        return self.penalty_a == self.penalty_b and np.array_equal(self.mass_a, self.mass_b)

    # --- relatives ---------------------------------------------------------------------------

    def swapped(self) -> TransportProblem:
        """The same problem with source and target exchanged."""
        return replace(self, mass_a=self.mass_b, mass_b=self.mass_a, penalty_a=self.penalty_b, penalty_b=self.penalty_a)

    def self_problem(self, side: Literal["a", "b"]) -> TransportProblem:
        """One side against itself, with its own penalty on both sides."""
        mass, penalty = (self.mass_a, self.penalty_a) if side == "a" else (self.mass_b, self.penalty_b)
        return replace(self, mass_a=mass, mass_b=mass, penalty_a=penalty, penalty_b=penalty)

    def __repr__(self) -> str:
        h, w = self.shape_hw
        sides = " ".join(f"{p.kind}({p.strength:g})" for p in (self.penalty_a, self.penalty_b))
        return (
            f"TransportProblem({h} x {w} px, {int(self.support_a.sum())} against {int(self.support_b.sum())} pixels, "
            f"mass {self.total_a:g} against {self.total_b:g}, epsilon {self.epsilon:g}, {sides}, "
            f"{self.reference}, {self.metric})"
        )


def check_epsilon(epsilon: object) -> float:
    """A positive, finite number."""
    try:
        value = float(epsilon)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise EpsilonError(
            "a positive, finite epsilon", repr(epsilon), "epsilon is blur^2 in work pixels, e.g. 4.0 for a blur of 2 px"
        )
    return value


def _log_ratio(mass: Float, log_factor: Float) -> Float:
    on = mass > 0
    log_ratio = np.zeros(mass.shape)
    log_ratio[on] = np.log(mass[on]) - log_factor[on]
    return log_ratio


def _frozen(array: Array) -> Array:
    array.setflags(write=False)
    return array
