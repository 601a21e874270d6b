"""`compare`: read, frame, state, solve, mean, keep, in this order and nothing else. `compare_many` repeats it."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairframe.engines import Progress, SolveOptions, Start, Status, get_engine
from pairframe.engines.sampling import Sample, sample_support
from pairframe.engines.threads import n_cores
from pairframe.errors import (
    ConfigError,
    PairsError,
    RaiseOnError,
    SolveFailedError,
    TransformError,
    UnsupportedProblemError,
)
from pairframe.frame import GridTransform, golden
from pairframe.frame.crop import check_pair, shares_outside
from pairframe.frame.pixel_size import UNKNOWN_UM, shared_pixel_size
from pairframe.maps import (
    PlanOperator,
    SolvedPair,
    displacement,
    divergence_of,
    feasible_part,
    solve_pair,
    spread_part,
)
from pairframe.masks import Mask, mass_density, read_mask
from pairframe.problem import TransportConfig, TransportProblem, state_problem
from pairframe.problem.config import NO_PX_SIZE
from pairframe.results import TransportResult
from pairframe.results.build import Context, build_empty_result, build_result, plan_terms, resolution_notices
from pairframe.results.carry import carried_potentials
from pairframe.results.side_by_side import in_order

Float = NDArray[np.float64]
MaskLike = Mask | ArrayLike | os.PathLike[str]
Pair = tuple[MaskLike, MaskLike]


def compare(
    mask_a: MaskLike,
    mask_b: MaskLike,
    config: TransportConfig | None = None,
    *,
    init: TransportResult | None = None,
    transform: GridTransform | None = None,
    raise_on: Collection[Status | str] = (),
    progress: Progress | None = None,
) -> TransportResult:
    """Compare a source and a target mask.

    Parameters
    ----------
    mask_a, mask_b : Mask, (H, W) array or path
        Source and target on one canvas; paths as in `read_mask`. Grey values need ``mass_mode="intensity"``.
    config : TransportConfig, optional
        Its `px_size_um` wins over what the masks say. When nobody says it, lengths are in pixels.
    init : TransportResult, optional
        A similar comparison on the same canvas to start from; crops and downsample factors may differ.
    transform : GridTransform, optional
        A frame to use instead of the pair's own, for controlled comparisons; the crop fields of `config` are not read.
    raise_on : statuses
        These end in `SolveFailedError` instead of a result: ``raise_on=("max_iterations", "impossible")``.
    progress : callable (TraceRecord), optional
        Told how far the solve of the pair is, now and then.
    """
    config, statuses = _checked_config(config), _checked_statuses(raise_on)
    if transform is not None and not isinstance(transform, GridTransform):
        raise TransformError("a GridTransform", type(transform).__name__, "make one with GridTransform.from_pair")
    context = _frame(_read(mask_a, mask_b, config, transform), transform)
    start = None
    if init is not None:
        start = carried_potentials(init, context.transform, config.metric, context.mass_work_a)
    if context.is_empty:
        result = build_empty_result(context)
    else:
        result = _mean(_state_and_solve(context, start, progress), context)
    if golden.is_debug(config.debug):
        result.check_books()
    if result.status in statuses:
        raise SolveFailedError(
            f"a status other than {', '.join(sorted(statuses))}",
            f"{result.status} after {result.iterations} iterations, relative gap {result.relative_gap:.2g}, "
            f"marginal error {result.marginal_error:.2g}",
            result.status.advice,
        )
    return result


def divergence(mask_a: MaskLike, mask_b: MaskLike, config: TransportConfig | None = None) -> float:
    """The divergence alone, mass times work px^2; NaN when one mask is empty. See `pairframe.maps.Divergence`."""
    config = _checked_config(config)
    context = _frame(_read(mask_a, mask_b, config, None), None)
    if context.is_empty:
        return math.nan
    solved = _state_and_solve(context, None)
    return divergence_of(solved.pair).value * solved.mass_scale


# --- READ ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _ReadPair:
    """Densities, (Hc, Wc) mass per canonical pixel, and the config with the pixel size that holds for them."""

    density_a: Float
    density_b: Float
    config: TransportConfig
    notices: tuple[str, ...]


def _read(mask_a: MaskLike, mask_b: MaskLike, config: TransportConfig, transform: GridTransform | None) -> _ReadPair:
    masks = [_as_mask(mask, config) for mask in (mask_a, mask_b)]
    px_size_um, notices = _pixel_size(masks, config, transform)
    masks = [replace(mask, px_size_um=float(px_size_um)) for mask in masks]
    density_a, density_b = (mass_density(mask, config.mass_mode) for mask in masks)
    return _ReadPair(density_a, density_b, replace(config, px_size_um=px_size_um), notices)


def _pixel_size(
    masks: list[Mask], config: TransportConfig, transform: GridTransform | None
) -> tuple[float, tuple[str, ...]]:
    """The side of a pixel in um, `NO_PX_SIZE` when nobody says it, and what to tell about it."""
    from_masks = [mask.px_size_um for mask in masks]
    transform_um = None if transform is None else transform.px_size_um
    config_um = None if config.lengths_in_px else config.px_size_um
    px_size_um, notices = shared_pixel_size(from_masks[0], from_masks[1], config_um, transform_um)
    nobody_says = config.lengths_in_px and not any(from_masks) and px_size_um == UNKNOWN_UM
    return (NO_PX_SIZE if nobody_says else px_size_um), notices


def _as_mask(mask: MaskLike, config: TransportConfig) -> Mask:
    if isinstance(mask, Mask):
        return mask
    is_density = config.mass_mode == "intensity"
    if isinstance(mask, str | os.PathLike):
        return read_mask(mask, density=is_density)
    return Mask.from_array(mask, density=is_density)


# --- FRAME -----------------------------------------------------------------------------------


def frame_of(density_a: NDArray[Any], density_b: NDArray[Any], config: TransportConfig) -> GridTransform:
    """The frame of two densities, (Hc, Wc) each, as the config asks for it."""
    return GridTransform.from_pair(
        density_a,
        density_b,
        config.downsample_factor,
        config.pad,
        crop_policy=cast("Any", config.crop_policy),
        override_pair_bbox=config.override_pair_bbox,
        bucket_shapes=config.bucket_shapes,
        bucket_mode=cast("Any", config.bucket_mode),
        px_size_um=config.px_size_um,
        allow_clipping=config.allow_clipping,
    )


def _frame(pair: _ReadPair, transform: GridTransform | None) -> Context:
    config = pair.config
    a, b, boxes = check_pair(pair.density_a, pair.density_b)
    if transform is None:
        transform = frame_of(a, b, config)
    else:
        transform.to_work(a)  # refuses another canvas before anything else is said about it
        clipped = shares_outside(a, b, boxes, transform.pair_crop_box_yx, config.allow_clipping)
        transform = replace(transform, clipped_share_ab=clipped)
    if golden.is_debug(config.debug):
        golden.check_containment(transform, boxes)
    mass_work = [transform.to_work(density, debug=config.debug) for density in (a, b)]
    crop = transform.pair_crop_box_yx.slices
    areas = [np.count_nonzero(density[crop]) * transform.px_area_um2 for density in (a, b)]
    notices = pair.notices
    if any(transform.clipped_share_ab):
        lost = " and ".join(f"{share:.3g}" for share in transform.clipped_share_ab)
        notices = (*notices, f"the frame cuts away shares of the masses: {lost}")
    context = Context(
        config=config,
        transform=transform,
        mass_work_a=mass_work[0],
        mass_work_b=mass_work[1],
        areas_um2=(areas[0], areas[1]),
        on_source=pair.density_a > 0,
        notices=notices,
    )
    return context.with_notices(*resolution_notices(context, boxes))


# --- STATE and SOLVE -------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Solved:
    """A solved pair and what leads from it back to the masses (Hw, Ww) of the frame.

    `samples` stand for the masses where an engine asked for fewer points; without them, `masses` are the frame's own.
    """

    pair: SolvedPair
    masses: tuple[Float, Float]
    mass_scale: float
    samples: tuple[Sample, Sample] | None


def _state_and_solve(context: Context, start: Start | None, progress: Progress | None = None) -> _Solved:
    config, masses = context.config, (context.mass_work_a, context.mass_work_b)
    samples = _samples(context)
    if samples is not None:
        masses = (samples[0].mass, samples[1].mass)
    problem, mass_scale = state_problem(*masses, config, context.transform)
    options = SolveOptions(config.tol, config.max_iterations, config.dtype, config.device)
    _check_device(problem, config.backend, options)
    return _Solved(solve_pair(problem, masses, config.backend, options, start, progress), masses, mass_scale, samples)


def _check_device(problem: TransportProblem, backend: str, options: SolveOptions) -> None:
    """A device that is not there is told as such: neither the engine nor the problem is at fault."""
    if options.device is None:
        return
    engine = get_engine(backend)
    reason = engine.supports(problem, options)
    if reason is not None and engine.supports(problem, replace(options, device=None)) is None:
        raise UnsupportedProblemError(
            f"a device that the engine {backend!r} can use here",
            reason,
            f"leave out device={options.device!r}, or choose one that `pairframe doctor` lists for this engine",
        )


def _samples(context: Context) -> tuple[Sample, Sample] | None:
    config = context.config
    if config.max_support_points is None:
        return None
    if not get_engine(config.backend).needs_points:
        raise UnsupportedProblemError(
            "no max_support_points with an engine that uses every pixel",
            f"max_support_points={config.max_support_points} with backend {config.backend!r}",
            "leave it out, or raise downsample_factor for a coarser problem",
        )
    a, b = (
        sample_support(mass, config.max_support_points, config.seed)
        for mass in (context.mass_work_a, context.mass_work_b)
    )
    return None if a.is_whole and b.is_whole else (a, b)


# --- MEAN and KEEP ---------------------------------------------------------------------------


def _mean(solved: _Solved, context: Context) -> TransportResult:
    pair = solved.pair
    problem, config = pair.solution.problem, context.config
    plan = PlanOperator.of(pair.solution)
    part = feasible_part(plan).in_units_of(*solved.masses, solved.mass_scale)
    noise_floors = (pair.self_a.noise_floor, pair.self_b.noise_floor)
    self_shift: Float | None = None
    if problem.is_symmetric:
        # The pair is its own self-problem: take it from the same numbers, and nothing moves, exactly.
        self_shift = part.shift_yx
        noise_floors = (part.destroyed_share, part.destroyed_share)
    elif config.debias:
        self_shift = np.full(part.shift_yx.shape, np.nan)
        self_shift[problem.support_a] = pair.self_a.shift_yx
    velocity, valid = displacement(part, self_shift if config.debias else None)
    if solved.samples is not None:
        a, b = solved.samples
        part = spread_part(part, a, b, context.mass_work_a, context.mass_work_b)
        velocity, valid = a.spread(velocity), a.spread(valid)
        context = context.with_notices(
            f"sampled with seed {config.seed}: {a.n_after} points stand for {a.n_before} source pixels, "
            f"{b.n_after} for {b.n_before} target pixels"
        )
    for name, own in (("source", pair.self_a), ("target", pair.self_b)):
        if own.solution.status != Status.converged:
            status = own.solution.status
            context = context.with_notices(f"the {name} against itself ended with {status}: {status.advice}")
    return build_result(
        context,
        pair.solution,
        solved.mass_scale,
        plan_terms(plan),
        part,
        (velocity, valid),
        divergence_of(pair),
        noise_floors,
    )


# --- many ------------------------------------------------------------------------------------


def compare_many(
    pairs: Iterable[Pair],
    config: TransportConfig | None = None,
    *,
    jobs: int | None = None,
    on_result: Callable[[int, TransportResult], None] | None = None,
) -> list[TransportResult]:
    """Compare many pairs: the answers of `compare`, in order.

    Parameters
    ----------
    pairs : iterable of (mask_a, mask_b)
        As for `compare`. A mask that is in several neighbouring pairs is solved against itself once.
    jobs : int, optional
        Processes, this one included, each with one thread; None means one per core, 1 starts none. The others import the
        main module: a script needs ``if __name__ == "__main__":`` around its calls.
    on_result : callable (index, result), optional
        Called in order, as soon as a result and all before it are there.

    Notes
    -----
    The first pair that fails raises its error, with the pair's number in a note; what comes after it is given up.
    """
    results = []
    for index, result in enumerate(iter_results(pairs, config, jobs=jobs)):
        if on_result is not None:
            on_result(index, result)
        results.append(result)
    return results


def iter_results(
    pairs: Iterable[Pair], config: TransportConfig | None = None, *, jobs: int | None = None
) -> Iterator[TransportResult]:
    """The results of `compare_many` one by one, in order; only a few are held at a time."""
    config, jobs = _checked_config(config), _checked_jobs(jobs)
    if not isinstance(pairs, Iterable):
        raise PairsError("pairs (mask_a, mask_b) to go through", type(pairs).__name__, "give a list of pairs")
    listed = len(pairs) if hasattr(pairs, "__len__") else None  # type: ignore[arg-type]
    if jobs == 1 or listed in (0, 1):
        for index, pair in enumerate(pairs):
            yield _compare_numbered(index, pair, config)
        return
    yield from in_order(partial(_compare_chunk, config=config), enumerate(pairs), listed, jobs)


def _compare_numbered(index: int, pair: Pair, config: TransportConfig) -> TransportResult:
    try:
        mask_a, mask_b = pair
    except (TypeError, ValueError):
        raise PairsError(
            "every pair to be (mask_a, mask_b)", f"{type(pair).__name__} as number {index}", "give a list of pairs"
        ) from None
    try:
        return compare(mask_a, mask_b, config)
    except Exception as error:  # whatever it is, it is told which pair it came from
        error.add_note(f"in pair number {index}")
        raise


def _compare_chunk(chunk: list[tuple[int, Pair]], config: TransportConfig) -> list[TransportResult]:
    return [_compare_numbered(index, pair, config) for index, pair in chunk]


# --- checks ----------------------------------------------------------------------------------


def _checked_config(config: TransportConfig | None) -> TransportConfig:
    if config is None:
        return TransportConfig()
    if not isinstance(config, TransportConfig):
        raise ConfigError("a TransportConfig", type(config).__name__, "write TransportConfig(blur_um=2.0, ...)")
    return config


def _checked_statuses(raise_on: Collection[Status | str]) -> frozenset[Status]:
    names = [raise_on] if isinstance(raise_on, str) else raise_on
    try:
        return frozenset(Status(name) for name in names)
    except (TypeError, ValueError):
        raise RaiseOnError(
            f"raise_on to hold statuses: {', '.join(Status)}", repr(raise_on), 'e.g. raise_on=("max_iterations",)'
        ) from None


def _checked_jobs(jobs: int | None) -> int:
    if jobs is None:
        return n_cores()
    if isinstance(jobs, bool) or not isinstance(jobs, int | np.integer) or jobs < 1:
        raise PairsError("jobs to be an integer >= 1, or None for all cores", repr(jobs), "e.g. jobs=2")
    return int(jobs)
