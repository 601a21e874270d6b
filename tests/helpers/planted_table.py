"""A planted cohort as files: a table of frames, their masks and their yolks."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path

import pairframe as pf
from pairframe.alignment import Similarity
from pairframe.cohort import AlignedCohort
from pairframe.testing import PlantedFrame

WRONG_DEG = 20.0


def write_table(frames: Sequence[PlantedFrame], folder: Path, columns: Sequence[str] = ("yolk", "group")) -> Path:
    """Write masks, yolks and the table ``frames.csv``."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "frames.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["path", "series", "frame", *columns])
        for one in frames:
            name = f"{one.series}_{one.frame}"
            cells = {"yolk": f"{name}_yolk.tif", "group": "mutant" if one.series.endswith("1") else "wildtype"}
            for pixels, file in ((one.mask, f"{name}.tif"), (one.yolk, f"{name}_yolk.tif")):
                pf.write_mask(pf.Mask.from_array(pixels, px_size_um=one.px_size_um), folder / file, overwrite=True)
            writer.writerow([f"{name}.tif", one.series, one.frame, *(cells[column] for column in columns)])
    return folder / "frames.csv"


def wrong_poses(frames: Sequence[PlantedFrame], done: AlignedCohort) -> list[str]:
    """Masks that are mirrored, or turned by more than 20 degrees, against the reference.

    All drawings lie alike, so the way from the drawing to the canvas is the same for all masks that are right.
    """
    ways = {}
    for frame, mask in zip(frames, done.masks, strict=True):
        assert mask.mask_id == f"{frame.series}_{frame.frame}"
        if mask.change is not None:
            ways[mask.mask_id] = frame.place.then(mask.change)
    return [name for name, way in ways.items() if _apart(way, ways[done.reference]) > WRONG_DEG]


def _apart(one: Similarity, other: Similarity) -> float:
    if one.flipped != other.flipped:
        return 180.0
    return abs(math.remainder(one.angle_deg - other.angle_deg, 360.0))
