"""A sweep: what depends on the reach, and from which reach on nothing does. Writes concept_sweep.png."""

from __future__ import annotations

from painting import put_up

import pairframe as pf
from pairframe.report.figures import new_figure, sweep_figure, sweep_size_in
from pairframe.testing import growing_embryo

source, target = (mask[::2, ::2] for mask in growing_embryo(6)[1:4:2])
sweep = pf.sweep(source, target, pf.TransportConfig(px_size_um=20.0))
figure = new_figure(*sweep_size_in(sweep, 10.0))
put_up(sweep_figure(sweep, figure), "concept_sweep.png")
