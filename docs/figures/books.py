"""What created, destroyed and moved mean: of three colonies one moves, one dies, one is new. Writes concept_books.png."""

from __future__ import annotations

from painting import arrows, ink, picture, put_up, rims

import pairframe as pf
from pairframe.report.figures import CREATED_COLOUR, DESTROYED_COLOUR, SOURCE_COLOUR, TARGET_COLOUR, new_figure
from pairframe.testing import disc

CANVAS = (90, 210)
mover, dies, new = disc(CANVAS, (45, 55), 17), disc(CANVAS, (45, 118), 11), disc(CANVAS, (45, 180), 13)
source = mover | dies
target = disc(CANVAS, (45, 61), 17) | new
result = pf.compare(source, target, pf.TransportConfig(px_size_um=2.0, reach_um=50.0))

figure = new_figure(10.0, 4.8)
(top_left, top_right), (low_left, low_right) = figure.subplots(2, 2)
picture(top_left, ink((source, SOURCE_COLOUR), (target, TARGET_COLOUR)), "source (blue), target (orange), both (dark)")
picture(
    top_right, ink((source, SOURCE_COLOUR)) * 0.4 + 0.6, f"moved: {result.total_mass_moved:.0f} px of mass, as arrows"
)
arrows(top_right, source, result, 8)
picture(low_left, ink((result.mass_destroyed, DESTROYED_COLOUR)), f"destroyed: {result.total_mass_destroyed:.0f} px")
picture(low_right, ink((result.mass_created, CREATED_COLOUR)), f"created: {result.total_mass_created:.0f} px")
moved, destroyed, created = result.total_mass_moved, result.total_mass_destroyed, result.total_mass_created
for ax in (low_left, low_right):
    rims(ax, source, target)
figure.suptitle(
    f"{moved:.1f} moved + {destroyed:.1f} destroyed = {result.M_source:.0f} in the source        "
    f"{moved:.1f} moved + {created:.1f} created = {result.M_target:.0f} in the target",
    fontsize=10,
)
put_up(figure, "concept_books.png")
