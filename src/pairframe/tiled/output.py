"""The output of a solve."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pairframe.tiled.backends import passes_of
from pairframe.tiled.cost import Cost
from pairframe.tiled.entry_point import entry_point
from pairframe.tiled.errors import TiledError
from pairframe.tiled.inputs import CostLike, as_cost, without_padding_places
from pairframe.tiled.loop import State
from pairframe.tiled.plan import Plan
from pairframe.tiled.side import Side
from pairframe.tiled.sums import padded_sum

_STRIP = 256


@dataclass(frozen=True, eq=False)
class SinkhornOutput:
    """Potentials and their accuracy. The plan is P_ij = u_i v_j exp((f_i + g_j - C_ij)/epsilon).

    Attributes
    ----------
    f, g : (B, N), (B, M)
        Potentials in cost units; 0 where there is no mass.
    n_iters : (B,) int64
    converged : (B,) bool
        Whether `marginal_error` and `potential_change` reached the threshold.
    marginal_error : (B,) float64
        The larger L1 distance between a marginal and the one that its potential implies (a e^(-f/tau), or a), relative
        to the side's mass, before the last update of g.
    potential_change : (B,) float64
        Largest change of a potential in the last iteration, over epsilon.
    total_mismatch : (B,) float64
        Relative difference between the totals of two hard marginals, before both were scaled to the mean.
    log_a_hat, log_b_hat : (B, N), (B, M)
        Exponents of the plan, log P_ij = log_a_hat_i + log_b_hat_j - C_ij/epsilon; -inf where there is no mass. In
        float32 they carry more digits of the plan than f and g.
    plan_mass : (B,) float64
    stranded_penalty : (B,) float64
        tau times the mass without any finite cost to the other side. It stays in place, as if it were masked.
    shift : (B,) float64
        The optimal translation over epsilon, contained in f and g but not in the exponents.
    backend : str
        What solved it: "compiled" for small problems on the CPU, "torch" or "triton".
    is_cost_stored : bool
        Whether the solve read a stored cost: one that was given, or squared distances that were cheaper to store.
    side_a, side_b : Side
        Log masses as used, references and taus, in units of epsilon.
    """

    f: Tensor
    g: Tensor
    n_iters: Tensor
    converged: Tensor
    marginal_error: Tensor
    potential_change: Tensor
    total_mismatch: Tensor
    log_a_hat: Tensor
    log_b_hat: Tensor
    plan_mass: Tensor
    stranded_penalty: Tensor
    shift: Tensor
    side_a: Side
    side_b: Side
    epsilon: float
    reference: str
    backend: str
    is_cost_stored: bool

    @classmethod
    def of(
        cls,
        state: State,
        a: Side,
        b: Side,
        epsilon: float,
        reference: str,
        backend: str,
        mismatch: Tensor,
        stranded: Tensor,
        is_cost_stored: bool,
    ) -> SinkhornOutput:
        """The output for the end of a loop."""
        return cls(
            f=a.in_cost_units(state.f0, state.shift, epsilon),
            g=b.in_cost_units(state.g0, -state.shift, epsilon),
            n_iters=state.n_iters,
            converged=state.converged,
            marginal_error=state.residual,
            potential_change=state.change,
            total_mismatch=mismatch,
            log_a_hat=a.exponents(state.f0),
            log_b_hat=b.exponents(state.g0),
            plan_mass=state.plan_mass,
            stranded_penalty=stranded,
            shift=state.shift,
            side_a=a,
            side_b=b,
            epsilon=epsilon,
            reference=reference,
            backend=backend,
            is_cost_stored=is_cost_stored,
        )

    def __repr__(self) -> str:
        shape = (*self.f.shape, self.g.shape[1])
        return (
            f"SinkhornOutput({int(self.converged.sum())} of {shape[0]} converged, N, M = {shape[1]}, {shape[2]}, "
            f"at most {int(self.n_iters.max())} iterations, marginal error {float(self.marginal_error.max()):.2g}, "
            f"{self.reference} reference, {self.backend})"
        )

    @entry_point
    def transport_plan(self, C: CostLike) -> Tensor:
        """The whole plan (B, N, M); exactly 0 where there is no mass."""
        cost = self._cost(C)
        plan = torch.empty((cost.batch, cost.n, cost.m), dtype=cost.dtype, device=cost.device)
        with torch.no_grad():
            scaled = cost.scaled(1.0 / self.epsilon)
            for i in range(0, cost.n, _STRIP):
                rows = slice(i, min(i + _STRIP, cost.n))
                scaled.fill(slice(0, cost.batch), rows, self.log_a_hat[:, rows], self.log_b_hat, plan[:, rows])
                plan[:, rows].exp_()
        return plan

    @entry_point
    def plan(self, C: CostLike) -> Plan:
        """The plan as an operator, never stored: ``P @ v``, ``P.T @ u``, its marginals and its entropy."""
        return Plan(self._cost(C), self.epsilon, self.log_a_hat, self.log_b_hat, self.backend)

    @entry_point
    def cost(self, C: CostLike) -> Tensor:
        """<C, P>, (B,), streamed."""
        passes = passes_of(self.backend)
        total: Tensor = passes.plan_cost_sum(self._cost(C), self.epsilon, self.log_a_hat, self.log_b_hat)
        return total

    @entry_point
    def dual(self, with_reference: bool = True) -> Tensor:
        """The dual value at (f, g), (B,) float64: a lower bound of the optimum, attained at the solution.

        `with_reference=False` leaves out the constant eps sum u sum v. For ``counting`` it is eps times the number of
        pairs and may dominate the rest.
        """
        f0, g0 = self.side_a.potential(self.log_a_hat), self.side_b.potential(self.log_b_hat)
        value = self.side_a.dual_term(f0, self.shift) + self.side_b.dual_term(g0, -self.shift)
        value = value - self.plan_mass
        return self.epsilon * (value + self._reference_mass() if with_reference else value) + self.stranded_penalty

    @entry_point
    def objective(self, C: CostLike) -> Tensor:
        """The primal value of the plan, (B,) float64: <C,P> + eps KL(P || u (x) v) + tau KL per soft side.

        A hard marginal adds nothing, even if it is only met up to `marginal_error`.
        """
        f0, g0 = self.side_a.potential(self.log_a_hat), self.side_b.potential(self.log_b_hat)
        p, q = self.plan(C).marginals()
        # <C,P> + eps KL = <f,p> + <g,q> - eps (sum P - sum u sum v): the cost does not appear, and the shift cancels.
        value = padded_sum(f0.double() * p) + padded_sum(g0.double() * q) - padded_sum(p) + self._reference_mass()
        value = value + _penalty(p, self.side_a) + _penalty(q, self.side_b)
        return self.epsilon * value + self.stranded_penalty

    def _reference_mass(self) -> Tensor:
        """sum u sum v over the entries with mass, (B,)."""
        return self.side_a.reference_total * self.side_b.reference_total

    def _cost(self, C: CostLike) -> Cost:
        on_a, on_b = (~side.empty for side in (self.side_a, self.side_b))
        cost = as_cost(without_padding_places(C, on_a, on_b))
        shape = (*self.f.shape, self.g.shape[1])
        if (cost.batch, cost.n, cost.m) != shape:
            raise TiledError(
                f"the cost that was solved, B, N, M = {shape}", f"{(cost.batch, cost.n, cost.m)}", "pass the same C"
            )
        return cost


def _penalty(p: Tensor, side: Side) -> Tensor:
    """tau KL(p || a), or tau |p - a|_1, over epsilon, (B,); 0 for a hard marginal."""
    if side.tau is not None and side.bounds is not None:
        return side.tau * padded_sum((p - side.mass).abs())
    if side.tau is None:
        return torch.zeros(p.shape[0], dtype=torch.float64, device=p.device)
    ratio = torch.where(p > 0, p / side.mass, 1.0)
    return side.tau * padded_sum(torch.where(p > 0, p * torch.log(ratio), 0.0) - p + side.mass)
