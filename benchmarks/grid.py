"""How fast and how small is a full-resolution, certified `compare` beside the peers?

    python benchmarks/grid.py [--quick]

Two synthetic embryos of about 13 k and 15 k pixels on 256 x 576, pad 16, tol 1e-6; "ours" is the whole `compare`, with
maps, debiasing and both self-problems, compiled. POT runs 1000 iterations at s = 4, a 16 times coarser problem that it
leaves unconverged (or cannot run: then its time is that of a setting it can); OTT's `Grid` runs one log-domain softmin. Every contestant lives in a process of its own and they take
turns, so that a noisy moment hits all; figures are medians. Writes benchmarks/out/grid.json.
"""

from __future__ import annotations

import sys
from statistics import median
from time import perf_counter

from harness import Contestant, peak_extra_mb_of, serve, summary, write_json

COORD_SCALE = 1 / 576
SETTINGS = {
    "default (partial, blur 2 px, reach of the objects)": {},
    "kl, blur 2 px, reach 50 px": {"penalty": "kl", "reach_um": 50.0},
    "kl, eps 1e-4, lam 10": {"penalty": "kl", "epsilon": 1e-4, "marginal_relaxation": 10.0, "coord_scale": COORD_SCALE},
    "kl, eps 1e-5, lam 10": {"penalty": "kl", "epsilon": 1e-5, "marginal_relaxation": 10.0, "coord_scale": COORD_SCALE},
}
BARS = dict(zip(SETTINGS, (1.2, 1.0, 1.0, 2.0), strict=True))
SOFTMIN_BARS = {1e-4: 1 / 40, 1e-5: 1 / 50}
SIZES = (128, 256, 512, 1024, 2048)
N_PAIRS = 64


def embryos(scale: float = 1.0):
    from pairframe.testing import embryo

    shape = (round(256 * scale), round(576 * scale))
    return embryo(shape, growth=scale), embryo(
        shape, length_px=380, thickness_px=28, bend=-0.3, yolk_px=38, growth=scale
    )


# --- contestants: one job each, answering "seconds and what came out" ---------------------------


def ours(setting: dict) -> dict:
    import pairframe as pf
    from pairframe.pipeline.self_problem import clear_self_cache

    a, b = embryos()
    config = pf.TransportConfig(**setting)
    clear_self_cache()  # nothing is left over from the run before
    start = perf_counter()
    result = pf.compare(a, b, config)
    return {
        "seconds": perf_counter() - start,
        "status": str(result.status),
        "iterations": result.iterations,
        "relative_gap": result.relative_gap,
        "marginal_error": result.marginal_error,
    }


def pot(setting: dict) -> dict:
    """1000 iterations of POT's plain solver on the s = 4 work grid.

    Where POT cannot run the setting itself (it underflows and stops early), the time is that of 1000 iterations at
    eps 1e-4: an iteration costs the same at any epsilon. `runs_here` says whether the setting itself went through.
    """
    import warnings

    import numpy as np
    import ot

    import pairframe as pf

    a, b = embryos()
    frame = pf.GridTransform.from_pair(a, b, s=4, px_size_um=1.0)
    mass_a, mass_b = frame.to_work(a), frame.to_work(b)
    scale = np.sqrt(mass_a.sum() * mass_b.sum())
    x, y = np.argwhere(mass_a > 0), np.argwhere(mass_b > 0)
    pa, pb = mass_a[mass_a > 0] / scale, mass_b[mass_b > 0] / scale

    def iterate(eps: float, lam: float, coord: float) -> tuple[float, bool]:
        start = perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cost = ot.dist(x * coord, y * coord)
            plan, log = ot.unbalanced.sinkhorn_unbalanced(
                pa, pb, cost, eps, lam, method="sinkhorn", reg_type="kl", numItermax=1000, stopThr=0.0, log=True
            )
        whole = bool(np.isfinite(plan).all()) and plan.sum() > 0 and len(log["err"]) > 1
        return perf_counter() - start, whole

    coord = setting.get("coord_scale", 1.0)
    eps, lam = setting.get("epsilon", (2 / 4) ** 2), setting.get("marginal_relaxation", (50 / 4) ** 2)
    seconds, whole = iterate(eps, lam, coord)
    if not whole:
        seconds, _ = iterate(1e-4, 10.0, COORD_SCALE)
    return {"seconds": seconds, "points": [len(x), len(y)], "runs_here": whole}


def our_softmin(setting: dict) -> dict:
    import numpy as np

    from pairframe.engines.grid.kernel import SupportKernel

    a, b, epsilon = _softmin_problem(setting)
    kernel = SupportKernel(a > 0, b > 0, epsilon)
    potential = np.zeros(int((a > 0).sum()))
    kernel.log_sum(potential)
    start = perf_counter()
    for _ in range(20):
        kernel.log_sum(potential)
    return {"seconds": (perf_counter() - start) / 20, "shape": list(a.shape)}


def ott_softmin(setting: dict) -> dict:
    import jax
    import numpy as np

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp
    from ott.geometry.grid import Grid

    a, _, epsilon = _softmin_problem(setting)
    axes = [jnp.arange(n, dtype=jnp.float64) for n in a.shape]
    geometry = Grid(x=axes, epsilon=epsilon)
    zeros = jnp.zeros(a.size)
    apply = jax.jit(lambda f, g: geometry.apply_lse_kernel(f, g, epsilon, axis=0)[0])
    np.asarray(apply(zeros, zeros))
    start = perf_counter()
    for _ in range(3):
        np.asarray(apply(zeros, zeros))
    return {"seconds": (perf_counter() - start) / 3, "shape": list(a.shape)}


def _softmin_problem(setting: dict):
    import pairframe as pf

    a, b = embryos()
    frame = pf.GridTransform.from_pair(a, b, s=1, px_size_um=1.0)
    return frame.to_work(a), frame.to_work(b), setting["epsilon"] / COORD_SCALE**2


def memory(setting: dict) -> dict:
    """Peak memory of one compare above the imports, compiled code on disk."""
    import numpy as np

    import pairframe as pf

    a, b = embryos()
    tiny = np.zeros((24, 24), bool)
    tiny[8:12, 8:12] = True
    pf.compare(tiny, np.roll(tiny, 1))  # imports, and the compiled code from its cache
    config = pf.TransportConfig(**setting)
    return {"mb": peak_extra_mb_of(lambda: pf.compare(a, b, config))}


def scaling(setting: dict) -> dict:
    import pairframe as pf
    from pairframe.pipeline.self_problem import clear_self_cache
    from pairframe.testing import tiny_and_huge_embryo

    n = setting["side"]
    a, b = tiny_and_huge_embryo((n, n), area_ratio=2.0)
    clear_self_cache()
    start = perf_counter()
    result = pf.compare(a, b)
    return {"seconds": perf_counter() - start, "iterations": result.iterations, "status": str(result.status)}


def many(setting: dict) -> dict:
    import pairframe as pf
    from pairframe.pipeline.self_problem import clear_self_cache
    from pairframe.testing import embryo

    pairs = [
        (embryo(bend=0.6 - 0.01 * k), embryo(bend=0.55 - 0.01 * k, length_px=340, thickness_px=27))
        for k in range(N_PAIRS)
    ]
    clear_self_cache()
    start = perf_counter()
    results = pf.compare_many(pairs, jobs=setting["jobs"])
    return {"seconds": perf_counter() - start, "converged": sum(r.status == "converged" for r in results)}


JOBS = {job.__name__: job for job in (ours, pot, our_softmin, ott_softmin, memory, scaling, many)}


def duel(name_a: str, name_b: str, settings: dict[str, dict], repeats: int) -> dict:
    """Two contestants in turns over all settings; medians and their ratio."""
    rows = {}
    with Contestant(__file__, name_a) as first, Contestant(__file__, name_b) as second:
        for label, setting in settings.items():
            first(**setting), second(**setting)  # compile, load, warm up
            answers: dict[str, list[dict]] = {name_a: [], name_b: []}
            for _ in range(repeats):
                answers[name_a].append(first(**setting))
                answers[name_b].append(second(**setting))
            rows[label] = {name: summary(found) for name, found in answers.items()}
            rows[label]["ratio"] = rows[label][name_a]["median_s"] / rows[label][name_b]["median_s"]
    return rows


def main(quick: bool) -> None:
    import numpy as np

    repeats = 3 if quick else 7
    report: dict = {"repeats": repeats}

    report["compare"] = duel("ours", "pot", SETTINGS, repeats)
    print(
        f"{'whole compare at s = 1 / POT, 1000 iterations at s = 4':<60} {'ours s':>8} {'POT s':>8} {'ratio':>7} {'bar':>5}"
    )
    for label, row in report["compare"].items():
        last = row["ours"]["last"]
        print(
            f"  {label:<58} {row['ours']['median_s']:>8.3f} {row['pot']['median_s']:>8.3f} {row['ratio']:>7.2f} "
            f"{BARS[label]:>5.1f}   {last['status']}, {last['iterations']} softmins, gap {last['relative_gap']:.0e}, "
            f"marginals {last['marginal_error']:.0e}; POT {'ran' if row['pot']['last']['runs_here'] else 'breaks down here'}"
        )

    settings = {f"eps {eps:g}": {"epsilon": eps} for eps in SOFTMIN_BARS}
    report["softmin"] = duel("our_softmin", "ott_softmin", settings, repeats)
    print(f"{'one softmin / OTT Grid, log domain, float64':<60} {'ours ms':>8} {'OTT ms':>8} {'1/ratio':>7} {'bar':>5}")
    for (label, row), bar in zip(report["softmin"].items(), SOFTMIN_BARS.values(), strict=True):
        mine, theirs = 1e3 * row["our_softmin"]["median_s"], 1e3 * row["ott_softmin"]["median_s"]
        print(f"  {label:<58} {mine:>8.2f} {theirs:>8.1f} {theirs / mine:>7.0f} {1 / bar:>5.0f}")

    report["memory_mb"] = {}
    for label, setting in SETTINGS.items():
        with Contestant(__file__, "memory") as contestant:
            report["memory_mb"][label] = contestant(**setting)["mb"]
    print("peak memory above imports, MB (bar 100):", {k: round(v, 1) for k, v in report["memory_mb"].items()})

    sides = SIZES[:4] if quick else SIZES
    with Contestant(__file__, "scaling") as contestant:
        report["scaling"] = {
            side: summary([contestant(side=side) for _ in range(2 if side > 512 else 3)]) for side in sides
        }
    seconds = [report["scaling"][side]["median_s"] for side in sides]
    report["exponent"] = float(np.polyfit(np.log(np.array(sides) ** 2), np.log(seconds), 1)[0])
    for side in sides:
        row = report["scaling"][side]
        print(
            f"  {side} x {side}: {row['median_s']:.3f} s, {row['last']['iterations']} softmins, {row['last']['status']}"
        )
    print(f"exponent of time in pixels (bar 1.2): {report['exponent']:.2f}")

    times: dict[int, list[float]] = {1: [], 2: []}
    # One thread in this process, so that one job is one core.
    with Contestant(__file__, "many", NUMBA_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1") as contestant:
        for _ in range(1 if quick else 3):
            for jobs in times:
                times[jobs].append(contestant(jobs=jobs)["seconds"])
    report["compare_many_s"] = times
    report["throughput_ratio"] = median(times[1]) / median(times[2])
    print(f"compare_many, {N_PAIRS} pairs, 2 cores / 1 core (bar 1.7): {report['throughput_ratio']:.2f}  {times}")
    write_json("grid", report)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(JOBS[sys.argv[2]])
    else:
        main("--quick" in sys.argv)
