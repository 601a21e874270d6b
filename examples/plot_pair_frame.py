"""
A tiny and a huge embryo in one pair frame
==========================================

Two masks whose areas differ fiftyfold share one pair frame. They are pooled to the work grid and lifted back without losing
any mass.
"""

import numpy as np

import pairframe as pf
from pairframe.report.figures import frame_overview, new_figure
from pairframe.testing import tiny_and_huge_embryo

# %%
# Two binary masks on one canvas. To read them from files, use ``pf.read_mask("labels.tif:3")``.
tiny, huge = tiny_and_huge_embryo()
print(f"areas: {tiny.sum()} px and {huge.sum()} px")

# %%
# One crop holds both masks, in blocks of 4 x 4 pixels. It is padded to one of a few fixed shapes, so that pairs of the same
# shape can be solved together.
frame = pf.GridTransform.from_pair(
    tiny, huge, s=4, pad=16, crop_policy="bucketed", bucket_shapes=[(64, 96), (64, 160)], px_size_um=10.0
)
print(frame)

# %%
# Pooling sums over blocks and lifting spreads evenly over them, so the total stays and the centre hardly moves.
for name, mask in (("tiny", tiny), ("huge", huge)):
    work = frame.to_work(mask)
    lifted = frame.rasterize_to_canon(work)
    before, after = ([np.average(axis, weights=mass) for axis in np.indices(mask.shape)] for mass in (mask, lifted))
    moved_px = np.hypot(*np.subtract(after, before))
    print(
        f"{name}: {mask.sum()} px, {work.sum():g} on the work grid, {lifted.sum():g} back; centre {moved_px:.2f} px off"
    )

# %%
# Draw both masks, the crop, the work grid and the bucket.
figure = new_figure(11.0, 4.6)
frame_overview(frame, tiny, huge, figure.add_subplot())
figure.savefig("pair_frame.png", dpi=120)
