"""`analyze` on stores: a cohort with a planted difference, and every kind of cohort that it must refuse or tell about."""

from __future__ import annotations

import json
import math
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.archives import spoil

import pairframe as pf
from pairframe.analysis import CohortAnalysis, analyze
from pairframe.cli.analyze import AnalyzeJob, run_analyze
from pairframe.errors import BrokenStoreError, CohortError, StoreError
from pairframe.report.html import write_analysis
from pairframe.results import ResultStore, disk, failed_row
from pairframe.testing import disc

SHAPE = (28, 44)
HOSTILE = "<img src=x onerror=\"document.title='harmed'\">"
CONFIG = pf.TransportConfig(px_size_um=2.0, reach_um=20.0, penalty="kl")


def grown(unit: int, step: int, growth_px: float) -> np.ndarray[Any, Any]:
    return disc(SHAPE, (14 + unit % 2, 16 + unit), 6 + 0.4 * unit + step * growth_px)


def cohort_store(out: Path, n_units: int = 4, **extra: Any) -> ResultStore:
    """Discs of two groups, two steps of each; those of the second group grow more and move to the right."""
    store, rows = ResultStore(out), []
    for group, growth_px, shift_px in (("control", 0.5, 0), ("treated", 1.5, 3)):
        for unit in range(n_units):
            for step in range(2):
                source = grown(unit, step, growth_px)
                target = np.roll(grown(unit, step + 1, growth_px), shift_px, axis=1)
                labels = {"group": group, "embryo": f"{group} {unit}", "hpf": 24.0 + 2 * step, **extra}
                result = pf.compare(source, target, CONFIG)
                rows.append(store.write_maps(result, f"{group} {unit} {step}", extra=labels))
    store.commit(rows)
    return store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ResultStore:
    return cohort_store(tmp_path_factory.mktemp("cohort"))


@pytest.fixture(scope="module")
def analysis(store: ResultStore) -> CohortAnalysis:
    return analyze(store, max_distance_masks=6)


# --- what is found ---------------------------------------------------------------------------


def test_roles_are_found_by_name_and_the_reference_is_the_control(analysis: CohortAnalysis) -> None:
    members = analysis.members
    assert (members.group_column, members.time_column, members.unit_column) == ("group", "hpf", "embryo")
    assert members.groups == ("control", "treated")
    assert members.bin_edges == (24.0, 25.0, 26.0)
    assert len(members.units) == 8
    assert sum(member.weight for member in members.members) == pytest.approx(8.0)


def test_a_planted_effect_is_found_with_its_size_and_direction(analysis: CohortAnalysis) -> None:
    (found,) = analysis.comparisons
    tests = {test.scalar: test for test in found.scalars}
    assert found.is_exact
    assert found.n_permutations == math.comb(8, 4)
    motion, growth = tests["mean_displacement_dx_um"], tests["growth_rate"]
    for test in (motion, growth):
        assert test.p == found.smallest_p == 2 / 70
        assert test.cliffs_delta == 1.0
        assert test.cohens_d > 1
        assert test.q <= 0.05
    # Some of the 6 um are growth on one side and loss on the other: a soft penalty moves less than a hard one.
    assert 3.0 < motion.difference < 6.0
    assert (motion.n_group, motion.n_reference) == (4, 4)


def test_the_mean_of_a_scalar_is_that_of_the_table(analysis: CohortAnalysis, store: ResultStore) -> None:
    table = store.table()
    by_unit = table.groupby(["group", "embryo"])["percent_created"].mean().groupby("group").mean()
    test = next(test for test in analysis.comparisons[0].scalars if test.scalar == "percent_created")
    assert (test.mean_reference, test.mean_group) == pytest.approx((by_unit["control"], by_unit["treated"]))


def test_mean_fields_are_those_of_the_results(analysis: CohortAnalysis, store: ResultStore) -> None:
    results = [store.load(f"treated {unit} 1") for unit in range(4)]
    mean = analysis.mean_fields["treated", 1]
    assert mean.n_pairs == 4
    assert mean.created == pytest.approx(np.mean([result.mass_created for result in results], axis=0))
    known = np.sum([result.velocity_valid for result in results], axis=0)
    assert (mean.n_known == known).all()
    total = np.sum([np.nan_to_num(result.velocity_field) for result in results], axis=0)
    assert mean.velocity_um[known > 0] == pytest.approx((total[known > 0].T / known[known > 0]).T)
    assert np.isnan(mean.velocity_um[known == 0]).all()


def test_the_treated_are_farther_from_the_control_than_the_control_itself(analysis: CohortAnalysis) -> None:
    rmse = {name: found.velocity_rmse_um for name, found in analysis.deviations.items()}
    control = [value for name, value in rmse.items() if name.startswith("control")]
    treated = [value for name, value in rmse.items() if name.startswith("treated")]
    assert max(control) < min(treated)
    assert set(analysis.residuals) == set(rmse)


def test_distances_are_divergences_of_the_source_masks(analysis: CohortAnalysis, store: ResultStore) -> None:
    found = analysis.distances
    assert found is not None
    assert len(found.pair_ids) == 6
    assert found.block_px == 1
    assert (found.distance_um == found.distance_um.T).all()
    assert (np.diag(found.distance_um) == 0).all()
    masks = [store.load(name).work.mass_source for name in found.pair_ids]  # s = 1: pixels of the mask itself
    frames = [
        store.load(name).transform.rasterize_to_canon(mass) for name, mass in zip(found.pair_ids, masks, strict=True)
    ]
    config = replace(CONFIG, blur_um=4.0, mass_mode="intensity")
    expected = pf.divergence(frames[0], frames[5], config) * 4.0 / np.median([mass.sum() for mass in masks])
    assert found.distance_um[0, 5] ** 2 == pytest.approx(expected, abs=2 * found.error_um2 + 1e-6)
    assert any("6 of 16 source masks" in notice for notice in analysis.notices)


def test_the_same_seed_gives_the_same_answer_and_a_coarse_grid_the_same_scalars(store: ResultStore) -> None:
    fine, again, coarse = (
        analyze(store, permutations=30, seed=3, max_distance_masks=0, max_blocks=blocks)
        for blocks in (40_000, 40_000, 100)
    )
    # Field by field: NaN is no equal of itself, and dataclasses compare by identity first only before Python 3.13.
    answers = [[astuple(test) for test in a.comparisons[0].scalars] for a in (fine, again, coarse)]
    np.testing.assert_equal(answers[1], answers[0])
    np.testing.assert_equal(answers[2], answers[0])
    assert not fine.comparisons[0].is_exact
    assert math.prod(coarse.grid.shape_hw) <= 100
    total_fine, total_coarse = (a.grid.block_px**2 * a.mean_fields["treated", 0].created.sum() for a in (fine, coarse))
    assert total_coarse == pytest.approx(total_fine, rel=0.05)  # blocks at the edge are smaller


# --- what is told and what is refused --------------------------------------------------------


def edited(store: ResultStore, out: Path, **columns: Any) -> ResultStore:
    """A store with the maps of another and changed rows."""
    out.mkdir()
    (out / "maps.zarr").symlink_to(store.maps_path.resolve())
    rows = store.table().astype(object)
    changed = []
    for number, row in enumerate(rows.where(rows.notna(), None).to_dict("records")):
        for name, value in columns.items():
            row[name] = value(number, row) if callable(value) else value
        changed.append({name: value for name, value in row.items() if name in columns or value is not None})
    copy = ResultStore(out)
    copy.commit(changed)
    return copy


def test_failed_and_uncertified_pairs_and_those_without_labels_are_left_out_and_told(
    store: ResultStore, tmp_path: Path
) -> None:
    odd = edited(
        store,
        tmp_path / "odd",
        status=lambda number, row: "max_iterations" if number == 3 else row["status"],
        group=lambda number, row: None if number == 5 else row["group"],
    )
    odd.commit([failed_row("gone", "no such file", extra={"group": "control"})])
    found = analyze(odd, max_distance_masks=0)
    assert len(found.members.members) == 14
    for words in ("1 of 17 pairs left out: failed", "max_iterations: not certified", "no value in column 'group'"):
        assert any(words in notice for notice in found.notices)


def test_too_few_units_for_any_finding_are_told(store: ResultStore, tmp_path: Path) -> None:
    few = edited(store, tmp_path / "few", embryo=lambda number, row: f"{row['group']} {number % 2}")
    assert any("the smallest possible p is 0.33" in notice for notice in analyze(few, max_distance_masks=0).notices)


def test_one_group_has_mean_fields_and_deviations_and_no_tests(store: ResultStore, tmp_path: Path) -> None:
    one = edited(store, tmp_path / "one", group="all the same")
    found = analyze(one, max_distance_masks=0)
    assert found.comparisons == ()
    assert all(math.isfinite(value.velocity_rmse_um) for value in found.deviations.values())


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"group": "sex"}, "group to be a carried column: group, embryo, hpf"),
        ({"time": "percent_created"}, "time to be a carried column"),
        ({"reference": "wild type"}, "one of the groups: control, treated"),
        ({"bins": 0}, "bins to be an integer"),
        ({"permutations": 0}, "permutations to be an integer >= 1"),
        ({"scalars": ["status"]}, "columns with numbers"),
        ({"unit": "hpf"}, "all pairs of a hpf in one group"),
        ({"time": "embryo"}, "at least one pair with a certified result"),
    ],
)
def test_what_cannot_be_analysed_is_refused_in_words(store: ResultStore, arguments: dict[str, Any], match: str) -> None:
    with pytest.raises(CohortError, match=match):
        analyze(store, **arguments)


def test_pairs_on_different_canvases_or_with_different_pixels_are_refused(store: ResultStore, tmp_path: Path) -> None:
    for column in ("canon_width_px", "px_size_um"):
        kind = int if column.endswith("px") else float
        other = edited(
            store, tmp_path / column, **{column: lambda number, row, c=column, k=kind: k(row[c]) + number % 2}
        )
        with pytest.raises(CohortError, match="one canvas with one pixel size"):
            analyze(other)


def test_lost_maps_and_a_missing_store_are_errors(tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        analyze(tmp_path / "nothing")
    store = ResultStore(tmp_path / "damaged")
    row = store.write_maps(pf.compare(grown(0, 0, 1), grown(0, 1, 1), CONFIG), "a")
    store.commit([row])
    spoil(disk.group_file(store.maps_path, row["maps_group"]), "mass_created/c.0.0")
    with pytest.raises(BrokenStoreError, match="Bad CRC-32 for file 'mass_created/c"):
        analyze(store)


def test_groups_do_not_differ_in_rounding_errors(store: ResultStore, tmp_path: Path) -> None:
    tiny = edited(
        store,
        tmp_path / "tiny",
        percent_destroyed=lambda number, row: 1e-13 * (1 + (row["group"] == "treated")),
        fraction_destroyed=lambda number, row: 1e-15 * (1 + (row["group"] == "treated")),
    )
    (found,) = analyze(tiny, scalars=["percent_destroyed", "fraction_destroyed"], max_distance_masks=0).comparisons
    for test in found.scalars:
        assert (test.mean_group, test.mean_reference, test.p) == (0.0, 0.0, 1.0)


def test_pictures_of_nothing_do_not_zoom_into_rounding_errors(analysis: CohortAnalysis) -> None:
    from pairframe.report.figures.cohort import mean_field_figure

    still = {
        key: replace(cell, destroyed=np.full_like(cell.destroyed, 1e-15)) for key, cell in analysis.mean_fields.items()
    }
    figure = mean_field_figure(replace(analysis, mean_fields=still), "destroyed")
    assert all(image.get_clim()[1] >= 0.01 for ax in figure.axes for image in ax.images)


# --- on disk ---------------------------------------------------------------------------------


def test_everything_is_saved_and_a_second_time_replaces_it(tmp_path: Path) -> None:
    import xarray as xr

    store = cohort_store(tmp_path / "out", n_units=2, note=HOSTILE)
    found = analyze(store, group="group", max_distance_masks=3)
    page = write_analysis(found, store.out)
    numbers = json.loads((store.out / "analysis.json").read_text())
    assert numbers["reference"] == "control"
    assert len(numbers["pairs"]) == 8
    assert numbers["comparisons"][0]["scalars"][0]["scalar"] == found.comparisons[0].scalars[0].scalar
    maps = xr.open_zarr(store.out / "analysis.zarr", chunks=None)
    assert maps.mean_created.dims == ("group", "bin", "y_um", "x_um")
    assert maps.mean_created.values[1, 0] == pytest.approx(found.mean_fields["treated", 0].created)
    assert maps.residual_velocity_dy.shape == (8, *SHAPE)
    assert maps.hotspot_created_q.attrs["units"] == "1"
    pictures = {path.name for path in (store.out / "analysis").iterdir()}
    assert pictures == {f"{name}.png" for name in ("mean_velocity", "mean_created", "mean_destroyed", "deviations", "distances", "hotspots_0")}  # fmt: skip
    assert all(name.removesuffix(".png") in page.read_text() for name in pictures)
    write_analysis(analyze(store, group="note", unit="pair_id", max_distance_masks=0), store.out)
    assert {path.name for path in (store.out / "analysis").iterdir()} == pictures - {"distances.png", "hotspots_0.png"}
    assert sorted(path.suffix for path in store.out.rglob("*.parquet")) == [".parquet"]
    assert not list(store.out.glob(".tmp-*"))
    html = page.read_text()
    assert "<img src=x" not in html
    assert "&lt;img src=x" in html


def test_any_name_of_a_group_can_be_drawn_and_is_escaped(
    store: ResultStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("_a $x^{", "日本 " + HOSTILE)
    odd = edited(store, tmp_path / "odd", group=lambda number, row: names[row["group"] == "treated"], hpf=1.0)
    monkeypatch.setattr("pairframe.report.html.analysis_write._DPI", 30)
    html = write_analysis(analyze(odd, max_distance_masks=4), odd.out).read_text()
    assert "<img src=x" not in html
    assert "_a $x^{" in html


def test_the_command_says_what_was_found_and_where(
    store: ResultStore, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "pairframe.cli.analyze.write_analysis", lambda analysis, out: Path(out) / "analysis.html"
    )  # drawing takes seconds
    run_analyze(AnalyzeJob(store.out, distance_masks=0), as_json=True)
    assert json.loads(capsys.readouterr().out)["groups"] == ["control", "treated"]
    run_analyze(AnalyzeJob(store.out, distance_masks=0))
    said = capsys.readouterr().out
    assert "16 pairs, 8 units, 2 groups" in said
    assert "treated against control: " in said
    assert "mean_displacement_dx_um" in said
    assert "analysis.html" in said
    run_analyze(AnalyzeJob(store.out, distance_masks=0), quiet=True)
    assert capsys.readouterr().out == ""
