"""
From one embryo to the other
============================

Displacement interpolation: grey mass travels straight along the displacement field, green mass is created, orange mass is
destroyed.
"""

import pairframe as pf
from pairframe.report.figures import interpolation_frames, morph_strip, new_figure, write_movie
from pairframe.testing import growing_embryo

# %%
# A pair of a growing embryo, solved on blocks of 2 x 2 pixels.
early, late = growing_embryo(6)[1:4:2]
result = pf.compare(early, late, pf.TransportConfig(px_size_um=10.0, downsample_factor=2))

# %%
# The total goes from the source's to the target's in even steps.
for k, frame in enumerate(interpolation_frames(result, 5)):
    print(f"t = {k / 4:.2f}: {frame.sum():.1f} px of mass")

# %%
# A strip of still pictures; thin lines are the rims of source and target.
morph_strip(result, new_figure(6.0, 14.5), n=5).savefig("morphing.png", dpi=80)

# %%
# And the movie.
print(f"movie: {write_movie(result, 'morphing.gif', n=24)}")
