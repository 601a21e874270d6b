"""`write_report`: pictures first, then the pages that show them, `report.html` last."""

from __future__ import annotations

import base64
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path

from pairframe import files
from pairframe.axis.table import read_profiles, read_radial
from pairframe.errors import BrokenStoreError, StoreVersionError
from pairframe.progress import Progress
from pairframe.regions.keep import read_flows
from pairframe.report.html.embed import embed_pictures
from pairframe.report.html.leftovers import remove_old_pages
from pairframe.report.html.light import read_light
from pairframe.report.html.pair_page import Neighbour, pair_page
from pairframe.report.html.pictures import (
    STAMP,
    View,
    known_view,
    make_figures,
    make_flow_picture,
    make_pictures,
    make_radial_picture,
    profile_hash,
    remake_axis,
    sweep_png,
)
from pairframe.report.html.report_page import report_page
from pairframe.results import TransportResult, disk
from pairframe.results.cohort_table import Cohort, PlainRow, is_area, page_name, read_cohort
from pairframe.results.group import read_group
from pairframe.results.row_units import units_of
from pairframe.results.schema import INTERVAL
from pairframe.results.store import ResultStore
from pairframe.results.sweep import Sweep

MAX_FIGURES = 24  # a drawn figure takes seconds
MAX_PAGES = 5000
MAX_WORDS = 2000  # characters of a recommendation
INLINE_BYTES = 28_000_000  # of thumbnails in report.html, as base64
_OUR_PICTURES = re.compile(
    r"(thumbnail|source|target|created|destroyed|displacement|summary|convergence|motion|morph|flows|strain|axis|sweep|slices)\.png|through_depth\.gif|"
    r"sweep\.txt|" + re.escape(STAMP)
)


def write_report(
    out: str | os.PathLike[str],
    *,
    title: str | None = None,
    progress: Progress | None = None,
    max_figures: int = MAX_FIGURES,
    max_pages: int = MAX_PAGES,
    summaries: Mapping[str, bytes] | None = None,
    sweeps: Mapping[str, Sweep] | None = None,
    results: Mapping[str, TransportResult] | None = None,
    embed: bool = False,
) -> Path:
    """Write ``report.html`` and a page per pair from the results in a folder.

    Parameters
    ----------
    out : path
        A folder of results; its store is only read.
    title : str, optional
        Heading; the folder's name when not given.
    progress : callable (task, done, total, pair_id), optional
        Called after each pair.
    max_figures : int
        Up to this many pairs, each page has drawn figures and a morph (seconds a pair); in a larger cohort all pages
        have only the light pictures (a fraction of a second).
    max_pages : int
        Only this many pairs, the first of the table, get a page and a thumbnail.
    summaries : mapping of pair_id to bytes, optional
        Summary figures (PNG) drawn before; they are not drawn again.
    sweeps : mapping of pair_id to Sweep, optional
        Sweeps to add to the pages of their pairs, where they stay.
    results : mapping of pair_id to TransportResult, optional
        Results that are in memory anyway, as they are in the store; they are not read again.
    embed : bool
        Keep the pictures inside the pages, and show those of all pairs in ``report.html``: for viewers that load no other
        files and follow no links, such as that of JupyterLab. The pages are larger by their pictures.

    Returns
    -------
    Path of ``report.html``. Pictures of this version that exist are kept, so a second run is quick. If the maps of a pair
    are damaged, the report shows its numbers and describes the damage.
    """
    store = ResultStore(out)
    cohort = read_cohort(store)
    pages = _pages(cohort, max_pages)
    with_figures = len(pages) <= max_figures
    profiles = read_profiles(store.out) if with_figures else {}
    views: dict[str, View] = {}
    damage: dict[str, str] = {}
    flows, radial = read_flows(store.out), read_radial(store.out)
    with disk.write_errors(store.out):
        folder = store.out / "pairs"
        folder.mkdir(exist_ok=True)
        for number, (page, row) in enumerate(pages.items(), start=1):
            view = known_view(folder / page)
            try:
                group = disk.group_path(store.maps_path, page)
                profile = profiles.get(row["pair_id"])
                if view is not None and view.has_figures and with_figures:
                    if view.axis != profile_hash(profile):  # other bins, another head, or a profile that came later
                        view = remake_axis(read_group(group, row["pair_id"]), folder / page, view, profile)
                elif with_figures:
                    drawn = (summaries or {}).get(row["pair_id"])
                    view = make_figures(
                        (results or {}).get(row["pair_id"]) or read_group(group, row["pair_id"]),
                        folder / page,
                        drawn,
                        profile,
                        frame_interval_min=_minutes(row),
                    )
                elif view is None:
                    view = make_pictures(read_light(group, row["pair_id"]), folder / page)
                views[page] = view
            except (BrokenStoreError, StoreVersionError) as error:
                damage[row["pair_id"]] = f"expected {error.expected}, got {error.got}"
            if flows is not None and (folder / page).is_dir():
                make_flow_picture(flows[flows["pair_id"] == row["pair_id"]], folder / page)
            if radial is not None and (folder / page).is_dir():
                own = radial[radial["pair_id"] == row["pair_id"]]
                make_radial_picture(own, folder / page, units_of(row).px_size, is_area=is_area(row))
            if row["pair_id"] in (sweeps or {}) and page in views:
                _write_sweep((sweeps or {})[row["pair_id"]], folder / page)
            if progress is not None:
                progress("drawing", number, len(pages), row["pair_id"])
        _write_pages(folder, pages, views, damage, cohort, embed=embed)
        html = report_page(
            cohort,
            title or store.out.resolve().name,
            pages.keys(),
            _thumbnails(folder, cohort, views),
            damage,
            made_at=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
            has_figures=with_figures,
            has_analysis=(store.out / "analysis.html").is_file(),
            has_series=(store.out / "series.html").is_file(),
            embedded=[page for page in pages if page in views] if embed else None,
        )
        if embed:
            html = embed_pictures(html, store.out)
        path = store.out / "report.html"
        files.replace_file(path, html.encode())
        remove_old_pages(folder, pages, disk.is_group_name, lambda name: _OUR_PICTURES.fullmatch(name) is not None)
    return path


def _minutes(row: PlainRow) -> float | None:
    """Minutes between the frames of a pair, if they are known."""
    return None if row["growth_rate_per_h"] is None and row["mean_speed_um_per_min"] is None else float(row[INTERVAL])


def _pages(cohort: Cohort, max_pages: int) -> dict[str, PlainRow]:
    """The pairs that get a page, by its name, in the order of the table."""
    named = ((page_name(row), row) for row in cohort.rows)
    found = {page: row for page, row in named if page is not None}
    return dict(list(found.items())[:max_pages])


def _write_pages(
    folder: Path,
    pages: dict[str, PlainRow],
    views: dict[str, View],
    damage: dict[str, str],
    cohort: Cohort,
    *,
    embed: bool,
) -> None:
    links = [Neighbour(page, row["pair_id"]) for page, row in pages.items()]
    around = zip([None, *links[:-1]], pages.items(), [*links[1:], None], strict=True) if links else ()
    for before, (page, row), after in around:
        html = pair_page(
            row,
            page,
            views.get(page),
            damage.get(row["pair_id"]),
            has_flows=(folder / page / "flows.png").is_file(),
            has_radial=(folder / page / "radial.png").is_file(),
            sweep=_sweep_words(folder / page),
            carried=cohort.carried,
            before=before,
            after=after,
        )
        html = embed_pictures(html, folder) if embed else html
        files.replace_file(folder / f"{page}.html", html.encode(), flush=False)


def _write_sweep(sweep: Sweep, folder: Path) -> None:
    files.replace_file(folder / "sweep.png", sweep_png(sweep), flush=False)
    files.replace_file(folder / "sweep.txt", sweep.recommendation.encode(), flush=False)


def _sweep_words(folder: Path) -> str | None:
    """The recommendation of a sweep whose figure is there; None without one."""
    try:
        return (folder / "sweep.txt").read_text()[:MAX_WORDS] if (folder / "sweep.png").is_file() else None
    except (OSError, ValueError):
        return None


def _thumbnails(folder: Path, cohort: Cohort, views: dict[str, View]) -> list[str | None]:
    """Addresses of the thumbnails: inline data while it fits into one page, then paths; None without a thumbnail."""
    left, found = INLINE_BYTES, []
    for row in cohort.rows:
        page, address = page_name(row), None
        if page in views:
            content = base64.b64encode((folder / page / "thumbnail.png").read_bytes()).decode()
            left -= len(content)
            address = f"data:image/png;base64,{content}" if left >= 0 else f"pairs/{page}/thumbnail.png"
        found.append(address)
    return found
