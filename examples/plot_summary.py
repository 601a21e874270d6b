"""
A growing embryo at a glance
============================

Six panels: the pair in its frame, where its mass went, what was created and destroyed, how far it moved, and what the
way cost.
"""

import pairframe as pf
from pairframe.report.figures import new_figure, summary_figure, summary_size_in
from pairframe.testing import growing_embryo

# %%
# Two frames of a series, 10 um a pixel. Everything else is left at its default: blur 2 px, reach 50 px.
early, late = growing_embryo(6)[1:4:2]
result = pf.compare(early, late, pf.TransportConfig(px_size_um=10.0))
print(result.summary())

# %%
# All of it in one figure. Created and destroyed share one scale, in which a full pixel is dark: little looks like little.
figure = new_figure(*summary_size_in(result))
summary_figure(result, figure).savefig("summary.png", dpi=90)
