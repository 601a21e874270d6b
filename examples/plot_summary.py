"""
A growing embryo at a glance
============================

Six panels show the pair in its frame, where the mass went, where it was created and destroyed, how far it moved, and the
transport cost.
"""

import pairframe as pf
from pairframe.report.figures import new_figure, summary_figure, summary_size_in
from pairframe.testing import growing_embryo

# %%
# Compare two frames of a series with pixels of 10 um. Blur and reach keep their defaults: 2 pixels, and the
# length of the embryo.
early, late = growing_embryo(6)[1:4:2]
result = pf.compare(early, late, pf.TransportConfig(px_size_um=10.0))
print(result.summary())

# %%
# Draw the figure. Created and destroyed mass share one colour scale, with a full pixel at its dark end.
figure = new_figure(*summary_size_in(result))
summary_figure(result, figure).savefig("summary.png", dpi=90)
