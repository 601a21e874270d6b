"""A previous result as a start for the next solve."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pairframe.engines import Start
from pairframe.errors import WarmStartError
from pairframe.frame import GridTransform
from pairframe.maps import carry_to_grid
from pairframe.results.result import TransportResult

Float = NDArray[np.float64]


def carried_potentials(
    result: TransportResult, transform: GridTransform, metric: str, mass_source: Float
) -> Start | None:
    """The potentials of `result` on the work grid of `transform`, for a source of this mass (H, W).

    Where the source is rather what `result` had for its target, as in a series, its potential starts from the negative of that
    target's: the two potentials of a plan sum to the cost of what moves, which is small beside either.

    Returns
    -------
    (H, W) each, in the work cost units of `transform`, NaN where they are not known; None when nothing is.
    """
    if not isinstance(result, TransportResult):
        raise WarmStartError("init to be a TransportResult", type(result).__name__, "give what compare returned")
    old = result.transform
    if old.canon_shape_hw != transform.canon_shape_hw or result.config.metric != metric:
        raise WarmStartError(
            f"a previous result with the metric {metric} on a {transform.canon_shape_hw} canvas",
            f"{result.config.metric} on {old.canon_shape_hw}",
            "start from a result of the same series, or leave init out",
        )
    # A potential is a cost: a length in pixels to some power, and work pixels may have another size now.
    coarser = old.downsample_factor / transform.downsample_factor
    ratio = coarser**result.scales.power
    work = result.work
    on_grid = carry_to_grid(
        old, transform, work.potential_source, work.potential_target, work.mass_source, work.mass_target
    )
    source, target = (potential * ratio for potential in on_grid[:2])
    # What lies off the old grid adds the same to both.
    before, after = (float(np.nansum(np.abs(mass / coarser**2 - mass_source))) for mass in on_grid[2:])
    if after < before and metric == "sqeuclidean":  # measured: of a distance, the source's own is the better start
        source = -target
    return (source, target) if np.isfinite(source).any() and np.isfinite(target).any() else None
