"""How fast is the tiled engine at the sizes people train with, and what does a transport loss between images cost?

    python benchmarks/tiled_small.py [--repeats 15] [--only NAME ...] [--cores N]

Contestants run in one process, in turns, after warm-up and compilation; figures are medians, and the ratio of the
least times is shown too: on a busy machine, a peer that hands its work to a thread waits for the scheduler. A bar is met if
both ratios meet it. By default the process is bound
to one core, so that ratios are per thread. Points in the unit square, epsilon = 0.05, float64, unless noted.

- `iterations`: 100 balanced iterations on a stored cost, against OTT (jitted) and a plain loop of `torch.logsumexp`.
- `batch`: 1000 problems of n = 32, 100 iterations, against OTT (jitted, vmapped).
- `gradient`: value and gradient for the cost, to a marginal error of 1e-6, against OTT (jitted).
- `geomloss`: divergence and gradient for points, ours to a threshold of 1e-6, GeomLoss at its default scaling of 0.5; no bar was set.
  The errors of value and gradient of both, against a threshold of 1e-12, are in the JSON.
- `dimension`: points in 512 dimensions against the same problem with a stored cost, given or made by `torch.cdist`: 100 iterations, and
  a smaller epsilon to a threshold.
- `unbalanced`: tau = 0.5 to a threshold of 1e-7, against the faster of two solvers of POT.
- `masks`: 200 pairs of 12 x 12 masks by `compare_many`, against a loop over POT that only makes plans.
- `images`: `ImageLoss` forward and backward on 32 pairs of 256 x 256, against `pairframe.divergence` in a loop on one core: with a process
  on each core of the machine, and on one core too; and its memory above imports. All but the second in fresh processes.
- `finite`: gradient of `ImageLoss` against finite differences.

Writes benchmarks/out/tiled_small.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

EPSILON = 0.05
# A process that another one has bound to a core is told of all of them.
ALL_CORES = [int(core) for core in os.environ.get("BENCHMARK_CORES", "").split(",") if core] or sorted(
    os.sched_getaffinity(0)
)
SIDE, PAIRS = 256, 32


def bind(cores: int) -> None:
    """Bind this process to some cores, before any library starts its threads."""
    os.sched_setaffinity(0, ALL_CORES[-cores:])
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ[name] = str(cores)


def in_turns(jobs: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median seconds of each job, one round of all jobs after the other; also the least, as `name least`."""
    for job in jobs.values():
        job()
        job()
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(repeats):
        for name, job in jobs.items():
            start = perf_counter()
            job()
            seconds[name].append(perf_counter() - start)
    least = {f"{name} least": min(times) for name, times in seconds.items()}
    return {name: median(times) for name, times in seconds.items()} | least


def row(rows: list[dict[str, Any]], question: str, times: dict[str, float], peer: str, bar: float) -> None:
    ratio, least = times["ours"] / times[peer], times["ours least"] / times[f"{peer} least"]
    met = max(ratio, least) <= bar
    rows.append(
        {
            "question": question,
            "peer": peer,
            "ratio": ratio,
            "ratio_of_least": least,
            "bar": bar,
            "met": met,
            "seconds": times,
        }
    )
    shown = "  ".join(f"{name} {1e3 * value:.3f} ms" for name, value in times.items() if "least" not in name)
    print(
        f"{question:<42} ours/{peer:<10} {ratio:>5.2f} (least {least:.2f})  bar {bar:<4} {'met' if met else 'MISSED'}   {shown}",
        flush=True,
    )


def problem(n: int, seed: int = 0, batch: int = 1, dim: int = 2) -> tuple[Any, Any, Any, Any, Any]:
    import numpy as np

    rng = np.random.default_rng(seed)
    x, y = rng.random((batch, n, dim)), rng.random((batch, n, dim))
    a, b = rng.random((batch, n)) + 0.1, rng.random((batch, n)) + 0.1
    C = ((x[:, :, None] - y[:, None]) ** 2).sum(-1) if dim <= 3 else None
    return C, a / a.sum(1, keepdims=True), b / b.sum(1, keepdims=True), x, y


def ott_solver(iterations: int, threshold: float = 0.0) -> Any:
    from ott.solvers.linear import sinkhorn as ott

    least = iterations if threshold == 0.0 else 0
    inner = min(iterations, 100) if threshold == 0.0 else 10
    return ott.Sinkhorn(threshold=threshold, max_iterations=iterations, min_iterations=least, inner_iterations=inner)


def ott_run(solver: Any) -> Callable[..., Any]:
    from ott.geometry import geometry
    from ott.problems.linear import linear_problem

    return lambda C, a, b: solver(linear_problem.LinearProblem(geometry.Geometry(C, epsilon=EPSILON), a, b))


def iterations(rows: list[dict[str, Any]], repeats: int) -> None:
    import jax
    import numpy as np
    import torch

    from pairframe.tiled import sinkhorn

    def plain(C: Any, a: Any, b: Any) -> Any:
        log_a, log_b, f, g = a.log(), b.log(), torch.zeros_like(a), torch.zeros_like(b)
        for _ in range(100):
            f = EPSILON * (log_a - torch.logsumexp((g[:, None, :] - C) / EPSILON, 2))
            g = EPSILON * (log_b - torch.logsumexp((f[:, :, None] - C) / EPSILON, 1))
        return f

    run = jax.jit(lambda C, a, b: ott_run(ott_solver(100))(C, a, b).f)
    for n, bar in ((10, 2.0), (50, 2.0), (100, 2.0), (300, 1.5)):
        C, a, b, *_ = problem(n)
        Ct, at, bt = (torch.as_tensor(one) for one in (C, a, b))
        Cj, aj, bj = (jax.numpy.asarray(one[0]) for one in (C, a, b))

        def ours(Ct: Any = Ct, at: Any = at, bt: Any = bt) -> Any:
            return sinkhorn(Ct, at, bt, EPSILON, max_iters=100, threshold=0.0)

        apart = np.ptp(ours().f[0].numpy() - plain(Ct, at, bt)[0].numpy())
        assert apart < 1e-10, apart
        times = in_turns(
            {
                "ours": ours,
                "OTT": lambda Cj=Cj, aj=aj, bj=bj: run(Cj, aj, bj).block_until_ready(),
                "plain": lambda Ct=Ct, at=at, bt=bt: plain(Ct, at, bt),
            },
            repeats,
        )
        row(rows, f"100 iterations, n = {n}", times, "OTT", bar)
        row(rows, f"100 iterations, n = {n}", times, "plain", 0.5)


def batch(rows: list[dict[str, Any]], repeats: int) -> None:
    import jax
    import torch

    from pairframe.tiled import sinkhorn

    C, a, b, *_ = problem(32, batch=1000)
    Ct, at, bt = (torch.as_tensor(one) for one in (C, a, b))
    Cj, aj, bj = (jax.numpy.asarray(one) for one in (C, a, b))
    run = jax.jit(jax.vmap(lambda C, a, b: ott_run(ott_solver(100))(C, a, b).f))
    jobs = {
        "ours": lambda: sinkhorn(Ct, at, bt, EPSILON, max_iters=100, threshold=0.0),
        "OTT": lambda: run(Cj, aj, bj).block_until_ready(),
    }
    row(rows, "1000 problems of n = 32, 100 iterations", in_turns(jobs, max(3, repeats // 3)), "OTT", 1.0)


def gradient(rows: list[dict[str, Any]], repeats: int) -> None:
    import jax
    import torch

    from pairframe.tiled import sinkhorn_value

    run = jax.jit(jax.value_and_grad(lambda C, a, b: ott_run(ott_solver(2000, 1e-6))(C, a, b).reg_ot_cost))
    for n, bar in ((20, 2.0), (100, 1.5), (1000, 1.0)):
        C, a, b, *_ = problem(n)
        Ct, at, bt = (torch.as_tensor(one) for one in (C, a, b))
        Ct.requires_grad_()
        Cj, aj, bj = (jax.numpy.asarray(one[0]) for one in (C, a, b))

        def ours(Ct: Any = Ct, at: Any = at, bt: Any = bt) -> Any:
            value = sinkhorn_value(Ct, at, bt, EPSILON, max_iters=2000, threshold=1e-6)
            return torch.autograd.grad(value.sum(), Ct)[0]

        def theirs(Cj: Any = Cj, aj: Any = aj, bj: Any = bj) -> Any:
            return run(Cj, aj, bj)[1].block_until_ready()

        apart = abs(ours()[0].numpy() - theirs()).max() * n
        assert apart < 1e-3, apart
        times = in_turns({"ours": ours, "OTT": theirs}, repeats if n < 1000 else 3)
        row(rows, f"value and gradient, n = {n}", times, "OTT", bar)


def geomloss(rows: list[dict[str, Any]], repeats: int) -> None:
    import torch
    from geomloss import SamplesLoss

    from pairframe.tiled import divergence

    # GeomLoss halves squared distances.
    loss = SamplesLoss("sinkhorn", p=2, blur=(EPSILON / 2) ** 0.5, backend="tensorized")
    for n in (20, 100, 1000):
        *_, x, y = problem(n)
        source, target = torch.as_tensor(x).requires_grad_(), torch.as_tensor(y)

        def with_gradient(value: Any, source: Any = source) -> tuple[Any, Any]:
            return value.detach(), torch.autograd.grad(value.sum(), source)[0]

        def ours(threshold: float = 1e-6, source: Any = source, target: Any = target) -> tuple[Any, Any]:
            settings = {"epsilon": EPSILON, "threshold": threshold, "max_iters": 5000}
            return with_gradient(divergence((source, target), **settings))

        def theirs(source: Any = source, target: Any = target) -> tuple[Any, Any]:
            return with_gradient(2.0 * loss(source, target))

        exact = ours(1e-12)
        times = in_turns({"ours": ours, "GeomLoss": theirs}, repeats if n < 1000 else 3)
        row(rows, f"divergence and gradient, points, n = {n}", times, "GeomLoss", 1.0)
        for name, found in (("ours", ours()), ("GeomLoss", theirs())):
            for what, value, wanted in zip(("value", "gradient"), found, exact, strict=True):
                rows[-1][f"{what}_error_{name}"] = float((value - wanted).abs().max() / wanted.abs().max())
        print(
            "    " + ", ".join(f"{name} {value:.1e}" for name, value in rows[-1].items() if "error" in name), flush=True
        )


def dimension(rows: list[dict[str, Any]], repeats: int) -> None:
    import torch

    from pairframe.tiled import sinkhorn

    *_, x, y = problem(300, dim=512)
    points = torch.as_tensor(x), torch.as_tensor(y)
    C = torch.cdist(*points) ** 2
    settings = {"epsilon": EPSILON * float(C.mean()), "max_iters": 100, "threshold": 0.0}
    jobs = {
        "ours": lambda: sinkhorn(points, **settings),
        "stored": lambda: sinkhorn(C, **settings),
        "made": lambda: sinkhorn(torch.cdist(*points) ** 2, **settings),
    }
    times = in_turns(jobs, repeats)
    row(rows, "points n = 300, d = 512, 100 iterations", times, "stored", 1.2)
    row(rows, "the same, the cost made by torch.cdist", times, "made", 1.2)
    # A blur that tells neighbours apart takes thousands of iterations, and the distances are computed once.
    small = {"epsilon": 0.1 * settings["epsilon"], "max_iters": 5000, "threshold": 1e-6}
    jobs = {"ours": lambda: sinkhorn(points, **small), "stored": lambda: sinkhorn(C, **small)}
    row(rows, "the same at a tenth of epsilon, to 1e-6", in_turns(jobs, max(5, repeats // 3)), "stored", 1.2)


def unbalanced(rows: list[dict[str, Any]], repeats: int) -> None:
    import numpy as np
    import ot
    import torch

    from pairframe.tiled import sinkhorn

    tau = 0.5
    for n in (20, 80, 300):
        C, a, b, *_ = problem(n)
        Ct, at, bt = (torch.as_tensor(one) for one in (C, a, b))

        def ours(Ct: Any = Ct, at: Any = at, bt: Any = bt) -> Any:
            out = sinkhorn(Ct, at, bt, EPSILON, tau, tau, max_iters=5000, threshold=1e-7)
            return out.transport_plan(Ct)

        def pot(method: str, C: Any = C, a: Any = a, b: Any = b) -> Any:
            settings = {"numItermax": 5000, "stopThr": 1e-7, "reg_type": "entropy"}
            return ot.unbalanced.sinkhorn_unbalanced(a[0], b[0], C[0], EPSILON, tau, method=method, **settings)

        apart = np.abs(ours()[0].numpy() - pot("sinkhorn")).sum()
        assert apart < 1e-4, apart
        jobs = {"ours": ours} | {
            f"POT {name}": (lambda name=name, pot=pot: pot(name)) for name in ("sinkhorn", "sinkhorn_stabilized")
        }
        times = in_turns(jobs, max(5, repeats // 2))
        best = min((name for name in jobs if name != "ours"), key=lambda name: times[f"{name} least"])
        times["POT"], times["POT least"] = times[best], times[f"{best} least"]
        row(rows, f"unbalanced to 1e-7, n = {n}", times, "POT", 1.0)


def masks(rows: list[dict[str, Any]], repeats: int) -> None:
    import numpy as np
    import ot

    import pairframe as pf

    rng = np.random.default_rng(0)
    yy, xx = np.mgrid[:12, :12]

    def disc() -> Any:
        (cy, cx), radius = rng.uniform(4.0, 8.0, 2), rng.uniform(2.0, 4.0)
        return (yy - cy) ** 2 + (xx - cx) ** 2 <= radius**2

    pairs = [(disc(), disc()) for _ in range(200)]
    config = pf.TransportConfig(penalty="kl", blur_um=2.0, reach_um=10.0)

    def theirs() -> None:
        for source, target in pairs:
            x, y = (np.argwhere(one).astype(float) for one in (source, target))
            M = ot.dist(x, y)
            ot.unbalanced.sinkhorn_unbalanced(
                np.ones(len(x)), np.ones(len(y)), M, 4.0, 100.0, method="sinkhorn", numItermax=2000, stopThr=1e-6
            )

    def ours() -> None:
        from pairframe.pipeline.self_problem import clear_self_cache

        clear_self_cache()
        assert all(one.status == "converged" for one in pf.compare_many(pairs, config))

    row(rows, "200 pairs of 12 x 12 masks", in_turns({"ours": ours, "POT": theirs}, max(3, repeats // 5)), "POT", 0.7)


def embryos(count: int, side: int) -> tuple[Any, Any]:
    """Pairs of soft ellipses (count, side, side), 0 outside."""
    import numpy as np

    rng = np.random.default_rng(0)
    yy, xx = np.mgrid[:side, :side] / side

    def one() -> Any:
        (cy, cx), (ry, rx), turn = rng.uniform(0.4, 0.6, 2), rng.uniform(0.12, 0.3, 2), rng.uniform(0, np.pi)
        u, v = np.cos(turn) * (xx - cx) + np.sin(turn) * (yy - cy), -np.sin(turn) * (xx - cx) + np.cos(turn) * (yy - cy)
        return np.clip(side / 20 * (1.0 - np.hypot(u / rx, v / ry)), 0.0, 1.0)

    return np.stack([one() for _ in range(count)]), np.stack([one() for _ in range(count)])


def image_job(pairs: int, jobs: int = 1) -> Callable[[], object]:
    import torch

    from pairframe.losses import ImageLoss, batch

    a, b = (torch.as_tensor(one) for one in embryos(pairs, SIDE))
    a.requires_grad_()
    loss = ImageLoss(blur=2.0, reach=50.0, jobs=jobs)

    def job() -> object:
        batch.forget()
        return torch.autograd.grad(loss(a, b), a)

    return job


def divergence_job(pairs: int) -> Callable[[], object]:
    import pairframe as pf
    from pairframe.parallel.threads import at_most
    from pairframe.pipeline.self_problem import clear_self_cache

    a, b = embryos(pairs, SIDE)
    config = pf.TransportConfig(penalty="kl", blur_um=2.0, reach_um=50.0, mass_mode="intensity")

    def job() -> None:
        clear_self_cache()
        with at_most(1):
            for source, target in zip(a, b, strict=True):
                pf.divergence(source, target, config)

    return job


def images(rows: list[dict[str, Any]], repeats: int) -> None:
    rounds = max(1, repeats // 4)
    many = f"ImageLoss, {PAIRS} pairs of {SIDE} x {SIDE}, {len(ALL_CORES)} processes"
    row(rows, many, json.loads(in_a_process("--all-cores", str(rounds))), "divergence", 0.8)
    times = in_turns({"ours": image_job(PAIRS), "divergence": divergence_job(PAIRS)}, rounds)
    row(rows, f"ImageLoss, {PAIRS} pairs of {SIDE} x {SIDE}, one core", times, "divergence", 0.8)
    megabytes = float(in_a_process("--memory"))
    rows.append(
        {"question": "ImageLoss, memory above imports", "mb": megabytes, "bar": 300.0, "met": megabytes <= 300.0}
    )
    print(
        f"ImageLoss, memory above imports: {megabytes:.0f} MB  bar 300 {'met' if megabytes <= 300.0 else 'MISSED'}",
        flush=True,
    )


def in_a_process(*arguments: str) -> str:
    """The last line that this script prints with these arguments."""
    bound = "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"
    free = {name: value for name, value in os.environ.items() if name not in bound}
    free["BENCHMARK_CORES"] = ",".join(map(str, ALL_CORES))
    command = [sys.executable, __file__, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=free)
    return done.stdout.splitlines()[-1]


def print_all_cores(rounds: int) -> None:
    """Our processes are idle while the loop runs, and the other way round."""
    os.sched_setaffinity(0, ALL_CORES)
    jobs = {"ours": image_job(PAIRS, len(ALL_CORES)), "divergence": divergence_job(PAIRS)}
    print(json.dumps(in_turns(jobs, rounds)))


def print_memory() -> None:
    from harness import peak_extra_mb_of

    image_job(1)()
    print(peak_extra_mb_of(lambda: image_job(PAIRS)()))


def finite(rows: list[dict[str, Any]], repeats: int) -> None:
    import torch

    from pairframe.losses import ImageLoss

    a, b = (torch.as_tensor(one) for one in embryos(1, 24))
    b = 1.2 * b
    direction = torch.rand(a.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for penalty in ("kl", "partial", "balanced"):
        loss = ImageLoss(1.5, 8.0, penalty=penalty, tol=1e-12, max_iterations=20_000)
        worst = 0.0
        for side in (0, 1):
            images = [a, b]
            leaf = images[side].clone().requires_grad_()
            move = direction * (leaf.detach() > 0.05)

            def at(t: float, images: Any = images, side: int = side, move: Any = move, loss: Any = loss) -> float:
                moved = [one + t * move if k == side else one for k, one in enumerate(images)]
                return float(loss(*moved))

            slope = float(
                (
                    torch.autograd.grad(loss(*(leaf if k == side else one for k, one in enumerate(images))), leaf)[0]
                    * move
                ).sum()
            )
            h = 1e-4
            wanted = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h)
            worst = max(worst, abs(slope - wanted) / abs(wanted))
        rows.append(
            {
                "question": f"gradient of ImageLoss, {penalty}",
                "relative_error": worst,
                "bar": 1e-6,
                "met": worst <= 1e-6,
            }
        )
        print(
            f"gradient of ImageLoss, {penalty:<9} relative error {worst:.1e}  bar 1e-6 {'met' if worst <= 1e-6 else 'MISSED'}",
            flush=True,
        )


QUESTIONS = {
    one.__name__: one for one in (iterations, batch, gradient, geomloss, dimension, unbalanced, masks, images, finite)
}


def main(repeats: int, only: list[str] | None, cores: int) -> None:
    bind(cores)
    warnings.simplefilter("ignore")
    import jax
    import torch

    from harness import write_json

    torch.set_num_threads(cores)
    jax.config.update("jax_enable_x64", True)
    rows: list[dict[str, Any]] = []
    for name, question in QUESTIONS.items():
        if not only or name in only:
            question(rows, repeats)
    write_json("tiled_small", {"cores": cores, "repeats": repeats, "rows": rows})


if __name__ == "__main__":
    if sys.argv[1:] == ["--memory"]:
        bind(1)
        print_memory()
    elif sys.argv[1:2] == ["--all-cores"]:
        print_all_cores(int(sys.argv[2]))
    else:
        parser = argparse.ArgumentParser()
        parser.add_argument("--repeats", type=int, default=15)
        parser.add_argument("--only", nargs="*", choices=sorted(QUESTIONS))
        parser.add_argument("--cores", type=int, default=1)
        main(**vars(parser.parse_args()))
