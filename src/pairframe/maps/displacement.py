"""How far the mass of each source pixel moved."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pairframe.maps.accounting import FeasiblePart

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]

# Where a smaller share of a pixel's mass left, its direction is that of rounding errors.
SMALLEST_SHARE = 1e-9


def displacement(part: FeasiblePart, self_shift_yx: Float | None = None) -> tuple[Float, Bool]:
    """Displacement field on the work grid.

    Parameters
    ----------
    part : FeasiblePart
        Of the pair.
    self_shift_yx : (H, W, 2), optional
        The shift that the method shows for the source against itself, work px. The mean target of an entropic plan
        shrinks towards the middle; subtracting the self-problem's leaves ``T_ab(x) - T_aa(x)``: zero for a mask against
        itself, k for a mask shifted by k. Without it the field is ``T_ab(x) - x``.

    Returns
    -------
    velocity_px : (H, W, 2)
        ``[..., 0]`` is dy, ``[..., 1]`` is dx, work px per frame; NaN where it is not known.
    valid : (H, W) bool
        Where some mass left (more than a share of 1e-9).
    """
    velocity = part.shift_yx if self_shift_yx is None else part.shift_yx - self_shift_yx
    valid = (part.left_share > SMALLEST_SHARE) & np.isfinite(velocity).all(axis=-1)
    return np.where(valid[..., None], velocity, np.nan), valid
