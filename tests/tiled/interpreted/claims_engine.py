"""The grid engine's GPU kernel equals its CPU kernel. Runs in triton's interpreter, started by `test_tiled_triton`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from pairframe.engines import SolveOptions, solve
from pairframe.engines.grid import level
from pairframe.engines.grid.cuda import CudaKernel
from pairframe.engines.grid.kernel import SupportKernel
from pairframe.losses import ImageLoss
from pairframe.losses.batch import forget
from pairframe.problem import KL, TransportProblem


@pytest.mark.parametrize(("dtype", "tolerance", "epsilon"), [("float64", 1e-13, 0.01), ("float32", 2e-6, 30.0)])
def test_sums_between_supports_equal_the_cpu_kernel(dtype: str, tolerance: float, epsilon: float) -> None:
    rng = np.random.default_rng(4)
    support_in, support_out = rng.random((5, 9)) < 0.5, rng.random((5, 9)) < 0.4
    support_in[0], support_out[:2] = False, False
    arguments = support_in, support_out, epsilon, dtype
    cpu, device = SupportKernel(*arguments), CudaKernel(*arguments, device="cpu")
    assert (device.n_in, device.n_out) == (cpu.n_in, cpu.n_out)
    log_weight = 3.0 * rng.normal(size=cpu.n_in)
    log_weight[::5] = -np.inf
    channels = rng.normal(size=(2, cpu.n_in))
    wanted, wanted_means = cpu.log_sum_and_means(log_weight, channels)
    got, means = device.log_sum_and_means(log_weight, channels)
    np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(means, wanted_means, rtol=0, atol=20 * tolerance)
    np.testing.assert_allclose(device.log_sum(log_weight), wanted, rtol=tolerance, atol=tolerance)


def on_device_kernels(monkeypatch: pytest.MonkeyPatch) -> list[CudaKernel]:
    """The kernels that solves make from here on, all of the device."""
    kernels: list[CudaKernel] = []

    def kernel(*arguments: Any) -> CudaKernel:
        kernels.append(CudaKernel(*arguments[:4], device="cpu"))
        return kernels[-1]

    monkeypatch.setattr(level, "SupportKernel", kernel)
    return kernels


def test_a_whole_solve_on_the_device_kernel_gives_the_same_potentials(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    a, b = rng.random((2, 3, 4)) + 0.1
    problem = TransportProblem(a, b, 2.0, KL(5.0), KL(5.0))
    options = SolveOptions(tol=1e-9)
    monkeypatch.setattr(level, "stored_kernel", lambda *arguments: None)  # of so few pixels: no passes would be made
    wanted = solve(problem, "grid", options)
    kernels = on_device_kernels(monkeypatch)
    got = solve(problem, "grid", options)
    assert kernels
    assert got.status == wanted.status == "converged"
    assert got.iterations == wanted.iterations
    np.testing.assert_allclose(got.potential_a, wanted.potential_a, rtol=0, atol=1e-11)
    np.testing.assert_allclose(got.marginal_b, wanted.marginal_b, rtol=0, atol=1e-11)


@pytest.mark.parametrize("penalty", ["kl", "partial", "balanced"])
def test_a_loss_on_the_device_kernel_has_the_same_value_and_gradient(
    penalty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(3)
    a, b = (torch.as_tensor(rng.random((1, 4, 5))) for _ in range(2))
    a[0, 0], b[0, :, 4] = 0.0, 0.0
    loss = ImageLoss(1.5, 4.0, penalty=penalty, tol=1e-10)

    def found() -> tuple[float, np.ndarray]:
        forget()
        leaf = a.clone().requires_grad_()
        value = loss(leaf, b)
        return float(value.detach()), torch.autograd.grad(value, leaf)[0].numpy()

    monkeypatch.setattr(level, "stored_kernel", lambda *arguments: None)
    wanted = found()
    kernels = on_device_kernels(monkeypatch)
    value, gradient = found()
    assert kernels
    assert value == pytest.approx(wanted[0], rel=1e-8)
    np.testing.assert_allclose(gradient, wanted[1], rtol=1e-6, atol=1e-7)
