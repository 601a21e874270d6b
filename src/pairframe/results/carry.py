"""A previous result as a start for the next solve."""

from __future__ import annotations

import numpy as np

from pairframe.engines import Start
from pairframe.errors import WarmStartError
from pairframe.frame import GridTransform
from pairframe.maps import carry_to_grid
from pairframe.results.result import TransportResult


def carried_potentials(result: TransportResult, transform: GridTransform, metric: str) -> Start | None:
    """The potentials of `result` on the work grid of `transform`.

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
    ratio = (old.downsample_factor / transform.downsample_factor) ** result.scales.power
    potentials = (result.work.potential_source, result.work.potential_target)
    source, target = (carry_to_grid(potential, old, transform) * ratio for potential in potentials)
    return (source, target) if np.isfinite(source).any() and np.isfinite(target).any() else None
