"""The kernels over a cost equal the torch passes. Runs in triton's interpreter, started by `test_tiled_triton`."""

from __future__ import annotations

from inspect import isfunction, signature
from itertools import product
from types import ModuleType
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pairframe.tiled import passes, triton_passes
from pairframe.tiled.cost import Cost, DenseCost, PointCost
from pairframe.tiled.kernels import launch
from pairframe.tiled.kernels.configs import Shape, choices
from pairframe.tiled.kernels.log_sum import log_sum_kernel

EPSILON = 0.07
TOLERANCE = {torch.float64: 1e-13, torch.float32: 2e-6}
SIZES = [(1, 1, 1), (2, 19, 71), (3, 5, 130), (1, 9, 40)]
QUICK = {  # the interpreter is slow: the other settings of the cross are left to the slow tests
    (torch.float64, "dense", SIZES[0]),
    (torch.float64, "dense", SIZES[2]),
    (torch.float64, "points 2", SIZES[3]),
    (torch.float32, "dense", SIZES[1]),
    (torch.float32, "points 17", SIZES[3]),
    (torch.bfloat16, "dense", SIZES[3]),
}


def make_cost(kind: str, dtype: torch.dtype, b: int, n: int, m: int) -> Cost:
    draw = torch.Generator().manual_seed(b * n + m)
    if kind == "dense":
        return DenseCost(torch.rand((b, n, m), generator=draw, dtype=torch.float64).to(dtype))
    d = int(kind.removeprefix("points "))
    x, y = (torch.rand((b, k, d), generator=draw, dtype=torch.float64) / d**0.5 for k in (n, m))
    return PointCost(x.to(dtype), y.to(dtype))


def as_float64(cost: Cost) -> Cost:
    return (
        DenseCost(cost.matrix.double()) if isinstance(cost, DenseCost) else PointCost(cost.x.double(), cost.y.double())
    )


def vectors(cost: Cost, *lengths: tuple[int, ...]) -> list[Tensor]:
    """Random numbers (B, *length) each."""
    draw = torch.Generator().manual_seed(7)
    return [torch.randn((cost.batch, *length), generator=draw, dtype=cost.dtype) for length in lengths]


def holes(log_weight: Tensor) -> Tensor:
    """Some without mass, but not all of them."""
    log_weight[..., 1::4] = -torch.inf
    return log_weight


def assert_same(got: Any, wanted: Any, tolerance: float) -> None:
    if isinstance(got, tuple):
        for one, other in zip(got, wanted, strict=True):
            assert_same(one, other, tolerance)
        return
    assert got.shape == wanted.shape
    assert not got.isnan().any()
    assert torch.equal(got == -torch.inf, wanted == -torch.inf)
    finite = wanted.isfinite()
    if finite.any():
        error = (got.double() - wanted)[finite].abs().max()
        assert error <= tolerance * max(1.0, float(wanted[finite].abs().max()))


CASES = [
    pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow)
    for case in product([torch.float64, torch.float32, torch.bfloat16], ["dense", "points 2", "points 17"], SIZES)
]


@pytest.mark.parametrize(("dtype", "kind", "size"), CASES, ids=str)
def test_every_pass_equals_the_torch_path(dtype: torch.dtype, kind: str, size: tuple[int, int, int]) -> None:
    cost = make_cost(kind, dtype, *size)
    la, lb, u, v = vectors(cost, (cost.n,), (cost.m,), (cost.n,), (cost.m,))
    one, three, nine = vectors(cost, (cost.m, 1), (cost.n, 3), (cost.m, 9))
    la, lb, scale = holes(la), holes(lb), u.exp()
    k = 9 if size[1] > 10 else 1
    calls = {
        "log_sum_rows": (lb,),
        "log_sum_cols": (la,),
        "plan_times": (la, lb, nine if k == 9 else one),
        "plan_transposed_times": (la, lb, three),
        "plan_cost_sum": (la, lb),
        "accumulate_cost_gradient": (la, lb, u, v),
    }
    if size == SIZES[2]:
        calls["plan_gram"] = (la, lb, one, scale)
    for name, arguments in calls.items():
        got = getattr(triton_passes, name)(cost, EPSILON, *arguments)
        wanted = getattr(passes, name)(as_float64(cost), EPSILON, *(a.double() for a in arguments))
        assert_same(got, wanted, TOLERANCE[cost.dtype])


def test_a_full_iteration_updates_all_rows_at_once_and_equals_the_torch_path() -> None:
    cost = make_cost("dense", torch.float64, 2, 19, 33)
    (lb,) = vectors(cost, (cost.m,))
    (target,) = vectors(cost, (cost.n,))

    def update(where: tuple[slice, slice], rows: Tensor) -> Tensor:
        return target[where] - 0.5 * rows

    got, wanted = (module.rows_then_cols(cost, EPSILON, lb, update) for module in (triton_passes, passes))
    assert_same(got, wanted, 1e-13)


@pytest.mark.parametrize("kind", ["dense", "points 2"])
def test_padding_changes_nothing_bit_for_bit(kind: str) -> None:
    cost = make_cost(kind, torch.float32, 2, 37, 71)
    la, lb = vectors(cost, (37,), (71,))
    padded_la = torch.nn.functional.pad(la, (0, 9), value=-torch.inf)
    padded_lb = torch.nn.functional.pad(lb, (0, 30), value=-torch.inf)
    if isinstance(cost, DenseCost):
        padded: Cost = DenseCost(torch.nn.functional.pad(cost.matrix, (0, 30, 0, 9), value=3.0))
    else:
        pad = torch.nn.functional.pad
        padded = PointCost(pad(cost.x, (0, 0, 0, 9), value=5.0), pad(cost.y, (0, 0, 0, 30), value=5.0))
    rows = triton_passes.log_sum_rows(padded, EPSILON, padded_lb)[:, :37]
    cols = triton_passes.log_sum_cols(padded, EPSILON, padded_la)[:, :71]
    assert torch.equal(rows, triton_passes.log_sum_rows(cost, EPSILON, lb))
    assert torch.equal(cols, triton_passes.log_sum_cols(cost, EPSILON, la))


def test_sums_over_nothing_are_minus_infinity_and_forbidden_pairs_carry_nothing() -> None:
    matrix = torch.rand((2, 5, 40), dtype=torch.float64)
    matrix[0, 2] = torch.inf
    matrix[1, :, 3] = torch.inf
    cost = DenseCost(matrix)
    la, lb = torch.zeros(2, 5, dtype=torch.float64), torch.zeros(2, 40, dtype=torch.float64)
    rows, cols = triton_passes.log_sum_rows(cost, EPSILON, lb), triton_passes.log_sum_cols(cost, EPSILON, la)
    assert (rows == -torch.inf).nonzero().tolist() == [[0, 2]]
    assert (cols == -torch.inf).nonzero().tolist() == [[1, 3]]
    assert torch.isfinite(triton_passes.plan_cost_sum(cost, EPSILON, la, lb)).all()
    nothing = torch.full_like(lb, -torch.inf)
    assert (triton_passes.log_sum_rows(cost, EPSILON, nothing) == -torch.inf).all()
    assert (triton_passes.plan_cost_sum(cost, EPSILON, la, nothing) == 0).all()


def test_sums_in_chunks_equal_one_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_passes, "_LEAST_CHUNK", 128)
    cost = make_cost("dense", torch.float64, 1, 3, 300)
    la, lb, u, v = vectors(cost, (3,), (300,), (3,), (300,))
    (values,) = vectors(cost, (300, 2))
    assert triton_passes._Side.of(cost, EPSILON).n_chunks == 3
    for name, arguments in {"log_sum_rows": (lb,), "plan_times": (la, lb, values), "plan_cost_sum": (la, lb)}.items():
        got, wanted = (getattr(module, name)(cost, EPSILON, *arguments) for module in (triton_passes, passes))
        assert_same(got, wanted, 1e-13)
    points = make_cost("points 2", torch.float64, 1, 3, 300).transposed()
    got, wanted = (m.accumulate_cost_gradient(points, EPSILON, lb, la, v, u)[1] for m in (triton_passes, passes))
    assert_same(got, wanted, 1e-12)


def test_a_tiny_epsilon_neither_overflows_nor_loses_the_sum() -> None:
    cost = make_cost("points 2", torch.float64, 1, 20, 30)
    (lb,) = vectors(cost, (30,))
    got, wanted = (module.log_sum_rows(cost, 1e-7, lb) for module in (triton_passes, passes))
    assert wanted.abs().max() > 1e4
    assert_same(got, wanted, 1e-13)


def test_any_strides_are_read_in_place() -> None:
    whole = torch.rand((2, 60, 90), dtype=torch.float64)
    for view in (whole.transpose(1, 2), whole[:, 3:20, 5:50], whole[:, ::2, ::3]):
        cost = DenseCost(view)
        la, lb, u, v = vectors(cost, (cost.n,), (cost.m,), (cost.n,), (cost.m,))
        for name, arguments in {
            "log_sum_rows": (lb,),
            "log_sum_cols": (la,),
            "accumulate_cost_gradient": (la, lb, u, v),
        }.items():
            got, wanted = (getattr(module, name)(cost, EPSILON, *arguments) for module in (triton_passes, passes))
            assert_same(got, wanted, 1e-13)


def test_the_gradient_is_added_into_what_is_there() -> None:
    cost = make_cost("dense", torch.float64, 2, 9, 20)
    la, lb, u, v = vectors(cost, (9,), (20,), (9,), (20,))
    out = torch.ones_like(cost.matrix)
    given = triton_passes.accumulate_cost_gradient(cost, EPSILON, la, lb, u, v, out=out)
    assert given is out
    alone = triton_passes.accumulate_cost_gradient(cost, EPSILON, la, lb, u, v)
    assert isinstance(alone, Tensor)
    assert_same(out, alone + 1.0, 1e-14)


def test_near_points_far_from_the_origin_keep_their_digits() -> None:
    draw = torch.Generator().manual_seed(3)
    x, y = (1000.0 + 0.01 * torch.randn((1, 20, 2), generator=draw, dtype=torch.float64) for _ in range(2))
    near = PointCost(x.float(), y.float())
    got = triton_passes.log_sum_rows(near, 1e-4, torch.zeros(1, 20))
    wanted = passes.log_sum_rows(as_float64(near), 1e-4, torch.zeros(1, 20, dtype=torch.float64))
    assert_same(got, wanted, 1e-6)


@settings(max_examples=3, deadline=None, derandomize=True)
@given(st.integers(1, 3), st.integers(1, 40), st.integers(1, 140), st.sampled_from(["dense", "points 3"]))
def test_the_plan_and_its_transpose_are_adjoint(b: int, n: int, m: int, kind: str) -> None:
    cost = make_cost(kind, torch.float64, b, n, m)
    la, lb = vectors(cost, (n,), (m,))
    left, right = vectors(cost, (n, 1), (m, 1))
    onwards = triton_passes.plan_times(cost, EPSILON, la, lb, right)
    back = triton_passes.plan_transposed_times(cost, EPSILON, la, lb, left)
    scale = float((onwards * left).abs().sum()) + 1e-300
    assert abs(float((onwards * left).sum() - (back * right).sum())) <= 1e-12 * scale + 1e-15


def test_sizes_of_one_bucket_are_tuned_once_and_the_choice_changes_nothing() -> None:
    timed = []

    def timer(call: Any, quantiles: Any) -> list[float]:
        call()
        timed.append(call)
        return [1.0 / len(timed)] * 3  # the last choice wins

    candidates = choices(Shape(double=True))
    kernel = launch.tuned(log_sum_kernel, candidates, timer)
    for n, m, so_far in ((20, 200, 1), (30, 250, 1), (40, 250, 2)):
        cost = make_cost("dense", torch.float64, 1, n, m)
        assert isinstance(cost, DenseCost)
        (lb,) = vectors(cost, (m,))
        side = triton_passes._Side.of(cost, EPSILON)
        out = side.empty(())
        sizes = {"n_batch": 1, "n_p": n, "n_q": m, "chunk": side.chunk, "DIM": 0, "PRODUCT": False}
        keys = {"bucket_p": launch.bucket(n), "bucket_q": launch.bucket(m)}
        arguments = {**side.cost_arguments, "log_weight": lb, "scale": side.scale, "out": out, **sizes, **keys}
        kernel[lambda blocks, n=n: (-(-n // blocks["BP"]), 1)](**arguments)
        assert len(timed) == so_far * len(candidates)
        assert_same(out[0], passes.log_sum_rows(cost, EPSILON, lb), 1e-13)


@pytest.mark.parametrize("tau", [None, 0.5])
def test_a_whole_solve_equals_the_torch_backend(tau: float | None) -> None:
    from pairframe.tiled import sinkhorn

    draw = torch.Generator().manual_seed(5)
    matrix = torch.rand((2, 5, 7), generator=draw, dtype=torch.float64)
    found = {
        backend: sinkhorn(matrix, epsilon=0.2, tau_a=tau, tau_b=tau, backend=backend, threshold=1e-7)
        for backend in ("torch", "triton")
    }
    assert torch.equal(found["torch"].n_iters, found["triton"].n_iters)
    assert_same(found["triton"].f, found["torch"].f, 1e-12)
    assert_same(found["triton"].g, found["torch"].g, 1e-12)


def test_every_pass_takes_what_the_torch_pass_takes() -> None:
    def public(module: ModuleType) -> dict[str, Any]:
        items = vars(module).items()
        return {name: item for name, item in items if isfunction(item) and item.__module__ == module.__name__}

    ours = {name: item for name, item in public(triton_passes).items() if not name.startswith("_")}
    assert len(ours) == 8
    for name, item in ours.items():
        assert signature(item) == signature(public(passes)[name])
