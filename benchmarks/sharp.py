"""Is every sharp problem solved, and in how many softmins?

    python benchmarks/sharp.py [--random 2000] [--scenes 40] [--first 0]

Four questions: an embryo that was only shifted, one that was only turned (both at the defaults), random pairs of all kinds under
``partial``, ``tv`` and mixtures, and consecutive frames of scenes of 50 to 200 pieces that exchange mass. Each is certified to 1e-6 or named.
Counts of softmins do not depend on the load of the machine. Writes benchmarks/out/sharp.json.
"""

from __future__ import annotations

import argparse
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from scipy import ndimage

import pairframe as pf
from harness import write_json
from pairframe.engines import Solution, SolveOptions, solve
from pairframe.problem import TransportProblem, penalty_of
from pairframe.testing import disc, embryo, growing_embryo
from pairframe.types import Float

TOL = 1e-6
OPTIONS = SolveOptions(TOL, 5000)
MIXTURES = (
    ("partial", "partial"), ("tv", "tv"), ("partial", "tv"), ("partial", "kl"), ("tv", "kl"), ("partial", "balanced"),
)  # fmt: skip


# --- an embryo that moved as a whole ---------------------------------------------------------


def shifts() -> list[dict[str, Any]]:
    whole = np.pad(growing_embryo(6)[3], 120)
    rows = []
    for shift_px in (3, 10, 30, 60, 100):
        for axis in (0, 1):
            found = pf.compare(whole, np.roll(whole, shift_px, axis=axis))
            lengths = np.hypot(*found.velocity_field[found.velocity_valid].T)
            rows.append(
                {
                    "shift_px": shift_px,
                    "axis": axis,
                    "ratio": float(np.median(lengths)) / shift_px,
                    "created": found.total_mass_created / found.M_target,
                    "destroyed": found.total_mass_destroyed / found.M_source,
                    "status": str(found.status),
                    "softmins": found.iterations,
                }
            )
    return rows


def turns() -> list[dict[str, Any]]:
    whole = np.pad(growing_embryo(6)[3], 250)
    rows = []
    for angle_deg in (5, 10, 20, 30, 45, 90):
        turned = ndimage.rotate(whole.astype(float), angle_deg, reshape=False, order=1) > 0.5
        began = perf_counter()
        found = pf.compare(whole, turned)
        net = found.M_target - found.M_source
        rows.append(
            {
                "angle_deg": angle_deg,
                "created_beyond_net": (found.total_mass_created - max(net, 0.0)) / found.M_target,
                "destroyed_beyond_net": (found.total_mass_destroyed - max(-net, 0.0)) / found.M_source,
                "status": str(found.status),
                "softmins": found.iterations,
                "seconds": perf_counter() - began,
            }
        )
    return rows


# --- random pairs ----------------------------------------------------------------------------


def random_problem(seed: int) -> tuple[str, TransportProblem]:
    """A pair of any kind at any blur and reach."""
    rng = np.random.default_rng(seed)
    height, width = (int(rng.integers(24, 180)) for _ in range(2))
    kind = ("blobs", "embryo", "pieces", "grey", "specks", "one_to_fifty", "turned", "noise")[int(rng.integers(8))]
    a, b = _pair(kind, (height, width), rng)
    for array in (a, b):
        if not array.any():
            array[height // 2, width // 2] = 1.0
    blur, reach = (float(np.exp(rng.uniform(*np.log(span)))) for span in ((0.5, 8.0), (5.0, 800.0)))
    names = MIXTURES[int(rng.integers(len(MIXTURES)))]
    if names[1] == "balanced" and b.sum() > 0.98 * a.sum():  # all of b has to fit into a
        a, b = (b, a) if b.sum() > a.sum() / 0.98 else (a, 0.7 * b)
    scale = float(np.sqrt(a.sum() * b.sum()))
    lams = [reach**2 * (1.0 if name == "kl" else 0.5) for name in names]
    penalties = [penalty_of(name, lam) for name, lam in zip(names, lams, strict=True)]
    label = f"seed {seed}: {kind} {height} x {width}, {'/'.join(names)}, blur {blur:.2f}, reach {reach:.0f}"
    return label, TransportProblem(a / scale, b / scale, blur**2, *penalties)


def _pair(kind: str, shape: tuple[int, int], rng: np.random.Generator) -> tuple[Float, Float]:
    if kind == "embryo":
        growth = min(shape[0] / 256, shape[1] / 576) * float(rng.uniform(0.7, 1.1))
        frames = [
            embryo(shape, bend=float(rng.uniform(-1, 1)), growth=growth * k) for k in (1.0, rng.uniform(0.8, 1.3))
        ]
        shift = rng.integers(-9, 10, 2)
        return frames[0].astype(float), np.roll(frames[1].astype(float), shift, (0, 1))
    if kind == "pieces":
        return scene_frames(shape, int(rng.integers(5, 40)), rng)
    if kind == "grey":
        a, b = (ndimage.gaussian_filter(rng.random(shape), rng.uniform(1, 6)) for _ in range(2))
        return a - 0.9 * a.min(), (b - 0.9 * b.min()) * float(rng.uniform(0.5, 2.0))
    if kind == "specks":
        return (rng.random(shape) < 0.01).astype(float), (rng.random(shape) < 0.01).astype(float)
    if kind == "one_to_fifty":
        radius = min(shape) * 0.45
        centre = (shape[0] / 2, shape[1] / 2)
        tiny = disc(shape, (centre[0] + rng.uniform(-1, 1) * radius, centre[1]), max(1.0, radius / 7))
        return tiny.astype(float), disc(shape, centre, radius).astype(float)
    if kind == "turned":
        a = _blobs(shape, rng)
        return a, (ndimage.rotate(a, rng.uniform(-60, 60), reshape=False, order=1) > 0.5).astype(float)
    if kind == "noise":
        a = _blobs(shape, rng)
        flipped = rng.random(shape) < 0.03
        return a, np.where(flipped, 1.0 - a, a)
    return _blobs(shape, rng), _blobs(shape, rng)


def _blobs(shape: tuple[int, int], rng: np.random.Generator) -> Float:
    field = ndimage.gaussian_filter(rng.standard_normal(shape), rng.uniform(2, 12))
    return (field > np.quantile(field, rng.uniform(0.5, 0.95))).astype(float)


# --- scenes ----------------------------------------------------------------------------------


def scene_frames(shape: tuple[int, int], n_pieces: int, rng: np.random.Generator) -> tuple[Float, Float]:
    """Two frames of a scene: pieces move, grow, shrink, vanish, appear, and neighbours pass mass to each other."""
    side = np.sqrt(shape[0] * shape[1] / n_pieces)
    frames = np.zeros((2, *shape), bool)
    for _ in range(n_pieces):
        centre = np.array([rng.uniform(0.05, 0.95) * n for n in shape])
        radius = side * rng.uniform(0.15, 0.4)
        fate = rng.random()
        if fate < 0.93:
            frames[0] |= disc(shape, (centre[0], centre[1]), radius)
        if fate > 0.05:
            moved = centre + rng.normal(0, 0.25 * radius + 1, 2)
            frames[1] |= disc(shape, (moved[0], moved[1]), radius * np.exp(rng.normal(0.02, 0.15)))
    return frames[0].astype(float), frames[1].astype(float)


def scene_problem(seed: int) -> tuple[str, TransportProblem]:
    """A scene on 512 x 512 at the defaults: blur 2 px, the reach of its objects, or several times it."""
    rng = np.random.default_rng(10_000 + seed)
    n_pieces = int(rng.integers(50, 201))
    a, b = scene_frames((512, 512), n_pieces, rng)
    reach = pf.masks.pieces.typical_length(a, b) * float(rng.choice([1.0, 1.0, 2.0, 4.0]))
    scale = float(np.sqrt(a.sum() * b.sum()))
    penalties = [penalty_of(name, reach**2 / 2) for name in ("partial", "partial")]
    return f"scene {seed}: {n_pieces} pieces, reach {reach:.0f}", TransportProblem(
        a / scale, b / scale, 4.0, *penalties
    )


def solved(label: str, problem: TransportProblem) -> dict[str, Any]:
    began = perf_counter()
    found: Solution = solve(problem, "grid", OPTIONS)
    row = {
        "label": label,
        "status": str(found.status),
        "softmins": found.iterations,
        "error": found.certificate.error,
        "seconds": perf_counter() - began,
    }
    if found.status != "converged":
        print(
            f"NOT CERTIFIED {label}: {found.status}, error {found.certificate.error:.2e}, {found.iterations} softmins",
            flush=True,
        )
    return row


def told(name: str, rows: list[dict[str, Any]]) -> str:
    counts = sorted(row["softmins"] for row in rows)
    good = sum(row["status"] == "converged" for row in rows)
    return (
        f"{name}: {good} of {len(rows)} certified to {TOL:g}; softmins median {median(counts):g}, "
        f"90 % {counts[int(0.9 * (len(counts) - 1))]}, worst {counts[-1]}; "
        f"seconds median {median(row['seconds'] for row in rows):.2f}, worst {max(row['seconds'] for row in rows):.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--random", type=int, default=2000)
    parser.add_argument("--scenes", type=int, default=40)
    parser.add_argument("--first", type=int, default=0)
    asked = parser.parse_args()
    report: dict[str, Any] = {"shifts": shifts(), "turns": turns()}
    for row in (*report["shifts"], *report["turns"]):
        print(
            ", ".join(
                f"{name} {value:.9g}" if isinstance(value, float) else f"{name} {value}" for name, value in row.items()
            )
        )
    for name, problem_of, count in (("random", random_problem, asked.random), ("scenes", scene_problem, asked.scenes)):
        rows = []
        for seed in range(asked.first, asked.first + count):
            rows.append(solved(*problem_of(seed)))
            if len(rows) % 100 == 0:
                print(told(f"{name}, first {len(rows)}", rows), flush=True)
        if rows:
            print(told(name, rows), flush=True)
        report[name] = rows
    write_json("sharp", report)


if __name__ == "__main__":
    main()
