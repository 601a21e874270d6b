"""All modes say the same where they promise to, and say so where they cannot."""

from __future__ import annotations

import pytest
import torch
from helpers.tiled_grad_problems import SIDES, Problem, largest_difference, problem
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pairframe.tiled import passes
from pairframe.tiled.cost import DenseCost
from pairframe.tiled.differentiable import problem_value, sinkhorn_differentiable, sinkhorn_value
from pairframe.tiled.errors import NotConvergedWarning, TiledError
from pairframe.tiled.grad import conjugate_gradients, cost_gradient, dense_passes
from pairframe.tiled.grad import settings as grad_settings
from pairframe.tiled.grad.gauge import fix_gauge, project_feasible
from pairframe.tiled.loop import Stopping
from pairframe.tiled.recorder import Recorder
from pairframe.tiled.sinkhorn import sinkhorn

TIGHT = {"max_iters": 3000, "threshold": 1e-12}


def gradients(data: Problem, mode: str, *, points: bool = False, epsilon: float = 0.2, **options) -> tuple[Tensor, ...]:
    """Gradients of the loss with respect to C, a, b, or x, y, a, b."""
    leaves = (data.x, data.y, data.a, data.b) if points else (data.C, data.a, data.b)
    cost = (data.x, data.y) if points else data.C
    f, g = sinkhorn_differentiable(cost, data.a, data.b, epsilon, grad=mode, **options)
    return torch.autograd.grad(data.loss(f, g), leaves)


@pytest.mark.parametrize("points", [False, True], ids=["stored", "points"])
@pytest.mark.parametrize("epsilon", [1.0, 0.1])
@pytest.mark.parametrize("sides", SIDES)
def test_implicit_equals_unrolled(sides: str, epsilon: float, points: bool) -> None:
    tau_a, tau_b = SIDES[sides]
    data = problem(seed=1, shape=(2, 9, 6), mass_b=1.0 if sides == "balanced" else 3.0)
    options = {"points": points, "epsilon": epsilon, "tau_a": tau_a, "tau_b": tau_b, **TIGHT}
    assert largest_difference(gradients(data, "implicit", **options), gradients(data, "unrolled", **options)) < 1e-8


@given(
    seed=st.integers(0, 10_000),
    shape=st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(1, 9)),
    epsilon=st.sampled_from([2.0, 0.1, 0.002]),
    sides=st.sampled_from(list(SIDES)),
    points=st.booleans(),
    iterations=st.integers(1, 6),
)
@settings(max_examples=40, deadline=None)
def test_checkpoint_is_the_gradient_of_the_iterations(seed, shape, epsilon, sides, points, iterations) -> None:
    tau_a, tau_b = SIDES[sides]
    data = problem(seed, shape, mass_b=1.0 if sides == "balanced" else 2.0)
    options = {"points": points, "epsilon": epsilon, "tau_a": tau_a, "tau_b": tau_b}
    options |= {"max_iters": iterations, "threshold": 0.0}
    ours, theirs = (gradients(data, mode, **options) for mode in ("checkpoint", "unrolled"))
    scale = max(float(one.abs().max()) for one in theirs)
    assert (
        max(float((one - other).abs().max()) for one, other in zip(ours, theirs, strict=True)) < 1e-10 * scale + 1e-12
    )


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("points", [False, True], ids=["stored", "points"])
@pytest.mark.parametrize("sides", ["balanced", "unbalanced"])
def test_one_pass_for_many_iterations_equals_one_pass_for_each(monkeypatch, sides, points, dtype) -> None:
    tau_a, tau_b = SIDES[sides]
    data = problem(seed=2, shape=(2, 7, 9), dtype=dtype)
    options = {"points": points, "tau_a": tau_a, "tau_b": tau_b, "max_iters": 20, "threshold": 0.0}
    together = gradients(data, "checkpoint", **options)
    for dtype_ in (torch.float64, torch.float32):
        monkeypatch.setitem(cost_gradient.SAFE_EXPONENT, dtype_, -1e9)  # no factor is safe
    alone = gradients(data, "checkpoint", **options)
    assert largest_difference(together, alone) < (1e-12 if dtype == torch.float64 else 1e-4)
    monkeypatch.setitem(cost_gradient.SAFE_EXPONENT, dtype, 300.0 if dtype == torch.float64 else 40.0)
    monkeypatch.setattr(cost_gradient, "_MAX_RANK", 3)  # many small sums
    assert largest_difference(gradients(data, "checkpoint", **options), together) < (
        1e-12 if dtype == torch.float64 else 1e-4
    )


@pytest.mark.parametrize("sides", SIDES)
def test_truncated_differentiates_the_last_iterations(sides: str) -> None:
    tau_a, tau_b = SIDES[sides]
    data = problem(seed=3, shape=(2, 6, 5))
    made = grad_settings.Settings(0.2, tau_a, tau_b, dense_passes, 9, 0.0)
    loop = made.loop(DenseCost(data.C), data.a.log(), data.b.log())
    first = loop.iterate(Stopping(5, 0.0))
    start = (first.f0.detach(), first.g0.detach(), first.shift.detach())
    f, g = loop.potentials(loop.end_on_a(loop.iterate(Stopping(4, 0.0), start)))
    ours = sinkhorn_differentiable(
        data.C, data.a, data.b, 0.2, tau_a=tau_a, tau_b=tau_b, max_iters=9, threshold=0.0, grad="truncated",
        grad_iters=4,
    )  # fmt: skip
    if sides == "balanced":  # the gauge fix is part of the public function only
        f, g = fix_gauge(f, g, data.a, data.b)
    wanted = torch.autograd.grad((data.weight_f * f).sum() + (data.weight_g * g).sum(), data.C)
    found = torch.autograd.grad((data.weight_f * ours[0]).sum() + (data.weight_g * ours[1]).sum(), data.C)
    assert largest_difference(found, wanted) < 1e-12


def test_truncated_with_all_iterations_is_checkpoint() -> None:
    data = problem(seed=4, shape=(3, 6, 5))
    whole = gradients(data, "checkpoint", max_iters=30, threshold=1e-4)
    assert largest_difference(gradients(data, "truncated", grad_iters=30, max_iters=30, threshold=1e-4), whole) == 0.0
    assert largest_difference(gradients(data, "truncated", grad_iters=99, max_iters=30, threshold=1e-4), whole) == 0.0
    # grad_iters alone, as the mode's short form
    short = gradients(data, "checkpoint", grad_iters=3, max_iters=30, threshold=1e-4)
    assert largest_difference(short, gradients(data, "truncated", grad_iters=3, max_iters=30, threshold=1e-4)) == 0.0
    assert largest_difference(short, whole) > 1e-6


def test_more_iterations_make_a_truncated_gradient_better() -> None:
    data = problem(seed=5, shape=(2, 8, 8))
    exact = gradients(data, "implicit", **TIGHT)
    errors = [
        largest_difference(gradients(data, "truncated", grad_iters=n, **TIGHT)[:1], exact[:1]) for n in (1, 5, 20, 80)
    ]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-3 < errors[0]


@pytest.mark.parametrize("mode", ["checkpoint", "truncated", "implicit", "unrolled"])
def test_a_batch_is_its_elements_one_by_one(monkeypatch, mode: str) -> None:
    """Elements stop at iterations of their own, together or alone."""
    data = problem(seed=6, shape=(3, 6, 5))
    with torch.no_grad():
        data.C[1] *= 5.0  # slower than the others
    options = {"tau_a": 0.8, "max_iters": 400, "threshold": 1e-7, "grad_iters": 7 if mode == "truncated" else 0}
    together = gradients(data, mode, **options)
    for b in range(3):
        one = Problem(*(leaf[b : b + 1].detach().requires_grad_() for leaf in vars(data).values()))
        assert largest_difference(gradients(one, mode, **options), tuple(t[b : b + 1] for t in together)) < 1e-11
    monkeypatch.setattr(grad_settings, "_ALONE", 1)  # as for large problems: one loop per element
    assert largest_difference(gradients(data, mode, **options), together) < 1e-11


def test_elements_really_stop_at_their_own_iteration() -> None:
    data = problem(seed=6, shape=(3, 6, 5))
    with torch.no_grad():
        data.C[1] *= 5.0
    made = grad_settings.Settings(0.2, 0.8, None, passes, 400, 1e-7)
    log_a, log_b = data.a.detach().log(), data.b.detach().log()
    recorder = Recorder(log_a, log_b, made.max_iters)
    state = made.loop(grad_settings.cost_of(data.C, None), log_a, log_b).run(made.stopping, recorder=recorder)
    recorder.trim(state.n_iters)
    assert len(set(state.n_iters.tolist())) > 1
    assert recorder.sums_a.shape == (3, int(state.n_iters.max()), 6)


def test_a_recorder_keeps_the_last_iterations_of_each_element() -> None:
    data = problem(seed=6, shape=(3, 6, 5))
    with torch.no_grad():
        data.C[1] *= 5.0
    made = grad_settings.Settings(0.2, 0.8, 0.5, passes, 400, 1e-10)
    log_a, log_b = data.a.detach().log(), data.b.detach().log()
    loop = made.loop(grad_settings.cost_of(data.C, None), log_a, log_b)
    whole, short = Recorder(log_a, log_b, 400), Recorder(log_a, log_b, 400, keep=4)
    state = loop.run(made.stopping, recorder=whole)
    loop.run(made.stopping, recorder=short)
    assert int(state.n_iters.max()) > 32, "the whole record has to grow"
    assert len(set(state.n_iters.tolist())) > 1
    assert short.shifts.shape == (3, 4)
    for b, n in enumerate(state.n_iters.tolist()):
        for k in range(n - 4, n):
            assert torch.equal(short.sums_a[b, k % 4], whole.sums_a[b, k])
            assert torch.equal(short.sums_b[b, k % 4], whole.sums_b[b, k])
            assert short.shifts[b, k % 4] == whole.shifts[b, k]
    # and from its last record the end of the loop is rebuilt
    last = state.n_iters - 1
    rows = torch.arange(3)
    g0 = loop.b.potential(loop.b.updated(whole.sums_b[rows, last], -whole.shifts[rows, last]))
    assert torch.equal(g0, state.g0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("points", [False, True], ids=["stored", "points"])
@pytest.mark.parametrize("sides", SIDES)
def test_after_equal_iterations_the_gradients_have_the_potentials_of_the_plain_solve(sides, points, dtype) -> None:
    tau_a, tau_b = SIDES[sides]
    data = problem(seed=17, shape=(3, 9, 7), mass_b=1.0 if sides == "balanced" else 3.0, dtype=dtype)
    cost = (data.x, data.y) if points else data.C
    for options in ({"max_iters": 1, "threshold": 0.0}, {"max_iters": 4, "threshold": 0.0}, {"threshold": 1e-3}):
        plain = sinkhorn(cost, data.a, data.b, 0.05, tau_a, tau_b, **options)
        wanted = plain.f, plain.g
        if sides == "balanced":
            wanted = fix_gauge(*wanted, torch.exp(plain.side_a.log_mass), torch.exp(plain.side_b.log_mass))
        for mode in ("checkpoint", "truncated", "unrolled"):
            ours = sinkhorn_differentiable(
                cost, data.a, data.b, 0.05, tau_a=tau_a, tau_b=tau_b, grad=mode, grad_iters=2 * (mode == "truncated"),
                **options,
            )  # fmt: skip
            # The same iterations, but sums and logarithms of masses may be rounded in another way.
            tolerance = 1e-14 if dtype == torch.float64 else 2e-6
            assert all(torch.allclose(one, other, 0.0, tolerance) for one, other in zip(ours, wanted, strict=True))


@pytest.mark.parametrize("mode", ["checkpoint", "implicit", "envelope", "unrolled"])
@pytest.mark.parametrize("sides", SIDES)
def test_potentials_are_those_of_the_plain_solve(sides: str, mode: str) -> None:
    tau_a, tau_b = SIDES[sides]
    data = problem(seed=7, shape=(2, 7, 5), mass_b=1.0 if sides == "balanced" else 3.0)
    f, g = sinkhorn_differentiable(data.C, data.a, data.b, 0.1, tau_a=tau_a, tau_b=tau_b, grad=mode, **TIGHT)
    plain = sinkhorn(data.C, data.a, data.b, 0.1, tau_a, tau_b, **TIGHT)
    assert plain.converged.all()
    ours = f.unsqueeze(2) + g.unsqueeze(1)
    assert torch.allclose(ours, plain.f.unsqueeze(2) + plain.g.unsqueeze(1), atol=1e-11)
    if sides != "balanced":
        assert torch.allclose(f, plain.f, atol=1e-11)


@pytest.mark.parametrize("mode", ["checkpoint", "implicit", "envelope", "unrolled"])
def test_the_balanced_gauge_is_fixed_in_every_mode(mode: str) -> None:
    data = problem(seed=8, mass_b=1.0)
    f, g = sinkhorn_differentiable(data.C, 3.0 * data.a, 3.0 * data.b, 0.1, grad=mode, **TIGHT)
    assert torch.allclose((f * data.a).sum(1), (g * data.b).sum(1), atol=1e-13)


@pytest.mark.parametrize("mode", ["checkpoint", "implicit", "unrolled"])
def test_balanced_mass_gradients_are_the_centred_representative(mode: str) -> None:
    data = problem(seed=9, shape=(2, 6, 5))
    _, bar_a, bar_b = gradients(data, mode, **TIGHT)
    assert torch.allclose(bar_a.sum(1), bar_b.sum(1), atol=1e-10)
    # and along a direction that stays feasible it is the derivative
    direction_a, direction_b = 0.1 * torch.rand_like(data.a), 0.1 * torch.rand_like(data.b)
    direction_b += (direction_a.sum(1, keepdim=True) - direction_b.sum(1, keepdim=True)) / data.b.shape[1]

    def loss(step: float) -> float:
        a, b = data.a.detach() + step * direction_a, data.b.detach() + step * direction_b
        return float(data.loss(*sinkhorn_differentiable(data.C.detach(), a, b, 0.2, grad=mode, **TIGHT)))

    slope = (loss(1e-4) - loss(-1e-4)) / 2e-4
    assert slope == pytest.approx(float((bar_a * direction_a).sum() + (bar_b * direction_b).sum()), rel=1e-5)


@given(seed=st.integers(0, 1000), epsilon=st.sampled_from([0.5, 0.2]), sides=st.sampled_from(list(SIDES)))
@settings(max_examples=15, deadline=None)
def test_a_constant_added_to_the_cost_goes_where_it_must(seed: int, epsilon: float, sides: str) -> None:
    """C + c: two hard sides share c by halves (the gauge), the only hard side takes it all, two soft sides give in."""
    tau_a, tau_b = SIDES[sides]
    data = problem(seed, mass_b=1.0 if sides == "balanced" else 2.0)
    f, _ = sinkhorn_differentiable(data.C, data.a, data.b, epsilon, tau_a=tau_a, tau_b=tau_b, grad="implicit", **TIGHT)
    f.sum().backward()
    share = data.C.grad.sum((1, 2)) / data.a.shape[1]
    wanted = {"balanced": 0.5, "hard a": 1.0, "hard b": 0.0}
    if sides in wanted:
        assert torch.allclose(share, torch.full_like(share, wanted[sides]), atol=1e-8)
    else:
        assert ((share > 0) & (share < 1)).all()


@pytest.mark.parametrize("sides", SIDES)
def test_envelope_potentials_give_the_gradient_of_the_dual_value(sides: str) -> None:
    tau_a, tau_b = SIDES[sides]
    data = problem(seed=10, shape=(2, 7, 5), mass_b=1.0 if sides == "balanced" else 2.0)
    epsilon, options = 0.1, {"tau_a": tau_a, "tau_b": tau_b, **TIGHT}
    f, g = sinkhorn_differentiable(data.C, data.a, data.b, epsilon, grad="envelope", **options)

    def term(mass: Tensor, potential: Tensor, tau: float | None) -> Tensor:
        return (mass * (potential if tau is None else -tau * torch.expm1(-potential / tau))).sum()

    plan = torch.exp((f.unsqueeze(2) + g.unsqueeze(1) - data.C) / epsilon)
    dual = term(data.a, f, tau_a) + term(data.b, g, tau_b) - epsilon * plan.sum() + epsilon * 2 * 7 * 5
    value = sinkhorn_value(data.C, data.a, data.b, epsilon, **options)
    assert float(dual.detach()) == pytest.approx(float(value.detach().sum()), abs=1e-11)
    bar_C, bar_a, bar_b = torch.autograd.grad(value.sum(), (data.C, data.a, data.b))
    assert torch.allclose(bar_C, plan, atol=1e-10)
    ours = torch.autograd.grad(dual, (data.C, data.a, data.b), retain_graph=True)
    if sides == "balanced":  # a and b written out in the loss are not seen by the projection
        ours = (ours[0], *project_feasible(data.a.detach().log(), data.b.detach().log(), *ours[1:]))
    assert largest_difference(ours, (bar_C, bar_a, bar_b)) < 1e-9
    if sides == "balanced":
        short = torch.autograd.grad((f * data.a).sum() + (g * data.b).sum(), data.C)
        assert largest_difference(short, (plan.detach(),)) < 1e-10


def test_the_value_is_the_dual_of_the_plain_solve() -> None:
    data = problem(seed=11, mass_b=2.0)
    for reference in ("counting", "product"):
        plain = sinkhorn(data.C, data.a, data.b, 0.1, 0.5, 0.7, reference=reference, **TIGHT)
        value = sinkhorn_value(data.C, data.a, data.b, 0.1, tau_a=0.5, tau_b=0.7, reference=reference, **TIGHT)
        assert torch.allclose(value, plain.dual(), atol=1e-12)


@pytest.mark.parametrize("reference", ["counting", "product"])
@pytest.mark.parametrize("tau", [None, 0.5])
def test_a_symmetric_solve_has_the_same_value_and_gradient(tau: float | None, reference: str) -> None:
    data = problem(seed=16, shape=(2, 7, 7))
    stopping = Stopping(TIGHT["max_iters"], TIGHT["threshold"])
    bars = []
    for symmetric in (False, True):
        value = problem_value(
            (data.x, data.x), (data.a, data.a), (None, None), 0.1, (tau, tau), reference, "torch", False, stopping,
            with_reference=True, symmetric=symmetric,
        )  # fmt: skip
        bars.append((value.detach(), *torch.autograd.grad(value.sum(), (data.x, data.a))))
    assert largest_difference(*bars) < 1e-9


def test_checkpoint_keeps_a_tenth_of_what_unrolled_keeps() -> None:
    kept: dict[str, int] = {}
    data = problem(seed=12, shape=(1, 30, 30))
    for mode in ("unrolled", "checkpoint"):
        storages: dict[int, int] = {}

        def pack(tensor: Tensor, storages: dict[int, int] = storages) -> Tensor:
            storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            f, g = sinkhorn_differentiable(data.C, data.a, data.b, 0.1, grad=mode, max_iters=100, threshold=0.0)
        kept[mode] = sum(storages.values())
        del f, g
    assert kept["checkpoint"] < 0.1 * kept["unrolled"]


def test_an_unconverged_implicit_gradient_warns() -> None:
    data = problem(seed=13)
    with pytest.warns(NotConvergedWarning, match="2 of 2 problems stopped after 3 iterations"):
        sinkhorn_differentiable(data.C, data.a, data.b, 0.01, grad="implicit", max_iters=3)
    with pytest.warns(NotConvergedWarning, match="raise max_iters"):
        sinkhorn_value(data.C, data.a, data.b, 0.01, max_iters=3)


def test_a_linear_solve_that_stops_early_warns(monkeypatch) -> None:
    monkeypatch.setattr(conjugate_gradients, "_MAX_STEPS", 1)
    data = problem(seed=13)
    with pytest.warns(NotConvergedWarning, match="conjugate gradient steps"):
        gradients(data, "implicit", **TIGHT)


@pytest.mark.parametrize("mode", ["checkpoint", "implicit"])
def test_float32_is_close_to_float64(mode: str) -> None:
    options = {"tau_a": 0.7, "tau_b": 0.4, "epsilon": 0.1, "max_iters": 500, "threshold": 1e-6}
    exact = gradients(problem(seed=14, shape=(2, 30, 20)), mode, **options)
    short = gradients(problem(seed=14, shape=(2, 30, 20), dtype=torch.float32), mode, **options)
    assert all(one.dtype == torch.float32 for one in short)
    assert largest_difference(tuple(one.double() for one in short), exact) < 1e-4


def test_a_half_precision_cost_gets_a_gradient_of_its_own_dtype() -> None:
    data = problem(seed=15)
    C = data.C.detach().bfloat16().requires_grad_()
    for mode in ("checkpoint", "implicit", "unrolled"):
        f, _ = sinkhorn_differentiable(C, data.a, data.b, 0.5, grad=mode, max_iters=300, threshold=1e-5)
        bar_C, bar_a = torch.autograd.grad(f.square().sum(), (C, data.a))
        assert f.dtype == torch.float32
        assert (bar_C.dtype, bar_a.dtype) == (torch.bfloat16, torch.float64)
        assert torch.isfinite(bar_C).all()
        assert bar_C.abs().max() > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"grad": "magic"}, "a grad mode: checkpoint, truncated"),
        ({"grad": "truncated"}, "grad_iters >= 1"),
        ({"grad": "implicit", "grad_iters": 5}, 'use grad="truncated"'),
        ({"grad_iters": -1}, "grad_iters to be an integer >= 0"),
        ({"grad_iters": 2.5}, "grad_iters to be an integer >= 0"),
        ({"tau_a": -1.0}, "tau_a to be positive"),
        ({"threshold": -1.0}, "threshold to be a number >= 0"),
        ({"max_iters": 0}, "max_iters to be an integer >= 1"),
        ({"backend": "cpu"}, "a backend"),
        ({"mask_a": torch.ones(2, 5)}, "dtype torch.bool"),
    ],
)
def test_bad_arguments_are_refused(options: dict, message: str) -> None:
    data = problem()
    with pytest.raises(TiledError, match=message):
        sinkhorn_differentiable(data.C, data.a, data.b, 0.1, **options)


def test_bad_values_are_refused() -> None:
    data = problem()
    for cost, a, b, epsilon, message in (
        (data.C[0], data.a, data.b, 0.1, "unsqueeze"),
        (data.C * torch.nan, data.a, data.b, 0.1, "NaN"),
        (data.C, -data.a, data.b, 0.1, ">= 0"),
        (data.C, 0 * data.a, data.b, 0.1, "some mass"),
        (data.C, 2 * data.a, data.b, 0.1, "equal totals"),
        (data.C, data.a, data.b, 0.0, "epsilon to be positive"),
    ):
        with pytest.raises(TiledError, match=message):
            sinkhorn_differentiable(cost, a, b, epsilon)
    with pytest.raises(TiledError, match="a reference"):
        sinkhorn_value(data.C, data.a, data.b, 0.1, reference="heat")
