"""The bridge: our objective, with any reference, as the one that OTT minimises.

OTT's plan is exp((F_i + G_j - C_ij)/eps): the counting reference. With F = f - t + eps log u, G = g + t + eps log v
that is our plan, and our updates are OTT's for the masses a u^(eps/lambda_a) e^(-t/lambda_a), b v^(eps/lambda_b) e^(t/lambda_b).
So the cost stays as it is; and t, of the order of lambda when the masses differ, takes no digits from F and G.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairframe.engines.base import Start, start_on_supports
from pairframe.engines.ott.layout import Layout, box_of
from pairframe.engines.points import Points
from pairframe.problem import Potentials, TransportProblem, optimal_translation
from pairframe.types import Float, Index

Array = NDArray[Any]  # of the solve's dtype

# Logs of masses that the dtype holds with room to spare: OTT takes masses, not their logs.
_LOG_MASS = {"float64": 600.0, "float32": 75.0}


def mass_trouble(problem: TransportProblem, dtype: str) -> str | None:
    """The reason why OTT's input masses do not fit the dtype, or None if they do."""
    largest = max(float(np.abs(logs).max()) for logs in _log_masses(problem, _level(problem)))
    if largest <= _LOG_MASS[dtype]:
        return None
    return (
        f"epsilon {problem.epsilon:.3g} against marginal relaxations {problem.penalty_a.marginal_relaxation:.3g} and "
        f"{problem.penalty_b.marginal_relaxation:.3g}: OTT's counting reference then takes masses of e^{largest:.0f}, past "
        f'{dtype}; use a smaller blur, a larger reach, or backend="grid"'
    )


class OttProblem:
    """One problem in OTT's terms, padded; vectors go in and out through it.

    Attributes
    ----------
    coordinates : two arrays
        ``grid``: the padded rows (H,) and columns (W,); else the padded points (n, 2) and (m, 2). Work pixels.
    mass_a, mass_b : padded vectors
        The masses that OTT is given; 0 in the padding.
    shift : float
        The t of this module's docstring: it levels the two totals, and stays.
    """

    def __init__(self, problem: TransportProblem, layout: Layout, dtype: str) -> None:
        self.problem, self.layout, self.dtype = problem, layout, dtype
        self.points = Points(problem)
        self.shift = _level(problem)
        self._slots: tuple[Index, ...]
        self.coordinates: tuple[Array, Array]
        if layout.geometry == "grid":
            y0, x0, _, _ = box_of(problem)
            width = layout.shape[1]
            self._slots = tuple(
                ((yx[:, 0] - y0) * width + (yx[:, 1] - x0)).astype(np.intp)
                for yx in (self.points.positions_a, self.points.positions_b)
            )
            self.coordinates = (np.arange(layout.shape[0], dtype=dtype), np.arange(width, dtype=dtype))
        else:
            self._slots = (np.arange(self.points.mass_a.size), np.arange(self.points.mass_b.size))
            padded = [np.zeros((size, 2), dtype=dtype) for size in layout.sizes]
            for array, yx in zip(padded, (self.points.positions_a, self.points.positions_b), strict=True):
                array[: len(yx)] = yx
            self.coordinates = (padded[0], padded[1])
        logs = _log_masses(problem, self.shift)
        self.mass_a, self.mass_b = self._pad(np.exp(logs[0]), 0, 0.0), self._pad(np.exp(logs[1]), 1, 0.0)

    def start(self, init: Start | None) -> Potentials:
        """Starting potentials; zeros without `init`."""
        start = start_on_supports(self.problem, init)
        f, g = (start.f, start.g) if init is None else (start.f - self.shift, start.g + self.shift)
        return Potentials(f, g, self.shift) if init is None else self.translated(Potentials(f, g, self.shift))

    def translated(self, potentials: Potentials) -> Potentials:
        """The same plan and shift with the best constant in f and g. OTT finds it too, unless one side is balanced."""
        step = self.points.translated(potentials).shift - potentials.shift
        return Potentials(potentials.f + step, potentials.g - step, potentials.shift)

    def to_ott(self, potentials: Potentials) -> tuple[Array, Array]:
        """Padded potentials as OTT has them; -inf in the padding."""
        eps = self.problem.epsilon
        return (
            self._pad(potentials.f + eps * self.points.log_u, 0, -np.inf),
            self._pad(potentials.g + eps * self.points.log_v, 1, -np.inf),
        )

    def from_ott(self, padded_f: Array, padded_g: Array) -> Potentials:
        """Our potentials, float64."""
        eps = self.problem.epsilon
        f = padded_f[self._slots[0]].astype(np.float64) - eps * self.points.log_u
        g = padded_g[self._slots[1]].astype(np.float64) - eps * self.points.log_v
        return Potentials(f, g, self.shift)

    def largest_cost(self) -> float:
        """A bound on the cost between two support points."""
        _, _, height, width = box_of(self.problem)
        squared = float(height**2 + width**2)
        return squared if self.problem.metric == "sqeuclidean" else math.sqrt(squared)

    def _pad(self, values: Float, side: int, outside: float) -> Array:
        padded = np.full(self.layout.sizes[side], outside, dtype=self.dtype)
        padded[self._slots[side]] = values
        return padded


def _level(problem: TransportProblem) -> float:
    """The shift that makes the totals equal: the best one for potentials of zero."""
    zeros = np.zeros(problem.shape)
    return optimal_translation(problem, zeros, zeros)


def _log_masses(problem: TransportProblem, t: float) -> tuple[Float, Float]:
    on_a, on_b = problem.support_a, problem.support_b
    lam_a, lam_b = problem.penalty_a.marginal_relaxation, problem.penalty_b.marginal_relaxation
    return (
        np.log(problem.mass_a[on_a]) + (problem.epsilon * problem.log_u[on_a] - t) / lam_a,
        np.log(problem.mass_b[on_b]) + (problem.epsilon * problem.log_v[on_b] + t) / lam_b,
    )
