"""Block shapes: what the autotuner chooses from on a GPU; the first of each is taken where nothing is timed.

Elements of a tile per thread decide over registers: 16 in float32 and 8 in float64 leave room for the next tile
and for a second block on the same multiprocessor; half of that where each output is a row of several numbers.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Blocks:
    """Outputs and inputs per tile, and how a GPU runs it."""

    bp: int
    bq: int
    warps: int = 4
    stages: int = 2
    registers: int = 168  # a thread may use: three blocks of four warps fit on a multiprocessor


@dataclass(frozen=True)
class Shape:
    """What decides over the choice, beside the kernel: where neighbours lie in memory, and in which numbers.

    Attributes
    ----------
    turned : bool
        Neighbouring outputs, not inputs, are neighbours in memory: a column update of a stored cost.
    double : bool
        float64.
    product : bool
        The cost is a matrix product of coordinates.
    wide : bool
        Each output is a row of several numbers.
    """

    turned: bool = False
    double: bool = False
    product: bool = False
    wide: bool = False


def choices(shape: Shape) -> tuple[Blocks, ...]:
    """For every kernel that streams over a cost."""
    if shape.product:
        return (Blocks(64, 32),) if shape.wide else (Blocks(64, 32), Blocks(32, 32))
    if shape.wide:
        return (Blocks(128, 4), Blocks(64, 8)) if shape.double else (Blocks(128, 8), Blocks(64, 16))
    outputs = 8 if shape.double else 16
    if shape.turned:
        return Blocks(128, outputs), Blocks(64, 2 * outputs)
    return Blocks(outputs, 128), Blocks(outputs // 2, 256)


def elementwise(double: bool) -> Blocks:
    """For the gradient of a stored cost: each entry is read and written once, nothing to tune."""
    return Blocks(8, 128) if double else Blocks(16, 128)


GRID = Blocks(32, 64, warps=4)  # outputs and inputs of a tile of the grid pass; small, because windows are
