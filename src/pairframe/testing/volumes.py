"""Synthetic volumes with a known truth: a tube that grows at its tip and bends, and a ball."""

from __future__ import annotations

import numpy as np

from pairframe.types import Bool, Float

TUBE_VOXEL_UM = (4.0, 2.0, 2.0)


def ball(
    shape_zyx: tuple[int, int, int],
    centre_zyx_px: tuple[float, float, float],
    radius_um: float,
    voxel_um: tuple[float, float, float] = (1.0, 1.0, 1.0),
) -> Bool:
    """A ball, (Z, Y, X): voxels whose centres are at most `radius_um` from the centre, which is in voxels."""
    squared = sum(
        ((x - centre) * side) ** 2 for x, centre, side in zip(_grid(shape_zyx), centre_zyx_px, voxel_um, strict=True)
    )
    return np.asarray(squared <= radius_um**2)


def growing_tube(
    n_frames: int = 4,
    shape_zyx: tuple[int, int, int] = (40, 80, 110),
    voxel_um: tuple[float, float, float] = TUBE_VOXEL_UM,
) -> list[Bool]:
    """Frames (Z, Y, X) of a hollow tube along x that grows at its tip, on the right, and bends as it does.

    From frame to frame it is longer by 6 % of the canvas; its tip bends down and towards higher planes.
    """
    z, y, x = (place * side for place, side in zip(_grid(shape_zyx), voxel_um, strict=True))
    depth, height, width = (n * side for n, side in zip(shape_zyx, voxel_um, strict=True))
    return [_tube(z, y, x, (depth, height, width), 0.45 + 0.06 * k, 0.08 + 0.03 * k) for k in range(n_frames)]


def _tube(z: Float, y: Float, x: Float, size_um: tuple[float, ...], length: float, bend: float) -> Bool:
    """A tube from a tenth of the canvas on, `length` of its width long, whose axis falls by `bend` of it at the end."""
    depth, height, width = size_um
    along = (x / width - 0.1) / length
    axis_y, axis_z = 0.36 * height + bend * width * along**2, 0.45 * depth + 0.4 * bend * width * along**2
    radius = 0.19 * height * (1.0 - 0.25 * along)
    from_axis = np.sqrt((y - axis_y) ** 2 + (z - axis_z) ** 2)
    inside = (along >= 0.0) & (along <= 1.0) & (from_axis <= radius)
    lumen = (along < 0.8) & (from_axis <= 0.45 * radius)
    return np.asarray(inside & ~lumen)


def _grid(shape_zyx: tuple[int, int, int]) -> list[Float]:
    """Places of the voxels along each axis, as arrays that broadcast."""
    return list(np.meshgrid(*(np.arange(n, dtype=np.float64) for n in shape_zyx), indexing="ij", sparse=True))
