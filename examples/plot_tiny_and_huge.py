"""
A tiny embryo against a huge one, at three reaches
==================================================

The reach decides how far mass travels before it is destroyed and created instead. A short reach keeps the tiny embryo where
it is and creates the rest around it. A long reach spreads it over the whole target.
"""

import pairframe as pf
from pairframe.report.figures import created_map, new_figure, velocity_arrows
from pairframe.testing import tiny_and_huge_embryo

# %%
# The areas differ fiftyfold. The books balance at every reach: moved + created = target.
tiny, huge = tiny_and_huge_embryo()
results = {}
for reach_um in (50.0, 500.0, 5000.0):
    config = pf.TransportConfig(blur_um=20.0, reach_um=reach_um, px_size_um=10.0)
    result = results[reach_um] = pf.compare(tiny, huge, config)
    print(
        f"reach {reach_um:g} um: moved {result.total_mass_moved:.1f}, created {result.total_mass_created:.1f} of "
        f"{result.M_target:g}, {result.status}"
    )

# %%
# Created mass on the left, displacement of the tiny embryo on the right.
figure = new_figure(13.0, 9.5)
for row, (reach_um, result) in zip(figure.subplots(3, 2), results.items(), strict=True):
    created_map(result, row[0])
    velocity_arrows(result, row[1])
    row[0].set_ylabel(f"reach {reach_um:g} µm")
figure.savefig("tiny_and_huge.png", dpi=90)
