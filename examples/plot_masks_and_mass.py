"""
Read masks and choose a mass mode
=================================

Masks are read from png, tif, npy or Zarr files. In a label image, append the label to the file name to choose an object.
The mass mode decides how much each pixel weighs: all the same, only the rim, or more towards the middle.
"""

import numpy as np

import pairframe as pf
from pairframe.report.figures import created_map, new_figure
from pairframe.testing import disc

# %%
# Write two frames of a label image with two cells, as a segmentation would. The second cell grows, and there are a few
# spurious specks.
shape_hw = (80, 120)
rng = np.random.default_rng(0)
for frame, radius_px in enumerate((16, 20)):
    labels = np.zeros(shape_hw, np.uint16)
    labels[disc(shape_hw, (40, 30), 18)] = 3
    labels[disc(shape_hw, (40, 85), radius_px)] = 7
    labels[rng.integers(2, 78, 6), rng.integers(60, 66, 6)] = 7
    np.save(f"cells_{frame}.npy", labels)

# %%
# ``PATH:LABEL`` reads one object. The pixel size stays with the mask. `clean_mask` removes islands that are too small to be a
# cell, and the mask keeps a history of the changes.
masks = []
for frame in (0, 1):
    raw = pf.read_mask(f"cells_{frame}.npy:7", px_size_um=0.65)
    clean = pf.clean_mask(raw, min_island_area_um2=2.0, fill_holes=True)
    print(f"frame {frame}: {raw.values.sum()} px read, {clean.values.sum()} px kept; {clean.history}")
    masks.append(clean)

# %%
# Compare the same pair in three mass modes. `uniform` shows where area appeared, `boundary_band` uses only the rim, and
# `distance_transform` weighs the core more than the rim.
modes = ("uniform", "boundary_band(2)", "distance_transform")
figure = new_figure(12.0, 3.4)
for ax, mode in zip(figure.subplots(1, 3), modes, strict=True):
    result = pf.compare(*masks, pf.TransportConfig(mass_mode=mode, reach_um=10.0))
    created_map(result, ax)
    ax.set_title(f"{mode}\n{ax.get_title()}", fontsize=9)
    growth = result.M_target / result.M_source - 1
    print(f"{mode:20} mass {result.M_source:7.0f} -> {result.M_target:7.0f} ({growth:+.0%}), {result.status}")
figure.savefig("masks_and_mass.png", dpi=90)
