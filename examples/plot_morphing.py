"""
Morph one embryo into another
=============================

Displacement interpolation between source and target. Grey mass moves straight along the displacement field, green mass is
created and orange mass is destroyed.
"""

import pairframe as pf
from pairframe.report.figures import interpolation_frames, morph_strip, new_figure, write_movie
from pairframe.testing import growing_embryo

# %%
# Compare two frames of a growing embryo on a work grid of 2 x 2 pixels per block.
early, late = growing_embryo(6)[1:4:2]
result = pf.compare(early, late, pf.TransportConfig(px_size_um=10.0, downsample_factor=2))

# %%
# The total mass changes from source to target in even steps.
for k, frame in enumerate(interpolation_frames(result, 5)):
    print(f"t = {k / 4:.2f}: {frame.sum():.1f} px of mass")

# %%
# Draw a strip of still pictures. Thin lines are the outlines of source and target.
figure = morph_strip(result, new_figure(6.0, 14.5), n=5)
figure.savefig("morphing.png", dpi=80)

# %%
# Write the movie.
print(f"movie: {write_movie(result, 'morphing.gif', n=24)}")
