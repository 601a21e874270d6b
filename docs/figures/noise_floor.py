"""What the method itself calls destroyed: a disc against itself under kl, two references. Writes concept_noise_floor.png."""

from __future__ import annotations

import numpy as np
from painting import ink, picture, put_up

import pairframe as pf
from pairframe.report.figures import DESTROYED_COLOUR, new_figure
from pairframe.testing import disc

CANVAS = (48, 48)
mask = disc(CANVAS, (24, 24), 18)
REACHES_PX = np.array([5.0, 7.0, 10.0, 14.0, 20.0, 30.0, 50.0])


def against_itself(reference: str, reach_px: float) -> pf.TransportResult:
    config = pf.TransportConfig(blur_um=2.0, reach_um=reach_px, reference=reference, penalty="kl", pad=6)
    return pf.compare(mask, mask, config)


figure = new_figure(10.0, 3.4)
left, middle, right = figure.subplots(1, 3, width_ratios=(1, 1, 1.5))
for ax, reference in ((left, "product"), (middle, "heat")):
    result = against_itself(reference, 5.0)
    share = result.total_mass_destroyed / result.M_source
    picture(ax, ink((result.mass_destroyed, DESTROYED_COLOUR)), f"{reference}, reach 5 px:\n{share:.1%} destroyed")
for reference, style in (("product", "o--"), ("heat", "s-")):
    shares = [against_itself(reference, reach_px).noise_floor for reach_px in REACHES_PX]
    right.loglog(REACHES_PX, shares, style, color="black", markersize=4, label=reference)
right.set(xlabel="reach (px), at a blur of 2 px", ylabel="bias of the method (share of the mass)")
right.set_title("a mask against itself under kl: nothing happened", fontsize=9)
right.set_xticks([5, 10, 20, 50], ["5", "10", "20", "50"])
right.minorticks_off()
right.grid(alpha=0.3)
right.legend(frameon=False, fontsize=8)
put_up(figure, "concept_noise_floor.png")
