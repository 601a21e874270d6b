"""
A tiny embryo against a huge one, under two hypotheses
======================================================

The tiny embryo lies inside the huge one. Under *least motion*, the default, it stays where it is and all new mass is created
around it. Under *even growth* it is stretched over the whole target. Masks alone cannot decide between the two.
"""

import pairframe as pf
from pairframe.report.figures import created_map, new_figure, velocity_arrows
from pairframe.testing import tiny_and_huge_embryo

# %%
# Even growth is `balanced` transport of masks that both have the mass 1, or `kl` with a reach far longer than the objects.
tiny, huge = tiny_and_huge_embryo()
configs = {
    "least motion": pf.TransportConfig(px_size_um=10.0),
    "even growth": pf.TransportConfig(px_size_um=10.0, penalty="balanced", normalization="each"),
    "kl, reach 50 mm": pf.TransportConfig(px_size_um=10.0, penalty="kl", reach_um=50_000.0),
}

# %%
# The areas differ fiftyfold. The books balance in each case: moved + created = target. The hypotheses differ in where the new
# mass is, and in how far the old mass moved.
results = {name: pf.compare(tiny, huge, config) for name, config in configs.items()}
for name, result in results.items():
    print(
        f"{name:16} moved {result.total_mass_moved:.1f} by {result.mean_displacement_um:.0f} um on average, "
        f"created {result.total_mass_created:.1f} of {result.M_target:g}, {result.status}"
    )

# %%
# Created mass on the left, displacement of the tiny embryo on the right.
figure = new_figure(13.0, 9.5)
for row, (name, result) in zip(figure.subplots(3, 2), results.items(), strict=True):
    created_map(result, row[0])
    velocity_arrows(result, row[1])
    row[0].set_ylabel(name)
figure.savefig("tiny_and_huge.png", dpi=90)
