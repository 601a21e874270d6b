"""
Choosing blur and reach
=======================

Two lengths decide what a comparison means. Below the **blur** nothing is resolved: take it as small as the detail that
you trust, one or two pixels or the error of the outline. The **reach** is how far mass would rather travel than be
destroyed here and created there: take it as two to four times the distance that your tissue can really move between the
two frames. Both are in the unit of the image, so they stay the same when the image is downsampled.
"""

import pairframe as pf
from pairframe.report.figures import created_map, destroyed_map, new_figure, velocity_arrows
from pairframe.testing import growing_embryo

# %%
# One pair, three reaches. The embryo of this series grows at the tail and straightens.
early, late = growing_embryo(6, (128, 288))[1:4:2]
reaches_um = (40.0, 200.0, 1000.0)
results = [
    pf.compare(early, late, pf.TransportConfig(px_size_um=20.0, blur_um=40.0, reach_um=reach_um))
    for reach_um in reaches_um
]

# %%
# A short reach sees little but creation and destruction, a long one little but motion. None of them is wrong: they answer
# other questions.
print("reach      moved of the source   created of the target   mean displacement")
for reach_um, result in zip(reaches_um, results, strict=True):
    moved = result.total_mass_moved / result.M_source
    created = result.total_mass_created / result.M_target
    print(f"{reach_um:5g} um {moved:16.1%} {created:21.1%} {result.mean_displacement_um:20.1f} um")

# %%
# The same as pictures: a row per reach.
figure = new_figure(13.0, 8.6)
for row, reach_um, result in zip(figure.subplots(3, 3), reaches_um, results, strict=True):
    for panel, ax in zip((velocity_arrows, created_map, destroyed_map), row, strict=True):
        panel(result, ax)
    row[0].set_ylabel(f"reach {reach_um:g} µm")
figure.savefig("blur_and_reach.png", dpi=80)

# %%
# The blur has a price too. A larger one is solved faster and smooths the displacement; it also raises the noise floor, the
# share of mass that the method itself calls destroyed when a mask meets itself. Differences below it mean nothing.
print("blur     noise floor   iterations")
for blur_um in (20.0, 40.0, 80.0, 160.0):
    result = pf.compare(early, late, pf.TransportConfig(px_size_um=20.0, blur_um=blur_um, reach_um=200.0))
    print(f"{blur_um:4g} um {result.noise_floor:12.3%} {result.iterations:10d}")
