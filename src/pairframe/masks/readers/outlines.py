"""Outlines as masks: ImageJ regions of interest (.roi, and .zip of a RoiSet) and GeoJSON polygons, as QuPath writes them.

Every outline is an object: together they are the mask, and their numbers, from 1 in the order of the file, the labels.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairframe import checks, files, plain_json
from pairframe.errors import FileError, MaskError
from pairframe.masks.polygons import fill_rings
from pairframe.masks.readers.base import ImageSource, SizeYX, file_errors
from pairframe.types import Bool, Float

MOST_BYTES = 2**26  # of a file, and of all entries of a RoiSet
_MOST_OBJECTS = 65_535
_OVAL_CORNERS = 720
_BEYOND_PX = 1.0  # how far an outline may lie outside of its image: a line is drawn on the border
_AREAS = "outlines with an area"
# What broken files make the libraries raise.
_ERRORS = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    OverflowError,
    EOFError,
    RuntimeError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)
Box = tuple[slice, slice]


@dataclass(frozen=True, eq=False)
class Outline:
    """One object: its names, and parts, each of which is filled by the even-odd rule.

    Attributes
    ----------
    names : tuple of str
        By which it can be chosen: its own, and that of its class.
    parts_xy : list of list of (N, 2)
        Rings of each part, x and y in pixels.
    """

    names: tuple[str, ...]
    parts_xy: list[list[Float]]


Reader = Callable[[Path], list[Outline]]


@contextmanager
def open_outlines(
    read: Reader, path: Path, inner: str | None, shape_hw: tuple[int, int], px_size_yx_um: SizeYX | None
) -> Iterator[ImageSource]:
    """Outlines on a canvas, filled when the page is read; only those named `inner`, if it is given."""
    kind = "GeoJSON" if path.suffix.lower() == ".geojson" else "ImageJ ROI"
    with file_errors(path, kind, *_ERRORS):
        outlines = _chosen(read(path), inner, path)

    def filled() -> Iterator[tuple[int, Box, Bool]]:
        for number, one in enumerate(outlines, 1):
            _check_inside(one, number, shape_hw, path)
            yield from ((number, *_filled(rings, shape_hw)) for rings in one.parts_xy)

    def read_page(_page: int) -> Bool:
        mask = np.zeros(shape_hw, bool)
        for _, box, inside in filled():
            mask[box] |= inside
        return mask

    def read_ids(_page: int) -> NDArray[np.uint16]:
        labels = np.zeros(shape_hw, np.uint16)
        for number, box, inside in filled():
            labels[box][inside] = number
        return labels

    yield ImageSource(shape_hw, np.dtype(bool), read_page, lambda page: px_size_yx_um, read_ids=read_ids)


def read_roi(path: Path) -> list[Outline]:
    """The region of a .roi file."""
    return [_region(_content(path), path.stem, path.name)]


def read_roi_set(path: Path) -> list[Outline]:
    """The regions of a .zip that the ROI manager wrote, in the order of the archive."""
    found, total = [], 0
    with zipfile.ZipFile(path) as archive:
        entries = [entry for entry in archive.infolist() if entry.filename.lower().endswith(".roi")]
        for entry in entries[: _MOST_OBJECTS + 1]:
            with archive.open(entry) as stream:  # the size that the archive declares may be wrong
                content = stream.read(MOST_BYTES - total + 1)
            total += len(content)
            _check_bytes(total, path)
            found.append(_region(content, Path(entry.filename).stem, f"{path.name}/{entry.filename}"))
    return found


def read_geojson(path: Path) -> list[Outline]:
    """The polygons of a feature, a list of features or a collection."""
    whole = plain_json.parse(_content(path))
    features = whole.get("features", [whole]) if isinstance(whole, dict) else whole
    if not isinstance(features, list) or not all(isinstance(one, dict) for one in features):
        raise ValueError("it holds no features")
    return [_feature(one, path) for one in features]


def _feature(feature: dict[str, Any], path: Path) -> Outline:
    geometry = feature.get("geometry", feature) or {}
    kind, rings = geometry.get("type"), geometry.get("coordinates") or []
    if kind not in ("Polygon", "MultiPolygon"):
        raise MaskError(
            f"{_AREAS}: Polygon or MultiPolygon",
            f"{checks.shown(kind)} in {path.name!r}",
            "export areas only, or choose an object by its name",
        )
    polygons: list[Any] = [rings] if kind == "Polygon" else rings
    about = feature.get("properties") or {}
    group = about.get("classification") or {}
    names = [about.get("name"), group.get("name") if isinstance(group, dict) else group]
    parts = [[_ring(ring, path) for ring in polygon] for polygon in polygons]
    return _outline([name for name in names if isinstance(name, str)], parts, path.name)


def _region(content: bytes, name: str, where: str) -> Outline:
    checks.library("roifile", "roi", "reading ImageJ regions of interest")
    import roifile

    roi, kinds = roifile.ImagejRoi.frombytes(content), roifile.ROI_TYPE
    areas = (kinds.POLYGON, kinds.RECT, kinds.OVAL, kinds.FREEHAND, kinds.TRACED)
    if roi.roitype not in areas:
        raise MaskError(
            f"{_AREAS}: polygon, freehand, traced, rectangle, oval or composite",
            f"{roi.roitype.name.lower()} in {where!r}",
            "save areas only, or choose an object by its name",
        )
    if roi.multi_coordinates is not None:
        rings = list(roi.coordinates(multi=True))
    elif roi.roitype in (kinds.RECT, kinds.OVAL):
        left, top, right, bottom = (float(side) for side in (roi.left, roi.top, roi.right, roi.bottom))
        if roi.subpixelrect:
            left, top, right, bottom = roi.xd, roi.yd, roi.xd + roi.widthd, roi.yd + roi.heightd
        rings = [_rectangle(left, top, right, bottom) if roi.roitype == kinds.RECT else _oval(left, top, right, bottom)]
    else:
        rings = [np.asarray(roi.coordinates())]
    return _outline([one for one in (roi.name, name) if one], [[_ring(ring, Path(where)) for ring in rings]], where)


def _outline(names: list[str], parts_xy: list[list[Float]], where: str) -> Outline:
    if not parts_xy or not all(parts_xy):
        raise MaskError(f"{_AREAS}", f"one without corners in {where!r}", "export the outlines again")
    return Outline(tuple(dict.fromkeys(names)), parts_xy)


def _filled(rings_xy: Sequence[Float], shape_hw: tuple[int, int]) -> tuple[Box, Bool]:
    """The pixels inside the rings, and the box of the image that holds them."""
    corners = np.concatenate(rings_xy)
    (left, top), (right, bottom) = np.floor(corners.min(axis=0)), np.ceil(corners.max(axis=0))
    y0, x0 = max(0, int(top)), max(0, int(left))
    y1, x1 = min(shape_hw[0], int(bottom)), min(shape_hw[1], int(right))
    box = slice(y0, max(y0, y1)), slice(x0, max(x0, x1))
    return box, fill_rings([ring - (x0, y0) for ring in rings_xy], (max(0, y1 - y0), max(0, x1 - x0)))


def _rectangle(left: float, top: float, right: float, bottom: float) -> Float:
    return np.array([[left, top], [right, top], [right, bottom], [left, bottom]], float)


def _oval(left: float, top: float, right: float, bottom: float) -> Float:
    turn = np.arange(_OVAL_CORNERS) * (2 * np.pi / _OVAL_CORNERS)
    middle, radii = np.array([left + right, top + bottom]) / 2, np.array([right - left, bottom - top]) / 2
    ring: Float = middle + radii * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    return ring


def _ring(corners: Any, path: Path) -> Float:
    ring = np.asarray(corners, float)
    if ring.ndim != 2 or ring.shape[0] < 3 or ring.shape[1] not in (2, 3) or not np.isfinite(ring).all():
        raise MaskError(
            "rings of at least three corners, x and y in pixels",
            f"one of shape {ring.shape} in {path.name!r}",
            "export the outlines again",
        )
    return ring[:, :2]


def _chosen(outlines: Sequence[Outline], inner: str | None, path: Path) -> list[Outline]:
    found = [one for one in outlines if inner is None or inner in one.names]
    if not found:
        known = ", ".join(repr(name) for one in outlines[:10] for name in one.names) or "none"
        raise FileError(
            "at least one outline" + (f" named {inner!r}" if inner else ""),
            f"{len(outlines)} outlines in {str(path)!r}, with the names {known}"[:300],
            "name one of them after a slash, or export the outlines again",
        )
    if len(found) > _MOST_OBJECTS:
        raise FileError(f"at most {_MOST_OBJECTS} outlines", f"more in {str(path)!r}", "divide the file")
    return found


def _check_inside(one: Outline, number: int, shape_hw: tuple[int, int], path: Path) -> None:
    corners = np.concatenate([ring for part in one.parts_xy for ring in part])
    low, high = corners.min(axis=0), corners.max(axis=0)
    height, width = shape_hw
    if low.min() < -_BEYOND_PX or high[0] > width + _BEYOND_PX or high[1] > height + _BEYOND_PX:
        raise MaskError(
            f"outlines inside their image of {height} x {width} px (height x width)",
            f"outline {number} of {path.name!r}, from x = {low[0]:.6g}, y = {low[1]:.6g} to x = {high[0]:.6g}, y = {high[1]:.6g}",
            "check the size, height before width; coordinates are pixels of the full image",
        )


def _content(path: Path) -> bytes:
    with files.open_regular(path) as stream:
        content = stream.read(MOST_BYTES + 1)
    _check_bytes(len(content), path)
    return content


def _check_bytes(count: int, path: Path) -> None:
    if count > MOST_BYTES:
        raise FileError(f"outlines of at most {MOST_BYTES} bytes", f"more in {str(path)!r}", "simplify them")
