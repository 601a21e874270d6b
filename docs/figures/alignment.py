"""What alignment answers: aligned, ambiguous, undetermined. Writes concept_alignment.png."""

from __future__ import annotations

import numpy as np
from painting import ink, picture, put_up

import pairframe as pf
from pairframe.report.figures import SOURCE_COLOUR, TARGET_COLOUR, new_figure
from pairframe.testing import disc, planted_pair
from pairframe.types import Bool, Float


def on_one_canvas(source: Bool, target: Bool) -> tuple[Float, Float]:
    """Both images, corners together, on a canvas that holds them."""
    canvas = tuple(max(sides) for sides in zip(source.shape, target.shape, strict=True))
    pages = [np.zeros(canvas) for _ in range(2)]
    for page, image in zip(pages, (source, target), strict=True):
        page[: image.shape[0], : image.shape[1]] = image
    return pages[0], pages[1]


planted = planted_pair(3, "mixed", flip=True, shape_hw=(340, 460))
y, x = np.indices((180, 240)) - np.array([90, 120])[:, None, None]
ellipse = (y / 38) ** 2 + (x / 88) ** 2 <= 1
pairs = {
    "an embryo, turned, mirrored and grown": (planted.source, planted.target),
    "an ellipse": (ellipse, np.rot90(ellipse)),
    "a disc in a disc": (disc((180, 240), (90, 110), 70), disc((180, 240), (60, 170), 35)),
}
figure = new_figure(9.0, 6.4)
for column, (name, (source, target)) in enumerate(pairs.items()):
    pose = pf.align(source, target, allow_flip=True)
    mask = pf.Mask.from_array(target)
    canvas_hw, origin_yx = pose.canvas_for(mask)
    moved = pose.apply(mask, canvas_hw=canvas_hw, origin_yx=origin_yx)
    still = pose.place_source(pf.Mask.from_array(source), canvas_hw, origin_yx)
    before, after = (figure.add_subplot(2, 3, 3 * row + column + 1) for row in (0, 1))
    one, other = on_one_canvas(source, target)
    picture(before, ink((one, SOURCE_COLOUR), (other, TARGET_COLOUR)), f"{name}\nIoU {pose.iou_before:.2f}")
    other_iou = "" if pose.runner_up is None else f", runner-up {pose.runner_up.iou:.2f}"
    words = f"{pose.status}, turned by {pose.angle_deg:.0f}°{', mirrored' if pose.flipped else ''}"
    picture(after, ink((still, SOURCE_COLOUR), (moved, TARGET_COLOUR)), f"{words}\nIoU {pose.iou_after:.2f}{other_iou}")
put_up(figure, "concept_alignment.png")
