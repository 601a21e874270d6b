"""The layout of a problem for OTT: geometry, padded shape and memory.

Three geometries give the same sums. ``grid`` sums over rows, then columns of the box around both supports:
(H + W) H W terms. ``points`` sums over all pairs of support points: n m terms. ``online`` does so in slices, if
the pairs do not fit into memory. Shapes are padded to buckets with pixels of no mass, so that one compiled program serves
every problem of about that size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pairframe.problem import TransportProblem

GEOMETRIES = ("grid", "points", "online")

# Arrays of the largest size that XLA keeps: measured 2.0 (points) and 1.5 (grid) on a CPU, plus one for safety.
_COPIES = 3
_ONLINE_ROWS = (256, 32)  # output points handled together
_POINTS_PER_OCTAVE, _SIDES_PER_OCTAVE = 2, 4  # a side's cost grows with its cube, so its steps are finer


@dataclass(frozen=True)
class Layout:
    """The properties that a compiled program depends on; equal layouts share one.

    Attributes
    ----------
    geometry : {"grid", "points", "online"}
    shape : (int, int)
        ``grid``: padded (H, W) of the box around both supports; else the padded numbers of points (n, m).
    rows : int
        ``online``: output points handled together; else 0.
    metric : str
    balanced : (bool, bool)
        Which sides have exact marginals; OTT branches on it.
    """

    geometry: str
    shape: tuple[int, int]
    rows: int
    metric: str
    balanced: tuple[bool, bool]

    @property
    def sizes(self) -> tuple[int, int]:
        """Lengths of the two potentials."""
        return (self.shape[0] * self.shape[1],) * 2 if self.geometry == "grid" else self.shape

    def bytes(self, dtype: str) -> int:
        """Estimate of the working memory."""
        first, second = self.shape
        terms = {
            "grid": first * second * (first + second),
            "points": first * second,
            "online": self.rows * max(first, second) + 8 * (first + second),
        }[self.geometry]
        return terms * np.dtype(dtype).itemsize * _COPIES


def choose_layout(problem: TransportProblem, dtype: str, limit_bytes: int, geometry: str | None = None) -> Layout | str:
    """The geometry with the lowest cost among those that fit, or the reason why none does.

    Parameters
    ----------
    limit_bytes : int
        Memory that one solve may take.
    geometry : str, optional
        Only this one.
    """
    names = GEOMETRIES if geometry is None else (geometry,)
    layouts = [layout for name in names for layout in _layouts(problem, name)]
    if not layouts:
        return f'metric "{problem.metric}": OTT\'s grid geometry needs a cost that is a sum over the axes'
    fitting = [layout for layout in layouts if layout.bytes(dtype) <= limit_bytes]
    if not fitting:
        n, m = int(problem.support_a.sum()), int(problem.support_b.sum())
        least = min(layout.bytes(dtype) for layout in layouts)
        return (
            f"{n} x {m} support pixels need an estimated {least / 1e9:.3g} GB, more than the limit of "
            f"{limit_bytes / 1e9:.3g} GB (half of the available memory); raise downsample_factor, set "
            f'max_support_points, or use backend="grid"'
        )
    return min(fitting, key=_cost)


def bucket(size: int, per_octave: int) -> int:
    """The smallest multiple of 8 that holds `size` and lies on a scale of `per_octave` steps to the factor 2."""
    if size <= 8:
        return 8
    step = math.ceil(per_octave * math.log2(size / 8) - 1e-9)
    return 8 * math.ceil(math.pow(2.0, step / per_octave) - 1e-9)


def box_of(problem: TransportProblem) -> tuple[int, int, int, int]:
    """(y0, x0, height, width) of the box around both supports, work pixels."""
    ys, xs = np.nonzero(problem.support_a | problem.support_b)
    y0, x0 = int(ys.min()), int(xs.min())
    return y0, x0, int(ys.max()) - y0 + 1, int(xs.max()) - x0 + 1


def _layouts(problem: TransportProblem, geometry: str) -> list[Layout]:
    rows: tuple[int, ...] = (0,)
    balanced = (problem.penalty_a.is_exact, problem.penalty_b.is_exact)
    if geometry == "grid":
        if problem.metric != "sqeuclidean":
            return []
        _, _, height, width = box_of(problem)
        shape = (bucket(height, _SIDES_PER_OCTAVE), bucket(width, _SIDES_PER_OCTAVE))
    else:
        n, m = (bucket(int(on.sum()), _POINTS_PER_OCTAVE) for on in (problem.support_a, problem.support_b))
        shape, rows = (n, m), rows if geometry == "points" else _ONLINE_ROWS
    return [Layout(geometry, shape, count, problem.metric, balanced) for count in rows]


def _cost(layout: Layout) -> float:
    """Terms of one softmin; the factors for slices were measured on a CPU."""
    first, second = layout.shape
    if layout.geometry == "grid":
        return float(first * second * (first + second))
    slower = {0: 1.0, 256: 1.1, 32: 2.0}[layout.rows]
    return float(first * second) * slower
