"""Write masks. A crash never leaves an incomplete file under the final name."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import IO

import numpy as np

from pairframe import files
from pairframe.errors import FileError, GreyImageError, PixelSizeError
from pairframe.masks.mask import Mask
from pairframe.masks.readers.tiff import COVERAGE_NOTE, EXACT_SIZE_KEY
from pairframe.units import AXES

# Types in the OME schema, which has no 64-bit integers and no half floats.
_OME_DTYPES = {"bool", "int8", "int16", "int32", "uint8", "uint16", "uint32", "float32", "float64"}

# ImageJ keeps 1 / size as a ratio of two 32-bit integers.
_IMAGEJ_LEAST_UM, _IMAGEJ_LARGEST_UM = 1e-9, 1e9


def write_mask(mask: Mask, path: str | os.PathLike[str], overwrite: bool = False) -> None:
    """Write a mask as .tif, .tiff, .png or .npy, without loss.

    A TIFF keeps the pixel size. A binary mask becomes an ImageJ TIFF (0 and 255) that
    Fiji opens calibrated; a density, or a name in ``.ome.tif``, becomes an OME-TIFF. One of a
    coverage says so, and is read as a coverage again.
    A PNG holds binary masks only. PNG and NPY lose the pixel size: give
    ``px_size_um=`` again when you read them. Source and history are not written.

    Parameters
    ----------
    mask : Mask
        The mask to write.
    path : str or path
        Used as given; the extension decides the format.
    overwrite : bool
        Replace an existing file, in one step.
    """
    path = files.checked_path(path, FileError)
    write = _WRITERS.get(path.suffix.lower())
    if write is None:
        raise FileError(f"one of {', '.join(_WRITERS)} to write", f"{str(path)!r}", "change the extension")
    if os.path.lexists(path) and (not overwrite or path.is_dir()):
        raise FileError("a new file", f"{str(path)!r}, which exists", "choose another name or pass overwrite=True")
    if not path.parent.is_dir():
        raise FileError("an existing folder", f"{str(path.parent)!r}", "create the folder first")
    try:
        with files.new_file(path) as stream:
            write(mask, stream, path)
    except OSError as error:
        raise FileError(
            "a place to write to",
            f"{str(path)!r}, where it fails with: {error}",
            "check the free space and the permissions of the folder",
        ) from error


def _write_tiff(mask: Mask, stream: IO[bytes], path: Path) -> None:
    import tifffile

    is_ome = path.stem.lower().endswith(".ome")
    if mask.volume and not is_ome:
        raise FileError(
            "an OME-TIFF for a volume, which says that its planes are one",
            f"{path.name!r}",
            f"write it as {path.stem}.ome.tif",
        )
    px_size_um = None if mask.px_size_um is None else mask.units.px_size
    if mask.is_binary and not is_ome:
        pixels = mask.values.astype(np.uint8) * np.uint8(255)
        if px_size_um is None:
            tifffile.imwrite(stream, pixels, imagej=True)
            return
        if not _IMAGEJ_LEAST_UM <= px_size_um <= _IMAGEJ_LARGEST_UM:
            raise PixelSizeError(
                f"a pixel size from {_IMAGEJ_LEAST_UM:g} to {_IMAGEJ_LARGEST_UM:g} um, as an ImageJ TIFF can hold",
                f"{px_size_um:g} um",
                f"check the unit, or write an OME-TIFF: {path.stem}.ome{path.suffix}",
            )
        metadata = {"unit": "micron", EXACT_SIZE_KEY: repr(px_size_um)}
        resolution = (1 / px_size_um, 1 / px_size_um)
        tifffile.imwrite(stream, pixels, imagej=True, resolution=resolution, metadata=metadata)
        return
    values = mask.values.astype(np.uint8) * np.uint8(255) if mask.volume and mask.is_binary else mask.values
    if values.dtype.name not in _OME_DTYPES:
        raise FileError(
            "a density that an OME-TIFF can hold (integers up to 32 bit, float32, float64)",
            f"dtype {mask.values.dtype}",
            "convert the density to float64, or write it as .npy",
        )
    axes = AXES[mask.values.ndim]
    sides = {} if px_size_um is None else dict(zip(axes, mask.units.px_sides, strict=True))
    size = {f"PhysicalSize{axis.upper()}": side for axis, side in sides.items()}
    units = {f"PhysicalSize{axis.upper()}Unit": "\u00b5m" for axis in sides}
    note = {"Description": COVERAGE_NOTE} if mask.coverage else {}
    about: dict[str, object] = {"axes": "".join(axes).upper(), **size, **units, **note}
    # Moved masks are mostly zeros and ones in eight bytes each: deflated they are 20 times smaller.
    compression = "zlib" if mask.coverage or mask.volume else None
    tifffile.imwrite(stream, values, ome=True, photometric="minisblack", metadata=about, compression=compression)


def _write_png(mask: Mask, stream: IO[bytes], path: Path) -> None:
    from PIL import Image

    if mask.volume:
        raise FileError("a format that holds volumes", "a PNG", f"write it as {path.stem}.ome.tif")
    if not mask.is_binary:
        raise GreyImageError("a binary mask for PNG", f"a density ({mask.values.dtype})", "write it as .tif or .npy")
    Image.fromarray(mask.values.astype(np.uint8) * np.uint8(255)).save(stream, format="PNG")


def _write_npy(mask: Mask, stream: IO[bytes], path: Path) -> None:
    np.save(stream, mask.values, allow_pickle=False)


_WRITERS: dict[str, Callable[[Mask, IO[bytes], Path], None]] = {
    ".tif": _write_tiff,
    ".tiff": _write_tiff,
    ".png": _write_png,
    ".npy": _write_npy,
}
