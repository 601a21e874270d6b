"""A result in a notebook: a small picture and a table, without network access."""

from __future__ import annotations

import base64
import io
from html import escape

import numpy as np
from numpy.typing import NDArray

from pairframe.results.result import TransportResult
from pairframe.types import Float

_PICTURE_PX = 360
# Okabe and Ito's palette, which is colour-blind safe.
_SOURCE, _TARGET = np.array([0, 114, 178]), np.array([230, 159, 0])
_DESTROYED, _CREATED = np.array([213, 94, 0]), np.array([0, 158, 115])


def repr_html(result: TransportResult) -> str:
    """Source and target, destroyed and created as an inline PNG; the scalars as a table. Every text is escaped."""
    picture = base64.b64encode(picture_png(result)).decode()
    lines = [line.split(maxsplit=1) for line in result.summary().splitlines()]
    rows = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(text)}</td></tr>'
        for name, text in lines
    )
    canvas = " x ".join(map(str, result.transform.canon_shape_hw))
    return (
        '<div class="pairframe-result">'
        f"<p><b>TransportResult</b> on a {canvas} canvas</p>"
        f'<img src="data:image/png;base64,{picture}" style="image-rendering:pixelated" '
        'alt="left: source (blue) and target (orange); right: destroyed (vermilion) and created (green)">'
        "<p>Left: <span>source (blue) and target (orange)</span>. Right: <span>destroyed (vermilion) and created (green)</span>.</p>"
        f"<table>{rows}</table></div>"
    )


def picture_png(result: TransportResult) -> bytes:
    """The frame twice, side by side: the masks, and the mass destroyed and created."""
    from PIL import Image

    source, target, created, destroyed = (
        mass if mass.ndim == 2 else mass.sum(axis=0)  # of a volume, the projection through its planes
        for mass in (
            result.work.mass_source,
            result.work.mass_target,
            result.work.mass_created,
            result.work.mass_destroyed,
        )
    )
    masks = _mixed(_shade(source), _SOURCE, _shade(target), _TARGET)
    largest = max(float(source.max()), float(target.max()))
    changes = _mixed(_shade(destroyed, largest), _DESTROYED, _shade(created, largest), _CREATED)
    gap = np.full((masks.shape[0], max(1, masks.shape[1] // 40), 3), 255, np.uint8)
    image = Image.fromarray(np.concatenate([masks, gap, changes], axis=1))
    factor = _PICTURE_PX / max(image.height, image.width / 2)
    size = max(1, round(image.width * factor)), max(1, round(image.height * factor))
    smaller = Image.Resampling.BOX if factor < 1 else Image.Resampling.NEAREST
    stream = io.BytesIO()
    image.resize(size, smaller).save(stream, format="PNG", optimize=True)
    return stream.getvalue()


def _shade(mass_work: Float, largest: float | None = None) -> Float:
    """(Hw, Ww) from 0 to 1."""
    top = float(mass_work.max()) if largest is None else largest
    return np.clip(mass_work / top, 0.0, 1.0) if top > 0 else np.zeros(mass_work.shape)


def _mixed(shade_a: Float, colour_a: NDArray[np.int_], shade_b: Float, colour_b: NDArray[np.int_]) -> NDArray[np.uint8]:
    """(Hw, Ww, 3) on white: where both are, the colour between the two."""
    a, b = shade_a[..., None], shade_b[..., None]
    colour = (a * colour_a + b * colour_b) / np.maximum(a + b, np.finfo(float).tiny)
    cover = np.maximum(a, b)
    return np.rint(255 * (1 - cover) + cover * colour).astype(np.uint8)
