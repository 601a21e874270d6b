"""``aligned.csv``: the table of aligned masks, which `run_cohort` takes, with poses, numbers and flags."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pairframe import files
from pairframe.alignment import Similarity
from pairframe.alignment.series import SeriesPose
from pairframe.cohort.align.flags import Flag, Measured
from pairframe.cohort.inputs.pairing import Frame
from pairframe.cohort.inputs.sources import ALIGNED_MANIFEST
from pairframe.results import disk
from pairframe.results.motion_words import COHORT_POSE as PREFIX
from pairframe.results.schema import FAILED

# Name, without the prefix, and meaning.
COLUMNS = {
    "original": "the mask as the first table names it",
    "original_px_size_um": "side of a pixel of the original image; the default uncertainty of outlines is their median",
    "status": "`aligned`, `ambiguous`, `undetermined`, or `failed` without a mask",
    "angle_deg": "turn from the original image to the canvas, counter-clockwise as the image is shown",
    "shift_dy_um": "displacement of the mask's centroid, down, from its place in the original image to that on the canvas",
    "shift_dx_um": "the same to the right",
    "flipped": "whether it was mirrored top to bottom before the turn",
    "scale": "the scale that fits the reference best; it is not applied, so that areas stay. 1 unless the kind is `similarity`",
    "iou": "intersection over union with the reference, at that scale",
    "runner_up_iou": "that of the best other pose",
    "area_ratio": "area over that of the reference",
    "landmark": "`used`, `missing` or `none`",
    "landmark_offset_um": "distance of its landmark from that of the reference",
    "turn_deg": "turn of the pose from that of the frame before; 180 if only one of them is mirrored",
    "flags": "reasons to look at it, as codes",
    "reason": "the same in words, or the error",
}


@dataclass(frozen=True, eq=False)
class AlignedMask:
    """One mask of an aligned cohort.

    Attributes
    ----------
    mask_id : str
        Series and frame.
    frame : Frame
        Its line in the first table.
    file : str
        Of the moved mask, in the folder of the alignment. It does not exist if there is an `error`.
    found : SeriesPose or None
        The pose against the reference.
    change : Similarity or None
        From the original image to the canvas.
    measured : Measured or None
    flags : tuple of Flag
    px_size_um : float or None
        Side of a pixel of the original image.
    structures : dict
        Files of the structures that were moved along, by column.
    error : str or None
        Why there is no moved mask.
    """

    mask_id: str
    frame: Frame
    file: str
    found: SeriesPose | None
    change: Similarity | None
    measured: Measured | None
    flags: tuple[Flag, ...]
    error: str | None
    px_size_um: float | None = None
    structures: Mapping[str, str] = field(default_factory=dict)

    def columns(self) -> dict[str, Any]:
        """The columns that the alignment adds, without their prefix."""
        values: dict[str, Any] = dict.fromkeys(COLUMNS)
        values["original"] = self.frame.mask.named
        values["original_px_size_um"] = self.px_size_um
        values["status"] = FAILED
        if self.found is not None and self.change is not None and self.measured is not None:
            pose = self.found.pose
            values |= {
                "status": FAILED if self.error else str(pose.status),
                "angle_deg": self.change.angle_deg,
                "shift_dy_um": self.change.shift_yx_um[0],
                "shift_dx_um": self.change.shift_yx_um[1],
                "flipped": self.change.flipped,
                "scale": pose.scale,
                "iou": pose.iou_after,
                "runner_up_iou": None if pose.runner_up is None else pose.runner_up.iou,
                "area_ratio": self.measured.area_ratio,
                "landmark": pose.landmark,
                "landmark_offset_um": self.measured.landmark_offset,
                "turn_deg": self.found.turn_deg,
            }
        codes = [flag.code for flag in self.flags]
        words = [flag.words for flag in self.flags]
        values["flags"] = " ".join([FAILED, *codes] if self.error else codes)
        values["reason"] = "; ".join([self.error, *words] if self.error else words)
        return values


def write_aligned_manifest(
    masks: Sequence[AlignedMask], out: Path, px_size_um: float | None, structures: Sequence[str] = ()
) -> Path:
    """Write the table. Columns of the first table stay, except for the path, the pixel size and those of structures."""
    has_series = any(one.frame.series for one in masks)
    labels = list(dict.fromkeys(name for one in masks for name in one.frame.labels))
    labels = [name for name in labels if name not in structures]
    names = ["path", *(["series"] if has_series else []), "frame", "px_size_um", *structures, *labels]
    stream = io.StringIO()
    writer = csv.writer(stream)
    writer.writerow([*names, *(f"{PREFIX}{name}" for name in COLUMNS)])
    for one in masks:
        series = [one.frame.series] if has_series else []
        cells = [Path(one.file).as_posix(), *series, one.frame.name, px_size_um]
        cells += [Path(one.structures[name]).as_posix() if name in one.structures else None for name in structures]
        cells += [one.frame.labels.get(name) for name in labels]
        writer.writerow([_cell(value) for value in (*cells, *one.columns().values())])
    path = out / ALIGNED_MANIFEST
    with disk.write_errors(out):
        files.replace_file(path, stream.getvalue().encode())
    return path


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)
