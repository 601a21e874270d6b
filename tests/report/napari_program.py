"""Opens results, uses the widget and takes pictures in a real napari; prints what it saw as JSON.

`python napari_program.py RESULTS FOLDER`, on a screen, which may be a virtual one.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import napari
from napari.utils.notifications import notification_manager
from npe2 import PluginManager, PluginManifest
from qtpy.QtWidgets import QApplication

import pairframe as pf
from pairframe.testing.volumes import TUBE_VOXEL_UM, growing_tube


def main(results: Path, folder: Path) -> None:
    """Every step starts from an empty viewer."""
    manager = PluginManager.instance()
    if "pairframe" not in manager._manifests:  # the package is not installed, only on the path
        manager.register(PluginManifest.from_file(Path(pf.__file__).parent / "napari.yaml"))
    viewer = napari.Viewer(show=False)
    viewer.window._qt_window.resize(1300, 850)
    found: dict[str, Any] = {}
    for name, path, plugin in (("table", results / "results.parquet", None), ("folder", results, "pairframe")):
        viewer.open(str(path), plugin=plugin)
        overlays = getattr(getattr(viewer, "canvas", None), "overlays", viewer)  # as of napari 0.9
        overlays.scale_bar.visible = True
        QApplication.processEvents()
        viewer.reset_view()
        found[name] = [layer_words(layer) for layer in viewer.layers]
        viewer.screenshot(str(folder / f"{name}.png"), canvas_only=False, flash=False)
        viewer.layers.clear()
    viewer.open_sample("pairframe", "two_embryos")
    _, container = viewer.window.add_plugin_dock_widget("pairframe", "Compare masks")
    widget = container.pairframe
    found["choices"] = [list(widget.source.choices), list(widget.target.choices), widget.px_size_um.value]
    widget.reach_um.value = 2000.0
    widget.start()
    found["while it runs"] = [widget.run.enabled, widget.cancel.enabled]
    wait(lambda: widget.run.enabled)
    found["pair"] = [layer_words(layer) for layer in viewer.layers]
    found["text"] = widget.text.value
    found["created"] = float(viewer.layers["created"].data.sum())
    viewer.screenshot(str(folder / "widget.png"), canvas_only=False, flash=False)
    widget.settings.value = folder / "settings.toml"
    widget.save_settings()
    viewer.layers.clear()
    viewer.open_sample("pairframe", "embryo_series")
    widget.reach_um.value = 40.0  # too short for the motion, which is a warning
    widget.target.value = "next frame"
    notification_manager.records.clear()
    widget.start()
    wait(lambda: widget.run.enabled)
    found["series"] = [layer_words(layer) for layer in viewer.layers]
    found["notices"] = sorted({notice.code for result in widget.results for notice in result.notices})
    found["shown"] = [record.message for record in notification_manager.records]
    viewer.screenshot(str(folder / "series.png"), canvas_only=False, flash=False)
    n_layers = len(viewer.layers)
    widget.start()
    widget.stop()
    wait(lambda: widget.run.enabled)
    found["cancelled"] = [widget.text.value, len(viewer.layers) == n_layers]
    viewer.layers.clear()
    for name, volume in zip(("tube, early", "tube, late"), growing_tube(2), strict=True):
        viewer.add_labels(volume.astype(int), name=name, scale=TUBE_VOXEL_UM, units=("um",) * 3)
    widget.volume.value, widget.reach_um.value = True, 0.0
    widget.source.value, widget.target.value = "tube, early", "tube, late"
    widget.start()
    wait(lambda: widget.run.enabled)
    found["volume"] = [layer_words(layer) for layer in viewer.layers]
    found["volume created"] = float(viewer.layers["created"].data.sum())
    viewer.screenshot(str(folder / "volume.png"), canvas_only=False, flash=False)
    widget.volume.value, widget.target.value = False, "next frame"
    viewer.layers.clear()
    viewer.add_image(viewer_image(), name="no frames")
    widget.start()
    found["complaint"] = widget.text.value
    viewer.close()
    print(json.dumps(found))


def viewer_image() -> Any:
    """An image without a time axis."""
    import numpy as np

    return np.eye(16)


def layer_words(layer: Any) -> list[Any]:
    """Name, kind, shape, scale and units."""
    shape = list(layer.data.shape)
    return [layer.name, layer._type_string, shape, [float(s) for s in layer.scale], [str(u) for u in layer.units]]


def wait(is_done: Callable[[], bool], seconds: float = 300.0) -> None:
    """Let Qt work until it is done."""
    give_up_at = time.monotonic() + seconds
    while not is_done():
        QApplication.processEvents()
        time.sleep(0.01)
        if time.monotonic() > give_up_at:
            raise SystemExit("the widget did not finish")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
