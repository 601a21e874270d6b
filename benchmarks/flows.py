"""How much longer than the comparison does its flow table take, and how much memory do both need?

    python benchmarks/flows.py [--quick] [--turns N] [--penalty NAME]

A crowded scene of 2048 x 2048 px with about 5000 labels. Comparison and table take turns in one process; the ratio of their
times and the number of kernel applications count. The memory in all is that of this process with both, the labels and all
imports; that of the table alone is of a process which loads the result and reads the flows. ``--penalty kl`` is the comparison that is solved soonest, and so the strictest peer; the table takes as long.
Writes benchmarks/out/flows.json.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np

import pairframe as pf
from harness import write_json
from pairframe.pipeline.self_problem import clear_self_cache
from pairframe.regions.flow_table import flows_of
from pairframe.testing import CellScene, cell_scene

MOST_TIMES, MOST_GB = 2.0, 2.0


def scene_of(quick: bool) -> CellScene:
    return cell_scene(0, n_side=20 if quick else 72, pitch_px=28, event_share=0.2)


def peak_gb() -> float:
    """Of this process (Linux), in units of 1e9 bytes; `ru_maxrss` would be inherited from the parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024 / 1e9


def table_of_stored(folder: str, quick: bool) -> None:
    """Print the peak memory, GB, of loading a result and reading its flows."""
    scene = scene_of(quick)
    flows_of(pf.load(folder), scene.source, scene.target)
    print(peak_gb())


def memory_of_table(result: pf.TransportResult, quick: bool) -> float:
    with tempfile.TemporaryDirectory() as folder:
        result.save(Path(folder) / "kept")
        command = [sys.executable, __file__, "--table", f"{folder}/kept", *(["--quick"] if quick else [])]
        return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


def main(quick: bool, turns: int, penalty: str) -> None:
    scene = scene_of(quick)
    source, target = scene.source > 0, scene.target > 0
    n_labels = (int(scene.source.max()), int(scene.target.max()))
    config = pf.TransportConfig(reach_um=16.0, penalty=penalty)
    pf.compare(source[:64, :64], target[:64, :64], config)  # compiles
    seconds = []
    for _ in range(turns):
        clear_self_cache()
        began = perf_counter()
        result = pf.compare(source, target, config)
        compared = perf_counter()
        flows = flows_of(result, scene.source, scene.target)
        seconds.append((compared - began, perf_counter() - compared))
        print(f"  comparison {seconds[-1][0]:.1f} s, flow table {seconds[-1][1]:.1f} s", flush=True)
    ratio = median(table / comparison for comparison, table in seconds)
    rows = np.bincount(flows.source, flows.mass, len(flows.source_mass)) + flows.destroyed
    columns = np.bincount(flows.target, flows.mass, len(flows.target_mass)) + flows.created
    books = max(abs(rows / flows.source_mass - 1).max(), abs(columns / flows.target_mass - 1).max())
    peak_both, peak_table = peak_gb(), memory_of_table(result, quick)
    print(
        f"{source.shape[0]} x {source.shape[1]} px, {n_labels[0]} and {n_labels[1]} labels, {len(flows.mass)} flows; solve: "
        f"{result.status} after {result.iterations} kernel applications; table: {flows.applications:.1f}, plus 6 for its weights; "
        f"time of the table over that of the comparison: {ratio:.3f} (at most {MOST_TIMES:g}); books to {books:.1e}; "
        f"peak memory in all {peak_both:.2f} GB (at most {MOST_GB:g}), of the table alone {peak_table:.2f} GB"
    )
    if not quick:
        write_json(
            "flows",
            {
                "shape": source.shape,
                "labels": n_labels,
                "flows": len(flows.mass),
                "solve_applications": result.iterations,
                "status": str(result.status),
                "table_applications": flows.applications,
                "seconds": seconds,
                "ratio": ratio,
                "books": books,
                "peak_table_gb": peak_table,
                "peak_both_gb": peak_both,
            },
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--penalty", default="partial")
    parser.add_argument("--table", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.table:
        table_of_stored(given.table, given.quick)
        raise SystemExit
    main(given.quick, given.turns, given.penalty)
