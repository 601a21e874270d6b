"""The golden tests of the pair frame, run on real data when debugging is on.

``PAIRFRAME_DEBUG=1`` in the environment turns them on, and ``debug=True`` in a call of `to_work` or
`rasterize_to_canon`. A `GoldenTestError` is a bug in pairframe, never the input's fault.
"""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pairframe.errors import FrameError, GoldenTestError
from pairframe.frame.box import Box
from pairframe.types import Float

if TYPE_CHECKING:
    from pairframe.frame.transform import GridTransform

Array = NDArray[np.generic]

_OFF = ("", "0", "false", "no", "off")


def is_debug(debug: bool = False) -> bool:
    """Whether golden tests run now."""
    return debug or os.environ.get("PAIRFRAME_DEBUG", "").strip().lower() not in _OFF


def _require(holds: bool, test: str, expected: str, got: str) -> None:
    if not holds:
        raise GoldenTestError(f"[golden test {test}] {expected}", got, "please report this as a bug in pairframe")


def _close(x: float, y: float, size: float) -> bool:
    """Whether two sums agree to 1e-12 of the absolute mass in them; infinite sums never do."""
    return math.isfinite(x) and math.isfinite(y) and abs(x - y) <= max(1e-12 * size, 1e-300)


def check_containment(transform: GridTransform, tight_boxes: tuple[Box | None, ...]) -> None:
    """6.1: the crop contains both tight boxes, unless clipping was allowed and recorded."""
    if any(transform.clipped_share_ab):
        return
    for box in tight_boxes:
        held = box is None or transform.pair_crop_box_yx.contains(box)
        _require(held, "6.1", "the pair crop to contain both objects", f"{transform.pair_crop_box_yx!r} and {box!r}")


def check_pooling(transform: GridTransform, density: Array, mass_work: Float) -> None:
    """6.2: pooling keeps the mass. 6.3: the shapes fit."""
    valid, shape = transform.work_valid_box_yx, transform.work_shape_hw
    _require(mass_work.shape == shape, "6.3", f"a work map of shape {shape}", str(mass_work.shape))
    inside = Box((0,) * len(shape), shape).contains(valid)
    _require(inside, "6.3", f"the valid region inside {shape}", repr(valid))
    crop_sum = float(density[transform.pair_crop_box_yx.slices].sum(dtype=np.float64))
    work_sum = float(mass_work.sum())
    _require(
        _close(work_sum, crop_sum, crop_sum), "6.2", f"the crop's mass {crop_sum!r} on the work grid", repr(work_sum)
    )


def check_books(mass_source: float, mass_target: float, transported: float, created: float, destroyed: float) -> None:
    """6.4: transported + destroyed = source, transported + created = target."""
    for name, total, part in (("source", mass_source, destroyed), ("target", mass_target, created)):
        held = math.isfinite(total) and abs(transported + part - total) <= 1e-10 * max(mass_source, mass_target)
        _require(held, "6.4", f"books that balance on the {name}: {total!r}", repr(transported + part))


def check_lifting(transform: GridTransform, mass_work: Array, mass_canon: Float) -> None:
    """6.5: lifting keeps the mass of every block, signed or not, so its centre moves by less than one work pixel."""
    from pairframe.frame.pool import sum_pool

    valid = np.asarray(mass_work[transform.work_valid_box_yx.slices], dtype=np.float64)
    if np.count_nonzero(mass_work) != np.count_nonzero(valid):
        # The caller's map has mass outside the valid region, and lifting would drop it silently.
        raise FrameError(
            f"mass_work without mass in the padding around {transform.work_valid_box_yx!r}",
            f"{np.count_nonzero(mass_work) - np.count_nonzero(valid)} pixels with mass there",
            "keep engines and maps inside GridTransform.work_valid_box_yx",
        )
    total, size, lifted = float(valid.sum()), float(np.abs(valid).sum()), float(mass_canon.sum())
    _require(_close(lifted, total, size), "6.5", f"mass {total!r} on the canvas", repr(lifted))
    again = np.empty(valid.shape)
    sum_pool(mass_canon[transform.pair_crop_box_yx.slices], transform.downsample_factor, again)
    worst = float(np.abs(again - valid).max())
    _require(_close(worst, 0.0, size), "6.5", "every block to get its own mass back", f"a difference of {worst}")
