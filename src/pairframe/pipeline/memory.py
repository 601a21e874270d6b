"""Memory: a frame comes in, a warning goes out if its comparison needs more memory than there is."""

from __future__ import annotations

import math

import numpy as np

from pairframe.notices import Notice, warning
from pairframe.parallel.memory import available_bytes
from pairframe.pipeline.frame import WorkPair
from pairframe.pipeline.volume_memory import check_volume_memory

# Measured at a downsample factor of 1 (docs/scaling.md): 250 bytes per pixel, of which the maps on the canvas take about 70.
BYTES_PER_CANVAS_PX, BYTES_PER_WORK_PX = 70, 180


def memory_notice(work: WorkPair) -> Notice | None:
    """A warning with a downsample factor that fits; None if there is enough memory, or if the engine checks by itself.

    A volume that does not fit is refused.
    """
    transform = work.transform
    if work.config.backend != "grid":
        return None
    if transform.is_volume:
        n_with_mass = sum(int(np.count_nonzero(mass)) for mass in (work.mass_source, work.mass_target))
        return check_volume_memory(
            transform.canon_shape_hw, transform.work_shape_hw, n_with_mass, transform.downsample_factor
        )
    available = available_bytes()
    canvas = BYTES_PER_CANVAS_PX * math.prod(transform.canon_shape_hw)
    solve = BYTES_PER_WORK_PX * math.prod(transform.work_shape_hw)
    if canvas + solve <= available:
        return None
    room = available - canvas
    factor = transform.downsample_factor
    fix = "crop the images, or use a machine with more memory"
    if room > 0:
        fix = f"use downsample_factor={math.ceil(factor * math.sqrt(solve / room))}, or {fix}"
    message = (
        f"the comparison needs about {_gigabytes(canvas + solve)} of memory, but only {_gigabytes(available)} are free"
    )
    return warning("memory", message, fix)


def _gigabytes(size_bytes: float) -> str:
    return f"{size_bytes / 1e9:.3g} GB"
