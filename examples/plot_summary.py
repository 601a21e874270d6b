"""A growing embryo at a glance
===============================

Six panels: the pair in its frame, where its mass went, what was created and destroyed, how far it moved, and what the
way cost. Writes summary.png.
"""

import pairframe as pf
from pairframe.report.figures import new_figure, summary_figure, summary_size_in
from pairframe.testing import growing_embryo

early, late = growing_embryo(6)[1:4:2]
result = pf.compare(early, late, pf.TransportConfig(px_size_um=10.0))
print(result.summary())

figure = new_figure(*summary_size_in(result))
summary_figure(result, figure).savefig("summary.png", dpi=90)
