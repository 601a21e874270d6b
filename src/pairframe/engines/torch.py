"""The torch engine: the tiled Sinkhorn on the support points, of any number, on the CPU or a GPU.

Epsilon scaling brings it close, over-relaxed iterations with the optimal translation bring it to tolerance, and float64
marginals of the end certify it, whatever the dtype of the iterations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from pairframe.engines.base import (
    Engine,
    Progress,
    Solution,
    SolveOptions,
    Start,
    TraceRecord,
    only_plain_images,
    start_on_supports,
)
from pairframe.engines.points import Points
from pairframe.engines.solve_end import Orientation, SolveEnd
from pairframe.errors import EngineError
from pairframe.problem import KL, Balanced, Potentials, TransportProblem

try:
    import torch
except ImportError as error:
    raise ImportError("the torch engine needs torch: pip install 'pairframe[torch]'") from error

from torch import Tensor

from pairframe.tiled.backends import backend_name, passes_of
from pairframe.tiled.cost import Cost, DenseCost, PointCost
from pairframe.tiled.entry_point import why_torch_would_hang
from pairframe.tiled.loop import Loop, Stopping
from pairframe.tiled.side import Side
from pairframe.types import Float

MAX_DENSE_BYTES = 2 << 30  # of a stored cost; squared distances are never stored
_SCALING = 4.0  # epsilon goes down by this factor
_SWEEPS_PER_EPSILON = 3
_ROUND = 20  # iterations between two checks
_MAX_RELAX = 1.98
_PROGRESS = 0.98  # of the lowest residual so far
_GOOD_START = 0.5  # a start whose marginals are off by more than this share is not used
_PATIENCE = 15  # checks without progress before rounding is taken to be the limit


class TorchEngine(Engine):
    """Streams squared distances between support points: memory grows with n + m, time with n m."""

    name = "torch"
    needs_points = True
    libraries = ("torch",)

    def devices(self) -> tuple[str, ...]:
        """See `Engine.devices`."""
        return ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)

    def supports(self, problem: TransportProblem, options: SolveOptions) -> str | None:
        if (reason := only_plain_images(problem)) is not None:
            return reason
        for side, penalty in (("source", problem.penalty_a), ("target", problem.penalty_b)):
            if not isinstance(penalty, KL | Balanced):
                return f"penalty {penalty.name} on the {side}; the torch engine supports kl and balanced"
        if options.device is not None:
            try:
                device = torch.device(options.device)
            except RuntimeError:
                return f"device {options.device!r}; torch has no such device"
            if device.type not in ("cpu", "cuda"):
                return f"device {options.device!r}; the torch engine runs on cpu and cuda"
            if device.type == "cuda" and not torch.cuda.is_available():
                return f"device {options.device!r}; torch finds no GPU here"
        if problem.metric != "sqeuclidean":
            needed = 8 * int(problem.support_a.sum()) * int(problem.support_b.sum())
            if needed > MAX_DENSE_BYTES:
                return (
                    f"metric {problem.metric} with a stored cost of {needed / 2**30:.1f} GB; "
                    f"the torch engine takes up to {MAX_DENSE_BYTES / 2**30:.0f} GB (sqeuclidean is never stored)"
                )
        return None

    def run(
        self,
        problem: TransportProblem,
        options: SolveOptions,
        init: Start | None = None,
        progress: Progress | None = None,
    ) -> Solution:
        if (trouble := why_torch_would_hang()) is not None:
            raise EngineError("a process in which the torch engine can run", *trouble)
        turned = Orientation(problem)
        solve = _Solve(turned.problem, options, progress)
        start = start_on_supports(turned.problem, turned.start(init))
        return turned.solution(
            solve.run(start, warm=init is not None),
            options,
            engine=self.name,
            iterations=solve.n_sums,
            device=str(solve.device),
            trace=tuple(solve.trace),
        )


@dataclass(frozen=True)
class _DevicePotentials:
    """`Potentials` on the device, in cost units: f0 (1, n), g0 (1, m) and shift (1,)."""

    f0: Tensor
    g0: Tensor
    shift: Tensor

    @property
    def is_finite(self) -> bool:
        return all(bool(torch.isfinite(one).all()) for one in (self.f0, self.g0, self.shift))

    def on_host(self) -> Potentials:
        """The same in float64 numpy arrays."""
        f, g = (one[0].double().cpu().numpy() for one in (self.f0, self.g0))
        return Potentials(f, g, float(self.shift))


class _TiledPoints(Points):
    """The certified end of every engine on points, with float64 sums by the tiled passes, where the cost is."""

    def __init__(self, problem: TransportProblem, cost: Cost, passes: ModuleType) -> None:
        super().__init__(problem)
        self.tiled_cost, self.passes = cost, passes

    def _log_sums(self, potential: Float, log_factor: Float, *, to_a: bool) -> Float:
        self.n_sums += 1
        epsilon = self.problem.epsilon
        exponents = torch.as_tensor(potential / epsilon + log_factor, device=self.tiled_cost.device)[None]
        over = self.passes.log_sum_rows if to_a else self.passes.log_sum_cols
        return np.asarray(over(self.tiled_cost, epsilon, exponents)[0].cpu().numpy())


class _Solve:
    """One problem, on one device."""

    def __init__(self, problem: TransportProblem, options: SolveOptions, progress: Progress | None) -> None:
        self.problem, self.options, self.progress = problem, options, progress
        self.device = torch.device(options.device or "cpu")
        self.dtype = torch.float64 if options.dtype == "float64" else torch.float32
        self.passes = passes_of(backend_name("auto", self.device))
        self.on_a, self.on_b = problem.support_a, problem.support_b
        self.exact = self._cost(torch.float64)
        self.points = _TiledPoints(problem, self.exact, self.passes)
        self.cost = self.exact if self.dtype == torch.float64 else self._cost(self.dtype)
        self.n_sums = 0
        self.trace: list[TraceRecord] = []

    def _cost(self, dtype: torch.dtype) -> Cost:
        yx = [torch.as_tensor(np.argwhere(on), device=self.device)[None].to(dtype) for on in (self.on_a, self.on_b)]
        if self.problem.metric == "sqeuclidean":
            return PointCost(yx[0], yx[1])
        return DenseCost(
            torch.cdist(yx[0].double(), yx[1].double(), compute_mode="donot_use_mm_for_euclid_dist").to(dtype)
        )

    def _loop(self, epsilon: float, cost: Cost) -> Loop:
        return Loop(cost, epsilon, self._side(epsilon, cost, True), self._side(epsilon, cost, False), self.passes)

    def _side(self, epsilon: float, cost: Cost, source: bool) -> Side:
        problem = self.problem
        on, mass, log_reference, penalty = (
            (self.on_a, problem.mass_a, problem.log_u, problem.penalty_a)
            if source
            else (self.on_b, problem.mass_b, problem.log_v, problem.penalty_b)
        )
        logs = [
            torch.as_tensor(one[on], device=self.device)[None].to(cost.dtype)
            for one in (np.log(np.where(on, mass, 1.0)), log_reference)
        ]
        return Side(logs[0], logs[1], None if penalty.is_exact else penalty.marginal_relaxation / epsilon)

    # --- iterations --------------------------------------------------------------------------

    def run(self, init: Potentials, warm: bool) -> SolveEnd:
        f, g = init.f, init.g
        t = 0.5 * (float(f.mean()) - float(g.mean()))
        shift = torch.tensor([t], dtype=torch.float64, device=self.device)
        f0, g0 = (torch.as_tensor(one, device=self.device)[None].to(self.dtype) for one in (f - t, g + t))
        point, epsilon = _DevicePotentials(f0, g0, shift), self.problem.epsilon
        if warm:
            start = self._finish(point)
            warm = math.isfinite(start.error) and start.certificate.marginal_error <= _GOOD_START
        if not warm:
            zeros = (torch.zeros_like(one) for one in (point.f0, point.g0, point.shift))
            point = self._scale_down(_DevicePotentials(*zeros))
        loop, relax, target = self._loop(epsilon, self.cost), 1.0, 0.5 * self.options.tol
        best, best_point, last, lowest, idle = self._finish(point), point, math.inf, math.inf, 0
        while self._left() and not best.certificate.meets(self.options.tol) and idle < _PATIENCE:
            count = min(_ROUND, self._left())
            point, residual = self._iterate(loop, point, count, relax)
            if not (point.is_finite and math.isfinite(residual) and residual <= 10.0 * last):
                if relax == 1.0:
                    break
                point, relax, last, idle = best_point, 1.0 + 0.5 * (relax - 1.0), math.inf, idle + 1
                continue
            if 0.0 < last < math.inf:
                relax = _next_relax((residual / last) ** (1.0 / count), relax)
            idle = idle + 1 if residual > _PROGRESS * lowest else 0
            last = residual
            if residual < lowest:
                lowest, best_point = residual, point
            if residual <= target:
                best = self._better(best, point)
                target = 0.2 * residual
        return best if best.certificate.meets(self.options.tol) else self._better(best, best_point)

    def _scale_down(self, point: _DevicePotentials) -> _DevicePotentials:
        """Few iterations at epsilons from the size of the cost down to the problem's own."""
        target = self.problem.epsilon
        spread = [
            float(np.ptp(np.concatenate(axis)))
            for axis in zip(np.nonzero(self.on_a), np.nonzero(self.on_b), strict=True)
        ]
        largest = spread[0] ** 2 + spread[1] ** 2
        if self.problem.metric != "sqeuclidean":
            largest = math.sqrt(largest)
        levels = max(0, math.ceil(math.log(max(largest / _SCALING / target, 1.0), _SCALING)))
        for level in range(levels, 0, -1):
            if self._left():
                loop = self._loop(target * _SCALING**level, self.cost)
                point = self._iterate(loop, point, min(_SWEEPS_PER_EPSILON, self._left()), 1.0)[0]
        return point

    def _iterate(
        self, loop: Loop, point: _DevicePotentials, count: int, relax: float
    ) -> tuple[_DevicePotentials, float]:
        eps = loop.epsilon
        start = (point.f0 / eps, point.g0 / eps, point.shift / eps)
        state = loop.run(Stopping(count, 0.0), start, relax)
        self.n_sums += 2 * count
        return _DevicePotentials(eps * state.f0, eps * state.g0, eps * state.shift), float(state.residual[0])

    def _left(self) -> int:
        """Full iterations left in the budget."""
        return max(0, (self.options.max_iterations - self.n_sums) // 2)

    # --- the certificate ---------------------------------------------------------------------

    def _better(self, best: SolveEnd, point: _DevicePotentials) -> SolveEnd:
        now = self._finish(point)
        return now if now.error < best.error or not math.isfinite(best.error) else best

    def _finish(self, point: _DevicePotentials) -> SolveEnd:
        """End on b, in float64, whatever the dtype of the iterations."""
        done = self.points.end(point.on_host())
        record = TraceRecord(float(self.n_sums), done.certificate.gap, done.certificate.marginal_error)
        self.trace.append(record)
        if self.progress is not None:
            self.progress(record)
        return done


def _next_relax(rate: float, relax: float) -> float:
    """The best over-relaxation, from the `rate` by which residuals fell per iteration.

    Young's relation for successive over-relaxation: (rate + w - 1)^2 = rate w^2 r, with r the rate at w = 1; the best
    w is 2/(1 + sqrt(1 - r)), where the rate is w - 1.
    """
    if rate >= 1.0:
        return 1.0 + 0.7 * (relax - 1.0)
    if rate <= relax - 1.0:
        return relax
    plain = min((rate + relax - 1.0) ** 2 / (rate * relax**2), 1.0)
    return min(2.0 / (1.0 + math.sqrt(1.0 - plain)), _MAX_RELAX)
