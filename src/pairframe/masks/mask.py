"""`Mask`: one checked 2-D image, binary or density, with its pixel size."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairframe.errors import (
    EmptyCanvasError,
    GreyImageError,
    NegativeMassError,
    NotFiniteError,
    NotNumericError,
    NotTwoDimensionalError,
    PixelSizeError,
)

# Rows are checked in blocks of about this many pixels, so that no temporary is as large as the image.
_BLOCK_PX = 1 << 20


@dataclass(frozen=True, eq=False, repr=False)
class Mask:
    """A binary mask, or a density of mass, on a canvas of square pixels.

    Parameters
    ----------
    values : (H, W) array
        Bool, {0, 1} or {0, 255} is binary and is stored as bool. Anything else needs
        ``density=True``, which keeps every value as it is (255 stays 255). Stored
        read-only and in native byte order; a writeable array is copied.
    px_size_um : float or None
        Side of a pixel in micrometres. None means unknown: nothing invents a size.
    source : str or None
        Where the mask came from, such as ``"labels.tif@4:3"``.
    history : tuple of str
        The cleaning steps so far, in words, with their parameters.
    density : bool
        The values are mass per pixel, not only inside and outside.
    """

    values: NDArray[Any]
    px_size_um: float | None = None
    source: str | None = None
    history: tuple[str, ...] = ()
    density: bool = False

    def __post_init__(self) -> None:
        values = _checked_values(self.values, density=self.density, source=self.source)
        if values is self.values and values.flags.writeable:
            values = values.copy()
        values = values.view()
        values.flags.writeable = False
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "px_size_um", checked_px_size(self.px_size_um))
        object.__setattr__(self, "history", tuple(self.history))

    @classmethod
    def from_array(
        cls,
        array: ArrayLike,
        *,
        px_size_um: float | None = None,
        density: bool = False,
        source: str | None = None,
    ) -> Mask:
        """Make a mask of anything that numpy takes for an (H, W) array."""
        return cls(array, px_size_um=px_size_um, source=source, density=density)  # type: ignore[arg-type]

    @property
    def shape_hw(self) -> tuple[int, int]:
        """Height and width of the canvas, pixels."""
        height, width = self.values.shape
        return height, width

    @property
    def is_binary(self) -> bool:
        """Whether the values are stored as bool; a density of zeros and ones is not binary."""
        return self.values.dtype == np.bool_

    @property
    def is_empty(self) -> bool:
        """Whether no pixel is positive."""
        return not self.values.any()

    @property
    def area_px(self) -> int:
        """Number of positive pixels."""
        return int(np.count_nonzero(self.values))

    @property
    def area_um2(self) -> float | None:
        """Area of the positive pixels in square micrometres; None when the pixel size is unknown."""
        return None if self.px_size_um is None else self.area_px * self.px_size_um**2

    def __repr__(self) -> str:
        height, width = self.shape_hw
        kind = "binary" if self.is_binary else f"density {self.values.dtype}"
        size = "unknown pixel size" if self.px_size_um is None else f"{self.px_size_um:g} um/px"
        source = "" if self.source is None else f", {self.source!r}"
        return f"Mask({height} x {width} px, {kind}, {self.area_px} px inside, {size}{source})"

    def __reduce__(self) -> tuple[Any, ...]:
        # A pickled array comes back writeable; through the constructor it is frozen again.
        return type(self), (self.values, self.px_size_um, self.source, self.history, self.density)


def checked_px_size(px_size_um: Any) -> float | None:
    """Return a pixel size in micrometres as a float, or None; refuse everything else."""
    if px_size_um is None:
        return None
    is_number = isinstance(px_size_um, int | float | np.integer | np.floating) and not isinstance(px_size_um, bool)
    if not is_number or not math.isfinite(px_size_um) or px_size_um <= 0:
        raise PixelSizeError(
            "px_size_um to be a positive, finite number of micrometres",
            repr(px_size_um),
            "give the side of one pixel, such as px_size_um=0.65, or None when it is unknown",
        )
    return float(px_size_um)


def _checked_values(given: object, *, density: bool, source: str | None) -> NDArray[Any]:
    """Return ``given`` as a valid (H, W) array: bool if binary, otherwise a density."""
    where = "" if source is None else f" in {source!r}"
    values = _as_numeric(given, where)
    if values.ndim != 2:
        raise NotTwoDimensionalError(
            "one 2-D image (height, width)",
            f"{values.ndim} axes of lengths {values.shape}{where}",
            "choose one page or frame with page=, or make a projection, such as stack.max(axis=0)",
        )
    if values.size == 0:
        raise EmptyCanvasError(
            "at least one pixel",
            f"a canvas of {values.shape[0]} x {values.shape[1]} px{where}",
            "check the crop or the file that the array came from",
        )
    if values.dtype == np.bool_:
        return values
    # NaN and infinity pass through min and max, so two reductions see every bad value.
    with np.errstate(invalid="ignore"):
        low, high = values.min(), values.max()
    if not (np.isfinite(low) and np.isfinite(high)):
        raise NotFiniteError(
            "finite values",
            f"NaN or infinity{where}",
            "replace them first, such as numpy.nan_to_num(array, posinf=0, neginf=0)",
        )
    if low < 0:
        raise NegativeMassError(
            "values >= 0",
            f"a minimum of {low}{where}",
            "subtract the background or clip at 0; mass cannot be negative",
        )
    if density:
        return values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))
    if high not in (0, 1, 255) or not _holds_only_zero_and(high, values):
        raise GreyImageError(
            "a binary mask (bool, {0, 1} or {0, 255})",
            f"a grey or label image ({values.dtype}, {low} to {high}){where}",
            'for a density use mass_mode="intensity" (density=True); for a label image choose '
            'a label, such as "labels.tif:3" or "labels.tif:all"',
        )
    return values.astype(np.bool_)


def _as_numeric(given: object, where: str) -> NDArray[Any]:
    if isinstance(given, np.ma.MaskedArray):
        raise NotNumericError("a plain array", f"a numpy masked array{where}", "fill it first: array.filled(0)")
    try:
        values = np.asarray(given)
    except ValueError as error:
        raise NotNumericError(
            "a rectangular array of numbers", f"{error}{where}", "make all rows equally long"
        ) from error
    if values.dtype.kind not in "biuf":
        raise NotNumericError(
            "bool, integer or float values",
            f"dtype {values.dtype}{where}",
            "convert the array first, such as array.astype(float)",
        )
    return values


def _holds_only_zero_and(high: Any, values: NDArray[Any]) -> bool:
    if high == 0:
        return True
    rows = max(1, _BLOCK_PX // values.shape[1])
    blocks = (values[top : top + rows] for top in range(0, values.shape[0], rows))
    return all(np.count_nonzero(block) == np.count_nonzero(block == high) for block in blocks)
