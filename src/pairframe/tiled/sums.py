"""Sums over one side whose rounding does not depend on trailing padding."""

from __future__ import annotations

import torch
from torch import Tensor

_CHUNK = 512


def padded_sum(values: Tensor) -> Tensor:
    """Sum of (B, n) over n in float64, (B,): chunks of fixed length, added in order.

    Any number of trailing zeros leaves every bit of the result unchanged.
    """
    values = values.double()
    missing = -values.shape[1] % _CHUNK
    if missing:
        values = torch.nn.functional.pad(values, (0, missing))
    return values.reshape(values.shape[0], -1, _CHUNK).sum(2).cumsum(1)[:, -1]


def padded_log_sum(exponents: Tensor) -> Tensor:
    """Log sum exp of (B, n) over n in float64, (B,); -inf if every entry is -inf."""
    exponents = exponents.double()
    top = exponents.detach().amax(1)
    top = torch.where(torch.isfinite(top), top, 0.0)
    return top + padded_sum(torch.exp(exponents - top.unsqueeze(1))).log()
