"""
An exact distance, with its proof
=================================

`pf.compare` blurs on purpose and lets mass come and go. Sometimes the question is plainer: two images with the same mass,
and how far apart they are, exactly. `pf.w2` gives the squared Wasserstein distance between two bounds that need no trust
in any solver. Where the masses are whole numbers the bounds meet, and that is the proof.
"""

import math

import numpy as np

import pairframe as pf
from pairframe.report.figures import new_figure
from pairframe.testing import disc

# %%
# A disc that moves. Whatever the shape, the distance of a rigid shift is the length of the shift: the one case in which
# everybody knows the answer.
shape_hw = (64, 96)
still = disc(shape_hw, (32, 26), 12)
for shift_px in (1, 7, 30):
    bounds = pf.w2(still, np.roll(still, shift_px, axis=1))
    distance_px = math.sqrt(bounds.upper / bounds.total)
    print(f"shift {shift_px:2d} px: distance {distance_px:.12f} px, exact: {bounds.is_exact}")
    assert bounds.is_exact
    assert math.isclose(distance_px, shift_px)

# %%
# Two shapes of equal area: a disc becomes a bar. Here nobody knows the answer, and the bounds tell it.
bar = np.zeros(shape_hw, bool)
n_px = int(still.sum())
bar_rows = 9
bar[10 : 10 + bar_rows, 8 : 8 + n_px // bar_rows] = True
bar[10 + bar_rows, 8 : 8 + n_px % bar_rows] = True
bounds = pf.w2(still, bar)
print(f"optimal cost between {bounds.lower:.6f} and {bounds.upper:.6f} mass x px^2; exact: {bounds.is_exact}")
print(f"{bounds.iterations} softmins, then {bounds.raises} raises of whole-number potentials")

# %%
# The potentials of the lower bound are the proof: on every pair of pixels they sum to at most the squared distance, and
# weighed with the masses they sum to the cost of a plan that really exists. Anybody can check it.
(ya, xa), (yb, xb) = np.nonzero(still), np.nonzero(bar)
f, g = bounds.potential_a[ya, xa], bounds.potential_b[yb, xb]
cost = (ya[:, None] - yb) ** 2 + (xa[:, None] - xb) ** 2
print(f"largest violation: {(f[:, None] + g - cost).max():g}; value of the potentials: {f.sum() + g.sum():g}")
assert (f[:, None] + g <= cost).all()

figure = new_figure(11.0, 3.2)
images = (still.astype(float) + 2.0 * bar, bounds.potential_a, bounds.potential_b)
titles = ("a disc becomes a bar", "potential on the disc, px²", "potential on the bar, px²")
for ax, image, title in zip(figure.subplots(1, 3), images, titles, strict=True):
    shown = ax.imshow(image, cmap="viridis")
    if "potential" in title:
        figure.colorbar(shown, ax=ax, shrink=0.7)
    ax.set_title(title)
figure.savefig("exact_distance.png", dpi=90)
