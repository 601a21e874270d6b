"""`pairframe lineage`: follow the labelled objects of a series, and write tables, exports and a movie."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer
from numpy.typing import NDArray

from pairframe import files
from pairframe.cli.images_only import refuse_volumes_to_follow
from pairframe.cli.output import check_writable, names_in
from pairframe.cli.terminal import activity, output, print_places, say, uninterrupted
from pairframe.errors import OutputError
from pairframe.masks.headers import count_pages
from pairframe.masks.io import read_labels
from pairframe.masks.spec import parse_spec
from pairframe.plain_json import plain
from pairframe.problem import TransportConfig
from pairframe.regions import Lineage, LinkRule, lineage, write_ctc, write_geff
from pairframe.report.figures import write_lineage_movie
from pairframe.results import disk

if TYPE_CHECKING:
    import pandas as pd

FILES = {
    "objects": "objects.csv",
    "links": "links.csv",
    "tracks": "tracks.csv",
    "movie": "lineage.gif",
    "Cell Tracking Challenge": "ctc",
    "graph": "lineage.geff",
    "summary": "lineage.json",
}
_MANY_BROKEN = 0.1  # share of all events; more appearances and disappearances than that are rarely real


@dataclass(frozen=True)
class LineageJob:
    """The arguments of `pairframe lineage`."""

    stack: list[str]
    out: Path
    config: TransportConfig
    most: float = 0.5
    least: float = 0.1
    jobs: int | None = None

    @property
    def rule(self) -> LinkRule:
        """When a flow is a link."""
        return LinkRule(self.most, self.least)


def run_lineage(job: LineageJob, *, as_json: bool = False, quiet: bool = False) -> None:
    """Follow, write, tell; exit code 1 if some pair of frames is not certified."""
    rule = job.rule
    check_writable(job.out)
    found_names = sorted(names_in(job.out))
    if found_names:
        raise OutputError(
            "a new or empty folder",
            f"{str(job.out)!r}, which holds {ascii(found_names[0])[:80]}",
            "choose another folder with --out",
        )
    refuse_volumes_to_follow(job.stack, job.config)
    with activity(quiet=quiet) as now:
        now.step("reading")
        frames, px_size_um = read_frames(job.stack)
        now.step("comparing frames", 0, len(frames) - 1)
        found = lineage(
            frames,
            job.config,
            px_size_um=px_size_um,
            rule=rule,
            jobs=job.jobs,
            progress=lambda done, total: now.step("comparing frames", done, total),
        )
        now.step("writing")
        summary = _write(job, found)
    if as_json:
        typer.echo(json.dumps(plain(summary), allow_nan=False))
    elif not quiet:
        _tell(job, found)
    if found.unsolved:
        frames_text = ", ".join(map(str, found.unsolved[:10]))
        say(f"pairframe: not certified: frame {frames_text} to the next one; raise --max-iterations or --blur-um")
        raise typer.Exit(1)


def read_frames(stack: list[str]) -> tuple[list[NDArray[np.integer]], float | None]:
    """Label images of all pages of a stack, or of several files in the order given, and their pixel size."""
    specs = []
    for name in stack:
        page = parse_spec(name).page
        specs += [(name, k) for k in (range(count_pages(name)) if page is None else [page])]
    read = [read_labels(name, page=page) for name, page in specs]
    sizes = [size for _, size in read if size is not None]
    return [labels for labels, _ in read], sizes[0] if sizes else None


def _write(job: LineageJob, found: Lineage) -> dict[str, Any]:
    """Write everything at once: a folder that is not complete does not appear."""
    summary = {
        "frames": len(found.frames),
        "objects": len(found.objects),
        "tracks": len(found.tracks),
        "events": found.events,
        "reach_um": found.config.reach_um,
        "length_unit": found.units.length,
        "rule": {"most": job.most, "least": job.least},
        "not_certified": list(found.unsolved),
        "config": json.loads(found.config.to_json()),
        "files": {what: str(job.out / name) for what, name in FILES.items()},
    }
    with disk.write_errors(job.out):
        was_there = job.out.exists()
        job.out.mkdir(parents=True, exist_ok=True)
        try:
            with files.new_folder(job.out) as folder:
                tables: dict[str, pd.DataFrame] = {
                    "objects": found.objects,
                    "links": found.links,
                    "tracks": found.tracks,
                }
                for name, table in tables.items():
                    files.replace_file(folder / FILES[name], table.to_csv(index=False).encode(), flush=False)
                write_ctc(found, folder / FILES["Cell Tracking Challenge"])
                write_geff(found, folder / FILES["graph"])
                write_lineage_movie(found, folder / FILES["movie"])
                text = json.dumps(plain(summary), allow_nan=False, indent=1)
                files.replace_file(folder / FILES["summary"], f"{text}\n".encode(), flush=False)
                with uninterrupted():
                    files.flush_all([folder])
                    for path in folder.iterdir():
                        path.replace(job.out / path.name)
        except BaseException:  # Ctrl-C too: a folder that was made for this goes again
            if not was_there and not names_in(job.out):
                job.out.rmdir()
            raise
    return summary


def _tell(job: LineageJob, found: Lineage) -> None:
    console = output()
    console.print(
        f"{len(found.frames)} frames, {len(found.objects)} objects, {len(found.tracks)} tracks; reach "
        f"{_reach_text(found)}"
    )
    for name, count in found.events.items():
        console.print(f"{name:<10} {count}")
    shares = found.links[["share_of_source", "share_of_target"]].max(axis=1)
    if len(shares):
        console.print(
            f"links      {len(shares)}, supported by {100 * shares.median():.0f} % of the smaller object (median)"
        )
    broken = found.events["appears"] + found.events["vanishes"]
    if job.config.align == "none" and broken > _MANY_BROKEN * sum(found.events.values()):
        console.print(
            f"{broken} of {sum(found.events.values())} events are objects that appear or vanish: if the stage or the "
            "colony moved, try --align shift"
        )
    console.print()
    print_places(console, {what: job.out / name for what, name in FILES.items()})


def _reach_text(found: Lineage) -> str:
    """The reach with its unit."""
    reach = found.config.reach_um
    return "as configured" if reach is None else f"{reach:.4g} {found.units.length_text}"
