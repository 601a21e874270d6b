"""The Gaussian kernel of a pixel grid on a GPU: a batched softmin over whole images, without any n x n array.

``exp(-|x_i - x_j|^2 / eps)`` factors into rows and columns, so a sum over an image is a pass along one axis and a pass
along the other (`kernels.grid`). The sums are exact to rounding at any epsilon.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from pairframe.tiled.backends import backend_name
from pairframe.tiled.errors import TiledError
from pairframe.tiled.kernels.configs import GRID
from pairframe.tiled.kernels.launch import run

_BITS = {torch.float64: 53.0, torch.float32: 24.0}  # terms further below an output's largest term change no digit


def log_sum(
    log_weight: Tensor,
    epsilon: float | Tensor,
    *,
    out_hw: tuple[int, int] | None = None,
    offset_yx: tuple[int, int] = (0, 0),
    fast_exp: bool = False,
) -> Tensor:
    """``log sum_j exp(log_weight_j - |x_i - x_j|^2 / eps)`` at every pixel i.

    Parameters
    ----------
    log_weight : (B, H, W) float64 or float32
        -inf where there is no mass. Padding with -inf changes nothing.
    epsilon : float or (B,)
        px^2.
    out_hw, offset_yx
        Size of the output box, and the input pixel at its corner; by default the box of the input.
    fast_exp : bool
        For float64: keep exponents in float64 but take exponentials in float32; absolute error about 1e-6.

    Returns
    -------
    (B, *out_hw)
        -inf where no weight is in reach.
    """
    return _run(log_weight, None, epsilon, out_hw, offset_yx, fast_exp)[0]


def log_sum_and_means(
    log_weight: Tensor,
    channels: Tensor,
    epsilon: float | Tensor,
    *,
    out_hw: tuple[int, int] | None = None,
    offset_yx: tuple[int, int] = (0, 0),
    fast_exp: bool = False,
) -> tuple[Tensor, Tensor]:
    """The log-sums, and the averages of `channels` (B, c, H, W) with the same weights, ``(B, c, *out_hw)``.

    The averages are 0 where no weight is in reach. The other arguments are those of `log_sum`.
    """
    if channels.dim() != 4 or channels.shape[0] != log_weight.shape[0] or channels.shape[2:] != log_weight.shape[1:]:
        raise TiledError(
            "channels of shape (B, c, H, W) for log-weights (B, H, W)",
            f"{tuple(channels.shape)} for {tuple(log_weight.shape)}",
            "stack the channels along dimension 1",
        )
    return _run(log_weight, channels, epsilon, out_hw, offset_yx, fast_exp)


@torch.no_grad()
def _run(
    log_weight: Tensor,
    channels: Tensor | None,
    epsilon: float | Tensor,
    out_hw: tuple[int, int] | None,
    offset_yx: tuple[int, int],
    fast_exp: bool,
) -> tuple[Tensor, Tensor]:
    _check(log_weight)
    backend_name("triton", log_weight.device)  # raises an error if kernels cannot run there
    n_batch, height, width = log_weight.shape
    out_h, out_w = (height, width) if out_hw is None else out_hw
    scale = math.log2(math.e) / torch.as_tensor(epsilon, dtype=log_weight.dtype, device=log_weight.device)
    if not bool((scale > 0).all() & scale.isfinite().all()):
        raise TiledError("epsilon > 0, in px^2", f"{epsilon}", "use blur^2, e.g. 4.0 for a blur of 2 px")
    scale = scale.expand(n_batch).contiguous()
    h = log_weight.contiguous()
    phi = h.new_empty((n_batch, 0, height, width)) if channels is None else channels.to(h.dtype).contiguous()
    # Each pass writes its result transposed, so that the other axis becomes the contiguous one.
    middle, middle_phi = _pass(h, phi, scale, out_w, offset_yx[1], fast_exp)
    return _pass(middle, middle_phi, scale, out_h, offset_yx[0], fast_exp)


def _pass(h: Tensor, phi: Tensor, scale: Tensor, n_out: int, offset: int, fast_exp: bool) -> tuple[Tensor, Tensor]:
    """Along the last axis: (B, R, n), (B, c, R, n) -> (B, n_out, R), (B, c, n_out, R)."""
    from pairframe.tiled.kernels.grid import grid_pass_kernel

    n_batch, n_rows, n_in = h.shape
    n_phi = phi.shape[1]
    out = h.new_empty((n_batch, n_out, n_rows))
    means = h.new_empty((n_batch, n_phi, n_out, n_rows))
    n_tiles = math.ceil(n_in / GRID.bq)
    tiled = torch.nn.functional.pad(h, (0, n_tiles * GRID.bq - n_in), value=-math.inf)
    computed = torch.float32 if fast_exp else h.dtype
    arguments = {
        "h": h,
        "tile_top": tiled.view(n_batch, n_rows, n_tiles, GRID.bq).amax(3),
        "phi": phi if n_phi else h,
        "scale": scale,
        "out": out,
        "means": means if n_phi else out,
        "n_rows": n_rows,
        "n_in": n_in,
        "n_out": n_out,
        "n_tiles": n_tiles,
        "n_phi": n_phi,
        "offset": offset,
        "cut": _BITS[computed] + math.log2(n_in),
        "out_b": out.stride(0),
        "out_r": out.stride(2),
        "out_i": out.stride(1),
        "means_b": means.stride(0),
        "means_c": means.stride(1),
        "means_r": means.stride(3),
        "means_i": means.stride(2),
        "FAST_EXP": fast_exp and h.dtype == torch.float64,
        "WITH_MEANS": n_phi > 0,
    }
    grid = (n_batch * n_rows, math.ceil(n_out / GRID.bp), max(1, n_phi))
    run(grid_pass_kernel, (GRID,), lambda _: grid, arguments, h.device)
    return out, means


def _check(log_weight: Tensor) -> None:
    if log_weight.dim() != 3 or 0 in log_weight.shape:
        raise TiledError(
            "log-weights of shape (B, H, W)", f"shape {tuple(log_weight.shape)}", "use h.unsqueeze(0) for one image"
        )
    if log_weight.dtype not in _BITS:
        raise TiledError(
            "log-weights in float64 or float32", str(log_weight.dtype), "convert with .double() or .float()"
        )
