"""The Gaussian kernel of a grid as an operator between two supports: never an n x m array.

``exp(-|x_i - x_j|^2 / eps)`` factors into rows and columns, so a sum over the whole image is a pass along one axis and
a pass along the other (`passes`). Only rows and columns that carry mass are visited.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pairframe.engines.grid.passes import pass_rows
from pairframe.engines.threads import in_portions

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]
Index = NDArray[np.intp]

TILE = 96  # outputs that share one window; larger amortises the exponentials, smaller wastes fewer products
_DEPTH = {"float64": 550.0, "float32": 60.0}  # how far below its maximum a tile may reach in that precision


class SupportKernel:
    """Sums over `support_in` seen from `support_out`, both (H, W) bool on one grid. Not for two threads at once.

    Vectors are over the support's pixels in row-major order: (n_in,) in, (n_out,) out.

    Parameters
    ----------
    support_in, support_out : (H, W) bool
        Where inputs live and where outputs are wanted; neither may be empty.
    epsilon : float
        Work px^2.
    dtype : {"float64", "float32"}
        Of the inner products; exponents are always float64.
    """

    def __init__(self, support_in: Bool, support_out: Bool, epsilon: float, dtype: str = "float64") -> None:
        ys, xs = np.nonzero(support_in)
        yo, xo = np.nonzero(support_out)
        window = TILE + 2.0 * np.sqrt(45.0 * epsilon)
        rows_first = _cost(ys, xs, yo, xo, window) <= _cost(xs, ys, xo, yo, window)
        slow_in, fast_in, slow_out, fast_out = (ys, xs, yo, xo) if rows_first else (xs, ys, xo, yo)
        s0, f0, so0, fo0 = slow_in.min(), fast_in.min(), slow_out.min(), fast_out.min()
        self.n_in, self.n_out = len(ys), len(yo)
        self._shape_in = (_extent(slow_in), _extent(fast_in))
        self._shape_out = (_extent(fast_out), _extent(slow_out))
        self._index_in = (slow_in - s0) * self._shape_in[1] + (fast_in - f0)
        self._index_out = (fast_out - fo0) * self._shape_out[1] + (slow_out - so0)
        self._offset_fast, self._offset_slow = int(fo0 - f0), int(so0 - s0)
        # First pass: every row needs all columns of the output box. Second: each column only its own span.
        self._spans_first = np.tile(np.array([[0, self._shape_out[0]]]), (self._shape_in[0], 1))
        self._spans_second = _spans(fast_out - fo0, slow_out - so0, self._shape_out[0])
        self._epsilon = epsilon
        longest = max(*self._shape_in, *self._shape_out)
        self._centre = 2 * longest + abs(self._offset_fast) + abs(self._offset_slow) + TILE
        self._table = _toeplitz(epsilon, self._centre, dtype)
        self._depth = _DEPTH[dtype]
        self._log_in = np.full(self._shape_in, -np.inf)
        self._buffers: dict[int, _Buffers] = {}

    def log_sum(self, log_weight: Float) -> Float:
        """``log sum_j exp(log_weight_j - |x_i - x_j|^2 / eps)``: (n_in,) -> (n_out,); -inf where nothing is seen."""
        return self._run(log_weight, np.empty((0, self.n_in)))[0]

    def log_sum_and_means(self, log_weight: Float, channels: Float) -> tuple[Float, Float]:
        """The log-sums (n_out,), and with the same weights the averages of `channels` (c, n_in) as (c, n_out)."""
        return self._run(log_weight, np.asarray(channels, dtype=np.float64))

    def _run(self, log_weight: Float, channels: Float) -> tuple[Float, Float]:
        n_channels = len(channels)
        if n_channels not in self._buffers:
            self._buffers[n_channels] = _Buffers(self._shape_in, self._shape_out, n_channels)
        buffers = self._buffers[n_channels]
        self._log_in.ravel()[self._index_in] = log_weight
        if n_channels:
            slow, fast = np.divmod(self._index_in, self._shape_in[1])
            for k, channel in enumerate(channels):
                buffers.phi[slow, k, fast] = channel
        spans, offset = self._spans_first, self._offset_fast
        self._pass(self._log_in, buffers.phi, offset, spans, buffers.middle, buffers.middle_phi, True)
        spans, offset = self._spans_second, self._offset_slow
        self._pass(buffers.middle, buffers.middle_phi, offset, spans, buffers.result, buffers.result_phi, False)
        log_sum = buffers.result.ravel()[self._index_out]
        if not n_channels:
            return log_sum, np.empty((0, self.n_out))
        fast_out, slow_out = np.divmod(self._index_out, self._shape_out[1])
        means = np.stack([buffers.result_phi[fast_out, k, slow_out] for k in range(n_channels)])
        return log_sum, means

    def _pass(
        self, h: Float, phi: Float, offset: int, spans: NDArray[np.int64], out: Float, means: Float, turned: bool
    ) -> None:
        cut = 37.0 + np.log(h.shape[1])  # what is dropped is below float64's last digit
        arguments = (
            h,
            phi,
            offset,
            spans,
            self._table,
            self._centre,
            1.0 / self._epsilon,
            cut,
            TILE,
            self._depth,
            out,
            means,
        )
        wanted = int((spans[:, 1] - spans[:, 0]).sum())
        in_portions(lambda first, step: pass_rows(*arguments, turned, first, step), wanted)


class _Buffers:
    """Room for the passes with c channels, kept between calls: fresh memory for every softmin costs as much as its sums.

    `middle` and `middle_phi` hold the first pass, already turned for the second.
    """

    def __init__(self, shape_in: tuple[int, int], shape_out: tuple[int, int], n_channels: int) -> None:
        (rows, n_fast), (cols, n_slow) = shape_in, shape_out
        self.phi = np.zeros((rows, n_channels, n_fast))
        self.middle = np.empty((cols, rows))
        self.middle_phi = np.zeros((cols, n_channels, rows))
        self.result = np.empty((cols, n_slow))
        self.result_phi = np.empty((cols, n_channels, n_slow))


def _cost(slow_in: Index, fast_in: Index, slow_out: Index, fast_out: Index, window: float) -> float:
    """About how many products the passes take, fast axis first: outputs times the inputs that each of them sees."""
    spans_in = _spans(slow_in - slow_in.min(), fast_in, _extent(slow_in))
    seen = np.minimum(spans_in[:, 1] - spans_in[:, 0], window).sum()
    return float(_extent(fast_out) * seen + slow_out.size * min(_extent(slow_in), window))


def _extent(index: Index) -> int:
    return int(index.max() - index.min()) + 1


def _spans(column: Index, row: Index, n_columns: int) -> NDArray[np.int64]:
    """First and one past the last wanted row of each column; (n_columns, 2), 0:0 for none."""
    spans = np.zeros((n_columns, 2), dtype=np.int64)
    spans[:, 0] = np.iinfo(np.int64).max
    np.minimum.at(spans[:, 0], column, row)
    np.maximum.at(spans[:, 1], column, row + 1)
    spans[spans[:, 1] == 0] = 0
    return spans


def _toeplitz(epsilon: float, centre: int, dtype: str) -> NDArray[np.floating]:
    """``exp(-k^2 / eps)`` for k = -centre..centre; entries that would be subnormal (and slow) are zero."""
    exponent = np.arange(-centre, centre + 1.0) ** 2 / epsilon
    lowest = 700.0 if dtype == "float64" else 86.0
    return np.where(exponent < lowest, np.exp(-np.minimum(exponent, lowest)), 0.0).astype(dtype)
