"""Volumes in files: which pages are the planes of one volume, and how far apart they are."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairframe.errors import FileError, MaskError, PixelSizeError
from pairframe.masks.readers import ImageSource
from pairframe.masks.spec import MaskSpec
from pairframe.units import PxSize

_BYTES_PER_VOXEL = 8  # float64
_SAME_SIZE = 1e-3  # relative difference up to which a voxel counts as a cube
NOT_DEPTH = {"T": "time points", "C": "channels", "S": "samples"}


def is_volume(source: ImageSource, spec: MaskSpec, said: bool | None) -> bool:
    """Whether to read a volume: as the user said, else if the metadata say that the file is just one, and no page was chosen."""
    if said is not None:
        return said
    if not source.is_volume or source.shape[-3] == 1:
        return False
    is_one = math.prod(source.shape[:-3]) == 1
    if spec.page is not None and not is_one:
        raise FileError(
            "a choice between volumes and images",
            f"number {spec.page} of {str(spec)!r}, which holds volumes: a volume or a plane may be meant",
            "use volume=True (--volume) for that volume, or volume=False (--no-volume) for that plane",
        )
    return spec.page is None and is_one


def volume_hint(source: ImageSource, page: int | None) -> str:
    """Advice for a stack without a chosen page, which may be a volume."""
    may_be = page is None and len(source.shape) > 2 and source.shape[-3] > 1
    return "; if the pages are planes of one volume, say so with volume=True (--volume)" if may_be else ""


def read_planes(
    source: ImageSource, spec: MaskSpec, read: Callable[[int], NDArray[Any]], max_pixels: int
) -> tuple[NDArray[Any], int]:
    """The volume (Z, Y, X), and the number of its first page. `spec.page` is the number of a volume if there are several."""
    if len(source.shape) < 3:
        raise MaskError(
            "a volume, a stack of planes (z, y, x)",
            f"one image of shape {source.shape} in {str(spec)!r}",
            "compare images without volume=True (--volume)",
        )
    _require_depth(source, spec)
    depth, height, width = source.shape[-3:]
    count = math.prod(source.shape[:-3])
    which = 0 if spec.page is None and count == 1 else spec.page
    if which is None or which >= count:
        raise FileError(
            "the number of one volume" if which is None else f"a volume from 0 to {count - 1}",
            f"{'none' if which is None else which} for {count} volumes of shape {source.shape} in {str(spec)!r}",
            f"choose one, such as {spec.path.name}@0; the last is {count - 1}",
        )
    if depth * height * width > max_pixels:
        raise FileError(
            f"at most {max_pixels} voxels",
            f"{depth} x {height} x {width} = {depth * height * width} in {str(spec)!r}",
            "crop the volume, or raise max_pixels if you trust the file",
        )
    decoded_bytes = source.decoded_px * source.dtype.itemsize
    if decoded_bytes > _BYTES_PER_VOXEL * max_pixels:
        raise FileError(
            f"planes that decode to at most {_BYTES_PER_VOXEL * max_pixels} bytes",
            f"{decoded_bytes} bytes in {str(spec)!r}",
            "store the volume in smaller chunks, or raise max_pixels if you trust the file",
        )
    first = which * depth
    if source.read_volume is not None and read is source.read_page:
        return source.read_volume(which), first
    planes: NDArray[Any] | None = None
    for k in range(depth):
        plane = read(first + k)
        if planes is None:
            planes = np.empty((depth, *plane.shape), plane.dtype)
        planes[k] = plane
    assert planes is not None  # a volume has planes
    return planes, first


def _require_depth(source: ImageSource, spec: MaskSpec) -> None:
    axis = None if source.axes is None else source.axes[-3]
    if axis in NOT_DEPTH and source.shape[-3] > 1:
        raise MaskError(
            "planes of a volume",
            f"{source.shape[-3]} {NOT_DEPTH[axis]} in {str(spec)!r}, as its metadata say",
            f"compare two of them as images, such as {spec.path.name}@0 and {spec.path.name}@1 without volume=True "
            "(--volume), or correct the metadata",
        )


def _require_cube(source: ImageSource, spec: MaskSpec) -> None:
    """Refuse sides without a unit that differ: lengths in voxels would take them for equal."""
    sides = source.sides_without_unit_zyx
    if sides is None or not all(math.isfinite(side) and side > 0 for side in sides):
        return
    if max(sides) > (1.0 + _SAME_SIZE) * min(sides):
        z, y, x = (f"{side:g}" for side in sides)
        raise PixelSizeError(
            "the unit of the sides of a voxel that is no cube",
            f"{z} x {y} x {x} (z, y, x) without a unit of length in {str(spec)!r}",
            f"give the sides in um, such as px_size_um=({z}, {y}, {x}) (--px-size-um {z},{y},{x})",
            field="px_size_um",
        )


def voxel_size_um(source: ImageSource, page: int, spec: MaskSpec) -> PxSize | None:
    """Sides (z, y, x) of a voxel; None if the file has none. An error if only some of them are known."""
    size, distance = source.px_size_yx_um(page), source.plane_distance_um(page)
    if size is None and distance is None:
        _require_cube(source, spec)
        return None
    if size is None or distance is None:
        known = f"{distance:g} um along z only" if size is None else f"{size[0]:g} x {size[1]:g} um in the plane only"
        raise PixelSizeError(
            "the size of a voxel along all three axes",
            f"{known} in {str(spec)!r}",
            "give all three sides, px_size_um=(z, y, x) (--px-size-um 2.5,1,1)",
            field="px_size_um",
        )
    return distance, *size
