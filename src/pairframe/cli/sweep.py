"""`pairframe sweep`: compare one pair at several reaches or blurs, and recommend one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pairframe import files
from pairframe.cli.images_only import refuse_pair_of_volumes
from pairframe.cli.output import check_writable, names_in
from pairframe.cli.terminal import activity, output, print_places, say, uninterrupted, visible
from pairframe.errors import ArgumentError, StoreError
from pairframe.pipeline import sweep
from pairframe.plain_json import plain
from pairframe.problem import TransportConfig
from pairframe.report.html.pictures import sweep_png
from pairframe.results import Sweep, disk
from pairframe.results.formatting import number
from pairframe.units import pretty

if TYPE_CHECKING:
    from rich.table import Table

FILES = {"table": "sweep.csv", "figure": "sweep.png", "recommendation": "sweep.json"}


@dataclass(frozen=True)
class SweepJob:
    """The arguments of `pairframe sweep`; lengths as typed, separated by commas."""

    source: str
    target: str
    out: Path
    config: TransportConfig
    reach_um: str | None = None
    blur_um: str | None = None
    overwrite: bool = False


def run_sweep(job: SweepJob, *, as_json: bool = False, quiet: bool = False) -> None:
    """Sweep, write and print; exit code 1 if a comparison did not converge."""
    reaches, blurs = parsed_lengths(job.reach_um, "reach_um"), parsed_lengths(job.blur_um, "blur_um")
    refuse_pair_of_volumes(job.source, job.target, job.config, sweep_command=True)
    _check_folder(job)
    with activity(quiet=quiet or as_json) as now:
        now.step("comparing")
        found = sweep(
            job.source,
            job.target,
            job.config,
            reach_um=reaches,
            blur_um=blurs,
            on_point=lambda done, total: now.step("comparing", done, total),
        )
        now.step("writing")
        text = sweep_json(found)
        _write(job.out, found, text)
    if as_json:
        typer.echo(text)
    elif not quiet:
        console = output()
        console.print(sweep_table(found))
        console.print()
        console.print(visible(pretty(found.recommendation)), soft_wrap=True)
        console.print()
        print_places(console, {what: job.out / name for what, name in FILES.items()})
    if not quiet and found.units.in_px:
        say("pairframe: no pixel size is known, so lengths are in pixels; use --px-size-um for µm")
    unfinished = [point for point in found.points if point.status != "converged"]
    if unfinished:
        say(f"pairframe: {len(unfinished)} of {len(found.points)} comparisons did not converge; raise --max-iterations")
        raise typer.Exit(1)


def parsed_lengths(words: str | None, field: str) -> tuple[float, ...] | None:
    """``50,100,200`` as numbers."""
    if words is None:
        return None
    try:
        return tuple(float(word) for word in words.split(","))
    except ValueError:
        flag = f"--{field.replace('_', '-')}"
        raise ArgumentError("numbers separated by commas", repr(words), f"e.g. {flag} 50,100,200", field) from None


def sweep_json(found: Sweep) -> str:
    """Table and recommendation as JSON; NaN is null."""
    advice = found.advice
    about = {
        "recommendation": advice.sentence,
        "reach_um": advice.reach_um,
        "blur_um": advice.blur_um,
        "plateau_um": advice.plateau_um,
        "length_unit": found.units.length,
        "points": [point.row() for point in found.points],
    }
    return json.dumps(plain(about), indent=2, allow_nan=False)


def sweep_table(found: Sweep) -> Table:
    """The points on the terminal."""
    from rich import box
    from rich.table import Table

    length = found.units.length_text
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    heads = (
        f"reach\n{length}",
        f"blur\n{length}",
        "created\n%",
        "destroyed\n%",
        "moved\n%",
        f"moved by\n{length}",
    )
    for head in heads:
        table.add_column(head, justify="right")
    table.add_column("notices", overflow="fold")
    chosen = found.advice
    for point in found.points:
        is_chosen = chosen.reach_um == point.reach_um and chosen.blur_um in (None, point.blur_um)
        table.add_row(
            number(point.reach_um),
            number(point.blur_um),
            *(
                number(max(0.0, value), "%")
                for value in (point.percent_created, point.percent_destroyed, point.percent_moved)
            ),
            number(point.mean_displacement_um),
            " ".join(point.notices),
            style="bold" if is_chosen else None,
        )
    return table


def _check_folder(job: SweepJob) -> None:
    check_writable(job.out)
    there = sorted(names_in(job.out) & set(FILES.values()))
    if there and not job.overwrite:
        raise StoreError(
            "a folder without a sweep",
            f"{str(job.out)!r}, which holds {there[0]}",
            "choose another --out, or add --overwrite",
        )


def _write(out: Path, found: Sweep, text: str) -> None:
    """All files, or none."""
    contents = {
        "sweep.csv": found.table.to_csv(index=False).encode(),
        "sweep.png": sweep_png(found),
        "sweep.json": f"{text}\n".encode(),
    }
    with disk.write_errors(out):
        out.mkdir(parents=True, exist_ok=True)
        with files.new_folder(out) as folder, uninterrupted():
            files.fill_folder(folder, contents)
            for name in contents:
                (folder / name).replace(out / name)
