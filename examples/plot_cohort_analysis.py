"""
Where two groups differ
=======================

Ten synthetic embryos, five of which grow less than the others, with two transitions each. Permutation tests in every block
of the canvas show where less mass was created and where the tissue moved more slowly.
"""

import tempfile

import numpy as np

import pairframe as pf
from pairframe.analysis import analyze
from pairframe.report.figures.cohort import hotspot_figure
from pairframe.results import ResultStore
from pairframe.testing import embryo

# %%
# Build the cohort. Every pair is labelled with its group, its embryo and its frame. All pairs have one reach, about the length
# of an embryo, so that their numbers can be compared. ``pairframe run`` chooses such a reach by itself.
rng = np.random.default_rng(0)
folder = tempfile.TemporaryDirectory()
store, rows = ResultStore(folder.name), []
for group, longer_px in (("wild type", 14.0), ("mutant", 5.0)):
    for number in range(5):
        size, bend = 1 + 0.03 * rng.standard_normal(), 0.8 + 0.1 * rng.standard_normal()
        frames = [
            embryo((80, 180), length_px=90 + longer_px * t, thickness_px=11, bend=bend, yolk_px=20, growth=size)
            for t in range(3)
        ]
        for t in range(2):
            result = pf.compare(frames[t], frames[t + 1], pf.TransportConfig(px_size_um=10.0, reach_um=1000.0))
            labels = {"group": group, "embryo": f"{group} {number}", "frame": t}
            rows.append(store.write_maps(result, f"{group} {number}, frame {t}", extra=labels))
store.commit(rows)

# %%
# The test permutes whole embryos and not single frames, because two frames of one embryo are not independent.
analysis = analyze(store, max_distance_masks=0)
(comparison,) = analysis.comparisons
for test in sorted(comparison.scalars, key=lambda test: test.q)[:6]:
    print(f"{test.scalar:28} {test.difference:+10.3g} {test.unit:10} d = {test.cohens_d:+6.2f}  q = {test.q:.3f}")

# %%
# Blocks with a frame differ at a false discovery rate of 5 %. Differences in the faint blocks may be due to chance.
figure = hotspot_figure(analysis, comparison)
figure.savefig("cohort_analysis.png", dpi=90)
folder.cleanup()
