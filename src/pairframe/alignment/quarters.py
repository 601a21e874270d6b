"""Splatting of pixels as 2 x 2 samples: what `splat_pixels` does for ``per_side=2``, in half of the time and in threads.

The four samples of a pixel fall on 3 x 3 pixels of the new image. The new image is divided into bands of rows that threads
fill independently; the pixels around their seams follow at the end. The bands do not depend on the number of threads,
so neither does the result.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairframe.alignment.quarter_passes import splat_between
from pairframe.parallel.threads import run_in_threads
from pairframe.types import Float, Int

LEAST_SIDE = 3  # of an image that holds a patch
BAND_ROWS = 256
SEAM_ROWS = 2.0  # a patch reaches less than this far from the centre of its pixel
_CROWDED, _LINE = 128, 8  # pixels: 1 KiB, and a line of the cache


def splat_quarters(
    shape_hw: tuple[int, int], values: NDArray[Any], spans: Int, matrix: Float, offset: Float, factor: float
) -> Float:
    """Put every pixel of `values`, as 2 x 2 samples, on a new image; the caller has checked that all of them fit.

    Parameters
    ----------
    shape_hw : (H', W')
        Of the new image; both at least `LEAST_SIDE`.
    values : (H, W)
        Mass per pixel, not negative.
    spans : (H, 2)
        As `row_spans` returns them.
    matrix, offset : (2, 2), (2,)
        Pixel indices to indices of the new image, ``M p + o``; it does not magnify.
    factor : float
        Multiplies all mass.
    """
    height, width = shape_hw
    # A steep row goes down a column of the image. If its rows are a power of two apart, they share a few places of the
    # cache, so a little more is put between them.
    is_crowded = width % _CROWDED == 0 and abs(matrix[0, 1]) > abs(matrix[1, 1])
    out = np.zeros((height, width + (_LINE if is_crowded else 0)))
    seams = [float(row) for row in range(BAND_ROWS, height - BAND_ROWS // 2, BAND_ROWS)]
    lows = [-math.inf, *(seam + SEAM_ROWS for seam in seams)]
    highs = [*(seam - SEAM_ROWS for seam in seams), math.inf]
    numbers = np.array([*matrix.ravel(), *offset, 0.25 * factor])

    def fill(first: int, step: int) -> None:
        for low, high in zip(lows[first::step], highs[first::step], strict=True):
            splat_between(out, values, spans, numbers, low, high)

    run_in_threads(fill, values.size)
    for seam in seams:
        splat_between(out, values, spans, numbers, seam - SEAM_ROWS, seam + SEAM_ROWS)
    return np.ascontiguousarray(out[:, :width])
