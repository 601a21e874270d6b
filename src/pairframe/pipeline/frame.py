"""Frame: the densities of a pair come in, their masses on one work grid go out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pairframe.alignment import Pose
from pairframe.frame import Box, GridTransform, golden, tight_box
from pairframe.frame.crop import Boxes, shares_outside, tight_boxes_of
from pairframe.frame.fields import require_shape, sides_text
from pairframe.notices import Notice, warning
from pairframe.pipeline.read import DensityPair
from pairframe.problem import Partial, Penalty, Scales, TransportConfig, penalties_of
from pairframe.problem.reach import with_default_reach
from pairframe.problem.state import scales_of
from pairframe.types import Bool, Float

FEWEST_WORK_PX = 8  # along the shorter side of a mask; a disc with fewer no longer looks like one
MOST_COVERED = 0.5  # of the canvas, by a mask that touches all four borders
LEAST_BLUR_WORK_PX = 0.5  # below it the kernel couples neighbouring work pixels by less than 2 %


@dataclass(frozen=True, eq=False)
class WorkPair:
    """Source and target on one work grid.

    Attributes
    ----------
    config : TransportConfig
        With the pixel size and the reach of the pair.
    penalties : (Penalty, Penalty)
        Of source and target, in cost units of the work grid.
    transform : GridTransform
        The frame, which leads back to the canonical image.
    mass_source, mass_target : (Hw, Ww), or (Zw, Yw, Xw) for volumes
        Pixel-mass per work pixel.
    areas_um2 : (float, float)
        Areas of the pixels with mass, source and target; of volumes, um^3.
    on_source : (Hc, Wc) bool, or (Zc, Yc, Xc)
        The canonical pixels of the source.
    notices : tuple of Notice
    pose : Pose, optional
        How the target was moved before.
    """

    config: TransportConfig
    penalties: tuple[Penalty, Penalty]
    transform: GridTransform
    mass_source: Float
    mass_target: Float
    areas_um2: tuple[float, float]
    on_source: Bool
    notices: tuple[Notice, ...] = ()
    pose: Pose | None = None

    @cached_property
    def scales(self) -> Scales:
        """The units of the comparison."""
        return scales_of(self.transform, self.config)

    @property
    def is_empty(self) -> bool:
        """Whether source or target has no mass in the frame."""
        return not (self.mass_source.any() and self.mass_target.any())


def frame_pair(densities: DensityPair, transform: GridTransform | None) -> WorkPair:
    """Pool both densities to the work grid of `transform`, or of the frame that the config describes."""
    config = densities.config
    source, target = densities.source, densities.target
    boxes = tight_boxes_of(source, target)
    if transform is None:
        transform = _frame_of(source, target, boxes, config)
    else:
        require_shape(source.shape, transform.canon_shape_hw, "density")
        clipped = shares_outside(source, target, boxes, transform.pair_crop_box_yx, config.allow_clipping)
        transform = replace(transform, clipped_share_ab=clipped, px_size_um=config.px_size_um)
    if golden.is_debug(config.debug):
        golden.check_containment(transform, boxes)
    mass_source, mass_target = (transform.pool(density, debug=config.debug) for density in (source, target))
    crop = transform.pair_crop_box_yx.slices
    scales = scales_of(transform, config)
    config = with_default_reach(config, scales, source[crop], target[crop], spacing=transform.units.spacing)
    # The pixels on the boundary of a moved mask are fractions.
    in_px = np.sum if config.mass.is_area else np.count_nonzero
    areas = [float(in_px(density[crop])) * transform.px_area_um2 for density in (source, target)]
    work = WorkPair(
        config=config,
        penalties=_penalties(config, scales),
        transform=transform,
        mass_source=mass_source,
        mass_target=mass_target,
        areas_um2=(areas[0], areas[1]),
        on_source=densities.source > 0,
        pose=densities.pose,
    )
    notices = (
        *densities.notices,
        *_inverted_notices(densities),
        *_clipping_notices(transform),
        *_resolution_notices(work, boxes),
    )
    return replace(work, notices=notices)


def frame_of(source: Float, target: Float, config: TransportConfig) -> GridTransform:
    """Make the frame of two densities, (Hc, Wc) each and checked before, from the crop fields of the config."""
    return _frame_of(source, target, tight_boxes_of(source, target), config)


def _frame_of(source: Float, target: Float, boxes: Boxes, config: TransportConfig) -> GridTransform:
    return GridTransform.from_densities(
        source,
        target,
        boxes,
        config.downsample_factor,
        config.pad,
        config.crop_policy,
        config.override_pair_bbox,
        config.bucket_shapes,
        config.bucket_mode,
        config.px_size_um,
        config.allow_clipping,
    )


def _penalties(config: TransportConfig, scales: Scales) -> tuple[Penalty, Penalty]:
    if config.moved_mass is None and config.moved_share is None:
        return penalties_of(config, scales)
    unsettled = Partial(1.0)  # `with_moved_mass` replaces it
    return unsettled, unsettled


def _inverted_notices(densities: DensityPair) -> list[Notice]:
    """Warn about masks that look inverted."""
    notices = []
    for name, density in (("source", densities.source), ("target", densities.target)):
        on = density > 0
        share = np.count_nonzero(on) / on.size
        if not (densities.config.mass.is_area and share > MOST_COVERED):
            continue
        if all(edge.any() for axis in range(on.ndim) for edge in (on.take(0, axis), on.take(-1, axis))):
            borders = {2: "four", 3: "six"}[on.ndim]
            message = f"the {name} covers {100 * share:.3g} % of the canvas and touches all {borders} borders"
            fix = "invert it if its objects are the background"
            notices.append(warning("inverted_mask", f"{message}, as an inverted mask does", fix))
    return notices


def _clipping_notices(transform: GridTransform) -> list[Notice]:
    if not any(transform.clipped_share_ab):
        return []
    source, target = transform.clipped_share_ab
    message = f"the frame cuts off a share of {source:.3g} of the source and {target:.3g} of the target"
    return [Notice("frame_cuts_mass", message)]


def _resolution_notices(work: WorkPair, boxes: Sequence[Box | None]) -> list[Notice]:
    """Warn if the work grid is too coarse for the masks or for the blur.

    `boxes` are the tight boxes of source and target, canonical px.
    """
    if work.is_empty:
        return []
    factor = work.transform.downsample_factor
    notices: list[Notice] = []
    masses = (work.mass_source, work.mass_target)
    for name, mass, box in zip(("source", "target"), masses, boxes, strict=True):
        if factor == 1:
            break
        found = tight_box(mass)
        assert found is not None  # both have mass
        if min(found.shape) < FEWEST_WORK_PX:
            finer = 1 if box is None else max(1, min(min(box.shape) // FEWEST_WORK_PX, factor - 1))
            message = f"with downsample_factor {factor} the {name} is only {sides_text(found.shape)} work pixels large, too few to "
            notices.append(
                Notice("few_work_pixels", f"{message}resolve its shape", f"use a downsample_factor of {finer} or less")
            )
    scales, config = work.scales, work.config
    blur_um = scales.length_um_from_cost_work(scales.epsilon_work(config.epsilon, config.blur_um))
    work_px = work.transform.work_px_size_um
    if not notices and blur_um < LEAST_BLUR_WORK_PX * work_px:
        unit = config.units.length
        message = f"the blur of {blur_um:.3g} {unit} is less than half a work pixel of {work_px:.3g} {unit}, so the work pixel "
        fix = f"raise blur_um to {work_px:.3g}" + (", or lower downsample_factor" if factor > 1 else "")
        notices.append(Notice("blur_below_pixel", f"{message}limits the resolution", fix))
    return notices
