"""`sticks_out`: area of single frames that lies off the steady course of a series, also where growth covers it a frame later.

An outline that swells by a pixel in one frame while the object grows by a pixel per frame never comes back: no area is
destroyed, but one step is too large and the next too small by as much. A burst of growth is one large step, and stays growth.
"""

from __future__ import annotations

import numpy as np

from pairframe.types import Float


def sticks_out(area: Float) -> Float:
    """How far every frame lies above (positive) or below (negative) the steady course of its neighbours, (n,).

    With the steps ``s`` of the area and their differences, a frame sticks out by the least of three: how much larger the step
    into it is than the step before, half of how much smaller the step out of it is, and how much larger the one after that is
    again. All three must alternate. At the ends the three nearest differences count.

    Parameters
    ----------
    area : (n,)
    """
    above = _above(area)
    below = _above(-(area - above))
    return above - below


def _above(area: Float) -> Float:
    found = np.zeros(len(area))
    bend = np.diff(area, 2)  # bend[f - 1] at frame f: the step out of it less the step into it
    n = len(bend)
    if n < 3 or not np.isfinite(area).all():
        return found
    for f in range(n):
        first = min(max(f - 1, 0), n - 3)
        three = bend[first : first + 3] * np.where((np.arange(3) - (f - first)) % 2 == 0, -1.0, 1.0)
        three[f - first] /= 2
        found[f + 1] = max(float(three.min()), 0.0)
    return found
