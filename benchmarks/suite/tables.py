"""The report as a Markdown page: tables of times, ratios and memory, and the method."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from suite.curves import TOL
from suite.race import key
from suite.rounds import seconds_to
from suite.solvers import OURS, SOLVERS
from suite.words import HOW_MEASURED, WHAT_DIFFERS


def page(report: dict[str, Any]) -> str:
    """The whole page."""
    blocks = [
        "# Benchmarks",
        _provenance(report),
        HOW_MEASURED,
        "## Time to a certified answer",
        *(race_table(one, report["tols"]) for one in report["races"]),
        "![Certified error of each timed run against its time](images/scaling_accuracy.png)",
        WHAT_DIFFERS,
        "## A whole comparison",
        compare_table(report["compare"]),
        "## Memory",
        memory_table(report["memory"]),
        "## Scaling",
        f"All to a certified accuracy of {TOL:.0e}. An open marker with an arrow means that the accuracy was not reached in that time.",
        *(f"![Time against {name}](images/scaling_{name}.png)" for name in ("pixels", "blur", "ratio", "pairs")),
        scripts_section(report["scripts"]),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def race_table(one: dict[str, Any], tols: Iterable[float]) -> str:
    """One pair: seconds to each accuracy, and how many times ours that is."""
    rows, spec, tols = one["rows"], one["spec"], list(tols)
    if all(row.get("ended") == "not run" for row in rows.values()):
        return f"**{one['setting'].capitalize()}** (scale {spec['scale']:g}): not run, the time was up."
    ours = rows.get(OURS, {})
    points = next((row["points"] for row in rows.values() if "points" in row), ["?", "?"])
    title = f"**{one['setting'].capitalize()}**, {points[0]} source and {points[1]} target pixels (scale {spec['scale']:g}), seconds:"
    head = ["", *(f"to {tol:.0e}" for tol in tols), *(f"/ ours, {tol:.0e}" for tol in tols), "error at the end"]
    body = []
    for name, row in rows.items():
        cells = [_time_cell(row, tol) for tol in tols]
        ratios = [_ratio_cell(row, ours, tol) for tol in tols]
        body.append([SOLVERS[name].label, *cells, *ratios, _end_words(row, one["limit_s"])])
    return f"{title}\n\n{_table(head, body)}"


def _time_cell(row: dict[str, Any], tol: float) -> str:
    found = row.get("times", {}).get(key(tol))
    if found is not None:
        return f"{_short(found['median_s'])} ({_short(found['min_s'])}–{_short(found['max_s'])}, n={found['runs']})"
    last = row.get("last", {}).get("seconds")
    return f"> {_short(last)}" if last is not None and row["ended"] == "limit" else "–"


def _ratio_cell(row: dict[str, Any], ours: dict[str, Any], tol: float) -> str:
    mine, theirs = seconds_to(ours, tol), seconds_to(row, tol)
    if mine is None:
        return "–"
    if theirs is not None:
        return f"{theirs / mine:.3g}"
    last = row.get("last", {}).get("seconds")
    return f"> {last / mine:.3g}" if last is not None and row["ended"] == "limit" else "–"


def _end_words(row: dict[str, Any], limit_s: float) -> str:
    ended = row.get("ended", "")
    if ended == "met":
        best = min(row.get("times", {}).values(), key=lambda time: time["marginal_error"], default=None)
        if best is None:
            return "met"
        return _errors(best)
    last = row.get("last", {})
    if "relative_gap" not in last and row.get("trace"):  # the time was up before the last effort could be timed
        last = dict(zip(("seconds", "relative_gap", "marginal_error"), row["trace"][-1], strict=True))
    if "relative_gap" in last:
        return (
            f"stopped by the limit of {limit_s:g} s at {_errors(last)}"
            if ended == "limit"
            else f"stuck at {_errors(last)}"
        )
    return f"{ended}: {row['why']}" if row.get("why") else ended


def compare_table(found: list[dict[str, Any]]) -> str:
    """`compare` with everything, by resolution."""
    body = [
        [
            f"{one['pixels']:,}",
            _short(one["times"]["median_s"]),
            f"{_short(one['times']['min_s'])}–{_short(one['times']['max_s'])}",
            f"{one['times']['relative_gap']:.0e}",
            f"{one['times']['marginal_error']:.0e}",
        ]
        for one in found
        if "times" in one
    ]
    return (
        "`pf.compare` with the heat reference, tol 1e-6 and the default penalty of the version above (0.1.0: `kl`; since 0.2.0: `partial`), "
        "from the frame and the solve to both self-problems and all maps.\n\n"
        + _table(["pixels with mass", "seconds", "spread", "relative gap", "marginal error"], body)
    )


def memory_table(found: list[dict[str, Any]]) -> str:
    """Peaks by contestant and resolution."""
    head = ["MB above imports (whole process)", *(f"{one['pixels']:,} pixels" for one in found)]
    names = list(dict.fromkeys(name for one in found for name in one["rows"]))
    body = [[_label(name), *(_memory_cell(one["rows"].get(name, {})) for one in found)] for name in names]
    return (
        "Peak resident memory of a fresh process during one solve with little effort; later iterations reuse the memory of the first.\n\n"
        + _table(head, body)
    )


def _memory_cell(row: dict[str, Any]) -> str:
    if "extra_mb" in row:
        return f"{row['extra_mb']:.0f} ({row['peak_mb']:.0f})"
    if "refused" in row:
        return "not tried: " + str(row["refused"]).split(" (")[0].split(" need an estimated ")[-1] + " at least"
    return str(row.get("why", "–"))


def scripts_section(scripts: dict[str, Any]) -> str:
    """The output of the longer scripts."""
    parts = []
    for name, found in scripts.items():
        parts.append(f"## Script `benchmarks/{name}.py`")
        if found["ended"] != "done":
            parts.append(f"{found['ended']}: {found['why']}")
        if found.get("printed"):
            lines = [line for line in found["printed"] if not line.startswith("```")]  # a fence within a fence ends it
            parts.append("```text\n" + "\n".join(lines) + "\n```")
    return "\n\n".join(parts)


def _provenance(report: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    missing = "".join(f" Missing: {reason}." for reason in report["missing"].values())
    busy = (
        " **The machine was busy with other work: ratios are rough, and times too long.**"
        if report["load_before"] > 1
        else ""
    )
    later = "".join(
        f" Measured again on {about['date']}, commit `{about['commit']}`, load {about['load_before']:g}: {part}."
        for part, about in report.get("parts", {}).items()
        if about["date"] != report["date"]
    )
    remark = f" {report['remark']}" if "remark" in report else ""  # a note by the person who ran it
    kind = "`python benchmarks/run.py --quick`" if report["quick"] else "`make bench`"
    return (
        f"Written by {kind} in {report['seconds'] / 60:.0f} minutes on {report['date']}, commit `{report['commit']}`. "
        f"Machine: {report['machine']}, load {report['load_before']:g} at the start. {_threads(report)} Python {report['python']}, {versions}.{missing}{busy}{later}{remark} "
        "All figures, with every error, are in [benchmarks.json](benchmarks.json)."
    )


def _threads(report: dict[str, Any]) -> str:
    limits = ", ".join(f"{name}={value}" for name, value in report.get("threads", {}).items())
    return f"Threads: {limits}." if limits else "Each library chooses its own number of threads."


def _errors(found: dict[str, Any]) -> str:
    """Both errors; a broken plan has infinite ones, which JSON keeps as null."""
    words = [
        "none" if found[name] is None or math.isinf(found[name]) else f"{found[name]:.0e}"
        for name in ("relative_gap", "marginal_error")
    ]
    return f"gap {words[0]}, marginals {words[1]}"


def _label(name: str) -> str:
    return "pairframe, whole `compare`" if name == "compare" else SOLVERS[name].label


def _table(head: list[str], body: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(row) + " |" for row in body]
    return "\n".join(lines)


def _short(seconds: float) -> str:
    """Three digits: 0.0123, 4.56, 78.9."""
    return f"{seconds:.3g}" if seconds < 1000 else f"{seconds:.0f}"
