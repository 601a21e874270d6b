"""`ImageLoss`: the debiased transport divergence between images as a torch module."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pairframe import checks
from pairframe.engines import SolveOptions
from pairframe.errors import ArgumentError
from pairframe.losses.batch import BatchValue, batch_values, side_by_side
from pairframe.losses.checks import CheckedPair, checked_pair, positive
from pairframe.losses.pair import PairSettings, pair_displacement
from pairframe.problem import penalty_class
from pairframe.tiled.entry_point import entry_point
from pairframe.tiled.errors import TiledError, warn_not_converged

PENALTIES = ("kl", "partial", "balanced")
REDUCTIONS = ("mean", "sum", "none")


class ImageLoss(torch.nn.Module):
    """The Sinkhorn divergence between images, with exact gradients for both.

    Pixels are places at distance 1, values are masses. Zeros need no floor. Each pair is solved with a certificate by the grid
    engine, and the pairs of a batch side by side on the cores; the cost is near linear in the number of pixels.

    Parameters
    ----------
    blur : float
        Pixels; epsilon is blur^2.
    reach : float
        Pixels: mass farther than that from any place for it is destroyed or created instead of moved. ``balanced`` ignores it.
    penalty : {"kl", "partial", "balanced"}
        ``kl``: growth is smooth, and a part of every shift of an object as large as the reach counts as growth. ``partial``: mass
        moves or it does not; it has kinks, so train with the others. ``balanced``: each image is divided by its sum, so only
        shapes are compared.
    reduction : {"mean", "sum", "none"}
        Over all pairs of the batch.
    tol : float
        Relative gap of each of the three solves, which bounds the errors of their values. A divergence far smaller than those
        has fewer digits.
    max_iterations : int
        Kernel applications of one solve.
    jobs : int
        Number of processes including this one, each with one thread. The others start with the first batch and stay; as they
        import the main module, a script must do its work under ``if __name__ == "__main__":``. With 1 the pairs of a
        batch share the threads of this process, which wait for each other a third of the time.
    """

    def __init__(
        self,
        blur: float = 2.0,
        reach: float = 50.0,
        *,
        penalty: str = "kl",
        reduction: str = "mean",
        tol: float = 1e-6,
        max_iterations: int = 2000,
        jobs: int = 1,
    ) -> None:
        super().__init__()
        self.blur, self.reach, self.penalty, self.reduction = blur, reach, penalty, reduction
        self.tol, self.max_iterations, self.jobs = tol, max_iterations, jobs
        self._check()

    def _check(self) -> None:
        """The settings, which may have been changed since they were given."""
        for name, value, names in (
            ("penalty", self.penalty, PENALTIES),
            ("reduction", self.reduction, REDUCTIONS),
        ):
            if value not in names:
                raise ArgumentError(f"a {name}: {', '.join(names)}", repr(value), "use one of these names", name)
        self.blur = positive("blur", self.blur)
        if self.penalty != "balanced":
            self.reach = positive("reach", self.reach)
        SolveOptions(self.tol, self.max_iterations)  # checks them
        self.jobs = checks.integer(self.jobs, "jobs", 1, fix="e.g. 4, or 1 for none but this process")

    def extra_repr(self) -> str:
        """The settings, for `repr`."""
        reach = "" if self.penalty == "balanced" else f"reach={self.reach:g}, "
        stop = f"tol={self.tol:g}, max_iterations={self.max_iterations}, jobs={self.jobs}"
        return f"blur={self.blur:g}, {reach}penalty={self.penalty!r}, reduction={self.reduction!r}, {stop}"

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """The divergence of each pair, in mass times px^2, reduced.

        Parameters
        ----------
        a, b : (B, H, W) or (B, C, H, W)
            Images of values >= 0, each with some mass; channels are compared each with its own.

        Returns
        -------
        ()
            Or (B,), (B, C) with reduction ``none``. In the dtype of the images, but at least float32.
        """
        values = _divergences(self, a, b)
        if self.reduction == "none":
            return values
        return values.mean() if self.reduction == "mean" else values.sum()

    @torch.no_grad()
    @entry_point
    def displacement(self, a: Tensor, b: Tensor) -> Tensor:
        """Where the mass of each pixel of `a` goes: mean displacement (B, 2, H, W) or (B, C, 2, H, W), in px as (dy, dx).

        Debiased: zero for equal images. For an image that was shifted by k it is k under ``partial`` and ``balanced`` and less
        under ``kl``: half of it for an object of twice the reach, nearly k where the reach is several times its length. NaN where no
        mass moves. It has no gradient.
        """
        checked = checked_pair(a, b)
        self._check()
        settings = self._settings(checked.device)
        masses_a, masses_b = self._masses(checked.a), self._masses(checked.b)
        tasks = [(masses_a[k], masses_b[k], settings) for k in range(len(masses_a))]
        fields = np.stack(list(side_by_side(_displacement, tasks, self.jobs)))
        shape = (*checked.shape[:-2], 2, *checked.shape[-2:])
        return torch.from_numpy(fields).to(a.device, checked.dtype).reshape(shape)

    def _settings(self, device: str | None) -> PairSettings:
        kind = penalty_class(self.penalty)
        penalty = kind.from_relaxation(np.inf if kind.is_exact else kind.relaxation_per_reach * self.reach**2)
        return PairSettings(self.blur**2, penalty, SolveOptions(self.tol, self.max_iterations, "float64", device))

    def _masses(self, images: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Images (n, H, W) as masses: divided by their sums if the penalty is ``balanced``."""
        return images / images.sum((1, 2), keepdims=True) if self.penalty == "balanced" else images


@entry_point
def _divergences(loss: ImageLoss, a: Tensor, b: Tensor) -> Tensor:
    checked = checked_pair(a, b)
    loss._check()
    values: Tensor = _Divergences.apply(a, b, checked, loss)  # type: ignore[no-untyped-call]
    return values


class _Divergences(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, checked: CheckedPair, loss: ImageLoss) -> Tensor:
        wants = ctx.needs_input_grad[0], ctx.needs_input_grad[1]
        found = batch_values(
            loss._masses(checked.a), loss._masses(checked.b), loss._settings(checked.device), wants, loss.jobs
        )
        _warn(found, loss)
        of_a, of_b = (
            None if one is None else _of_images(one, images, loss.penalty)
            for one, images in ((found.gradients_a, checked.a), (found.gradients_b, checked.b))
        )
        kept = [
            None if one is None else torch.from_numpy(one).to(image.device).reshape(image.shape)
            for one, image in ((of_a, a), (of_b, b))
        ]
        ctx.save_for_backward(a, b, *kept)
        values = torch.from_numpy(found.values).to(a.device)
        return values.to(torch.float64 if checked.dtype == torch.float64 else torch.float32).reshape(a.shape[:-2])

    @staticmethod
    def backward(ctx: Any, bar: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        a, b, of_a, of_b = ctx.saved_tensors
        bars: list[Tensor | None] = []
        for image, gradient in ((a, of_a), (b, of_b)):
            if gradient is None:
                bars.append(None)
                continue
            with torch.no_grad():
                one = (bar.double()[..., None, None] * gradient).to(image.dtype)
            bars.append(_Once.apply(one, a, b, bar) if torch.is_grad_enabled() else one)  # type: ignore[no-untyped-call]
        return bars[0], bars[1], None, None


class _Once(torch.autograd.Function):
    """A gradient as it is; a derivative of it by the images, or by what was passed back, raises an error with advice."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, *_: Tensor) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> None:
        raise TiledError(
            "a first derivative",
            "a derivative of a gradient of ImageLoss",
            "take the difference of two gradients: (grad(a + h v) - grad(a - h v)) / (2 h), with tol=1e-10",
        )


def _of_images(gradients: np.ndarray[Any, Any], images: np.ndarray[Any, Any], penalty: str) -> np.ndarray[Any, Any]:
    """Gradients for the images from those for the masses: through the division by the sum under ``balanced``."""
    if penalty != "balanced":
        return gradients
    totals = images.sum((1, 2), keepdims=True)
    means = (gradients * images).sum((1, 2), keepdims=True) / totals
    return np.asarray((gradients - means) / totals)


def _warn(found: BatchValue, loss: ImageLoss) -> None:
    if not found.n_open:
        return
    limit = loss.max_iterations
    fix = "raise max_iterations, blur or tol"
    if found.most_iterations < limit:
        fix = "leave out images with hardly any mass, or raise blur or tol: more iterations do not help"
    warn_not_converged(
        f"{found.n_open} of {len(found.values)} pairs stopped after up to {found.most_iterations} kernel applications (the limit "
        f"is {limit}) at an error of up to {found.worst_error:.2g}, above a tolerance of {loss.tol:g}. To fix: {fix}",
        str(Path(__file__).parent),
    )


def _displacement(task: tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], PairSettings]) -> np.ndarray[Any, Any]:
    return pair_displacement(*task)
