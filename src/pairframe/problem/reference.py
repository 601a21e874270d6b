"""The reference measure ``u (x) v`` of a plan's entropy: a named choice."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from pairframe.errors import ProblemError
from pairframe.types import Float

REFERENCES = ("heat", "product", "counting")
METRICS = ("sqeuclidean", "euclidean")


def log_reference(
    mass: Float, name: str, epsilon: float, metric: str, other_total: float, spacing: tuple[float, ...] = ()
) -> Float:
    """Logarithm of this side's factor of the reference measure.

    Parameters
    ----------
    mass : (...) array
        Mass per work pixel; any shape.
    name : {"heat", "product", "counting"}
        ``heat``: sqrt(a/z), z the lattice sum of exp(-C(0, k)/eps): the joint law of a Brownian motion.
        ``product``: a / (M_a M_b)^(1/4), so that u (x) v = a (x) b / sqrt(M_a M_b). ``counting``: 1.
    epsilon : float
        In work cost units (pixels squared, or pixels for ``euclidean``).
    other_total : float
        Total mass of the other side; only ``product`` reads it.
    spacing : one float per axis
        Distance between neighbouring pixels, work px; 1 along each axis by default. Only ``heat`` reads it.

    Returns
    -------
    Array of the shape of `mass`; -inf where there is no mass.
    """
    check_reference_name(name)
    on = mass > 0
    log_mass = np.full(mass.shape, -np.inf)
    np.log(mass, out=log_mass, where=on)
    if name == "heat":
        return 0.5 * (log_mass - log_lattice_sum(epsilon, metric, spacing or (1.0,) * mass.ndim))
    if name == "product":
        total = float(np.sum(mass))
        return log_mass - 0.25 * (math.log(total) + math.log(other_total))
    return np.where(on, 0.0, -np.inf)


@lru_cache(maxsize=256)
def log_lattice_sum(epsilon: float, metric: str = "sqeuclidean", spacing: tuple[float, ...] = (1.0, 1.0)) -> float:
    """log z, with z the sum of exp(-C(0, x)/epsilon) over all points x of the infinite lattice of that spacing.

    Exact to rounding: a Gaussian is summed axis by axis, directly or through its Poisson dual, and ``euclidean`` is a
    mixture of Gaussians.
    """
    check_metric(metric)
    if metric == "sqeuclidean":
        return sum(math.log(_theta(epsilon / side**2)) for side in spacing)
    return math.log1p(_euclidean_sum_off_origin(epsilon, spacing))


def _theta(epsilon: float) -> float:
    """Sum of exp(-k^2/epsilon) over the integers."""
    if epsilon < 3.0:
        return 1.0 + 2.0 * sum(math.exp(-k * k / epsilon) for k in range(1, 14))
    return math.sqrt(math.pi * epsilon) * (1.0 + 2.0 * math.exp(-(math.pi**2) * epsilon))


def _euclidean_sum_off_origin(epsilon: float, spacing: tuple[float, ...]) -> float:
    """Sum of exp(-|x|/epsilon) over all lattice points but the origin, for any number of axes.

    ``exp(-r/eps)`` is a mixture of Gaussians, ``int_0^inf exp(-s - r^2/(4 s eps^2)) / sqrt(pi s) ds``, and the lattice sum
    of a Gaussian is a product over the axes. With s = e^t the trapezoidal rule is exact to rounding.
    """
    step, total = 1.0 / 6.0, 0.0
    for k in range(-40 * 6, 5 * 6):
        s = math.exp(k * step)
        gaussians = math.prod(_theta(4.0 * s * (epsilon / side) ** 2) for side in spacing)
        total += math.exp(-s) * math.sqrt(s / math.pi) * (gaussians - 1.0)
    return step * total


def check_reference_name(name: Any) -> str:
    """One of the three names."""
    if name not in REFERENCES:
        raise ProblemError(f"a reference: {', '.join(REFERENCES)}", repr(name), "use one of these names")
    return str(name)


def check_metric(metric: Any) -> str:
    """One of the two names."""
    if metric not in METRICS:
        raise ProblemError(f"a metric: {', '.join(METRICS)}", repr(metric), "use one of these names")
    return str(metric)
