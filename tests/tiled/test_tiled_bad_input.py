"""Every refusal says what was expected, what came, and how to fix it."""

from __future__ import annotations

import math
import os
import pickle
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch.func import grad, vmap

from pairframe.tiled import TiledError, divergence, sinkhorn, sinkhorn_differentiable, sinkhorn_jvp, sinkhorn_value

COST = torch.rand(2, 4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
POINTS = torch.rand(2, 4, 3, dtype=torch.float64)
NAN = COST.clone()
NAN[1, 2, 3] = math.nan
LOW = COST.clone()
LOW[0, 0, 0] = -math.inf
NESTED = torch.nested.nested_tensor([POINTS[0], POINTS[1, :2]], layout=torch.jagged)
GOOD_A, GOOD_B = torch.full((2, 4), 0.25), torch.full((2, 5), 0.2)
NEGATIVE = torch.tensor([[0.5, 0.5, 0.5, -0.5], [0.25] * 4])
EMPTY = torch.tensor([[0.0] * 4, [0.25] * 4])

CASES: dict[str, tuple[dict[str, Any], str]] = {
    "a matrix without batch": ({"C": COST[0]}, r"shape \(B, N, M\).*unsqueeze\(0\)"),
    "no tensor": ({"C": [[1.0]]}, "pair of tensors"),
    "a number": ({"C": 3.0}, "torch.as_tensor"),
    "integers": ({"C": torch.ones(2, 4, 5, dtype=torch.int64)}, "floating point"),
    "NaN": ({"C": NAN}, "without NaN or -inf"),
    "minus infinity": ({"C": LOW}, "without NaN or -inf"),
    "no entries": ({"C": torch.rand(2, 0, 5)}, "at least one entry"),
    "points without batch": ({"C": (POINTS[0], POINTS[0])}, r"points x of shape \(B, N, d\)"),
    "points of two dimensions": ({"C": (POINTS, POINTS[:, :, :2])}, "same B and d"),
    "points of two dtypes": ({"C": (POINTS, POINTS.float())}, "one dtype"),
    "points at infinity": ({"C": (POINTS, POINTS + math.inf)}, "finite points y"),
    "three points": ({"C": (POINTS, POINTS, POINTS)}, r"pass \(x, y\)"),
    "masses of the wrong rank": ({"a": GOOD_A[0]}, r"a of shape \(2, 4\)"),
    "masses of the wrong length": ({"b": GOOD_A}, r"b of shape \(2, 5\)"),
    "masses that are no tensor": ({"a": [0.25] * 4}, "a to be a tensor"),
    "negative masses": ({"a": NEGATIVE}, "a to be finite and >= 0"),
    "masses of NaN": ({"a": EMPTY / EMPTY}, "a to be finite and >= 0"),
    "no mass": ({"a": EMPTY}, "some mass in every batch element of a"),
    "no mass under the mask": (
        {"mask_b": torch.zeros(2, 5, dtype=torch.bool)},
        "some mass in every batch element of b.*mask_b",
    ),
    "complex costs": ({"C": COST + 0j}, r"the cost in floating point, got torch.complex128.*\.real"),
    "complex points": ({"C": (POINTS + 0j, POINTS + 0j)}, r"points x in floating point.*\.real"),
    "complex masses": ({"a": GOOD_A + 0j}, r"a of real numbers, got torch.complex64.*\.real"),
    "complex log masses": ({"log_b": GOOD_B + 0j}, r"log_b of real numbers"),
    "points without coordinates": ({"C": (POINTS[:, :, :0], POINTS[:, :, :0])}, "at least one coordinate.*d >= 1"),
    "epsilon below float32": (
        {"C": COST.float(), "epsilon": 1e-40},
        "epsilon to be at least 1e-19 in torch.float32, got 1e-40.*float64",
    ),
    "epsilon below float64": ({"epsilon": 1e-300}, "epsilon to be at least 1e-154 in torch.float64"),
    "a sparse cost": ({"C": COST.to_sparse()}, r"C to be a dense tensor, got torch.sparse_coo.*to_dense\(\)"),
    "sparse points": ({"C": (POINTS, POINTS.to_sparse())}, "C to be a dense tensor, got torch.sparse_coo"),
    "sparse masses": ({"a": GOOD_A.to_sparse()}, "a to be a dense tensor, got torch.sparse_coo"),
    "a sparse mask": ({"mask_a": (GOOD_A > 0).to_sparse()}, "mask_a to be a dense tensor, got torch.sparse_coo"),
    "nested points": ({"C": (NESTED, NESTED)}, "C to be a dense tensor, got a nested tensor.*to_padded_tensor"),
    "a nested cost": ({"C": NESTED}, "C to be a dense tensor, got a nested tensor"),
    "nested masses": (
        {"a": torch.nested.nested_tensor([*GOOD_A], layout=torch.jagged)},
        "a to be a dense tensor, got a nested tensor",
    ),
    "a cost without numbers": ({"C": COST.to("meta")}, "C to hold numbers, got a meta tensor.*real device"),
    "points without numbers": ({"C": (POINTS.to("meta"), POINTS.to("meta"))}, "C to hold numbers, got a meta tensor"),
    "masses without numbers": ({"a": GOOD_A.to("meta")}, "a to hold numbers, got a meta tensor"),
    "a mask without numbers": ({"mask_b": (GOOD_B > 0).to("meta")}, "mask_b to hold numbers, got a meta tensor"),
    "epsilon with a gradient": (
        {"epsilon": torch.tensor(0.1, requires_grad=True)},
        r"epsilon without a gradient, got a tensor that requires one.*epsilon.item\(\)",
    ),
    "tau with a gradient": ({"tau_a": torch.tensor(1.0, requires_grad=True)}, "tau_a without a gradient"),
    "several epsilons": ({"epsilon": torch.tensor([0.1, 0.2])}, "epsilon to be positive and finite"),
    "two kinds of masses": ({"a": GOOD_A, "log_a": GOOD_A.log()}, "only one of a and log_a"),
    "log masses of infinity": ({"log_a": GOOD_A / 0.0}, "log_a without NaN"),
    "unequal totals": ({"a": GOOD_A, "b": 2.0 * GOOD_B}, "equal totals.*1 against 2 .*renormalize=True"),
    "totals that differ a little too much": ({"a": GOOD_A, "b": 1.0001 * GOOD_B}, "equal totals"),
    "epsilon zero": ({"epsilon": 0.0}, "epsilon to be positive and finite, got 0.0"),
    "epsilon negative": ({"epsilon": -1.0}, "epsilon to be positive"),
    "epsilon infinite": ({"epsilon": math.inf}, "epsilon to be positive"),
    "epsilon no number": ({"epsilon": "small"}, "epsilon to be positive"),
    "tau zero": ({"tau_a": 0.0}, "tau_a to be positive and finite.*None for a hard marginal"),
    "tau minus infinite": ({"tau_b": -math.inf}, "tau_b to be positive"),
    "a mask of numbers": (
        {"mask_a": torch.ones(2, 4)},
        r"mask_a of dtype torch.bool, got torch.float32.*mask.bool\(\)",
    ),
    "a mask of the wrong shape": ({"mask_a": torch.ones(2, 5, dtype=torch.bool)}, r"mask_a of shape \(2, 4\)"),
    "no iterations": ({"max_iters": 0}, "max_iters to be an integer >= 1"),
    "half an iteration": ({"max_iters": 1.5}, "max_iters to be an integer >= 1"),
    "never looking": ({"check_every": 0}, "check_every to be an integer >= 1"),
    "a negative threshold": ({"threshold": -1.0}, "threshold to be a number >= 0"),
    "an unknown reference": ({"reference": "heat"}, "a reference: counting, product"),
    "an unknown backend": ({"backend": "cuda"}, "a backend: auto, compiled, torch, triton"),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_refused_with_advice(name: str) -> None:
    change, message = CASES[name]
    with pytest.raises(TiledError, match=message) as caught:
        sinkhorn(**{"C": COST, **change})
    assert caught.value.fix


@pytest.mark.parametrize("value", ["differentiable", "value", "divergence", "jvp"])
@pytest.mark.parametrize(
    "name",
    [
        "complex points",
        "complex masses",
        "points without coordinates",
        "epsilon below float32",
        "sparse points",
        "sparse masses",
        "a sparse mask",
        "nested points",
        "nested masses",
        "points without numbers",
        "masses without numbers",
        "masses that are no tensor",
        "epsilon with a gradient",
        "tau with a gradient",
    ],
)
def test_every_door_refuses_it_with_advice(name: str, value: str) -> None:
    change, message = CASES[name]
    given: dict[str, Any] = {"C": (POINTS, POINTS), "a": None, "b": None, "epsilon": 0.1, **change}
    if name == "epsilon below float32":
        given["C"] = (POINTS.float(), POINTS.float())
    doors = {"differentiable": sinkhorn_differentiable, "value": sinkhorn_value, "divergence": divergence}
    vectors = {one: torch.zeros(2, 4) for one in ("f", "g", "v_f", "v_g")} if value == "jvp" else {}
    with pytest.raises(TiledError, match=message):
        doors.get(value, sinkhorn_jvp)(**given, **vectors)


def test_vmap_over_a_forward_solve_is_refused_with_the_ways_out() -> None:
    costs = torch.rand(3, 2, 4, 5)
    advice = r"takes a batch \(B, ...\) already.*C.flatten\(0, 1\).*sinkhorn_differentiable"
    with pytest.raises(TiledError, match=advice):
        vmap(lambda C: sinkhorn(C).f)(costs)
    with pytest.raises(TiledError, match=advice):
        vmap(lambda a: sinkhorn(COST, a, GOOD_B, tau_a=1.0).f)(torch.rand(3, 2, 4))
    with pytest.raises(TiledError, match=advice):
        vmap(grad(lambda C: sinkhorn(C).f.sum() + C.sum()))(costs)
    with pytest.raises(TiledError, match=advice):
        vmap(lambda x: divergence((x, x)))(torch.rand(3, 2, 4, 2))
    square = torch.eye(4).expand(3, 2, 4, 4)
    with pytest.raises(TiledError, match="divergence of stored costs to be called outside of"):
        vmap(lambda C: divergence((C, C, C)))(square)
    vectors = [torch.zeros(2, n) for n in (4, 5, 4, 5)]
    with pytest.raises(TiledError, match="sinkhorn_jvp to be called outside of"):
        vmap(lambda C: sinkhorn_jvp(C, None, None, 0.1, *vectors)[0])(costs)


def test_another_cost_than_was_solved_is_refused() -> None:
    out = sinkhorn(COST)
    with pytest.raises(TiledError, match="the cost that was solved"):
        out.cost(COST[:1])


def test_an_error_survives_the_trip_between_processes() -> None:
    error = pickle.loads(pickle.dumps(TiledError("one", "two", "three")))
    assert str(error) == "expected one, got two. To fix: three"
    assert isinstance(error, ValueError)


def test_triton_without_gpu_or_interpreter_is_refused_with_both_ways_out() -> None:
    pytest.importorskip("triton", reason="triton is not installed")
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    script = (
        "import torch\n"
        "from pairframe.tiled import TiledError, sinkhorn\n"
        "try:\n    sinkhorn(torch.rand(1, 3, 3), backend='triton')\n"
        "except TiledError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True, timeout=120
    )
    assert "TRITON_INTERPRET=1" in done.stdout
    assert ".cuda()" in done.stdout
    assert "backend='torch'" in done.stdout


def test_no_flag_can_claim_a_symmetry_that_the_problem_lacks() -> None:
    """Only `divergence`, which checks it, solves with f = g."""
    with pytest.raises(TypeError, match="symmetric"):
        sinkhorn_value(torch.rand(1, 4, 4), None, None, 0.1, symmetric=True)  # type: ignore[call-arg]
