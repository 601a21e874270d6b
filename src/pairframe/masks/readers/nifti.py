"""NIfTI volumes, read with nibabel: an array (x, y, z), or (x, y, z, t), becomes pages (y, x) of (z) or (t, z).

Planes, rows and columns are the array's own; the orientation in the scanner, which the affine holds, is read but not applied.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairframe import checks
from pairframe.errors import MaskError
from pairframe.masks.readers.base import ImageSource, SizeYX, file_errors
from pairframe.masks.readers.units import length_um

_CLEAR = (
    0.8  # cosine of an axis with the nearest one of the body, about 37 degrees: beyond it, its letter may be another
)
_UNITS = {"meter": "m", "mm": "mm", "micron": "um"}


@contextmanager
def open_nifti(path: Path, inner: str | None) -> Iterator[ImageSource]:
    """Open a .nii or .nii.gz file; its planes are a volume by definition."""
    checks.library("nibabel", "nifti", f"reading {path.name!r}")
    import nibabel

    errors = (OSError, ValueError, LookupError, TypeError, EOFError, nibabel.filebasedimages.ImageFileError)
    with file_errors(path, "NIfTI", *errors):
        image: Any = nibabel.load(path)
        shape = tuple(int(side) for side in image.shape)
        if len(shape) not in (3, 4):
            raise MaskError(
                "a NIfTI volume with three axes, or four with time", f"shape {shape} in {str(path)!r}", "save a volume"
            )
        unit = _UNITS.get(image.header.get_xyzt_units()[0])
        x, y, z = (length_um(size, unit) for size in image.header.get_zooms()[:3])
        size: SizeYX | None = None if x is None or y is None else (y, x)
        zooms = tuple(float(side) for side in image.header.get_zooms()[2::-1])
        pages = shape[:1:-1]

        def read_page(page: int) -> NDArray[Any]:
            place = tuple(int(k) for k in np.unravel_index(page, pages))
            plane = np.asarray(image.dataobj[(slice(None), slice(None), *place[::-1])]).T
            # A scaled file gives floats; a mask or labels stay whole numbers.
            is_whole = plane.dtype.kind == "f" and image.get_data_dtype().kind in "iu" and (plane % 1 == 0).all()
            return plane.astype(np.int64) if is_whole else plane

        yield ImageSource(
            shape=(*pages, shape[1], shape[0]),
            dtype=np.dtype(image.get_data_dtype()),
            read_page=read_page,
            px_size_yx_um=lambda page: size,
            axes="TZYX"[-len(shape) :],
            is_volume=True,
            plane_distance_um=lambda page: z,
            sides_without_unit_zyx=(zooms[0], zooms[1], zooms[2]) if unit is None else None,
            orientation_zyx=_orientation_zyx(image),
        )


def _orientation_zyx(image: Any) -> str | None:
    """Letters such as ``SAR``; None if the file says nothing of it, nothing that makes sense, or is far from all of them."""
    from nibabel import orientations

    if int(image.header["qform_code"]) == 0 and int(image.header["sform_code"]) == 0:
        return None
    turned = np.asarray(image.affine, dtype=np.float64)[:3, :3]
    if not np.isfinite(turned).all() or abs(np.linalg.det(turned)) == 0.0:
        return None
    cosines = np.abs(turned) / np.linalg.norm(turned, axis=0)
    if cosines.max(axis=0).min() < _CLEAR:
        return None
    axis_codes: Any = orientations.aff2axcodes
    return "".join(axis_codes(image.affine)[::-1])
