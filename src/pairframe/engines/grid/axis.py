"""One axis of the boxes around the inputs and the outputs of a kernel."""

from __future__ import annotations

from pairframe.types import Index


class KernelAxis:
    """One axis of the boxes around both supports.

    Attributes
    ----------
    index_in, index_out : (n_in,), (n_out,) over the supports
        Places along the axis, from the start of each box.
    n_in, n_out : int
        Lengths of the boxes.
    offset : int
        Start of the output's box relative to the input's.
    epsilon : float
        In squared pixels of this axis.
    """

    def __init__(self, index_in: Index, index_out: Index, epsilon: float) -> None:
        first_in, first_out = int(index_in.min()), int(index_out.min())
        self.index_in = index_in - first_in if first_in else index_in
        self.index_out = index_out - first_out if first_out else index_out
        self.n_in, self.n_out = int(self.index_in.max()) + 1, int(self.index_out.max()) + 1
        self.offset = first_out - first_in
        self.epsilon = epsilon

    @property
    def middle_shift(self) -> int:
        """From the middle of the outputs' box to that of the inputs'."""
        return (self.n_in - self.n_out) // 2 - self.offset


def flat_index(indices: tuple[Index, ...], sides: tuple[int, ...]) -> Index:
    """`numpy.ravel_multi_index` of indices that are inside."""
    flat = indices[0]
    for index, side in zip(indices[1:], sides[1:], strict=True):
        flat = flat * side + index
    return flat
