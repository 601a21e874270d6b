"""Mass that flows from each region of the source to each region of the target.

A flow is ``F_kl = sum_ij s_ik Q_ij t_jl`` with the feasible part Q (see `accounting`) and the shares of each pixel's mass
that belong to the regions. For each target region the kernel is applied once in each order of scaling, inside a window
that holds all sources of its mass. The window is proved by the books: the mass found in it must be the mass that arrived
at the region, otherwise it grows. So the cost depends on how far mass travels and on how crowded the scene is, and hardly
on the number of regions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pairframe.maps.accounting import FeasibleWeights, feasible_weights
from pairframe.maps.kernels import make_kernel
from pairframe.maps.plan import PlanOperator
from pairframe.types import Bool, Float, Int

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MISSING = 1e-11  # of the mass of a region: less than this may come from outside its window
NEGLIGIBLE = 1e-12  # of the smaller of two regions: flows below this are rounding errors and tails of the blur
_SPREADS = 7.0  # standard deviations of the blur that the first window extends beyond the mean sources

Displaced = Callable[[Float, Float], Float]


@dataclass(frozen=True, eq=False)
class Flows:
    """Flows between regions, in the units of the plan's problem; one entry per pair of regions that exchange mass.

    Attributes
    ----------
    source, target : (n,) int
        Numbers of the regions: columns of the shares.
    mass : (n,)
    displacement : (n, ndim)
        Mean displacement of the mass, work px, in the order of the grid's axes.
    distance : (n,)
        Mean length of the displacements of the source pixels' mass, work px; at least the length of `displacement`.
    left, arrived : (n_a,), (n_b,)
        The mass that left each source pixel and arrived at each target pixel, over the supports; as in `FeasiblePart`.
    applications : float
        Cost in products, over that of one application of the whole kernel: about how many the flows took.
    """

    source: Int
    target: Int
    mass: Float
    displacement: Float
    distance: Float
    left: Float
    arrived: Float
    applications: float


def flows_between(
    plan: PlanOperator,
    shares_a: csr_array,
    shares_b: csr_array,
    displacement_px: Float | None = None,
    displaced: Displaced | None = None,
) -> Flows:
    """The flows of a plan between regions of its source and regions of its target.

    Parameters
    ----------
    shares_a, shares_b : (n, K), (m, L) sparse
        Which share of each pixel's mass belongs to which region; pixels of the supports in row-major order. Rows sum to 1.
    displacement_px : (H, W, 2), optional
        The displacement of each source pixel without its entropic bias, work px, NaN where unknown; that of the plan by
        default. The flows of a pixel differ from its mean as those of the plan do.
    displaced : callable (positions (n, 2), displacements (n, 2)) -> displacements (n, 2), optional
        The displacement to report instead, work px; for a target that was moved before.
    """
    weights = feasible_weights(plan)
    windows = _Windows(plan, weights)
    bias = np.zeros(weights.displacement.shape)
    if displacement_px is not None:
        bias = np.nan_to_num(weights.displacement - displacement_px[plan.problem.support_a])
    columns = shares_b.tocsc()
    found: list[tuple[Int, int, Float]] = []
    for region in range(columns.shape[1]):
        rows = slice(columns.indptr[region], columns.indptr[region + 1])
        pixels, share = columns.indices[rows].astype(np.intp), columns.data[rows]
        order = np.argsort(pixels, kind="stable")
        seen = windows.sources_of(pixels[order], share[order])
        if seen is None:
            continue
        at, mass, displacement = seen
        way = displacement - bias[at]
        if displaced is not None:
            way = displaced(windows.positions_a[at], way)
        sums = np.column_stack([mass, mass[:, None] * way, mass * np.sqrt((way**2).sum(axis=1))])
        sources, per_source = _by_region(shares_a, at, sums)
        found.append((sources, region, per_source))
    return _collected(found, plan, weights, shares_a, shares_b, windows.applications)


class _Windows:
    """The sources of a target region's mass: pixels of the source, mass and mean displacement."""

    def __init__(self, plan: PlanOperator, weights: FeasibleWeights) -> None:
        problem = plan.problem
        self._problem, self._weights = problem, weights
        self._on_a = problem.support_a
        self._index_a = np.full(problem.shape, -1, dtype=np.int64)
        self._index_a[problem.support_a] = np.arange(len(weights.left))
        self.positions_a = problem.positions(problem.support_a)
        self._pixels_b = np.argwhere(problem.support_b)
        spacing = np.array(problem.spacing)
        self._centre = weights.source_of_target / spacing
        reach = np.sqrt(problem.epsilon / 2) if problem.metric == "sqeuclidean" else 2.0 * problem.epsilon
        self._margin = 2.0 + _SPREADS * reach / spacing
        largest = [np.abs(log[np.isfinite(log)]).max(initial=0.0) for log in weights.log_a]
        self._digits = 1e-15 * float(max(largest))
        self._products = 0.0

    @property
    def applications(self) -> float:
        """Products so far over those of the whole kernel."""
        problem = self._problem
        whole = _products(np.array(problem.shape), np.array(problem.shape), problem.epsilon, problem.spacing)
        return self._products / whole

    def sources_of(self, pixels: Int, share: Float) -> tuple[Int, Float, Float] | None:
        """Source pixels (k,), the mass (k,) that each sends to the region, and its mean displacement (k, ndim), work px.

        `pixels` (n,) are places in the target's support in rising order, `share` (n,) the shares that belong to the region.
        """
        wanted = float((self._weights.arrived[pixels] * share).sum())
        if not wanted > 0.0:
            return None
        at, centre = self._pixels_b[pixels], self._centre[pixels]
        known = np.isfinite(centre).all(axis=1)
        low, high = (function(centre[known] if known.any() else at, axis=0) for function in (np.min, np.max))
        shape = np.array(self._problem.shape)
        tolerance = max(MISSING, self._digits)
        margin = self._margin
        while True:
            first = np.clip(np.floor(low - margin), 0, shape - 1).astype(np.intp)
            last = np.clip(np.ceil(high + margin) + 1, first + 1, shape).astype(np.intp)
            seen = self._in_window(at, pixels, share, first, last)
            if seen is not None and wanted - float(seen[1].sum()) <= tolerance * wanted:
                return seen
            if (first == 0).all() and (last == shape).all():
                return seen
            margin = 2.0 * margin + 0.5 * (high - low)

    def _in_window(self, at: Int, pixels: Int, share: Float, first: Int, last: Int) -> tuple[Int, Float, Float] | None:
        window = tuple(slice(a, b) for a, b in zip(first, last, strict=True))
        sources = self._index_a[window]
        sources = sources[sources >= 0]
        if not sources.size:
            return None
        problem = self._problem
        corner, end = np.minimum(first, at.min(axis=0)), np.maximum(last, at.max(axis=0) + 1)
        box = tuple(slice(a, b) for a, b in zip(corner, end, strict=True))
        on_in: Bool = np.zeros(tuple(end - corner), dtype=bool)
        on_in[tuple((at - corner).T)] = True
        on_out: Bool = np.zeros(on_in.shape, dtype=bool)
        inner = tuple(slice(a - c, b - c) for a, b, c in zip(first, last, corner, strict=True))
        on_out[inner] = self._on_a[box][inner]
        kernel = make_kernel(on_in, on_out, problem.epsilon, problem.metric, problem.spacing)
        sides_in = at.max(axis=0) + 1 - at.min(axis=0)
        self._products += 2 * _products(sides_in, last - first, problem.epsilon, problem.spacing)
        log_share = np.log(share)
        positions = (at - corner) * np.array(problem.spacing)
        here = (np.argwhere(on_out) * np.array(problem.spacing)).T
        mass, moved = np.zeros(sources.size), np.zeros((sources.size, at.shape[1]))
        for log_a, log_b in zip(self._weights.log_a, self._weights.log_b, strict=True):
            log_sum, means = kernel.log_sum_and_means(log_b[pixels] + log_share, positions.T)
            with np.errstate(under="ignore"):
                sent = 0.5 * np.exp(np.nan_to_num(log_a[sources] + log_sum, nan=-np.inf))
            mass += sent
            moved += (sent * np.nan_to_num(means - here)).T
        displacement = np.divide(moved, mass[:, None], out=np.zeros(moved.shape), where=mass[:, None] > 0)
        return sources, mass, displacement


def _products(sides_in: Int, sides_out: Int, epsilon: float, spacing: tuple[float, ...]) -> float:
    """About how many products the passes between two boxes take: each output of a pass sees the inputs in its reach."""
    total, lines = 0.0, float(np.prod(sides_in))
    for side_in, side_out, side in zip(sides_in, sides_out, spacing, strict=True):
        seen = min(float(side_in), 2.0 * np.sqrt(45.0 * epsilon) / side)
        lines = lines / side_in * side_out
        total += lines * seen
    return total


def _by_region(shares: csr_array, at: Int, values: Float) -> tuple[Int, Float]:
    """Sums of `values` (k, c) of the pixels `at` (k,) by region: the regions (r,), and (r, c)."""
    chosen = shares[at]
    row = np.repeat(np.arange(len(at)), np.diff(chosen.indptr))
    regions, place = np.unique(chosen.indices, return_inverse=True)
    weighted = values[row] * chosen.data[:, None]
    sums = [np.bincount(place, weights=column, minlength=len(regions)) for column in weighted.T]
    return regions.astype(np.int64), np.stack(sums, axis=1)


def _collected(
    found: list[tuple[Int, int, Float]],
    plan: PlanOperator,
    weights: FeasibleWeights,
    shares_a: csr_array,
    shares_b: csr_array,
    applications: float,
) -> Flows:
    problem = plan.problem
    n_axes = len(problem.shape)
    source = np.concatenate([one[0] for one in found]) if found else np.empty(0, dtype=np.int64)
    target = np.concatenate([np.full(len(one[0]), one[1]) for one in found]) if found else np.empty(0, dtype=np.int64)
    sums = np.concatenate([one[2] for one in found]) if found else np.empty((0, n_axes + 2))
    mass_a = shares_a.T @ problem.mass_a[problem.support_a]
    mass_b = shares_b.T @ problem.mass_b[problem.support_b]
    kept = sums[:, 0] > NEGLIGIBLE * np.minimum(mass_a[source], mass_b[target])
    source, target, sums = source[kept], target[kept], sums[kept]
    order = np.lexsort((target, source))
    mass = sums[order, 0]
    return Flows(
        source=source[order].astype(np.int64),
        target=target[order].astype(np.int64),
        mass=mass,
        displacement=sums[order, 1 : n_axes + 1] / mass[:, None],
        distance=sums[order, n_axes + 1] / mass,
        left=weights.left,
        arrived=weights.arrived,
        applications=applications,
    )
