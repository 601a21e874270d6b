"""
An exact distance, with its proof
=================================

`pf.compare` blurs the plan and allows mass to be created and destroyed. If two images have the same mass, you may want the
exact distance between them instead. `pf.w2` computes a lower and an upper bound of the squared Wasserstein distance. Both
can be checked without trusting the solver. If the masses are whole numbers the bounds meet, which proves the distance.
"""

import math

import numpy as np

import pairframe as pf
from pairframe.report.figures import new_figure
from pairframe.testing import disc

# %%
# Shift a disc. For any shape, the distance of a rigid shift is the length of the shift, so the answer is known here.
shape_hw = (64, 96)
still = disc(shape_hw, (32, 26), 12)
for shift_px in (1, 7, 30):
    bounds = pf.w2(still, np.roll(still, shift_px, axis=1))
    distance_px = math.sqrt(bounds.upper / bounds.total)
    print(f"shift {shift_px:2d} px: distance {distance_px:.12f} px, exact: {bounds.is_exact}")
    assert bounds.is_exact
    assert math.isclose(distance_px, shift_px)

# %%
# Two shapes of equal area, a disc and a bar. The answer is not known in advance, and the bounds prove it.
bar = np.zeros(shape_hw, bool)
n_px = int(still.sum())
bar_rows = 9
bar[10 : 10 + bar_rows, 8 : 8 + n_px // bar_rows] = True
bar[10 + bar_rows, 8 : 8 + n_px % bar_rows] = True
bounds = pf.w2(still, bar)
print(f"optimal cost between {bounds.lower:.6f} and {bounds.upper:.6f} mass x px^2; exact: {bounds.is_exact}")
print(f"{bounds.iterations} softmins, then {bounds.raises} raises of whole-number potentials")

# %%
# The potentials of the lower bound are the proof. For every pair of pixels they sum to at most the squared distance.
# Weighted by the masses they sum to the cost of an existing plan. Both facts are easy to check.
(ya, xa), (yb, xb) = np.nonzero(still), np.nonzero(bar)
f, g = bounds.potential_a[ya, xa], bounds.potential_b[yb, xb]
cost = (ya[:, None] - yb) ** 2 + (xa[:, None] - xb) ** 2
print(f"largest violation: {(f[:, None] + g - cost).max():g}; value of the potentials: {f.sum() + g.sum():g}")
assert (f[:, None] + g <= cost).all()

figure = new_figure(11.0, 3.2)
images = (still.astype(float) + 2.0 * bar, bounds.potential_a, bounds.potential_b)
titles = ("disc and bar", "potential on the disc, px²", "potential on the bar, px²")
for ax, image, title in zip(figure.subplots(1, 3), images, titles, strict=True):
    shown = ax.imshow(image, cmap="viridis")
    if "potential" in title:
        figure.colorbar(shown, ax=ax, shrink=0.7)
    ax.set_title(title)
figure.savefig("exact_distance.png", dpi=90)
