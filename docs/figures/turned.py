"""What alignment is for: an embryo that turned and grew, compared as given and aligned first. Writes concept_turned.png."""

from __future__ import annotations

from painting import put_up

import pairframe as pf
from pairframe.report.figures import alignment_figure, motion_size_in, new_figure
from pairframe.testing import turned_embryo

before, after = turned_embryo()
as_given, aligned = (
    pf.compare(before, after, pf.TransportConfig(px_size_um=10.0, align=how)) for how in ("none", "rigid")
)
width, height = motion_size_in(as_given, 12.0)
figure = new_figure(width, 2 * (height + 0.4))
put_up(alignment_figure(as_given, aligned, figure), "concept_turned.png")
