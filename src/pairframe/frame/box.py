"""Half-open integer boxes on a grid, and the tight box around a mass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import index
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pairframe.errors import FrameError
from pairframe.types import Bool

# Upper limit of the sides of a canvas, bucket or block: a position times a factor still fits into 64 bits.
MAX_SIDE = 2**31
_AXIS_NAMES = "zyx"


@dataclass(frozen=True, order=True, repr=False)
class Box:
    """The pixels ``[lo, hi)`` of a grid with any number of axes; at least one pixel.

    Parameters
    ----------
    lo, hi : tuple of int
        First and one past the last index along each axis.
    """

    lo: tuple[int, ...]
    hi: tuple[int, ...]

    def __post_init__(self) -> None:
        for name in ("lo", "hi"):
            corner = getattr(self, name)
            try:
                # Accept numpy integers, but keep plain ones: the box is hashed and written as JSON.
                object.__setattr__(self, name, tuple(index(side) for side in corner))
            except TypeError:
                raise FrameError(
                    f"{type(self).__name__}.{name} of integers",
                    repr(corner),
                    "give whole pixels, e.g. Box((0, 0), (64, 128))",
                ) from None
        if not 0 < len(self.lo) == len(self.hi) or any(a >= b for a, b in zip(self.lo, self.hi, strict=True)):
            raise FrameError("a box with at least one pixel along every axis", str(self), self._order)

    @classmethod
    def of(cls, lo: tuple[int, ...], hi: tuple[int, ...]) -> Self:
        """The box from its two corners, also for subclasses with other parameters."""
        return cls(lo, hi)

    @property
    def _order(self) -> str:
        return "the order is Box(lo, hi), ends excluded"

    @property
    def shape(self) -> tuple[int, ...]:
        """Side lengths in pixels."""
        return tuple(b - a for a, b in zip(self.lo, self.hi, strict=True))

    @property
    def slices(self) -> tuple[slice, ...]:
        """Index of these pixels in an array (only for boxes without negative coordinates)."""
        return tuple(slice(a, b) for a, b in zip(self.lo, self.hi, strict=True))

    @property
    def y0(self) -> int:
        """First row: y is the last axis but one, and x the last."""
        return self.lo[-2]

    @property
    def y1(self) -> int:
        """One past the last row."""
        return self.hi[-2]

    @property
    def x0(self) -> int:
        """First column."""
        return self.lo[-1]

    @property
    def x1(self) -> int:
        """One past the last column."""
        return self.hi[-1]

    @property
    def h(self) -> int:
        """Height in pixels."""
        return self.y1 - self.y0

    @property
    def w(self) -> int:
        """Width in pixels."""
        return self.x1 - self.x0

    def to_dict(self) -> dict[str, Any]:
        """Its corners as plain values; `from_dict` makes an equal box of them."""
        return {"lo": list(self.lo), "hi": list(self.hi)}

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Box:
        """The box that `to_dict` wrote: a `BoxYX` from four sides by name, else a `Box` from its corners."""
        if set(values) == {"lo", "hi"}:
            return Box(tuple(values["lo"]), tuple(values["hi"]))
        return BoxYX(**values)

    def contains(self, other: Box) -> bool:
        """Whether every pixel of `other` is in this box."""
        starts, ends = zip(self.lo, other.lo, strict=True), zip(self.hi, other.hi, strict=True)
        return all(mine <= its for mine, its in starts) and all(mine >= its for mine, its in ends)

    def union(self, other: Box) -> Self:
        """The smallest box that contains both."""
        return self.of(
            tuple(min(pair) for pair in zip(self.lo, other.lo, strict=True)),
            tuple(max(pair) for pair in zip(self.hi, other.hi, strict=True)),
        )

    def expand(self, pad: int | tuple[int, ...]) -> Self:
        """The box grown by `pad` pixels, or by one number per axis, on each side."""
        pads = (pad,) * len(self.lo) if isinstance(pad, int) else pad
        return self.of(
            tuple(a - k for a, k in zip(self.lo, pads, strict=True)),
            tuple(b + k for b, k in zip(self.hi, pads, strict=True)),
        )

    def clamp(self, canvas_shape: tuple[int, ...]) -> Self:
        """The part of the box on a canvas of that shape."""
        sides = list(zip(self.lo, self.hi, canvas_shape, strict=True))
        if any(b <= 0 or a >= side for a, b, side in sides):
            raise FrameError(
                f"a box that touches the {' x '.join(map(str, canvas_shape))} canvas",
                str(self),
                f"give {type(self).__name__} in canonical pixels; {self._order}",
            )
        return self.of(tuple(max(a, 0) for a, _, _ in sides), tuple(min(b, side) for _, b, side in sides))

    def __str__(self) -> str:
        """Such as ``y 0:64, x 0:128``."""
        n = len(self.lo)
        names = _AXIS_NAMES[-n:] if n <= len(_AXIS_NAMES) else [f"axis {k}" for k in range(n)]
        if len(self.hi) != n:
            return f"corners {self.lo} and {self.hi}"
        return ", ".join(f"{name} {a}:{b}" for name, a, b in zip(names, self.lo, self.hi, strict=True))

    def __repr__(self) -> str:
        return f"Box({self.lo}, {self.hi})"


class BoxYX(Box):
    """The pixels ``[y0, y1) x [x0, x1)`` of an image; at least one pixel."""

    def __init__(self, y0: int, y1: int, x0: int, x1: int) -> None:
        for name, value in zip(("y0", "y1", "x0", "x1"), (y0, y1, x0, x1), strict=True):
            if not hasattr(value, "__index__"):
                raise FrameError(
                    f"an integer BoxYX.{name}", repr(value), "give whole pixels, e.g. BoxYX(0, 64, 0, 128)"
                )
        super().__init__((y0, x0), (y1, x1))

    @classmethod
    def of(cls, lo: tuple[int, ...], hi: tuple[int, ...]) -> Self:
        """The box from its corners (y0, x0) and (y1, x1)."""
        (y0, x0), (y1, x1) = lo, hi
        return cls(y0, y1, x0, x1)

    @property
    def _order(self) -> str:
        return "the order is BoxYX(y0, y1, x0, x1), ends excluded"

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width in pixels."""
        return self.h, self.w

    def to_dict(self) -> dict[str, int]:
        """Its four parameters by name; ``BoxYX(**box.to_dict())`` is an equal box."""
        return {"y0": self.y0, "y1": self.y1, "x0": self.x0, "x1": self.x1}

    def __repr__(self) -> str:
        return f"BoxYX({', '.join(f'{name}={value}' for name, value in self.to_dict().items())})"


_FEW_PIXELS = 1 << 10  # of an image, of which the pixels are listed in less time than the lines are looked at


def tight_box(density: NDArray[Any], row_is_positive: Bool | None = None) -> Box | None:
    """The smallest box around the positive entries of an array with any number of axes; None when there are none.

    `row_is_positive`, of the shape of `density` without its last axis, saves a pass when the caller has it.
    """
    if density.ndim == 2 and density.size <= _FEW_PIXELS:
        rows_on, columns_on = density.nonzero()
        if not rows_on.size:
            return None
        return Box((int(rows_on[0]), int(columns_on.min())), (int(rows_on[-1]) + 1, int(columns_on.max()) + 1))
    rows = np.asarray(density.any(axis=-1) if row_is_positive is None else row_is_positive)
    if not rows.any():
        return None
    spans = [_span(rows, axis) for axis in range(rows.ndim)]
    # Only the rows inside the other spans are looked at again.
    spans.append(_span(density[tuple(slice(*span) for span in spans)], density.ndim - 1))
    return Box(tuple(first for first, _ in spans), tuple(end for _, end in spans))


def _span(array: NDArray[Any], axis: int) -> tuple[int, int]:
    """First and one past the last index along `axis` with a positive entry; there must be one."""
    places = np.flatnonzero(array.any(axis=tuple(k for k in range(array.ndim) if k != axis)))
    return int(places[0]), int(places[-1]) + 1
