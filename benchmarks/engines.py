"""How long does each engine take to the same certified accuracy, and how much memory?

    python benchmarks/engines.py [--quick]

Two synthetic embryos on 256 x 576 (13 k and 15 k pixels at s = 1), eps 1e-4 and lam 10 at ``coord_scale=1/576``, tol 1e-6 by our
own certificate, float64. Every engine solves the same `TransportProblem` at s = 4, 2, 1, in a process of its own, in turns; an engine
that refuses a size says why, one that needs longer than the limit is cut off. The first solve of a process is told apart: it
compiles (OTT, grid) or loads. Memory is the peak of the second solve above what was there before it. Writes benchmarks/out/engines.json.
"""

from __future__ import annotations

import sys
from time import perf_counter
from typing import Any

from harness import Contestant, peak_extra_mb_of, serve, summary, write_json

ENGINES = ("grid", "torch", "pot", "ott")
SETTING = {"penalty": "kl", "epsilon": 1e-4, "marginal_relaxation": 10.0, "coord_scale": 1 / 576}


def problem_at(s: int):
    import pairframe as pf
    from pairframe.problem import state_problem
    from pairframe.testing import embryo

    source = embryo()
    target = embryo(length_px=380, thickness_px=28, bend=-0.3, yolk_px=38)
    config = pf.TransportConfig(**SETTING, downsample_factor=s)
    frame = pf.GridTransform.from_pair(source, target, s=s, px_size_um=1.0)
    return state_problem(frame.to_work(source), frame.to_work(target), config, frame)[0]


def engine(setting: dict[str, Any]) -> dict[str, Any]:
    """One solve: seconds, status and certificate; with ``memory`` the peak instead."""
    from pairframe.engines import SolveOptions, get_engine

    problem, options = problem_at(setting["s"]), SolveOptions(tol=1e-6, max_iterations=20_000)
    solver = get_engine(setting["engine"])
    reason = solver.supports(problem, options)
    if reason is not None:
        return {"seconds": 0.0, "refused": reason}
    if setting.get("memory"):
        return {"seconds": 0.0, "mb": peak_extra_mb_of(lambda: solver.run(problem, options))}
    start = perf_counter()
    solution = solver.run(problem, options)
    return {
        "seconds": perf_counter() - start,
        "status": str(solution.status),
        "iterations": solution.iterations,
        "relative_gap": solution.certificate.relative_gap,
        "marginal_error": solution.certificate.marginal_error,
        "points": [int(problem.support_a.sum()), int(problem.support_b.sum())],
    }


def race(s: int, repeats: int, limit_s: float) -> dict[str, Any]:
    """All engines at one size, in turns."""
    rows: dict[str, Any] = {}
    contestants = {name: Contestant(__file__, "engine") for name in ENGINES}
    for name, contestant in list(contestants.items()):
        first = contestant.ask_within(limit_s, engine=name, s=s)
        if first is None:
            rows[name] = {"cut_off_after_s": limit_s}
            del contestants[name]
        elif "refused" in first:
            rows[name] = first
            del contestants[name]
        else:
            rows[name] = {"first_s": first["seconds"], "answers": []}
    for turn in range(repeats):
        for name, contestant in contestants.items():
            if turn == 0 or rows[name]["first_s"] < 0.1 * limit_s:  # what takes minutes runs twice, not seven times
                answer = contestant.ask_within(None, engine=name, s=s)
                assert answer is not None
                rows[name]["answers"].append(answer)
    for name, contestant in contestants.items():
        rows[name] |= summary(rows[name].pop("answers"))
        answer = contestant.ask_within(None, engine=name, s=s, memory=True)
        assert answer is not None
        rows[name]["mb"] = answer["mb"]
        contestant.close()
    return rows


def main(quick: bool) -> None:
    report: dict[str, Any] = {"setting": SETTING, "tol": 1e-6, "sizes": {}}
    print(f"{'s':>2} {'engine':<7} {'seconds':>9} {'spread':>15} {'/ grid':>7} {'first':>8} {'MB':>7}  certificate")
    for s in (4, 2) if quick else (4, 2, 1):
        rows = report["sizes"][s] = race(s, 3 if quick else 5, 60.0 if quick else 900.0)
        for name, row in rows.items():
            if "median_s" not in row:
                why = row.get("refused") or f"not within {row['cut_off_after_s']:.0f} s"
                print(f"{s:>2} {name:<7} {'-':>9} {why}")
                continue
            last, grid_s = row["last"], rows["grid"]["median_s"]
            print(
                f"{s:>2} {name:<7} {row['median_s']:>9.3f} {row['min_s']:>7.3f}-{row['max_s']:<7.3f} "
                f"{row['median_s'] / grid_s:>7.1f} {row['first_s']:>8.2f} {row['mb']:>7.0f}  {last['status']}, "
                f"{last['iterations']} softmins, gap {last['relative_gap']:.0e}, marginals {last['marginal_error']:.0e}, "
                f"{last['points'][0]} x {last['points'][1]} points"
            )
    write_json("engines", report)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(engine)
    else:
        main("--quick" in sys.argv)
