"""The numbers of an analysis on disk: scalars as JSON, maps as Zarr."""

from __future__ import annotations

import json
import shutil
import uuid
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from pairframe import files, system
from pairframe._version import __version__
from pairframe.analysis.analyze import CohortAnalysis
from pairframe.plain_json import plain
from pairframe.results.group import group_files
from pairframe.results.variables import Variable
from pairframe.types import Float

FORMAT_VERSION = 1


def save_numbers(analysis: CohortAnalysis, out: Path) -> None:
    """Write ``analysis.zarr`` and ``analysis.json`` into a folder of results."""
    _replace_folder(out / "analysis.zarr", group_files(variables_of(analysis), _attributes(analysis)))
    text = json.dumps(plain(as_dict(analysis)), allow_nan=False, indent=1)
    files.replace_file(out / "analysis.json", text.encode())


# --- numbers ---------------------------------------------------------------------------------


def as_dict(analysis: CohortAnalysis) -> dict[str, Any]:
    """All numbers except maps."""
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
        Variable("y_um", ("y_um",), y_um, "um", "centres of the blocks, down from the top edge"),
        Variable("x_um", ("x_um",), x_um, "um", "centres of the blocks, right from the left edge"),
    ]
    mass, speed = "mass per pixel", "um"
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


def _part(cell: Any, name: str) -> Float:
    if name.startswith("velocity"):
        part: Float = cell.velocity_um[..., 0 if name.endswith("dy") else 1]
        return part
    whole: Float = getattr(cell, name)
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


def _replace_folder(path: Path, contents: dict[str, bytes]) -> None:
    """Replace a folder; the old one stays until the new one is complete."""
    with files.new_folder(path.parent) as folder:
        files.fill_folder(folder, contents)
        files.flush_all([folder])
        hidden = path.with_name(f"{files.TEMPORARY}{uuid.uuid4().hex}")
        with suppress(FileNotFoundError):
            path.rename(hidden)
        folder.rename(path)
        shutil.rmtree(hidden, ignore_errors=True)
    system.flush_to_disk(path.parent)
