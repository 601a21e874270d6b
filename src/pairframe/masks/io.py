"""Reading: from a file name to a checked `Mask`, one page at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pairframe.errors import FileError, MaskError
from pairframe.masks.arrays import MAX_PIXELS, channels_hint, looks_like_channels_last
from pairframe.masks.mask import Mask
from pairframe.masks.readers import FORMATS, OUTLINES, ImageSource, SizeYX, format_suffix
from pairframe.masks.readers.outlines import open_outlines
from pairframe.masks.spec import Label, MaskSpec, parse_spec, path_exists
from pairframe.masks.volumes import is_volume, read_planes, volume_hint, voxel_size_um
from pairframe.types import Bool
from pairframe.units import PxSize, Units, checked_px_sides

_IMAGES_BESIDE = (".tif", ".tiff", ".ome.tif", ".ome.tiff", ".png")
_BYTES_PER_PX = 8  # float64
_SAME_SIZE = 1e-3  # relative difference up to which a pixel counts as square

PathOrSpec = str | os.PathLike[str]


def read_mask(
    path: PathOrSpec,
    *,
    label: int | Literal["all"] | None = None,
    page: int | None = None,
    px_size_um: PxSize | None = None,
    density: bool = False,
    shape_hw: tuple[int, int] | None = None,
    max_pixels: int = MAX_PIXELS,
    volume: bool | None = None,
) -> Mask:
    """Read one mask from a PNG, TIFF, ImageJ, OME-TIFF, NPY, NPZ, Zarr, OME-Zarr or NIfTI file, or from ImageJ or GeoJSON outlines.

    Parameters
    ----------
    path : str or path
        ``PATH[@PAGE][:LABEL]``, such as ``labels.tif:3``, ``stack.tif@4:all`` or
        ``img.zarr/labels/cells:all``.
    label : int, "all" or None
        The object with this id, or every positive pixel, of an integer image.
    page : int or None
        0-based index into the flattened leading axes of a stack; of a volume, into those before its three.
    px_size_um : float, (float, float, float) or None
        Side of a pixel, or sides (z, y, x) of a voxel, in micrometres; wins over the metadata of the file.
    density : bool
        Use grey values as mass per pixel.
    shape_hw : (H, W), optional
        Canvas of outlines, which do not know the size of their image. If not given, it is that of an image of the same name
        beside the file. Not for images.
    max_pixels : int
        Refuse, before decoding, a page with more pixels than this, height times width. Chunks, channels and planes that are
        decoded along with it may have eight bytes per pixel of this limit.
    volume : bool, optional
        Whether the planes of a stack are one volume (Z, Y, X). None: if OME or NIfTI metadata say so and no page is chosen;
        any other stack may be a series of images, and needs a page or ``volume=True``.
    """
    if px_size_um is not None:
        px_size_um = checked_px_sides(px_size_um)
        volume = True if isinstance(px_size_um, tuple) else volume
    spec = parse_spec(path).narrowed(page, label)
    found = _read_page(
        spec,
        max_pixels,
        ids=spec.label is not None,
        density=density,
        shape_hw=shape_hw,
        volume=volume,
        is_size_known=px_size_um is not None,
    )
    values = found.values if spec.label is None else _select_label(found.values, spec, spec.label)
    return Mask(
        values,
        px_size_um=found.px_size_um if px_size_um is None else px_size_um,
        source=str(spec),
        density=density,
        coverage=found.is_coverage,
        volume=values.ndim == 3,
        orientation_zyx=found.orientation_zyx,
    )


def read_labels(
    path: PathOrSpec, *, page: int | None = None, max_pixels: int = MAX_PIXELS, volume: bool = False
) -> tuple[NDArray[Any], float | None]:
    """Return a label image, (H, W) integers, and its pixel size in micrometres or None; with `volume`, (Z, Y, X) integers and None."""
    spec = parse_spec(path).narrowed(page, None)
    found = _read_page(spec, max_pixels, ids=True, volume=volume, is_size_known=volume)
    return _as_labels(found.values, spec), None if found.px_size_um is None else Units(found.px_size_um).px_size


def list_labels(path: PathOrSpec, *, page: int | None = None, max_pixels: int = MAX_PIXELS) -> list[int]:
    """Return the positive ids of a label image in rising order."""
    return positive_ids(read_labels(path, page=page, max_pixels=max_pixels)[0])


@contextmanager
def open_source(spec: MaskSpec, shape_hw: tuple[int, int] | None = None) -> Iterator[ImageSource]:
    """Open the file of a mask and read its header; outlines need the canvas, see `read_mask`."""
    if not path_exists(spec.path):
        raise FileError(
            "an existing file",
            f"{str(spec.path)!r}",
            "check the path; a page (a number) and a label (a number or all) follow it as PATH@PAGE:LABEL",
        )
    if not (spec.path.is_file() or spec.path.is_dir()):  # reading a pipe would block
        raise FileError(
            "a file or a folder", f"{str(spec.path)!r}, which is neither", "write the image to a file first"
        )
    with _opened(spec, shape_hw) as source:
        if len(source.shape) < 2:
            raise MaskError(
                "a 2-D image", f"an array of shape {source.shape} in {str(spec)!r}", "save it as (height, width)"
            )
        if min(source.shape) < 0:
            raise FileError("sides >= 0", f"shape {source.shape} in {str(spec)!r}", "write the file again")
        yield source


def _opened(spec: MaskSpec, shape_hw: tuple[int, int] | None) -> AbstractContextManager[ImageSource]:
    suffix = format_suffix(spec.path)
    if suffix in OUTLINES:
        shape, px_size_yx_um = _canvas_beside(spec) if shape_hw is None else (shape_hw, None)
        return open_outlines(OUTLINES[suffix], spec.path, spec.inner, shape, px_size_yx_um)
    form = FORMATS.get(suffix)
    if form is None:
        raise FileError(
            f"one of {', '.join((*FORMATS, *OUTLINES))}",
            f"{str(spec.path)!r}",
            "convert the image to one of these formats",
        )
    if shape_hw is not None:
        raise FileError("shape_hw with outlines only", f"one with {str(spec)!r}", "leave it out: an image has a size")
    return form.open(spec.path, spec.inner)


def _canvas_beside(spec: MaskSpec) -> tuple[tuple[int, int], SizeYX | None]:
    """Size and pixel size of the image on which outlines were drawn: a file of the same name in the same folder."""
    for suffix in _IMAGES_BESIDE:
        image = spec.path.with_name(f"{spec.path.stem}{suffix}")
        if path_exists(image):
            with open_source(MaskSpec(image)) as source:
                height, width = source.shape[-2:]
                return (int(height), int(width)), source.px_size_yx_um(0)
    raise FileError(
        "the size of the image on which the outlines were drawn",
        f"neither a stated size nor an image {spec.path.stem}.tif beside {spec.path.name!r}",
        "give shape_hw=(height, width), columns height_px and width_px in a table, or put the image beside the outlines",
        "shape_hw",
    )


@dataclass(frozen=True, eq=False)
class _Decoded:
    """A page or volume, and what its file says of it; see `ImageSource`."""

    values: NDArray[Any]
    px_size_um: PxSize | None
    is_coverage: bool
    orientation_zyx: str | None = None


def _read_page(
    spec: MaskSpec,
    max_pixels: int,
    *,
    ids: bool,
    density: bool = False,
    shape_hw: tuple[int, int] | None = None,
    volume: bool | None = None,
    is_size_known: bool = False,
) -> _Decoded:
    """Decode the chosen page or volume, after checking all of the header."""
    with open_source(spec, shape_hw) as source:
        if density and not ids and source.instead_of_labels is not None:
            raise FileError(
                "the inner path of the image that holds the density",
                f"{str(spec)!r}, which refers to its labels, and label ids are not a mass",
                f"name it after a slash, such as {source.instead_of_labels}",
            )
        height, width = source.shape[-2:]
        if height * width == 0:
            raise MaskError(
                "at least one pixel", f"a canvas of {height} x {width} px in {str(spec)!r}", "write the file again"
            )
        if source.dtype.kind not in "biuf":
            raise MaskError(
                "bool, integer or float pixels", f"dtype {source.dtype} in {str(spec)!r}", "save the image as numbers"
            )
        read = source.read_ids if ids and source.read_ids is not None else source.read_page
        if is_volume(source, spec, volume):
            # A known size may complete metadata that miss an axis.
            size = None if is_size_known else voxel_size_um(source, 0, spec)
            planes = read_planes(source, spec, read, max_pixels)[0]
            return _Decoded(planes, size, source.is_coverage, source.orientation_zyx)
        page = _choose_page(source, spec)
        if height * width > max_pixels:
            raise FileError(
                f"at most {max_pixels} pixels",
                f"{height} x {width} = {height * width} in {str(spec)!r}",
                "crop the image, or raise max_pixels if you trust the file",
            )
        decoded_bytes = max(height * width, source.decoded_px) * source.dtype.itemsize
        if decoded_bytes > _BYTES_PER_PX * max_pixels:
            raise FileError(
                f"a page that decodes to at most {_BYTES_PER_PX * max_pixels} bytes, {_BYTES_PER_PX} per pixel of max_pixels",
                f"{decoded_bytes} bytes for {height} x {width} px in {str(spec)!r}",
                "store it in smaller chunks, one page each, or raise max_pixels if you trust the file",
            )
        px_size_um = _square_size_um(source.px_size_yx_um(page), spec)
        return _Decoded(read(page), px_size_um, source.is_coverage)


def _choose_page(source: ImageSource, spec: MaskSpec) -> int:
    count = source.page_count
    page = 0 if spec.page is None and count == 1 else spec.page
    if page is None or page >= count:
        raise FileError(
            "the number of one page" if page is None else f"a page from 0 to {count - 1}",
            f"{'none' if page is None else page} for {count} pages of shape {source.shape} in {str(spec)!r}",
            (f"choose one with page=0 or {spec.path.name}@0; the last is {count - 1}" if count else "write it again")
            + (
                f"; {channels_hint(source.shape)}"
                if looks_like_channels_last(source.shape)
                else volume_hint(source, page)
            ),
        )
    return page


def _square_size_um(size_yx_um: SizeYX | None, spec: MaskSpec) -> float | None:
    if size_yx_um is None:
        return None
    size_y, size_x = size_yx_um
    if abs(size_y - size_x) > _SAME_SIZE * max(size_y, size_x):
        raise MaskError(
            "square pixels",
            f"{size_y:g} um high and {size_x:g} um wide in {str(spec)!r}",
            "resample the image to square pixels, or correct the metadata of the file",
        )
    return size_x if size_x == size_y else (size_x + size_y) / 2


def _as_labels(values: NDArray[Any], spec: MaskSpec) -> NDArray[Any]:
    if values.dtype.kind == "f":
        raise FileError(
            "an integer label image",
            f"{values.dtype} pixels in {str(spec)!r}",
            "save the ids as integers, or read the image without a label",
        )
    return values.astype(np.uint8) if values.dtype == np.bool_ else values


def _select_label(values: NDArray[Any], spec: MaskSpec, label: Label) -> Bool:
    labels = _as_labels(values, spec)
    chosen: Bool = labels > 0 if label == "all" else labels == label
    if label != "all" and not chosen.any():
        ids = positive_ids(labels)
        some = ", ".join(str(i) for i in ids[:10]) + (f" and {len(ids) - 10} more" if len(ids) > 10 else "")
        raise FileError(
            "a label that is in the image",
            f"{str(spec)!r}, where the labels are: {some or 'none'}",
            f'choose one of these, or "{spec.path.name}:all"',
        )
    return chosen


def positive_ids(labels: NDArray[Any]) -> list[int]:
    """Return the positive ids of a label image, (H, W) integers, in rising order."""
    highest = int(labels.max())
    if highest > 2**24 or labels.min() < 0:
        ids = np.unique(labels)
        return [int(i) for i in ids[ids > 0]]
    # Flags per id, set row by row, are much faster than sorting all pixels.
    seen = np.zeros(highest + 1, bool)
    for row in labels:
        seen[row] = True
    seen[0] = False
    return [int(i) for i in np.flatnonzero(seen)]
