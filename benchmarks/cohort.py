"""What does a cohort cost per pair, compared with a loop and with POT, and does memory stay flat?

    python benchmarks/cohort.py [--pairs N] [--runs R]

N (1000) synthetic pairs of mixed sizes (embryos on three canvases, series of ten transitions), end to end with `run_cohort` and two
workers: reading, solving, maps and table on disk, no report. Against two loops in one process with one thread on the same files (every
fourth series of each size, scaled up by the pairs of that size): `compare` alone, which keeps nothing; and `compare` with its maps and rows
written, which is the same work. And against POT at s = 2 on ten sampled pairs: product reference, every pixel, 2000 iterations or
marginals that change by less than 1e-6; cut off after a minute, which then counts as a minute. Memory is the resident size of the
workers at a tenth of the run and at its end. Loops and R (3) runs take turns, and medians are compared: this way a
slow minute of the machine falls on both. Writes benchmarks/out/cohort.json.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from harness import Contestant, serve, write_json

SIZES = {"small": (96, 216), "middle": (160, 360), "large": (256, 576)}
JOBS = 2
EVERY = 4  # of the series are in the loops, spread over the cohort: they differ in pace, and so in what they cost
LIMIT_S = 60.0


def write_cohort(folder: Path, n_pairs: int) -> dict[str, int]:
    """Series of eleven frames, sizes in turns; pairs by size."""
    import pairframe as pf
    from pairframe.testing import growing_embryo

    counts = dict.fromkeys(SIZES, 0)
    for number in range(-(-n_pairs // 10)):
        size = list(SIZES)[number % len(SIZES)]
        n = min(10, n_pairs - 10 * number)
        series = folder / f"{size}-{number:04d}"
        series.mkdir(parents=True)
        # Each series grows at a pace of its own.
        frames = growing_embryo(11 + number // 3 % 20, shape_hw=SIZES[size])
        for t, mask in enumerate(frames[: n + 1]):
            pf.write_mask(pf.Mask.from_array(mask), series / f"t{t:02d}.png")
        counts[size] += n
    return counts


def child_memory_mb() -> list[float]:
    """Resident size of this process's workers."""
    pids = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    found = []
    for pid in pids:
        status = Path(f"/proc/{pid}/status").read_text()
        if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
            found.append(int(status.split("VmRSS:")[1].split()[0]) / 1024)
    return found


def whole_run(folder: Path, out: Path, n_pairs: int) -> dict[str, Any]:
    from pairframe.cohort import run_cohort
    from pairframe.cohort.run.progress import CohortProgress

    memory: dict[str, list[float]] = {}

    def watch(progress: CohortProgress) -> None:
        done = progress.done + progress.failed
        if done >= n_pairs // 10 and "early" not in memory:
            memory["early"] = child_memory_mb()
        if done >= 0.97 * n_pairs and "late" not in memory:
            memory["late"] = child_memory_mb()

    before, began = os.times(), perf_counter()
    summary = run_cohort(folder, out, jobs=JOBS, progress=watch)
    seconds, after = perf_counter() - began, os.times()
    assert (summary.done, summary.failed, summary.uncertified) == (n_pairs, 0, 0), summary
    return {
        "seconds": seconds,
        "memory_mb": memory,
        "workers_user_s": after.children_user - before.children_user,
        "workers_system_s": after.children_system - before.children_system,  # mostly the file system, making files
    }


def loop(setting: dict[str, Any]) -> dict[str, Any]:
    """One series after the other, one thread; the first is done twice, and its first time not counted."""
    from itertools import pairwise

    import pairframe as pf
    from pairframe.parallel.threads import at_most
    from pairframe.pipeline.self_problem import clear_self_cache
    from pairframe.results import ResultStore

    store = ResultStore(setting["out"])
    series = [Path(name) for name in setting["series"]]
    seconds, pairs = [], []
    for folder in [series[0], *series]:
        clear_self_cache()
        frames = sorted(folder.glob("*.png"))
        began = perf_counter()
        with at_most(1):
            rows = []
            for source, target in pairwise(frames):
                result = pf.compare(source, target)
                if setting["keep"]:
                    rows.append(store.write_maps(result, f"{folder.name} {source.stem}"))
            store.commit(rows)
        seconds.append(perf_counter() - began)
        pairs.append(len(frames) - 1)
    return {"seconds_per_pair": sum(seconds[1:]) / sum(pairs[1:])}


def pot(setting: dict[str, Any]) -> dict[str, Any]:
    """Seconds of POT's unbalanced Sinkhorn on the pixels of one pair at s = 2, and of ours at s = 1 on the same pair."""
    import numpy as np
    import ot

    import pairframe as pf
    from pairframe.parallel.threads import at_most

    source, target = (pf.read_mask(name).values for name in setting["pair"])
    frame = pf.GridTransform.from_pair(source, target, s=2, px_size_um=1.0)
    masses = [frame.to_work(mask) for mask in (source, target)]
    points = [np.argwhere(mass > 0).astype(float) for mass in masses]
    a, b = (mass[mass > 0] for mass in masses)
    scale = np.sqrt(a.sum() * b.sum())
    cost = ot.dist(points[0], points[1])
    with at_most(1):
        pf.compare(source, target)
        began = perf_counter()
        pf.compare(source, target)
        ours = perf_counter() - began
    began = perf_counter()
    ot.unbalanced.sinkhorn_unbalanced(
        a / scale, b / scale, cost, reg=1.0, reg_m=625.0, reg_type="kl", method="sinkhorn_stabilized",
        numItermax=2000, stopThr=1e-6,
    )  # fmt: skip
    return {"seconds": perf_counter() - began, "pairframe_s": ours, "points": [len(p) for p in points]}


def spread(seconds: list[float]) -> str:
    return f"{median(seconds):.1f} s ({min(seconds):.1f} to {max(seconds):.1f}, {len(seconds)} times)"


def main(n_pairs: int, n_runs: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "masks"
        counts = write_cohort(folder, n_pairs)
        runs: list[dict[str, Any]] = []
        loops_s: dict[bool, list[float]] = {False: [], True: []}
        with Contestant(__file__, "loop", NUMBA_NUM_THREADS="1", OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1") as one:
            for turn in range(n_runs + 1):
                for keep in (False, True):
                    setting = {"out": f"{name}/loop{turn}", "keep": keep}
                    series = {size: [str(p) for p in sorted(folder.glob(f"{size}-*"))[::EVERY]] for size in counts}
                    seconds = [
                        n * one(series=series[size], **setting)["seconds_per_pair"] for size, n in counts.items() if n
                    ]
                    loops_s[keep].append(sum(seconds))
                if turn < n_runs:
                    runs.append(whole_run(folder, Path(name) / f"out{turn}", n_pairs))
        run_s = median(run["seconds"] for run in runs)
        loop_s = {keep: median(seconds) for keep, seconds in loops_s.items()}
        series = sorted(folder.iterdir())
        pairs = [sorted(series[k * len(series) // 10].glob("*.png"))[:2] for k in range(min(10, len(series)))]
        rows = []
        for pair in pairs:
            with Contestant(__file__, "pot") as peer:
                answer = peer.ask_within(LIMIT_S, pair=[str(path) for path in pair])
            rows.append(answer or {"seconds": LIMIT_S, "cut_off": True})
    pot_per_pair = sum(row["seconds"] for row in rows) / len(rows)
    memory_mb = [[max(run["memory_mb"].get(when) or [0.0]) for when in ("early", "late")] for run in runs]
    early, late = max(memory_mb, key=lambda pair: pair[1] / max(pair[0], 1.0))
    report = {
        "pairs": counts,
        "jobs": JOBS,
        "run_s": run_s,
        "runs_s": [run["seconds"] for run in runs],
        "workers_user_s": [run["workers_user_s"] for run in runs],
        "workers_system_s": [run["workers_system_s"] for run in runs],
        "loops_of_compare_s": loops_s[False],
        "loops_that_keep_s": loops_s[True],
        "pairs_per_s": n_pairs / run_s,
        "loop_of_compare_s": loop_s[False],
        "loop_that_keeps_s": loop_s[True],
        "ratio_to_loop": loop_s[False] / run_s,
        "ratio_to_loop_that_keeps": loop_s[True] / run_s,
        "pot_s_per_pair": pot_per_pair,
        "pot_rows": rows,
        "ratio_to_pot": pot_per_pair * n_pairs / run_s,
        "memory_mb": memory_mb,
    }
    print(f"{n_pairs} pairs with {JOBS} workers: {spread(report['runs_s'])}, {n_pairs / run_s:.2f} pairs/s")
    for part in ("user", "system"):
        print(f"workers, {part} time: {spread(report[f'workers_{part}_s'])}")
    for words, ratio, seconds in (
        ("loop of compare, one core, nothing kept", "ratio_to_loop", loops_s[False]),
        ("the same with maps and rows written", "ratio_to_loop_that_keeps", loops_s[True]),
    ):
        print(f"{words}: {spread(seconds)}; ratio {report[ratio]:.2f}")
    print(
        f"POT at s = 2: {pot_per_pair:.2f} s per pair on {len(rows)} pairs, {sum('cut_off' in row for row in rows)} cut off; ratio {report['ratio_to_pot']:.0f}"
    )
    print(
        f"largest worker: {early:.0f} MB at a tenth of the run, {late:.0f} MB at its end, in the run where it grows most"
    )
    write_json("cohort", report)


if __name__ == "__main__":
    import sys

    if sys.argv[1:2] == ["--serve"]:
        serve({"loop": loop, "pot": pot}[sys.argv[2]])
    else:
        parser = argparse.ArgumentParser()
        parser.add_argument("--pairs", type=int, default=1000)
        parser.add_argument("--runs", type=int, default=3)
        arguments = parser.parse_args()
        main(arguments.pairs, arguments.runs)
