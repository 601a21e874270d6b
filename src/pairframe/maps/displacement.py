"""How far the mass of each source pixel moved."""

from __future__ import annotations

import numpy as np

from pairframe.maps.accounting import FeasiblePart
from pairframe.types import Bool, Float

# Where a smaller share of a pixel's mass left, its direction is that of rounding errors, or of errors within the tolerance of a
# solve: the second is relative to the largest share, which is tiny if the target is.
SMALLEST_SHARE, SMALLEST_OF_LARGEST = 1e-9, 1e-6


def displacement(part: FeasiblePart, self_displacement: Float | None = None) -> tuple[Float, Bool]:
    """Displacement field on the work grid.

    Parameters
    ----------
    part : FeasiblePart
        Of the pair.
    self_displacement : (H, W, 2), optional
        The displacement of the source against itself, work px. The mean target of an entropic plan shrinks towards the
        middle; subtracting the self-problem's leaves ``T_ab(x) - T_aa(x)``: zero for a mask against itself, k for a mask
        shifted by k. Without it the field is ``T_ab(x) - x``.

    Returns
    -------
    velocity_px : (H, W, 2)
        Work px, one component per axis of the grid in its order: for images ``[..., 0]`` is dy and ``[..., 1]``
        is dx. NaN where it is not known.
    valid : (H, W) bool
        Where some mass left: more than a share of 1e-9, and 1e-6 of the largest share.
    """
    velocity = part.displacement if self_displacement is None else part.displacement - self_displacement
    smallest = max(SMALLEST_SHARE, SMALLEST_OF_LARGEST * float(part.left_share.max(initial=0.0)))
    valid = (part.left_share > smallest) & np.isfinite(velocity).all(axis=-1)
    if velocity is part.displacement and velocity.ndim > 3:  # in place: of a large volume it is gigabytes
        velocity[~valid] = np.nan
        return velocity, valid
    return np.where(valid[..., None], velocity, np.nan), valid
