"""The body axis of a bent embryo and the changes along it. Writes concept_body_axis.png."""

from __future__ import annotations

from painting import put_up

import pairframe as pf
from pairframe.report.figures import AXIS_SIZE_IN, axis_figure, new_figure
from pairframe.testing import growing_embryo

frames = growing_embryo(6)
result = pf.compare(frames[1], frames[2], pf.TransportConfig(px_size_um=4.0))
axis = pf.body_axis(result)
figure = new_figure(AXIS_SIZE_IN[0], 4.6)
axis_figure(result, axis, pf.axis_profile(result, axis), figure)
put_up(figure, "concept_body_axis.png")
