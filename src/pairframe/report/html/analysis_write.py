"""An analysis in a folder of results: its numbers, its pictures, and last the page that shows them."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from pairframe import files
from pairframe.analysis.analyze import CohortAnalysis
from pairframe.analysis.save import save_numbers
from pairframe.report.figures.cohort import figures_of
from pairframe.report.html.analysis_page import analysis_page
from pairframe.report.images import figure_png
from pairframe.results import disk

FOLDER = "analysis"
_OUR_FIGURES = re.compile(r"(mean_(velocity|created|destroyed)|deviations|distances|hotspots_\d+)\.png")
_DPI = 110


def write_analysis(analysis: CohortAnalysis, out: str | os.PathLike[str]) -> Path:
    """Write ``analysis.json``, ``analysis.zarr``, figures and ``analysis.html`` into a folder of results.

    Returns the path of the page.
    """
    out = Path(out)
    with disk.write_errors(out):
        save_numbers(analysis, out)
        figures = out / FOLDER
        figures.mkdir(exist_ok=True)
        names = []
        for name, draw in figures_of(analysis).items():
            files.replace_file(figures / f"{name}.png", figure_png(draw(), _DPI))
            names.append(name)
        _remove_old_figures(figures, names)
        page = out / "analysis.html"
        files.replace_file(page, analysis_page(analysis, out, names).encode())
    return page


def _remove_old_figures(folder: Path, names: list[str]) -> None:
    for path in folder.iterdir():
        if _OUR_FIGURES.fullmatch(path.name) and path.stem not in names:
            with suppress(OSError):  # an old picture does no harm
                path.unlink()
