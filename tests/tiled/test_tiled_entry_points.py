"""The public functions in surroundings other than a plain call: torch.compile, forked processes, warning filters."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import pytest
import torch
from helpers.tiled_grad_problems import problem
from torch import Tensor

from pairframe.tiled import (
    NotConvergedWarning,
    divergence,
    sinkhorn,
    sinkhorn_differentiable,
    sinkhorn_jvp,
    sinkhorn_value,
)

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")


def run(script: str) -> str:
    """Output of a script in a fresh process."""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


# --- torch.compile ---------------------------------------------------------------------------


def everything(C: Tensor, x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """A loss with all public functions, between operations that can be compiled."""
    y = x.flip(1)
    f, g = sinkhorn_differentiable(2.0 * C, a, b, 0.5, max_iters=20, threshold=0.0)
    solved = sinkhorn(C, a, b, 0.5)
    plan = solved.transport_plan(C)
    slope, _ = sinkhorn_jvp(C, a, b, 0.5, f.detach(), g.detach(), a.detach(), b.detach())
    value = sinkhorn_value(C.square(), a, b, 0.5).sum() + divergence((x, y), epsilon=0.5).sum()
    return value + f.sin().sum() + (plan.sum() + slope.sum() + solved.dual().sum() + solved.cost(C).sum()).cos()


# torch warns about itself: wherever it resumes a function, it reads the gradients of tensors that are not leaves.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
def test_a_compiled_function_that_calls_them_has_the_same_value_and_gradient() -> None:
    data = problem(seed=31, shape=(2, 4, 4))
    leaves = [data.C, data.x, data.a, data.b]
    wanted = everything(*leaves)
    found = torch.compile(everything, backend="eager")(*leaves)
    assert torch.equal(found, wanted)
    for one, other in zip(torch.autograd.grad(found, leaves), torch.autograd.grad(wanted, leaves), strict=True):
        assert torch.equal(one, other)


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
def test_a_compiled_value_is_the_value() -> None:
    data = problem(seed=32)
    compiled = torch.compile(sinkhorn_value, backend="eager")
    assert torch.equal(compiled(data.C, data.a, data.b, 0.5), sinkhorn_value(data.C, data.a, data.b, 0.5))


def test_a_plain_call_does_not_load_the_compiler() -> None:
    script = """
import sys, torch
from pairframe.tiled import sinkhorn_value
sinkhorn_value(torch.rand(1, 4, 4, requires_grad=True), None, None, 0.5).sum().backward()
print("torch._dynamo" in sys.modules)
"""
    assert run(script).strip() == "False"


# --- forked processes ------------------------------------------------------------------------

FORK = """
import os, signal, torch
from pairframe.tiled import TiledError, sinkhorn
torch.set_num_threads(2)
C = torch.rand(1, 600, 600)
sinkhorn(C, max_iters=2)
child = os.fork()
if child == 0:
    signal.alarm(60)  # ends the child if it hangs
    {first}
    try:
        print("marginal error", float(sinkhorn(C, max_iters=2).marginal_error), flush=True)
    except TiledError as error:
        print(error, flush=True)
    os._exit(0)
print("ended with", os.waitpid(child, 0)[1])
"""


@needs_fork
def test_a_forked_child_gets_an_error_where_torch_would_hang() -> None:
    printed = run(FORK.format(first="pass"))
    assert "got a forked child" in printed
    assert "get_context('spawn')" in printed
    assert "ended with 0" in printed


@needs_fork
def test_a_forked_child_with_one_thread_of_torch_works() -> None:
    printed = run(FORK.format(first="torch.set_num_threads(1)"))
    assert "marginal error" in printed
    assert "ended with 0" in printed


# --- warnings --------------------------------------------------------------------------------


def test_warnings_point_at_the_line_of_the_caller() -> None:
    data = problem(seed=33)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sinkhorn_value(data.C, data.a, data.b, 0.01, max_iters=2)
        sinkhorn_differentiable(data.C, data.a, data.b, 0.01, max_iters=2, grad="implicit")
        divergence((data.x, data.y), data.a, data.b, 0.01, max_iters=2)
        divergence((data.x.detach(), data.y.detach()), epsilon=0.01, max_iters=2)
    caught = [one for one in caught if one.category is NotConvergedWarning]
    assert len(caught) >= 4
    assert {one.filename for one in caught} == {__file__}
