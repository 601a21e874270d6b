"""The benchmark scripts say what they ask and write; the cost model finds a law that is there; the pages are what was measured."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cluster_model as model
import cost_model
from suite.contestants import Deadline
from suite.scripts import run_script
from suite.tables import page

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
SHARED = {"harness.py", "cluster_model.py", "run.py"}
SCRIPTS = sorted(path for path in BENCHMARKS.glob("*.py") if path.name not in SHARED)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_asks_one_question_and_says_how_to_run_it_and_what_it_writes(script: Path) -> None:
    doc = ast.get_docstring(ast.parse(script.read_text())) or ""
    assert doc.split("\n\n")[0].rstrip().endswith("?") or "?" in doc.splitlines()[0]
    assert f"python benchmarks/{script.name}" in doc
    assert f"benchmarks/out/{script.stem}.json" in " ".join(doc.split())


# --- the cost model --------------------------------------------------------------------------


def rows_of(law: object, sizes: tuple[int, ...]) -> list[object]:
    return [
        model.Measured(n, blur, reach, round(law.iterations(n, blur, reach)), law.seconds(n, blur, reach))
        for n in sizes
        for blur in (2.0, 4.0, 8.0)
        for reach in (20.0, 100.0, 1000.0)
    ]


def test_a_law_of_that_form_is_found_and_holds_for_sizes_it_was_not_fitted_on() -> None:
    law = model.CostModel((1.0, 0.4, 0.3), (0.02, 1e-6, 5e-8, 1e-7))
    found = model.fit(rows_of(law, (8_000, 60_000, 200_000)))
    assert abs(model.relative_errors(found, rows_of(law, (4_000, 30_000, 500_000)))).max() < 0.02


def test_a_line_through_points_is_that_line() -> None:
    assert model.line([1.0, 10.0, 100.0], [5.0, 23.0, 203.0]) == pytest.approx((3.0, 2.0))


costs = st.builds(
    model.PairCost,
    compute_s=st.floats(0.01, 10),
    write_s=st.floats(0, 1),
    disk_bytes=st.floats(1e3, 1e8),
    files=st.floats(1, 100),
    row_s=st.floats(1e-6, 1e-2),
    row_bytes=st.just(500.0),
    memory_bytes=st.just(1e8),
)


@settings(deadline=None, max_examples=60)
@given(cost=costs, workers=st.integers(1, 64), n_pairs=st.integers(1, 4000))
def test_a_simulated_run_is_never_faster_than_any_bound_and_not_much_slower_than_their_sum(
    cost: object, workers: int, n_pairs: int
) -> None:
    cluster = model.Cluster(workers)
    bounds = model.bounds_s(n_pairs, cost, cluster)
    simulated = model.simulate_s(n_pairs, cost, cluster, spread=0.0)
    assert simulated >= max(bounds.values()) * (1 - 1e-9)
    longest_chunk = model.MAX_CHUNK * (cost.compute_s + cost.write_s)
    assert simulated <= sum(bounds.values()) + 2 * longest_chunk + 1e-9


def test_one_worker_with_nothing_else_to_wait_for_takes_the_sum() -> None:
    cost = model.PairCost(2.0, 0.5, 1.0, 0.0, 0.0, 0.0, 0.0)
    assert model.simulate_s(100, cost, model.Cluster(1), spread=0.0) == pytest.approx(250.0)


# --- scripts inside the suite ----------------------------------------------------------------


def test_a_script_is_run_with_a_limit_and_its_json_is_read_only_when_this_run_wrote_it(tmp_path: Path) -> None:
    write = "from pathlib import Path\nout = Path(__file__).parent / 'out'\nout.mkdir(exist_ok=True)\n"
    (tmp_path / "good.py").write_text(write + "(out / 'good.json').write_text('{\"x\": 1}')\nprint('said')")
    (tmp_path / "silent.py").write_text("")
    (tmp_path / "bad.py").write_text("raise SystemExit('no data here')")
    (tmp_path / "slow.py").write_text("import time; time.sleep(60)")
    found = {
        name: run_script(tmp_path, name, Deadline(0.5 if name == "slow" else 60), quick=True)
        for name in ("good", "silent", "bad", "slow", "none")
    }
    assert found["good"] == {"ended": "done", "printed": ["said"], "json": {"x": 1}}
    assert [found[name]["ended"] for name in ("silent", "bad", "slow", "none")] == [
        "failed",
        "failed",
        "cut off",
        "not there",
    ]
    assert found["bad"]["why"] == "code 1: no data here"


# --- the pages -------------------------------------------------------------------------------


def test_the_page_of_benchmarks_is_its_json_and_names_machine_versions_and_commit() -> None:
    report = json.loads((ROOT / "docs" / "benchmarks.json").read_text())
    assert (ROOT / "docs" / "benchmarks.md").read_text() == page(report)
    for name in ("commit", "machine", "python", "versions", "date"):
        assert report[name]


def test_the_tables_of_the_cost_model_are_its_json() -> None:
    report = json.loads((ROOT / "docs" / "scaling.json").read_text())
    text = (ROOT / "docs" / "scaling.md").read_text()
    assert cost_model.tables(report) in text
    assert report["check"]["n"] >= 12
