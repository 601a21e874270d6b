"""What we wrote opens elsewhere: xarray, zarr, pandas, pyarrow, DuckDB."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import xarray as xr
import zarr
from helpers.archives import entries, group_of
from helpers.results_equal import small_result
from zarr.storage import ZipStore

from pairframe.results import ResultStore, TransportResult, failed_row
from pairframe.results.schema import COLUMNS, FIELDS


@pytest.fixture(scope="module")
def result() -> TransportResult:
    return small_result(px_size_um=0.5, downsample_factor=2)


@pytest.fixture(scope="module")
def out(result: TransportResult, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("store")
    store = ResultStore(out)
    store.commit([store.write_maps(result, "pair", extra={"group": "wt"}), failed_row("bad", "no such file")])
    return out


def test_xarray_opens_the_maps_and_they_are_those_of_to_xarray(result: TransportResult, out: Path) -> None:
    group = ResultStore(out).table()["maps_group"][0]
    expected = result.to_xarray()
    path = out / "maps.zarr" / f"{group}.zarr.zip"
    for found in (
        xr.open_zarr(ZipStore(path)),  # a warning would be an error
        xr.open_zarr(ZipStore(path), consolidated=False),
        ResultStore(out).open_maps("pair"),
    ):
        assert found.load().equals(expected)
        for name, variable in expected.variables.items():
            assert found[name].dtype == variable.dtype
            assert found[name].attrs == variable.attrs
        assert expected.attrs.items() <= found.attrs.items()
        assert json.loads(found.attrs["extra"]) == {"group": "wt"}


def test_coordinates_are_the_centres_of_pixels_in_um(result: TransportResult) -> None:
    dataset = result.to_xarray()
    assert dataset.x_um.values[:3].tolist() == [0.25, 0.75, 1.25]
    assert dataset.y_um.attrs["units"] == "um"
    crop = result.transform.pair_crop_box_yx
    assert dataset.work_y_um.values[0] == (crop.y0 + 1) * 0.5
    assert np.diff(dataset.work_x_um.values) == pytest.approx(1.0)
    # The same mass, wherever it is summed: one label-based slice on both grids.
    half = slice(None, float(dataset.work_x_um.values[7]) + 0.5)
    work_created = dataset.work_maps[dataset.work_maps.labels.split().index("mass_created")]
    on_canvas = float(dataset.mass_created.sel(x_um=half).sum())
    assert on_canvas == pytest.approx(float(work_created.sel(work_x_um=half).sum()))
    assert float(dataset.mass_created.sum()) == pytest.approx(result.total_mass_created)
    assert dataset.attrs["total_mass_moved"] == result.total_mass_moved


def test_a_dataset_holds_nothing_that_netcdf_could_not(result: TransportResult, tmp_path: Path) -> None:
    dataset = result.to_xarray()
    dataset.to_netcdf(tmp_path / "maps.nc", engine="scipy")
    with xr.open_dataset(tmp_path / "maps.nc", engine="scipy") as again:
        xr.testing.assert_allclose(again.load(), again.copy(data=dict(dataset.data_vars)))


def test_zarr_sees_version_3_with_dimension_names_compression_and_strict_json(out: Path) -> None:
    group = zarr.open_group(ZipStore(group_of(out)), mode="r")
    assert group.metadata.zarr_format == 3
    array = group["mass_created"]
    assert array.metadata.dimension_names == ("y_um", "x_um")
    assert [type(codec).__name__ for codec in array.compressors] == ["BloscCodec", "Crc32cCodec"]
    assert all(array.dtype.kind in "fb" for _, array in group.arrays())

    def refuse(text: str) -> None:
        raise AssertionError(f"{text} is no JSON")

    for name, content in entries(group_of(out)).items():
        if name.endswith("zarr.json"):
            json.loads(content, parse_constant=refuse)


def test_a_pair_is_one_file(out: Path) -> None:
    group = ResultStore(out).table()["maps_group"][0]
    assert {path.name for path in (out / "maps.zarr").iterdir()} == {"zarr.json", f"{group}.zarr.zip"}


def test_maps_zarr_is_a_group_that_says_how_to_open_a_pair(out: Path) -> None:
    root = zarr.open_group(out / "maps.zarr", mode="r")  # a warning would be an error
    assert list(root.members()) == []
    assert "ZipStore" in str(root.attrs["title"])


def test_a_group_says_everything_without_the_table(result: TransportResult, out: Path) -> None:
    attributes = dict(zarr.open_group(ZipStore(group_of(out)), mode="r").attrs)
    row = ResultStore(out).table().iloc[0]
    for column in COLUMNS:
        if pd.notna(row[column.name]):
            assert attributes[column.name] == row[column.name], column.name
    assert {column.name for column in FIELDS} <= set(attributes)
    assert json.loads(attributes["units"])["gap"] == "pixel mass work px^2"
    assert {"schema_version", "pair_id", "provenance", "config", "transform", "versions"} <= set(attributes)


def test_pandas_pyarrow_and_duckdb_read_the_table(result: TransportResult, out: Path) -> None:
    path = out / "results.parquet"
    query = 'select pair_id, status, total_mass_moved, iterations, "group" from read_parquet(?) order by status'
    in_duckdb = duckdb.execute(query, [str(path)]).fetchall()
    good = ("pair", "converged", result.total_mass_moved, result.iterations, "wt")
    assert in_duckdb == [good, ("bad", "failed", None, None, None)]
    in_arrow = pq.read_table(path)
    assert in_arrow["total_mass_moved"].to_pylist() == [result.total_mass_moved, None]
    in_pandas = pd.read_parquet(path)
    assert in_pandas["pair_id"].tolist() == ["pair", "bad"]
    assert in_pandas["total_mass_moved"][0] == result.total_mass_moved
    assert list(in_pandas.columns) == [*(column.name for column in COLUMNS), "group"]


def test_results_parquet_is_the_only_parquet_file(out: Path) -> None:
    assert [path.name for path in out.rglob("*.parquet")] == ["results.parquet"]
