"""`compare`: read (and align), frame, solve, read the maps, build the result."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial

from pairframe.engines import Progress, Status
from pairframe.errors import ArgumentError, ConfigError, FrameError, SolveFailedError
from pairframe.frame import GridTransform, golden
from pairframe.notices import MemoryShortage
from pairframe.parallel.memory import return_freed_memory
from pairframe.pipeline.error_bars import error_bars
from pairframe.pipeline.frame import frame_pair
from pairframe.pipeline.maps import check_blur_of_strain, empty_maps, read_maps
from pairframe.pipeline.memory import memory_notice
from pairframe.pipeline.memory_rule import LARGE_PIXELS
from pairframe.pipeline.moved_mass import with_moved_mass
from pairframe.pipeline.plausibility import check_plausibility
from pairframe.pipeline.read import DensityPair, MaskLike, read_pair
from pairframe.pipeline.replicates import compare_replicates, is_replicated, read_replicates
from pairframe.pipeline.result import build_empty_result, build_result
from pairframe.pipeline.solve import solve_pair
from pairframe.pipeline.start import carried_potentials, is_on_another_canvas
from pairframe.problem import TransportConfig
from pairframe.results import TransportResult


def compare(
    mask_a: MaskLike | Sequence[MaskLike],
    mask_b: MaskLike | Sequence[MaskLike],
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
        Source and target on one canvas; paths as in `read_mask`. Grey values need ``mass_mode="intensity"``. With
        ``align`` in the config canvases and pixel sizes may differ, and maps are on the canvas of the source. A list holds
        several segmentations of the same objects: the first is compared, and all of them give its `error_bars`.
    config : TransportConfig, optional
        Its `px_size_um` wins over that of the masks. If no pixel size is known, lengths are in pixels.
    init : TransportResult, optional
        A similar comparison on the same canvas to start from; crops and downsample factors may differ. Alignment may extend
        the canvas of a pair, and `init` is then not used.
    transform : GridTransform, optional
        A frame for controlled comparisons, used instead of the crop fields of `config`.
    raise_on : statuses
        Statuses that raise `SolveFailedError`, such as ``raise_on=("max_iterations", "impossible")``.
    progress : callable (TraceRecord), optional
        Called now and then during the solve of the pair.
    """
    config, statuses = checked_config(config), _checked_statuses(raise_on)
    if transform is not None and not isinstance(transform, GridTransform):
        raise FrameError("a GridTransform", type(transform).__name__, "make one with GridTransform.from_pair")
    if is_replicated(mask_a) or is_replicated(mask_b):
        sources, targets = (
            read_replicates(masks if is_replicated(masks) else [masks], side, config)  # type: ignore[arg-type, list-item]
            for masks, side in ((mask_a, "source"), (mask_b, "target"))
        )
        one = partial(compare, init=init, transform=transform, raise_on=raise_on, progress=progress)
        return compare_replicates(sources, targets, config, one)
    densities: DensityPair | None = read_pair(mask_a, mask_b, config, transform)  # type: ignore[arg-type]
    work = frame_pair(densities, transform)  # type: ignore[arg-type]
    if not config.error_bars:
        densities = None  # two images less in memory while the pair is solved
    check_blur_of_strain(work)
    shortage = memory_notice(work)
    if shortage is not None:  # now, because there may be no result to read it from
        warnings.warn(str(shortage), MemoryShortage, stacklevel=2)
        work = replace(work, notices=(*work.notices, shortage))
    start = None
    if init is not None and not (config.align != "none" and is_on_another_canvas(init, work.transform)):
        start = carried_potentials(init, work.transform, config.metric, work.mass_source)
    work, start = with_moved_mass(work, start)
    if work.is_empty:
        result = build_empty_result(work, empty_maps(work))
    else:
        solved = solve_pair(work, start, progress)
        result = build_result(work, solved, read_maps(work, solved))
        del solved
        if work.mass_source.size > LARGE_PIXELS:
            return_freed_memory()
        result = replace(result, notices=(*result.notices, *check_plausibility(result)))
        if densities is not None and result.has_answer:
            result = replace(result, error_bars=error_bars(densities, work, result))
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
    """Compute only the divergence of a pair, in mass times work px^2.

    It is NaN if one mask is empty. See `pairframe.maps.Divergence`.
    """
    config = checked_config(config)
    work, _ = with_moved_mass(frame_pair(read_pair(mask_a, mask_b, config, None), None), None)
    return math.nan if work.is_empty else solve_pair(work, None).divergence.value


def checked_config(config: TransportConfig | None) -> TransportConfig:
    """The config, or the default one for None."""
    if config is None:
        return TransportConfig()
    if not isinstance(config, TransportConfig):
        raise ConfigError("a TransportConfig", type(config).__name__, "pass TransportConfig(blur_um=2.0, ...)")
    return config


def _checked_statuses(raise_on: Collection[Status | str]) -> frozenset[Status]:
    names = [raise_on] if isinstance(raise_on, str) else raise_on
    try:
        return frozenset(Status(name) for name in names)
    except (TypeError, ValueError):
        raise ArgumentError(
            f"raise_on to hold statuses: {', '.join(Status)}", repr(raise_on), 'e.g. raise_on=("max_iterations",)'
        ) from None
