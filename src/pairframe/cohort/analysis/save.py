"""An analysis on disk: numbers as JSON, maps as Zarr, pictures, and last the page that shows them."""

from __future__ import annotations

import io
import json
import re
import shutil
import uuid
import warnings
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairframe._version import __version__
from pairframe.cohort.analysis.analyze import CohortAnalysis
from pairframe.cohort.analysis.figures import Draw, figures_of
from pairframe.cohort.analysis.page import analysis_page
from pairframe.report.html.assets import plain
from pairframe.results import disk
from pairframe.results.group import group_files
from pairframe.results.variables import Variable

FORMAT_VERSION = 1
FOLDER = "analysis"
_OUR_FIGURES = re.compile(r"(mean_(velocity|created|destroyed)|deviations|distances|hotspots_\d+)\.png")
_DPI = 110


def save_analysis(analysis: CohortAnalysis, out: Path) -> Path:
    """Write everything into a folder of results; returns the path of the page."""
    with disk.write_errors(out):
        _replace_folder(out / "analysis.zarr", group_files(variables_of(analysis), _attributes(analysis)))
        figures = out / FOLDER
        figures.mkdir(exist_ok=True)
        names = []
        for name, draw in figures_of(analysis).items():
            disk.replace_file(figures / f"{name}.png", _png(draw))
            names.append(name)
        _remove_old_figures(figures, names)
        text = json.dumps(plain(as_dict(analysis)), allow_nan=False, indent=1)
        disk.replace_file(out / "analysis.json", text.encode())
        page = out / "analysis.html"
        disk.replace_file(page, analysis_page(analysis, out, names).encode())
    return page


def _png(draw: Draw) -> bytes:
    stream = io.BytesIO()
    with warnings.catch_warnings():
        # A name in a script that the font does not have is shown as boxes; the page itself has it right.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        draw().savefig(stream, dpi=_DPI, format="png")
    return stream.getvalue()


# --- numbers ---------------------------------------------------------------------------------


def as_dict(analysis: CohortAnalysis) -> dict[str, Any]:
    """All numbers that are no maps."""
    members, grid = analysis.members, analysis.grid
    return {
        "format_version": FORMAT_VERSION,
        "created_by": f"pairframe {__version__}",
        "group_column": members.group_column,
        "time_column": members.time_column,
        "unit_column": members.unit_column,
        "reference": members.reference,
        "groups": list(members.groups),
        "bin_edges": list(members.bin_edges),
        "permutations": analysis.permutations,
        "seed": analysis.seed,
        "canon_shape_hw": list(grid.canon_shape_hw),
        "px_size_um": grid.px_size_um,
        "block_px": grid.block_px,
        "notices": list(analysis.notices),
        "pairs": [
            {
                "pair_id": member.pair_id,
                "group": member.group,
                "unit": member.unit,
                "time": member.time,
                "bin": member.bin,
                "weight": member.weight,
                **asdict(analysis.deviations[member.pair_id]),
            }
            for member in members.members
        ],
        "comparisons": [
            {
                "group": comparison.group,
                "reference": members.reference,
                "n_group": comparison.n_group,
                "n_reference": comparison.n_reference,
                "is_exact": comparison.is_exact,
                "n_permutations": comparison.n_permutations,
                "smallest_p": comparison.smallest_p,
                "scalars": [asdict(test) for test in comparison.scalars],
            }
            for comparison in analysis.comparisons
        ],
        "distances": _distances_dict(analysis),
    }


def _distances_dict(analysis: CohortAnalysis) -> dict[str, Any] | None:
    found = analysis.distances
    if found is None:
        return None
    return {
        "pair_ids": list(found.pair_ids),
        "distance_um": found.distance_um.tolist(),
        "error_um2": found.error_um2,
        "block_px": found.block_px,
        "blur_um": found.blur_um,
        "coordinates_um": found.embedding.coordinates.tolist(),
        "eigenvalues_um2": found.embedding.eigenvalues.tolist(),
        "explained": found.embedding.explained,
    }


# --- maps ------------------------------------------------------------------------------------


def variables_of(analysis: CohortAnalysis) -> list[Variable]:
    """Mean fields (group, bin, y, x), residuals (pair, y, x) and hot spots (group, y, x)."""
    members, grid = analysis.members, analysis.grid
    y_um, x_um = grid.centres_um
    found = [
        Variable("y_um", ("y_um",), y_um, "um", "middles of the blocks, down from the top edge"),
        Variable("x_um", ("x_um",), x_um, "um", "middles of the blocks, right from the left edge"),
    ]
    mass, speed = "mass per pixel", "um/frame"
    cells = [[analysis.mean_fields[group, number] for number in range(members.n_bins)] for group in members.groups]
    for name, unit in (("created", mass), ("destroyed", mass), ("velocity_dy", speed), ("velocity_dx", speed)):
        maps = np.stack([np.stack([_part(cell, name) for cell in row]) for row in cells])
        found.append(Variable(f"mean_{name}", ("group", "bin", "y_um", "x_um"), maps, unit, f"mean {name}"))
    n_known = np.stack([np.stack([cell.n_known for cell in row]) for row in cells])
    found.append(Variable("n_known", ("group", "bin", "y_um", "x_um"), n_known, "1", "pairs with a known displacement"))
    if analysis.residuals:
        stacked = np.stack(list(analysis.residuals.values()))
        for number, (name, unit) in enumerate(
            (("velocity_dy", speed), ("velocity_dx", speed), ("created", mass), ("destroyed", mass))
        ):
            values = np.ascontiguousarray(stacked[:, number])
            meaning = f"{name} of a pair minus the mean of the reference"
            found.append(Variable(f"residual_{name}", ("pair", "y_um", "x_um"), values, unit, meaning))
    for number in range(3 if analysis.comparisons else 0):
        maps_of = [comparison.hotspots[number] for comparison in analysis.comparisons]
        name, unit = maps_of[0].name, speed if maps_of[0].name == "speed_um" else mass
        dims = ("compared_group", "y_um", "x_um")
        parts = (
            ("difference", unit, "group minus reference"),
            ("p", "1", "permutation test"),
            ("q", "1", "adjusted p"),
        )
        for part, part_unit, meaning in parts:
            values = np.stack([getattr(found_map, part) for found_map in maps_of])
            found.append(Variable(f"hotspot_{name}_{part}", dims, values, part_unit, f"{meaning} of {name}"))
    return found


def _part(cell: Any, name: str) -> NDArray[np.float64]:
    if name.startswith("velocity"):
        part: NDArray[np.float64] = cell.velocity_um[..., 0 if name.endswith("dy") else 1]
        return part
    whole: NDArray[np.float64] = getattr(cell, name)
    return whole


def _attributes(analysis: CohortAnalysis) -> dict[str, Any]:
    members = analysis.members
    return {
        "title": "analysis of a cohort",
        "created_by": f"pairframe {__version__}",
        "format_version": FORMAT_VERSION,
        "groups": json.dumps(list(members.groups)),
        "compared_groups": json.dumps([comparison.group for comparison in analysis.comparisons]),
        "bin_edges": json.dumps(plain(list(members.bin_edges))),
        "residual_pair_ids": json.dumps(list(analysis.residuals)),
        "px_size_um": analysis.grid.px_size_um,
        "block_px": analysis.grid.block_px,
    }


# --- files -----------------------------------------------------------------------------------


def _replace_folder(path: Path, files: dict[str, bytes]) -> None:
    """Put a folder of files in the place of another one; the old one is there until the new one is complete."""
    with disk.new_folder(path.parent) as folder:
        disk.fill_folder(folder, files)
        disk.flush_folders([folder])
        hidden = path.with_name(f"{disk.TEMPORARY}{uuid.uuid4().hex}")
        with suppress(FileNotFoundError):
            path.rename(hidden)
        folder.rename(path)
        shutil.rmtree(hidden, ignore_errors=True)
    disk.flush_to_disk(path.parent)


def _remove_old_figures(folder: Path, names: list[str]) -> None:
    for path in folder.iterdir():
        if _OUR_FIGURES.fullmatch(path.name) and path.stem not in names:
            with suppress(OSError):  # an old picture that no page shows does no harm
                path.unlink()
