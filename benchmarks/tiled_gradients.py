"""How long do gradients of the tiled Sinkhorn take compared with the forward solve, and what does truncation cost?

    python benchmarks/tiled_gradients.py [--quick]

Three questions, for points in the unit square and hard marginals unless noted:

1. Time of the backward over the time of the forward, by mode, to a threshold of 1e-6 (float32: 1e-4); stored cost, points.
   Bar: `implicit` <= 1.5 everywhere. Minima of three interleaved runs.
2. Peak memory of forward and backward beyond the inputs, 200 iterations, fresh processes. Bar: `checkpoint` <= 1/10 of
   `unrolled`.
3. Relative error of a truncated gradient by epsilon and by the number of iterations differentiated (float64, mean of 5
   problems of 64 x 64, against `implicit` at 1e-12).

Writes benchmarks/out/tiled_gradients.json.
"""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from time import perf_counter

import torch

from harness import peak_extra_mb_of, write_json
from pairframe.tiled import sinkhorn, sinkhorn_differentiable

ITERATIONS, N_MEMORY = 200, 512
BARS = {"implicit_backward_over_forward": 1.5, "checkpoint_over_unrolled_memory": 0.1}
GRAD_ITERS, SEEDS = (1, 5, 10, 20, 50), 5


def problem(n: int, dtype: torch.dtype, seed: int = 0) -> tuple[torch.Tensor, ...]:
    """x, y (1, n, 2), a, b (1, n), weights of a loss (1, n) twice."""
    generator = torch.Generator().manual_seed(seed)
    x, y = (torch.rand(1, n, 2, generator=generator, dtype=torch.float64).to(dtype) for _ in range(2))
    a, b = (torch.rand(1, n, generator=generator, dtype=torch.float64).softmax(1).to(dtype) for _ in range(2))
    weights = (torch.randn(1, n, generator=generator, dtype=torch.float64).to(dtype) for _ in range(2))
    return x, y, a, b, *weights


def squared(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x[:, :, None, 0] - y[:, None, :, 0]).square_() + (x[:, :, None, 1] - y[:, None, :, 1]).square_()


def time_one(
    n: int, dtype: torch.dtype, epsilon: float, tau: float | None, mode: str, stored: bool
) -> tuple[float, ...]:
    """Seconds of forward and of backward."""
    x, y, a, b, weight_f, weight_g = problem(n, dtype)
    leaves = [one.requires_grad_() for one in ((squared(x, y), a, b) if stored else (x, y, a, b))]
    cost = leaves[0] if stored else (leaves[0], leaves[1])
    threshold = 1e-6 if dtype == torch.float64 else 1e-4  # the digits of f/eps in float32
    start = perf_counter()
    f, g = sinkhorn_differentiable(
        cost,
        a,
        b,
        epsilon,
        tau_a=tau,
        tau_b=tau,
        max_iters=3000,
        threshold=threshold,
        grad=mode,
        grad_iters=20 if mode == "truncated" else 0,
    )
    middle = perf_counter()
    torch.autograd.grad((weight_f * f).sum() + (weight_g * g).sum(), leaves)
    return middle - start, perf_counter() - middle


def times(quick: bool) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    cases = [
        (2048, torch.float64, 0.1, None, True),
        (2048, torch.float64, 0.01, None, True),
        (2048, torch.float64, 0.01, 0.1, False),
        (4096, torch.float32, 0.1, None, True),
        (4096, torch.float64, 0.1, None, True),
        (4096, torch.float64, 0.05, None, False),
    ]
    print(
        f"{'N':>5} {'dtype':>8} {'eps':>5} {'tau':>5} {'cost':>7} {'mode':>11} {'forward s':>10} {'backward s':>11} {'ratio':>6}"
    )
    for n, dtype, epsilon, tau, stored in cases[:1] if quick else cases:
        modes = ["implicit", "checkpoint", "truncated"] if n == 2048 else ["implicit"]
        found: dict[str, list[tuple[float, ...]]] = {mode: [] for mode in modes}
        time_one(256, dtype, epsilon, tau, "implicit", stored)  # exclude the cost of the first call
        for _ in range(1 if quick else 3):
            for mode in modes:
                found[mode].append(time_one(n, dtype, epsilon, tau, mode, stored))
        for mode, runs in found.items():
            forward, backward = (min(column) for column in zip(*runs, strict=True))
            name, kind = str(dtype).removeprefix("torch."), "stored" if stored else "points"
            rows.append(
                {"n": n, "dtype": name, "epsilon": epsilon, "tau": tau, "cost": kind, "mode": mode}
                | {"forward_s": forward, "backward_s": backward, "ratio": backward / forward}
            )
            print(
                f"{n:>5} {name:>8} {epsilon:>5} {tau!s:>5} {kind:>7} {mode:>11} {forward:>10.2f} {backward:>11.2f}"
                f" {backward / forward:>6.2f}",
                flush=True,
            )
    return rows


def forward_and_backward(n: int, iterations: int, mode: str, stored: bool) -> Callable[[], None]:
    """A job whose inputs exist already."""
    x, y, a, b, weight_f, weight_g = problem(n, torch.float64)
    leaves = [one.requires_grad_() for one in ((squared(x, y),) if stored else (x, y))]
    cost = leaves[0] if stored else (leaves[0], leaves[1])

    def job() -> None:
        f, g = sinkhorn_differentiable(cost, a, b, 0.1, max_iters=iterations, threshold=0.0, grad=mode)
        torch.autograd.grad((weight_f * f).sum() + (weight_g * g).sum(), leaves)

    return job


def print_memory(mode: str, stored: bool) -> None:
    """Peak MB of one forward and backward beyond its inputs; printed for the parent process."""
    warnings.simplefilter("ignore")  # 200 iterations need not converge
    forward_and_backward(64, 2, mode, stored)()  # exclude the memory of libraries and threads
    print(peak_extra_mb_of(forward_and_backward(N_MEMORY, ITERATIONS, mode, stored)))


def memory() -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    print(
        f"\npeak MB beyond the inputs, {ITERATIONS} iterations, N = M = {N_MEMORY}, float64 (a cost has {N_MEMORY**2 * 8 / 2**20:.0f} MB)"
    )
    for stored in (True, False):
        peak = {}
        for mode in ("unrolled", "checkpoint", "implicit"):
            command = [sys.executable, __file__, "--memory", mode, "stored" if stored else "points"]
            peak[mode] = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        ratio = peak["checkpoint"] / peak["unrolled"]
        rows.append(
            {
                "cost": "stored" if stored else "points",
                "n": N_MEMORY,
                "peak_mb": peak,
                "checkpoint_over_unrolled": ratio,
            }
        )
        print(
            f"{rows[-1]['cost']!s:>7}: "
            + ", ".join(f"{mode} {mb:.1f}" for mode, mb in peak.items())
            + f"; checkpoint/unrolled {ratio:.4f}"
        )
    return rows


def gradient_of_cost(seed: int, epsilon: float, tau: float | None, mode: str, grad_iters: int = 0) -> torch.Tensor:
    """dC (1, 64, 64) of a random linear function of the potentials, at the fixed point."""
    x, y, a, b, weight_f, weight_g = problem(64, torch.float64, seed)
    C = squared(x, y).requires_grad_()
    options = {"tau_a": tau, "tau_b": tau, "max_iters": 20_000, "threshold": 1e-12}
    f, g = sinkhorn_differentiable(C, a, b, epsilon, grad=mode, grad_iters=grad_iters, **options)
    return torch.autograd.grad((weight_f * f).sum() + (weight_g * g).sum(), C)[0]


def iterations_to_default(seed: int, epsilon: float, tau: float | None) -> int:
    x, y, a, b, *_ = problem(64, torch.float64, seed)
    return int(sinkhorn(squared(x, y), a, b, epsilon, tau, tau, max_iters=20_000).n_iters)


def truncation() -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    print("\nrelative error of a truncated gradient dC, %")
    print(f"{'eps':>5} {'tau':>5} {'iterations to 1e-6':>19} " + " ".join(f"{f'last {n}':>9}" for n in GRAD_ITERS))
    for tau in (None, 1.0):
        for epsilon in (0.01, 0.1, 1.0):
            errors, count = dict.fromkeys(map(str, GRAD_ITERS), 0.0), 0.0
            for seed in range(SEEDS):
                exact = gradient_of_cost(seed, epsilon, tau, "implicit")
                for n in GRAD_ITERS:
                    off = gradient_of_cost(seed, epsilon, tau, "truncated", n) - exact
                    errors[str(n)] += 100 * float(off.norm() / exact.norm()) / SEEDS
                count += iterations_to_default(seed, epsilon, tau) / SEEDS
            rows.append({"epsilon": epsilon, "tau": tau, "iterations_to_1e-6": count, "error_percent": errors})
            print(
                f"{epsilon:>5} {tau!s:>5} {count:>19.0f} " + " ".join(f"{one:>9.2g}" for one in errors.values()),
                flush=True,
            )
    return rows


def main() -> None:
    quick = "--quick" in sys.argv
    found = {"times": times(quick), "memory": memory(), "truncation": [] if quick else truncation()}
    worst = max(float(row["ratio"]) for row in found["times"] if row["mode"] == "implicit")
    most = max(float(row["checkpoint_over_unrolled"]) for row in found["memory"])
    for name, value in zip(BARS, (worst, most), strict=True):
        print(f"{name}: {value:.3f} (bar {BARS[name]}) {'met' if value <= BARS[name] else 'MISSED'}")
    write_json("tiled_gradients", {"bars": BARS, "implicit_worst": worst, "memory_worst": most, **found})


if __name__ == "__main__":
    if sys.argv[1:2] == ["--memory"]:
        print_memory(sys.argv[2], sys.argv[3] == "stored")
    else:
        main()
