"""Mass modes: how much mass each pixel of a mask carries. A new mode is a function and a line in `_MODES`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairframe.checks import is_positive_number, is_real_number
from pairframe.errors import GreyImageError, MaskError
from pairframe.masks.mask import Mask
from pairframe.types import Float
from pairframe.units import PxSize, Units

# 3 * 0.1 > 0.3 in binary floating point; a band of 0.3 um still means three pixels of 0.1 um.
_ROUNDING = 1 + 1e-9

Spacing = tuple[float, ...]


# --- modes -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Mode:
    """What a mode does.

    Attributes
    ----------
    density : callable (mask, width_px, spacing) -> (H, W)
        Mass per pixel; `spacing` has the sides of a pixel along each axis in px.
    takes_density : bool
        Whether the mask may hold grey values; else it must be binary.
    is_area : bool
        Whether every pixel of the mask has the mass 1, so that a mass is an area.
    has_width : bool
        Whether the mode has a width as its parameter.
    """

    density: Callable[[Mask, float, Spacing], Float]
    takes_density: bool = False
    is_area: bool = False
    has_width: bool = False


def _uniform(mask: Mask, width_px: float, spacing: Spacing) -> Float:
    return mask.values.astype(np.float64)


def _intensity(mask: Mask, width_px: float, spacing: Spacing) -> Float:
    values = mask.values.astype(np.float64)
    # A binary image is stored as bool; the 255 that its file may have had is restored.
    return values * mask.inside_value if mask.is_binary else values


def _distance_transform(mask: Mask, width_px: float, spacing: Spacing) -> Float:
    return _distance_to_background_px(mask.values, spacing)


def _boundary_band(mask: Mask, width_px: float, spacing: Spacing) -> Float:
    distance_px = _distance_to_background_px(mask.values, spacing)
    # Pixels beside the background are at distance 1: they stay, however thin the band is.
    band = (distance_px > 0) & (distance_px <= max(1.0, width_px * _ROUNDING))
    if max(spacing) > 1.0:  # beside the background, but farther away than a pixel
        from scipy import ndimage

        band |= mask.values & ~ndimage.binary_erosion(mask.values)
    return band.astype(np.float64)


_MODES = {
    "uniform": _Mode(_uniform, is_area=True),
    "intensity": _Mode(_intensity, takes_density=True),
    "distance_transform": _Mode(_distance_transform),
    "boundary_band": _Mode(_boundary_band, has_width=True),
}
MASS_MODES = tuple(f"{name}(WIDTH_UM)" if mode.has_width else name for name, mode in _MODES.items())
_ALL_MODES = " or ".join([", ".join(f'"{name}"' for name in MASS_MODES[:-1]), f'"{MASS_MODES[-1]}"'])


@dataclass(frozen=True)
class MassMode:
    """A way to turn a mask into mass; its text form fits into JSON.

    Parameters
    ----------
    name : str
        ``"uniform"``: 1 for every pixel of the mask. ``"intensity"``: the pixel values unchanged,
        so a binary image of 0 and 255 weighs 255. ``"distance_transform"``: Euclidean distance in
        pixels to the nearest background pixel. ``"boundary_band"``: 1 near the background only.
    width_um : float or None
        Width of the band in micrometres (in pixels if the pixel size is unknown);
        for ``"boundary_band"`` only.
    """

    name: str
    width_um: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or self.name not in _MODES:
            raise MaskError(f"a mass mode: {_ALL_MODES}", repr(self.name), "use one of these names", "mass_mode")
        width_um, example = self.width_um, f'write it as "{self.name}(16)"'
        if not _MODES[self.name].has_width:
            if width_um is not None:
                fix = f'write "{self.name}" alone'
                raise MaskError(f"{self.name} without a parameter", f"{width_um!r}", fix, "mass_mode")
            return
        if width_um is None or not is_real_number(width_um):
            raise MaskError(f"{self.name} with a width", repr(width_um), example, "mass_mode")
        if not is_positive_number(width_um):
            expected = "a positive, finite band width in micrometres"
            raise MaskError(expected, repr(width_um), example, "mass_mode")
        object.__setattr__(self, "width_um", float(width_um))

    @classmethod
    def parse(cls, text: str | MassMode) -> MassMode:
        """Read ``"uniform"``, ``"boundary_band(16)"`` and so on; the inverse of ``str``."""
        if isinstance(text, MassMode):
            return text
        match = re.fullmatch(r"\s*(\w+)\s*(?:\((.*)\))?\s*", text) if isinstance(text, str) else None
        if match is None:
            raise MaskError(f"a mass mode: {_ALL_MODES}", repr(text), "use one of these names", "mass_mode")
        name, parameter = match.groups()
        if parameter is None:
            return cls(name)
        try:
            width_um = float(parameter)
        except ValueError as error:
            fix = f"use one of the mass modes: {_ALL_MODES}"
            raise MaskError("a number between the brackets", repr(text), fix, "mass_mode") from error
        return cls(name, width_um)

    @property
    def takes_density(self) -> bool:
        """Whether the mask may hold grey values; else it must be binary."""
        return _MODES[self.name].takes_density

    @property
    def is_area(self) -> bool:
        """Whether every pixel of the mask has the mass 1, so that a mass is an area."""
        return _MODES[self.name].is_area

    def __str__(self) -> str:
        return self.name if self.width_um is None else f"{self.name}({self.width_um!r})".replace(".0)", ")")


def mass_density(mask: Mask, mode: str | MassMode, px_size_um: PxSize | None = None) -> Float:
    """Return the mass of every pixel.

    Parameters
    ----------
    mask : Mask
        Binary, unless the mode takes densities.
    mode : str or MassMode
        See `MassMode`.
    px_size_um : float or (float, float, float), optional
        Side of a pixel, or sides of a voxel; those of the mask if not given.

    Returns
    -------
    (H, W) or (Z, Y, X) float64 array
        Mass per canonical pixel, 0 outside the mask, in a new, writeable array. The outside
        of the canvas is background, so a mask that fills its canvas has a boundary too.
    """
    mode = MassMode.parse(mode)
    if not mask.is_binary and not mode.takes_density and not (mask.coverage and mode.is_area):
        raise GreyImageError(
            f"a binary mask for mass_mode={str(mode)!r}",
            f"a {'coverage' if mask.coverage else 'density'} ({mask.values.dtype})",
            'use mass_mode="intensity", or threshold the image to a binary mask first',
            "mass_mode",
        )
    units = Units(mask.px_size_um if px_size_um is None else px_size_um, mask.values.ndim)
    width_px = 0.0 if mode.width_um is None else mode.width_um / units.px_size
    return _MODES[mode.name].density(mask, width_px, units.spacing)


def _distance_to_background_px(inside: NDArray[Any], spacing: Spacing) -> Float:
    """Euclidean distance in pixels between pixel centres, of the shape of the mask; 0 outside it."""
    from scipy import ndimage

    distance_px = np.zeros(inside.shape)
    axes = range(inside.ndim)
    spans = [np.flatnonzero(inside.any(axis=tuple(other for other in axes if other != axis))) for axis in axes]
    if spans[0].size:
        # The nearest background pixel of a mask pixel lies in the bounding box or in the ring around it.
        box = tuple(slice(span[0], span[-1] + 1) for span in spans)
        sampling = None if set(spacing) == {1.0} else spacing
        ring = (slice(1, -1),) * inside.ndim
        distance_px[box] = ndimage.distance_transform_edt(np.pad(inside[box], 1), sampling)[ring]
    return distance_px
