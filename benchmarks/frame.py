"""How much does the pair frame cost beside one plain block sum of the same canvas?

    python benchmarks/frame.py

`from_pair` + `to_work` of both masks + lift of one map, over numpy's own block sum of one canvas; float64 densities,
interleaved, medians. Peak memory is that of a fresh process, above the inputs. Writes benchmarks/out/frame.json.
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
    tiny, huge = tiny_and_huge_embryo(shape_hw)
    return tiny.astype(float), huge.astype(float)


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


def peak_extra_mb(shape_hw: tuple[int, int]) -> float:
    """Peak resident memory of the whole job above the two inputs, in a process of its own."""
    out = subprocess.run(
        [sys.executable, __file__, "--memory", *map(str, shape_hw)], capture_output=True, text=True, check=True
    )
    return float(out.stdout)


def print_peak_extra_mb(shape_hw: tuple[int, int]) -> None:
    a, b = densities(shape_hw)
    small = densities((256, 576))
    whole_job(*small)  # imports and first-call costs are not the job's
    print(peak_extra_mb_of(lambda: whole_job(a, b)))


def main() -> None:
    rows = []
    print(f"{'canvas':>12} {'ours ms':>9} {'block sum ms':>13} {'ratio':>6} {'extra MB':>9} {'input MB':>9}")
    for shape_hw in CANVASES:
        a, b = densities(shape_hw)
        whole_job(a, b)
        ours, plain = [], []
        for _ in range(REPEATS):
            plain.append(time_of(numpy_block_sum, b))
            ours.append(time_of(whole_job, a, b))
        row = {
            "canvas_hw": shape_hw,
            "ours_ms": 1e3 * median(ours),
            "numpy_block_sum_ms": 1e3 * median(plain),
            "ratio": median(ours) / median(plain),
            "peak_extra_mb": peak_extra_mb(shape_hw),
            "input_mb": a.nbytes / 2**20,
        }
        rows.append(row)
        print(
            f"{shape_hw[0]:>6} x {shape_hw[1]:<4}{row['ours_ms']:>9.2f} {row['numpy_block_sum_ms']:>13.2f}"
            f" {row['ratio']:>6.2f} {row['peak_extra_mb']:>9.1f} {row['input_mb']:>9.1f}"
        )
    write_json("frame", {"s": S, "pad": PAD, "repeats": REPEATS, "rows": rows})


if __name__ == "__main__":
    if sys.argv[1:2] == ["--memory"]:
        print_peak_extra_mb((int(sys.argv[2]), int(sys.argv[3])))
    else:
        main()
