"""Half-open integer boxes, rows first."""

from __future__ import annotations

from dataclasses import dataclass
from operator import index

import numpy as np
from numpy.typing import NDArray

from pairframe.errors import BoxError, BoxOutsideCanvasError

# No canvas, bucket or block is longer, so a position times a factor still fits into 64 bits.
MAX_SIDE = 2**31


@dataclass(frozen=True, order=True)
class BoxYX:
    """The pixels ``[y0, y1) x [x0, x1)``; at least one of them."""

    y0: int
    y1: int
    x0: int
    x1: int

    def __post_init__(self) -> None:
        for name in ("y0", "y1", "x0", "x1"):
            value = getattr(self, name)
            try:
                # numpy integers are welcome, but a frozen value holds plain ones (JSON, hashing).
                object.__setattr__(self, name, index(value))
            except TypeError:
                raise BoxError(
                    f"an integer BoxYX.{name}", repr(value), "give whole pixels, e.g. BoxYX(0, 64, 0, 128)"
                ) from None
        if self.y1 <= self.y0 or self.x1 <= self.x0:
            raise BoxError(
                "a box with at least one pixel (y0 < y1 and x0 < x1)",
                f"y {self.y0}:{self.y1}, x {self.x0}:{self.x1}",
                "the order is BoxYX(y0, y1, x0, x1), ends excluded",
            )

    @property
    def h(self) -> int:
        """Height in pixels."""
        return self.y1 - self.y0

    @property
    def w(self) -> int:
        """Width in pixels."""
        return self.x1 - self.x0

    @property
    def shape_hw(self) -> tuple[int, int]:
        return self.h, self.w

    @property
    def slices(self) -> tuple[slice, slice]:
        """Index of these pixels in an array (only for boxes without negative coordinates)."""
        return slice(self.y0, self.y1), slice(self.x0, self.x1)

    def contains(self, other: BoxYX) -> bool:
        """Whether every pixel of `other` is in this box."""
        return self.y0 <= other.y0 and other.y1 <= self.y1 and self.x0 <= other.x0 and other.x1 <= self.x1

    def union(self, other: BoxYX) -> BoxYX:
        """The smallest box that contains both."""
        return BoxYX(min(self.y0, other.y0), max(self.y1, other.y1), min(self.x0, other.x0), max(self.x1, other.x1))

    def expand(self, pad: int) -> BoxYX:
        """The box grown by `pad` pixels on each of its four sides."""
        return BoxYX(self.y0 - pad, self.y1 + pad, self.x0 - pad, self.x1 + pad)

    def clamp(self, canvas_shape_hw: tuple[int, int]) -> BoxYX:
        """The part of the box on a canvas of that shape."""
        height, width = canvas_shape_hw
        if self.y1 <= 0 or self.x1 <= 0 or self.y0 >= height or self.x0 >= width:
            raise BoxOutsideCanvasError(
                f"a box that touches the {height} x {width} canvas",
                f"y {self.y0}:{self.y1}, x {self.x0}:{self.x1}",
                "give BoxYX(y0, y1, x0, x1) in canonical pixels",
            )
        return BoxYX(max(self.y0, 0), min(self.y1, height), max(self.x0, 0), min(self.x1, width))


def tight_box(density: NDArray[np.generic], row_is_positive: NDArray[np.bool_] | None = None) -> BoxYX | None:
    """The smallest box around the positive entries of a (H, W) array; None when there are none.

    `row_is_positive` (H,) saves the pass over the rows when the caller has it.
    """
    rows = np.flatnonzero(density.any(axis=1) if row_is_positive is None else row_is_positive)
    if rows.size == 0:
        return None
    y0, y1 = int(rows[0]), int(rows[-1]) + 1
    cols = np.flatnonzero(density[y0:y1].any(axis=0))
    return BoxYX(y0, y1, int(cols[0]), int(cols[-1]) + 1)
