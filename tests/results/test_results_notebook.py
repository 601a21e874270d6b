"""Maps, tables and figures in a notebook: the right way up, short, and shown once."""

from __future__ import annotations

import io
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from helpers.results_equal import small_result
from PIL import Image

import pairframe as pf
from pairframe.errors import ArgumentError
from pairframe.results import ResultStore, TransportResult, failed_row
from pairframe.results.result_table import SHOWN, ResultTable

matplotlib.use("Agg")


@pytest.fixture(scope="module")
def result() -> TransportResult:
    return small_result(px_size_um=0.5)


@pytest.fixture
def plt():  # type: ignore[no-untyped-def]
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


def _is_image(ax: matplotlib.axes.Axes) -> bool:
    return bool(ax.yaxis_inverted()) and not ax.xaxis_inverted() and ax.get_aspect() == 1.0


def test_a_map_of_to_xarray_is_drawn_the_right_way_up_with_equal_aspect(result: TransportResult, plt) -> None:  # type: ignore[no-untyped-def]
    maps = result.to_xarray()
    drawn = maps.mass_created.plot()
    assert _is_image(drawn.axes)
    assert not maps.mass_created.plot(yincrease=True, ax=plt.figure().subplots()).axes.yaxis_inverted()
    assert _is_image(maps["mass_source"].isel(y_um=slice(2, None)).plot(ax=plt.figure().subplots()).axes)
    line = maps.mass_created.sum("y_um").plot(ax=plt.figure().subplots())
    assert not line[0].axes.yaxis_inverted()


def test_to_xarray_draws_the_four_masses(result: TransportResult, plt) -> None:  # type: ignore[no-untyped-def]
    axes = result.to_xarray().plot()
    assert [ax.get_title() for ax in axes.flat] == ["mass_source", "mass_target", "mass_created", "mass_destroyed"]
    assert all(_is_image(ax) for ax in axes.flat)
    assert result.to_xarray().plot(["velocity_dx"]).shape == (1, 1)


def test_opened_maps_are_drawn_the_same_way_and_stay_lazy(result: TransportResult, plt, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    result.save(tmp_path / "out")
    with ResultStore(tmp_path / "out").open_maps() as maps:
        assert isinstance(maps, xr.Dataset)
        assert not maps.variables["mass_created"]._in_memory
        assert not maps["mass_created"].variable._in_memory
        assert _is_image(maps.mass_created.plot().axes)


def test_the_table_shows_a_few_columns_and_has_all(result: TransportResult, tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    store.commit([store.write_maps(result, "a <b> pair", extra={"group": "wt"}), failed_row("bad", "no such file")])
    table = store.table()
    assert isinstance(table, pd.DataFrame)
    assert table.shape[1] > 100
    text, html = repr(table), table._repr_html_()
    assert html is not None
    for word in (*SHOWN, "group", "2 pairs", "more columns"):
        assert word in text
        assert word in html
    assert max(map(len, text.splitlines())) < 160
    assert "config_json" not in text + html
    assert "a &lt;b&gt; pair" in html
    assert type(table[table["status"] != "failed"]) is pd.DataFrame
    assert "config_json" in repr(table[["pair_id", "config_json"]])
    assert repr(ResultTable({"x": [1, 2]})) == repr(pd.DataFrame({"x": [1, 2]}))


@pytest.mark.parametrize("kind", ["summary", "overview", "motion", "morph", "convergence"])
def test_a_result_draws_itself_and_a_notebook_shows_the_picture(result: TransportResult, kind: str) -> None:
    figure = result.plot(kind)
    picture = Image.open(io.BytesIO(figure._repr_png_()))
    assert picture.width > 300
    assert np.asarray(picture.convert("L")).std() > 1  # something is drawn
    from matplotlib import pyplot

    assert pyplot.get_fignums() == []  # pyplot would show it a second time


def test_an_unknown_kind_of_plot_is_an_error_that_names_the_kinds(result: TransportResult) -> None:
    with pytest.raises(ArgumentError, match="summary"):
        result.plot("pie")


def test_a_width_is_kept(result: TransportResult) -> None:
    assert pf.compare(np.eye(9), np.eye(9)).plot(width_in=6.0).get_figwidth() == 6.0
