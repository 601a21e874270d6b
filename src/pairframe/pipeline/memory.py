"""Memory: a frame comes in, a warning goes out if its comparison needs more memory than there is."""

from __future__ import annotations

import math

import numpy as np

from pairframe.notices import Notice
from pairframe.pipeline.frame import WorkPair
from pairframe.pipeline.memory_check import checked_memory


def memory_notice(work: WorkPair) -> Notice | None:
    """A warning with a downsample factor that fits; None if there is enough memory, or if the engine checks by itself.

    A volume that does not fit is refused.
    """
    transform = work.transform
    if work.config.backend != "grid":
        return None
    n_with_mass = sum(int(np.count_nonzero(mass)) for mass in (work.mass_source, work.mass_target))
    return checked_memory(
        transform.canon_shape_hw, math.prod(transform.work_shape_hw), n_with_mass, transform.downsample_factor
    )
