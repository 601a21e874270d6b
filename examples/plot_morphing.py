"""From one embryo to the other
===============================

Displacement interpolation: grey mass travels straight along the displacement field, green mass is created, orange mass is
destroyed. The total goes from the source's to the target's in even steps. Writes morphing.png, a row of still pictures,
and the movie morphing.gif.
"""

import pairframe as pf
from pairframe.report.figures import interpolation_frames, morph_strip, new_figure, write_movie
from pairframe.testing import growing_embryo

early, late = growing_embryo(6)[1:4:2]
result = pf.compare(early, late, pf.TransportConfig(px_size_um=10.0, downsample_factor=2))

for k, frame in enumerate(interpolation_frames(result, 5)):
    print(f"t = {k / 4:.2f}: {frame.sum():.1f} px of mass")

morph_strip(result, new_figure(6.0, 14.5), n=5).savefig("morphing.png", dpi=80)
print(f"movie: {write_movie(result, 'morphing.gif', n=24)}")
