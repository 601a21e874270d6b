"""napari opens a folder of results as layers, calibrated; tested without napari and without a screen."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.report_rows import SHAPE, small_result

import pairframe as pf
from pairframe.report.napari import MAX_ARROWS, MAX_PAIRS, displacement_vectors, napari_get_reader, result_layers
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
    assert all(properties["scale"] == (2.0, 2.0) for _, properties, _ in layers.values())
    np.testing.assert_array_equal(layers["source"][0] > 0, disc(SHAPE, (20, 25), 9))
    np.testing.assert_array_equal(layers["created"][0], result.mass_created)
    np.testing.assert_array_equal(layers["destroyed"][0], result.mass_destroyed)


def test_vectors_are_the_field_where_it_is_known_in_pixels(result: pf.TransportResult) -> None:
    vectors = displacement_vectors(result)
    assert 50 < len(vectors) <= MAX_ARROWS
    ys, xs = vectors[:, 0].astype(int).T
    assert result.velocity_valid[ys, xs].all()
    np.testing.assert_array_equal(vectors[:, 1], result.velocity_field[ys, xs] / 2.0)
    assert len(displacement_vectors(pf.compare(disc(SHAPE, (20, 25), 9), np.zeros(SHAPE)))) == 0


def test_many_vectors_are_thinned_evenly() -> None:
    full = np.ones((120, 120))
    vectors = displacement_vectors(pf.compare(full, full))
    assert 1000 < len(vectors) <= MAX_ARROWS
    assert len(np.unique(np.diff(np.unique(vectors[:, 0, 0])))) == 1


def test_intensities_are_images_and_not_labels() -> None:
    density = np.random.default_rng(0).random((12, 16))
    result = pf.compare(density, density, pf.TransportConfig(mass_mode="intensity"))
    layers = result_layers(result)
    assert [kind for _, _, kind in layers] == ["image"] * 4 + ["vectors"]
    np.testing.assert_allclose(layers[0][0], density)


def test_of_a_cohort_the_first_pairs_open_and_one_group_opens_alone(tmp_path: Path, result: pf.TransportResult) -> None:
    store = ResultStore(tmp_path)
    names = [f"pair {k}" for k in range(MAX_PAIRS + 1)]
    store.commit([failed_row("broken", "why"), *(store.write_maps(result, name) for name in names)])
    read = napari_get_reader(tmp_path)
    assert read is not None
    with pytest.warns(UserWarning, match=f"first {MAX_PAIRS} of {MAX_PAIRS + 1} pairs"):
        layers = read(str(tmp_path))
    assert len(layers) == 5 * MAX_PAIRS
    assert [properties["visible"] for _, properties, _ in layers] == [True] * 5 + [False] * 5 * (MAX_PAIRS - 1)
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
    manager = npe2.PluginManager.instance()
    manager.register(manifest)
    try:
        layers, reader = npe2.read_get_reader(str(folder), plugin_name="pairframe")
    finally:
        manager.unregister("pairframe")
    assert len(layers) == 5
    assert reader.command == "pairframe.read"


def test_the_reader_needs_no_napari(folder: Path) -> None:
    code = f"""
import sys
sys.modules["napari"] = None
from pairframe.report.napari import napari_get_reader
assert napari_get_reader({str(folder)!r})({str(folder)!r})
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
