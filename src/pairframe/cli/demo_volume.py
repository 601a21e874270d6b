"""`pairframe demo --volume`: a synthetic tube that grows and bends, from volumes on disk to a report."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from statistics import median

from pairframe.cli.output import Draft, check_writable, drafted
from pairframe.cli.summary import pairs_table
from pairframe.cli.terminal import activity, output, print_places, say
from pairframe.errors import PairframeError
from pairframe.masks import Mask
from pairframe.masks.pieces import typical_length
from pairframe.pipeline import compare
from pairframe.problem import TransportConfig
from pairframe.report.figures import write_movie
from pairframe.report.html import write_report
from pairframe.results import ResultStore, TransportResult, disk
from pairframe.results.schema import Row
from pairframe.testing.volumes import TUBE_VOXEL_UM, growing_tube

N_FRAMES = 4
MOVIE = "through_depth.gif"
PAIR_IDS = tuple(f"tube {k} to {k + 1}" for k in range(N_FRAMES - 1))


def run_volume_demo(out: Path, *, quiet: bool = False) -> None:
    """Compare the frames of the tube, save and draw the results, and print where they are.

    `out` is a new or empty folder, or that of an earlier demo, whose results are replaced.
    """
    from pairframe.cli.demo import check_demo_folder, write_masks

    check_writable(out)
    check_demo_folder(out, PAIR_IDS)
    names = [f"tube_{k}.ome.tif" for k in range(N_FRAMES)]
    masks = {
        name: Mask.from_array(frame, px_size_um=TUBE_VOXEL_UM)
        for name, frame in zip(names, growing_tube(N_FRAMES), strict=True)
    }
    store = ResultStore(out)
    with activity(quiet=quiet) as now:
        results: dict[str, tuple[TransportResult, float]] = {}
        # One reach for all pairs, as in a run.
        units = next(iter(masks.values())).units
        lengths = [typical_length(mask.values, spacing=units.spacing) for mask in masks.values()]
        config = TransportConfig(reach_um=units.px_size * median(lengths), debug=True)
        for k, pair_id in enumerate(PAIR_IDS):
            now.step("comparing", k, len(PAIR_IDS), pair_id)
            started = time.perf_counter()
            result = compare(masks[names[k]], masks[names[k + 1]], config)
            results[pair_id] = result, time.perf_counter() - started
        kept: Draft | None = None
        try:
            with drafted(store) as kept:
                now.step("writing the results")
                kept.write(*(partial(_write, store, k, names, *results[pair_id]) for k, pair_id in enumerate(PAIR_IDS)))
                with disk.write_errors(kept.folder):
                    now.step("drawing", detail=MOVIE)
                    write_movie(results[PAIR_IDS[0]][0], kept.folder / MOVIE)
                kept.keep()
            write_masks(out / "masks", masks)
            write_report(out, title="pairframe demo: a growing tube", progress=now.step)
        except (KeyboardInterrupt, PairframeError, OSError):
            if kept is not None and kept.is_kept:
                say("pairframe: the results are kept, but the report is not complete. To finish: run the demo again")
            raise
    if not quiet:
        console = output()
        console.print(pairs_table(kept.rows))
        console.print()
        places = {"masks": out / "masks", "movie through depth": out / MOVIE}
        print_places(console, {**places, "report": out / "report.html", "store": store.table_path})


def _write(store: ResultStore, k: int, names: list[str], result: TransportResult, seconds: float) -> Row:
    return store.write_maps(
        result,
        PAIR_IDS[k],
        source=f"masks/{names[k]}",
        target=f"masks/{names[k + 1]}",
        seconds=seconds,
        extra={"group": "growing tube", "series": "tube", "frame": k},
    )
