"""How fast is a tiled Sinkhorn solve on the CPU, compared with POT and a plain torch loop, and how much memory does it take?

    python benchmarks/tiled.py [--iterations 50] [--repeats 3]

N = M = 4096 points in the unit square, epsilon = 0.05, hard marginals, a fixed number of iterations (one iteration is f
and g), float32 and float64, a stored cost. Peers in the same run, interleaved, minima: POT's `sinkhorn_log` on torch
tensors and on numpy arrays (the faster of the two counts), and eight lines of `torch.logsumexp`. All three end at the
same potentials, which the benchmark checks. Bars: ours/POT <= 1/5, ours/plain <= 1/2.

Memory is the peak of a fresh process: beyond the cost (bar: 5 % of it), and in all for 50 000 x 50 000 points whose cost
is never stored (bar: 500 MB, torch included). Writes benchmarks/out/tiled.json.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import warnings
from collections.abc import Callable
from time import perf_counter

import numpy as np
import torch

from harness import peak_extra_mb_of, write_json
from pairframe.tiled import sinkhorn

N, EPSILON = 4096, 0.05
N_POINTS = 50_000
BARS = {"ours_over_pot": 0.2, "ours_over_plain": 0.5, "extra_over_cost": 0.05, "points_mb": 500.0}


def points(n: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.rand(1, n, 2, generator=generator, dtype=torch.float64).to(dtype) for _ in range(2))


def squared(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x[:, :, None, 0] - y[:, None, :, 0]).square_() + (x[:, :, None, 1] - y[:, None, :, 1]).square_()


def ours(C: torch.Tensor, iterations: int, backend: str = "auto") -> np.ndarray:
    out = sinkhorn(C, epsilon=EPSILON, max_iters=iterations, threshold=0.0, backend=backend)
    return out.f[0].double().numpy()


def plain(C: torch.Tensor, iterations: int) -> np.ndarray:
    log_a = torch.full((1, C.shape[1]), -np.log(C.shape[1]), dtype=C.dtype)
    log_b = torch.full((1, C.shape[2]), -np.log(C.shape[2]), dtype=C.dtype)
    f, g = torch.zeros_like(log_a), torch.zeros_like(log_b)
    for _ in range(iterations):
        f = EPSILON * (log_a - torch.logsumexp((g[:, None, :] - C) / EPSILON, 2))
        g = EPSILON * (log_b - torch.logsumexp((f[:, :, None] - C) / EPSILON, 1))
    return f[0].double().numpy()


def pot(C: torch.Tensor, iterations: int, as_numpy: bool) -> np.ndarray:
    import ot

    M = C[0].numpy() if as_numpy else C[0]
    one = np.ones if as_numpy else torch.ones
    a, b = one(M.shape[0], dtype=M.dtype) / M.shape[0], one(M.shape[1], dtype=M.dtype) / M.shape[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about missing convergence
        log = ot.bregman.sinkhorn_log(a, b, M, EPSILON, numItermax=iterations, stopThr=0.0, log=True)[1]
    return EPSILON * np.asarray(log["log_u"], dtype=np.float64)


def compare(dtype: torch.dtype, iterations: int, repeats: int) -> dict[str, object]:
    C = squared(*points(N, dtype))
    jobs: dict[str, Callable[[], np.ndarray]] = {
        "ours": lambda: ours(C, iterations),
        "plain": lambda: plain(C, iterations),
        "pot_torch": lambda: pot(C, iterations, as_numpy=False),
        "pot_numpy": lambda: pot(C, iterations, as_numpy=True),
    }
    for job in (jobs["ours"], jobs["plain"]):  # exclude the cost of the first call
        job()
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    found: dict[str, np.ndarray] = {}
    for repeat in range(repeats):
        for name, job in jobs.items():
            if name == "pot_numpy" and repeat:
                continue  # takes minutes; one run shows that it is the slower of the two
            start = perf_counter()
            found[name] = job()
            seconds[name].append(perf_counter() - start)
    # POT starts on the other side: its f after k iterations is our g after k iterations of the transposed problem.
    turned = sinkhorn(C.mT.contiguous(), epsilon=EPSILON, max_iters=iterations, threshold=0.0).g[0].double().numpy()
    wanted = {"ours": found["ours"], "plain": found["ours"], "pot_torch": turned, "pot_numpy": turned}
    apart = {name: float(np.ptp(wanted[name] - found[name])) for name in jobs}  # up to the constant
    assert max(apart.values()) <= (1e-3 if dtype == torch.float32 else 1e-10), apart
    best = {name: min(times) for name, times in seconds.items()}
    row: dict[str, object] = {"dtype": str(dtype).removeprefix("torch."), "seconds": best, "potentials_apart": apart}
    row["ours_over_pot"] = best["ours"] / min(best["pot_torch"], best["pot_numpy"])
    row["ours_over_plain"] = best["ours"] / best["plain"]
    return row


def in_fresh_process(*arguments: str) -> float:
    done = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True, check=True)
    return float(done.stdout)


def print_extra_mb(dtype: str) -> None:
    C = squared(*points(N, getattr(torch, dtype)))
    ours(squared(*points(300, getattr(torch, dtype))), 1, backend="torch")  # on tiles, with threads, as what follows
    print(peak_extra_mb_of(lambda: ours(C, 3)))


def print_points_mb(dtype: str) -> None:
    out = sinkhorn(points(N_POINTS, getattr(torch, dtype)), epsilon=EPSILON, max_iters=1, threshold=0.0)
    assert bool(torch.isfinite(out.f).all())
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))  # noqa: PTH123, SIM115
    print(int(status["VmHWM"].split()[0]) / 1024)


def main(iterations: int, repeats: int) -> None:
    rows = []
    print(
        f"{'':>8} {'ours s':>8} {'plain s':>8} {'POT torch s':>12} {'POT numpy s':>12} {'/POT':>6} {'/plain':>7}",
        end="",
    )
    print(f" {'extra MB':>9} {'cost MB':>8} {'extra/cost':>11} {'50k MB':>7}")
    for dtype in (torch.float32, torch.float64):
        row = compare(dtype, iterations, repeats)
        cost_mb = N * N * dtype.itemsize / 2**20
        row["extra_mb"] = in_fresh_process("--extra", str(row["dtype"]))
        row["extra_over_cost"] = row["extra_mb"] / cost_mb
        row["points_mb"] = in_fresh_process("--points", str(row["dtype"]))
        row["met"] = {name: row[name] <= bar for name, bar in BARS.items()}
        rows.append(row)
        best = row["seconds"]
        print(
            f"{row['dtype']:>8} {best['ours']:>8.2f} {best['plain']:>8.2f} {best['pot_torch']:>12.2f}"
            f" {best['pot_numpy']:>12.2f} {row['ours_over_pot']:>6.3f} {row['ours_over_plain']:>7.3f}"
            f" {row['extra_mb']:>9.1f} {cost_mb:>8.0f} {row['extra_over_cost']:>11.3f} {row['points_mb']:>7.0f}"
            f"  {'all bars met' if all(row['met'].values()) else row['met']}",
            flush=True,
        )
    write_json("tiled", {"n": N, "iterations": iterations, "repeats": repeats, "bars": BARS, "rows": rows})


if __name__ == "__main__":
    if sys.argv[1:2] == ["--extra"]:
        print_extra_mb(sys.argv[2])
    elif sys.argv[1:2] == ["--points"]:
        print_points_mb(sys.argv[2])
    else:
        parser = argparse.ArgumentParser()
        parser.add_argument("--iterations", type=int, default=50)
        parser.add_argument("--repeats", type=int, default=3)
        main(**vars(parser.parse_args()))
