"""Check the memory of a comparison: one that does not fit is announced (images) or refused (volumes)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pairframe.errors import FrameError
from pairframe.frame import tight_box
from pairframe.frame.crop import union_box
from pairframe.masks import Mask
from pairframe.notices import Notice, warning
from pairframe.parallel.memory import available_bytes
from pairframe.pipeline.memory_rule import BYTES_PER_CANVAS_PX, comparison_bytes, factor_that_fits
from pairframe.problem import TransportConfig

LARGE_SHARE = 0.5  # of the free memory: a larger comparison of volumes is announced
NEGLIGIBLE_BYTES = 1 << 18  # to ask the system how much is free takes longer than a comparison so small is worth
_OTHERWISE = "crop the {masks}, or use a machine with more memory"


def check_canvas_memory(canvas_shape: tuple[int, ...] | None, config: TransportConfig) -> None:
    """Refuse a volume whose canvas alone does not fit, before it is read; (Z, Y, X), None for an image."""
    if canvas_shape is None or config.backend != "grid":
        return
    needed, available = BYTES_PER_CANVAS_PX * math.prod(canvas_shape), available_bytes()
    if needed > available:
        raise _too_large(canvas_shape, needed, available, _OTHERWISE.format(masks="volumes"))


def check_masks_memory(masks: Sequence[Mask], config: TransportConfig) -> None:
    """Refuse volumes that do not fit, from their sizes and voxels with mass, before anything is made of them."""
    shape = masks[0].values.shape
    if not config.volume or config.backend != "grid" or any(mask.values.shape != shape for mask in masks):
        return
    boxes = (tight_box(masks[0].values), tight_box(masks[1].values))
    if boxes == (None, None):
        return
    factor = config.downsample_factor
    box = union_box(boxes, config.pad, shape, masks[0].units.spacing)
    work_px = math.prod(-(-side // factor) for side in box.shape)
    # No more than that: a work voxel holds several voxels. `memory_notice` counts again.
    n_with_mass = sum(int(np.count_nonzero(mask.values)) for mask in masks) // factor ** len(shape)
    checked_memory(shape, work_px, n_with_mass, factor)


def checked_memory(canvas_shape: tuple[int, ...], work_px: int, n_with_mass: int, factor: int) -> Notice | None:
    """A notice about a comparison of these sizes; an error if it is one of volumes and does not fit. See `comparison_bytes`."""
    canvas_px = math.prod(canvas_shape)
    is_volume = len(canvas_shape) == 3
    needed = comparison_bytes(canvas_px, work_px, n_with_mass)
    if needed <= NEGLIGIBLE_BYTES:
        return None
    available = available_bytes()
    if needed <= (LARGE_SHARE if is_volume else 1.0) * available:
        return None
    fix = _OTHERWISE.format(masks="volumes" if is_volume else "images")
    fits = factor_that_fits(canvas_px, work_px, n_with_mass, len(canvas_shape), factor, available)
    if fits is not None:
        fix = f"use downsample_factor={fits}, or {fix}"
    if is_volume and needed > available:
        raise _too_large(canvas_shape, needed, available, fix, n_with_mass)
    about = f" for a canvas of {_sides(canvas_shape)} voxels" if is_volume else ""
    but = f"and {_gigabytes(available)} are free" if is_volume else f"but only {_gigabytes(available)} are free"
    message = f"the comparison needs about {_gigabytes(needed)} of memory{about}, {but}"
    return warning("memory", message, fix)


def _too_large(
    canvas_shape: tuple[int, ...], needed: int, available: int, fix: str, n_with_mass: int | None = None
) -> FrameError:
    filled = "" if n_with_mass is None else f", {n_with_mass} of them with mass"
    return FrameError(
        "volumes whose comparison fits into memory",
        f"about {_gigabytes(needed)} for a canvas of {_sides(canvas_shape)} voxels{filled}, but only {_gigabytes(available)} are free",
        fix,
    )


def _sides(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def _gigabytes(size_bytes: float) -> str:
    return f"{size_bytes / 1e9:.3g} GB"
