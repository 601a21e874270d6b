"""What the header of a file says: pages, canvas, axes, and whether it is a volume. No pixel is decoded."""

from __future__ import annotations

from pairframe.masks.io import PathOrSpec, open_source
from pairframe.masks.spec import parse_spec
from pairframe.masks.volumes import is_volume


def count_pages(path: PathOrSpec) -> int:
    """Return the number of 2-D pages in the file; only its header is read."""
    with open_source(parse_spec(path)) as source:
        return source.page_count


def stack_header(path: PathOrSpec) -> tuple[tuple[int, ...], str | None]:
    """Return the shape (..., H, W) and, if the file names them, the letters of its axes; only the header is read."""
    with open_source(parse_spec(path)) as source:
        return source.shape, source.axes


def canvas_shape(path: PathOrSpec, *, shape_hw: tuple[int, int] | None = None) -> tuple[int, int]:
    """Return height and width of the pages in pixels; only the header is read. For `shape_hw` see `read_mask`."""
    with open_source(parse_spec(path), shape_hw) as source:
        height, width = source.shape[-2:]
        return int(height), int(width)


def has_depth(path: PathOrSpec) -> bool:
    """Whether OME or NIfTI metadata say that the pages are planes of volumes, one or several; only the header is read."""
    with open_source(parse_spec(path)) as source:
        return source.is_volume and source.shape[-3] > 1


def volume_shape(
    path: PathOrSpec, *, volume: bool | None = None, shape_hw: tuple[int, int] | None = None
) -> tuple[int, int, int] | None:
    """Return the shape (Z, Y, X) of the volume that `read_mask` would read, None for an image; only the header is read."""
    spec = parse_spec(path)
    with open_source(spec, shape_hw) as source:
        if len(source.shape) < 3 or not is_volume(source, spec, volume):
            return None
        depth, height, width = source.shape[-3:]
        return int(depth), int(height), int(width)
