"""`TransportProblem`: the problem that every engine solves, on a grid with any number of axes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from pairframe.checks import is_positive_number
from pairframe.errors import FrameError, ProblemError
from pairframe.masks.arrays import checked_mass
from pairframe.problem.penalties import Penalty
from pairframe.problem.reference import check_metric, check_reference_name, log_reference
from pairframe.types import Bool, Float

Array = TypeVar("Array", bound=NDArray[Any])

# Totals of two balanced sides may differ by this much (relative): the rounding of pooling and normalising.
_TOTALS_AGREE = 1e-9


@dataclass(frozen=True, eq=False)
class TransportProblem:
    """Minimise over P >= 0:  <C, P> + eps KL(P || u (x) v) + D_a(P1 || a) + D_b(P'1 || b).

    Everything is in work pixels: ``C_ij = |x_i - x_j|^2`` (or ``|x_i - x_j|``) between positions, which are pixel indices
    times `spacing`. Arrays over the grid have the shape of the masses: (H, W) for images, (Z, Y, X) for volumes.

    Parameters
    ----------
    mass_a, mass_b : arrays of one shape
        Source and target mass per work pixel: finite, >= 0, both with some mass.
    epsilon : float
        Weight of the entropy, in cost units.
    penalty_a, penalty_b : Penalty
    reference : {"heat", "product", "counting"}
    metric : {"sqeuclidean", "euclidean"}
    spacing : one float per axis
        Distance between neighbouring pixels, in work pixels; 1 along each axis by default.
    """

    mass_a: Float
    mass_b: Float
    epsilon: float
    penalty_a: Penalty
    penalty_b: Penalty
    reference: str = "heat"
    metric: str = "sqeuclidean"
    spacing: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        is_one = self.mass_a is self.mass_b
        for name in ("mass_a", "mass_b"):
            if is_one and name == "mass_b":  # a measure against itself is held once
                object.__setattr__(self, name, self.mass_a)
                break
            array, row_max = checked_mass(getattr(self, name), name)
            if not row_max.any():
                raise ProblemError(
                    f"some mass in {name}", "none", "an empty mask needs no solve: all mass is created or destroyed"
                )
            object.__setattr__(self, name, _own_copy(array))
        if self.mass_a.shape != self.mass_b.shape:
            raise FrameError(
                "mass_a and mass_b on one work grid",
                f"shapes {self.mass_a.shape} and {self.mass_b.shape}",
                "pool both with one GridTransform",
            )
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "spacing", _checked_spacing(self.spacing, self.mass_a.ndim))
        for name in ("penalty_a", "penalty_b"):
            if not isinstance(getattr(self, name), Penalty):
                raise ProblemError(
                    f"{name} to be a Penalty", repr(getattr(self, name)), "e.g. KL(2500.0) or Balanced()"
                )
        check_reference_name(self.reference)
        check_metric(self.metric)
        self._check_totals()

    def _check_totals(self) -> None:
        side_a, side_b = self.penalty_a, self.penalty_b
        if not totals_allow_a_plan(side_a, side_b, self.total_a, self.total_b):
            raise ProblemError(
                f"totals that penalties {side_a.name} and {side_b.name} allow",
                f"{self.total_a:.6g} against {self.total_b:.6g}",
                'use normalization="each", or another penalty, e.g. Partial or KL, on one side',
            )

    # --- arrays over the grid, and their totals ----------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the work grid."""
        return self.mass_a.shape

    @property
    def is_plain_image(self) -> bool:
        """Whether the grid has two axes and square pixels of side 1."""
        return self.spacing == (1.0, 1.0)

    @property
    def long_axes(self) -> tuple[int, ...]:
        """Axes with more than one pixel, along which mass can move; the last axis if there are none."""
        return tuple(axis for axis, side in enumerate(self.shape) if side > 1) or (len(self.shape) - 1,)

    def positions(self, support: Bool) -> Float:
        """(n, ndim): positions of the pixels of a support, work px, in row-major order."""
        # Axis by axis in memory, as callers read them.
        positions: Float = np.array(np.nonzero(support), dtype=np.float64) * np.array(self.spacing)[:, None]
        return positions.T

    @cached_property
    def support_a(self) -> Bool:
        """Where the source has mass."""
        return _frozen(self.mass_a > 0)

    @cached_property
    def support_b(self) -> Bool:
        """Where the target has mass."""
        return self.support_a if self.mass_a is self.mass_b else _frozen(self.mass_b > 0)

    @cached_property
    def total_a(self) -> float:
        """M_a."""
        return float(self.mass_a.sum())

    @cached_property
    def total_b(self) -> float:
        """M_b."""
        return self.total_a if self.mass_a is self.mass_b else float(self.mass_b.sum())

    # Logarithms are not kept: an image of each would stay in memory as long as the problem.

    @property
    def log_u(self) -> Float:
        """Log of the source factor of the reference; -inf off the support."""
        return _frozen(self._log_reference(self.mass_a, self.total_b))

    @property
    def log_v(self) -> Float:
        """Log of the target factor of the reference; -inf off the support."""
        return _frozen(self._log_reference(self.mass_b, self.total_a))

    def _log_reference(self, mass: Float, other_total: float) -> Float:
        return log_reference(mass, self.reference, self.epsilon, self.metric, other_total, self.spacing)

    @property
    def log_a_over_u(self) -> Float:
        """Log(a/u); 0 off the support."""
        return _frozen(_log_ratio(self.mass_a, self.log_u))

    @property
    def log_b_over_v(self) -> Float:
        """Log(b/v); 0 off the support."""
        return _frozen(_log_ratio(self.mass_b, self.log_v))

    def log_factors(self) -> tuple[Float, Float]:
        """Logs of u and v on the supports, (n,) and (m,) in row-major order; one array for a measure against itself."""
        log_v = self.log_v_on_support()
        if self.mass_a is self.mass_b:
            return log_v, log_v
        return self._log_reference(self.mass_a[self.support_a], self.total_b), log_v

    def log_v_on_support(self) -> Float:
        """Log of the target factor of the reference where the target has mass, (m,)."""
        return self._log_reference(self.mass_b[self.support_b], self.total_a)

    @cached_property
    def total_reference(self) -> float:
        """Sum of u times sum of v."""
        log_u, log_v = self.log_factors()
        total_u = float(np.exp(log_u).sum())
        return total_u * (total_u if log_v is log_u else float(np.exp(log_v).sum()))

    @property
    def is_one_measure(self) -> bool:
        """Whether both sides are one array with one penalty, so that what is true of one side is true of the other."""
        return self.mass_a is self.mass_b and self.penalty_a == self.penalty_b

    @cached_property
    def is_symmetric(self) -> bool:
        """Whether source and target, mass and penalty, are the same: a self-problem."""
        return self.is_one_measure or (self.penalty_a == self.penalty_b and np.array_equal(self.mass_a, self.mass_b))

    # --- relatives ---------------------------------------------------------------------------

    def swapped(self) -> TransportProblem:
        """The same problem with source and target exchanged."""
        return replace(self, mass_a=self.mass_b, mass_b=self.mass_a, penalty_a=self.penalty_b, penalty_b=self.penalty_a)

    def self_problem(self, side: Literal["a", "b"]) -> TransportProblem:
        """One side against itself, with its own penalty on both sides."""
        mass, penalty = (self.mass_a, self.penalty_a) if side == "a" else (self.mass_b, self.penalty_b)
        return replace(self, mass_a=mass, mass_b=mass, penalty_a=penalty, penalty_b=penalty)

    def __repr__(self) -> str:
        spacing = "" if set(self.spacing) == {1.0} else f" at a spacing of {self.spacing}"
        return (
            f"TransportProblem({' x '.join(map(str, self.shape))} px{spacing}, "
            f"{int(self.support_a.sum())} against {int(self.support_b.sum())} pixels, "
            f"mass {self.total_a:g} against {self.total_b:g}, epsilon {self.epsilon:g}, {self.penalty_a} {self.penalty_b}, "
            f"{self.reference}, {self.metric})"
        )


def totals_allow_a_plan(penalty_a: Penalty, penalty_b: Penalty, total_a: float, total_b: float) -> bool:
    """Whether any plan meets both penalties; a balanced side of more mass than a hard one can take does not."""
    excess = total_b / total_a - 1.0
    a_too_large = penalty_a.is_exact and penalty_b.is_hard and excess < -_TOTALS_AGREE
    b_too_large = penalty_b.is_exact and penalty_a.is_hard and excess > _TOTALS_AGREE
    return not (a_too_large or b_too_large)


def check_epsilon(epsilon: object) -> float:
    """A positive, finite number."""
    try:
        value = float(epsilon)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise ProblemError(
            "a positive, finite epsilon", repr(epsilon), "epsilon is blur^2 in work pixels, e.g. 4.0 for a blur of 2 px"
        )
    return value


def _checked_spacing(spacing: object, n_axes: int) -> tuple[float, ...]:
    if spacing == ():
        return (1.0,) * n_axes
    sides = tuple(spacing) if isinstance(spacing, tuple | list | np.ndarray) else ()
    if len(sides) != n_axes or not all(is_positive_number(side) for side in sides):
        raise ProblemError(
            f"spacing of {n_axes} positive numbers, one per axis",
            repr(spacing),
            "give the distance between neighbouring pixels along each axis in work pixels, e.g. (2.5, 1.0, 1.0)",
        )
    return tuple(float(side) for side in sides)


def _log_ratio(mass: Float, log_factor: Float) -> Float:
    on = mass > 0
    log_ratio = np.zeros(mass.shape)
    log_ratio[on] = np.log(mass[on]) - log_factor[on]
    return log_ratio


def _own_copy(array: NDArray[Any]) -> Float:
    """A copy that no one writes to; the array itself if it is the copy of another problem."""
    is_frozen = not array.flags.writeable and array.base is None and array.dtype == np.float64
    return array if is_frozen else _frozen(np.array(array, dtype=np.float64))


def _frozen(array: Array) -> Array:
    array.setflags(write=False)
    return array
