"""
The bias of the method, and why the reference is ``heat``
=========================================================

A mask against itself should show nothing. With the default penalty, `partial`, it does, down to the tolerance of the solve.
Under the soft penalty `kl` part of the blur of the plan is paid for by destroying mass. How much depends on the reference,
the measure that the entropy is taken against. Every result reports this share as ``noise_floor``.
"""

import numpy as np

import pairframe as pf
from pairframe.report.figures import destroyed_map, new_figure
from pairframe.testing import disc

# %%
# Compare a disc of radius 18 px with itself at a blur of 2 px, first at the defaults.
mask = disc((64, 64), (32, 32), 18)
print(f"default: {pf.compare(mask, mask).noise_floor:.0e} of the mass destroyed")

# %%
# Under `kl`, at four reaches and with two references: `heat`, the default, and `product`, which most libraries use for
# entropic transport.


def kl(reach_px, reference="heat"):
    return pf.TransportConfig(penalty="kl", blur_um=2.0, reach_um=reach_px, reference=reference)


reaches_px = (50.0, 20.0, 10.0, 5.0)
lost = {}
for reference in ("product", "heat"):
    results = [pf.compare(mask, mask, kl(reach_px, reference)) for reach_px in reaches_px]
    lost[reference] = [result.total_mass_destroyed / result.M_source for result in results]
    print(
        f"{reference:8}",
        *(f"reach {r:g} px: {share:.2%};" for r, share in zip(reaches_px, lost[reference], strict=True)),
    )

# %%
# With `heat` the disc keeps nearly all of its mass at every reach that is longer than the blur.
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
curves.set_title("a disc against itself under kl, blur 2 px")
curves.legend(frameon=False)
for reference, ax in zip(("product", "heat"), maps, strict=True):
    result = pf.compare(mask, mask, kl(5.0, reference))
    destroyed_map(result, ax)
    ax.set_title(f"{reference}, reach 5 px\n{ax.get_title()}", fontsize=9)
figure.savefig("noise_floor.png", dpi=90)

# %%
# The bias describes masks that did not change. A shift by one pixel shows that `kl` does more than the bias tells: it calls
# part of every motion destroyed and created. The default shows the shift alone.
shifted = disc((64, 64), (32, 33), 18)
for name, config in (("kl", kl(20.0)), ("default", pf.TransportConfig())):
    result = pf.compare(mask, shifted, config)
    share = result.total_mass_destroyed / result.M_source
    print(
        f"{name:8} shifted by a pixel: {share:.3%} destroyed, bias of the method {result.noise_floor:.0e}, "
        f"moved by {result.mean_displacement_um:.3f} px on average"
    )
