"""`pairframe bench`: measure, print, write a page, its JSON and its figures."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import typer

from pairframe.cli.bench.figures import write_figures
from pairframe.cli.bench.suite import PARTS, QUICK, WHOLE, Plan, run_suite
from pairframe.cli.bench.tables import compare_table, memory_table, page, race_table
from pairframe.cli.output import check_writable
from pairframe.cli.terminal import output, print_places, say
from pairframe.errors import InputError
from pairframe.results import disk


def run_bench(
    out: Path,
    *,
    quick: bool = False,
    scripts: Path | None = None,
    only: str | None = None,
    part: str | None = None,
    quiet: bool = False,
    plan: Plan | None = None,
) -> None:
    """Run the suite and write ``benchmarks.md``, ``benchmarks.json`` and ``images/scaling_*.png`` into a folder.

    Parameters
    ----------
    scripts : Path, optional
        The repository's ``benchmarks`` folder; its longer scripts are run too.
    only : str, optional
        Contestants, separated by commas; ours is always among them.
    part : str, optional
        Measure this part again, and keep the others of the ``benchmarks.json`` that is there.
    """
    from pairframe.cli.bench.solvers import OURS, SOLVERS

    check_writable(out)
    chosen = None if only is None else tuple({OURS, *(name.strip() for name in only.split(","))})
    unknown = sorted(set(chosen or ()) - set(SOLVERS))
    if unknown:
        raise InputError(f"contestants: {', '.join(SOLVERS)}", repr(unknown[0]), "e.g. --only pot,ott")
    if scripts is not None and not scripts.is_dir():
        raise InputError("the repository's folder of benchmarks", repr(str(scripts)), "leave --scripts out elsewhere")
    if part is not None and part not in PARTS:
        raise InputError(f"a part: {', '.join(PARTS)}", repr(part), "e.g. --part curves")
    before = None if part is None else _earlier(out / "benchmarks.json")
    plan = plan or (QUICK if quick else WHOLE)
    tell = (lambda _: None) if quiet else say
    report = run_suite(plan, tell, scripts=scripts, quick=quick, only=chosen, parts=PARTS if part is None else (part,))
    if before is not None:
        assert part is not None
        report = before | {part: report[part], "parts": before["parts"] | report["parts"]}
    pictures = write_report(report, out)
    if not quiet:
        for one in report["races"]:
            typer.echo(race_table(one, report["tols"]) + "\n")
        typer.echo(compare_table(report["compare"]) + "\n")
        typer.echo(memory_table(report["memory"]) + "\n")
        places: dict[str, Any] = {
            "page": out / "benchmarks.md",
            "figures": out / "benchmarks.json",
            "pictures": pictures,
        }
        print_places(output(), places)


def _earlier(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text())
        return {"parts": {}} | found
    except (OSError, ValueError) as error:
        raise InputError(
            "the benchmarks.json of an earlier run", f"{str(path)!r}: {error}", "leave --part out"
        ) from error


def write_report(report: dict[str, Any], out: Path) -> Path:
    """``benchmarks.md``, ``benchmarks.json`` and the figures; returns the folder of the last."""
    pictures = out / "images"
    with disk.write_errors(out):
        out.mkdir(parents=True, exist_ok=True)
        write_figures(report, pictures)
        content = json.dumps(strict(report), indent=1, allow_nan=False) + "\n"
        disk.replace_file(out / "benchmarks.json", content.encode())
        disk.replace_file(out / "benchmarks.md", page(report).encode())
    return pictures


def strict(value: Any) -> Any:
    """The same with what JSON has no word for (NaN, infinity) as null."""
    if isinstance(value, dict):
        return {name: strict(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [strict(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
