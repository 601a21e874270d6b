"""`pairframe demo`: the main jobs on synthetic embryos, from masks to a report, and from a raw table to growth curves."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from pairframe.cli.demo_series import demo_series
from pairframe.cli.output import Draft, check_writable, drafted, names_in
from pairframe.cli.summary import pairs_table
from pairframe.cli.terminal import Activity, activity, output, print_places, say
from pairframe.errors import PairframeError, StoreError
from pairframe.masks import Mask, write_mask
from pairframe.masks.pieces import typical_length
from pairframe.pipeline import compare
from pairframe.problem import TransportConfig
from pairframe.report.figures import alignment_figure, frame_overview, motion_size_in, new_figure, write_movie
from pairframe.report.html import write_report
from pairframe.results import ResultStore, TransportResult, disk
from pairframe.results.formatting import number
from pairframe.results.motion_words import share_words
from pairframe.results.schema import Row
from pairframe.testing import growing_embryo, tiny_and_huge_embryo, turned_embryo
from pairframe.types import Bool

N_FRAMES = 6
PX_SIZE_UM = 10.0
SHAPE_HW = (256, 576)
FRAME = "pair_frame.png"
ALIGNMENT = "alignment.png"
MOVIES = {"tiny and huge": "tiny_and_huge.gif", "embryo 0 to 1": "growing_embryo.gif"}


class DemoPair(NamedTuple):
    """One comparison of the demo; the masks by the names of their files.

    A pair outside a time series has neither a series nor a frame, so plots over time leave it out.
    """

    pair_id: str
    source: str
    target: str
    group: str
    series: str | None = None
    frame: int | None = None
    align: str = "none"


AS_GIVEN, ALIGNED = "turned and grown, as given", "turned and grown, aligned"
PAIRS = (
    DemoPair("tiny and huge", "tiny.tif", "huge.tif", "tiny and huge"),
    *(
        DemoPair(f"embryo {k} to {k + 1}", f"embryo_{k}.tif", f"embryo_{k + 1}.tif", "growing embryo", "embryo", k)
        for k in range(N_FRAMES - 1)
    ),
    DemoPair(AS_GIVEN, "before_the_turn.tif", "after_the_turn.tif", "turned and grown"),
    DemoPair(ALIGNED, "before_the_turn.tif", "after_the_turn.tif", "turned and grown", align="rigid"),
)


def run_demo(out: Path, *, quiet: bool = False, shape_hw: tuple[int, int] = SHAPE_HW) -> None:
    """Compare synthetic embryos, save and draw the results, and print where they are.

    Parameters
    ----------
    out : Path
        A new or empty folder, or that of an earlier demo, whose results are replaced.
    shape_hw : (H, W)
        Canvas of the embryos, px.
    """
    check_writable(out)
    check_demo_folder(out, tuple(pair.pair_id for pair in PAIRS))
    masks = _masks(shape_hw)
    store = ResultStore(out)
    with activity(quiet=quiet) as now:
        results: dict[str, tuple[TransportResult, float]] = {}
        # One reach for all pairs, as in a run.
        reach_um = PX_SIZE_UM * median(typical_length(mask.values) for mask in masks.values())
        config = TransportConfig(px_size_um=PX_SIZE_UM, reach_um=reach_um, debug=True)
        for number, pair in enumerate(PAIRS):
            now.step("comparing", number, len(PAIRS), pair.pair_id)
            started = time.perf_counter()
            result = compare(masks[pair.source], masks[pair.target], replace(config, align=pair.align))
            results[pair.pair_id] = result, time.perf_counter() - started
        kept: Draft | None = None
        try:
            with drafted(store) as kept:
                now.step("writing the results")
                kept.write(*(partial(_write, store, pair, *results[pair.pair_id]) for pair in PAIRS))
                _draw(kept.folder, masks, results, now)
                kept.keep()
            write_masks(out / "masks", masks)
            series = demo_series(out, now)
            write_report(
                out,
                title="pairframe demo",
                progress=now.step,
            )
        except (KeyboardInterrupt, PairframeError, OSError):
            if kept is not None and kept.is_kept:
                say("pairframe: the results are kept, but the report is not complete. To finish: run the demo again")
            raise
    if not quiet:
        pictures = {
            "frame": out / FRAME,
            "alignment": out / ALIGNMENT,
            **{f"movie of {pair_id}": out / name for pair_id, name in MOVIES.items()},
        }
        places = {
            "masks": out / "masks",
            **pictures,
            **series.places,
            "report": out / "report.html",
            "store": store.table_path,
        }
        _print_summary(kept.rows, series.words, places)


def check_demo_folder(out: Path, pair_ids: tuple[str, ...]) -> None:
    """Refuse a folder that is neither empty nor that of an earlier demo with these pairs."""
    found, store = names_in(out), ResultStore(out)
    ours = set(store.pair_ids()) <= set(pair_ids) if store.exists() else not found
    if not ours:
        raise StoreError(
            "a new or empty folder, or that of an earlier demo",
            f"{str(out)!r}, which holds other results" if store.exists() else f"{str(out)!r}, which holds other files",
            "choose another one with --out",
        )


def _masks(shape_hw: tuple[int, int]) -> dict[str, Mask]:
    """The synthetic masks by the names of their files."""
    tiny, huge = tiny_and_huge_embryo(shape_hw)
    frames = {f"embryo_{k}.tif": frame for k, frame in enumerate(growing_embryo(N_FRAMES, shape_hw))}
    before, after = turned_embryo(shape_hw)
    turned = {"before_the_turn.tif": before, "after_the_turn.tif": after}
    images: dict[str, Bool] = {"tiny.tif": tiny, "huge.tif": huge, **frames, **turned}
    return {name: Mask.from_array(image, px_size_um=PX_SIZE_UM) for name, image in images.items()}


def write_masks(folder: Path, masks: dict[str, Mask]) -> None:
    """Write masks by the names of their files."""
    with disk.write_errors(folder):
        folder.mkdir(exist_ok=True)
        for name, mask in masks.items():
            write_mask(mask, folder / name, overwrite=True)


def _write(store: ResultStore, pair: DemoPair, result: TransportResult, seconds: float) -> Row:
    return store.write_maps(
        result,
        pair.pair_id,
        source=f"masks/{pair.source}",
        target=f"masks/{pair.target}",
        seconds=seconds,
        extra={"group": pair.group, "series": pair.series, "frame": pair.frame},
    )


def _draw(
    folder: Path, masks: dict[str, Mask], results: dict[str, tuple[TransportResult, float]], now: Activity
) -> None:
    with disk.write_errors(folder):
        now.step("drawing", detail=FRAME)
        _draw_frame(folder / FRAME, results[PAIRS[0].pair_id][0], masks[PAIRS[0].source], masks[PAIRS[0].target])
        now.step("drawing", detail=ALIGNMENT)
        _draw_alignment(folder / ALIGNMENT, results[AS_GIVEN][0], results[ALIGNED][0])
        for pair_id, name in MOVIES.items():
            now.step("drawing", detail=name)
            write_movie(results[pair_id][0], folder / name)


def _draw_frame(picture: Path, result: TransportResult, source: Mask, target: Mask) -> None:
    """Draw the pair frame in which a pair was solved."""
    figure = new_figure(11, 4.6)
    frame_overview(result.transform, source.values, target.values, figure.add_subplot())
    figure.savefig(picture, dpi=100, format="png")


def _draw_alignment(picture: Path, as_given: TransportResult, aligned: TransportResult) -> None:
    """Draw what alignment is for: a pair compared as given, and aligned first."""
    width, height = motion_size_in(as_given)
    figure = new_figure(width, 2 * (height + 0.4))
    alignment_figure(as_given, aligned, figure)
    figure.savefig(picture, dpi=80, format="png")


def _print_summary(rows: list[Row], series: str, where: dict[str, Path]) -> None:
    console = output()
    console.print(pairs_table(rows))
    console.print()
    for row in rows:
        if row["pair_id"] in (AS_GIVEN, ALIGNED):
            console.print(_alignment_words(row), soft_wrap=True, highlight=False)
    console.print(series, soft_wrap=True, highlight=False)
    console.print()
    print_places(console, where)


def _alignment_words(row: Row) -> str:
    """A sentence about the pair that turned and grew."""
    moved = f"mass moves by {number(row['mean_displacement_um'])} µm on average"
    if row["pose_status"] is None:
        turn, shift = (share_words(row[f"motion_{part}_share"]) for part in ("turn", "shift"))
        return f"An embryo that turned and grew, compared as given: {moved}; {turn} of the motion is a turn, {shift} a shift."
    created = f"{number(row['percent_created'], '%')} %"
    return (
        f"The same pair, aligned first (turned back by {abs(row['pose_angle_deg']):.0f}°): {moved}, and {created} is created: "
        "growth is left."
    )
