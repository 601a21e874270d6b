"""Do error bars hold the true value, and what do they and sweeps cost?

    python benchmarks/error_bars.py [--truths 300] [--rim-px 1.0] [--still]

Coverage: each truth is a pair of masks. Its outlines are moved at random (`pairframe.masks.rim`) and cut into pixels, as a
segmentation would do. The error bars of that pair should hold the numbers of the true one in 95 % of all cases.
Cost: kernel applications times pixels, self-problems included, relative to one comparison. Writes benchmarks/out/error_bars.json.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module

import numpy as np

import pairframe as pf
from harness import write_json
from pairframe.engines import Solution
from pairframe.masks.rim import UncertainRim
from pairframe.pipeline.error_bars import CORRELATION_RIMS, numbers_of
from pairframe.pipeline.self_problem import clear_self_cache
from pairframe.problem import TransportProblem
from pairframe.results.error_bars import QUANTITIES, ErrorBars
from pairframe.testing import growing_embryo
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


def cost() -> dict[str, dict[str, float]]:
    """Cost of error bars and of a sweep over nine reaches, in comparisons."""
    embryos = [mask > 0 for mask in growing_embryo(6)]
    blobs = next(truths(1, 1))
    pairs = {
        "growing embryo": (embryos[1], embryos[3]),
        "shifted embryo": (embryos[1], np.roll(embryos[1], 20, axis=1)),
        "blob": (blobs.source, blobs.target),
    }
    found = {}
    for name, pair in pairs.items():
        single = _counted(lambda pair=pair: pf.compare(*pair))
        bars = _counted(lambda pair=pair: pf.compare(*pair, pf.TransportConfig(error_bars=True))) - single
        sweep = _counted(lambda pair=pair: pf.sweep(*pair))
        found[name] = {"error_bars": bars / single, "sweep": sweep / single}
        print(f"{name:16} error bars cost {bars / single:.2f}, a sweep {sweep / single:.2f} comparisons")
    return found


def _counted(job: Callable[[], object]) -> float:
    """Kernel applications times pixels of all solves in a job."""
    counted: list[float] = []
    modules = [import_module(f"pairframe.pipeline.{name}") for name in ("solve", "self_problem")]
    plain = [module.solve for module in modules]

    def counting(solve: Callable[..., Solution]) -> Callable[..., Solution]:
        def run(problem: TransportProblem, *args: object, **named: object) -> Solution:
            found = solve(problem, *args, **named)
            counted.append(found.iterations * float(problem.support_a.sum() + problem.support_b.sum()))
            return found

        return run

    clear_self_cache()
    for module, solve in zip(modules, plain, strict=True):
        module.solve = counting(solve)  # type: ignore[attr-defined]
    try:
        job()
    finally:
        for module, solve in zip(modules, plain, strict=True):
            module.solve = solve  # type: ignore[attr-defined]
    return sum(counted)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure error bars.")
    parser.add_argument("--truths", type=int, default=300)
    parser.add_argument("--rim-px", type=float, default=RIM_PX)
    parser.add_argument("--still", action="store_true", help="truths in which nothing happens")
    given = parser.parse_args()
    costs = cost()
    print(f"{given.truths} {'still ' * given.still}truths, outlines jittered by {given.rim_px:g} px")
    held = coverage(given.truths, given.rim_px, still=given.still)
    for name, (inside, of) in held.items():
        print(f"{name:24} {100 * inside / of if of else float('nan'):5.1f} % of {of} true values inside")
    write_json("error_bars", {"rim_px": given.rim_px, "still": given.still, "inside_and_of": held, "cost": costs})


if __name__ == "__main__":
    main()
