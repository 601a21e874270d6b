"""Do all engines say the same? Every engine against the oracle, on every problem of the shipped table.

    python benchmarks/concordance.py [--quick]

Prints the table of docs/concordance.md: the worst difference of each engine and dtype over a family of problems. Writes
benchmarks/out/concordance.json with every single one. It measures agreement, not time.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, fields
from typing import Any

from harness import write_json
from pairframe.engines import SolveOptions, Status, get_engine
from pairframe.testing import Agreement, agreement
from pairframe.testing.problems import CANONICAL, FEATURES, RAW, Case, canonical_masks

ENGINES = ("grid", "pot", "ott", "torch")
TOL = {"float64": 1e-8, "float32": 2e-5}
QUANTITIES = [field.name for field in fields(Agreement)]


def families(quick: bool) -> dict[str, tuple[Case, ...]]:
    large = (
        ()
        if quick
        else tuple(canonical_masks(shape, eps, s=4) for shape in ("discs", "embryos") for eps in (1e-4, 1e-5))
    )
    return {
        "discs at 40 to 60 px, eps 0.1 to 10": RAW,
        "canonical grid, eps 1e-4": tuple(case for case in (*CANONICAL, *large) if "eps 0.0001" in case.name),
        "canonical grid, eps 1e-5": tuple(case for case in (*CANONICAL, *large) if "eps 1e-05" in case.name),
        "penalties, references, metrics": FEATURES,
    }


def measure(engine: str, case: Case, dtype: str) -> dict[str, Any]:
    solver, options = get_engine(engine), SolveOptions(tol=TOL[dtype], max_iterations=100_000, dtype=dtype)
    if solver.supports(case.problem, options) is not None:
        return {"status": "refused"}
    solution = solver.run(case.problem, options)
    found = asdict(agreement(solution, case.truth)) if solution.status is Status.converged else {}
    return {"status": str(solution.status), "iterations": solution.iterations, **found}


def main(quick: bool) -> None:
    report: dict[str, Any] = {"tol": TOL, "rows": []}
    print(
        "| problems | engine | numbers | solved | " + " | ".join(name.replace("_", " ") for name in QUANTITIES) + " |"
    )
    print("|---|---|---|---|" + "---|" * len(QUANTITIES))
    for family, cases in families(quick).items():
        for engine in ENGINES:
            for dtype in TOL:
                rows = [
                    {
                        "family": family,
                        "case": case.name,
                        "engine": engine,
                        "dtype": dtype,
                        **measure(engine, case, dtype),
                    }
                    for case in cases
                ]
                report["rows"] += rows
                solved = [row for row in rows if row["status"] == "converged"]
                stated = [row for row in rows if row["status"] != "refused"]
                worst = [f"{max(row[name] for row in solved):.0e}" if solved else "-" for name in QUANTITIES]
                print(
                    f"| {family} | {engine} | {dtype} | {len(solved)} of {len(stated)} | " + " | ".join(worst) + " |",
                    flush=True,
                )
    write_json("concordance", report)


if __name__ == "__main__":
    main("--quick" in sys.argv)
