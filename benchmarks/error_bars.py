"""Do error bars hold the true value? Coverage over planted truths whose outlines were jittered by a known amount.

Each truth is a pair of masks. Its outlines are moved at random (`pairframe.masks.rim`, standard deviation `RIM_PX`) and cut
into pixels, as a segmentation would do. The error bars of that pair should hold the numbers of the true one in 95 % of
all cases. Prints the coverage of every number, and what error bars cost in kernel applications.

    python benchmarks/error_bars.py [--truths 300] [--rim-px 1.0] [--still]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

import pairframe as pf
from pairframe.masks.rim import UncertainRim
from pairframe.pipeline.error_bars import CORRELATION_RIMS, numbers_of
from pairframe.results.error_bars import QUANTITIES, ErrorBars
from pairframe.types import Bool, Float

SHAPE_HW = (144, 176)
RIM_PX = 1.0
NONE = 1e-3  # percent: a number that is zero by construction needs no error bar


@dataclass(frozen=True)
class Truth:
    """True masks and the reach of their comparison, px."""

    source: Bool
    target: Bool
    reach_px: float


def blob(centre_yx: Float, radius: float, waves: Float) -> Bool:
    """A disc whose radius varies with the angle; waves (n, 2) are amplitudes (shares) and phases."""
    y, x = np.indices(SHAPE_HW)
    y, x = y - centre_yx[0], x - centre_yx[1]
    angle = np.arctan2(y, x)
    varied = 1.0 + sum(a * np.cos((k + 2) * angle + phase) for k, (a, phase) in enumerate(waves))
    inside: Bool = np.hypot(y, x) < radius * varied
    return inside


def truths(n: int, seed: int = 0, *, still: bool = False) -> Iterator[Truth]:
    """Blobs that grow or shrink, move and deform; in two of three pairs another one vanishes and appears out of reach.

    If `still`, nothing happens at all.
    """
    rng = np.random.default_rng(seed)
    for number in range(n):
        centre, radius = np.array([70.0, 62.0]) + rng.uniform(-4, 4, 2), rng.uniform(22, 32)
        waves = np.stack([rng.uniform(0, 0.12, 3), rng.uniform(0, 2 * np.pi, 3)], axis=1)
        other = waves + np.stack([rng.normal(0, 0.03, 3), rng.normal(0, 0.2, 3)], axis=1)
        source = blob(centre, radius, waves)
        target = blob(centre + rng.uniform(-6, 6, 2), radius * rng.uniform(0.88, 1.15), other)
        if still:
            target = source.copy()
        elif number % 3:
            none = np.zeros((0, 2))
            source = source | blob(np.array([26.0, 148.0]), rng.uniform(7, 13), none)
            target = target | blob(np.array([118.0, 148.0]), rng.uniform(7, 13), none)
        yield Truth(source, target, 50.0)


def segmented(mask: Bool, rim_px: float, rng: np.random.Generator) -> Bool:
    """The mask as a segmentation with uncertain outlines gives it."""
    rim = UncertainRim.of(mask.astype(np.float64), rim_px, CORRELATION_RIMS * rim_px)
    found: Bool = rim.moved(rim.shift_px(rng)) >= 0.5
    return found


def coverage(n: int, rim_px: float, seed: int = 0, *, still: bool = False) -> dict[str, tuple[int, int]]:
    """For each number: how many true values lie in their interval, and of how many that are not zero by construction."""
    rng = np.random.default_rng(seed + 1)
    held = {name: [0, 0] for name in QUANTITIES}
    for truth in truths(n, seed, still=still):
        config = pf.TransportConfig(reach_um=truth.reach_px, rim_um=rim_px)
        plain = pf.TransportConfig(reach_um=truth.reach_px)
        true = numbers_of(pf.compare(truth.source, truth.target, plain))
        bars = pf.compare(*(segmented(mask, rim_px, rng) for mask in (truth.source, truth.target)), config).error_bars
        assert isinstance(bars, ErrorBars)
        for value, (name, bar) in zip(true[: len(QUANTITIES)], bars.items(), strict=True):
            if bar.high - bar.low > NONE:
                held[name][0] += bool(bar.low <= value <= bar.high)
                held[name][1] += 1
    return {name: (inside, of) for name, (inside, of) in held.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--truths", type=int, default=300)
    parser.add_argument("--rim-px", type=float, default=RIM_PX)
    parser.add_argument("--still", action="store_true", help="truths in which nothing happens")
    given = parser.parse_args()
    print(f"{given.truths} {'still ' * given.still}truths, outlines jittered by {given.rim_px:g} px")
    for name, (inside, of) in coverage(given.truths, given.rim_px, still=given.still).items():
        print(f"{name:24} {100 * inside / of if of else float('nan'):5.1f} % of {of} true values inside")


if __name__ == "__main__":
    main()
