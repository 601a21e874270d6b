"""Least motion and even growth: a disc and an embryo that grew, each explained in both ways. Writes concept_hypotheses.png."""

from __future__ import annotations

import numpy as np
from painting import arrows, ink, picture, put_up, rims

import pairframe as pf
from pairframe.report.figures import CREATED_COLOUR, SOURCE_COLOUR, TARGET_COLOUR, new_figure
from pairframe.testing import disc, growing_embryo

CANVAS = (94, 200)
HYPOTHESES = {
    "least motion": pf.TransportConfig(),
    "even growth": pf.TransportConfig(penalty="balanced", normalization="each"),
}
embryo = growing_embryo(6)
PAIRS = {  # source, target, pixels between arrows
    "a disc whose area grew by a quarter": (disc(CANVAS, (47, 100), 34), disc(CANVAS, (47, 100), 38), 9),
    "an embryo that grew and bent": (embryo[1][30:225, 60:520], embryo[3][30:225, 60:520], 20),
}

figure = new_figure(13.0, 5.3)
for row, (name, (source, target, step_px)) in zip(figure.subplots(2, 3), PAIRS.items(), strict=True):
    picture(row[0], ink((source, SOURCE_COLOUR), (target, TARGET_COLOUR)), f"{name}\nsource (blue), target (orange)")
    for ax, (hypothesis, config) in zip(row[1:], HYPOTHESES.items(), strict=True):
        result = pf.compare(source, target, config)
        created, moved_px = result.total_mass_created / result.M_target, np.nanmean(np.hypot(*result.velocity_field.T))
        picture(
            ax,
            ink((result.mass_created, CREATED_COLOUR)),
            f"{hypothesis}: {created:.0%} created (green),\nthe rest moved by {moved_px:.1f} px on average",
        )
        rims(ax, source, target)
        arrows(ax, source, result, step_px)
put_up(figure, "concept_hypotheses.png")
