"""Does alignment find the right pose, say when it cannot know, and how long does it take?

    python benchmarks/align.py [--quick] [ROW ...]

Planted truths, false certainty, exactness of resampling and bounds of the proof are counted; times are ratios of
medians, measured in turns on one thread. Writes benchmarks/out/align.json.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections import Counter
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from scipy import ndimage

import pairframe as pf
from harness import write_json
from pairframe.alignment import Canvas, Similarity, resample
from pairframe.alignment.cloud import Cloud
from pairframe.alignment.proof import Prover
from pairframe.alignment.resample import canvas_that_fits, needed_box
from pairframe.parallel.threads import at_most
from pairframe.pipeline.self_problem import clear_self_cache
from pairframe.testing import PlantedPair, embryo, planted_pair, symmetric_pair
from pairframe.testing.planted import CHANGES

WRONG_DEG = 20.0


def masks_of(pair: PlantedPair) -> tuple[pf.Mask, pf.Mask]:
    return (
        pf.Mask.from_array(pair.source, px_size_um=pair.px_source),
        pf.Mask.from_array(pair.target, px_size_um=pair.px_target),
    )


def errors(pair: PlantedPair, pose: pf.Pose) -> tuple[float, float]:
    return pair.errors(pose.change.matrix, pose.change.offset_yx_um)


def planted(n: int) -> dict[str, Any]:
    """Wrong poses: the wrong handedness, or more than 20 degrees off."""
    rows: dict[str, Any] = {}
    statuses: Counter[str] = Counter()
    wrong_and_certain = 0
    for change in CHANGES:
        found = []
        for seed in range(n // len(CHANGES) + 1):
            pair = planted_pair(seed, change)
            pose = pf.align(*masks_of(pair), allow_flip=True)
            degrees, px = errors(pair, pose)
            found.append((degrees, px))
            statuses[pose.status] += 1
            wrong_and_certain += degrees > WRONG_DEG and pose.status == "aligned"
        degrees, px = np.array(found).T
        rows[change] = {
            "n": len(found),
            "wrong": int((degrees > WRONG_DEG).sum()),
            "degrees": np.quantile(degrees, (0.5, 0.95, 1)).round(4).tolist(),
            "px": np.quantile(px, (0.5, 0.95, 1)).round(4).tolist(),
        }
        row = rows[change]
        print(
            f"  {change:8} n {row['n']}, wrong {row['wrong']}; degrees, px (median, 95 %, max): {row['degrees']}, {row['px']}"
        )
    total, wrong = sum(row["n"] for row in rows.values()), sum(row["wrong"] for row in rows.values())
    print(f"planted truths: {wrong} of {total} wrong, {wrong_and_certain} of them called aligned; {dict(statuses)}")
    return {
        "by_change": rows,
        "wrong": wrong,
        "n": total,
        "wrong_and_certain": wrong_and_certain,
        "status": dict(statuses),
    }


def harder(n: int) -> dict[str, Any]:
    """Different pixel sizes, and targets cut by the border."""
    rng = np.random.default_rng(0)
    counts = {}
    for name in ("pixel size", "cut"):
        wrong = 0
        for seed in range(n):
            options = {"px_ratio": float(np.exp(rng.uniform(math.log(0.5), math.log(3))))}
            if name == "cut":
                options = {"cut_share": float(rng.uniform(0.2, 0.4))}
            pair = planted_pair(10_000 + seed, "rigid", **options)  # type: ignore[arg-type]
            wrong += errors(pair, pf.align(*masks_of(pair), allow_flip=True))[0] > WRONG_DEG
        counts[name] = wrong
        print(f"{name}: {wrong} of {n} wrong")
    return {"n": n, **counts}


def certainty(n: int) -> dict[str, Any]:
    """Round, symmetric and contained shapes called aligned."""
    statuses: Counter[str] = Counter()
    for seed in range(n):
        pair = symmetric_pair(seed)
        kind = "similarity" if seed % 7 == 3 else "rigid"
        statuses[pf.align(pair.source, pair.target, kind=kind, allow_flip=bool(seed % 3)).status] += 1
    print(f"false certainty: {statuses['aligned']} of {n} called aligned; {dict(statuses)}")
    return {"n": n, **statuses}


def exactness(n: int) -> dict[str, Any]:
    """Relative error of the mass and error of the centroid, over the length of the canvas, at random poses."""
    rng = np.random.default_rng(0)
    worst_mass = worst_centre = 0.0
    for _ in range(n):
        values = rng.random((40, 60)) * (rng.random((40, 60)) < 0.5)
        change = Similarity(
            float(rng.uniform(-180, 180)),
            (float(rng.uniform(-50, 50)), float(rng.uniform(-50, 50))),
            bool(rng.random() < 0.5),
            float(rng.uniform(0.3, 3)),
            (20.0, 30.0),
        )
        px, canvas = float(rng.uniform(0.3, 3)), Canvas((10, 10), 1.0)
        canvas = canvas_that_fits(needed_box(values, px, change, canvas), canvas)
        moved = resample(values, px, change, canvas)
        centres = [
            image.ravel() @ ((np.indices(image.shape).reshape(2, -1).T + 0.5 - np.array(origin)) * side) / image.sum()
            for image, side, origin in ((values, px, (0, 0)), (moved, canvas.px, canvas.origin_yx))
        ]
        worst_mass = max(worst_mass, abs(moved.sum() / values.sum() - 1))
        apart = np.abs(change.of_points(centres[0]) - centres[1]).max() / (max(canvas.shape_hw) * canvas.px)
        worst_centre = max(worst_centre, float(apart))
    print(f"mass and centroid at {n} poses: worst relative error {worst_mass:.1e} and {worst_centre:.1e}")
    return {"n": n, "mass": worst_mass, "centroid": worst_centre}


def there_and_back() -> dict[str, Any]:
    """Created and destroyed shares when a mask is compared with itself, turned there and back."""
    mask = pf.Mask.from_array(embryo().astype(float), density=True)
    rows = []
    for angle in (5.0, 30.0, 37.0, 45.0, 77.0):
        change = Similarity(angle, (3.3, -2.2), False, 1.0, (128.0, 288.0))
        # Positions stay relative to the first pixel of the mask, at row and column 200 of the canvas.
        there = resample(mask.values, 1.0, change, Canvas((656, 976), 1.0, (200, 200)))
        to_origin = Similarity(shift_yx_um=(-200.0, -200.0))
        inverse = change.inverse()
        pivot = (inverse.pivot_yx_um[0] + 200, inverse.pivot_yx_um[1] + 200)
        shift = (inverse.shift_yx_um[0] + to_origin.shift_yx_um[0], inverse.shift_yx_um[1] + to_origin.shift_yx_um[1])
        back = resample(there, 1.0, Similarity(-angle, shift, False, 1.0, pivot), Canvas((256, 576), 1.0))
        found = pf.compare(mask, pf.Mask.from_array(back, density=True), pf.TransportConfig(mass_mode="intensity"))
        rows.append(
            (100 * found.total_mass_created / found.M_target, 100 * found.total_mass_destroyed / found.M_source)
        )
        floor = 100 * found.noise_floor
    worst = np.array(rows).max(axis=0)
    print(f"there and back: created {worst[0]:.5f} %, destroyed {worst[1]:.5f} % at worst (noise floor {floor:.5f} %)")
    return {"created_percent": worst[0], "destroyed_percent": worst[1], "noise_floor_percent": floor}


def in_turns(jobs: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median seconds of each job, run in turns."""
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for job in jobs.values():
        job()
    for _ in range(repeats):
        for name, job in jobs.items():
            began = perf_counter()
            job()
            seconds[name].append(perf_counter() - began)
    return {name: float(np.median(times)) for name, times in seconds.items()}


def times(n: int) -> dict[str, Any]:
    """Seconds of `align`, of the proof of the flip and of one `compare` of the aligned pair, 256 x 576."""
    ratios, proof_ratios, both_ratios, proven, determined = [], [], [], 0, 0
    for seed in range(n):
        pair = planted_pair(20_000 + seed, CHANGES[seed % len(CHANGES)])
        source, target = masks_of(pair)
        pose = pf.align(source, target, allow_flip=True, prove="flip")
        if pose.status != "aligned":
            continue
        determined += 1
        assert pose.proof is not None
        proven += pose.proof.proven
        if seed >= n // 4:  # the rest only counts proofs
            continue
        canvas_hw, origin_yx = pose.canvas_for(target)
        moved = pose.apply(target, canvas_hw=canvas_hw, origin_yx=origin_yx)
        still = pose.place_source(source, canvas_hw, origin_yx)
        config = pf.TransportConfig(mass_mode="intensity")
        still = pf.Mask.from_array(still.values.astype(float), density=True, px_size_um=still.px_size_um)

        def compare(still: pf.Mask = still, moved: pf.Mask = moved, config: pf.TransportConfig = config) -> None:
            clear_self_cache()
            pf.compare(still, moved, config)

        def plain(source: pf.Mask = source, target: pf.Mask = target) -> None:
            pf.align(source, target, allow_flip=True)

        def with_proof(source: pf.Mask = source, target: pf.Mask = target) -> None:
            pf.align(source, target, allow_flip=True, prove="flip")

        found = in_turns({"align": plain, "proof": with_proof, "compare": compare}, 3)
        ratios.append(found["align"] / found["compare"])
        both_ratios.append(found["proof"] / found["compare"])
        proof_ratios.append((found["proof"] - found["align"]) / found["compare"])
        last = found
    row = {
        "align / compare": float(np.median(ratios)),
        "proof / compare": float(np.median(proof_ratios)),
        "align with proof / compare": float(np.median(both_ratios)),
        "proven": proven,
        "not ambiguous": determined,
        "last_seconds": last,
    }
    print(
        f"align / compare {row['align / compare']:.2f}; flip proven {proven} of {determined} ({100 * proven / determined:.1f} %), "
        f"proof / compare {row['proof / compare']:.2f}, with the search {row['align with proof / compare']:.2f}; "
        f"last: {', '.join(f'{name} {1e3 * value:.0f} ms' for name, value in last.items())}"
    )
    return row


def resampling() -> dict[str, Any]:
    """2048 x 2048 against `scipy.ndimage.affine_transform(order=1)`, by the share of the canvas that has mass."""
    rows = {}
    y, x = np.indices((2048, 2048)) - 1023.5
    images = {
        "embryo": embryo((2048, 2048), growth=4.0),
        "half": np.hypot(y, x) < 2048 * math.sqrt(0.5 / math.pi),
        "full": np.ones((2048, 2048), bool),
    }
    for angle, (name, image) in itertools.product((3.0, 33.0, 88.0), images.items()):
        change = Similarity(angle, (0.0, 0.0), False, 1.0, (1024.0, 1024.0))
        offset = np.array([1023.5, 1023.5]) - change.matrix @ np.array([1023.5, 1023.5])
        grey, own = image.astype(float), Canvas((2048, 2048), 1.0)
        canvas = canvas_that_fits(needed_box(image, 1.0, change, own), own)

        def ours(threads: int, image: Any = image, change: Similarity = change, canvas: Canvas = canvas) -> None:
            with at_most(threads):
                resample(image, 1.0, change, canvas)

        def peer(grey: Any = grey, matrix: Any = change.matrix, offset: Any = offset) -> None:
            ndimage.affine_transform(grey, matrix, offset, order=1)

        found = in_turns({"one thread": partial(ours, 1), "two threads": partial(ours, 2), "scipy": peer}, 9)
        ratios = {key: found[key] / found["scipy"] for key in ("one thread", "two threads")}
        rows[f"{name}, {angle:g} degrees"] = found | {"ratios": ratios, "covered": float(image.mean())}
        print(
            f"resampling 2048 x 2048 by {angle:g} degrees, {100 * image.mean():.0f} % covered ({name}), / scipy's "
            f"{1e3 * found['scipy']:.1f} ms: {', '.join(f'{ratio:.2f} on {key}' for key, ratio in ratios.items())}"
        )
    return rows


def bounds(n: int) -> dict[str, Any]:
    """How often the overlap at a pose of a cell exceeds the bound of the cell."""
    rng = np.random.default_rng(7)
    violations = done = 0
    while done < n:
        ratio, scale = float(rng.choice([1.0, 0.6, 1.7])), float(rng.uniform(0.7, 1.4))
        pair = planted_pair(done, "mixed", px_ratio=ratio, growth=0.4, shape_hw=(130, 200))
        prover = Prover(Cloud(pair.source, 1.0), Cloud(pair.target, ratio), scale)
        for _ in range(2000):
            y, x = (float(value) for value in rng.uniform(-60, 60, 2))
            angle, flipped = float(rng.uniform(-math.pi, math.pi)), bool(rng.random() < 0.5)
            turn, side = float(10 ** rng.uniform(-3, 0.5)), float(10 ** rng.uniform(-2, 1.8))
            at = rng.uniform(-0.5, 0.5, 3) if rng.random() < 0.5 else rng.choice([-0.5, 0.5], 3)
            bound = prover.bound((y, x), angle, flipped, turn, side, int(rng.choice([1, 2, 4, 8])))
            overlap = prover.overlap((y + at[0] * side, x + at[1] * side), angle + at[2] * turn, flipped)
            violations += overlap > bound
            done += 1
    print(f"bounds of the proof: {violations} violations at {done} poses")
    return {"n": done, "violations": violations}


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure alignment.")
    parser.add_argument("--quick", action="store_true", help="a tenth of the cases")
    parser.add_argument("rows", nargs="*", help="rows to measure; all if none is given")
    options = parser.parse_args()
    part = 10 if options.quick else 1
    rows: dict[str, Callable[[], dict[str, Any]]] = {
        "planted": lambda: planted(1000 // part),
        "harder": lambda: harder(300 // part),
        "certainty": lambda: certainty(600 // part),
        "exactness": lambda: exactness(1000 // part),
        "there_and_back": there_and_back,
        "bounds": lambda: bounds(100_000 // part),
        "resampling": resampling,
        "times": lambda: times(120 // part),
    }
    with at_most(1):
        found = {name: row() for name, row in rows.items() if not options.rows or name in options.rows}
    write_json("align", found)


if __name__ == "__main__":
    main()
