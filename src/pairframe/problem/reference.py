"""The measure ``u (x) v`` that the entropy of a plan is taken against: a named choice."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairframe.errors import MetricError, ReferenceNameError

Float = NDArray[np.float64]
REFERENCES = ("heat", "product", "counting")
METRICS = ("sqeuclidean", "euclidean")


def log_reference(mass: Float, name: str, epsilon: float, metric: str, other_total: float) -> Float:
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

    Returns
    -------
    Array of the shape of `mass`; -inf where there is no mass.
    """
    check_reference_name(name)
    on = mass > 0
    log_mass = np.full(mass.shape, -np.inf)
    np.log(mass, out=log_mass, where=on)
    if name == "heat":
        return 0.5 * (log_mass - log_lattice_sum(epsilon, metric))
    if name == "product":
        total = float(np.sum(mass))
        return log_mass - 0.25 * (math.log(total) + math.log(other_total))
    return np.where(on, 0.0, -np.inf)


@lru_cache(maxsize=256)
def log_lattice_sum(epsilon: float, metric: str = "sqeuclidean") -> float:
    """log z, with z the sum of exp(-C(0, k)/epsilon) over all integer offsets k in the plane.

    The sum itself where it is short, and its Poisson dual where it is long: both are exact to rounding.
    """
    check_metric(metric)
    if metric == "sqeuclidean":
        return 2.0 * math.log(_theta(epsilon))
    return math.log(_short_euclidean_sum(epsilon) if epsilon < 1.0 else _long_euclidean_sum(epsilon))


def _theta(epsilon: float) -> float:
    """Sum of exp(-k^2/epsilon) over the integers."""
    if epsilon < 3.0:
        return 1.0 + 2.0 * sum(math.exp(-k * k / epsilon) for k in range(1, 14))
    return math.sqrt(math.pi * epsilon) * (1.0 + 2.0 * math.exp(-(math.pi**2) * epsilon))


def _short_euclidean_sum(epsilon: float) -> float:
    k = np.arange(-45, 46)
    with np.errstate(under="ignore"):
        return float(np.exp(-np.hypot(k[:, None], k) / epsilon).sum())


def _long_euclidean_sum(epsilon: float) -> float:
    """Sum over frequencies of 2 pi eps^2 (1 + x^2)^(-3/2), x = 2 pi eps |k|, expanded in 1/x.

    The lattice sums of |k|^-s are 4 zeta(s/2) beta(s/2) (Hardy).
    """
    from scipy.special import zeta

    total, coefficient = 1.0, 1.0
    for n in range(16):
        half = 1.5 + n  # s/2 with s = 3 + 2n
        beta = 4.0**-half * (zeta(half, 0.25) - zeta(half, 0.75))
        total += coefficient * 4.0 * float(zeta(half, 1.0) * beta) / (2.0 * math.pi * epsilon) ** (2 * half)
        coefficient *= -(1.5 + n) / (n + 1)
    return 2.0 * math.pi * epsilon**2 * total


def check_reference_name(name: Any) -> str:
    """One of the three names."""
    if name not in REFERENCES:
        raise ReferenceNameError(f"a reference: {', '.join(REFERENCES)}", repr(name), "use one of these names")
    return str(name)


def check_metric(metric: Any) -> str:
    """One of the two names."""
    if metric not in METRICS:
        raise MetricError(f"a metric: {', '.join(METRICS)}", repr(metric), "use one of these names")
    return str(metric)
