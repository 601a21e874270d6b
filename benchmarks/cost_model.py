"""What does a pair cost, from its pixels, eps and lam; and what would 1e5 or 1e7 pairs cost on a cluster?

    python benchmarks/cost_model.py [--quick | --page]

`--page` measures nothing and writes the tables again.

One core in one process: masks are read from PNG files, compared with maps and both self-problems, and kept in a store. Seconds are
fitted on four sizes, and checked on four that the fit has not seen (two between them, one above, one below); memory, bytes on
disk and the table's rows likewise. Seconds are the least CPU seconds of 10 to 30 runs in five visits spread over the whole
measurement: a machine that others use too is slow for seconds at a time, and the least of runs in a row is then slow as well. Memory is
the median of five processes that do nothing else. Then the fitted costs go into bounds and a simulation of a cluster. Writes benchmarks/out/cost_model.json, the same as docs/scaling.json, and the tables between the
marks in docs/scaling.md.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import asdict
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np

from cluster_model import Cluster, CostModel, Measured, PairCost, bounds_s, fit, line, relative_errors, simulate_s
from harness import Contestant, peak_extra_mb_of, serve, write_json
from pairframe.cohort.run.table_writer import COMMIT_SHARE
from pairframe.results.store import FILES_PER_PAIR

PAGE = Path(__file__).parents[1] / "docs" / "scaling.md"
FIGURES = PAGE.with_suffix(".json")
MARKS = ("<!-- cost model: begin, written by benchmarks/cost_model.py -->", "<!-- cost model: end -->")
FIT_SCALES, CHECK_SCALES = (0.25, 0.5, 1.0, 2.0), (0.1875, 0.375, 0.75, 3.0)  # of 256 x 576 pixels
BLURS_PX, REACHES_PX = (2.0, 4.0, 8.0, 16.0), (20.0, 50.0, 1000.0)
CHECK_BLURS_PX, CHECK_REACHES_PX = (3.0, 6.0), (35.0, 200.0)  # nor these
MEMORY_PROCESSES = 5
ROWS = (1_000, 4_000, 16_000)  # of a table; fitted on the outer two, checked on the middle one
WORKERS, PAIRS = (16, 256, 4096), (100_000, 10_000_000)
VISITS = 5
WITHIN = 0.30
LINES = {
    "extra_bytes": "memory above imports",
    "disk_bytes": "bytes on disk",
    "write_s": "seconds to write",
    "file_bytes": "row of the table, on disk",
    "memory_bytes": "row of the table, in memory",
    "commit_s": "rewriting the table",
}
ONE_CORE = {"NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


# --- jobs, in processes of their own ---------------------------------------------------------


def pair_files(folder: Path, scale: float) -> tuple[Path, Path]:
    import pairframe as pf
    from suite.problems import PairSpec, masks_of

    paths = folder / f"source-{scale:g}.png", folder / f"target-{scale:g}.png"
    if not paths[1].exists():
        for path, mask in zip(paths, masks_of(PairSpec(scale=scale)), strict=True):
            pf.write_mask(pf.Mask.from_array(mask), path)
    return paths


def pair(setting: dict[str, Any]) -> dict[str, Any]:
    """One comparison, and keeping it."""
    import pairframe as pf
    from pairframe.parallel.threads import at_most
    from pairframe.pipeline.self_problem import clear_self_cache
    from pairframe.results import ResultStore, disk

    source, target = pair_files(Path(setting["folder"]), setting["scale"])
    config = pf.TransportConfig(blur_um=setting["blur_px"], reach_um=setting["reach_px"], penalty="kl")
    store = ResultStore(Path(setting["folder"]) / "store")
    compare_s, write_s = [], []
    # More where a run is short: there the machine's noise is largest.
    while len(compare_s) < setting["repeats"] or (len(compare_s) < 3 * setting["repeats"] and sum(compare_s) < 0.4):
        clear_self_cache()  # the worst case: in a series each mask's self-problem is solved once, not twice
        began = process_time()
        with at_most(1):
            result = pf.compare(source, target, config)
        compare_s.append(process_time() - began)
        began = perf_counter()
        row = store.write_maps(result, f"{setting['scale']:g}")
        write_s.append(perf_counter() - began)
    return {
        "work_px": int(np.prod(result.transform.work_shape_hw)),
        "canvas_px": int(np.prod(result.transform.canon_shape_hw)),
        "status": str(result.status),
        "iterations": result.iterations,
        "seconds": min(compare_s),
        "write_s": min(write_s),
        "disk_bytes": disk.group_file(store.maps_path, row["maps_group"]).stat().st_size,
    }


def memory(setting: dict[str, Any]) -> dict[str, Any]:
    """Peak memory of one comparison: above the imports, and what those take."""
    import pairframe as pf

    source, target = pair_files(Path(setting["folder"]), setting["scale"])
    pf.compare(*pair_files(Path(setting["folder"]), 1 / 16))
    resident = int(
        next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith("VmRSS")).split()[1]
    )
    config = pf.TransportConfig(blur_um=4.0, reach_um=50.0, penalty="kl")
    extra = peak_extra_mb_of(partial(pf.compare, source, target, config))
    return {"extra_bytes": extra * 2**20, "imports_bytes": resident * 1024}


def table(setting: dict[str, Any]) -> dict[str, Any]:
    """Reading, extending and writing a table of so many rows; and what one more row adds."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    import pairframe as pf
    from pairframe.results.rows import result_row
    from pairframe.results.table import table_bytes, upsert
    from pairframe.testing import disc

    result = pf.compare(disc((24, 24), (10, 10), 5), disc((24, 24), (12, 12), 6))
    base = result_row(result, "pair", "pair-00000000")
    rng = np.random.default_rng(0)
    numbers = [name for name, value in base.items() if isinstance(value, float)]

    def rows(first: int, n: int) -> list[Any]:
        # Figures of their own in each row, as real ones have: otherwise the file is mostly compression.
        values = rng.random((n, len(numbers)))
        return [
            {**base, "pair_id": f"series{i % 997}_t{i}-t{i + 1}", "maps_group": f"series_{i}-{i:08x}"}
            | dict(zip(numbers, values[i - first].tolist(), strict=True))
            for i in range(first, first + n)
        ]

    old = upsert(None, rows(0, setting["rows"]))
    new = rows(setting["rows"], 100)
    content = table_bytes(old)
    commits_s, new_s = [], []
    for _ in range(3):
        began = process_time()
        extended = upsert(pq.read_table(pa.BufferReader(content)), new)
        table_bytes(extended)
        commits_s.append(process_time() - began)
        began = process_time()
        upsert(None, new)
        new_s.append(process_time() - began)
    return {
        "commit_s": min(commits_s),
        "new_row_s": min(new_s) / len(new),
        "file_bytes": len(content),
        "memory_bytes": extended.nbytes,
    }


JOBS = {job.__name__: job for job in (pair, memory, table)}


# --- measure, fit, check ---------------------------------------------------------------------


def measure(folder: Path, quick: bool) -> dict[str, Any]:
    fit_scales, check_scales = (FIT_SCALES[:3], CHECK_SCALES[:3]) if quick else (FIT_SCALES, CHECK_SCALES)
    found: dict[str, Any] = {"fit": [], "check": [], "memory": [], "table": []}
    with Contestant(__file__, "pair", **ONE_CORE) as one:
        one(folder=str(folder), scale=1 / 16, blur_px=2.0, reach_px=50.0, repeats=1)  # loads the compiled code
        settings = [
            (name, {"scale": scale, "blur_px": blur, "reach_px": reach, "repeats": 1 if quick else 2})
            for name, scales, blurs, reaches in (
                ("fit", fit_scales, BLURS_PX, REACHES_PX),
                ("check", check_scales, CHECK_BLURS_PX, CHECK_REACHES_PX),
            )
            for scale, blur, reach in product(scales, blurs, reaches)
        ]
        visits: list[list[dict[str, Any]]] = [[] for _ in settings]
        rng = np.random.default_rng(0)
        for _ in range(1 if quick else VISITS):
            # In any order: what the machine does meanwhile must not fall on one of the two alone.
            for place in rng.permutation(len(settings)):
                visits[place].append(one(folder=str(folder), **settings[place][1]))
        for (name, setting), answers in zip(settings, visits, strict=True):
            least = {key: min(answer[key] for answer in answers) for key in ("seconds", "write_s")}
            found[name].append(setting | answers[0] | least)
    for scale in (*fit_scales, *check_scales):
        answers = []
        for _ in range(1 if quick else MEMORY_PROCESSES):
            with Contestant(__file__, "memory", **ONE_CORE) as fresh:
                answers.append(fresh(folder=str(folder), scale=scale))
        found["memory"].append(
            {"scale": scale} | {key: median(answer[key] for answer in answers) for key in answers[0]}
        )
    with Contestant(__file__, "table", **ONE_CORE) as one:
        one(rows=10)
        found["table"] = [{"rows": rows} | one(rows=rows) for rows in ROWS]
    return found


def measured(rows: list[dict[str, Any]]) -> list[Measured]:
    names = ("work_px", "blur_px", "reach_px", "iterations", "seconds")
    return [Measured(**{name: row[name] for name in names}) for row in rows if row["status"] == "converged"]


def error_words(errors: np.ndarray) -> dict[str, float]:
    size = np.abs(errors)
    return {
        "median": float(np.median(size)),
        "worst": float(size.max()),
        "share_within": float((size <= WITHIN).mean()),
        "n": len(size),
    }


def lines(found: dict[str, Any]) -> dict[str, Any]:
    """Everything that is a constant plus so much per canvas pixel (or per row), with its error on what it was not fitted on."""
    canvas = {row["scale"]: row["canvas_px"] for name in ("fit", "check") for row in found[name]}
    fit_scales = {row["scale"] for row in found["fit"]}
    points: dict[str, list[tuple[float, float, bool]]] = {"disk_bytes": [], "write_s": [], "extra_bytes": []}
    for row in [*found["fit"], *found["check"]]:
        for name in ("disk_bytes", "write_s"):
            points[name].append((row["canvas_px"], row[name], row["scale"] in fit_scales))
    for row in found["memory"]:
        points["extra_bytes"].append((canvas[row["scale"]], row["extra_bytes"], row["scale"] in fit_scales))
    for name in ("commit_s", "file_bytes", "memory_bytes"):
        points[name] = [(row["rows"], row[name], row["rows"] != ROWS[1]) for row in found["table"]]
    fitted = {}
    for name, triples in points.items():
        constant, slope = line(*zip(*[(x, y) for x, y, used in triples if used], strict=True))
        errors = np.array([(constant + slope * x) / y - 1.0 for x, y, used in triples if not used])
        fitted[name] = {"constant": constant, "slope": slope, "check": error_words(errors)}
    return fitted


def pair_cost(
    model: CostModel, fitted: dict[str, Any], found: dict[str, Any], scale: float, blur_px: float
) -> PairCost:
    """A default-like pair of embryos at that scale; blur in its pixels, reach 25 blurs."""
    row = next(row for row in found["fit"] if row["scale"] == scale)
    canvas, work = row["canvas_px"], row["work_px"]
    on = {name: part["constant"] + part["slope"] * canvas for name, part in fitted.items()}
    return PairCost(
        compute_s=model.seconds(work, blur_px, 25 * blur_px),
        write_s=on["write_s"],
        disk_bytes=on["disk_bytes"],
        files=FILES_PER_PAIR,
        row_s=(1 + COMMIT_SHARE) * median(row["new_row_s"] for row in found["table"]),  # and the share for rewriting
        row_bytes=fitted["file_bytes"]["slope"],
        memory_bytes=on["extra_bytes"] + median(row["imports_bytes"] for row in found["memory"]),
    )


# --- tell ------------------------------------------------------------------------------------


def duration(seconds: float) -> str:
    for unit, size in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.2g} s"


def bytes_words(size: float) -> str:
    for unit, one in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= one:
            return f"{size / one:.3g} {unit}"
    return f"{size:.0f} B"


def cluster_rows(pairs: dict[str, PairCost], fitted: dict[str, Any]) -> list[dict[str, Any]]:
    rows = []
    for n_pairs in PAIRS:
        for label, cost in pairs.items():
            for workers in WORKERS:
                cluster = Cluster(workers)
                bounds = bounds_s(n_pairs, cost, cluster)
                rows.append(
                    {
                        "pairs": n_pairs,
                        "pair": label,
                        "workers": workers,
                        "bounds_s": bounds,
                        "bounded_by": max(bounds, key=bounds.__getitem__),
                        "simulated_s": simulate_s(n_pairs, cost, cluster),
                        "core_hours": n_pairs * (cost.compute_s + cost.write_s) / 3600,
                        "disk_bytes": n_pairs * cost.disk_bytes,
                        "files": n_pairs * cost.files,
                        "table_bytes": n_pairs * cost.row_bytes,
                        "table_memory_bytes": n_pairs * fitted["memory_bytes"]["slope"],
                        "table_rewrite_s": n_pairs * fitted["commit_s"]["slope"],
                    }
                )
    return rows


def tables(report: dict[str, Any]) -> str:
    """Markdown for the page."""
    model, check, fitted = report["model"], report["check"], report["lines"]
    k, t = model["k"], model["t"]
    kind = " A quick run: fewer sizes, one measurement of each." if report["quick"] else ""
    law = (
        f"Commit `{report['commit']}`, {report['machine']}, one core.{kind}\n\n"
        f"```text\niterations = 8 + {np.exp(k[0]):.3g} (L / blur)^{k[1]:.2f} (min(reach, L) / blur)^{k[2]:.2f}\n"
        f"seconds    = {t[0]:.2g} + work_px ({t[1]:.2g} + {t[2]:.2g} blur + {t[3]:.2g} iterations)\n```"
    )
    text = [
        "| per pair | constant | per canvas pixel | error where it was not fitted: median, worst, share within 30 % |",
        "|---|---|---|---|",
        f"| seconds | as above | | {_errors(check)} |",
    ]
    for name, show in (
        ("extra_bytes", bytes_words),
        ("disk_bytes", bytes_words),
        ("write_s", lambda s: f"{s:.2g} s"),
    ):
        part = fitted[name]
        text.append(f"| {LINES[name]} | {show(part['constant'])} | {show(part['slope'])} | {_errors(part['check'])} |")
    text += [
        f"| files | {report['files']} | | |",
        f"| {LINES['file_bytes']} | | {bytes_words(fitted['file_bytes']['slope'])} per row | {_errors(fitted['file_bytes']['check'])} |",
        f"| {LINES['memory_bytes']} | | {bytes_words(fitted['memory_bytes']['slope'])} per row | {_errors(fitted['memory_bytes']['check'])} |",
        f"| {LINES['commit_s']} | {fitted['commit_s']['constant']:.2g} s | {1e6 * fitted['commit_s']['slope']:.2g} µs per row | {_errors(fitted['commit_s']['check'])} |",
    ]
    checks = {"seconds": check} | {words: fitted[name]["check"] for name, words in LINES.items()}
    misses = [f"{words} ({100 * part['worst']:.0f} %)" for words, part in checks.items() if part["worst"] > WITHIN]
    bar = f"The bar is {100 * WITHIN:.0f} % everywhere. Worst errors beyond it: {', '.join(misses) or 'none'}."
    head = (
        "| pairs | each | cores | core hours | simulated | bounded by | next bound | disk | files | table: file, memory, one rewrite |\n"
        "|---|---|---|---|---|---|---|---|---|---|"
    )
    body = []
    for row in report["cluster"]:
        ordered = sorted(row["bounds_s"].items(), key=lambda item: -item[1])
        body.append(
            f"| {row['pairs']:.0e} | {row['pair']} | {row['workers']} | {row['core_hours']:,.0f} | {duration(row['simulated_s'])} "
            f"| {ordered[0][0]} ({duration(ordered[0][1])}) | {ordered[1][0]} ({duration(ordered[1][1])}) | {bytes_words(row['disk_bytes'])} "
            f"| {row['files']:.1e} | {bytes_words(row['table_bytes'])}, {bytes_words(row['table_memory_bytes'])}, {duration(row['table_rewrite_s'])} |"
        )
    return "\n\n".join([law, "\n".join(text), bar, "\n".join([head, *body])])


def _errors(check: dict[str, float]) -> str:
    return f"{100 * check['median']:.0f} %, {100 * check['worst']:.0f} %, {100 * check['share_within']:.0f} % of {check['n']}"


def put_between_marks(page: Path, content: str) -> None:
    before, _, rest = page.read_text().partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    page.write_text(f"{before}{MARKS[0]}\n\n{content}\n\n{MARKS[1]}{after}")


def write_page() -> str:
    """The tables of docs/scaling.json, worked out again from what was measured, into the page as well."""
    report = json.loads(FIGURES.read_text())
    report |= worked_out(report["measured"])
    FIGURES.write_text(json.dumps(report, indent=1) + "\n")
    text = tables(report)
    put_between_marks(PAGE, text)
    return text


def worked_out(found: dict[str, Any]) -> dict[str, Any]:
    """All that follows from what was measured."""
    model = fit(measured(found["fit"]))
    errors = relative_errors(model, measured(found["check"]))
    fitted = lines(found)
    pairs = {
        "256 x 576 px, blur 4 px": pair_cost(model, fitted, found, 1.0, 4.0),
        "128 x 288 px, blur 2 px": pair_cost(model, fitted, found, 0.5, 2.0),
    }
    return {
        "model": asdict(model),
        "fit_error": error_words(relative_errors(model, measured(found["fit"]))),
        "check": error_words(errors),
        "check_by_size": {
            f"{scale:g}": error_words(
                errors[[row["scale"] == scale for row in found["check"] if row["status"] == "converged"]]
            )
            for scale in sorted({row["scale"] for row in found["check"]})
        },
        "lines": fitted,
        "files": FILES_PER_PAIR,
        "pair": {label: asdict(cost) for label, cost in pairs.items()},
        "cluster": cluster_rows(pairs, fitted),
        "assumed": asdict(Cluster(1)),
    }


def main(quick: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder), quick)
    report = {"quick": quick, **worked_out(found), "measured": found}
    FIGURES.write_text(write_json("cost_model", report).read_text())
    print(write_page())
    print(f"\nfitted on: {_errors(report['fit_error'])}; not fitted on: {_errors(report['check'])}; bar {WITHIN:.0%}")
    for scale, words in report["check_by_size"].items():
        print(f"  scale {scale}: {_errors(words)}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(JOBS[sys.argv[2]])
    elif sys.argv[1:] == ["--page"]:
        write_page()
    else:
        main("--quick" in sys.argv)
