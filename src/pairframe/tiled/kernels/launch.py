"""Launch a kernel: tuned on a GPU, with the first choice of blocks in the interpreter."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch

from pairframe.tiled.kernels.configs import Blocks

Grid = Callable[[Mapping[str, int]], tuple[int, ...]]
_KEYS = ("bucket_p", "bucket_q", "DIM")


def is_interpreted() -> bool:
    """Whether kernels run in Triton's interpreter; the environment decides when Triton is first imported."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def bucket(size: int) -> int:
    """`size` rounded up to a power of two; all sizes of a bucket share one tuning."""
    return 1 << max(size - 1, 0).bit_length()


def run(kernel: Any, choices: tuple[Blocks, ...], grid: Grid, arguments: dict[str, Any], device: torch.device) -> None:
    """Launch `kernel` on `grid`, a function of the blocks {"BP": ..., "BQ": ...}."""
    # Fused multiply-add is requested explicitly, because Triton warns if it has to fall back to its default.
    with torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext():
        if is_interpreted() or len(choices) == 1:
            blocks = choices[0]
            kernel[grid](
                **arguments,
                BP=blocks.bp,
                BQ=blocks.bq,
                num_warps=blocks.warps,
                num_stages=blocks.stages,
                maxnreg=blocks.registers,
                enable_fp_fusion=True,
            )
        else:
            tuned(kernel, choices)[grid](**arguments, enable_fp_fusion=True)


@cache
def tuned(kernel: Any, choices: tuple[Blocks, ...], timer: Callable[..., Any] | None = None) -> Any:
    """`kernel` with blocks chosen by timing, once per dtype, dimension and bucket of sizes."""
    import triton

    configs = [
        triton.Config(
            {"BP": blocks.bp, "BQ": blocks.bq},
            num_warps=blocks.warps,
            num_stages=blocks.stages,
            maxnreg=blocks.registers,
        )
        for blocks in choices
    ]
    return triton.autotune(configs=configs, key=list(_KEYS), do_bench=timer)(kernel)
