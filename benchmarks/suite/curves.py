"""How time grows with pixels, blur, the ratio of the areas and the number of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from pairframe.parallel.threads import n_cores
from suite.contestants import Contestant, Deadline
from suite.problems import PairSpec, support_pixels
from suite.rounds import Stable, race, summary

TOL = 1e-4  # what the curves are timed to: beyond it most peers are no longer in the picture
SCALES = (1 / 8, 3 / 16, 1 / 4, 3 / 8, 1 / 2, 3 / 4, 1.0, 1.5, 2.0, 3.0, 4.0)
BLURS_PX = (32.0, 24.0, 16.0, 12.0, 8.0, 6.0, 4.0, 3.0, 2.0, 1.5, 1.0)
AREA_RATIOS = (100.0, 50.0, 20.0, 10.0, 5.0, 2.0, 1.0)
N_PAIRS = (1, 2, 4, 8, 16, 32, 64)
CURVE_BLUR_PX = 8.0  # where every peer's numbers hold


def by_pixels(contestants: Stable, scales: Sequence[float], limit_s: float, deadline: Deadline) -> list[dict[str, Any]]:
    """The same physics, finer and finer; a contestant past the limit drops out."""
    specs = [PairSpec(scale=scale, blur_px=CURVE_BLUR_PX) for scale in scales]
    points = _curve(contestants, specs, limit_s, deadline)
    for point, spec in zip(points, specs, strict=True):
        point["x"] = support_pixels(spec)
    return points


def by_blur(contestants: Stable, blurs_px: Sequence[float], limit_s: float, deadline: Deadline) -> list[dict[str, Any]]:
    """From a lot of blur to little, at a quarter of the resolution."""
    specs = [PairSpec(scale=1 / 4, blur_px=blur) for blur in blurs_px]
    points = _curve(contestants, specs, limit_s, deadline)
    for point, blur in zip(points, blurs_px, strict=True):
        point["x"] = blur
    return points


def by_ratio(contestants: Stable, ratios: Sequence[float], limit_s: float, deadline: Deadline) -> list[dict[str, Any]]:
    """Areas 1 : ratio, at half the resolution, so that the small one still has pixels; the smallest pair first."""
    specs = [PairSpec(scale=1 / 2, blur_px=CURVE_BLUR_PX, area_ratio=ratio) for ratio in ratios]
    points = _curve(contestants, specs, limit_s, deadline)
    for point, ratio in zip(points, ratios, strict=True):
        point["x"] = ratio
    return points


def _curve(contestants: Stable, specs: Sequence[PairSpec], limit_s: float, deadline: Deadline) -> list[dict[str, Any]]:
    points, active = [], dict(contestants)
    for spec in specs:
        rows = race(active, spec, (TOL,), limit_s=limit_s, repeats=3, deadline=deadline)
        for name, row in rows.items():
            row.pop("trace", None)
            # A contestant that is too slow stays too slow; one whose numbers break down may recover at the next value.
            if not row.get("times") and row.get("ended") != "stuck":
                active.pop(name)
        points.append({"spec": asdict(spec), "rows": rows})
    return points


def by_pairs(deadline: Deadline) -> list[dict[str, Any]]:
    """Many whole comparisons at half the resolution, on one core and on all."""
    cores = n_cores()
    points: list[dict[str, Any]] = []
    one_thread = {"NUMBA_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    with Contestant(env=one_thread) as contestant:
        contestant.ask(120.0, job="compare_many", pairs=1, jobs=1)
        for n_pairs in N_PAIRS:
            rows: dict[str, Any] = {}
            for jobs in sorted({1, cores}):
                if deadline.is_over:
                    rows[str(jobs)] = {"ended": "not run", "why": "the time was up"}
                    continue
                answer = contestant.ask(deadline.left_s + 60.0, job="compare_many", pairs=n_pairs, jobs=jobs)
                rows[str(jobs)] = answer | ({"times": summary([answer])} if "seconds" in answer else {})
            points.append({"x": n_pairs, "rows": rows})
    return points
