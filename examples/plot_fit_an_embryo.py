"""
Fit an embryo to a mask
=======================

``pairframe.ImageLoss`` is a transport loss between images with exact gradients. This example draws an embryo from seven
parameters, its pose and its shape, and fits them to a mask by gradient descent. Model and target do not overlap at the start,
so an overlap such as Dice has no slope to follow. It needs torch: ``pip install 'pairframe[torch]'``.
"""

import torch

from pairframe import ImageLoss
from pairframe.report.figures import new_figure
from pairframe.testing import embryo

torch.set_num_threads(1)

# %%
# The target is a mask of 64 x 112 pixels.
target = torch.tensor(embryo((64, 112), length_px=64, thickness_px=12, bend=0.7, yolk_px=0), dtype=torch.float64)
height, width = target.shape
yy, xx = torch.meshgrid(torch.arange(height).double(), torch.arange(width).double(), indexing="ij")


# %%
# The model is a bent, tapering ellipse with a soft edge.
def draw(parameters):
    y0, x0, log_length, log_width, turn, bend, taper = parameters
    x, y = xx - x0, yy - y0
    along, across = x * turn.cos() + y * turn.sin(), y * turn.cos() - x * turn.sin()
    length, thickness = log_length.exp(), log_width.exp()
    across = across - bend * (along**2 / length - length / 4)
    wide = thickness * torch.exp(-taper * torch.tanh(along / length))
    radius = torch.sqrt((along / length) ** 2 + (across / wide) ** 2 + 1e-6)
    return torch.sigmoid((1 - radius) * thickness / 0.35)


def dice(image):
    return 1 - 2 * (image * target).sum() / (image.sum() + target.sum())


# %%
# Gradient descent. The loss per unit of mass is a squared length in pixels, so one step size suits the whole way: `Adam` moves every
# parameter by about its step size. The model starts as a small ellipse in a corner. It finds its place and size first, and may bend and
# taper after that.
loss = ImageLoss(blur=2.0, reach=60.0, tol=1e-3)
start = torch.tensor([54.0, 16.0, 2.3, 1.9, 0.0, 0.0, 0.0], dtype=torch.float64)
scale = torch.tensor([10.0, 10.0, 0.5, 0.5, 0.3, 0.2, 0.4], dtype=torch.float64)  # pixels, logarithms, radians
moved = torch.zeros(7, dtype=torch.float64, requires_grad=True)
optimizer = torch.optim.Adam([moved], lr=0.2)
decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 150)
values, overlaps, shown = [], [], {}
for step in range(151):
    image = draw(start + scale * moved)
    value = loss(image[None], target[None]) / target.sum()
    if step in (0, 10, 40, 150):
        shown[step] = image.detach().numpy()
    values.append(value.item())
    overlaps.append(1 - dice(image.detach()).item())
    optimizer.zero_grad()
    value.backward()
    if step < 40:
        moved.grad[5:] = 0.0
    optimizer.step()
    decay.step()
print(
    f"transport loss {values[0]:.0f} px^2 at the start, {values[-1]:.2f} at the end; Dice {overlaps[0]:.2f}, {overlaps[-1]:.2f}"
)

# %%
# The slope of Dice at the start is nearly zero: model and target do not touch.
leaf = torch.zeros(7, dtype=torch.float64, requires_grad=True)
(slope,) = torch.autograd.grad(dice(draw(start + scale * leaf)), leaf)
print(f"slope of Dice for the position at the start: {slope[:2].norm():.1e}")

# %%
# The model at four steps over the outline of the target, and both measures.
figure = new_figure(15.0, 2.9)
*panels, curve = figure.subplots(1, 5)
for ax, (step, image) in zip(panels, shown.items(), strict=True):
    ax.imshow(image, cmap="Blues", vmin=0.0, vmax=1.3)
    ax.contour(target.numpy(), levels=[0.5], colors="#D1495B", linewidths=1.4)
    ax.set_xticks([])
    ax.set_yticks([])
    ax.set_title(f"step {step}: Dice {overlaps[step]:.2f}")
panels[0].set_xlabel("model (blue), outline of the target (red)")
curve.semilogy(values, color="0.2")
curve.set_xlabel("step")
curve.set_title("transport loss (px²)")
figure.savefig("fit_an_embryo.png", dpi=90)
