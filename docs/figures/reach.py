"""The reach is how far mass may move: one pair, three reaches. Writes concept_reach.png."""

from __future__ import annotations

from painting import ink, picture, put_up, rims

import pairframe as pf
from pairframe.report.figures import CREATED_COLOUR, DESTROYED_COLOUR, SOURCE_COLOUR, TARGET_COLOUR, new_figure
from pairframe.testing import disc

CANVAS, DISTANCE_PX = (64, 120), 40
source, target = disc(CANVAS, (32, 38), 16), disc(CANVAS, (32, 38 + DISTANCE_PX), 16)

figure = new_figure(12.0, 2.3)
first, *rest = figure.subplots(1, 4)
picture(first, ink((source, SOURCE_COLOUR), (target, TARGET_COLOUR)), f"the same disc, {DISTANCE_PX} µm to the right")
for ax, reach_um in zip(rest, (20.0, 40.0, 70.0), strict=True):
    result = pf.compare(source, target, pf.TransportConfig(blur_um=2.0, reach_um=reach_um, px_size_um=1.0))
    moved = result.total_mass_moved / result.M_source
    rims(ax, source, target)
    picture(
        ax,
        ink((result.mass_destroyed, DESTROYED_COLOUR), (result.mass_created, CREATED_COLOUR)),
        f"reach {reach_um:g} µm: {moved:.0%} moved",
    )
figure.suptitle(
    "orange: destroyed, green: created; what is missing from both was moved", fontsize=9, y=0.04, va="bottom"
)
put_up(figure, "concept_reach.png")
