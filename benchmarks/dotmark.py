"""How close and how fast is `w2` on DOTmark, beside POT's exact `emd2` and its Sinkhorn?

    PAIRFRAME_DATA=... python benchmarks/dotmark.py [--quick] [--accuracy | --timing]

DOTmark 1.0 (Schrieber, Schuhmacher, Gottschlich 2016): ten classes of ten images, whole numbers of equal total mass.
Accuracy: all 450 pairs at 32 px, 45 a class (``--quick``: three a class), against `emd2`, for the bounds at epsilon 1/32
px^2 before any raise, and for `w2` as it comes. Time: every contestant lives in a process of its own on one core, they take
turns, figures are medians over pairs; `emd2` and Sinkhorn get their cost matrix for free. 8 and 16 px are block sums of the
32 px images, 128 px block sums of the 512 px Shapes. Writes benchmarks/out/dotmark.json.
"""

from __future__ import annotations

import itertools
import os
import sys
from contextlib import ExitStack
from functools import cache
from math import gcd
from pathlib import Path
from statistics import median
from time import perf_counter

from harness import Contestant, peak_extra_mb_of, serve, write_json

SMALL_EPSILON = 1 / 32
LIMIT_S = {"ours": 600.0, "emd2": 600.0, "sinkhorn": 120.0}
ONE_CORE = {"NUMBA_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
TINY = {"archive": "dotmark_official_32", "key": "Shapes", "i": 1, "j": 2, "block": 4}  # loads imports, compiled code
PAIRS_128 = ((1, 5), (2, 7), (5, 9))  # binary shapes: half the pixels, or emd2 would need all memory


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
        shared = gcd(total_a, total_b)
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
        return {"mb": peak_extra_mb_of(lambda: ot.emd2(*on_points(a, b), numItermax=10**9))}
    points = on_points(a, b)
    start = perf_counter()
    value = float(ot.emd2(*points, numItermax=10**9))
    return {"seconds": perf_counter() - start, "value": value}


def sinkhorn(setting: dict) -> dict:
    """POT's default Sinkhorn at reg 1/4 px^2, or the next larger power of 4 at which it does not break down."""
    import warnings

    import numpy as np
    import ot

    a, b, cost = on_points(*pair_of(setting))
    for reg in (0.25, 1.0, 4.0, 16.0, 64.0):
        start = perf_counter()
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            plan, log = ot.sinkhorn(a, b, cost, reg, stopThr=1e-6, numItermax=4000, log=True)
        seconds = perf_counter() - start
        off = float(np.abs(plan.sum(axis=1) - a).sum())
        if np.isfinite(plan).all() and off < 0.05:
            value = float((plan * cost).sum())
            return {"seconds": seconds, "value": value, "reg": reg, "marginal_error": off, "iterations": log["niter"]}
    return {"seconds": seconds, "value": None, "reg": None, "marginal_error": None, "iterations": None}


def on_points(a, b):
    import numpy as np

    yx_a, yx_b = np.argwhere(a > 0), np.argwhere(b > 0)
    cost = sum(np.subtract.outer(yx_a[:, axis].astype(float), yx_b[:, axis]) ** 2 for axis in range(2))
    return a[a > 0] / a.sum(), b[b > 0] / b.sum(), cost


JOBS = {job.__name__: job for job in (ours, emd2, sinkhorn)}


# --- how close ---------------------------------------------------------------------------------


def accuracy(quick: bool) -> dict:
    """Relative errors against emd2, per class: c-transforms alone, whole potentials, and the flow."""
    import ot

    import pairframe as pf

    columns = ("entropic", "whole", "exact")
    errors: dict[str, dict[str, list[float]]] = {}
    certified = {}
    print(f"{'relative error against emd2, 32 px':<36} {'c-transforms':>19} {'whole numbers':>19} {'w2':>9} certified")
    for name in classes():
        pairs = list(itertools.combinations(range(10), 2))[:: 15 if quick else 1]
        errors[name] = {column: [] for column in columns}
        certified[name] = [0, len(pairs)]
        for i, j in pairs:
            a, b = pair_of({"archive": "dotmark_official_32", "key": name, "i": i, "j": j})
            truth = float(ot.emd2(*on_points(a, b), numItermax=10**9)) * float(a.sum())
            small = pf.w2(a, b, epsilon=SMALL_EPSILON, max_raises=0)
            found = pf.w2(a, b)
            values = (small.entropic_lower, small.whole_lower, found.lower)
            for column, value in zip(columns, values, strict=True):
                errors[name][column].append(abs(truth - value) / truth)
            certified[name][0] += found.is_exact
        print(_accuracy_line(name, errors[name], f"{certified[name][0]} of {certified[name][1]}"), flush=True)
    whole = {column: [e for rows in errors.values() for e in rows[column]] for column in columns}
    n_certified = sum(done for done, _ in certified.values())
    print(_accuracy_line("all", whole, f"{n_certified} of {len(whole['exact'])}"))
    rows = {
        name: {column: {"median": median(found), "worst": max(found)} for column, found in by_column.items()}
        for name, by_column in {**errors, "all": whole}.items()
    }
    return {"epsilon_px2": SMALL_EPSILON, "rows": rows, "certified_exact": certified}


def _accuracy_line(name: str, errors: dict[str, list[float]], certified: str) -> str:
    both = [f"{median(errors[key]):>9.1e} {max(errors[key]):>9.1e}" for key in ("entropic", "whole")]
    return f"  {name:<34} {both[0]} {both[1]} {max(errors['exact']):>9.1e} {certified}"


# --- how fast ----------------------------------------------------------------------------------


def races(quick: bool) -> dict[str, tuple[list[dict], list[str]]]:
    """Settings and contestants by size."""
    names = classes()
    few = names[::5] if quick else names
    small = [
        {"archive": "dotmark_official_32", "key": name, "i": i, "j": j}
        for name in few
        for i, j in ([(2, 7)] if quick else [(2, 7), (0, 5), (4, 9)])
    ]
    middle = [
        {"archive": "dotmark_official_64", "key": name, "i": 2, "j": 7} for name in (names[8:9] if quick else names)
    ]
    large = [{"archive": "dotmark_shapes_512", "key": "images", "i": i, "j": j, "block": 4} for i, j in PAIRS_128]
    everyone = ["ours", "emd2", "sinkhorn"]
    return {
        "8": ([setting | {"block": 4} for setting in small], everyone),
        "16": ([setting | {"block": 2} for setting in small], everyone),
        "32": (small, everyone),
        "64": (middle, everyone),
        "128": (large[:1] if quick else large, ["ours"] if quick else ["ours", "emd2"]),
    }


def peak_of(name: str, setting: dict) -> dict | None:
    """Peak memory in a fresh process, where nothing that was freed before can be used again."""
    with Contestant(__file__, name, **ONE_CORE) as contestant:
        contestant(**TINY)
        return contestant.ask_within(LIMIT_S[name], **setting, memory=True)


def race(racers: dict[str, Contestant], setting: dict, repeats: int) -> dict[str, dict | None]:
    """The answer of median time of each, in turns; None for one that ran out of time."""
    answers: dict[str, list] = {name: [] for name in racers}
    for _ in range(repeats):
        for name, racer in racers.items():
            if None not in answers[name]:
                answers[name].append(racer.ask_within(LIMIT_S[name], **setting))
    return {
        name: None if None in found else sorted(found, key=lambda answer: answer["seconds"])[len(found) // 2]
        for name, found in answers.items()
    }


def timing(quick: bool) -> dict:
    report: dict = {}
    header = "seconds, median over pairs [longest]"
    print(f"{header:<38} {'w2':>17} {'emd2':>17} {'sinkhorn':>17} {'emd2/w2':>8} {'sinkhorn/w2':>11} {'its error':>9}")
    for size, (settings, names) in races(quick).items():
        with ExitStack() as stack:
            racers = {name: stack.enter_context(Contestant(__file__, name, **ONE_CORE)) for name in names}
            for racer in racers.values():
                racer(**TINY)
            repeats = 3 if int(size) <= 32 else 1
            rows = [{"setting": setting, **race(racers, setting, repeats)} for setting in settings]
        memory = {name: peak_of(name, settings[0]) for name in names if name != "sinkhorn"}
        report[size] = {"rows": rows, "peak_extra_mb": memory, "summary": _summary(rows, names)}
        print(_timing_line(size, report[size]), flush=True)
    for size, found_here in report.items():
        words = [f"{name} {found['mb']:.0f} MB" for name, found in found_here["peak_extra_mb"].items() if found]
        print(f"  peak memory above imports, {size} px: {', '.join(words)}")
    return report


def _summary(rows: list[dict], names: list[str]) -> dict:
    found: dict = {}
    for name in names:
        seconds = [row[name]["seconds"] if row[name] else LIMIT_S[name] for row in rows]
        late = sum(row[name] is None for row in rows)
        found[name] = {
            "median_s": median(seconds),
            "max_s": max(seconds),
            "out_of_time": late,
            "limit_s": LIMIT_S[name],
        }
    for name in names[1:]:
        found[f"{name}_over_ours"] = found[name]["median_s"] / found["ours"]["median_s"]
    if "sinkhorn" in names:
        errors = [
            abs(row["sinkhorn"]["value"] / row["ours"]["value"] - 1.0)
            for row in rows
            if row["sinkhorn"] and row["sinkhorn"]["value"] is not None
        ]
        found["sinkhorn_relative_error"] = {"median": median(errors), "worst": max(errors)} if errors else None
    return found


def _timing_line(size: str, report: dict) -> str:
    found = report["summary"]
    cells = []
    for name in ("ours", "emd2", "sinkhorn"):
        if name not in found:
            cells.append("-")
        else:
            late = ">" if found[name]["out_of_time"] else ""
            cells.append(f"{late}{found[name]['median_s']:.4f} [{found[name]['max_s']:.3g}]")
    ratios = [f"{found[key]:.1f}" if key in found else "-" for key in ("emd2_over_ours", "sinkhorn_over_ours")]
    error = found.get("sinkhorn_relative_error")
    cells += [*ratios, f"{error['median']:.1e}" if error else "-"]
    head = f"  {size} px, {len(report['rows'])} pairs"
    return f"{head:<38} {cells[0]:>17} {cells[1]:>17} {cells[2]:>17} {cells[3]:>8} {cells[4]:>11} {cells[5]:>9}"


def main(words: list[str]) -> None:
    if data_folder() is None:
        print("PAIRFRAME_DATA does not name a folder with dotmark_official_32.npz: nothing to measure")
        return
    quick = "--quick" in words
    report: dict = {"quick": quick}
    if "--timing" not in words:
        report["accuracy"] = accuracy(quick)
    if "--accuracy" not in words:
        report["timing"] = timing(quick)
    write_json("dotmark", report)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(JOBS[sys.argv[2]])
    else:
        main(sys.argv[1:])
