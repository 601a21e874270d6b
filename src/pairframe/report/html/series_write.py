"""`write_series`: the table of all series beside the results, a page per series, and the page that lists them."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pairframe import files
from pairframe.plain_json import plain
from pairframe.progress import Progress
from pairframe.report.figures.series import series_figure, series_overview
from pairframe.report.figures.series_film import series_movie, series_strip
from pairframe.report.html.light import LightResult, read_light
from pairframe.report.html.series_page import SeriesLink, index_page, page_of_series, summaries_of
from pairframe.results import ResultStore, disk
from pairframe.results.cohort_table import read_cohort
from pairframe.results.schema import FAILED

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

FOLDER = "series"
MOST_PAGES = 200
MOST_MOVIES = 12
_DPI = 100
_PAGE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,39}-[0-9a-f]{8}")
_OUR_PICTURES = {"curves.png", "strip.png", "movie.gif"}


def write_series(
    table: pd.DataFrame,
    out: str | os.PathLike[str],
    *,
    max_movies: int = MOST_MOVIES,
    progress: Progress | None = None,
) -> Path:
    """Write ``series.csv``, ``series.parquet``, ``series.json`` and the pages of a table from `pairframe.series_table`.

    Parameters
    ----------
    out : path
        The folder of results that the table was read from; its store is only read.
    max_movies : int
        Only the first series have a movie, which takes seconds.
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
    with disk.write_errors(store.out):
        folder = store.out / FOLDER
        folder.mkdir(exist_ok=True)
        files.replace_file(folder / "overview.png", _figure_png(series_overview(table)), flush=False)
        for k, (link, (name, rows)) in enumerate(zip(links, groups, strict=False)):
            place = folder / link.page
            place.mkdir(exist_ok=True)
            files.replace_file(place / "curves.png", _figure_png(series_figure(rows)), flush=False)
            note = _write_film(store, rows, place, with_movie=k < max_movies)
            html = page_of_series(
                rows,
                link,
                table.attrs,
                before=links[k - 1] if k else None,
                after=links[k + 1] if k + 1 < len(links) else None,
                pair_pages=_pair_pages(store),
                has_film=(place / "strip.png").is_file(),
                has_movie=(place / "movie.gif").is_file(),
                note=note,
            )
            files.replace_file(folder / f"{link.page}.html", html.encode(), flush=False)
            if progress is not None:
                progress("series", k + 1, len(links), name)
        _remove_old_pages(folder, {link.page for link in links})
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


def _write_film(store: ResultStore, rows: pd.DataFrame, place: Path, *, with_movie: bool) -> str | None:
    """Draw the strip and the movie; a sentence if that is not possible."""
    steps, why = _steps(store, rows)
    wanted = {"strip.png": series_strip, "movie.gif": series_movie} if steps else {}
    if not with_movie:
        wanted.pop("movie.gif", None)
    captions = captions_of(rows)
    for name in ("strip.png", "movie.gif"):
        if name in wanted:
            files.replace_file(place / name, wanted[name](steps, captions, read_cohort(store).units), flush=False)
        else:
            (place / name).unlink(missing_ok=True)
    return why


def captions_of(rows: pd.DataFrame) -> list[str]:
    """Frame and time of every frame, as a picture shows them."""
    unit = str(rows["time_unit"].iloc[0])
    frames = [str(frame)[:18] for frame in rows["frame"]]
    if unit == "frame":
        return [f"frame {frame}" for frame in frames]
    return [f"{time:.4g} {unit}  ({frame})" for time, frame in zip(rows["time"], frames, strict=True)]


def _steps(store: ResultStore, rows: pd.DataFrame) -> tuple[Sequence[LightResult], str | None]:
    table = store.table().set_index("pair_id")
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


def _figure_png(figure: Figure) -> bytes:
    stream = io.BytesIO()
    with warnings.catch_warnings():
        # Characters that the font lacks are drawn as boxes; the page itself shows them.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure.savefig(stream, dpi=_DPI, format="png")
    return stream.getvalue()


def _remove_old_pages(folder: Path, pages: set[str]) -> None:
    """Remove pages of series that are gone; files with other names stay."""
    for path in folder.iterdir():
        name = path.name.removesuffix(".html")
        if name in pages or not _PAGE.fullmatch(name) or path.is_symlink():
            continue
        with suppress(OSError):  # a leftover does no harm
            if path.is_dir():
                for picture in path.iterdir():
                    if picture.name in _OUR_PICTURES:
                        picture.unlink()
                path.rmdir()
            else:
                path.unlink()
