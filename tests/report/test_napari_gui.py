"""A real napari on a virtual screen: the reader, the widget and the samples. Needs the extra ``napari`` and Xvfb."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import pairframe as pf
from pairframe.testing import growing_embryo, growing_tube

PROGRAM = Path(__file__).parent / "napari_program.py"
UM = ["pixel", "micrometer", "micrometer"]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("napari") is None, reason="napari is not installed: extra napari"),
    pytest.mark.skipif(shutil.which("Xvfb") is None, reason="no virtual screen for Qt: apt install xvfb"),
]


@pytest.fixture(scope="module")
def screen() -> Iterator[str]:
    """The name of a virtual screen, chosen by Xvfb."""
    reading, writing = os.pipe()
    words = ["Xvfb", "-displayfd", str(writing), "-screen", "0", "1400x900x24", "-nolisten", "tcp"]
    with subprocess.Popen(words, pass_fds=[writing], stderr=subprocess.DEVNULL) as server:
        os.close(writing)
        with os.fdopen(reading) as numbers:
            number = numbers.readline().strip()
        try:
            if not number:
                pytest.skip("Xvfb does not start")
            yield f":{number}"
        finally:
            server.terminate()


@pytest.fixture(scope="module")
def seen(screen: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the program saw; its pictures are in ``folder``."""
    folder = tmp_path_factory.mktemp("napari")
    frames = growing_embryo(6, shape_hw=(64, 144))
    for k, result in enumerate(pf.compare_many([(frames[1], frames[2]), (frames[2], frames[3])], jobs=1)):
        result.save(folder / "results", pair_id=f"{k}")
    env = os.environ | {"DISPLAY": screen, "QT_QPA_PLATFORM": "xcb", "NAPARI_CONFIG": str(folder / "settings.yaml")}
    words = [sys.executable, PROGRAM, folder / "results", folder]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False, timeout=900)
    if "platform plugin" in done.stderr:
        pytest.skip(f"Qt cannot start: {done.stderr.strip().splitlines()[0]}")
    assert done.returncode == 0, done.stderr
    return {**json.loads(done.stdout.splitlines()[-1]), "path": str(folder)}


def names(layers: list[Any]) -> list[str]:
    return [layer[0] for layer in layers]


def test_the_table_and_its_folder_open_with_a_slider(seen: dict[str, Any]) -> None:
    assert seen["table"] == seen["folder"]
    assert names(seen["table"]) == ["source", "target", "created", "destroyed", "displacement"]
    assert seen["table"][0][2] == [2, 64, 144]
    assert seen["table"][0][4] == ["pixel"] * 3  # no pixel size


def test_the_widget_adds_what_compare_finds_over_the_layers(seen: dict[str, Any]) -> None:
    early, late = growing_embryo(6)[1:4:2]
    config = pf.TransportConfig(px_size_um=10.0, reach_um=2000.0)
    expected = pf.compare(early, late, config)
    layers = ["embryo, early", "embryo, late"]
    assert seen["choices"] == [layers, ["next frame", *layers], 10.0]
    assert seen["while it runs"] == [False, True]
    assert names(seen["pair"]) == [*layers, "created", "destroyed", "displacement"]
    assert seen["created"] == pytest.approx(expected.total_mass_created, rel=1e-3)
    assert all(layer[3] == [10.0, 10.0] and layer[4] == UM[1:] for layer in seen["pair"])
    assert "10.2% created" in seen["text"]
    saved = pf.TransportConfig.from_toml((Path(seen["path"]) / "settings.toml").read_text())
    assert saved == config


def test_a_time_axis_is_compared_frame_by_frame_and_notices_are_shown(seen: dict[str, Any]) -> None:
    assert names(seen["series"]) == ["embryo over time", "created", "destroyed", "displacement"]
    assert seen["series"][1][2] == [5, 256, 576]
    assert all(layer[4] == UM for layer in seen["series"])
    assert "motion_called_growth" in seen["notices"]
    assert any("5 of 5 pairs" in message for message in seen["shown"])


def test_volumes_are_compared_if_the_box_is_ticked(seen: dict[str, Any]) -> None:
    early, late = growing_tube(2)
    assert names(seen["volume"]) == ["tube, early", "tube, late", "created", "destroyed", "displacement"]
    assert seen["volume"][2][2] == list(early.shape)
    assert all(layer[3] == [4.0, 2.0, 2.0] and layer[4] == ["micrometer"] * 3 for layer in seen["volume"])
    assert seen["volume created"] == pytest.approx(int(late.sum()) - int(early.sum()), rel=1e-3)


def test_a_comparison_can_be_cancelled_and_a_wrong_layer_is_explained(seen: dict[str, Any]) -> None:
    assert seen["cancelled"] == ["cancelled", True]
    assert seen["complaint"].startswith("expected a layer of frames over time")


def test_created_mass_has_the_colour_of_the_report_on_the_screen(seen: dict[str, Any]) -> None:
    picture = np.asarray(Image.open(Path(seen["path"]) / "widget.png").convert("RGB")).astype(int)
    green = (np.abs(picture - [0, 158, 115]).sum(axis=2) < 30).sum()
    assert green > 300
