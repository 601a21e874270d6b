"""What does a pair of a series gain when it starts from the pair before it?

    python benchmarks/series.py

Synthetic embryos on three canvases, one that grows in 10 steps and one in 29: each transition is compared alone and with ``init`` from the
one before it, in turns, on one thread; masks are read and self-problems solved before the clock, because both ways share them. The least of
seven times of each pair, and the mean over nine pairs. Writes benchmarks/out/series.json.
"""

from __future__ import annotations

from itertools import pairwise
from time import perf_counter

import numpy as np

import pairframe as pf
from harness import write_json
from pairframe.parallel.threads import at_most
from pairframe.testing import growing_embryo

SIZES = {"small": (96, 216), "middle": (160, 360), "large": (256, 576)}
REPEATS = 7


def measure(shape_hw: tuple[int, int], n_steps: int) -> dict[str, float]:
    frames = [pf.Mask.from_array(mask) for mask in growing_embryo(n_steps + 1, shape_hw=shape_hw)[:11]]
    best_s: dict[str, list[float]] = {"alone": [], "started": []}
    softmins: dict[str, list[int]] = {"alone": [], "started": []}
    before = pf.compare(frames[0], frames[1])
    for source, target in pairwise(frames[1:]):
        seconds: dict[str, list[float]] = {"alone": [], "started": []}
        found = pf.compare(source, target)
        for _ in range(REPEATS):
            for way, init in (("alone", None), ("started", before)):
                began = perf_counter()
                found = pf.compare(source, target, init=init)
                seconds[way].append(perf_counter() - began)
                if len(seconds[way]) == REPEATS:
                    softmins[way].append(found.iterations)
        before = found
        for way, times in seconds.items():
            best_s[way].append(min(times))
    return {f"{way}_ms": 1e3 * float(np.mean(times)) for way, times in best_s.items()} | {
        f"{way}_softmins": float(np.mean(counts)) for way, counts in softmins.items()
    }


def main() -> None:
    rows = []
    with at_most(1):
        for name, shape_hw in SIZES.items():
            for n_steps in (10, 29):
                row = measure(shape_hw, n_steps)
                rows.append({"canvas": name, "steps": n_steps, **row})
                print(
                    f"{name} {shape_hw[0]} x {shape_hw[1]}, grows in {n_steps} steps: alone {row['alone_ms']:.1f} ms, "
                    f"{row['alone_softmins']:.1f} softmins at full resolution; started from the pair before "
                    f"{row['started_ms']:.1f} ms, {row['started_softmins']:.1f}; ratio {row['alone_ms'] / row['started_ms']:.2f}"
                )
    write_json("series", {"rows": rows})


if __name__ == "__main__":
    main()
