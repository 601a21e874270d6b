"""The parts of the suite, their order and their time limits."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from suite.contestants import Contestant, Deadline
from suite.curves import AREA_RATIOS, BLURS_PX, SCALES, by_blur, by_pairs, by_pixels, by_ratio
from suite.machine import provenance, version_of
from suite.problems import PairSpec, support_pixels
from suite.rounds import Stable, race, stable, summary
from suite.scripts import run_script
from suite.solvers import SOLVERS

Say = Callable[[str], None]
TOLS = (1e-2, 1e-4, 1e-6)
SETTINGS = {
    "a lot of blur: blur 8 px, reach 50 px": (8.0, 50.0),
    "little blur: blur 2 px, reach 50 px": (2.0, 50.0),
    "nearly balanced: blur 5.76 px, reach 1821 px (eps 1e-4, lam 10 at coord_scale 1/576)": (5.76, 1821.0),
}


@dataclass(frozen=True)
class Plan:
    """How much of everything.

    Attributes
    ----------
    total_s : float
        After this nothing new is started.
    races_s : float
        The same for the races.
    races : tuple of (scale, settings, limit_s)
        The number of settings at a resolution, and the time a contestant may spend on one.
    repeats : int
        Timed runs.
    compare_scales, memory_scales : tuple of float
    curve_s : float
        For each of the four curves.
    curve_limit_s : float
        For one point of a curve.
    scripts_s : float
        For all scripts of the repository together.
    """

    total_s: float
    races_s: float
    races: tuple[tuple[float, int, float], ...]
    repeats: int
    compare_scales: tuple[float, ...]
    memory_scales: tuple[float, ...]
    curve_s: float
    curve_limit_s: float
    scripts_s: float


QUICK = Plan(
    total_s=165.0,
    races_s=85.0,
    races=((1 / 4, 2, 2.5),),
    repeats=3,
    compare_scales=(1 / 4, 1 / 2, 1.0),
    memory_scales=(1 / 4,),
    curve_s=10.0,
    curve_limit_s=0.8,
    scripts_s=40.0,
)
WHOLE = Plan(
    total_s=35 * 60.0,
    races_s=12 * 60.0,
    races=((1 / 4, 3, 8.0), (1 / 2, 2, 10.0), (1.0, 2, 12.0)),
    repeats=5,
    compare_scales=(1 / 4, 1 / 2, 1.0, 2.0, 4.0),
    memory_scales=(1 / 4, 1 / 2, 1.0),
    curve_s=100.0,
    curve_limit_s=4.0,
    scripts_s=11 * 60.0,
)
TINY = Plan(
    total_s=60.0,
    races_s=20.0,
    races=((1 / 16, 1, 0.2),),
    repeats=1,
    compare_scales=(1 / 16,),
    memory_scales=(1 / 16,),
    curve_s=0.5,
    curve_limit_s=0.05,
    scripts_s=5.0,
)  # for tests: every part, no figures worth anything


PARTS = ("races", "compare", "curves", "memory", "scripts")


def installed() -> tuple[list[str], dict[str, str]]:
    """The contestants that can run here, and why the others cannot."""
    missing = {
        name: f"{solver.package} is not installed" for name, solver in SOLVERS.items() if not version_of(solver.package)
    }
    return [name for name in SOLVERS if name not in missing], missing


def run_suite(
    plan: Plan,
    say: Say,
    *,
    scripts: Path | None = None,
    quick: bool = False,
    only: tuple[str, ...] | None = None,
    parts: tuple[str, ...] = PARTS,
) -> dict[str, Any]:
    """Measure everything, or some of its `PARTS`; `say` receives each line of progress.

    Parameters
    ----------
    scripts : Path, optional
        The repository's ``benchmarks`` folder, whose longer claims are run too.
    only : names, optional
        Of contestants.
    """
    names, missing = installed()
    names = [name for name in names if only is None or name in only]
    began, deadline = time.monotonic(), Deadline(plan.total_s)
    report: dict[str, Any] = {
        "benchmark": "suite",
        **provenance(),
        "plan": asdict(plan),
        "quick": quick,
        "contestants": {name: SOLVERS[name].label for name in names},
        "missing": missing,
        "tols": TOLS,
    }
    report["parts"] = {part: {name: report[name] for name in ("commit", "date", "load_before")} for part in parts}
    reserve_s = plan.scripts_s if scripts is not None else 0.0
    before_scripts = Deadline(max(1.0, plan.total_s - reserve_s))
    races_end = before_scripts.at_most(plan.races_s)
    with stable(names) as contestants:
        if "races" in parts:
            report["races"] = _races(contestants, plan, races_end, say)
        if "compare" in parts:
            report["compare"] = _compares(plan, before_scripts, say)
        if "curves" in parts:
            report["curves"] = _curves(contestants, plan, before_scripts, say)
    if "memory" in parts:
        report["memory"] = _memories(names, plan, before_scripts, say)
    if "scripts" in parts:
        report["scripts"] = {}
        if scripts is not None:
            say("script: cost_model")
            report["scripts"]["cost_model"] = run_script(scripts, "cost_model", deadline, quick=quick)
    report["seconds"] = time.monotonic() - began
    return report


def _races(contestants: Stable, plan: Plan, deadline: Deadline, say: Say) -> list[dict[str, Any]]:
    found = []
    for scale, n_settings, limit_s in plan.races:
        for label, (blur_px, reach_px) in list(SETTINGS.items())[:n_settings]:
            spec = PairSpec(scale=scale, blur_px=blur_px, reach_px=reach_px)
            say(f"race: {label}, scale {scale:g}, {support_pixels(spec)} pixels with mass")
            rows = race(contestants, spec, TOLS, limit_s=limit_s, repeats=plan.repeats, deadline=deadline)
            found.append({"setting": label, "spec": asdict(spec), "limit_s": limit_s, "rows": rows})
    return found


def _memories(names: list[str], plan: Plan, deadline: Deadline, say: Say) -> list[dict[str, Any]]:
    """Peaks, a fresh process for each."""
    found = []
    for scale in plan.memory_scales:
        spec = PairSpec(scale=scale, blur_px=8.0)
        say(f"memory: scale {scale:g}")
        rows = {}
        for name in ["compare", *names]:  # our own first, should the time be up
            if deadline.is_over:
                rows[name] = {"ended": "not run", "why": "the time was up"}
                continue
            with Contestant() as fresh:
                job = {"job": "compare", "memory": True} if name == "compare" else {"job": "memory", "solver": name}
                rows[name] = fresh.ask(120.0, spec=asdict(spec), **job)
        found.append({"spec": asdict(spec), "pixels": support_pixels(spec), "rows": rows})
    return found


def _curves(contestants: Stable, plan: Plan, deadline: Deadline, say: Say) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, values, measure in (
        ("pixels", SCALES, by_pixels),
        ("blur", BLURS_PX, by_blur),
        ("ratio", AREA_RATIOS, by_ratio),
    ):
        say(f"curve: {name}")
        found[name] = measure(contestants, values, plan.curve_limit_s, deadline.at_most(plan.curve_s))
    say("curve: pairs")
    found["pairs"] = by_pairs(deadline.at_most(plan.curve_s))
    return found


def _compares(plan: Plan, deadline: Deadline, say: Say) -> list[dict[str, Any]]:
    """The whole `compare`, with the defaults; the first run loads compiled code and does not count."""
    say("compare")
    found = []
    with Contestant() as contestant:
        for scale in plan.compare_scales:
            spec = PairSpec(scale=scale)
            one: dict[str, Any] = {"spec": asdict(spec), "pixels": support_pixels(spec)}
            answers = [
                contestant.ask(120.0, job="compare", spec=asdict(spec))
                for _ in range(1 + plan.repeats)
                if not deadline.is_over
            ][1:]
            found.append(one | ({"times": summary(answers)} if any("seconds" in answer for answer in answers) else {}))
    return found
