"""TIFF, ImageJ stacks and OME-TIFF, read with tifffile.

The resolution of a plain TIFF is ignored, because most programs write 72 dpi or nothing.
Pixels are returned as stored: neither a colour table nor "min is white" changes them.
"""

from __future__ import annotations

import logging
import struct
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from pairframe import checks
from pairframe.errors import FileError, PixelSizeError
from pairframe.masks.readers.base import (
    ImageSource,
    SizeYX,
    file_errors,
    grey_from_channels,
    require_few_channels,
)
from pairframe.masks.readers.units import length_um, micrometres_in, size_yx_um

if TYPE_CHECKING:
    from tifffile import TiffFile, TiffPageSeries

# ImageJ stores 1 / size as a ratio of two 32-bit integers; this key stores the size exactly.
EXACT_SIZE_KEY = "pairframe_px_size_um"
# The description of an OME-TIFF whose pixels are shares that a mask covers, see `Mask.coverage`.
COVERAGE_NOTE = "pairframe: share of each pixel that a mask covers"


@contextmanager
def open_tiff(path: Path, inner: str | None) -> Iterator[ImageSource]:
    """Open a TIFF; pages of all series are numbered in file order.

    Only pages in this file are read, also if an OME-TIFF consists of several files.
    """
    from tifffile import TiffFile, TiffFileError

    # tifffile trusts the tags it reads, so a damaged tag may raise any of these, ZeroDivisionError included.
    errors = (OSError, ValueError, LookupError, ArithmeticError, TypeError, AttributeError, RuntimeError, struct.error)
    with (
        file_errors(path, "TIFF", *errors, zlib.error, TiffFileError),
        _codec_errors(path),
        _quiet_log() as logged_errors,
        TiffFile(path, _multifile=False) as tiff,
    ):
        series = _equal_series(tiff, path)
        first = series[0]
        if logged_errors:
            raise ValueError(logged_errors[0])
        # Samples (colour) come last, or are pages when they are stored as planes.
        shape = first.shape[:-1] if _has_channels(first) else first.shape
        pages_each = int(np.prod(shape[:-2], dtype=np.int64))
        one_by_one = len(first) == pages_each and not first.is_truncated
        keyframe = first.keyframe
        if _has_channels(first):
            require_few_channels(first.shape[-1], path.name)
        page_px = keyframe.tilewidth * keyframe.tilelength if keyframe.is_tiled else shape[-2] * shape[-1]

        def read_page(page: int) -> NDArray[Any]:
            which, index = divmod(page, pages_each)
            pixels = _read_plane(tiff, series[which], index, one_by_one)
            if logged_errors:
                raise ValueError(logged_errors[0])
            return grey_from_channels(pixels, path.name) if _has_channels(first) else pixels

        yield ImageSource(
            shape=shape if len(series) == 1 else (len(series), *shape),
            dtype=np.dtype(first.dtype),
            read_page=read_page,
            px_size_yx_um=lambda page: _px_size_yx_um(tiff, series, page // pages_each, path),
            is_coverage=np.dtype(first.dtype).kind == "f" and COVERAGE_NOTE in (tiff.ome_metadata or ""),
            decoded_px=page_px * keyframe.samplesperpixel if one_by_one or first.is_truncated else first.size,
            axes=(axes := _axes(first, len(shape)) if len(series) == 1 else None),
            # ImageJ calls the pages of any stack slices; OME means depth when it says so.
            is_volume=bool(tiff.is_ome) and axes is not None and axes.endswith("ZYX"),
            plane_distance_um=lambda page: _plane_distance_um(tiff),
            sides_without_unit_zyx=_sides_without_unit_zyx(tiff),
        )


def _equal_series(tiff: TiffFile, path: Path) -> list[TiffPageSeries]:
    series = list(tiff.series)
    if not series or series[0].dtype is None:
        raise FileError("at least one image", f"none in {str(path)!r}", "write the file again")
    if len({(one.shape, one.dtype) for one in series}) > 1:
        shapes = ", ".join(str(one.shape) for one in series[:5])
        raise FileError(
            "images of one size in the file",
            f"{len(series)} series of shapes {shapes} in {str(path)!r}",
            "save that series as a separate file",
        )
    return series


def _has_channels(series: TiffPageSeries) -> bool:
    return bool(series.axes.endswith("S")) and len(series.shape) > 2


def _axes(series: TiffPageSeries, n_axes: int) -> str | None:
    """The letters of the axes as ImageJ and OME name them; None if they are unknown, which tifffile calls I or Q."""
    axes = str(series.axes)[:n_axes]
    return axes if len(axes) == n_axes and axes.endswith("YX") and not set(axes) & set("IQ") else None


def _read_plane(tiff: TiffFile, series: TiffPageSeries, index: int, one_by_one: bool) -> NDArray[Any]:
    """Return one (H, W) or (H, W, C) plane of a series."""
    height_width = series.shape[-2:]
    if one_by_one:
        page = series[index]
        if page is None:
            raise ValueError(f"page {index} is named in the metadata but is not in the file")
        ends = [start + length for start, length in zip(page.dataoffsets, page.databytecounts, strict=True)]
        # tifffile fills up some incomplete pages with zeros.
        if max(ends, default=0) > tiff.filehandle.size:
            raise ValueError(f"the file ends before page {index} does")
        pixels: NDArray[Any] = page.asarray()
        return pixels
    if series.is_truncated and series.dataoffset is not None and not _has_channels(series):
        # ImageJ describes only the first page of a large stack; the others follow without a header.
        dtype = np.dtype(series.dtype).newbyteorder(tiff.byteorder)
        count = height_width[0] * height_width[1]
        start = series.dataoffset + index * count * dtype.itemsize
        plane: NDArray[Any] = np.fromfile(tiff.filehandle.path, dtype, count, offset=start)
        return plane.reshape(height_width)
    everything: NDArray[Any] = series.asarray()
    axes = 3 if _has_channels(series) else 2
    planes: list[NDArray[Any]] = list(everything.reshape(-1, *series.shape[-axes:]))
    return planes[index]


def _px_size_yx_um(tiff: TiffFile, series: list[TiffPageSeries], which: int, path: Path) -> SizeYX | None:
    if tiff.is_ome and tiff.ome_metadata:
        sizes = _ome_sizes(tiff.ome_metadata)
        if len(set(sizes)) <= 1:
            return sizes[0] if sizes else None
        # tifffile makes one series per image but leaves out images without pixels in the file.
        if len(sizes) == len(series) and all(one.kind == "ome" for one in series):
            return sizes[which]
        raise PixelSizeError(
            "one pixel size, or one for each image in the file",
            f"{len(sizes)} of them for {len(series)} images in {str(path)!r}",
            "save that image as a separate file",
        )
    if not tiff.is_imagej:
        return None
    metadata = tiff.imagej_metadata or {}
    tags = tiff.pages.first.tags
    per_unit = [tags[name].value if name in tags else (0, 1) for name in ("YResolution", "XResolution")]
    if any(pixels == 0 for pixels, _ in per_unit):
        return None
    side_y, side_x = (units / pixels for pixels, units in per_unit)
    unit = metadata.get("unit")
    # "yunit" and "xunit" differ from "unit" only when the axes were calibrated one by one.
    size = size_yx_um(side_y, metadata.get("yunit", unit), side_x, unit)
    exact = metadata.get(EXACT_SIZE_KEY)
    if size is not None and isinstance(exact, int | float) and np.allclose(size, exact, rtol=1e-6, atol=0):
        return float(exact), float(exact)
    return size


def _plane_distance_um(tiff: TiffFile) -> float | None:
    """Distance of neighbouring planes of the first image, as OME or ImageJ has it."""
    if tiff.is_ome and tiff.ome_metadata:
        node = next(iter(_ome_pixels(tiff.ome_metadata)), None)
        return None if node is None else length_um(node.get("PhysicalSizeZ"), node.get("PhysicalSizeZUnit", "\u00b5m"))
    metadata = (tiff.imagej_metadata or {}) if tiff.is_imagej else {}
    return length_um(metadata.get("spacing"), metadata.get("zunit", metadata.get("unit")))


def _ome_pixels(xml: str) -> list[ElementTree.Element]:
    try:
        return [node for node in ElementTree.fromstring(xml).iter() if node.tag.endswith("}Pixels")]
    except ElementTree.ParseError as error:
        raise ValueError(f"OME-XML that does not parse: {error}") from error


def _sides_without_unit_zyx(tiff: TiffFile) -> tuple[float, float, float] | None:
    """Sides of a voxel of the first image whose unit is missing or is no length, such as the pixel."""
    given: list[Any] = []
    if tiff.is_ome and tiff.ome_metadata:
        node = next(iter(_ome_pixels(tiff.ome_metadata)), None)
        if node is not None and not any(micrometres_in(node.get(f"PhysicalSize{axis}Unit", "um")) for axis in "ZYX"):
            given = [node.get(f"PhysicalSize{axis}") for axis in "ZYX"]
    elif tiff.is_imagej:
        metadata = tiff.imagej_metadata or {}
        if "spacing" in metadata and not any(micrometres_in(metadata.get(name)) for name in ("unit", "zunit")):
            given = [metadata["spacing"], 1.0, 1.0]  # in pixels, if it has no other unit
    try:
        z, y, x = (float(side) for side in given)
    except (TypeError, ValueError):
        return None
    return z, y, x


def _ome_sizes(xml: str) -> list[SizeYX | None]:
    """The pixel size of each image, in the order of the metadata."""
    nodes = _ome_pixels(xml)
    # The schema says that a missing unit is the micrometre.
    sides = [
        [(node.get(f"PhysicalSize{axis}"), node.get(f"PhysicalSize{axis}Unit", "\u00b5m")) for axis in ("Y", "X")]
        for node in nodes
    ]
    return [size_yx_um(*y, *x) for y, x in sides]


@contextmanager
def _codec_errors(path: Path) -> Iterator[None]:
    """Name the library that decodes a compression which tifffile alone cannot decode."""
    try:
        yield
    except (ImportError, ValueError, NotImplementedError) as error:
        if isinstance(error, ImportError) or "imagecodecs" in str(error):
            checks.library("imagecodecs", "codecs", f"the compression of {str(path)!r}")
        raise


@contextmanager
def _quiet_log() -> Iterator[list[str]]:
    """Keep tifffile's log messages of this thread off stderr; collect its errors."""
    logged_errors: list[str] = []
    thread = threading.get_ident()

    def keep(record: logging.LogRecord) -> bool:
        if record.thread != thread:
            return True
        if record.levelno >= logging.ERROR:
            logged_errors.append(record.getMessage())
        return False

    logger = logging.getLogger("tifffile")
    logger.addFilter(keep)
    try:
        yield logged_errors
    finally:
        logger.removeFilter(keep)
