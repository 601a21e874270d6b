"""A tiny embryo against a huge one, at three reaches
=====================================================

How far would mass rather travel than be destroyed and created anew? A short reach keeps the tiny embryo where it is and
creates the rest around it; a long one spreads it over the whole target. Writes tiny_and_huge.png.
"""

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import pairframe as pf
from pairframe.report.figures import created_map, velocity_arrows
from pairframe.testing import tiny_and_huge_embryo

tiny, huge = tiny_and_huge_embryo()  # areas 1 : 50
figure = Figure(figsize=(13, 9.5), layout="constrained")
FigureCanvasAgg(figure)
for row, reach_um in zip(figure.subplots(3, 2), (50.0, 500.0, 5000.0), strict=True):
    result = pf.compare(tiny, huge, pf.TransportConfig(blur_um=20.0, reach_um=reach_um, px_size_um=10.0))
    created_map(result, row[0])
    velocity_arrows(result, row[1])
    row[0].set_ylabel(f"reach {reach_um:g} µm")
    print(
        f"reach {reach_um:g} um: moved {result.total_mass_moved:.1f}, created {result.total_mass_created:.1f} of "
        f"{result.M_target:g}, {result.status}"
    )
figure.savefig("tiny_and_huge.png", dpi=90)
