"""`Mask`: one checked 2-D image, binary or density, with its pixel size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairframe.errors import GreyImageError
from pairframe.masks.arrays import checked_image
from pairframe.units import checked_px_size

# Rows are checked in blocks of about this many pixels, so that no temporary is as large as the image.
_BLOCK_PX = 1 << 20


@dataclass(frozen=True, eq=False, repr=False)
class Mask:
    """A binary mask, or a density of mass, on a canvas of square pixels.

    Parameters
    ----------
    values : (H, W) array
        Bool, {0, 1} or {0, 255} is binary and is stored as bool. Anything else needs
        ``density=True``, which keeps every value as it is (255 stays 255). Copied, and
        stored read-only in native byte order, as float64 at most.
    px_size_um : float or None
        Side of a pixel in micrometres. None means unknown.
    source : str or None
        Where the mask came from, such as ``"labels.tif@4:3"``.
    history : tuple of str
        The cleaning steps so far, with their parameters.
    density : bool
        Whether the values are mass per pixel instead of a binary mask.
    inside_value : int
        Value of the pixels inside a binary image, 1 or 255. Detected if `values` are numbers.
        The mass mode ``"intensity"`` uses it.
    coverage : bool
        Whether a density is the share of each pixel that a mask covers, as of a mask that was moved: its sum is an area, and
        the mass mode ``"uniform"`` takes it like a binary mask.
    """

    values: NDArray[Any]
    px_size_um: float | None = None
    source: str | None = None
    history: tuple[str, ...] = ()
    density: bool = False
    inside_value: int = 1
    coverage: bool = False

    def __post_init__(self) -> None:
        name = "the mask" if self.source is None else repr(self.source)
        values, inside_value = _own_values(self.values, name, density=self.density or self.coverage)
        values.flags.writeable = False
        # A view of a read-only array cannot be made writeable again.
        object.__setattr__(self, "values", values.view())
        if self.inside_value not in (1, 255):
            raise GreyImageError(f"inside_value of {name} to be 1 or 255", repr(self.inside_value), "leave it out")
        if inside_value is not None:
            object.__setattr__(self, "inside_value", inside_value)
        if self.px_size_um is not None:
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
        """Make a mask from anything that numpy can convert to an (H, W) array."""
        return cls(array, px_size_um=px_size_um, source=source, density=density)  # type: ignore[arg-type]

    @classmethod
    def _of_own_density(
        cls,
        values: NDArray[np.float64],
        px_size_um: float | None,
        source: str | None,
        history: tuple[str, ...],
        *,
        coverage: bool = False,
    ) -> Mask:
        """A density from an array that no one else holds, finite and not negative: neither checked nor copied."""
        values.flags.writeable = False
        mask = object.__new__(cls)
        for name, value in (
            ("values", values.view()),
            ("px_size_um", px_size_um),
            ("source", source),
            ("history", history),
            ("density", True),
            ("inside_value", 1),
            ("coverage", coverage),
        ):
            object.__setattr__(mask, name, value)
        return mask

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
    def is_area(self) -> bool:
        """Whether the sum of the values is an area in pixels: of a binary mask, or of a coverage."""
        return self.is_binary or self.coverage

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
        """Area of the positive pixels in square micrometres; None if the pixel size is unknown."""
        return None if self.px_size_um is None else self.area_px * self.px_size_um**2

    def __repr__(self) -> str:
        height, width = self.shape_hw
        kind = "binary" if self.is_binary else f"{'coverage' if self.coverage else 'density'} {self.values.dtype}"
        size = "unknown pixel size" if self.px_size_um is None else f"{self.px_size_um:g} um/px"
        source = "" if self.source is None else f", {self.source!r}"
        return f"Mask({height} x {width} px, {kind}, {self.area_px} px inside, {size}{source})"

    def __reduce__(self) -> tuple[Any, ...]:
        # A pickled array loads as writeable; the constructor makes it read-only again.
        fields = (self.values, self.px_size_um, self.source, self.history, self.density, self.inside_value)
        return type(self), (*fields, self.coverage)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        # Lets numpy functions accept a mask as an array.
        return np.array(self.values, dtype=dtype, copy=copy)


def _own_values(given: object, name: str, *, density: bool) -> tuple[NDArray[Any], int | None]:
    """Return a copy, as bool if binary, and the value of its inside, or None if the input was bool or a density."""
    image, row_max = checked_image(given, name)
    if density or image.dtype == np.bool_:
        # Always copy, because a memory map, a view or an __array__ may change later, even if it is read-only.
        return image.astype(image.dtype.newbyteorder("=")), None
    high = row_max.max()
    if high not in (0, 1, 255) or not _holds_only_zero_and(high, image):
        raise GreyImageError(
            f"{name} to be a binary mask (bool, {{0, 1}} or {{0, 255}})",
            f"a grey or label image ({image.dtype}, {image.min()} to {high})",
            'for a density use mass_mode="intensity" (density=True); for a label image choose '
            'a label, such as "labels.tif:3" or "labels.tif:all"',
        )
    return image.astype(np.bool_), int(high) or None


def _holds_only_zero_and(high: Any, values: NDArray[Any]) -> bool:
    if high == 0:
        return True
    rows = max(1, _BLOCK_PX // values.shape[1])
    blocks = (values[top : top + rows] for top in range(0, values.shape[0], rows))
    return all(np.count_nonzero(block) == np.count_nonzero(block == high) for block in blocks)
