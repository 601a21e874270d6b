"""Columns for volumes; null (fields of a result: NaN) for images."""

from __future__ import annotations

from pairframe.results.column import count, number

# Each of these is a field of `TransportResult`.
VOLUME_FIELDS = (
    number("volume_source_um3", "um^3", "volume of the source's voxels; NaN for images"),
    number("volume_target_um3", "um^3", "volume of the target's voxels; NaN for images"),
)

VOLUME = (
    number("volume_created_um3", "um^3", "volume of the created mass; NaN unless mass counts voxels"),
    number("volume_destroyed_um3", "um^3", "volume of the destroyed mass; NaN unless mass counts voxels"),
    number("volume_moved_um3", "um^3", "volume of the moved mass; NaN unless mass counts voxels"),
    number("mean_displacement_dz_um", "um", "mean displacement vector of the moved mass: towards higher planes"),
    number("motion_shift_dz_um", "um", "mean of the whole displacement of the moved mass: towards higher planes"),
    number("px_size_z_um", "um", "distance of neighbouring planes; 1 if unknown, like the next two"),
    number("px_size_y_um", "um", "height of a voxel in its plane"),
    number("px_size_x_um", "um", "width of a voxel in its plane"),
    count("canon_depth_px", "px", "number of planes of the canvas"),
    count("work_grid_depth_px", "work px", "number of planes of the work grid"),
)
