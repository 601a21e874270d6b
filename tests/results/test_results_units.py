"""One rule for units: um if a pixel size is known, px otherwise; from one place, kept in the store."""

from __future__ import annotations

import csv
import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import tifffile
from helpers.results_equal import SOURCE, TARGET, small_result, unsolved_result

import pairframe as pf
from pairframe.results import ResultStore, TransportResult, failed_row
from pairframe.results.formatting import percent
from pairframe.results.row_units import column_unit, units_of
from pairframe.results.rows import result_row
from pairframe.results.schema import COLUMNS
from pairframe.results.variables import attributes_of, history_of, result_from, variables_of
from pairframe.testing import disc
from pairframe.units import Units

NOT_GIVEN, GIVEN = unsolved_result(), pf.compare(np.zeros((30, 40)), SOURCE, pf.TransportConfig(px_size_um=1.0))


def said(result: TransportResult, folder: Path) -> dict[str, str]:
    """The unit of a length, as each way out of a result tells it."""
    folder.mkdir(parents=True, exist_ok=True)
    result.save_tif(folder / "maps.tif", overwrite=True)
    result.save_csv(folder / "maps.csv", overwrite=True)
    dataset = result.to_xarray()
    with (folder / "maps.csv").open(newline="") as stream:
        header = next(csv.reader(stream))
    with (folder / "maps_scalars.csv").open(newline="") as stream:
        scalars = {line["name"]: line["unit"] for line in csv.DictReader(stream)}
    with tifffile.TiffFile(folder / "maps.tif") as file:
        assert file.imagej_metadata is not None
        in_tif = {"pixel": "px", "micron": "um"}[file.imagej_metadata["unit"]]
    assert [name.split("_")[1] for name in header if name.startswith(("y_", "dx_", "speed_"))] == [header[2][2:]] * 3
    return {
        "result": result.length_unit,
        "summary": "um" if " um" in result.summary() else "px",
        "html": "um" if " um" in result._repr_html_() else "px",
        "coordinates": dataset.y_um.attrs["units"],
        "velocity": dataset.velocity_dy.attrs["units"],
        "cost": dataset.cost_source.attrs["units"].removeprefix("pixel mass ").removesuffix("^2"),
        "attributes": json.loads(dataset.attrs["units"])["area_source_um2"].removesuffix("^2"),
        "csv": header[2].removeprefix("y_"),
        "scalars": scalars["blur_um"],
        "area": scalars["area_target_um2"].removesuffix("^2"),
        "tif": in_tif,
        "row": units_of(result_row(result, "pair")).length,
    }


@pytest.mark.parametrize(("result", "unit"), [(NOT_GIVEN, "px"), (GIVEN, "um")])
def test_everything_says_the_same_unit_also_after_a_trip_to_the_disk(
    result: TransportResult, unit: str, tmp_path: Path
) -> None:
    result.save(tmp_path / "store")
    for found in (result, pf.load(tmp_path / "store")):
        assert set(said(found, tmp_path / "exports").values()) == {unit}
        assert found.config.px_size_um == found.transform.px_size_um == (None if unit == "px" else 1.0)
        assert found.transform.work_px_size_um == 1.0
    (row,) = ResultStore(tmp_path / "store").table().to_dict("records")
    assert units_of(row).length == unit
    assert ResultStore(tmp_path / "store").open_maps().attrs["length_unit"] == unit


def test_a_mask_that_says_one_micrometre_is_in_micrometres() -> None:
    source, target = (pf.Mask.from_array(mask, px_size_um=1.0) for mask in (np.zeros(SOURCE.shape), SOURCE))
    assert pf.compare(source, target).length_unit == "um"
    assert pf.compare(source.values, target.values).length_unit == "px"


def test_one_micrometre_that_the_config_says_wins_over_the_masks_and_is_told() -> None:
    empty, full = (pf.Mask.from_array(mask, px_size_um=0.5) for mask in (np.zeros(SOURCE.shape), SOURCE))
    result = pf.compare(empty, full, pf.TransportConfig(px_size_um=1.0))
    assert (result.transform.px_size_um, result.length_unit) == (1.0, "um")
    assert tuple(map(str, result.notices)) == (
        "the pixel size is 1 um, from the config, although the source has 0.5 um and the target has 0.5 um",
    )


def test_a_result_of_an_earlier_version_without_a_pixel_size_is_in_pixels() -> None:
    arrays = {variable.name: variable.values for variable in variables_of(NOT_GIVEN)}
    attributes = {**attributes_of(NOT_GIVEN), **history_of(NOT_GIVEN)}
    attributes["transform"] = json.dumps(json.loads(attributes["transform"]) | {"px_size_um": 1.0})
    again = result_from(arrays, attributes)
    assert again.units == Units()
    assert again.transform == NOT_GIVEN.transform


def test_a_transform_without_a_pixel_size_takes_that_of_the_masks() -> None:
    source, target = (pf.Mask.from_array(mask, px_size_um=0.5) for mask in (np.zeros(SOURCE.shape), SOURCE))
    result = pf.compare(source, target, transform=NOT_GIVEN.transform)
    assert result.units == result.transform.units == Units(0.5)
    assert result.notices == ()


def test_a_transform_in_pixels_stays_in_pixels() -> None:
    again = pf.compare(np.zeros(SOURCE.shape), SOURCE, transform=NOT_GIVEN.transform)
    assert again.length_unit == "px"


def test_a_config_keeps_whether_the_pixel_size_was_given() -> None:
    for config, unit in ((pf.TransportConfig(), "px"), (pf.TransportConfig(px_size_um=1.0), "um")):
        for again in (
            pf.TransportConfig.from_json(config.to_json()),
            pf.TransportConfig.from_toml(config.to_toml()),
        ):
            assert again.units.length == unit
            assert again == config


def test_every_unit_of_length_becomes_pixels_and_costs_of_distances_are_lengths() -> None:
    for column in COLUMNS:
        assert "um" not in column_unit(column.name, Units())
        assert column_unit(column.name, Units(1.0)) == column.unit
    assert column_unit("gap", Units(1.0), is_euclidean=True) == "pixel mass work px"
    assert column_unit("total_transport_cost_um2", Units(1.0), is_euclidean=True) == "pixel mass um"
    assert column_unit("area_source_um2", Units(1.0), is_euclidean=True) == "um^2"


def test_a_failed_pair_has_no_pixel_size() -> None:
    assert units_of(failed_row("bad", "no such file")).in_px


# --- what a summary says ---------------------------------------------------------------------


def test_what_is_below_the_noise_floor_is_said_so() -> None:
    same, other = pf.compare(SOURCE, SOURCE), small_result()
    assert same.destroyed_is_noise
    assert same.created_is_noise
    assert "0.00%" not in same.summary()
    assert f"mass, below the bias of the method, {percent(same.noise_floor, 1.0)} of the source" in same.summary()
    assert not other.created_is_noise
    created = percent(other.total_mass_created, other.M_target)
    assert f"{created} of the target (bias of the method " in other.summary()


def test_without_an_answer_the_summary_has_no_numbers() -> None:
    result = pf.compare(SOURCE, TARGET, pf.TransportConfig(epsilon=1e-300))
    assert result.status == "impossible"
    assert not result.has_answer
    summary = result.summary()
    assert "answer     none: " in summary
    assert "inf" not in summary
    assert "100" not in summary
    assert "destroyed" not in summary


@pytest.mark.parametrize(("config", "words"), [
    ({"downsample_factor": 500}, ["the source is only 1 x 1 work pixels large", "the target is only 1 x 1"]),
    ({"downsample_factor": 2}, ["the source is only 7 x 7 work pixels large"]),
    ({"blur_um": 0.3}, ["the blur of 0.3 px is less than half a work pixel of 1 px"]),
    ({"blur_um": 0.3, "px_size_um": 0.5}, []),
    ({}, []),
])  # fmt: skip
def test_a_grid_too_coarse_for_the_masks_or_the_blur_is_a_notice(config: dict[str, float], words: list[str]) -> None:
    notices = [str(notice) for notice in small_result(**config).notices]
    assert len(notices) == len(words), notices
    for notice, word in zip(notices, words, strict=True):
        assert word in notice


def test_the_notice_of_a_small_blur_counts_work_pixels() -> None:
    source, target = disc((60, 60), (30, 28), 20), disc((60, 60), (30, 32), 20)

    def notices(blur_um: float) -> tuple[str, ...]:
        config = pf.TransportConfig(px_size_um=3.0, downsample_factor=2, blur_um=blur_um)
        return tuple(map(str, pf.compare(source, target, config).notices))

    (notice,) = notices(2.9)  # a work pixel is 6 um
    assert "the blur of 2.9 um is less than half a work pixel of 6 um" in notice
    assert "raise blur_um to 6," in notice
    assert notices(3.1) == ()


@pytest.mark.parametrize(("penalty", "metric"), [*product(("kl", "tv", "partial"), ("sqeuclidean", "euclidean"))])
def test_the_reach_is_the_limit_that_the_docs_say(penalty: str, metric: str) -> None:
    backend = "grid" if metric == "sqeuclidean" else "oracle"
    for distance_px in (10, 20, 30):
        source, target = np.zeros((1, 64)), np.zeros((1, 64))
        source[0, 5] = target[0, 5 + distance_px] = 1.0
        config = pf.TransportConfig(
            blur_um=0.5 if metric == "sqeuclidean" else 0.05,
            reach_um=20.0 if penalty == "kl" else 21.0,
            penalty=penalty,
            metric=metric,
            backend=backend,
        )
        moved = pf.compare(source, target, config).total_mass_moved
        share = np.exp(-(distance_px**2) / (2 * 20**2)) if metric == "sqeuclidean" else np.exp(-distance_px / (2 * 20))
        expected = share if penalty == "kl" else float(distance_px < 21)
        assert moved == pytest.approx(expected, abs=0.01)
