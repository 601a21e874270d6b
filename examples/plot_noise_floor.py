"""
The noise floor, and why the reference is ``heat``
==================================================

A mask against itself should show nothing. The entropy in the objective blurs the plan, however, and under a soft penalty
part of that blur is paid for by destroying mass. How much depends on the reference, the measure that the entropy is taken
against. Every result reports this share as its noise floor.
"""

import numpy as np

import pairframe as pf
from pairframe.report.figures import destroyed_map, new_figure
from pairframe.testing import disc

# %%
# Compare a disc of radius 18 px with itself at a blur of 2 px, at four reaches and with two references: `heat`, the default,
# and `product`, which most libraries use for entropic transport.
mask = disc((64, 64), (32, 32), 18)
reaches_px = (50.0, 20.0, 10.0, 5.0)
lost = {}
for reference in ("product", "heat"):
    results = [
        pf.compare(mask, mask, pf.TransportConfig(blur_um=2.0, reach_um=reach_px, reference=reference))
        for reach_px in reaches_px
    ]
    lost[reference] = [result.total_mass_destroyed / result.M_source for result in results]
    print(
        f"{reference:8}",
        *(f"reach {r:g} px: {share:.2%};" for r, share in zip(reaches_px, lost[reference], strict=True)),
    )

# %%
# With `heat` the disc keeps its mass at every reach that is longer than the blur.
worst = np.divide(lost["product"], lost["heat"])
print(f"product loses {worst.min():.0f} to {worst.max():.0f} times as much")

figure = new_figure(13.0, 4.0)
curves, *maps = figure.subplots(1, 3)
for (reference, shares), marker in zip(lost.items(), "so", strict=True):
    curves.loglog(reaches_px, shares, marker=marker, label=reference)
curves.set_xticks(reaches_px, [f"{reach_px:g}" for reach_px in reaches_px])
curves.minorticks_off()
curves.set_xlabel("reach (px)")
curves.set_ylabel("share of the disc called destroyed")
curves.set_title("a disc against itself, blur 2 px")
curves.legend(frameon=False)
for reference, ax in zip(("product", "heat"), maps, strict=True):
    result = pf.compare(mask, mask, pf.TransportConfig(blur_um=2.0, reach_um=5.0, reference=reference))
    destroyed_map(result, ax)
    ax.set_title(f"{reference}, reach 5 px\n{ax.get_title()}", fontsize=9)
figure.savefig("noise_floor.png", dpi=90)

# %%
# Every result contains the noise floor of both masks. Compare the shares you find with it.
result = pf.compare(mask, disc((64, 64), (32, 33), 18), pf.TransportConfig(blur_um=2.0, reach_um=20.0))
share = result.total_mass_destroyed / result.M_source
print(f"shifted by a pixel: {share:.3%} destroyed, noise floor {result.noise_floor:.3%}")
