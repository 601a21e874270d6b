"""Laws of a solve: marginals, duality, stopping, batches, references."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from pairframe.tiled import SinkhornOutput, TiledError, sinkhorn, sinkhorn_differentiable

TAUS = [(None, None), (1.0, 1.0), (0.3, 2.0), (1.0, None), (None, 0.5), (1e4, 1e4)]


def problem(
    n: int = 23, m: int = 31, batch: int = 1, ratio: float = 1.0, seed: int = 0
) -> tuple[tuple[Tensor, Tensor], Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.rand(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
    x, y, a, b = draw(batch, n, 2), draw(batch, m, 2), draw(batch, n) + 0.01, draw(batch, m) + 0.01
    return (x, y), a / a.sum(1, keepdim=True), ratio * b / b.sum(1, keepdim=True)


def matrix_of(points: tuple[Tensor, Tensor]) -> Tensor:
    return ((points[0][:, :, None] - points[1][:, None]) ** 2).sum(3)


def solve(C: Tensor | tuple[Tensor, Tensor], a: Tensor, b: Tensor, epsilon: float, **more: object) -> SinkhornOutput:
    options = {"max_iters": 20000, "threshold": 1e-12, **more}
    return sinkhorn(C, a, b, epsilon, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("reference", ["counting", "product"])
@pytest.mark.parametrize("taus", TAUS, ids=str)
def test_a_solve_meets_its_optimality_conditions(taus: tuple[float | None, float | None], reference: str) -> None:
    """P1 = a e^(-f/tau) and P'1 = b e^(-g/tau) at the solution, or a and b themselves; primal = dual there."""
    C, a, b = problem(ratio=1.0 if taus == (None, None) else 1.7)
    out = solve(C, a, b, 0.05, tau_a=taus[0], tau_b=taus[1], reference=reference)
    assert out.converged.all()
    plan = out.transport_plan(C)
    for marginal, potential, mass, tau in ((plan.sum(2), out.f, a, taus[0]), (plan.sum(1), out.g, b, taus[1])):
        asked = mass if tau is None else mass * torch.exp(-potential / tau)
        assert torch.allclose(marginal, asked, rtol=1e-9, atol=1e-12)
    assert torch.allclose(out.plan_mass, plan.sum((1, 2)), rtol=1e-12)
    assert torch.allclose(out.cost(C), (plan * matrix_of(C)).sum((1, 2)), rtol=1e-12)
    assert torch.allclose(out.dual(), out.objective(C), rtol=1e-11)
    assert torch.allclose(out.objective(C), written_out(plan, matrix_of(C), a, b, 0.05, taus, reference), rtol=1e-9)


def written_out(
    plan: Tensor,
    cost: Tensor,
    a: Tensor,
    b: Tensor,
    epsilon: float,
    taus: tuple[float | None, float | None],
    reference: str,
) -> Tensor:
    """The objective as it is defined, term by term."""

    def kl(p: Tensor, q: Tensor) -> Tensor:
        return (torch.where(p > 0, p * torch.log(p / q), 0.0) - p + q).flatten(1).sum(1)

    outer = a[:, :, None] * b[:, None] / torch.sqrt(a.sum(1) * b.sum(1))[:, None, None]
    value = (plan * cost).sum((1, 2)) + epsilon * kl(plan, torch.ones_like(plan) if reference == "counting" else outer)
    for marginal, mass, tau in ((plan.sum(2), a, taus[0]), (plan.sum(1), b, taus[1])):
        value = value + (0.0 if tau is None else tau * kl(marginal, mass))
    return value


@pytest.mark.parametrize("taus", TAUS, ids=str)
def test_points_and_their_matrix_give_the_same(taus: tuple[float | None, float | None]) -> None:
    C, a, b = problem(n=150, m=90)
    one, other = (solve(c, a, b, 0.02, tau_a=taus[0], tau_b=taus[1]) for c in (C, matrix_of(C)))
    assert torch.allclose(one.f, other.f, atol=1e-11)
    assert torch.allclose(one.transport_plan(C), other.transport_plan(matrix_of(C)), rtol=1e-8, atol=1e-14)


def test_the_dual_never_exceeds_the_optimum() -> None:
    C, a, b = problem(ratio=2.0)
    best = solve(C, a, b, 0.05, tau_a=0.5, tau_b=0.5).dual()
    early = torch.stack([solve(C, a, b, 0.05, tau_a=0.5, tau_b=0.5, max_iters=k).dual() for k in (1, 2, 4, 8)])
    assert (early <= best + 1e-12).all()
    assert (early.diff(dim=0) >= -1e-12).all()


def test_translation_makes_near_balanced_problems_with_unequal_masses_converge() -> None:
    """tau = 10^6 epsilon and masses 1 : 3. Without the translation the shift alone would take millions of iterations."""
    C, a, b = problem(ratio=3.0)
    out = solve(C, a, b, 0.1, tau_a=1e5, tau_b=1e5, max_iters=300, threshold=1e-9)
    assert out.converged.all()
    assert torch.allclose(out.plan_mass, torch.tensor([math.sqrt(3.0)], dtype=torch.float64), rtol=1e-4)


def test_float32_keeps_the_plan_where_potentials_are_huge() -> None:
    """The shift is 10^7 epsilon here: added to the potentials in float32 it would leave no digit of the plan."""
    C, a, b = problem(ratio=3.0)
    single = sinkhorn(tuple(c.float() for c in C), a.float(), b.float(), 0.1, 1e6, 1e6, max_iters=300, threshold=1e-4)
    double = solve(C, a, b, 0.1, tau_a=1e6, tau_b=1e6)
    assert single.converged.all()
    plan = double.transport_plan(C)
    assert (single.transport_plan(tuple(c.float() for c in C)) - plan).abs().max() <= 1e-4 * plan.max()


def test_elements_stop_one_by_one_and_stay_as_they_were() -> None:
    """Three problems of different difficulty in one batch: each ends exactly as if it were alone."""
    C, a, b = problem(batch=3)
    x = C[0] * torch.tensor([0.05, 1.0, 0.3], dtype=torch.float64)[:, None, None]
    together = solve((x, C[1]), a, b, 0.02, threshold=1e-8)
    assert together.converged.all()
    assert len(set(together.n_iters.tolist())) == 3
    for k in range(3):
        alone = solve((x[k : k + 1], C[1][k : k + 1]), a[k : k + 1], b[k : k + 1], 0.02, threshold=1e-8)
        assert alone.n_iters.tolist() == together.n_iters[k : k + 1].tolist()
        for name in ("f", "g", "marginal_error", "potential_change"):
            assert torch.equal(getattr(alone, name)[0], getattr(together, name)[k])


def test_stopping_early_is_said() -> None:
    C, a, b = problem()
    out = sinkhorn(C, a, b, 0.001, max_iters=3)
    assert not out.converged.any()
    assert out.n_iters.tolist() == [3]
    assert (out.marginal_error > 1e-6).all()
    assert "0 of 1 converged" in repr(out)


def test_the_threshold_bounds_the_true_marginals() -> None:
    """Also at small epsilon, where a threshold on the potentials in cost units would stop far too early."""
    C, a, b = problem(n=60, m=60)
    for epsilon in (0.1, 0.01, 0.002):
        out = sinkhorn(C, a, b, epsilon, max_iters=50000, threshold=1e-6, check_every=10)
        assert out.converged.all()
        assert (out.n_iters % 10 == 0).all()
        plan = out.transport_plan(C)
        assert (plan.sum(2) - a).abs().sum() <= 1e-6
        assert (plan.sum(1) - b).abs().sum() <= 1e-6


def test_a_lone_hard_side_is_met_exactly() -> None:
    C, a, b = problem(ratio=4.0)
    for taus, axis, mass in (((None, 0.5), 2, a), ((0.5, None), 1, b)):
        plan = sinkhorn(C, a, b, 0.05, *taus, max_iters=2).transport_plan(C)
        assert torch.allclose(plan.sum(axis), mass, rtol=1e-13)


def test_nearly_equal_totals_are_brought_to_their_mean_and_that_is_said() -> None:
    C, a, b = problem(ratio=1.0 + 8e-6)
    out = solve(C, a, b, 0.05)
    assert out.total_mismatch.item() == pytest.approx(8e-6, rel=1e-3)
    assert out.plan_mass.item() == pytest.approx(1.0 + 4e-6, rel=1e-9)


def test_logs_and_masses_say_the_same() -> None:
    C, a, b = problem()
    one, other = (
        solve(C, a, b, 0.05),
        sinkhorn(C, epsilon=0.05, log_a=a.log(), log_b=b.log(), max_iters=20000, threshold=1e-12),
    )
    assert torch.allclose(one.f, other.f, atol=1e-14)
    uniform = sinkhorn(C, epsilon=0.05)
    assert torch.allclose(uniform.transport_plan(C).sum(2), torch.full((1, 23), 1 / 23, dtype=torch.float64), rtol=1e-4)


def test_gradients_do_not_flow_and_inputs_stay() -> None:
    C, a, b = problem()
    a.requires_grad_()
    C[0].requires_grad_()
    copies = [one.detach().clone() for one in (*C, a, b)]
    out = sinkhorn(C, a, b, 0.05)
    assert not out.f.requires_grad
    assert all(torch.equal(one, copy) for one, copy in zip((*C, a, b), copies, strict=True))


@settings(max_examples=25, deadline=None)
@example(n=12, m=11, log_epsilon=-2.0, log_tau=4.0, ratio=20.5, seed=520)  # a shift of millions of epsilons
@given(
    n=st.integers(1, 12),
    m=st.integers(1, 12),
    log_epsilon=st.floats(-2.0, 1.0),
    log_tau=st.floats(-2.0, 4.0),
    ratio=st.floats(0.01, 100.0),
    seed=st.integers(0, 1000),
)
def test_the_primal_meets_the_dual_whatever_the_problem(
    n: int, m: int, log_epsilon: float, log_tau: float, ratio: float, seed: int
) -> None:
    C, a, b = problem(n, m, ratio=ratio, seed=seed)
    out = solve(C, a, b, 10.0**log_epsilon, tau_a=10.0**log_tau, tau_b=2.0 * 10.0**log_tau, threshold=1e-10)
    assert out.converged.all()
    gap = (out.objective(C) - out.dual()).abs()
    assert gap <= 1e-9 * (1.0 + out.dual().abs() + 10.0**log_tau * (1.0 + ratio))


@pytest.mark.parametrize("taus", [(math.inf, math.inf), (math.inf, 0.5), (0.5, math.inf)], ids=str)
def test_an_infinite_tau_is_a_hard_marginal(taus: tuple[float, float]) -> None:
    C = torch.rand(2, 5, 4, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    hard = [None if tau == math.inf else tau for tau in taus]
    found, wanted = sinkhorn(C, None, None, 0.3, *taus), sinkhorn(C, None, None, 0.3, *hard)
    assert torch.equal(found.f, wanted.f)
    assert torch.equal(found.dual(), wanted.dual())
    f, _ = sinkhorn_differentiable(C, None, None, 0.3, tau_a=taus[0], tau_b=taus[1])
    assert torch.equal(f, sinkhorn_differentiable(C, None, None, 0.3, tau_a=hard[0], tau_b=hard[1])[0])


@pytest.mark.parametrize("is_tiled", [False, True])
@pytest.mark.parametrize("tau", [1e9, 1e12, 1e15])
def test_a_huge_tau_comes_to_rest_at_the_hard_marginal(tau: float, is_tiled: bool) -> None:
    """A huge tau multiplies the rounding of the totals, which is no step."""
    generator = torch.Generator().manual_seed(1)
    C = torch.rand(2, 11, 11, generator=generator, dtype=torch.float64)
    options = {"epsilon": 0.2, "max_iters": 200} | ({"progress": lambda *_: None} if is_tiled else {})
    soft, hard = sinkhorn(C, tau_a=tau, tau_b=tau, **options), sinkhorn(C, **options)
    assert soft.converged.all()
    assert soft.n_iters.max() <= hard.n_iters.max() + 2
    torch.testing.assert_close(soft.dual(), hard.dual(), rtol=1e-8, atol=1e-8)


def test_a_plan_reads_nothing_beside_masked_entries() -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.rand(2, 5, 2, generator=generator), torch.rand(2, 6, 2, generator=generator)
    mask = torch.ones(2, 6, dtype=torch.bool)
    mask[1, 4:] = False
    y[1, 4:] = torch.nan
    plan = sinkhorn((x, y), epsilon=0.1, mask_b=mask, threshold=1e-4).plan((x, y))
    torch.testing.assert_close(plan @ y, plan @ y.nan_to_num())
    assert torch.isfinite(plan @ y).all()


def test_a_compiled_plan_is_the_same() -> None:
    cost = torch.rand(2, 5, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def applied(cost: torch.Tensor) -> torch.Tensor:
        return sinkhorn(cost, epsilon=0.1).plan(cost).T @ torch.ones(2, 5, dtype=torch.float64)

    torch.testing.assert_close(torch.compile(applied, backend="eager")(cost), applied(cost), rtol=0, atol=0)


@pytest.mark.parametrize("transform", [torch.func.grad, torch.func.jacrev])
def test_gradients_of_torch_func_are_refused_with_the_way_out(transform) -> None:
    with pytest.raises(TiledError, match=r"outside of torch.func.grad.*sinkhorn_differentiable"):
        transform(lambda cost: sinkhorn(cost, epsilon=0.1).f.sum())(torch.rand(1, 4, 3))
