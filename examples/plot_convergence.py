"""
How an answer is certified
==========================

Plot the gap and the marginal error against iterations. At every iteration, the gap is a rigorous bound on the distance
between the value found and the true minimum. A result that does not reach its tolerance is marked wherever it is shown.
"""

import pairframe as pf
from pairframe.report.figures import convergence_plot, new_figure
from pairframe.testing import growing_embryo

# %%
# At the same tolerance, a shorter blur takes more iterations.
early, late = growing_embryo(6)[1:4:2]
figure = new_figure(13.0, 4.2)
for blur_um, ax in zip((40.0, 20.0, 10.0), figure.subplots(1, 3, sharey=True), strict=True):
    result = pf.compare(early, late, pf.TransportConfig(px_size_um=10.0, blur_um=blur_um, tol=1e-8))
    convergence_plot(result, ax)
    ax.set_title(f"blur {blur_um:g} µm: {ax.get_title()}", fontsize=9)
    print(
        f"blur {blur_um:g} um: {result.status}, relative gap {result.relative_gap:.1e}, {result.iterations} iterations"
    )
figure.savefig("convergence.png", dpi=90)

# %%
# A result that was stopped early has a status with advice, and its gap is still a valid bound.
stopped = pf.compare(early, late, pf.TransportConfig(px_size_um=10.0, max_iterations=3))
print(f"{stopped.status}: relative gap {stopped.relative_gap:.1e}; {stopped.status.advice}")
