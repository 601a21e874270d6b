"""
Keep thin structures in a segmentation
======================================

A tail that is one or two pixels wide is a few percent of an object. Dice hardly notices when a network loses it; a transport
loss does, because the mass of the tail is far from any place that could take it. This example trains a small network on
synthetic embryos with faint tails, twice: with Dice alone, and with ``pairframe.ImageLoss`` added. It needs torch:
``pip install 'pairframe[torch]'``.
"""

import torch

from pairframe import ImageLoss
from pairframe.report.figures import new_figure

torch.set_num_threads(1)
side = 40
yy, xx = torch.meshgrid(torch.arange(side).float(), torch.arange(side).float(), indexing="ij")


# %%
# An embryo is a bright body with a faint, curved tail, under noise. The mask has both.
def embryos(count, generator):
    images, bodies, tails = [], [], []
    for _ in range(count):
        (y0, x0), radius = 13 + 4 * torch.rand(2, generator=generator), 5 + 2 * torch.rand((), generator=generator)
        body = torch.hypot(yy - y0, xx - x0) <= radius
        turn, bend = 0.4 + 0.8 * torch.rand((), generator=generator), 0.02 * torch.randn((), generator=generator)
        along = (xx - x0) * turn.cos() + (yy - y0) * turn.sin()
        across = (yy - y0) * turn.cos() - (xx - x0) * turn.sin() - bend * along**2
        tail = (across.abs() <= 0.8) & (along > 0) & (along <= radius + 15) & ~body
        images.append(body + 0.5 * tail + 0.2 * torch.randn((side, side), generator=generator))
        bodies.append(body)
        tails.append(tail)
    return torch.stack(images), torch.stack(bodies), torch.stack(tails)


train = embryos(64, torch.Generator().manual_seed(0))
test = embryos(64, torch.Generator().manual_seed(1))


# %%
# The network, its first weights and the order of the images are the same for both runs.
def network():
    torch.manual_seed(0)
    layers = [
        torch.nn.Conv2d(1, 8, 5, padding=2),
        torch.nn.ReLU(),
        torch.nn.Conv2d(8, 8, 5, padding=2),
        torch.nn.ReLU(),
    ]
    return torch.nn.Sequential(*layers, torch.nn.Conv2d(8, 1, 5, padding=2), torch.nn.Sigmoid())


def dice(found, mask):
    return 1 - (2 * (found * mask).sum((1, 2)) / (found.sum((1, 2)) + mask.sum((1, 2)))).mean()


transport = ImageLoss(blur=1.5, reach=8.0, tol=1e-3, reduction="none")


def trained(weight, steps=150, batch=8):
    net = network()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(2)
    masks = (train[1] | train[2]).float()
    for _ in range(steps):
        chosen = torch.randint(len(masks), (batch,), generator=generator)
        found, mask = net(train[0][chosen][:, None])[:, 0], masks[chosen]
        value = dice(found, mask)
        if weight:  # px^2 per unit of mass
            value = value + weight * (transport(found, mask) / mask.sum((1, 2))).mean()
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    with torch.no_grad():
        return net(test[0][:, None])[:, 0]


# %%
# On new images: how much of the tails each network finds, and the overlap with the whole mask. The overlap is the same; what it
# cannot see is the difference. The price is a body that is less sure of itself, and some false pixels around it.
masks, tails = (test[1] | test[2]).float(), test[2]
outputs = {"Dice": trained(0.0), "Dice + transport": trained(0.02)}
for name, found in outputs.items():
    kept = (found[tails] > 0.5).float().mean()
    wrong = ((found > 0.5) & (masks == 0)).float().sum() / masks.sum()
    overlap = 1 - dice((found > 0.5).float(), masks)
    print(f"{name:<17} tail found {kept:.0%}, false pixels {wrong:.1%} of the mask, Dice {overlap:.3f}")

# %%
# Three of the new images.
figure = new_figure(9.0, 7.2)
panels = figure.subplots(3, 4)
columns = {"image": test[0], "mask": masks, **outputs}
for k, row in enumerate(panels):
    for ax, (title, images) in zip(row, columns.items(), strict=True):
        low, high = (-0.5, 1.5) if title == "image" else (0.0, 1.0)
        ax.imshow(images[k].numpy(), cmap="gray", vmin=low, vmax=high)
        ax.set_xticks([])
        ax.set_yticks([])
        if k == 0:
            ax.set_title(title)
figure.savefig("thin_structures.png", dpi=90)
