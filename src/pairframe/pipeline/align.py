"""Align: two masks come in, their densities on the source's canvas with the target moved onto the source go out."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pairframe.alignment import Canvas, Pose, PoseStatus, Similarity, align, resample
from pairframe.alignment.resample import FINE_SAMPLES, SAMPLES
from pairframe.masks import Mask, mass_density
from pairframe.notices import Notice, warning
from pairframe.problem import TransportConfig
from pairframe.types import Float
from pairframe.units import Units


@dataclass(frozen=True, eq=False)
class AlignedPair:
    """Densities on one canvas.

    Attributes
    ----------
    source, target : (Hc, Wc)
        Mass per pixel of the source.
    pose : Pose
        Its `source_canvas` is that of the densities: the canvas of the source, grown if the moved target needs it.
    notices : tuple of Notice
        Remarks about the pose.
    """

    source: Float
    target: Float
    pose: Pose
    notices: tuple[Notice, ...]


def align_pair(
    source: Mask, target: Mask, config: TransportConfig, canvas_hw: tuple[int, int] | None = None
) -> AlignedPair:
    """Find the pose of a pair and move the mass of the target.

    Parameters
    ----------
    source, target : Mask
        Neither is empty.
    canvas_hw : (H, W), optional
        Keep to this canvas, an error if the moved target does not fit; else it grows as needed.
    """
    if config.px_size_um is not None:
        source, target = (replace(mask, px_size_um=config.px_size_um) for mask in (source, target))
    pose = align(source, target, kind=config.align, allow_flip=config.allow_flip)
    samples, origin_yx = samples_of(config), (0, 0)
    if canvas_hw is None:
        canvas_hw, origin_yx = pose.canvas_for(target, samples=samples)
    canvas = Canvas(canvas_hw, pose.source_canvas.px, origin_yx)
    px = Units(target.px_size_um).px_size
    still = mass_density(source, config.mass_mode, source.px_size_um)
    moving = mass_density(target, config.mass_mode, target.px_size_um)
    if canvas != pose.source_canvas:
        still = resample(still, canvas.px, Similarity(), canvas)
    factor = _mass_factor(config, target, pose.scale * px / canvas.px)
    moved = resample(moving, px, pose.change, canvas, factor, samples=samples)
    pose = replace(pose, source_canvas=canvas)
    return AlignedPair(still, moved, pose, tuple(_notices(pose, source)))


def samples_of(config: TransportConfig) -> int:
    """How many samples per pixel and side a moved target is divided into."""
    return FINE_SAMPLES if config.strain else SAMPLES


def _mass_factor(config: TransportConfig, target: Mask, magnification: float) -> float:
    """How the mass of the target changes when its lengths, counted in pixels, change by this factor."""
    name = config.mass.name
    if name == "intensity" and not target.is_area:
        return 1.0  # mass per pixel: its sum stays
    return magnification ** (3 if name == "distance_transform" else 2)


def _notices(pose: Pose, source: Mask) -> list[Notice]:
    notices = [Notice("pose", sentence) for sentence in pose.notices]
    if pose.status != PoseStatus.aligned:
        notices.append(warning(f"pose_{pose.status}", f"the pose is {pose.status}", pose.status.advice))
    if pose.source_canvas.shape_hw != source.shape_hw:
        (height, width), (top, left) = pose.source_canvas.shape_hw, pose.source_canvas.origin_yx
        message = (
            f"the moved target does not fit on the canvas of the source, which was extended to {height} x {width} px; the "
            f"first pixel of the source is now at row {top}, column {left}"
        )
        notices.append(Notice("canvas_extended", message))
    return notices
