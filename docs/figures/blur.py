"""The blur decides what is resolved: two neighbours that move apart, three blurs. Writes concept_blur.png."""

from __future__ import annotations

import numpy as np
from painting import ink, picture, put_up

import pairframe as pf
from pairframe.report.figures import SOURCE_COLOUR, TARGET_COLOUR, new_figure

CANVAS, STEP_PX = (40, 140), 6
source, target = np.zeros(CANVAS), np.zeros(CANVAS)
source[12:28, 40:100] = 1.0
target[12:28, 40 - STEP_PX : 70 - STEP_PX] = 1.0
target[12:28, 70 + STEP_PX : 100 + STEP_PX] = 1.0

figure = new_figure(10.0, 3.4)
left, right = figure.subplots(1, 2, width_ratios=(1, 1.25))
picture(
    left, ink((source, SOURCE_COLOUR), (target, TARGET_COLOUR)), f"a bar breaks; each half moves {STEP_PX} px outwards"
)
for blur_px, style in ((1.0, "-"), (4.0, "--"), (16.0, ":")):
    config = pf.TransportConfig(blur_um=blur_px, reach_um=200.0, penalty="balanced")
    result = pf.compare(source, target, config)
    dx_px = result.velocity_field[20, 40:100, 1]
    right.plot(np.arange(40, 100), dx_px, style, color="black", label=f"blur {blur_px:g} px")
right.axvline(69.5, color="0.7", lw=0.8)
right.set(xlabel="x on the source (px)", ylabel="displacement along x (px)")
right.set_title("displacement along the bar's middle row", fontsize=9)
right.legend(frameon=False, fontsize=8)
put_up(figure, "concept_blur.png")
