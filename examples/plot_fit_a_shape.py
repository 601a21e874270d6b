"""
Fit a shape by gradient descent
===============================

``pairframe.tiled`` is a Sinkhorn solver that PyTorch can differentiate. It never stores a plan. This example fits a bent
ellipse with six parameters to an embryo. The loss is the debiased divergence between two point clouds, and its gradient
goes through the solve. It needs torch: ``pip install 'pairframe[torch]'``.
"""

import math

import numpy as np
import torch

from pairframe.report.figures import SOURCE_COLOUR, TARGET_COLOUR, new_figure
from pairframe.testing import embryo
from pairframe.tiled import divergence

torch.set_num_threads(1)  # faster for so few points

# %%
# The target is every fifth pixel of a mask along both axes, as (x, y) in units of 100 px.
mask = embryo((128, 288), length_px=200, thickness_px=20, bend=1.1, yolk_px=0)
ys, xs = np.nonzero(mask[::5, ::5])
target = torch.tensor(np.stack([xs, ys], axis=-1) * 0.05, dtype=torch.float64)[None]
print(f"{target.shape[1]} points of the target")

# %%
# The model is an even spiral of points in the unit disc that is stretched, bent, rotated and shifted.
count = 160
radius = torch.sqrt((torch.arange(count, dtype=torch.float64) + 0.5) / count)
angle = torch.arange(count, dtype=torch.float64) * math.pi * (3 - math.sqrt(5))
unit_disc = torch.stack([radius * torch.cos(angle), radius * torch.sin(angle)], dim=-1)


def shape(parameters):
    x0, y0, log_length, log_width, turn, bend = parameters
    x, y = unit_disc[:, 0] * log_length.exp(), unit_disc[:, 1] * log_width.exp()
    y = y + bend * x**2
    return torch.stack([x0 + x * turn.cos() - y * turn.sin(), y0 + x * turn.sin() + y * turn.cos()], dim=-1)


# %%
# Gradient descent with a shrinking blur, which finds the position first and the shape later. Soft marginals (tau) are solved
# faster and tolerate the tail, which the model cannot represent.
parameters = torch.tensor([0.7, 1.0, -1.0, -1.0, 0.0, 0.0], dtype=torch.float64, requires_grad=True)
optimizer = torch.optim.Adam([parameters], lr=0.12)
losses, shown = [], {}
for step in range(41):
    blur = 0.15 + 0.3 * 0.9**step
    points = shape(parameters)
    loss = divergence((points[None], target), epsilon=blur**2, tau_a=0.3, tau_b=0.3, threshold=1e-3).sum()
    if step in (0, 5, 12, 40):
        shown[step] = points.detach().numpy()
    losses.append(loss.item())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"divergence {losses[0]:.3g} at the start, {losses[-1]:.3g} at the end")

# %%
# The shape at four steps, and the loss.
figure = new_figure(14.0, 3.2)
*panels, curve = figure.subplots(1, 5)
for ax, (step, points) in zip(panels, shown.items(), strict=True):
    ax.scatter(*target[0].T, s=7, color=TARGET_COLOUR, label="target")
    ax.scatter(*points.T, s=5, color=SOURCE_COLOUR, label="model")
    ax.set_aspect("equal")
    ax.set_xlim(0.0, 2.88)
    ax.set_ylim(1.28, 0.0)
    ax.set_xticks([])
    ax.set_yticks([])
    ax.set_title(f"step {step}")
panels[0].legend(frameon=False, fontsize=8, loc="lower right")
curve.semilogy(losses, color="0.2")
curve.set_xlabel("step")
curve.set_title("divergence")
figure.savefig("fit_a_shape.png", dpi=90)
