"""A store that schema version 3 or 4 wrote: it loads, is reported, analysed and resumed, and the next commit converts it.

``data/results_version_N.tar.xz`` holds masks, manifest and results of
``pairframe run manifest.csv --out out --px-size-um 2 --pad 2`` (then with ``kl`` and a reach of 50 px): two pairs, and one that failed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from helpers.results_equal import differences

import pairframe as pf
from pairframe.analysis import analyze
from pairframe.errors import BrokenStoreError
from pairframe.report.html import write_report
from pairframe.results import ResultStore, failed_row
from pairframe.results.schema import COLUMNS, RENAMED, SCHEMA_VERSION, VERSION_KEY
from pairframe.results.table import read_table, table_bytes

DATA = Path(__file__).parent / "data"
CONFIG = pf.TransportConfig(px_size_um=2.0, pad=2, penalty="kl", reach_um=100.0)
RUN = (
    "run",
    "manifest.csv",
    "--out",
    "out",
    "--px-size-um",
    "2",
    "--pad",
    "2",
    "--jobs",
    "1",
    "--penalty",
    "kl",
    "--reach-um",
    "100",
)


@pytest.fixture(params=[3, 4])
def version(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def folder(tmp_path: Path, version: int) -> Path:
    with tarfile.open(DATA / f"results_version_{version}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    table = tmp_path / "out" / "results.parquet"
    assert pq.read_schema(table).metadata[VERSION_KEY.encode()] == str(version).encode()
    return tmp_path


@pytest.fixture
def out(folder: Path) -> Path:
    return folder / "out"


def test_the_table_has_the_new_names_and_the_old_values(out: Path, version: int) -> None:
    old = pq.read_table(out / "results.parquet")
    table = ResultStore(out).table()
    assert list(table.columns) == [*(column.name for column in COLUMNS), "group", "frame"]
    for name in old.column_names:
        now = RENAMED[version].get(name, name)
        if name == "config_json":  # the default reach of then is written out
            assert [json.loads(text)["reach_um"] for text in table[now].dropna()] == [100.0, 100.0]
            continue
        assert table[now].dropna().tolist() == [v for v in old.column(name).to_pylist() if v is not None], name
    assert table["expansion_rms"].notna().sum() == 2
    assert table["shift_response_long"].isna().all()
    assert table["work_grid_height_px"].notna().sum() == 2
    assert read_table(out / "results.parquet", ["rotation_mean"]).column_names == ["rotation_mean"]


def test_a_result_loads_and_is_what_this_version_computes(folder: Path) -> None:
    loaded = pf.load(folder / "out", "first")
    again = pf.compare(folder / "masks" / "a.png", folder / "masks" / "b.png", CONFIG)
    loaded.check_books()
    # Both were solved to tol = 1e-6, perhaps on other ways there.
    assert abs(loaded.divergence - again.divergence) <= loaded.divergence_error + again.divergence_error
    np.testing.assert_allclose(loaded.velocity_field, again.velocity_field, atol=5e-6)
    maps = ResultStore(folder / "out").open_maps("first")
    assert maps.attrs["schema_version"] == SCHEMA_VERSION
    assert maps.attrs["mean_displacement_dx_um"] > 0
    assert not set(RENAMED[3]) & set(maps.attrs)


def test_it_is_reported_and_analysed(out: Path) -> None:
    page = write_report(out).read_text()
    assert "mean displacement to the right" in page
    assert "drift" not in page
    analysis = analyze(out, max_distance_masks=0)
    tests = {test.scalar for test in analysis.comparisons[0].scalars}
    assert {"expansion_mean", "rotation_rms", "mean_displacement_dy_um"} <= tests


def test_a_commit_converts_the_table_and_keeps_every_row(out: Path) -> None:
    store = ResultStore(out)
    before = store.table()
    store.commit([failed_row("another", "no mask")])
    schema = pq.read_schema(out / "results.parquet")
    assert schema.metadata[VERSION_KEY.encode()] == str(SCHEMA_VERSION).encode()
    assert not set(RENAMED[3]) & set(schema.names)
    after = store.table()
    assert after.pair_id.tolist() == [*before.pair_id, "another"]
    assert after[: len(before)].drop(columns="frame").equals(before.drop(columns="frame"))
    assert store.load("second").divergence == before.divergence[1]


def test_new_pairs_are_zip_files_beside_the_old_folders(out: Path) -> None:
    store = ResultStore(out)
    old = {path.name for path in store.maps_path.iterdir() if path.is_dir()}
    result = store.load("first")
    result.save(out, pair_id="new")
    assert {path.name for path in store.maps_path.iterdir() if path.is_dir()} == old
    assert len(list(store.maps_path.glob("new-*.zarr.zip"))) == 1
    assert differences(store.load("first"), store.load("new")) == []
    result.save(out, pair_id="first", overwrite=True)
    assert {path.name[:-9] for path in store.maps_path.iterdir() if path.is_dir()} == {"second"}
    assert differences(store.load("first"), result) == []


def test_a_changed_total_is_noticed_by_the_books(out: Path) -> None:
    (group,) = (out / "maps.zarr").glob("first-*")
    node = json.loads((group / "zarr.json").read_text())
    node["attributes"]["total_mass_moved"] *= 2
    (group / "zarr.json").write_text(json.dumps(node))
    with pytest.raises(BrokenStoreError, match="source mass is"):
        pf.load(out, "first")


@pytest.mark.parametrize("version", [3], indirect=True)
def test_a_carried_column_gives_way_to_a_new_name(out: Path) -> None:
    path = out / "results.parquet"
    table = pq.read_table(path)
    renamed = table.rename_columns({"group": "rotation_mean"})
    path.write_bytes(table_bytes(renamed.replace_schema_metadata(table.schema.metadata)))
    found = ResultStore(out).table()
    assert found["rotation_mean_carried"].tolist() == ["control", "treated", "treated"]
    assert found["rotation_mean"].dtype == float


def test_a_run_resumes_it(folder: Path) -> None:
    before = ResultStore(folder / "out").table().set_index("pair_id")
    with (folder / "manifest.csv").open("a") as manifest:
        manifest.write("third,masks/a.png,masks/c.png,control,3\n")
    done = subprocess.run(
        [sys.executable, "-m", "pairframe", *RUN],
        cwd=folder,
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr  # one pair still fails
    after = ResultStore(folder / "out").table().set_index("pair_id")
    assert after.status.tolist() == ["converged", "converged", "failed", "converged"]
    assert (
        pq.read_schema(folder / "out" / "results.parquet").metadata[VERSION_KEY.encode()]
        == str(SCHEMA_VERSION).encode()
    )
    # The key of a comparison has the version: all are solved again, to tol = 1e-6.
    for name in ("divergence", "mean_displacement_dy_um", "expansion_rms"):
        assert after[name][:2].tolist() == pytest.approx(before[name][:2].tolist(), rel=1e-5, abs=1e-6)
