"""napari opens results as layers, calibrated; tested without napari and without a screen."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.report_rows import SHAPE, small_result

import pairframe as pf
from pairframe.report.napari import displacement_vectors, napari_get_reader, reader, result_layers
from pairframe.report.napari.layers import N_ARROWS
from pairframe.report.napari.reader import MAX_PAIRS
from pairframe.report.style import SOURCE_COLOUR, TARGET_COLOUR
from pairframe.results.rows import failed_row
from pairframe.results.store import ResultStore
from pairframe.testing import disc

MANIFEST = Path(pf.__file__).parent / "napari.yaml"


@pytest.fixture(scope="module")
def result() -> pf.TransportResult:
    return small_result()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, result: pf.TransportResult) -> Path:
    out = tmp_path_factory.mktemp("napari") / "results"
    result.save(out, pair_id="a pair")
    return out


def test_a_folder_opens_as_masks_created_destroyed_and_vectors(folder: Path, result: pf.TransportResult) -> None:
    read = napari_get_reader(str(folder))
    assert read is not None
    layers = {properties["name"]: (data, properties, kind) for data, properties, kind in read(str(folder))}
    assert {name: kind for name, (_, _, kind) in layers.items()} == {
        "source": "labels",
        "target": "labels",
        "created": "image",
        "destroyed": "image",
        "displacement": "vectors",
    }
    for _, properties, _ in layers.values():
        assert properties["scale"] == (2.0, 2.0)
        assert properties["units"] == ("um", "um")
    assert layers["source"][1]["colormap"][1] == SOURCE_COLOUR
    assert layers["target"][1]["colormap"][2] == TARGET_COLOUR
    np.testing.assert_array_equal(layers["source"][0] > 0, disc(SHAPE, (20, 25), 9))
    np.testing.assert_allclose(layers["created"][0], result.mass_created, atol=1e-6)
    np.testing.assert_allclose(layers["destroyed"][0], result.mass_destroyed, atol=1e-6)


def test_vectors_are_a_shift_in_pixels_with_their_length_in_um() -> None:
    source, target = disc((60, 90), (28, 30), 20), disc((60, 90), (31, 34), 20)
    result = pf.compare(source, target, pf.TransportConfig(px_size_um=2.0))
    vectors = displacement_vectors(result)
    np.testing.assert_allclose(vectors[:, 1], np.tile([3.0, 4.0], (len(vectors), 1)), atol=1e-3)
    assert source[tuple(vectors[:, 0].astype(int).T)].all()
    data, properties, _ = result_layers(result)[-1]
    np.testing.assert_array_equal(data, vectors)
    np.testing.assert_allclose(properties["features"]["length_um"], 10.0, atol=1e-3)
    unknown = result_layers(pf.compare(source, target))[-1][1]
    np.testing.assert_allclose(unknown["features"]["length_px"], 5.0, atol=1e-3)
    assert unknown["units"] == ("pixel", "pixel")


def test_nothing_that_moved_has_no_vectors() -> None:
    assert displacement_vectors(pf.compare(disc(SHAPE, (20, 25), 9), np.zeros(SHAPE))).shape == (0, 2, 2)


def test_an_embryo_has_few_vectors_a_pixel_wide_and_each_small_object_has_one() -> None:
    mask = np.zeros((200, 260))
    mask[20:160, 20:140] = 1  # about the area of an embryo at full resolution
    for k in range(4):
        mask[30 + 30 * k : 33 + 30 * k, 200:203] = 1
    data, properties, _ = result_layers(pf.compare(mask, mask))[-1]
    assert 0.8 * N_ARROWS < len(data) < 1.2 * N_ARROWS
    assert 0.8 < properties["edge_width"] < 1.4
    assert (data[:, 0, 1] >= 200).sum() == 4


def test_intensities_are_images_and_not_labels() -> None:
    density = np.random.default_rng(0).random((12, 16))
    result = pf.compare(density, density, pf.TransportConfig(mass_mode="intensity"))
    layers = result_layers(result)
    assert [kind for _, _, kind in layers] == ["image"] * 4 + ["vectors"]
    np.testing.assert_allclose(layers[0][0], density)


def test_pairs_on_one_canvas_share_layers_with_a_slider(tmp_path: Path) -> None:
    store, results = ResultStore(tmp_path), [small_result(shift) for shift in (3.0, 5.0, 7.0)]
    rows = [store.write_maps(result, f"pair {k}") for k, result in enumerate(results)]
    store.commit([failed_row("broken", "why"), *rows])
    layers = {properties["name"]: (data, properties) for data, properties, _ in reader.read_layers(str(tmp_path))}
    assert list(layers) == ["source", "target", "created", "destroyed", "displacement"]
    created, properties = layers["created"]
    assert created.shape == (3, *SHAPE)
    assert properties["scale"] == (1.0, 2.0, 2.0)
    assert properties["axis_labels"] == ("pair", "y", "x")
    for k, result in enumerate(results):
        np.testing.assert_allclose(created[k], result.mass_created, atol=1e-6)
        vectors, look = layers["displacement"]
        of_pair = vectors[:, 0, 0] == k
        np.testing.assert_allclose(vectors[of_pair][:, :, 1:], displacement_vectors(result), atol=1e-9)
        assert set(look["features"]["pair_id"][of_pair]) == {f"pair {k}"}
    assert (vectors[:, 1, 0] == 0).all()


def test_a_slider_has_as_many_pairs_as_memory_allows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, result = ResultStore(tmp_path), small_result()
    store.commit([store.write_maps(result, f"pair {k}") for k in range(4)])
    monkeypatch.setattr(reader, "MAX_SLIDER_PX", 2 * SHAPE[0] * SHAPE[1])
    with pytest.warns(UserWarning, match="only the first 2 of 4 pairs"):
        layers = reader.read_layers(str(tmp_path))
    assert layers[0][0].shape == (2, *SHAPE)


def test_of_different_canvases_the_first_pairs_open_and_the_visible_one_is_on_top(
    tmp_path: Path, result: pf.TransportResult
) -> None:
    store = ResultStore(tmp_path)
    wide = pf.compare(disc((48, 90), (20, 25), 9), disc((48, 90), (20, 28), 9))
    names = [f"pair {k}" for k in range(MAX_PAIRS + 1)]
    store.commit([store.write_maps(wide if k == 1 else result, name) for k, name in enumerate(names)])
    read = napari_get_reader(tmp_path)
    assert read is not None
    with pytest.warns(UserWarning, match=f"first {MAX_PAIRS} of {MAX_PAIRS + 1} pairs"):
        layers = read(str(tmp_path))
    assert [properties["visible"] for _, properties, _ in layers] == [False] * 5 * (MAX_PAIRS - 1) + [True] * 5
    assert layers[-1][1]["name"] == "pair 0: displacement"
    (group,) = store.maps_path.glob("pair_6-*")
    alone = napari_get_reader(str(group))
    assert alone is not None
    assert {properties["metadata"]["pair_id"] for _, properties, _ in alone(str(group))} == {"pair 6"}


def test_anything_else_is_declined(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "image.tif").write_bytes(b"")
    (tmp_path / "maps.zarr").mkdir()
    for path in (tmp_path, tmp_path / "image.tif", tmp_path / "maps.zarr", tmp_path / "nowhere"):
        assert napari_get_reader(str(path)) is None
    assert napari_get_reader([str(folder), str(folder)]) is None
    assert napari_get_reader(str(folder / "results.parquet")) is not None
    assert napari_get_reader(str(folder / "maps.zarr")) is not None


@pytest.mark.filterwarnings("ignore::DeprecationWarning:pydantic", "ignore::DeprecationWarning:npe2")
def test_npe2_finds_the_reader_by_the_manifest_and_reads_with_it(folder: Path) -> None:
    npe2 = pytest.importorskip("npe2", reason="npe2 is not installed")
    manifest = npe2.PluginManifest.from_file(MANIFEST)
    assert manifest.name == "pairframe"
    (group,) = (folder / "maps.zarr").glob("*.zarr.zip")
    manager = npe2.PluginManager.instance()
    manager.register(manifest)
    try:
        for path in (folder, folder / "results.parquet", group):
            layers, found = npe2.read_get_reader(str(path), plugin_name="pairframe")
            assert len(layers) == 5
            assert found.command == "pairframe.read"
        for other in ("image.tif", "image.png", "report.html", "table.parquet", "cells.zarr.zip", "x.zip"):
            assert not [
                found for found in manager.iter_compatible_readers([other]) if found.command == "pairframe.read"
            ]
    finally:
        manager.unregister("pairframe")


def test_the_reader_needs_no_napari(folder: Path) -> None:
    code = f"""
import sys
sys.modules["napari"] = None
from pairframe.report.napari import napari_get_reader
assert napari_get_reader({str(folder)!r})({str(folder)!r})
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
