"""The widget *Compare masks*: choose two layers, or the time axis of one, and see created, destroyed and moved mass.

It imports napari, magicgui and Qt when napari opens it. `compare_layers` does the work, in a thread.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from pairframe.errors import PairframeError
from pairframe.problem import TransportConfig
from pairframe.report.napari import compare_layers as work
from pairframe.results import TransportResult
from pairframe.units import PxSize

NEXT_FRAME = "next frame"
ALIGNMENTS = ("none", "shift", "rigid", "similarity")
POLL_MS = 100
INTRODUCTION = "Where is mass created, where destroyed, and how far does the rest move?"


def compare_widget() -> Any:
    """A magicgui container for the dock of the current viewer: napari passes a viewer only to subclasses of its widgets."""
    import napari

    return CompareWidget(napari.current_viewer()).container


class CompareWidget:
    """The parts of the widget, and what its buttons do.

    Attributes
    ----------
    source, target, label, volume, px_size_um, blur_um, reach_um, align, run, cancel, bar, text, settings, save : magicgui widgets
    results : list of TransportResult
        Of the last comparison.
    """

    def __init__(self, viewer: Any) -> None:
        from magicgui import widgets as gui

        self.viewer = viewer
        self.results: list[TransportResult] = []
        self._job: work.Job | None = None
        self._worker: Any = None
        number = partial(gui.FloatSpinBox, value=0.0, min=0.0, max=1e9, step=0.1)
        self.source = gui.ComboBox(label="source", choices=self._layer_names, tooltip="labels, or an image")
        self.target = gui.ComboBox(
            label="target", choices=self._target_names, tooltip="'next frame': along the time axis"
        )
        self.label = gui.SpinBox(label="label", value=0, min=0, max=2**31 - 1, tooltip="one label id; 0: all labels")
        self.volume = gui.CheckBox(
            label="volume", value=False, tooltip="compare volumes (z, y, x) instead of the plane that is shown"
        )
        self.px_size_um = number(label="pixel size (um)", tooltip="from the layer; 0: unknown, lengths are in pixels")
        self.blur_um = number(
            label="blur (um)", tooltip="no detail below it is resolved; 0: 2 pixels. In pixels without a pixel size"
        )
        self.reach_um = number(
            label="reach (um)",
            tooltip="no mass moves farther; 0: the length of the objects. In pixels without a pixel size",
        )
        self.align = gui.ComboBox(label="alignment", choices=ALIGNMENTS, value="none", tooltip="move the target first")
        self.run = gui.PushButton(text="Compare")
        self.cancel = gui.PushButton(text="Cancel", enabled=False)
        self.bar = gui.ProgressBar(label="", min=0, max=100, value=0, visible=False)
        self.text = gui.Label(value=INTRODUCTION)
        self.settings = gui.FileEdit(label="settings", mode="w", filter="*.toml", value="pairframe.toml")
        self.save = gui.PushButton(text="Save settings")
        buttons = gui.Container(widgets=[self.run, self.cancel], layout="horizontal", labels=False)
        lengths = [self.px_size_um, self.blur_um, self.reach_um]
        choices = [self.source, self.target, self.label, self.volume, *lengths, self.align]
        self.container = gui.Container(widgets=[*choices, buttons, self.bar, self.text, self.settings, self.save])
        self.container.pairframe = self  # keeps it alive as long as the dock
        self.text.native.setWordWrap(True)
        self.source.changed.connect(self._take_pixel_size)
        self.run.changed.connect(self.start)
        self.cancel.changed.connect(self.stop)
        self.save.changed.connect(self.save_settings)
        for event in (viewer.layers.events.inserted, viewer.layers.events.removed):
            event.connect(self._refresh)
        self._refresh()
        if len(self.source.choices) > 1:
            self.target.value = self.source.choices[1]

    # --- choices -----------------------------------------------------------------------------

    def _layers(self) -> list[Any]:
        from napari.layers import Image, Labels

        return [layer for layer in self.viewer.layers if isinstance(layer, Image | Labels)]

    def _layer_names(self, _: Any = None) -> list[str]:
        return [layer.name for layer in self._layers()]

    def _target_names(self, _: Any = None) -> list[str]:
        return [NEXT_FRAME, *self._layer_names()]

    def _refresh(self, _: Any = None) -> None:
        self.source.reset_choices()
        self.target.reset_choices()
        self._take_pixel_size()

    def _take_pixel_size(self, _: Any = None) -> None:
        if self.source.value is None:
            return
        try:
            self.px_size_um.value = work.pixel_size_um(self.viewer.layers[self.source.value]) or 0.0
        except PairframeError as error:
            self.text.value = str(error)

    def config(self, mass_mode: str = "uniform") -> TransportConfig:
        """What is chosen; a box at 0 means the default. Of a volume, the pixel size is that in the plane."""
        width_um: float | None = self.px_size_um.value or None
        px_size_um: PxSize | None = width_um
        if self.volume.value and self.source.value is not None:
            px_size_um = work.voxel_size_um(self.viewer.layers[self.source.value], width_um)
        return TransportConfig(
            px_size_um=px_size_um,
            volume=self.volume.value or None,
            blur_um=self.blur_um.value or None,
            reach_um=self.reach_um.value or None,
            align=self.align.value,
            mass_mode=mass_mode,
        )

    # --- buttons -----------------------------------------------------------------------------

    def start(self, _: Any = None) -> None:
        """Compare in a thread; layers come at its end."""
        from napari.layers import Labels
        from napari.qt.threading import create_worker
        from qtpy.QtCore import QTimer

        if self._job is not None or self.source.value is None:
            return
        layer = self.viewer.layers[self.source.value]
        n_axes = 3 if self.volume.value else 2
        try:
            if self.target.value == NEXT_FRAME:
                planes, are_labels = work.frame_pairs(layer, n_axes), isinstance(layer, Labels)
            else:
                other, step = self.viewer.layers[self.target.value], self.viewer.dims.current_step[:-n_axes]
                planes = [(work.plane(layer, step, n_axes), work.plane(other, step, n_axes))]
                are_labels = isinstance(layer, Labels) and isinstance(other, Labels)
            pairs, mass_mode = work.as_masses(planes, are_labels=are_labels, label=self.label.value)
            config = self.config(mass_mode)
        except PairframeError as error:
            self._complain(error)
            return
        self._job = work.Job(len(pairs), config.tol)
        self.run.enabled, self.cancel.enabled, self.bar.visible = False, True, True
        self.bar.value, self.text.value = 0, f"comparing {len(pairs)} {'pair' if len(pairs) == 1 else 'pairs'} ..."
        self._timer = QTimer(self.container.native)
        self._timer.timeout.connect(self._show_progress)
        self._timer.start(POLL_MS)
        connect = {"returned": partial(self._show, layer), "errored": self._complain, "finished": self._end}
        self._worker = create_worker(
            work.compare_pairs, pairs, config, self._job, _connect=connect, _ignore_errors=True
        )

    def stop(self, _: Any = None) -> None:
        """Give up the running comparison at its next iteration."""
        if self._job is not None:
            self._job.cancel()
            self.text.value = "stopping ..."

    def save_settings(self, _: Any = None) -> None:
        """Write the choices as TOML, for ``pairframe compare --config`` and `TransportConfig.from_toml`."""
        try:
            text = self.config().to_toml()
            Path(self.settings.value).write_text(text)
        except (PairframeError, OSError) as error:
            self._complain(error)
            return
        self.text.value = f"settings saved as {self.settings.value}"

    # --- the end of the thread ---------------------------------------------------------------

    def _show_progress(self) -> None:
        if self._job is not None:
            self.bar.value = round(100 * self._job.fraction)

    def _show(self, source: Any, results: list[TransportResult]) -> None:
        from napari.layers import Layer
        from napari.utils.notifications import show_info, show_warning

        self.results = results
        try:
            layers = work.new_layers(results, source)
        except PairframeError as error:
            self._complain(error)
            return
        for data in layers:
            self.viewer.add_layer(Layer.create(*data))
        notices = work.notices_of(results)
        for notice, sentence in notices:
            (show_warning if notice.is_warning else show_info)(f"pairframe: {sentence}")
        self.text.value = "\n\n".join([work.words(results), *(sentence for _, sentence in notices)])

    def _complain(self, error: BaseException) -> None:
        from napari.utils.notifications import show_error

        if isinstance(error, work.CancelledError):
            self.text.value = "cancelled"
            return
        self.text.value = str(error)
        show_error(f"pairframe: {error}")

    def _end(self) -> None:
        self._timer.stop()
        self._job = self._worker = None
        self.run.enabled, self.cancel.enabled, self.bar.visible = True, False, False
