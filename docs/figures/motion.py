"""The whole motion of an aligned pair and what the pose leaves of it. Writes concept_motion.png."""

from __future__ import annotations

import numpy as np
from painting import ink, picture, put_up

import pairframe as pf
from pairframe.report.figures import CREATED_COLOUR, SOURCE_COLOUR, TARGET_COLOUR, new_figure
from pairframe.testing import planted_pair

pair = planted_pair(8, "tail", flip=False, shape_hw=(300, 420))
canvas = tuple(max(sides) for sides in zip(pair.source.shape, pair.target.shape, strict=True))
source, target = np.zeros(canvas, bool), np.zeros(canvas, bool)
source[: pair.source.shape[0], : pair.source.shape[1]] = pair.source
target[: pair.target.shape[0], : pair.target.shape[1]] = pair.target
result = pf.compare(source, target, pf.TransportConfig(align="rigid"))
assert result.pose is not None
top, left = result.pose.source_canvas.origin_yx
inside = np.s_[top : top + canvas[0], left : left + canvas[1]]
rows, columns = (axis[::14, ::14] for axis in np.indices(canvas))

figure = new_figure(12.0, 3.8)
for ax, field, image, title in zip(
    figure.subplots(1, 3),
    (result.velocity_field[inside], result.deformation_field[inside], None),
    (
        ink((source, SOURCE_COLOUR), (target, TARGET_COLOUR)),
        ink((source, SOURCE_COLOUR)),
        ink((target, TARGET_COLOUR), (result.mass_created_on_target, CREATED_COLOUR)),
    ),
    (
        "the whole motion: velocity_field",
        "what the pose leaves: deformation_field",
        "created, on the target's own image",
    ),
    strict=True,
):
    picture(ax, image, title)
    if field is not None:
        dy, dx = field[::14, ::14, 0], field[::14, ::14, 1]
        ax.quiver(columns, rows, dx, dy, angles="xy", scale_units="xy", scale=1, width=0.003, color="0.2")
put_up(figure, "concept_motion.png")
