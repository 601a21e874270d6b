"""Cleaning of binary masks; every step is recorded in the history of the mask."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairframe.checks import is_positive_number
from pairframe.errors import GreyImageError, MaskError
from pairframe.masks.mask import Mask
from pairframe.types import Bool, Index


def clean_mask(
    mask: Mask,
    *,
    invert: bool = False,
    keep_largest: bool = False,
    fill_holes: bool = False,
    min_island_area_um2: float | None = None,
) -> Mask:
    """Invert, drop small islands, keep the largest object, fill holes; in this order.

    Objects are 8-connected (pixels that touch at a corner belong together; in volumes, 26-connected). Holes are
    4-connected (6-connected) background that does not reach the border of the canvas.

    Parameters
    ----------
    mask : Mask
        A binary mask.
    invert : bool
        Take the background for the objects.
    keep_largest : bool
        Keep only the object with the most pixels; if several are equal, the first in scan order.
    fill_holes : bool
        Fill every hole, however large.
    min_island_area_um2 : float or None
        Drop objects with a smaller area, in square micrometres (in pixels if the pixel
        size is unknown). An object of exactly this area is kept.

    Returns
    -------
    Mask
        On the same canvas; empty if no object was large enough.
    """
    if not mask.is_binary:
        raise GreyImageError("a binary mask to clean", f"a density ({mask.values.dtype})", "threshold the image first")
    inside = mask.values
    history = list(mask.history)
    if invert:
        inside = ~inside
        history.append("inverted")
    if min_island_area_um2 is not None:
        if mask.volume:
            raise MaskError("no min_island_area_um2 for a volume", "one", "leave it out, or keep the largest object")
        px_area, unit = (1.0, "px") if mask.px_size_um is None else (mask.units.px_area, "um2")
        least = _checked_area(min_island_area_um2)
        inside, dropped, total = _drop_islands(inside, least / px_area)
        history.append(f"dropped {dropped} of {total} objects smaller than {least:g} {unit}")
    if keep_largest:
        inside, total = _keep_largest(inside)
        history.append(f"kept the largest of {total} objects")
    if fill_holes:
        from scipy import ndimage

        filled = ndimage.binary_fill_holes(inside)
        history.append(f"filled holes of {np.count_nonzero(filled) - np.count_nonzero(inside)} px in total")
        inside = filled
    return mask if inside is mask.values and len(history) == len(mask.history) else _next(mask, inside, history)


def _next(mask: Mask, inside: Bool, history: list[str]) -> Mask:
    return replace(mask, values=inside, history=tuple(history))


def _checked_area(area: Any) -> float:
    if not is_positive_number(area):
        raise MaskError(
            "min_island_area_um2 to be positive and finite",
            repr(area),
            "give an area in square micrometres, or None to keep every island",
        )
    return float(area)


def _objects(inside: Bool) -> tuple[NDArray[np.int32], Index, int]:
    """Label the 8-connected objects: (H, W) ids, pixels of each id (background 0), count."""
    from scipy import ndimage

    ids = np.empty(inside.shape, np.int32)
    total = int(ndimage.label(inside, structure=np.ones((3,) * inside.ndim), output=ids))
    areas_px = np.bincount(ids.ravel(), minlength=total + 1)
    areas_px[0] = 0
    return ids, areas_px, total


def _drop_islands(inside: Bool, least_px: float) -> tuple[Bool, int, int]:
    ids, areas_px, total = _objects(inside)
    # Objects of exactly the given area must not be dropped because of rounding.
    stays = areas_px >= least_px * (1 - 1e-9)
    stays[0] = False
    return stays[ids], total - int(np.count_nonzero(stays)), total


def _keep_largest(inside: Bool) -> tuple[Bool, int]:
    ids, areas_px, total = _objects(inside)
    if total == 0:
        return inside, 0
    is_largest = areas_px == areas_px.max()
    first_px = int(np.argmax(is_largest[ids]))
    return ids == ids.flat[first_px], total
