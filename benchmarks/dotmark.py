"""How close and how fast is `w2` on DOTmark, beside POT's exact `emd2` and its Sinkhorn?

    PAIRFRAME_DATA=... python benchmarks/dotmark.py [--quick] [--accuracy | --timing | --page]

`--page` measures nothing and writes the tables again.

DOTmark 1.0 (Schrieber, Schuhmacher, Gottschlich 2016): ten classes of ten images, integers of equal total mass.
Accuracy: all 450 pairs at 32 px, 45 a class (``--quick``: three a class), against `emd2`, for the bounds at epsilon 1/32
px^2 before any raise, and for `w2` as it comes; on all cores. Time: every contestant lives in a process of its own on one
core, they take turns, what takes longer than 2 s is timed once and the rest three times; `emd2` and Sinkhorn get their cost
matrix for free. 8 and 16 px are block sums of the 32 px images, 128 px block sums of the 512 px Shapes. All of it ends within
twelve minutes: when time is short, fewer pairs are timed. Writes benchmarks/out/dotmark.json, the same as docs/dotmark.json,
and the tables between the marks in docs/dotmark.md.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from statistics import median, median_low
from time import perf_counter

from harness import Contestant, peak_extra_mb_of, provenance, serve, write_json
from suite.contestants import Deadline

PAGE = Path(__file__).parents[1] / "docs" / "dotmark.md"
FIGURES = PAGE.with_suffix(".json")
SMALL_EPSILON = 1 / 32
WHOLE_RUN_S = 690.0
LIMIT_S = {"ours": 60.0, "emd2": 120.0, "sinkhorn": 20.0}
EMD2_128_S = 200.0
REPEATS, ONCE_IF_LONGER_S = 3, 2.0
ONE_CORE = {"NUMBA_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
TINY = {"archive": "dotmark_official_32", "key": "Shapes", "i": 1, "j": 2, "block": 4}  # loads imports, compiled code
SHAPES_128 = {"archive": "dotmark_shapes_512", "key": "images", "i": 1, "j": 5, "block": 4}  # binary: half the pixels
COLUMNS = ("entropic", "whole", "exact")


# --- the images --------------------------------------------------------------------------------


def data_folder() -> Path | None:
    folder = Path(os.environ.get("PAIRFRAME_DATA", ""))
    return folder if "PAIRFRAME_DATA" in os.environ and (folder / "dotmark_official_32.npz").exists() else None


@cache
def archive(name: str):
    import numpy as np

    with np.load(data_folder() / f"{name}.npz") as found:
        return {key: found[key] for key in found.files}


def classes() -> list[str]:
    return [name for name in archive("dotmark_official_32") if name != "ids"]


def pair_of(setting: dict):
    """Two int64 images of equal totals: one pair of a class, block sums where `block` says so."""
    import numpy as np

    images = archive(setting["archive"])[setting["key"]]
    block = setting.get("block", 1)
    both = []
    for k in (setting["i"], setting["j"]):
        image = images[k].astype(np.int64)
        h, w = image.shape
        both.append(image.reshape(h // block, block, w // block, block).sum(axis=(1, 3)))
    a, b = both
    if a.sum() != b.sum():  # the 512 px pictures: whole multiples bring both to one total
        a, b = a // np.gcd.reduce(a.ravel()), b // np.gcd.reduce(b.ravel())
        total_a, total_b = int(a.sum()), int(b.sum())
        shared = math.gcd(total_a, total_b)
        a, b = a * (total_b // shared), b * (total_a // shared)
    return a, b


# --- contestants: seconds, value per unit of mass, peak memory when asked for ----------------------


def ours(setting: dict) -> dict:
    import pairframe as pf

    a, b = pair_of(setting)
    if setting.get("memory"):
        return {"mb": peak_extra_mb_of(lambda: pf.w2(a, b))}
    start = perf_counter()
    found = pf.w2(a, b)
    seconds = perf_counter() - start
    return {"seconds": seconds, "value": found.lower / found.total, "is_exact": found.is_exact, "raises": found.raises}


def emd2(setting: dict) -> dict:
    import ot

    a, b = pair_of(setting)
    if setting.get("memory"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # one pivot is not enough, but all arrays are made before the first
            return {"mb": peak_extra_mb_of(lambda: ot.emd2(*on_points(a, b), numItermax=1))}
    points = on_points(a, b)
    start = perf_counter()
    value = float(ot.emd2(*points, numItermax=10**9))
    return {"seconds": perf_counter() - start, "value": value}


def sinkhorn(setting: dict) -> dict:
    """POT's default Sinkhorn at reg 1/4 px^2, or the next larger power of 4 at which both marginals are met to 5 %.

    A value of None says that there was none; the seconds are then no time to anything.
    """
    import numpy as np
    import ot

    a, b, cost = on_points(*pair_of(setting))
    for reg in (0.25, 1.0, 4.0, 16.0, 64.0):
        start = perf_counter()
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            plan, log = ot.sinkhorn(a, b, cost, reg, stopThr=1e-6, numItermax=4000, log=True)
        seconds = perf_counter() - start
        off = max(float(np.abs(plan.sum(axis=1) - a).sum()), float(np.abs(plan.sum(axis=0) - b).sum()))
        if np.isfinite(plan).all() and off < 0.05:
            value = float((plan * cost).sum())
            return {"seconds": seconds, "value": value, "reg": reg, "marginal_error": off, "iterations": log["niter"]}
    return {"seconds": seconds, "value": None, "reg": None, "marginal_error": None, "iterations": None}


def closeness(setting: dict) -> dict:
    """Relative errors against emd2: c-transforms alone, whole potentials, and the flow."""
    import ot

    import pairframe as pf

    a, b = pair_of(setting)
    truth = float(ot.emd2(*on_points(a, b), numItermax=10**9)) * float(a.sum())
    small = pf.w2(a, b, epsilon=SMALL_EPSILON, max_raises=0)
    found = pf.w2(a, b)
    values = (small.entropic_lower, small.whole_lower, found.lower)
    errors = {column: abs(truth - value) / truth for column, value in zip(COLUMNS, values, strict=True)}
    return errors | {"is_exact": found.is_exact}


def on_points(a, b):
    import numpy as np

    yx_a, yx_b = np.argwhere(a > 0), np.argwhere(b > 0)
    cost = sum(np.subtract.outer(yx_a[:, axis].astype(float), yx_b[:, axis]) ** 2 for axis in range(2))
    return a[a > 0] / a.sum(), b[b > 0] / b.sum(), cost


JOBS = {job.__name__: job for job in (ours, emd2, sinkhorn, closeness)}


# --- how close ---------------------------------------------------------------------------------


def accuracy(quick: bool, about: dict) -> dict:
    """By class: median and worst error of each column, and how many pairs are certified."""
    pairs = list(itertools.combinations(range(10), 2))[:: 15 if quick else 1]
    settings = [{"archive": "dotmark_official_32", "key": name, "i": i, "j": j} for name in classes() for i, j in pairs]
    with ExitStack() as stack:
        n = os.cpu_count() or 1
        workers = [stack.enter_context(Contestant(__file__, "closeness", **ONE_CORE)) for _ in range(n)]
        with ThreadPoolExecutor(n) as threads:
            parts = threads.map(lambda k: [workers[k](**setting) for setting in settings[k::n]], range(n))
            found = [None] * len(settings)
            for k, part in enumerate(parts):
                found[k::n] = part
    by_class: dict = {name: [] for name in classes()}
    for setting, errors in zip(settings, found, strict=True):
        by_class[setting["key"]].append(errors)
    rows = {
        name: {column: _spread([errors[column] for errors in some]) for column in COLUMNS}
        | {"certified": sum(errors["is_exact"] for errors in some), "pairs": len(some)}
        for name, some in {**by_class, "all": found}.items()
    }
    return {**about, "quick": quick, "epsilon_px2": SMALL_EPSILON, "rows": rows}


def _spread(errors: list[float]) -> dict[str, float]:
    return {"median": median(errors), "worst": max(errors)}


# --- how fast ----------------------------------------------------------------------------------


def races(quick: bool) -> dict[str, tuple[list[dict], dict[str, float]]]:
    """Settings, and contestants with their limits, by size."""
    names = classes()
    small = [
        {"archive": "dotmark_official_32", "key": name, "i": 2, "j": 7} for name in (names[::5] if quick else names)
    ]
    middle = [
        {"archive": "dotmark_official_64", "key": name, "i": 2, "j": 7}
        for name in (names[8:9] if quick else names[1:8:2])
    ]
    return {
        "8": ([setting | {"block": 4} for setting in small], LIMIT_S),
        "16": ([setting | {"block": 2} for setting in small], LIMIT_S),
        "32": (small, LIMIT_S),
        "64": (middle, LIMIT_S),
        "128": ([SHAPES_128], {"ours": LIMIT_S["ours"]} | ({} if quick else {"emd2": EMD2_128_S})),
    }


def race(racers: dict[str, Contestant], limits_s: dict[str, float], setting: dict) -> dict[str, dict]:
    """The answer of median time of each, in turns; of one that ran out of time, how much it had."""
    answers: dict[str, list[dict]] = {name: [] for name in limits_s}
    for _ in range(REPEATS):
        for name, limit_s in limits_s.items():
            if answers[name] and answers[name][-1].get("seconds", math.inf) > ONCE_IF_LONGER_S:
                continue
            answer = racers[name].ask_within(limit_s, **setting)
            answers[name].append({"cut_off_s": limit_s} if answer is None else answer)
    return {
        name: sorted(found, key=lambda answer: answer.get("seconds", math.inf))[len(found) // 2]
        for name, found in answers.items()
    }


def timing(quick: bool, about: dict, deadline: Deadline) -> dict:
    """By size: every answer, peak memory, and medians."""
    report: dict = {**about, "quick": quick, "sizes": {}}
    with ExitStack() as stack:
        racers = {name: stack.enter_context(Contestant(__file__, name, **ONE_CORE)) for name in LIMIT_S}
        for racer in racers.values():
            racer(**TINY)
        for size, (settings, limits_s) in races(quick).items():
            rows = []
            for setting in settings:
                if deadline.is_over:
                    break
                limits = {name: min(limit_s, max(1.0, deadline.left_s)) for name, limit_s in limits_s.items()}
                rows.append({"setting": setting, **race(racers, limits, setting)})
            if rows:
                peaks = {name: _peak_mb(name, settings[0]) for name in ("ours", "emd2")}
                report["sizes"][size] = {"rows": rows, "peak_extra_mb": peaks, "summary": summary_of(rows)}
    return report


def _peak_mb(name: str, setting: dict) -> float | None:
    """Peak memory in a fresh process, where nothing that was freed before can be used again."""
    with Contestant(__file__, name, **ONE_CORE) as contestant:
        contestant(**TINY)
        answer = contestant.ask_within(LIMIT_S[name], **setting, memory=True)
    return None if answer is None else answer["mb"]


def summary_of(rows: list[dict]) -> dict:
    """Of each contestant: pairs with an answer, pairs cut off, and the median time; no answer counts as longer than any."""
    found: dict = {}
    for name in [name for name in LIMIT_S if name in rows[0]]:
        answers = [row[name] for row in rows]
        seconds = [answer["seconds"] if answer.get("value") is not None else math.inf for answer in answers]
        limits = [answer["cut_off_s"] for answer in answers if "cut_off_s" in answer]
        n_answers, middle = sum(map(math.isfinite, seconds)), median_low(seconds)
        found[name] = {
            "pairs": len(rows),
            "answers": n_answers,
            "cut_off": len(limits),
            "median_s": middle if math.isfinite(middle) else None,
            "more_than_s": min(limits) if math.isinf(middle) and n_answers + len(limits) == len(rows) else None,
        }
    errors = [
        abs(row["sinkhorn"]["value"] / row["ours"]["value"] - 1.0)
        for row in rows
        if row.get("sinkhorn", {}).get("value") is not None and row["ours"].get("value") is not None
    ]
    return found | {"sinkhorn_relative_error": _spread(errors) if errors else None}


# --- the page ----------------------------------------------------------------------------------


def accuracy_table(report: dict) -> str:
    """Markdown."""
    lines = [
        _about(report, report["rows"]["all"]["pairs"]),
        "",
        "| class | c-transforms, median | worst | integers, median | worst | `w2`, worst | certified exact |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, row in report["rows"].items():
        shares = [_percent(row[column][key]) for column in COLUMNS[:2] for key in ("median", "worst")]
        lines.append(
            f"| {name} | {' | '.join(shares)} | {row['exact']['worst']:.0e} | {row['certified']} of {row['pairs']} |"
        )
    return "\n".join(lines)


def timing_table(report: dict) -> str:
    """Markdown."""
    busy = " **The machine was busy with other work: times are too long.**" if report["load_before"] > 1 else ""
    lines = [
        _about(report, sum(len(found["rows"]) for found in report["sizes"].values())) + busy,
        "",
        "| side | pairs | `w2`, certified | `emd2` | Sinkhorn | emd2 / w2 | Sinkhorn / w2 | error of Sinkhorn | memory, w2 / emd2 |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for size, found in report["sizes"].items():
        rows, summary = found["rows"], found["summary"]
        error = summary["sinkhorn_relative_error"]
        certified = sum(row["ours"].get("is_exact", False) for row in rows)
        cells = [
            f"{size} px",
            str(len(rows)),
            _time_cell(summary["ours"]) + ("" if certified == len(rows) else f", {certified} certified"),
            *(_time_cell(summary.get(name)) for name in ("emd2", "sinkhorn")),
            *(_ratio_cell(summary.get(name), summary["ours"]["median_s"]) for name in ("emd2", "sinkhorn")),
            "–" if error is None else _percent(error["median"]),
            " / ".join("–" if mb is None else f"{mb:.0f} MB" for mb in found["peak_extra_mb"].values()),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _about(report: dict, n_pairs: int) -> str:
    kind = " A quick run: few pairs." if report["quick"] else ""
    return (
        f"{n_pairs} pairs, {report['date']}, commit `{report['commit']}`, {report['machine']}, load "
        f"{report['load_before']:g} at the start, POT {report['versions']['POT']}.{kind}"
    )


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"


def _time_cell(found: dict | None) -> str:
    if found is None:
        return "not run"
    some = "" if found["answers"] in (0, found["pairs"]) else f" ({found['answers']} of {found['pairs']} answer)"
    if found["median_s"] is not None:
        return _duration(found["median_s"]) + some
    return (f"> {found['more_than_s']:.0f} s" if found["more_than_s"] is not None else "not reached") + some


def _ratio_cell(found: dict | None, ours_s: float | None) -> str:
    if found is None or ours_s is None:
        return "–"
    if found["median_s"] is not None:
        return f"{found['median_s'] / ours_s:.2g}"
    return "–" if found["more_than_s"] is None else f"> {found['more_than_s'] / ours_s:.2g}"


def _duration(seconds: float) -> str:
    return f"{1000 * seconds:.2g} ms" if seconds < 0.0995 else f"{seconds:.2g} s"


TABLES = {"accuracy": accuracy_table, "timing": timing_table}


def write_page() -> None:
    """The tables of docs/dotmark.json, into the page."""
    report, text = json.loads(FIGURES.read_text()), PAGE.read_text()
    for name in (name for name in TABLES if name in report):
        begin, end = f"<!-- {name}: begin, written by benchmarks/dotmark.py -->", f"<!-- {name}: end -->"
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        text = f"{before}{begin}\n\n{TABLES[name](report[name])}\n\n{end}{after}"
    PAGE.write_text(text)


def main(words: list[str]) -> None:
    if data_folder() is None:
        print("PAIRFRAME_DATA does not name a folder with dotmark_official_32.npz: nothing to measure")
        return
    quick, about, deadline = "--quick" in words, provenance(PAGE.parent), Deadline(WHOLE_RUN_S)
    earlier = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    report = {name: earlier[name] for name in TABLES if name in earlier}  # stays as it was where it is not measured now
    if "--timing" not in words:
        report["accuracy"] = accuracy(quick, about)
        print(accuracy_table(report["accuracy"]), flush=True)
    if "--accuracy" not in words:
        report["timing"] = timing(quick, about, deadline)
        print(timing_table(report["timing"]), flush=True)
    FIGURES.write_text(write_json("dotmark", report).read_text())
    write_page()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(JOBS[sys.argv[2]])
    elif sys.argv[1:] == ["--page"]:
        write_page()
    else:
        main(sys.argv[1:])
