"""The pairs that contestants are given: two synthetic embryos at any resolution, blur, reach and ratio of areas."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pairframe.problem import KL, TransportProblem
from pairframe.testing import embryo, tiny_and_huge_embryo
from pairframe.types import Bool

SHAPE_HW = (256, 576)


@dataclass(frozen=True)
class PairSpec:
    """One pair and how it is compared.

    Attributes
    ----------
    scale : float
        Pixels along a side, relative to 256 x 576: the same two embryos, drawn finer or coarser.
    blur_px, reach_px : float
        In pixels at scale 1, so that all scales are the same physics.
    area_ratio : float, optional
        Embryos of one form with areas 1 : area_ratio, instead of two forms of about the same area.
    reference : str
        ``product`` is the one reference that POT, OTT, GeomLoss and we can all be given; see `TransportProblem`.
    """

    scale: float = 1.0
    blur_px: float = 2.0
    reach_px: float = 50.0
    area_ratio: float | None = None
    reference: str = "product"

    @property
    def epsilon_px2(self) -> float:
        """In pixels at this scale."""
        return (self.blur_px * self.scale) ** 2

    @property
    def strength_px2(self) -> float:
        """The penalty's lam, in pixels at this scale."""
        return (self.reach_px * self.scale) ** 2


def masks_of(spec: PairSpec) -> tuple[Bool, Bool]:
    """Source and target, (H, W) bool."""
    shape = (max(8, round(SHAPE_HW[0] * spec.scale)), max(8, round(SHAPE_HW[1] * spec.scale)))
    if spec.area_ratio is not None:
        return tiny_and_huge_embryo(shape, spec.area_ratio)
    target = embryo(shape, length_px=380, thickness_px=28, bend=-0.3, yolk_px=38, growth=spec.scale)
    return embryo(shape, growth=spec.scale), target


def problem_of(spec: PairSpec) -> TransportProblem:
    """The pair as a problem in pixels, masses divided by sqrt(M_a M_b), kl on both sides."""
    a, b = masks_of(spec)
    mass = math.sqrt(float(a.sum())) * math.sqrt(float(b.sum()))
    penalty = KL(spec.strength_px2)
    return TransportProblem(a / mass, b / mass, spec.epsilon_px2, penalty, penalty, reference=spec.reference)


def support_pixels(spec: PairSpec) -> int:
    """Pixels with mass, both masks together."""
    return sum(int(mask.sum()) for mask in masks_of(spec))
