"""`Mask`: one checked image or volume, binary or density, with its pixel size."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairframe.errors import GreyImageError, MaskError
from pairframe.masks.arrays import checked_image, checked_volume
from pairframe.units import PxSize, Units, checked_px_sides, px_size_text

# Rows are checked in blocks of about this many pixels, so that no temporary is as large as the image.
_BLOCK_PX = 1 << 20


@dataclass(frozen=True, eq=False, repr=False)
class Mask:
    """A binary mask, or a density of mass, on a canvas of square pixels, or in a volume.

    Parameters
    ----------
    values : (H, W) array, or (Z, Y, X) for a volume
        Bool, {0, 1} or {0, 255} is binary and is stored as bool. Anything else needs
        ``density=True``, which keeps every value as it is (255 stays 255). Copied, and
        stored read-only in native byte order, as float64 at most.
    px_size_um : float, (float, float, float) or None
        Side of a pixel in micrometres; of a voxel, one number or its sides (z, y, x). None means unknown.
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
    volume : bool
        Whether the three axes of `values` are (z, y, x); three sides of a voxel say so too. Without it an array with three axes
        is refused, because it may as well be a series of images.
    orientation_zyx : str or None
        Where the axes of a volume point in the body, in letters of anatomy such as ``"SAR"`` (superior, anterior, right), if its
        file says so. Two volumes that point elsewhere are not compared.
    """

    values: NDArray[Any]
    px_size_um: PxSize | None = None
    source: str | None = None
    history: tuple[str, ...] = ()
    density: bool = False
    inside_value: int = 1
    coverage: bool = False
    volume: bool = False
    orientation_zyx: str | None = None

    def __post_init__(self) -> None:
        name = "the mask" if self.source is None else repr(self.source)
        if self.px_size_um is not None:
            object.__setattr__(self, "px_size_um", checked_px_sides(self.px_size_um))
        if isinstance(self.px_size_um, tuple):
            object.__setattr__(self, "volume", True)
        check = checked_volume if self.volume else checked_image
        values, inside_value = _own_values(*check(self.values, name), name, density=self.density or self.coverage)
        values.flags.writeable = False
        # A view of a read-only array cannot be made writeable again.
        object.__setattr__(self, "values", values.view())
        if self.inside_value not in (1, 255):
            raise GreyImageError(f"inside_value of {name} to be 1 or 255", repr(self.inside_value), "leave it out")
        if inside_value is not None:
            object.__setattr__(self, "inside_value", inside_value)
        object.__setattr__(self, "history", tuple(self.history))

    @classmethod
    def from_array(
        cls,
        array: ArrayLike,
        *,
        px_size_um: PxSize | None = None,
        density: bool = False,
        source: str | None = None,
        volume: bool = False,
    ) -> Mask:
        """Make a mask from anything that numpy can convert to an (H, W) array, or with `volume` to a (Z, Y, X) array."""
        return cls(array, px_size_um=px_size_um, source=source, density=density, volume=volume)  # type: ignore[arg-type]

    @classmethod
    def _of_own_density(
        cls,
        values: NDArray[np.float64],
        px_size_um: PxSize | None,
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
            ("volume", values.ndim == 3),
            ("orientation_zyx", None),
        ):
            object.__setattr__(mask, name, value)
        return mask

    @property
    def shape_hw(self) -> tuple[int, int]:
        """Height and width of the canvas, pixels; of a volume, those of its planes."""
        height, width = self.values.shape[-2:]
        return height, width

    @property
    def units(self) -> Units:
        """The unit of lengths and areas: um, or px if no pixel size is known."""
        return Units(self.px_size_um, self.values.ndim)

    @property
    def image_px_size_um(self) -> float | None:
        """`px_size_um` of an image; an error for a volume, by functions that are for images only."""
        if self.volume:
            name = "the mask" if self.source is None else repr(self.source)
            raise MaskError(
                f"{name} to be an image", "a volume", "this is for images only; volumes cannot be used here yet"
            )
        return None if self.px_size_um is None else self.units.px_size

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
        """Area of the positive pixels in square micrometres; None if the pixel size is unknown, and for volumes."""
        return None if self.px_size_um is None or self.volume else self.area_px * self.units.px_area

    @property
    def volume_um3(self) -> float | None:
        """Volume of the positive voxels in cubic micrometres; None if the voxel size is unknown, and for images."""
        return None if self.px_size_um is None or not self.volume else self.area_px * self.units.px_area

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.values.shape))
        kind = "binary" if self.is_binary else f"{'coverage' if self.coverage else 'density'} {self.values.dtype}"
        size = "unknown pixel size" if self.px_size_um is None else f"{px_size_text(self.px_size_um)} um/px"
        source = "" if self.source is None else f", {self.source!r}"
        return f"Mask({shape} px, {kind}, {self.area_px} px inside, {size}{source})"

    def __reduce__(self) -> tuple[Any, ...]:
        # A pickled array loads as writeable; the constructor makes it read-only again.
        return type(self), tuple(getattr(self, field.name) for field in fields(self))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        # Lets numpy functions accept a mask as an array.
        return np.array(self.values, dtype=dtype, copy=copy)


def _own_values(
    image: NDArray[Any], row_max: NDArray[Any], name: str, *, density: bool
) -> tuple[NDArray[Any], int | None]:
    """Return a copy, as bool if binary, and the value of its inside, or None if the input was bool or a density."""
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
    rows = max(1, _BLOCK_PX * values.shape[0] // values.size)
    blocks = (values[top : top + rows] for top in range(0, values.shape[0], rows))
    return all(np.count_nonzero(block) == np.count_nonzero(block == high) for block in blocks)
