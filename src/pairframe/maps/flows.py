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

from pairframe.maps.accounting import FeasiblePart, FeasibleWeights, feasible_weights
from pairframe.maps.kernels import make_kernel
from pairframe.maps.plan import PlanOperator
from pairframe.types import Bool, Float, Int

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MISSING = 1e-11  # of the mass of a region: less than this may come from outside its window
NEGLIGIBLE = 1e-12  # of the smaller of two regions: flows below this are rounding errors and tails of the blur
_SPREADS = 7.0  # standard deviations of a pixel's sources that the first window holds

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
    applications : float
        Cost in products, over that of one application of the whole kernel: about how many the flows took.
    """

    source: Int
    target: Int
    mass: Float
    displacement: Float
    distance: Float
    applications: float


def flows_between(
    plan: PlanOperator,
    part: FeasiblePart,
    shares_a: csr_array,
    shares_b: csr_array,
    displacement_px: Float,
    displaced: Displaced | None = None,
) -> Flows:
    """The flows of a plan between regions of its source and regions of its target.

    Parameters
    ----------
    part : FeasiblePart
        Of the same plan.
    shares_a, shares_b : (n, K), (m, L) sparse
        Which share of each pixel's mass belongs to which region; pixels of the supports in row-major order. Rows sum to 1.
    displacement_px : (H, W, 2)
        The displacement of each source pixel, work px: that of `part`, or without its entropic bias. The flows of a pixel
        differ from its mean as those of the plan do.
    displaced : callable (positions (n, 2), displacements (n, 2)) -> displacements (n, 2), optional
        The displacement to report instead, work px; for a target that was moved before.
    """
    weights = feasible_weights(plan)
    windows = _Windows(plan, weights)
    on_a = plan.problem.support_a
    bias = np.nan_to_num(part.displacement[on_a] - displacement_px[on_a])
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
    return _collected(found, part, shares_a, shares_b, on_a, plan.problem.support_b, windows.applications)


class _Windows:
    """The sources of a target region's mass: pixels of the source, mass and mean displacement."""

    def __init__(self, plan: PlanOperator, weights: tuple[FeasibleWeights, FeasibleWeights]) -> None:
        problem = plan.problem
        self._problem, self._weights = problem, weights
        self._on_a = problem.support_a
        self._index_a = np.full(problem.shape, -1, dtype=np.int64)
        self._index_a[problem.support_a] = np.arange(int(problem.support_a.sum()))
        self.positions_a = problem.positions(problem.support_a)
        self._pixels_b = np.argwhere(problem.support_b)
        self._arrived = 0.5 * (weights[0].arrived + weights[1].arrived)
        # Where the sources of each target pixel are, pixels of each axis, and how far they spread.
        spacing = np.array(problem.spacing)
        self._centre = self._pixels_b[None] + np.stack([weight.displacement.T for weight in weights]) / spacing
        spread = [np.sqrt(np.maximum(w.cost - (w.displacement**2).sum(axis=0), 0.0)) for w in weights]
        if problem.metric != "sqeuclidean":
            spread = [weight.cost for weight in weights]
        self._spread = np.maximum(*spread)[:, None] / spacing
        self._digits = 1e-15 * max(float(np.abs(w.log_a[np.isfinite(w.log_a)]).max(initial=0.0)) for w in weights)
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
        wanted = float((self._arrived[pixels] * share).sum())
        if not wanted > 0.0:
            return None
        at, centre = self._pixels_b[pixels], self._centre[:, pixels]
        spread = np.nan_to_num(self._spread[pixels])
        low, high = (
            np.nanmin(centre - _SPREADS * spread, axis=(0, 1)),
            np.nanmax(centre + _SPREADS * spread, axis=(0, 1)),
        )
        shape = np.array(self._problem.shape)
        tolerance = max(MISSING, self._digits)
        margin = 2.0 + np.zeros(len(shape))
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
        for weight in self._weights:
            log_sum, means = kernel.log_sum_and_means(weight.log_b[pixels] + log_share, positions.T)
            with np.errstate(under="ignore"):
                sent = 0.5 * np.exp(np.nan_to_num(weight.log_a[sources] + log_sum, nan=-np.inf))
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
    part: FeasiblePart,
    shares_a: csr_array,
    shares_b: csr_array,
    on_a: Bool,
    on_b: Bool,
    applications: float,
) -> Flows:
    n_axes = on_a.ndim
    source = np.concatenate([one[0] for one in found]) if found else np.empty(0, dtype=np.int64)
    target = np.concatenate([np.full(len(one[0]), one[1]) for one in found]) if found else np.empty(0, dtype=np.int64)
    sums = np.concatenate([one[2] for one in found]) if found else np.empty((0, n_axes + 2))
    mass_a = shares_a.T @ (part.left + part.destroyed)[on_a]
    mass_b = shares_b.T @ (part.arrived + part.created)[on_b]
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
        applications=applications,
    )
