"""The formats that can be read. A new one is a function and one line in `FORMATS`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from pairframe.masks.readers.base import ImageSource, SizeYX
from pairframe.masks.readers.nifti import open_nifti
from pairframe.masks.readers.numpy_files import open_npy, open_npz
from pairframe.masks.readers.outlines import Reader, read_geojson, read_roi, read_roi_set
from pairframe.masks.readers.png import open_png
from pairframe.masks.readers.tiff import open_tiff
from pairframe.masks.readers.zarr_files import open_zarr

__all__ = ["FORMATS", "INNER_PATHS", "OUTLINES", "Format", "ImageSource", "SizeYX", "format_suffix"]


@dataclass(frozen=True)
class Format:
    """How to open a file of one kind, and whether inner paths follow its name."""

    open: Callable[[Path, str | None], AbstractContextManager[ImageSource]]
    has_inner_paths: bool = False


FORMATS = {
    ".png": Format(open_png),
    ".tif": Format(open_tiff),
    ".tiff": Format(open_tiff),
    ".npy": Format(open_npy),
    ".npz": Format(open_npz, has_inner_paths=True),
    ".zarr": Format(open_zarr, has_inner_paths=True),
    ".nii": Format(open_nifti),
    ".nii.gz": Format(open_nifti),
}
# Outlines do not know the size of their image.
OUTLINES: dict[str, Reader] = {".roi": read_roi, ".zip": read_roi_set, ".geojson": read_geojson}


def format_suffix(path: Path) -> str:
    """The extension that says how a file is read, in small letters: ``.tif``, and ``.nii.gz`` as a whole."""
    name = path.name.lower()
    return ".nii.gz" if name.endswith(".nii.gz") else path.suffix.lower()


INNER_PATHS = (*(suffix for suffix, form in FORMATS.items() if form.has_inner_paths), ".zip", ".geojson")
