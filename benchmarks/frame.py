"""How much does the pair frame cost beside one plain block sum of the same canvas?

    python benchmarks/frame.py

`from_pair` + `to_work` of both masks + lift of one map, over numpy's own block sum of one canvas; float64 densities,
interleaved, medians. Both objects reach into two corners of the canvas, so nothing is cropped away: the worst case.

Memory is the peak of a fresh process above the two inputs. `peak MB` counts everything, the lifted map that is handed
back included (which alone is as large as one input); `extra MB` is what is needed beside that map: one map on the work
grid (1/16 of an input) and strips. Writes benchmarks/out/frame.json.
"""

from __future__ import annotations

import subprocess
import sys
from statistics import median
from time import perf_counter

import numpy as np

from harness import peak_extra_mb_of, write_json
from pairframe import GridTransform
from pairframe.testing import tiny_and_huge_embryo

S, PAD = 4, 16
CANVASES = ((256, 576), (4096, 4096))
REPEATS = 15


def densities(shape_hw: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Two embryos with a pixel in the first and in the last corner: their crop is the whole canvas."""
    pair = [mask.astype(float) for mask in tiny_and_huge_embryo(shape_hw)]
    for density in pair:
        density[0, 0] = density[-1, -1] = 1.0
    return pair[0], pair[1]


def whole_job(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    transform = GridTransform.from_pair(a, b, S, PAD)
    transform.to_work(a)
    return transform.rasterize_to_canon(transform.to_work(b))


def numpy_block_sum(a: np.ndarray) -> np.ndarray:
    h, w = a.shape
    return a.reshape(h // S, S, w // S, S).sum(axis=(1, 3))


def time_of(function, *arguments) -> float:
    start = perf_counter()
    function(*arguments)
    return perf_counter() - start


def peak_mb(shape_hw: tuple[int, int]) -> float:
    """Peak resident memory of the whole job above the two inputs, result included, in a process of its own."""
    out = subprocess.run(
        [sys.executable, __file__, "--memory", *map(str, shape_hw)], capture_output=True, text=True, check=True
    )
    return float(out.stdout)


def print_peak_mb(shape_hw: tuple[int, int]) -> None:
    a, b = densities(shape_hw)
    small = densities((256, 576))
    whole_job(*small)  # imports and first-call costs are not the job's
    print(peak_extra_mb_of(lambda: whole_job(a, b)))


def main() -> None:
    rows = []
    print(
        f"{'canvas':>12} {'ours ms':>9} {'block sum ms':>13} {'ratio':>6} {'peak MB':>8} {'extra MB':>9} {'input MB':>9}"
    )
    for shape_hw in CANVASES:
        a, b = densities(shape_hw)
        whole_job(a, b)
        ours, plain = [], []
        for _ in range(REPEATS):
            plain.append(time_of(numpy_block_sum, b))
            ours.append(time_of(whole_job, a, b))
        whole_mb, map_mb = peak_mb(shape_hw), a.nbytes / 2**20  # a lifted map is as large as an input
        row = {
            "canvas_hw": shape_hw,
            "ours_ms": 1e3 * median(ours),
            "numpy_block_sum_ms": 1e3 * median(plain),
            "ratio": median(ours) / median(plain),
            "peak_mb_result_included": whole_mb,
            "peak_extra_mb_beside_result": max(0.0, whole_mb - map_mb),
            "input_mb": a.nbytes / 2**20,
        }
        rows.append(row)
        print(
            f"{shape_hw[0]:>6} x {shape_hw[1]:<4}{row['ours_ms']:>9.2f} {row['numpy_block_sum_ms']:>13.2f}"
            f" {row['ratio']:>6.2f} {row['peak_mb_result_included']:>8.1f} {row['peak_extra_mb_beside_result']:>9.1f}"
            f" {row['input_mb']:>9.1f}"
        )
    write_json("frame", {"s": S, "pad": PAD, "repeats": REPEATS, "rows": rows})


if __name__ == "__main__":
    if sys.argv[1:2] == ["--memory"]:
        print_peak_mb((int(sys.argv[2]), int(sys.argv[3])))
    else:
        main()
