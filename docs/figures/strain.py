"""A body that became longer, under both hypotheses: stretch, growth and the profile. Writes concept_strain.png."""

from __future__ import annotations

import numpy as np
from painting import put_up

import pairframe as pf
from pairframe.report.figures import CREATED_COLOUR, anisotropy_map, areal_expansion_map, local_growth_map, new_figure

HYPOTHESES = {
    "least motion": pf.TransportConfig(strain=True),
    "even growth": pf.TransportConfig(penalty="balanced", normalization="each", strain=True),
}
ys, xs = np.indices((70, 190))


def body(length_px: float) -> np.ndarray:
    """An egg whose left end stays where it is."""
    along = (xs - 12) / length_px
    half_width = 38 * np.sqrt(np.clip(along * (1 - along), 0, None)) * (1.35 - 0.7 * along)
    return np.abs(ys - 34.5) < half_width


source, target = body(130.0), body(160.0)
figure = new_figure(14.0, 5.4)
axes = figure.subplots(2, 4, width_ratios=(1, 1, 1, 0.8))
for row, (name, config) in zip(axes, HYPOTHESES.items(), strict=True):
    result = pf.compare(source, target, config)
    for panel, ax in zip((areal_expansion_map, anisotropy_map, local_growth_map), row, strict=False):
        panel(result, ax)
    row[0].set_ylabel(name, fontsize=11)
    profile = pf.axis_profile(result, n_bins=10)
    row[3].bar((profile["s_low"] + profile["s_high"]) / 2, profile["mass_created"], 0.1, color=CREATED_COLOUR)
    row[3].set_xlim(0, 1)
    row[3].set_ylim(0, None)
    row[3].set_title("created mass along the axis", fontsize=10)
    row[3].set_xlabel("S, from head (0) to tail (1, and beyond)", fontsize=8)
put_up(figure, "concept_strain.png")
