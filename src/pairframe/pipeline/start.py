"""Start: the potentials of a previous result, on the work grid of the next pair."""

from __future__ import annotations

import numpy as np

from pairframe.engines import Start
from pairframe.errors import StartError
from pairframe.frame import GridTransform
from pairframe.maps import carry_to_grid
from pairframe.results.result import TransportResult
from pairframe.types import Float


def is_on_another_canvas(result: TransportResult, transform: GridTransform) -> bool:
    """Whether the maps of a result are on another canvas."""
    return isinstance(result, TransportResult) and result.transform.canon_shape_hw != transform.canon_shape_hw


def carried_potentials(
    result: TransportResult, transform: GridTransform, metric: str, mass_source: Float
) -> Start | None:
    """Carry the potentials of `result` to the work grid of `transform`, for a source of this mass (H, W).

    In a time series the source is usually the target of `result`. Its potential then starts from minus that of the old
    target, because the two potentials of a plan sum to the cost of the mass that moves, which is small compared with
    either.

    Returns
    -------
    (H, W) each, in the work cost units of `transform`, NaN where unknown; None if they are unknown everywhere.
    """
    if not isinstance(result, TransportResult):
        raise StartError("init to be a TransportResult", type(result).__name__, "pass a result of compare")
    old = result.transform
    if old.canon_shape_hw != transform.canon_shape_hw or result.config.metric != metric:
        raise StartError(
            f"a previous result with the metric {metric} on a {transform.canon_shape_hw} canvas",
            f"{result.config.metric} on {old.canon_shape_hw}",
            "pass a result of the same series, or leave init out",
        )
    # Potentials are costs, powers of lengths in work pixels, and the size of a work pixel may differ.
    coarser = old.downsample_factor / transform.downsample_factor
    ratio = coarser**result.scales.power
    work = result.work
    on_grid = carry_to_grid(
        old, transform, work.potential_source, work.potential_target, work.mass_source, work.mass_target
    )
    source, target = (potential * ratio for potential in on_grid[:2])
    # Pixels off the old grid add the same amount to both.
    before, after = (float(np.nansum(np.abs(mass / coarser**transform.n_axes - mass_source))) for mass in on_grid[2:])
    if (
        after < before and metric == "sqeuclidean"
    ):  # for plain distances, the old source was measured to be the better start
        source = -target
    return (source, target) if np.isfinite(source).any() and np.isfinite(target).any() else None
