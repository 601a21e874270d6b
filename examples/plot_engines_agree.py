"""
All engines agree
=================

Every engine minimises the same objective, so every engine finds the same maps, up to the tolerance. This example uses all
engines that are installed and lists them.
"""

import numpy as np

import pairframe as pf
from pairframe.report.figures import created_map, new_figure
from pairframe.testing import disc

# %%
# `grid` is the default. `oracle` is a dense float64 engine, slow and used as the ground truth. `pot`, `ott` and `torch` each
# need their library.
backends = pf.backends()
for backend in backends:
    print(backend)
installed = [backend.name for backend in backends if backend.available]

# %%
# Solve one small pair with each engine to a tolerance of 1e-8. The penalty is `kl`, which all engines support; the default,
# `partial`, is solved by `grid` and `oracle` only.
source, target = disc((40, 56), (18, 20), 9), disc((40, 56), (22, 33), 11)
results = {}
for name in installed:
    config = pf.TransportConfig(
        backend=name, penalty="kl", reach_um=12.0, downsample_factor=2, tol=1e-8, max_iterations=20_000
    )
    results[name] = pf.compare(source, target, config)

# %%
# Print the objective, the created mass, and the largest difference of any pixel from the map of the oracle.
truth = results["oracle"]
for name, result in results.items():
    largest_difference = np.abs(result.mass_created - truth.mass_created).max()
    print(
        f"{name:7} {result.status}: objective {result.objective:.9g}, created {result.total_mass_created:.7f} px, "
        f"largest difference {largest_difference:.1e}"
    )

# %%
# The maps of created mass, one panel per engine.
figure = new_figure(3.2 * len(results), 2.6)
for ax, (name, result) in zip(np.atleast_1d(figure.subplots(1, len(results))), results.items(), strict=True):
    created_map(result, ax)
    ax.set_title(f"{name}\n{result.total_mass_created:.5f} px created", fontsize=9)
figure.savefig("engines_agree.png", dpi=90)
