"""Whether the pages of a stack are planes of volumes: as the user or the metadata say, and an error if neither does."""

from __future__ import annotations

import math
from dataclasses import replace

from pairframe.errors import ManifestError
from pairframe.masks import MaskSpec
from pairframe.masks.headers import has_depth
from pairframe.masks.volumes import NOT_DEPTH

_BOTH = "use --volume (volume=True) if they are planes of one volume, and --no-volume if each is an image"


def holds_volumes(
    spec: MaskSpec, shape: tuple[int, ...], axes: str | None, found: str | None, said: bool | None
) -> bool:
    """Whether each mask of a stack is a volume.

    Parameters
    ----------
    shape : tuple of int
        (..., H, W)
    axes, found : str, optional
        Letters of the axes, as the user and as the file has them.
    said : bool, optional
        What the user says.
    """
    if said is False or len(shape) < 3 or shape[-3] == 1:
        return False
    letters = found if axes is None else axes.upper()
    letter = letters[-3] if letters is not None and len(letters) == len(shape) else None
    if said and letter in NOT_DEPTH:
        raise ManifestError(
            "planes of volumes",
            f"{shape[-3]} {NOT_DEPTH[letter]} in {str(spec)!r}, {'as its metadata say' if axes is None else f'as --axes {axes} says'}",
            "leave out --volume (volume=True): they are compared as images",
            "volume",
        )
    known = said or (has_depth(str(replace(spec, page=None, label=None))) and letter == "Z")
    if not known and len(shape) > 3 and letter in ("Z", None):
        sides = " x ".join(map(str, shape))
        raise ManifestError(
            f"a choice for the {shape[-3]} pages of each time point: planes of a volume, or images",
            f"a stack of {sides}{'' if letters is None else f' ({letters})'} in {str(spec)!r}",
            f"{_BOTH}{'; name the axes too, such as --axes TCYX' if letters is None else ' of a series of its own'}",
            "volume",
        )
    if known and math.prod(shape[:-3]) == 1:
        raise ManifestError(
            "at least two masks to compare",
            f"one volume of {' x '.join(map(str, shape[-3:]))} voxels in {str(spec)!r}",
            "give a folder or a table of volumes, or pairframe compare A B; if its planes are frames of a time series, "
            "use --no-volume (volume=False)",
            "volume",
        )
    return known
