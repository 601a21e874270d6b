"""How long is the whole path from a table of run lengths to series pages, against comparing the aligned pairs alone?

    python benchmarks/table_to_series.py [--frames N] [--jobs N] [--rounds N]

A Parquet table of embryos that grow, with the yolk, three pixel sizes, random poses and flips, is aligned with a contact sheet,
compared frame by frame, and written as series pages with their movies. The peer is `compare_many` on the aligned masks with the
same reach, after the path and in the same process, with as many worker processes. Wrong poses are counted, and the peak of the resident memory of
this process and of its workers per step. Writes benchmarks/out/table_to_series.json.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import groupby, pairwise
from pathlib import Path
from threading import Event, Thread
from time import perf_counter
from typing import Any

import pandas as pd

import pairframe as pf
from align_cohort import MASK_TABLE, PER_SERIES, WRONG_DEG, write_mask_table
from harness import write_json
from pairframe.cohort import run_cohort
from pairframe.pipeline.many import iter_results
from pairframe.report.html import write_contact_sheet, write_series
from pairframe.results import ResultStore
from pairframe.testing import PlantedFrame, planted_cohort

CANVAS_HW, PX_SIZE_UM = (256, 576), 2.0
INTERVAL_MIN = 30.0


class PeakMemory:
    """Peak resident memory of this process and its workers while it runs, MB, from samples every 50 ms."""

    def __init__(self) -> None:
        self.mb = 0.0
        self._stop = Event()

    @contextmanager
    def watched(self) -> Iterator[PeakMemory]:
        thread = Thread(target=self._watch, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.05):
            self.mb = max(self.mb, _resident_mb("self") + sum(map(_resident_mb, _children())))


def _children() -> list[str]:
    try:
        return [name for task in Path("/proc/self/task").iterdir() for name in (task / "children").read_text().split()]
    except OSError:
        return []


def _resident_mb(process: str) -> float:
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * 4096 / 1e6
    except (OSError, IndexError):
        return 0.0


def whole_path(table: Path, folder: Path, jobs: int | None) -> tuple[dict[str, dict[str, float]], Any]:
    """Seconds, peak memory and reports of progress of every step, and the aligned cohort."""
    found: dict[str, dict[str, float]] = {}
    ticks = [0]

    def tick(*_: object) -> None:
        ticks[0] += 1

    def step(name: str, job: Callable[[], Any]) -> Any:
        ticks[0] = 0
        began, cpu = perf_counter(), cpu_seconds()
        with PeakMemory().watched() as peak:
            answer = job()
        seconds, cpu = perf_counter() - began, cpu_seconds() - cpu
        found[name] = {"seconds": seconds, "cpu_s": cpu, "peak_mb": peak.mb, "progress_reports": float(ticks[0])}
        words = f"{seconds:.1f} s, {cpu:.1f} s of CPU, peak {peak.mb:.0f} MB, {ticks[0]} reports of progress"
        print(f"{name}: {words}", flush=True)
        return answer

    options: dict[str, Any] = {"canvas_hw": CANVAS_HW, "px_size_um": PX_SIZE_UM, "landmark": "yolk", "allow_flip": True}
    aligned = step(
        "align",
        lambda: pf.align_cohort(table, folder / "aligned", **options, columns=MASK_TABLE, jobs=jobs, progress=tick),
    )
    step("contact sheet", lambda: write_contact_sheet(folder / "aligned", progress=tick))
    step(
        "run",
        lambda: run_cohort(
            folder / "aligned", folder / "results", jobs=jobs, frame_interval_min=INTERVAL_MIN, progress=tick
        ),
    )
    curves = step("series table", lambda: pf.series_table(folder / "results", progress=tick))
    step("series pages", lambda: write_series(curves, folder / "results", max_movies=10**6, jobs=jobs, progress=tick))
    return found, aligned


def cpu_seconds() -> float:
    """CPU time of this process and of its workers, also of those that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used) + sum(map(_living_cpu_s, _children()))


def _living_cpu_s(process: str) -> float:
    try:
        words = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def pairs_alone(folder: Path, jobs: int | None) -> tuple[float, float]:
    """Seconds, and those of CPU, of `compare_many` on the same pairs."""
    rows = ResultStore(folder / "results").table()
    config = pf.TransportConfig(px_size_um=PX_SIZE_UM, reach_um=float(rows["reach_um"].iloc[0]))
    frames = pd.read_csv(folder / "aligned" / "aligned.csv")
    by_series = groupby(zip(frames["series"], frames["path"], strict=True), key=lambda one: one[0])
    pairs = [
        (folder / "aligned" / a[1], folder / "aligned" / b[1]) for _, series in by_series for a, b in pairwise(series)
    ]
    began, cpu = perf_counter(), cpu_seconds()
    n = sum(1 for _ in iter_results(pairs, config, jobs=jobs))
    assert n == len(rows) == len(pairs)
    return perf_counter() - began, cpu_seconds() - cpu


def wrong_poses(frames: list[PlantedFrame], aligned: Any) -> dict[str, int]:
    ways = {one.mask_id: frame.place.then(one.change) for frame, one in zip(frames, aligned.masks, strict=True)}
    truth = ways[aligned.reference]
    flips = sum(way.flipped != truth.flipped for way in ways.values())
    turns = sum(
        way.flipped == truth.flipped and abs(math.remainder(way.angle_deg - truth.angle_deg, 360)) > WRONG_DEG
        for way in ways.values()
    )
    return {"wrong flips": flips, "wrong turns": turns, "failed": aligned.failed, "flagged": aligned.flagged}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=313)
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args()
    frames = planted_cohort(-(-given.frames // PER_SERIES), PER_SERIES, seed=7)[: given.frames]
    rounds = []
    for _ in range(given.rounds):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            table = write_mask_table(frames, folder)
            steps, aligned = whole_path(table, folder, given.jobs)
            alone, alone_cpu = pairs_alone(folder, given.jobs)
            whole, whole_cpu = (sum(step[name] for step in steps.values()) for name in ("seconds", "cpu_s"))
            written = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
            poses = wrong_poses(frames, aligned)
        figures = {"whole_s": whole, "pairs_alone_s": alone, "ratio": whole / alone, "cpu_ratio": whole_cpu / alone_cpu}
        rounds.append({"steps": steps, **figures, "written_mb": written, **poses})
        print(
            f"whole {whole:.1f} s, pairs alone {alone:.1f} s: ratio {whole / alone:.2f}; of CPU {whole_cpu:.1f} and "
            f"{alone_cpu:.1f} s: {whole_cpu / alone_cpu:.2f}; {written:.0f} MB written; {poses}"
        )
    write_json("table_to_series", {"frames": given.frames, "canvas_hw": CANVAS_HW, "rounds": rounds})


if __name__ == "__main__":
    main()
