"""Problems whose answer is known without a grid."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pairframe.types import Float


@dataclass(frozen=True)
class Gaussian:
    """A round Gaussian blob in the plane: total mass, centre (y, x) in px, variance per axis in px^2."""

    mass: float
    centre_yx: tuple[float, float]
    variance: float

    def on_grid(self, shape_hw: tuple[int, int]) -> Float:
        """Its density at the pixel centres, (H, W); the sum is `mass` up to what the canvas and the pixels cut off."""
        ys, xs = np.ogrid[: shape_hw[0], : shape_hw[1]]
        squared = (ys - self.centre_yx[0]) ** 2 + (xs - self.centre_yx[1]) ** 2
        density: Float = self.mass * np.exp(-0.5 * squared / self.variance) / (2 * math.pi * self.variance)
        return density


@dataclass(frozen=True)
class GaussianAnswer:
    """Total mass of the optimal plan, its means on either side, (y, x) in px, and the optimal value."""

    plan_mass: float
    mean_source_yx: tuple[float, float]
    mean_target_yx: tuple[float, float]
    objective: float


def unbalanced_gaussians(a: Gaussian, b: Gaussian, epsilon: float, lam: float) -> GaussianAnswer:
    """Entropic unbalanced transport between two round Gaussians, squared Euclidean cost, kl on both sides.

    The reference is ``a (x) b`` itself, as in Janati et al. (2020); for totals with ``M_a M_b = 1`` it is our ``product``.
    Potentials stay quadratic under the updates, so an update acts on a handful of numbers: per axis ``f/eps = -k t^2/2 +
    l t``, and one constant. The fixed point is reached to rounding; no grid is involved.
    """
    theta = lam / (lam + epsilon)
    f, g = _Quadratic.zero(), _Quadratic.zero()
    for _ in range(200_000):
        g_next = f.times(a).blurred(epsilon).scaled(-theta)
        f_next = g_next.times(b).blurred(epsilon).scaled(-theta)
        still = f_next.distance(f) + g_next.distance(g)
        f, g = f_next, g_next
        if still < 1e-15:
            break
    source = f.scaled(-epsilon / lam).times(a)  # the marginal that f asks for: a e^(-f/lam)
    target = g.scaled(-epsilon / lam).times(b)
    mass = source.integral()
    value = lam * (a.mass - mass) + lam * (b.mass - mass) - epsilon * (mass - a.mass * b.mass)
    return GaussianAnswer(mass, source.mean(), target.mean(), value)


@dataclass(frozen=True)
class _Quadratic:
    """``exp(-k |t|^2 / 2 + l . t + c)`` on the plane."""

    k: float
    l_yx: tuple[float, float]
    c: float

    @classmethod
    def zero(cls) -> _Quadratic:
        return cls(0.0, (0.0, 0.0), 0.0)

    def scaled(self, factor: float) -> _Quadratic:
        return _Quadratic(factor * self.k, (factor * self.l_yx[0], factor * self.l_yx[1]), factor * self.c)

    def times(self, blob: Gaussian) -> _Quadratic:
        """Multiplied by a Gaussian density."""
        y, x = blob.centre_yx
        constant = math.log(blob.mass / (2 * math.pi * blob.variance)) - 0.5 * (y * y + x * x) / blob.variance
        linear = (self.l_yx[0] + y / blob.variance, self.l_yx[1] + x / blob.variance)
        return _Quadratic(self.k + 1 / blob.variance, linear, self.c + constant)

    def blurred(self, epsilon: float) -> _Quadratic:
        """Its integral against ``exp(-|s - t|^2 / eps)``, as a function of s."""
        sharp = self.k + 2 / epsilon
        c = self.c + math.log(2 * math.pi / sharp) + 0.5 * (self.l_yx[0] ** 2 + self.l_yx[1] ** 2) / sharp
        gain = 2 / (epsilon * sharp)
        return _Quadratic(2 / epsilon - 4 / (epsilon**2 * sharp), (gain * self.l_yx[0], gain * self.l_yx[1]), c)

    def integral(self) -> float:
        return math.exp(self.c + 0.5 * (self.l_yx[0] ** 2 + self.l_yx[1] ** 2) / self.k) * 2 * math.pi / self.k

    def mean(self) -> tuple[float, float]:
        return self.l_yx[0] / self.k, self.l_yx[1] / self.k

    def distance(self, other: _Quadratic) -> float:
        return max(
            abs(self.k - other.k),
            abs(self.l_yx[0] - other.l_yx[0]),
            abs(self.l_yx[1] - other.l_yx[1]),
            abs(self.c - other.c),
        )
