"""The grid softmin equals a dense float64 sum. Runs in triton's interpreter, started by `test_tiled_triton`."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pairframe.tiled import grid_softmin
from pairframe.tiled.errors import TiledError


def dense(
    log_weight: Tensor, channels: Tensor, epsilon: Tensor, out_hw: tuple[int, int], offset_yx: tuple[int, int]
) -> tuple[Tensor, Tensor]:
    """The same by n x m sums in float64."""
    h = log_weight.double()
    n_batch, height, width = h.shape
    yx_in = torch.cartesian_prod(torch.arange(height), torch.arange(width))
    yx_out = torch.cartesian_prod(torch.arange(out_hw[0]), torch.arange(out_hw[1])) + torch.tensor(offset_yx)
    squared = ((yx_out[:, None] - yx_in[None]) ** 2).sum(2)
    z = h.reshape(n_batch, 1, -1) - squared / epsilon.double().reshape(-1, 1, 1)
    total = torch.logsumexp(z, 2)
    weight = torch.exp(z - torch.where(total.isfinite(), total, 0.0)[..., None])
    means = torch.einsum("bij,bcj->bci", weight, channels.double().flatten(2))
    return total.reshape(n_batch, *out_hw), means.reshape(n_batch, -1, *out_hw)


def images(n_batch: int, height: int, width: int, spread: float, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Log-weights with holes, and two channels."""
    draw = torch.Generator().manual_seed(seed)
    h = spread * torch.randn((n_batch, height, width), generator=draw, dtype=torch.float64)
    h[torch.rand(h.shape, generator=draw) < 0.4] = -torch.inf
    h[-1, :, width // 3 :] = -torch.inf
    return h, torch.randn((n_batch, 2, height, width), generator=draw, dtype=torch.float64)


@pytest.mark.parametrize(
    ("dtype", "fast_exp", "tolerance", "epsilon"),
    [
        (torch.float64, False, 1e-13, 1e-3),
        (torch.float64, False, 1e-13, 3.3),
        (torch.float64, False, 1e-13, 900.0),
        (torch.float64, True, 1e-6, 1e-3),
        (torch.float32, False, 2e-6, 3.3),
    ],
)
def test_log_sums_and_means_equal_dense_sums(
    dtype: torch.dtype, fast_exp: bool, tolerance: float, epsilon: float
) -> None:
    h, channels = images(2, 2, 70, spread=4.0)
    h, channels = h.to(dtype), channels.to(dtype)
    per_image = torch.tensor([epsilon, 2 * epsilon], dtype=torch.float64)
    got, means = grid_softmin.log_sum_and_means(
        h, channels, per_image, out_hw=(3, 4), offset_yx=(-1, 40), fast_exp=fast_exp
    )
    wanted, wanted_means = dense(h, channels, per_image, (3, 4), (-1, 40))
    assert not got.isnan().any()
    assert ((got.double() - wanted).abs() <= tolerance * wanted.abs().clamp(min=1.0)).all()
    # An exponent that is off by some of its own digits turns that much of a mean.
    digits = 1e-6 if dtype == torch.float32 or fast_exp else 1e-15
    blurred = digits * float(wanted.abs().max())
    assert (means.double() - wanted_means).abs().max() <= 4 * blurred + 10 * tolerance


def test_two_equal_spikes_far_apart_are_seen_from_midway_at_any_epsilon() -> None:
    h = torch.full((1, 1, 201), -torch.inf, dtype=torch.float64)
    h[0, 0, 0] = h[0, 0, 200] = 0.0
    for epsilon in (1e-6, 1e-2):
        middle = grid_softmin.log_sum(h, epsilon, out_hw=(1, 3), offset_yx=(0, 99))[0, 0]
        wanted = torch.logaddexp(
            -(torch.tensor([99.0, 100.0, 101.0]).double() ** 2) / epsilon,
            -(torch.tensor([101.0, 100.0, 99.0]).double() ** 2) / epsilon,
        )
        assert torch.allclose(middle, wanted, rtol=1e-14)


def test_an_image_in_a_batch_and_in_padding_is_the_image_alone() -> None:
    (h, _), epsilon = images(2, 3, 7, spread=2.0), 5.0
    padded = torch.nn.functional.pad(h, (0, 3, 0, 1), value=-torch.inf)
    together = grid_softmin.log_sum(padded, epsilon, out_hw=(3, 7))
    for k in range(2):
        alone = grid_softmin.log_sum(h[k : k + 1], epsilon)[0]
        assert (together[k] - alone).abs().max() <= 1e-14 * alone.abs().max()


def test_an_image_without_mass_is_minus_infinity_everywhere() -> None:
    h = torch.full((1, 2, 5), -torch.inf)
    total, means = grid_softmin.log_sum_and_means(h, torch.ones((1, 1, 2, 5)), 1.0)
    assert (total == -torch.inf).all()
    assert (means == 0).all()


def test_wrong_input_is_refused() -> None:
    good = torch.zeros((1, 2, 3))
    with pytest.raises(TiledError, match=r"shape \(B, H, W\), got shape \(2, 3\)"):
        grid_softmin.log_sum(good[0], 1.0)
    with pytest.raises(TiledError, match=r"float64 or float32, got torch\.float16"):
        grid_softmin.log_sum(good.half(), 1.0)
    with pytest.raises(TiledError, match="epsilon > 0"):
        grid_softmin.log_sum(good, 0.0)
    with pytest.raises(TiledError, match=r"channels of shape \(B, c, H, W\)"):
        grid_softmin.log_sum_and_means(good, good, 1.0)
