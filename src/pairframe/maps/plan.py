"""`PlanOperator`: a transport plan as something to apply, not as a matrix."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairframe.engines import Solution
from pairframe.errors import PlanError, PlanTooLargeError
from pairframe.maps.kernels import Moments, PlanKernel, blocks, make_kernel, pairwise_cost
from pairframe.problem import TransportProblem

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]

MAX_DENSE_ENTRIES = 10_000_000  # 80 MB


class PlanOperator:
    """The plan ``P_ij = u_i v_j exp((f_i + g_j - C_ij) / eps)`` of a pair of potentials, converged or not.

    Parameters
    ----------
    problem : TransportProblem
    potential_a, potential_b : (H, W)
        In cost units, read on the supports only. -inf carries nothing, and so does what is not a number there.

    Notes
    -----
    Arrays are (H, W) on the work grid; rows of the plan are the source's pixels, columns the target's.
    """

    def __init__(self, problem: TransportProblem, potential_a: ArrayLike, potential_b: ArrayLike) -> None:
        self.problem = problem
        self.potential_a = _on_grid(potential_a, problem.shape_hw, "potential_a")
        self.potential_b = _on_grid(potential_b, problem.shape_hw, "potential_b")
        log_a = _exponent(problem.log_u, self.potential_a, problem.support_a, problem.epsilon)
        log_b = _exponent(problem.log_v, self.potential_b, problem.support_b, problem.epsilon)
        # A constant moved from one side to the other changes nothing, and a large one costs digits: share it out.
        top = float(log_b.max())
        if np.isfinite(top):
            log_a, log_b = log_a + top, log_b - top
        self.log_weight_a, self.log_weight_b = log_a, log_b
        self._kernels: dict[str, PlanKernel] = {}

    @classmethod
    def of(cls, solution: Solution) -> PlanOperator:
        """The plan that a solve ended with."""
        return cls(solution.problem, solution.potential_a, solution.potential_b)

    # --- relatives ---------------------------------------------------------------------------

    def scaled(self, row_log_scale: ArrayLike, column_log_scale: ArrayLike) -> PlanOperator:
        """The plan ``diag(r) P diag(c)``, from log r and log c, (H, W) or scalars; -inf carries nothing."""
        eps, shape = self.problem.epsilon, self.problem.shape_hw
        log_r, log_c = (
            np.broadcast_to(np.asarray(x, dtype=np.float64), shape) for x in (row_log_scale, column_log_scale)
        )
        plan = PlanOperator(self.problem, self.potential_a + eps * log_r, self.potential_b + eps * log_c)
        plan._kernels = self._kernels
        return plan

    def swapped(self) -> PlanOperator:
        """The transposed plan: source and target exchanged."""
        plan = PlanOperator(self.problem.swapped(), self.potential_b, self.potential_a)
        # The same exponents to the last digit, and the same two kernels.
        plan.log_weight_a, plan.log_weight_b = self.log_weight_b, self.log_weight_a
        plan._kernels = {"a" if at == "b" else "b": kernel for at, kernel in self._kernels.items()}
        return plan

    def kernel_at(self, side: str) -> PlanKernel:
        """Sums over the other support, seen from the support of `side` ("a" or "b"); built on first use."""
        if side not in self._kernels:
            problem = self.problem
            here, there = problem.support_a, problem.support_b
            if side == "b":
                here, there = there, here
            self._kernels[side] = make_kernel(there, here, problem.epsilon, problem.metric)
        return self._kernels[side]

    # --- sums --------------------------------------------------------------------------------

    @cached_property
    def row_moments(self) -> Moments:
        """What each source pixel sees of the target; its log-sum is without the row's own weight."""
        return self.kernel_at("a").moments(self.log_weight_b)

    @cached_property
    def log_row_sums(self) -> Float:
        """(n,) over the source's support; -inf for none."""
        return self.log_weight_a + self.row_moments.log_sum

    @cached_property
    def log_column_sums(self) -> Float:
        """(m,) over the target's support; -inf for none."""
        if self.is_symmetric:
            return self.log_row_sums
        return self.log_weight_b + self.kernel_at("b").log_sum(self.log_weight_a)

    @cached_property
    def is_symmetric(self) -> bool:
        """Whether the plan equals its transpose: one measure against itself, with one potential."""
        problem = self.problem
        return np.array_equal(problem.mass_a, problem.mass_b) and np.array_equal(
            self.potential_a, self.potential_b, equal_nan=True
        )

    def marginals(self) -> tuple[Float, Float]:
        """Row sums and column sums, mass per work pixel, 0 off the supports; inf where float64 cannot hold them."""
        with np.errstate(over="ignore"):
            p, q = np.exp(self.log_row_sums), np.exp(self.log_column_sums)
        return self._fill(p, "a", 0.0), self._fill(q, "b", 0.0)

    @property
    def transport_cost(self) -> float:
        """``<C, P>``, in mass times cost units."""
        with np.errstate(over="ignore", invalid="ignore"):
            cost = np.exp(self.log_row_sums) * self.row_moments.cost
        return float(cost[self.row_moments.cost > 0].sum())

    def apply(self, values_b: ArrayLike) -> Float:
        """``sum_j P_ij x_j``: (H, W) on the target -> (H, W) on the source, 0 off its support."""
        return self._apply(values_b, "a")

    def adjoint(self, values_a: ArrayLike) -> Float:
        """``sum_i P_ij x_i``: (H, W) on the source -> (H, W) on the target, 0 off its support."""
        return self._apply(values_a, "b")

    def row_means(self, channels: ArrayLike) -> Float:
        """Means of target channels (H, W) or (c, H, W) over each row; NaN off the source and in empty rows."""
        return self._means(channels, "a")

    def column_means(self, channels: ArrayLike) -> Float:
        """Means of source channels (H, W) or (c, H, W) over each column; NaN off the target and in empty columns."""
        return self._means(channels, "b")

    def barycentric_map(self) -> Float:
        """(H, W, 2): mean target (y, x) of each source pixel, work px; NaN off the support and in empty rows."""
        moments, on = self.row_moments, self.problem.support_a
        seen = np.isfinite(self.log_row_sums)
        target = np.full((*self.problem.shape_hw, 2), np.nan)
        target[on] = np.where(seen[:, None], np.argwhere(on) + moments.shift_yx.T, np.nan)
        return target

    # --- entries -----------------------------------------------------------------------------

    def top_rows(self, k: int) -> csr_array:
        """The `k` largest entries of each row.

        Returns
        -------
        (n, m) sparse array over the pixels of the supports in row-major order. The time is that of n m
        comparisons; the memory is that of one block of rows and of the result.
        """
        from scipy.sparse import csr_array

        if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
            raise PlanError("k to be an integer >= 1", repr(k), "e.g. plan.top_rows(8)")
        n, m = len(self.log_weight_a), len(self.log_weight_b)
        k = min(int(k), m)
        columns, values = np.empty((n, k), dtype=np.int64), np.empty((n, k))
        for rows in blocks(n, m):
            exponent = self._log_entries(rows)
            best = np.arange(m)[None].repeat(len(exponent), axis=0)
            if k < m:
                best = np.sort(np.argpartition(exponent, m - k, axis=1)[:, m - k :], axis=1)
            columns[rows] = best
            with np.errstate(over="ignore"):
                values[rows] = np.exp(np.take_along_axis(exponent, best, axis=1))
        top = csr_array((values.ravel(), columns.ravel(), np.arange(0, n * k + 1, k)), shape=(n, m))
        top.eliminate_zeros()
        return top

    def dense(self) -> Float:
        """(n, m), over the pixels of the supports in row-major order; refused above `MAX_DENSE_ENTRIES`."""
        n, m = len(self.log_weight_a), len(self.log_weight_b)
        if n * m > MAX_DENSE_ENTRIES:
            raise PlanTooLargeError(
                f"a plan of at most {MAX_DENSE_ENTRIES} entries",
                f"{n} x {m} = {n * m}",
                "use apply, adjoint, row_means or top_rows, which never write it out",
            )
        with np.errstate(over="ignore"):
            return np.exp(self._log_entries(slice(0, n)))

    def __repr__(self) -> str:
        return f"PlanOperator({len(self.log_weight_a)} x {len(self.log_weight_b)} pixels of {self.problem!r})"

    # --- helpers -----------------------------------------------------------------------------

    def _log_entries(self, rows: slice) -> Float:
        problem = self.problem
        yx_a, yx_b = (np.argwhere(on).astype(np.float64) for on in (problem.support_a, problem.support_b))
        cost = pairwise_cost(yx_a[rows], yx_b, problem.metric)
        return self.log_weight_a[rows, None] + self.log_weight_b - cost / problem.epsilon

    def _seen_from(self, side: str, channels: Float) -> tuple[Float, Float]:
        """Log marginal of `side`, over its support, and the means of the other side's channels (c, n_other)."""
        own, other = self.log_weight_a, self.log_weight_b
        if side == "b":
            own, other = other, own
        log_sum, means = self.kernel_at(side).log_sum_and_means(other, channels)
        return own + log_sum, means

    def _apply(self, values: ArrayLike, side: str) -> Float:
        channel = self._channels(values, side, n_axes=2)
        log_marginal, means = self._seen_from(side, channel)
        with np.errstate(over="ignore", invalid="ignore"):
            applied = np.exp(log_marginal) * means[0]
        return self._fill(np.where(log_marginal > -np.inf, applied, 0.0), side, 0.0)

    def _means(self, channels: ArrayLike, side: str) -> Float:
        vectors = self._channels(channels, side)
        log_marginal, means = self._seen_from(side, vectors)
        means = np.where(log_marginal > -np.inf, means, np.nan)
        filled = np.stack([self._fill(mean, side, np.nan) for mean in means])
        return filled[0] if np.ndim(channels) == 2 else filled

    def _channels(self, channels: ArrayLike, side: str, n_axes: int | None = None) -> Float:
        """(c, n) over the support opposite to `side`."""
        array = np.asarray(channels, dtype=np.float64)
        if array.shape[-2:] != self.problem.shape_hw or array.ndim not in ((n_axes,) if n_axes else (2, 3)):
            raise PlanError(
                f"an array over the {self.problem.shape_hw[0]} x {self.problem.shape_hw[1]} work grid",
                f"shape {array.shape}",
                "give (H, W), or (c, H, W) for the means of several channels",
            )
        on = self.problem.support_b if side == "a" else self.problem.support_a
        vectors = np.atleast_2d(array[..., on])
        if not np.isfinite(vectors).all():
            raise PlanError("finite values on the support", "NaN or infinity", "replace them first")
        return vectors

    def _fill(self, vector: Float, side: str, outside: float) -> Float:
        array = np.full(self.problem.shape_hw, outside)
        array[self.problem.support_a if side == "a" else self.problem.support_b] = vector
        return array


def _on_grid(potential: ArrayLike, shape_hw: tuple[int, int], name: str) -> Float:
    array = np.asarray(potential, dtype=np.float64)
    if array.shape != shape_hw:
        raise PlanError(
            f"{name} of shape {shape_hw}", str(array.shape), "give both potentials on the work grid of the problem"
        )
    return array


def _exponent(log_reference: Float, potential: Float, support: Bool, epsilon: float) -> Float:
    """log u + f/eps over the support, (n,); -inf where that is no number."""
    with np.errstate(over="ignore", invalid="ignore"):
        exponent = log_reference[support] + potential[support] / epsilon
    return np.where(np.isfinite(exponent), exponent, -np.inf)
