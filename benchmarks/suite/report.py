"""Run the suite and write its page, its JSON and its figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from suite.figures import write_figures
from suite.parts import PARTS, QUICK, WHOLE, Plan, run_suite
from suite.solvers import OURS
from suite.tables import compare_table, memory_table, page, race_table


def run_bench(
    out: Path,
    *,
    quick: bool = False,
    scripts: Path | None = None,
    only: tuple[str, ...] | None = None,
    part: str | None = None,
    plan: Plan | None = None,
) -> None:
    """Run the suite and write ``benchmarks.md``, ``benchmarks.json`` and ``images/scaling_*.png`` into a folder.

    Parameters
    ----------
    scripts : Path, optional
        Folder of the longer scripts, to run them too.
    only : tuple of str, optional
        Contestants; ours is always among them. All that are installed if not given.
    part : str, optional
        Measure this part again, and keep the others from the ``benchmarks.json`` in `out`.
    """
    before = None if part is None else {"parts": {}} | json.loads((out / "benchmarks.json").read_text())
    report = run_suite(
        plan or (QUICK if quick else WHOLE),
        print,
        scripts=scripts,
        quick=quick,
        only=None if only is None else (OURS, *only),
        parts=PARTS if part is None else (part,),
    )
    if before is not None and part is not None:
        report = before | {part: report[part], "parts": before["parts"] | report["parts"]}
    write_report(report, out)
    for one in report["races"]:
        print(race_table(one, report["tols"]), end="\n\n")
    print(compare_table(report["compare"]), end="\n\n")
    print(memory_table(report["memory"]), end="\n\n")
    print(f"written: {out / 'benchmarks.md'}, benchmarks.json and images/")


def write_report(report: dict[str, Any], out: Path) -> None:
    """Write ``benchmarks.md``, ``benchmarks.json`` and the figures into a folder."""
    out.mkdir(parents=True, exist_ok=True)
    write_figures(report, out / "images")
    (out / "benchmarks.json").write_text(json.dumps(json_values(report), indent=1, allow_nan=False) + "\n")
    (out / "benchmarks.md").write_text(page(report))


def json_values(report: dict[str, Any]) -> dict[str, Any]:
    """The same report with NaN and infinity as null, which is all that JSON has for them."""
    found: dict[str, Any] = json.loads(json.dumps(report), parse_constant=lambda _: None)
    return found
