"""
A real cell: does the threshold matter?
=======================================

A phase image of one cell, which scikit-image ships, is segmented at two thresholds. The outlines look alike. Comparing the two
masks says what the choice changes: how much area, where, and how far the outline moves. Do this with your own images before
you believe a difference between two conditions that is not much larger.
"""

import numpy as np
from scipy import ndimage
from skimage import data, filters

import pairframe as pf
from pairframe.report.figures import SOURCE_COLOUR, TARGET_COLOUR, created_map, new_figure, pair_overlay

# %%
# The image is dark around a bright cell. Otsu's threshold on the smoothed image gives one outline, a threshold that is
# 10 % lower another. Only the largest object is kept, and its holes are filled.
image = filters.gaussian(data.cell().astype(float), 2.0)
otsu = filters.threshold_otsu(image)


def largest_object(mask: np.ndarray) -> np.ndarray:
    """The largest connected piece, without holes."""
    labels, _ = ndimage.label(mask)
    return ndimage.binary_fill_holes(labels == np.bincount(labels.ravel())[1:].argmax() + 1)


strict, lenient = largest_object(image > otsu), largest_object(image > 0.9 * otsu)

# %%
# The image has no pixel size, so lengths are in pixels. `invert`, `largest` and `fill_holes` of the config would do the
# cleaning as well.
result = pf.compare(strict, lenient)
print(result.summary())

# %%
# The lower threshold adds a rim. Its share of the area is the error that a threshold alone can make.
figure = new_figure(13.0, 4.6)
photo, overlay, created = figure.subplots(1, 3)
photo.imshow(data.cell(), cmap="gray")
for mask, colour in ((strict, SOURCE_COLOUR), (lenient, TARGET_COLOUR)):
    photo.contour(mask, [0.5], colors=[colour], linewidths=1.2)
box = result.transform.pair_crop_box_yx
photo.set(
    xlim=(box.x0 - 40, box.x1 + 40), ylim=(box.y1 + 40, box.y0 - 40), xticks=[], yticks=[], title="image and outlines"
)
pair_overlay(result, overlay)
created_map(result, created)
figure.savefig("real_cell.png", dpi=90)
