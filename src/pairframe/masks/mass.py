"""Mass modes: how much mass each pixel of a mask carries."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairframe.errors import GreyImageError, MassModeError
from pairframe.masks.arrays import is_positive_number, is_real_number
from pairframe.masks.mask import Mask

_PLAIN_MODES = ("uniform", "intensity", "distance_transform")
_BAND = "boundary_band"
_ALL_MODES = '"uniform", "intensity", "distance_transform" or "boundary_band(WIDTH_UM)"'

# 3 * 0.1 > 0.3 in binary floating point; a band of 0.3 um still means three pixels of 0.1 um.
_ROUNDING = 1 + 1e-9


@dataclass(frozen=True)
class MassMode:
    """A way to turn a mask into mass; its text form makes it fit into JSON.

    Parameters
    ----------
    name : str
        ``"uniform"``, every mask pixel 1; ``"intensity"``, the values as they
        came, so a binary image of 0 and 255 weighs 255; ``"distance_transform"``,
        Euclidean distance in pixels to the nearest background pixel;
        ``"boundary_band"``, 1 near the background only.
    width_um : float or None
        Width of the band in micrometres (in pixels when the pixel size is unknown);
        for ``"boundary_band"`` and nothing else.
    """

    name: str
    width_um: float | None = None

    def __post_init__(self) -> None:
        if self.name not in (*_PLAIN_MODES, _BAND):
            raise MassModeError(f"a mass mode: {_ALL_MODES}", repr(self.name), "use one of these names")
        if self.name != _BAND:
            if self.width_um is not None:
                raise MassModeError(
                    f"{self.name} without a parameter", f"{self.width_um!r}", f'write "{self.name}" alone'
                )
            return
        width_um = self.width_um
        if width_um is None or not is_real_number(width_um):
            raise MassModeError("boundary_band with a width", repr(width_um), 'write it as "boundary_band(16)"')
        if not is_positive_number(width_um):
            raise MassModeError(
                "a positive, finite band width in micrometres", repr(width_um), 'write it as "boundary_band(16)"'
            )
        object.__setattr__(self, "width_um", float(width_um))

    @classmethod
    def parse(cls, text: str | MassMode) -> MassMode:
        """Read ``"uniform"``, ``"boundary_band(16)"`` and so on; the inverse of ``str``."""
        if isinstance(text, MassMode):
            return text
        match = re.fullmatch(r"\s*(\w+)\s*(?:\((.*)\))?\s*", text) if isinstance(text, str) else None
        if match is None:
            raise MassModeError(f"a mass mode: {_ALL_MODES}", repr(text), "use one of these names")
        name, parameter = match.groups()
        if parameter is None:
            return cls(name)
        try:
            width_um = float(parameter)
        except ValueError as error:
            raise MassModeError(
                "a number between the brackets", repr(text), f"use one of the mass modes: {_ALL_MODES}"
            ) from error
        return cls(name, width_um)

    def __str__(self) -> str:
        return self.name if self.width_um is None else f"{self.name}({self.width_um!r})".replace(".0)", ")")


def mass_density(mask: Mask, mode: str | MassMode) -> NDArray[np.float64]:
    """Return the mass of every pixel.

    Parameters
    ----------
    mask : Mask
        Binary for every mode but ``"intensity"``.
    mode : str or MassMode
        See `MassMode`.

    Returns
    -------
    (H, W) float64 array
        Mass per canonical pixel: 0 outside the mask, and a new, writeable array. Outside
        the canvas is background, so a mask that fills its canvas has a boundary too.
    """
    mode = MassMode.parse(mode)
    if mode.name == "intensity":
        values = mask.values.astype(np.float64)
        # A binary image is stored as bool: give back the 255 that it may have come with.
        return values * mask.inside_value if mask.is_binary else values
    if not mask.is_binary:
        raise GreyImageError(
            f"a binary mask for mass_mode={str(mode)!r}",
            f"a density ({mask.values.dtype})",
            'use mass_mode="intensity", or threshold the image to a binary mask first',
        )
    if mode.name == "uniform":
        return mask.values.astype(np.float64)
    distance_px = _distance_to_background_px(mask.values)
    if mode.width_um is None:
        return distance_px
    width_px = mode.width_um / (1.0 if mask.px_size_um is None else mask.px_size_um)
    # Pixels beside the background are at distance 1: they stay, however thin the band is.
    band = (distance_px > 0) & (distance_px <= max(1.0, width_px * _ROUNDING))
    return band.astype(np.float64)


def _distance_to_background_px(inside: NDArray[Any]) -> NDArray[np.float64]:
    """Euclidean distance in pixels between pixel centres, (H, W); 0 outside the mask."""
    from scipy import ndimage

    distance_px = np.zeros(inside.shape)
    rows, columns = np.flatnonzero(inside.any(axis=1)), np.flatnonzero(inside.any(axis=0))
    if rows.size:
        # The nearest background pixel of a mask pixel lies in the bounding box or in the ring around it.
        box = np.s_[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        distance_px[box] = ndimage.distance_transform_edt(np.pad(inside[box], 1))[1:-1, 1:-1]
    return distance_px
