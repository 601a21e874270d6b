"""Error bars: a pair and its result come in, how far its numbers may be off for uncertain outlines goes out.

Error bars need two digits, not six, so the jittered pairs are compared on a coarser grid, where a dozen of them cost about as much as
one or two comparisons on the full one. Differences between comparisons on the same grid count; what the grid does cancels.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import reduce

import numpy as np

from pairframe.errors import ConfigError
from pairframe.frame import BoxYX, GridTransform, tight_box
from pairframe.frame.crop import tight_boxes_of
from pairframe.masks.rim import UncertainRim
from pairframe.pipeline.frame import WorkPair, frame_pair
from pairframe.pipeline.intervals import Draws, interval, remainder, share_interval
from pairframe.pipeline.maps import PairMaps, read_maps
from pairframe.pipeline.read import DensityPair
from pairframe.pipeline.solve import PairSolution, solve_pair
from pairframe.results.error_bars import QUANTITIES, ErrorBars
from pairframe.results.result import TransportResult
from pairframe.types import Float

N_PAIRS = 8  # random errors, each with its opposite
COARSEST = 4  # work pixels along the side of a pixel of the coarser grid
COARSE, LEAST_DEPTH = 2, 3.0  # usual; the coarsest where masks are still as deep as this, in its pixels
TOL = 1e-4
CORRELATION_RIMS = 10.0  # the default correlation length, in rims
_MARGIN_RIMS = 5.0
NET_GROWTH, NET_LOSS = "net_growth", "net_loss"  # percent of the target, and of the source; negative if it is the other
_NUMBERS = (*QUANTITIES, NET_GROWTH, NET_LOSS)


def error_bars(densities: DensityPair, work: WorkPair, result: TransportResult) -> ErrorBars:
    """Error bars of a solved pair.

    Parameters
    ----------
    densities : DensityPair
        Source and target as they were compared, aligned if they were: the pose is taken as known.
    work : WorkPair
        The same on the work grid.
    """
    px_um = work.transform.units.px_size
    config = work.config
    rim_um = px_um if config.rim_um is None else config.rim_um
    correlation_um = CORRELATION_RIMS * rim_um if config.rim_correlation_um is None else config.rim_correlation_um
    cropped = _cropped(densities, work, math.ceil(_MARGIN_RIMS * rim_um / px_um) + 1)
    rims = [
        UncertainRim.of(density, rim_um / px_um, correlation_um / px_um) for density in (cropped.source, cropped.target)
    ]
    depths_um = [float(min(rim.depth_px.max(), max(rim.depth_px.shape))) * px_um for rim in rims]
    _check_rim(rim_um, depths_um, work)
    coarser = _coarsening(min(depths_um) / work.transform.work_px_size_um)
    jittered = _Jittered(cropped, work, coarser, rims)
    base = jittered.base()
    rng = np.random.default_rng(config.seed)
    pairs = []
    for _ in range(N_PAIRS):
        shifts = [rim.shift_px(rng) for rim in rims]
        pairs.append([jittered.at(shifts[0], shifts[1]), jittered.at(-shifts[0], -shifts[1])])
    drawn = np.array(pairs)  # (n, 2, numbers)
    found = {
        name: Draws(float(value), float(base[place]), drawn[:, :, place])
        for place, (name, value) in enumerate(zip(_NUMBERS, numbers_of(result), strict=True))
    }
    destroyed = share_interval(found["percent_destroyed"], found[NET_LOSS])
    return ErrorBars(
        percent_created=share_interval(found["percent_created"], found[NET_GROWTH]),
        percent_destroyed=destroyed,
        percent_moved=remainder(destroyed, found["percent_moved"].value),
        mean_displacement_um=interval("mean_displacement_um", found["mean_displacement_um"]),
        divergence=interval("divergence", found["divergence"]),
        rim_um=rim_um,
        correlation_um=correlation_um,
        n_draws=2 * N_PAIRS,
    )


def _check_rim(rim_um: float, depths_um: list[float], work: WorkPair) -> None:
    unit = work.config.units.length
    for name, depth_um in zip(("source", "target"), depths_um, strict=True):
        if rim_um >= depth_um:
            raise ConfigError(
                f"rim_um below {depth_um:.4g} {unit}, half the thickness of the {name}",
                f"{rim_um:.4g} {unit}",
                "give the uncertainty of the outline, usually about one pixel",
                "rim_um",
            )


def _coarsening(depth_work_px: float) -> int:
    """How much coarser than the work grid, for masks as deep as this."""
    return COARSEST if depth_work_px >= LEAST_DEPTH * COARSEST else COARSE


def _cropped(densities: DensityPair, work: WorkPair, margin_px: int) -> DensityPair:
    """The densities on a canvas that is just large enough for every position of the rims."""
    shape = densities.source.shape
    if any(work.transform.clipped_share_ab):
        inside = np.zeros(shape)
        inside[work.transform.pair_crop_box_yx.clamp(shape).slices] = 1.0
        densities = replace(densities, source=densities.source * inside, target=densities.target * inside)
    box = tight_box((densities.source > 0) | (densities.target > 0))
    assert box is not None  # both have mass
    place = tuple(
        slice(max(0, part.start - margin_px), min(part.stop + margin_px, side))
        for part, side in zip(box.slices, shape, strict=True)
    )
    return replace(densities, source=densities.source[place], target=densities.target[place], notices=(), pose=None)


class _Jittered:
    """Comparisons of a pair with moved rims, each started from that of the pair as given."""

    def __init__(self, densities: DensityPair, work: WorkPair, coarser: int, rims: list[UncertainRim]) -> None:
        factor = work.transform.downsample_factor * coarser
        height, width = densities.source.shape
        blur_um = work.scales.length_um_from_cost_work(
            work.scales.epsilon_work(work.config.epsilon, work.config.blur_um)
        )
        self._config = replace(
            work.config,
            epsilon=None,
            blur_um=max(blur_um, work.transform.units.px_size * factor),
            tol=max(TOL, work.config.tol),
            error_bars=False,
            rim_um=None,
            rim_correlation_um=None,
            debug=False,
        )
        self._transform = GridTransform.from_densities(
            densities.source,
            densities.target,
            tight_boxes_of(densities.source, densities.target),
            factor,
            0,
            "fixed",
            BoxYX(0, height, 0, width),
            None,
            "next_larger",
            work.config.px_size_um,
            False,
        )
        self._densities, self._rims = densities, rims
        self._cost_um = work.scales.cost_um_from_cost_work(1.0)
        self._solved: PairSolution | None = None

    def base(self) -> Float:
        """The numbers of the pair as given, on this grid."""
        return self._numbers(self._densities.source, self._densities.target)

    def at(self, shift_source_px: Float, shift_target_px: Float) -> Float:
        """The numbers with both rims moved outward by (H, W) pixels."""
        return self._numbers(self._rims[0].moved(shift_source_px), self._rims[1].moved(shift_target_px))

    def _numbers(self, source: Float, target: Float) -> Float:
        if not (source.any() and target.any()):
            return np.full(len(_NUMBERS), np.nan)
        work = frame_pair(replace(self._densities, source=source, target=target, config=self._config), self._transform)
        before = self._solved
        if before is None or before.samples is not None:
            solved = solve_pair(work, None)
        else:
            solved = solve_pair(work, before.potentials, self_starts=before.self_starts)
        self._solved = self._solved or solved
        return _numbers_of(work, read_maps(work, solved), self._cost_um)


def numbers_of(result: TransportResult) -> Float:
    """`QUANTITIES` of a result, net growth and net loss."""
    return np.array(
        [
            100 * result.total_mass_created / result.M_target,
            100 * result.total_mass_destroyed / result.M_source,
            100 * result.total_mass_moved / result.M_source,
            result.mean_displacement_um,
            result.divergence,
            100 * (1 - result.M_source / result.M_target),
            100 * (1 - result.M_target / result.M_source),
        ]
    )


def _numbers_of(work: WorkPair, maps: PairMaps, cost_um: float) -> Float:
    """The same of a pair on a coarser grid; `cost_um` is the unit of the divergence, um^2 (``euclidean``: um)."""
    part, valid = maps.part, maps.velocity_valid
    totals = float(work.mass_source.sum()), float(work.mass_target.sum())
    left = part.left[valid]
    length_px = reduce(np.hypot, maps.velocity[valid].T) if left.size else np.zeros(0)
    mean_px = float(left @ length_px / left.sum()) if left.sum() > 0 else math.nan
    return np.array(
        [
            100 * float(part.created.sum()) / totals[1],
            100 * float(part.destroyed.sum()) / totals[0],
            100 * part.transported / totals[0],
            mean_px * work.transform.work_px_size_um,
            work.scales.cost_um_from_cost_work(maps.divergence.value) / cost_um,
            100 * (1 - totals[0] / totals[1]),
            100 * (1 - totals[1] / totals[0]),
        ]
    )
