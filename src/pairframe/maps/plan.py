"""`PlanOperator`: a transport plan as a linear operator, without its matrix."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from pairframe import checks
from pairframe.engines import Solution
from pairframe.errors import ProblemError
from pairframe.maps.kernels import Moments, PlanKernel, blocks, make_kernel, pairwise_cost
from pairframe.parallel.threads import side_by_side
from pairframe.problem import TransportProblem, on_grid
from pairframe.types import Bool, Float

if TYPE_CHECKING:
    from scipy.sparse import csr_array


MAX_DENSE_ENTRIES = 10_000_000  # 80 MB
_MOST_KEPT_PIXELS = 1 << 20


class PlanOperator:
    """The plan ``P_ij = u_i v_j exp((f_i + g_j - C_ij) / eps)`` of a pair of potentials, converged or not.

    Parameters
    ----------
    problem : TransportProblem
    potential_a, potential_b : arrays over the grid
        In cost units, read on the supports only. Pixels with -inf or NaN carry no mass.

    Notes
    -----
    Arrays over the grid have the shape of the problem's masses, (H, W) for images. Rows of the plan are the source's
    pixels, columns the target's.
    """

    def __init__(self, problem: TransportProblem, potential_a: ArrayLike, potential_b: ArrayLike) -> None:
        self.problem = problem
        self.potential_a = _on_grid(potential_a, problem.shape, "potential_a")
        self.potential_b = _on_grid(potential_b, problem.shape, "potential_b")
        log_a = _exponent(problem.log_u, self.potential_a, problem.support_a, problem.epsilon)
        log_b = _exponent(problem.log_v, self.potential_b, problem.support_b, problem.epsilon)
        # A constant can move from one side to the other without effect, and a large one costs digits: balance it.
        top = float(log_b.max())
        if np.isfinite(top):
            log_a, log_b = log_a + top, log_b - top
        self.log_weight_a, self.log_weight_b = log_a, log_b
        self._kernels: dict[str, PlanKernel] = {}

    @classmethod
    def of(cls, solution: Solution) -> PlanOperator:
        """The plan of a solution."""
        return cls(solution.problem, *solution.plan_potentials)

    # --- relatives ---------------------------------------------------------------------------

    def scaled(self, row_log_scale: ArrayLike, column_log_scale: ArrayLike) -> PlanOperator:
        """The plan ``diag(r) P diag(c)``, from log r and log c, over the grid or scalars; -inf carries no mass."""
        eps, shape = self.problem.epsilon, self.problem.shape
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
        problem = self.problem
        if self.is_symmetric:  # both sides see the same, one after the other
            side = "a"
        if side not in self._kernels:
            here, there = problem.support_a, problem.support_b
            if side == "b":
                here, there = there, here
            self._kernels[side] = make_kernel(there, here, problem.epsilon, problem.metric, problem.spacing)
        return self._kernels[side]

    def release_large_kernels(self) -> None:
        """Drop the kernels of a large grid, which are as large as ten images; the next use builds them again."""
        if self.problem.mass_a.size > _MOST_KEPT_PIXELS:
            self._kernels.clear()

    # --- sums --------------------------------------------------------------------------------

    def sum_both_sides(self) -> None:
        """Compute `row_moments` and `log_column_sums`, side by side where that is quicker."""
        if not self.is_symmetric:
            side_by_side(lambda: self.row_moments, lambda: self.log_column_sums, self.log_weight_a.size)

    @cached_property
    def row_moments(self) -> Moments:
        """Moments of the target at each source pixel; the log-sum is without the row's own weight."""
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
        """``sum_j P_ij x_j``: from the target to the source, both over the grid; 0 off the support."""
        return self._apply(values_b, "a")

    def adjoint(self, values_a: ArrayLike) -> Float:
        """``sum_i P_ij x_i``: from the source to the target, both over the grid; 0 off the support."""
        return self._apply(values_a, "b")

    def row_means(self, channels: ArrayLike) -> Float:
        """Means of target channels over each row; NaN off the source and in empty rows.

        `channels` is one array over the grid, or c of them along a first axis; the means have the same shape.
        """
        return self._means(channels, "a")

    def column_means(self, channels: ArrayLike) -> Float:
        """Means of source channels over each column; NaN off the target and in empty columns. See `row_means`."""
        return self._means(channels, "b")

    def barycentric_map(self) -> Float:
        """Mean target position of each source pixel, work px, in the order of the grid's axes along the last axis.

        (H, W, 2) for images. NaN off the support and in empty rows.
        """
        moments, problem = self.row_moments, self.problem
        seen = np.isfinite(self.log_row_sums)
        there = problem.positions(problem.support_a) + moments.displacement.T
        return on_grid(np.where(seen[:, None], there, np.nan), problem.support_a, np.nan)

    # --- entries -----------------------------------------------------------------------------

    def top_rows(self, k: int) -> csr_array:
        """The `k` largest entries of each row.

        Returns
        -------
        (n, m) sparse array over the pixels of the supports in row-major order. The time is that of n m
        comparisons; the memory is that of one block of rows and of the result.
        """
        from scipy.sparse import csr_array

        n, m = len(self.log_weight_a), len(self.log_weight_b)
        k = min(checks.integer(k, "k", 1, fix="e.g. plan.top_rows(8)", error=ProblemError), m)
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
            raise ProblemError(
                f"a plan of at most {MAX_DENSE_ENTRIES} entries",
                f"{n} x {m} = {n * m}",
                "use apply, adjoint, row_means or top_rows, which never build it",
            )
        with np.errstate(over="ignore"):
            return np.exp(self._log_entries(slice(0, n)))

    def __repr__(self) -> str:
        return f"PlanOperator({len(self.log_weight_a)} x {len(self.log_weight_b)} pixels of {self.problem!r})"

    # --- helpers -----------------------------------------------------------------------------

    def _log_entries(self, rows: slice) -> Float:
        problem = self.problem
        x_a, x_b = problem.positions(problem.support_a), problem.positions(problem.support_b)
        cost = pairwise_cost(x_a[rows], x_b, problem.metric)
        return self.log_weight_a[rows, None] + self.log_weight_b - cost / problem.epsilon

    def _seen_from(self, side: str, channels: Float) -> tuple[Float, Float]:
        """Log marginal of `side`, over its support, and the means of the other side's channels (c, n_other)."""
        own, other = self.log_weight_a, self.log_weight_b
        if side == "b":
            own, other = other, own
        log_sum, means = self.kernel_at(side).log_sum_and_means(other, channels)
        return own + log_sum, means

    def _apply(self, values: ArrayLike, side: str) -> Float:
        channel = self._channels(values, side, several=False)
        log_marginal, means = self._seen_from(side, channel)
        with np.errstate(over="ignore", invalid="ignore"):
            applied = np.exp(log_marginal) * means[0]
        return self._fill(np.where(log_marginal > -np.inf, applied, 0.0), side, 0.0)

    def _means(self, channels: ArrayLike, side: str) -> Float:
        vectors = self._channels(channels, side)
        log_marginal, means = self._seen_from(side, vectors)
        means = np.where(log_marginal > -np.inf, means, np.nan)
        filled = np.stack([self._fill(mean, side, np.nan) for mean in means])
        return filled[0] if np.ndim(channels) == len(self.problem.shape) else filled

    def _channels(self, channels: ArrayLike, side: str, *, several: bool = True) -> Float:
        """(c, n) over the support opposite to `side`."""
        array = np.asarray(channels, dtype=np.float64)
        shape = self.problem.shape
        extra = array.ndim - len(shape)
        if array.shape[max(extra, 0) :] != shape or extra not in ((0, 1) if several else (0,)):
            raise ProblemError(
                f"an array over the {' x '.join(map(str, shape))} work grid",
                f"shape {array.shape}",
                "give one value per work pixel; several channels, for means only, come along a first axis",
            )
        on = self.problem.support_b if side == "a" else self.problem.support_a
        vectors = np.atleast_2d(array[..., on])
        if not np.isfinite(vectors).all():
            raise ProblemError("finite values on the support", "NaN or infinity", "replace them first")
        return vectors

    def _fill(self, vector: Float, side: str, outside: float) -> Float:
        return on_grid(vector, self.problem.support_a if side == "a" else self.problem.support_b, outside)


def _on_grid(potential: ArrayLike, shape: tuple[int, ...], name: str) -> Float:
    array = np.asarray(potential, dtype=np.float64)
    if array.shape != shape:
        raise ProblemError(
            f"{name} of shape {shape}", str(array.shape), "give both potentials on the work grid of the problem"
        )
    return array


def _exponent(log_reference: Float, potential: Float, support: Bool, epsilon: float) -> Float:
    """log u + f/eps over the support, (n,); -inf where that is not a number."""
    with np.errstate(over="ignore", invalid="ignore"):
        exponent = log_reference[support] + potential[support] / epsilon
    return np.where(np.isfinite(exponent), exponent, -np.inf)
