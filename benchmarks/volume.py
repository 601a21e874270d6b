"""Does a voxel cost as much as a pixel, and how large a volume can be compared?

    python benchmarks/volume.py [SIDE ...]          (default: 64 128)
    python benchmarks/volume.py --peers [SECONDS]   POT and OTT on the same volumes, side by side

Two bent tubes, one grown by a tenth, on a cube of that side, compared at the defaults (`partial`, blur 2 voxels): the whole
`compare`, with both self-problems, maps, books and certificate. Beside each, in turns, an image pair of the same kind with
as many pixels with mass. The ratio is the CPU time per voxel with mass over that per pixel with mass; CPU time, because
other work on the machine changes the wall time. Memory is the peak of a fresh process, above that after a small comparison.
With --peers, solves alone, without self-problems and maps. The peers get the same masses, cost, epsilon and `kl` relaxation (reach: half of the side) with their own stopping rules, up
to the largest side that they finish within SECONDS. The second of two calls is timed, so nothing is compiled in it. The mass
of each plan is printed: where it differs, it was not the same problem that was solved. Writes benchmarks/out/volume.json.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from functools import lru_cache
from time import perf_counter, process_time
from typing import Any

import numpy as np

import pairframe as pf
from harness import write_json
from pairframe.problem import KL, TransportProblem

FILL_RADIUS, PEER_SIDES = 0.185, (16, 24, 32, 48, 64)


def tubes(side: int) -> tuple[np.ndarray, np.ndarray]:
    """A bent tube and its successor, (side, side, side) bool; about 10 % of the cube."""
    return _tube(side, 0.10, FILL_RADIUS, 0.42), _tube(side, 0.13, 1.03 * FILL_RADIUS, 0.435)


def _tube(side: int, bend: float, radius: float, half_length: float) -> np.ndarray:
    z, y, x = np.meshgrid(*((np.arange(side) + 0.5) / side,) * 3, indexing="ij", sparse=True)
    along = (x - 0.5) / half_length
    from_axis = (y - 0.43 - bend * along**2) ** 2 + (z - 0.5 - 0.06 * np.sin(2.2 * along)) ** 2
    return (from_axis <= (radius * (1 - 0.2 * along)) ** 2) & (np.abs(along) <= 1)


def ribbons(n_px: int) -> tuple[np.ndarray, np.ndarray]:
    """The same as images: a section of the tubes with about `n_px` pixels with mass."""
    side = round(np.sqrt(n_px / 0.29))
    y, x = np.meshgrid(*((np.arange(side) + 0.5) / side,) * 2, indexing="ij", sparse=True)
    pair = []
    for bend, radius, half_length in ((0.10, FILL_RADIUS, 0.42), (0.13, 1.03 * FILL_RADIUS, 0.435)):
        along = (x - 0.5) / half_length
        inside = np.abs(y - 0.43 - bend * along**2) <= radius * (1 - 0.2 * along)
        pair.append(inside & (np.abs(along) <= 1))
    return pair[0], pair[1]


def measured(kind: str, size: int) -> dict[str, Any]:
    """One comparison in a fresh process."""
    words = [sys.executable, __file__, "--one", kind, str(size)]
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def one(kind: str, size: int) -> dict[str, Any]:
    source, target = tubes(size) if kind == "volume" else ribbons(size)
    config = pf.TransportConfig(volume=kind == "volume")
    small = (slice(None, None, 8),) * source.ndim
    pf.compare(source[small], target[small], config)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started, cpu = perf_counter(), process_time()
    result = pf.compare(source, target, config)
    return {
        "seconds": perf_counter() - started,
        "cpu_seconds": process_time() - cpu,
        "peak_mb": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024,
        "with_mass": (int(source.sum()) + int(target.sum())) // 2,
        "fill": float(source.mean()),
        "work_shape": result.transform.work_shape_hw,
        "iterations": result.iterations,
        "relative_gap": result.relative_gap,
        "status": str(result.status),
    }


def peers(side: int, name: str) -> dict[str, Any]:
    """One peer on the same `kl` problem, with its own seconds; the memory is the peak of both calls."""
    solved(8, name)  # imports
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    solved(side, name)  # compilation for this shape
    started = perf_counter()
    moved, with_mass = solved(side, name)
    return {
        "side": side,
        "seconds": perf_counter() - started,
        "peak_mb": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024,
        "mass": moved,
        "with_mass": with_mass,
    }


def solved(side: int, name: str) -> tuple[float, int]:
    """Mass of a peer's plan, and the voxels with mass of the source."""
    source, target = tubes(side)
    epsilon, relaxation = 4.0, (side / 2) ** 2
    if name == "pot":
        import ot

        x, y = (np.argwhere(mask).astype(float) for mask in (source, target))
        a, b = np.ones(len(x)), np.ones(len(y))
        cost = ot.dist(x, y)
        plan = ot.unbalanced.sinkhorn_stabilized_unbalanced(
            a, b, cost, epsilon, relaxation, reg_type="entropy", numItermax=20_000, stopThr=1e-8
        )
        moved = float(plan.sum())
    elif name == "ott":
        import jax

        jax.config.update("jax_enable_x64", True)
        from ott.geometry import grid
        from ott.problems.linear import linear_problem

        where = [np.arange(side, dtype=float)] * 3
        geometry = grid.Grid(x=where, epsilon=epsilon)
        tau = relaxation / (relaxation + epsilon)
        # With weights of 0, OTT's grid moves mass to voxels without any: 4 % of its plan at 12^3.
        weights = [np.where(mask.ravel(), 1.0, 1e-30) for mask in (source, target)]
        problem = linear_problem.LinearProblem(geometry, *weights, tau_a=tau, tau_b=tau)
        found = _ott_solver()(problem)
        moved = float(np.asarray(found.marginal(0)).sum())
    else:
        masses = (source.astype(np.float64), target.astype(np.float64))
        problem = TransportProblem(*masses, epsilon, KL(relaxation), KL(relaxation), reference="counting")
        moved = float(pf.solve(problem, "grid").marginal_a.sum())
    return moved, int(source.sum())


@lru_cache
def _ott_solver() -> Any:
    import jax
    from ott.solvers.linear import sinkhorn

    return jax.jit(sinkhorn.Sinkhorn(threshold=1e-6, max_iterations=20_000))


def run_peers(seconds: float) -> list[dict[str, Any]]:
    found = []
    for name in ("pot", "ott", "pairframe"):
        for side in PEER_SIDES:
            words = [sys.executable, __file__, "--peer", name, str(side)]
            try:
                done = subprocess.run(words, check=True, capture_output=True, text=True, timeout=seconds)
            except subprocess.TimeoutExpired:
                print(f"{name:10} {side:4}^3  more than {seconds:g} s")
                found.append({"name": name, "side": side, "ended": f"more than {seconds:g} s"})
                break
            except subprocess.CalledProcessError as error:
                print(f"{name:10} {side:4}^3  failed: {error.stderr.splitlines()[-1][:100]}")
                found.append({"name": name, "side": side, "ended": error.stderr.splitlines()[-1][:200]})
                break
            answer = json.loads(done.stdout.splitlines()[-1])
            print(
                f"{name:10} {side:4}^3  {answer['seconds']:8.2f} s  {answer['peak_mb']:8.0f} MB  plan mass {answer['mass']:.2f}"
            )
            found.append({"name": name, **answer})
    return found


def main(sides: list[int]) -> None:
    rows = []
    for side in sides:
        volume = measured("volume", side)
        image = measured("image", volume["with_mass"])
        ratio = (volume["cpu_seconds"] / volume["with_mass"]) / (image["cpu_seconds"] / image["with_mass"])
        rows.append({"side": side, "volume": volume, "image": image, "ratio": ratio})
        print(
            f"{side:4}^3  fill {100 * volume['fill']:.1f} %  {volume['cpu_seconds']:7.1f} CPU s ({volume['seconds']:.1f} s)  "
            f"{volume['peak_mb']:7.0f} MB  {volume['iterations']} iterations, gap {volume['relative_gap']:.1e}, "
            f"{volume['status']}; image {image['cpu_seconds']:.1f} CPU s, {image['iterations']} iterations; ratio {ratio:.2f}",
            flush=True,
        )
    write_json("volume", {"rows": rows})


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--one", kind, size]:
            print(json.dumps(one(kind, int(size))))
        case ["--peer", name, size]:
            print(json.dumps(peers(int(size), name)))
        case ["--peers", *seconds]:
            write_json("volume_peers", {"rows": run_peers(float(seconds[0]) if seconds else 60.0)})
        case sizes:
            main([int(size) for size in sizes] or [64, 128])
