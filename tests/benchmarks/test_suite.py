"""The benchmark suite: one certificate for all contestants, a fair clock, and a page that reports what was measured."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from pairframe.engines import SolveOptions, get_engine
from suite.contestants import Contestant, Deadline
from suite.parts import QUICK, TINY, WHOLE
from suite.problems import PairSpec, masks_of, problem_of
from suite.race import certify, find, timed
from suite.report import json_values, run_bench
from suite.solvers import SOLVERS, Potentials
from suite.tables import page, race_table

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SMALL = PairSpec(scale=1 / 16, blur_px=24.0, reach_px=60.0)
MODULES = {"pot": "ot", "pot-ti": "ot", "ott": "ott", "geomloss": "geomloss", "torch": "torch", "grid": "numba"}


def script(tmp_path: Path, body: str) -> list[str]:
    path = tmp_path / "contestant.py"
    imports = f"import sys\nsys.path.insert(0, {str(BENCHMARKS)!r})\nfrom suite.contestants import serve\n"
    path.write_text(f"{imports}{body}\nserve(job)\n")
    return [sys.executable, str(path)]


# --- one objective for all -------------------------------------------------------------------


@pytest.mark.parametrize("name", SOLVERS)
def test_every_contestant_solves_the_same_problem(name: str) -> None:
    if find_spec(MODULES[name]) is None:
        pytest.skip(f"{SOLVERS[name].package} is not installed")
    problem = problem_of(SMALL)
    truth = get_engine("oracle").run(problem, SolveOptions(tol=1e-11)).certificate.primal_upper
    # GeomLoss ends after one sweep: it comes closer with every finer ladder, and never much closer than this.
    effort, within = {"grid": (9, 1e-8), "geomloss": (400, 1e-3)}.get(name, (400, 1e-8))
    found = certify(problem, SOLVERS[name]().solve(problem, effort))
    assert found is not None
    assert found.primal_upper == pytest.approx(truth, rel=within)
    assert found.dual_lower <= truth * (1 + 1e-12) <= found.primal_upper * (1 + 1e-9)


def test_the_certificate_is_that_of_the_engine_and_a_constant_between_the_potentials_is_forgiven() -> None:
    problem = problem_of(SMALL)
    solution = get_engine("grid").run(problem, SolveOptions(tol=1e-7))
    f, g = solution.potential_a[problem.support_a], solution.potential_b[problem.support_b]
    for shift in (0.0, 3.0):
        found = certify(problem, Potentials(f + shift, g - shift))
        assert found is not None
        assert found.primal_upper == pytest.approx(solution.certificate.primal_upper, rel=1e-9)
        assert found.meets(1e-6)
    assert certify(problem, Potentials(np.full(f.shape, np.nan), g)) is None


@pytest.mark.parametrize("scale", [1 / 16, 1 / 8, 1 / 4])
def test_all_scales_are_the_same_physics(scale: float) -> None:
    spec = PairSpec(scale=scale)
    a, _ = masks_of(spec)
    assert a.sum() * (1 / scale) ** 2 == pytest.approx(masks_of(PairSpec())[0].sum(), rel=0.05)
    assert problem_of(spec).epsilon == pytest.approx((2.0 * scale) ** 2)


# --- the clock -------------------------------------------------------------------------------


def test_the_effort_that_was_found_meets_the_accuracy_in_one_run_from_the_start() -> None:
    pytest.importorskip("torch")
    setting = {"solver": "torch", "spec": vars(SMALL)}
    found = find(setting | {"tols": [1e-2, 1e-4], "limit_s": 30.0})
    assert found["ended"] == "met"
    assert list(found["efforts"]) == ["1e-02", "1e-04"]
    efforts = [found["efforts"][tol]["effort"] for tol in ("1e-02", "1e-04")]
    assert efforts[0] < efforts[1]
    for tol, effort in zip((1e-2, 1e-4), efforts, strict=True):
        run = timed(setting | {"effort": effort})
        assert max(run["relative_gap"], run["marginal_error"]) <= tol
        assert run["seconds"] > 0


def test_a_contestant_that_needs_longer_is_stopped_by_its_limit_and_its_error_is_reported() -> None:
    pytest.importorskip("torch")
    slow = PairSpec(scale=1 / 16, blur_px=8.0, reach_px=5000.0)
    found = find({"solver": "torch", "spec": vars(slow), "tols": [1e-6], "limit_s": 0.01})
    assert (found["ended"], found["efforts"]) == ("limit", {})
    assert found["trace"][-1][0] > 0.01
    assert found["last_effort"] >= 10


def test_a_matrix_that_does_not_fit_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pairframe.engines.points.memory_limit_bytes", lambda: 1000)
    found = find({"solver": "torch", "spec": vars(SMALL), "tols": [1e-2], "limit_s": 1.0})
    assert found["ended"] == "refused"
    assert "need an estimated" in found["why"]


# --- processes -------------------------------------------------------------------------------


def test_output_of_a_library_does_not_spoil_an_answer(tmp_path: Path) -> None:
    body = "def job(setting):\n    print('hello from a library')\n    return {'twice': 2 * setting['x']}"
    with Contestant(script(tmp_path, body)) as one:
        assert [one.ask(60, x=x) for x in (1, 2)] == [{"twice": 2}, {"twice": 4}]


def test_a_contestant_that_hangs_or_dies_is_reported_and_replaced(tmp_path: Path) -> None:
    body = (
        "import os, time\n"
        "def job(setting):\n"
        "    if setting['do'] == 'hang': time.sleep(60)\n"
        "    if setting['do'] == 'die': os._exit(3)\n"
        "    return {'pid': os.getpid()}"
    )
    with Contestant(script(tmp_path, body)) as one:
        first = one.ask(60, do="work")["pid"]
        assert one.ask(60, do="work")["pid"] == first
        died = one.ask(60, do="die")
        assert (died["ended"], "code 3" in died["why"]) == ("died", True)
        second = one.ask(60, do="work")["pid"]
        assert one.ask(0.2, do="hang")["ended"] == "cut off"
        assert len({first, second, one.ask(60, do="work")["pid"]}) == 3


def test_a_deadline_passes_once_and_parts_of_it_are_never_longer() -> None:
    assert Deadline(0.0).is_over
    whole = Deadline(100.0)
    assert not whole.is_over
    assert whole.at_most(5.0).left_s <= 5.0
    assert whole.at_most(500.0).left_s <= 100.0


def test_the_plans_keep_what_is_promised() -> None:
    assert QUICK.total_s <= 180
    assert WHOLE.total_s <= 35 * 60


# --- the command -----------------------------------------------------------------------------


@pytest.mark.slow
def test_the_suite_writes_a_page_its_json_and_five_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "bench"
    run_bench(out, plan=TINY, only=("grid",))
    assert str(out / "benchmarks.md") in capsys.readouterr().out
    report = json.loads((out / "benchmarks.json").read_text(), parse_constant=pytest.fail)
    assert set(report) >= {"commit", "machine", "versions", "races", "memory", "curves", "compare", "missing"}
    assert report["races"][0]["rows"]["grid"]["ended"] == "met"
    assert (out / "benchmarks.md").read_text() == page(report)
    assert {path.name for path in (out / "images").iterdir()} == {
        f"scaling_{name}.png" for name in ("pixels", "blur", "ratio", "pairs", "accuracy")
    }

    run_bench(out, plan=TINY, only=("grid",), part="compare")
    again = json.loads((out / "benchmarks.json").read_text())
    assert again["races"] == report["races"]
    assert again["compare"] != report["compare"], "it was measured again"
    assert set(again["parts"]) == {"races", "compare", "curves", "memory", "scripts"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--only", "pott"), "expected some of grid, pot"),
        (("--part", "speed"), "choose from"),
        (("--part", "curves"), "need the benchmarks.json of an earlier run"),
        (("--page",), "need the benchmarks.json of an earlier run"),
    ],
)
def test_an_unknown_peer_or_part_is_refused_before_any_work(
    words: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "run.py", "--out", tmp_path / "out", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert message in done.stderr
    assert not (tmp_path / "out").exists()


def test_the_page_of_an_earlier_run_is_written_again_without_measuring(tmp_path: Path) -> None:
    figures = BENCHMARKS.parent / "docs" / "benchmarks.json"
    (tmp_path / "benchmarks.json").write_bytes(figures.read_bytes())
    subprocess.run([sys.executable, BENCHMARKS / "run.py", "--out", tmp_path, "--page"], check=True)
    assert (tmp_path / "benchmarks.md").read_text() == figures.with_suffix(".md").read_text()
    assert (tmp_path / "benchmarks.json").read_bytes() == figures.read_bytes()


def test_an_accuracy_that_was_not_reached_is_a_lower_bound_in_the_table_and_a_breakdown_is_none() -> None:
    ours = {"ended": "met", "points": [3, 4], "times": {"1e-02": _time(0.5), "1e-04": _time(1.0)}}
    slow = {
        "ended": "limit",
        "times": {"1e-02": _time(2.0)},
        "last": {"seconds": 30.0, "relative_gap": 0.3, "marginal_error": math.inf},
    }
    broken = {"ended": "broke down", "why": "its potentials are not finite"}
    one = {"setting": "s", "spec": {"scale": 1}, "limit_s": 20.0, "rows": {"grid": ours, "pot": slow, "torch": broken}}
    lines = race_table(json_values(one), (1e-2, 1e-4)).splitlines()
    pot, torch = (next(line for line in lines if line.startswith(f"| {label} ")) for label in ("POT", "plain torch"))
    assert "| > 30 | 4 | > 30 | stopped by the limit of 20 s at gap 3e-01, marginals none |" in pot
    assert "| – | – | – | – | broke down: its potentials are not finite |" in torch


def _time(seconds: float) -> dict[str, float]:
    return {
        "median_s": seconds,
        "min_s": seconds,
        "max_s": seconds,
        "runs": 1,
        "relative_gap": 1e-9,
        "marginal_error": 1e-5,
    }
