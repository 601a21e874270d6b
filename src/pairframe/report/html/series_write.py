"""`write_series`: the table of all series beside the results, a page per series, and the page that lists them."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pairframe import checks, files
from pairframe.parallel.in_order import in_order
from pairframe.parallel.threads import n_cores
from pairframe.plain_json import plain
from pairframe.progress import Progress
from pairframe.report.figures.series import series_figure, series_overview
from pairframe.report.figures.series_film import series_movie, series_strip
from pairframe.report.html.leftovers import remove_old_pages
from pairframe.report.html.light import LightResult, read_light
from pairframe.report.html.series_page import SeriesLink, index_page, page_of_series, summaries_of
from pairframe.report.images import figure_png
from pairframe.results import ResultStore, disk
from pairframe.results.cohort_table import read_cohort
from pairframe.results.schema import FAILED

if TYPE_CHECKING:
    import pandas as pd

FOLDER = "series"
MOST_PAGES = 200
MOST_MOVIES = 12
_DPI = 100
_FEWEST_FOR_PROCESSES = 4
_PAGE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,39}-[0-9a-f]{8}")
_OUR_PICTURES = {"curves.png", "strip.png", "movie.gif"}


def write_series(
    table: pd.DataFrame,
    out: str | os.PathLike[str],
    *,
    max_movies: int = MOST_MOVIES,
    jobs: int | None = 1,
    progress: Progress | None = None,
) -> Path:
    """Write ``series.csv``, ``series.parquet``, ``series.json`` and the pages of a table from `pairframe.series_table`.

    Parameters
    ----------
    out : path
        The folder of results that the table was read from; its store is only read.
    max_movies : int
        Only the first series have a movie, which takes seconds.
    jobs : int, optional
        Processes that draw; None: one per core. More than one import the main module, as in `compare_many`.
    progress : callable (task, done, total, series), optional
        Called after each series.

    Returns
    -------
    Path of ``series.html``. Pages of series that the table does not have are removed.
    """
    store = ResultStore(out)
    groups = [(str(name), rows.reset_index(drop=True)) for name, rows in table.groupby("series", sort=False)]
    links = [SeriesLink(page_name_of(name), name) for name, _ in groups[:MOST_PAGES]]
    has_report = (store.out / "report.html").is_file()
    n_jobs = checks.integer(n_cores() if jobs is None else jobs, "jobs", 1, fix="e.g. 2, or None for all cores")
    with disk.write_errors(store.out):
        folder = store.out / FOLDER
        folder.mkdir(exist_ok=True)
        files.replace_file(folder / "overview.png", figure_png(series_overview(table), _DPI), flush=False)
        drawings = [
            _Drawing(folder / link.page, rows, with_movie=k < max_movies)
            for k, (link, (_, rows)) in enumerate(zip(links, groups, strict=False))
        ]
        pages = _pair_pages(store)
        for k, (link, drawn) in enumerate(zip(links, _drawn(drawings, store, n_jobs), strict=True)):
            html = page_of_series(
                drawings[k].rows,
                link,
                table.attrs,
                before=links[k - 1] if k else None,
                after=links[k + 1] if k + 1 < len(links) else None,
                pair_pages=pages,
                has_film=drawn.has_film,
                has_movie=drawn.has_movie,
                note=drawn.note,
            )
            files.replace_file(folder / f"{link.page}.html", html.encode(), flush=False)
            if progress is not None:
                progress("series", k + 1, len(links), link.name)
        remove_old_pages(
            folder,
            {link.page for link in links},
            lambda name: _PAGE.fullmatch(name) is not None,
            _OUR_PICTURES.__contains__,
        )
        _write_tables(table, store.out)
        page = store.out / "series.html"
        files.replace_file(page, index_page(table, store.out.resolve().name, links, has_report).encode())
    return page


def page_name_of(series: str) -> str:
    """The name of the page and folder of a series: never its own name, which may be anything."""
    prefix = disk.safe_prefix(series) if series else "series"
    return f"{prefix}-{hashlib.sha256(series.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def _write_tables(table: pd.DataFrame, out: Path) -> None:
    content = io.BytesIO()
    as_text = table["frame"].map(type).nunique() > 1
    saved = table.assign(frame=table["frame"].astype(str)) if as_text else table.copy()
    saved.attrs = {}
    saved.to_parquet(content, index=False)
    files.replace_file(out / "series.parquet", content.getvalue())
    files.replace_file(out / "series.csv", table.to_csv(index=False).encode())
    odd = table[table["flags"].notna()]
    about = {
        "rule": table.attrs,
        "series": summaries_of(table),
        "flagged": odd[["series", "frame", "time", "flags", "reason", "left_out"]].to_dict("records"),
    }
    files.replace_file(out / "series.json", f"{json.dumps(plain(about), allow_nan=False, indent=1)}\n".encode())


@dataclass(frozen=True, eq=False)
class _Drawing:
    """The pictures of one series: their folder, its rows of the table, and whether it has a movie."""

    folder: Path
    rows: pd.DataFrame
    with_movie: bool


@dataclass(frozen=True)
class _Drawn:
    """Which pictures there are, and why there is no film."""

    has_film: bool
    has_movie: bool
    note: str | None


def _drawn(drawings: list[_Drawing], store: ResultStore, jobs: int) -> Iterator[_Drawn]:
    draw = partial(_draw, out=store.out)
    if jobs == 1 or len(drawings) < _FEWEST_FOR_PROCESSES:  # a process takes about a second to start
        return (drawn for one in drawings for drawn in draw([one]))
    return in_order(draw, iter(drawings), len(drawings), jobs)


def _draw(drawings: list[_Drawing], out: Path) -> list[_Drawn]:
    """Draw the curves, the strip and the movie of a few series."""
    store = ResultStore(out)
    table, units = store.table().set_index("pair_id"), read_cohort(store).units
    found = []
    for one in drawings:
        one.folder.mkdir(exist_ok=True)
        files.replace_file(one.folder / "curves.png", figure_png(series_figure(one.rows), _DPI), flush=False)
        steps, why = _steps(store, table, one.rows)
        captions = captions_of(one.rows)
        pictures = {
            "strip.png": series_strip(steps, captions, units) if steps else None,
            "movie.gif": series_movie(steps, captions, units) if steps and one.with_movie else None,
        }
        for name, content in pictures.items():
            if content is None:
                (one.folder / name).unlink(missing_ok=True)
            else:
                files.replace_file(one.folder / name, content, flush=False)
        found.append(_Drawn(pictures["strip.png"] is not None, pictures["movie.gif"] is not None, why))
    return found


def captions_of(rows: pd.DataFrame) -> list[str]:
    """Frame and time of every frame, as a picture shows them."""
    from pandas.api.types import is_float_dtype

    unit = str(rows["time_unit"].iloc[0])
    frames = [str(frame)[:18] for frame in rows["frame"]]
    if unit == "frame":
        return [f"frame {frame}" for frame in frames]
    times = [f"{time:.4g} {unit}" for time in rows["time"]]
    if is_float_dtype(rows["frame"]):  # frames that are named by their time
        return times
    return [f"{time}, frame {frame}" for time, frame in zip(times, frames, strict=True)]


def _steps(store: ResultStore, table: pd.DataFrame, rows: pd.DataFrame) -> tuple[Sequence[LightResult], str | None]:
    pairs = rows["pair_id"].iloc[1:]
    if pairs.isna().any() or (table.loc[list(pairs), "status"] == FAILED).any():
        return [], "There is no film strip, because a pair of this series is missing or failed."
    found = table.loc[list(pairs)]
    if found["pose_status"].notna().any():
        return [], (
            "There is no film strip, because every pair was aligned on a canvas of its own. "
            "Align the whole cohort first (pairframe align) to see the series in one pose."
        )
    steps = [
        read_light(disk.group_path(store.maps_path, group), str(name))
        for name, group in zip(found.index, found["maps_group"], strict=True)
    ]
    if len({step.transform.canon_shape_hw for step in steps}) > 1:
        return [], "There is no film strip, because the images of this series differ in size."
    return steps, None


def _pair_pages(store: ResultStore) -> dict[str, str]:
    """Pages of pairs that exist, by pair."""
    table = store.table()
    named = zip(table["pair_id"], table["maps_group"], strict=True)
    return {
        str(pair_id): f"../pairs/{group}.html"
        for pair_id, group in named
        if disk.is_group_name(group) and (store.out / "pairs" / f"{group}.html").is_file()
    }
