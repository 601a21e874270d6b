"""Block shapes for the autotuner to choose from on a GPU; elsewhere the first is used.

The number of tile elements per thread determines the registers: 16 in float32 and 8 in float64 leave room for the next
tile and for a second block on the same multiprocessor. Kernels with several numbers per output use half of that.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Blocks:
    """Outputs and inputs per tile, and launch options."""

    bp: int
    bq: int
    warps: int = 4
    stages: int = 2
    registers: int = 168  # at most, per thread: three blocks of four warps fit on a multiprocessor


@dataclass(frozen=True)
class Shape:
    """The properties of a pass, apart from the kernel, that determine the choice.

    Attributes
    ----------
    turned : bool
        Outputs, not inputs, are contiguous in memory: a column update of a stored cost.
    double : bool
        float64.
    product : bool
        The cost is a matrix product of coordinates.
    wide : bool
        Each output consists of several numbers.
    """

    turned: bool = False
    double: bool = False
    product: bool = False
    wide: bool = False


def choices(shape: Shape) -> tuple[Blocks, ...]:
    """Choices for the kernels that stream over a cost."""
    if shape.product:
        return (Blocks(64, 32),) if shape.wide else (Blocks(64, 32), Blocks(32, 32))
    if shape.wide:
        return (Blocks(128, 4), Blocks(64, 8)) if shape.double else (Blocks(128, 8), Blocks(64, 16))
    outputs = 8 if shape.double else 16
    if shape.turned:
        return Blocks(128, outputs), Blocks(64, 2 * outputs)
    return Blocks(outputs, 128), Blocks(outputs // 2, 256)


def elementwise(double: bool) -> Blocks:
    """Blocks for the gradient of a stored cost: each entry is read and written once, so there is nothing to tune."""
    return Blocks(8, 128) if double else Blocks(16, 128)


GRID = Blocks(32, 64, warps=4)  # tiles of the grid pass; small, because its windows are small
