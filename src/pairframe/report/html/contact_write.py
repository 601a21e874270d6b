"""`write_contact_sheet`: all aligned masks of a folder as a figure and as a page, those to look at first."""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pairframe import files
from pairframe._version import __version__
from pairframe.cohort.align.state import PAGE, REFERENCE, SHEET, read_state
from pairframe.cohort.inputs.manifest import read_frame_manifest
from pairframe.cohort.inputs.pairing import Frame
from pairframe.cohort.inputs.sources import ALIGNED_MANIFEST
from pairframe.errors import PairframeError, StoreError
from pairframe.frame import BoxYX
from pairframe.masks import Mask, read_mask
from pairframe.report.figures.contact_sheet import MOST_TILES, Tile, contact_sheet, mask_picture, png_of
from pairframe.report.html.assets import render
from pairframe.report.images import figure_png
from pairframe.results import disk
from pairframe.results.formatting import number
from pairframe.results.motion_words import COHORT_POSE as PREFIX
from pairframe.results.schema import FAILED
from pairframe.types import Float

MOST_CARDS = 5000
_DPI = 110


@dataclass(frozen=True, eq=False)
class _Drawn:
    """A frame of the manifest with its picture."""

    frame: Frame
    picture: Float | None

    @property
    def name(self) -> str:
        return f"{self.frame.series} {self.frame.name}".strip()

    @property
    def reason(self) -> str:
        return str(self.frame.labels.get(f"{PREFIX}reason") or "")

    @property
    def is_failed(self) -> bool:
        return self.frame.labels.get(f"{PREFIX}status") == FAILED

    def value(self, name: str) -> Any:
        return self.frame.labels.get(f"{PREFIX}{name}")


def write_contact_sheet(
    out: str | os.PathLike[str], *, progress: Callable[[str, int, int], None] | None = None
) -> Path:
    """Write ``contact_sheet.png`` and ``contact_sheet.html`` into a folder of aligned masks.

    Masks that failed or have a flag come first, each with its reason; then every series in order.

    Parameters
    ----------
    out : path
        Folder that `align_cohort` wrote.
    progress : callable (task, done, total), optional
        Called after each mask.

    Returns
    -------
    Path
        Of the page.
    """
    out = Path(out)
    state = read_state(out)
    if state is None or not (out / ALIGNED_MANIFEST).is_file():
        raise StoreError("a folder with aligned masks", f"{str(out)!r}, which has none", "run pairframe align first")
    frames, _ = read_frame_manifest(out / ALIGNED_MANIFEST)
    reference = read_mask(out / REFERENCE)
    box = _shown_box(frames[:MOST_CARDS], reference)
    drawn = []
    for done, frame in enumerate(frames[:MOST_CARDS], 1):
        drawn.append(_drawn(frame, reference, box))
        if progress is not None:
            progress("drawing", done, min(len(frames), MOST_CARDS))
    sections = _sections(drawn)
    with disk.write_errors(out):
        files.replace_file(out / SHEET, _sheet(sections))
        page = _page(out, state["about"], frames, sections, reference)
        files.replace_file(out / PAGE, page.encode())
    return out / PAGE


def _shown_box(frames: Sequence[Frame], reference: Mask) -> BoxYX:
    """The part of the canvas with masks, and a margin."""
    inside = reference.values > 0
    for frame in frames:
        mask = _mask_of(frame)
        if mask is not None and mask.shape_hw == reference.shape_hw:
            inside = inside | (mask.values > 0)
    rows, columns = np.flatnonzero(inside.any(axis=1)), np.flatnonzero(inside.any(axis=0))
    margin = max(2, round(0.04 * max(rows[-1] - rows[0], columns[-1] - columns[0])))
    height, width = reference.shape_hw
    top, left = max(0, int(rows[0]) - margin), max(0, int(columns[0]) - margin)
    bottom, right = min(height, int(rows[-1]) + 1 + margin), min(width, int(columns[-1]) + 1 + margin)
    return BoxYX(top, bottom, left, right)


def _drawn(frame: Frame, reference: Mask, box: BoxYX) -> _Drawn:
    mask = _mask_of(frame)
    is_drawn = mask is not None and mask.shape_hw == reference.shape_hw
    return _Drawn(frame, mask_picture(mask, reference, box) if is_drawn else None)


def _mask_of(frame: Frame) -> Mask | None:
    """The moved mask; None if it failed, or was removed since: its card says that there is none."""
    if frame.labels.get(f"{PREFIX}status") == FAILED:
        return None
    try:
        return read_mask(frame.mask.spec)
    except (PairframeError, OSError):
        return None


_Section = tuple[str, str, list[_Drawn]]


def _sections(drawn: Sequence[_Drawn]) -> list[_Section]:
    """Heading, note and masks: those with a flag, failures first and then by rising IoU, and every series."""
    flagged = sorted((one for one in drawn if one.reason), key=_urgency)
    found: list[_Section] = []
    if flagged:
        found.append(
            ("To look at first", "Masks that failed or have a flag. They are in the table like all others.", flagged)
        )
    by_series: dict[str, list[_Drawn]] = {}
    for one in drawn:
        by_series.setdefault(one.frame.series, []).append(one)
    for series, members in by_series.items():
        found.append((f"Series {series}" if series else "All masks", "", members))
    return found


def _urgency(one: _Drawn) -> tuple[bool, int, float]:
    iou = one.value("iou")
    return not one.is_failed, -len(str(one.value("flags") or "").split()), float("inf") if iou is None else float(iou)


def _sheet(sections: Sequence[_Section]) -> bytes:
    left, shown = MOST_TILES, []
    for heading, _, members in sections:
        tiles = [Tile(one.name, one.picture, one.reason) for one in members[:left]]
        left -= len(tiles)
        if tiles:
            shown.append((heading, tiles))
    if left == 0:
        shown.append((f"The first {MOST_TILES}; {PAGE} has more", []))
    return figure_png(contact_sheet(shown), _DPI)


def _page(
    out: Path, about: dict[str, Any], frames: Sequence[Frame], sections: Sequence[_Section], reference: Mask
) -> str:
    failed = sum(frame.labels.get(f"{PREFIX}status") == FAILED for frame in frames)
    flagged = sum(bool(frame.labels.get(f"{PREFIX}flags")) for frame in frames) - failed
    tiles = [
        {"kind": "", "value": f"{len(frames):,}", "name": "masks"},
        {"kind": "odd" if flagged else "good", "value": f"{flagged:,}", "name": "flagged"},
        {"kind": "bad" if failed else "good", "value": f"{failed:,}", "name": "failed"},
    ]
    length = "px" if reference.px_size_um is None else "µm"
    return render(
        "contact.html",
        "analysis.js",
        title=out.resolve().name,
        reference=str(about.get("reference", "")),
        rule=str(about.get("rule", "")),
        canvas_hw=reference.shape_hw,
        px_size=None if reference.px_size_um is None else number(reference.px_size_um),
        tiles=tiles,
        sections=[
            {"heading": heading, "note": note, "cards": [_card(one, length) for one in members]}
            for heading, note, members in sections
        ],
        made_at=time.strftime("%Y-%m-%d %H:%M"),
        pairframe_version=__version__,
    )


def _card(one: _Drawn, length: str) -> dict[str, Any]:
    picture = one.picture
    data = None if picture is None else f"data:image/png;base64,{base64.b64encode(png_of(picture)).decode()}"
    numbers = [
        f"{one.value('original')}",
        f"turned by {number(one.value('angle_deg'))} degrees{', mirrored' if one.value('flipped') else ''}",
        f"IoU {number(one.value('iou'))}, runner-up {number(one.value('runner_up_iou'))}",
        f"area {number(one.value('area_ratio'))} times the reference",
    ]
    if one.value("landmark_offset_um") is not None:
        numbers.append(f"landmark {number(one.value('landmark_offset_um'))} {length} away")
    return {
        "name": one.name,
        "picture": data,
        "width": 0 if picture is None else picture.shape[1],
        "height": 0 if picture is None else picture.shape[0],
        "iou": None if one.value("iou") is None else f"{one.value('iou'):.2f}",
        "reason": one.reason,
        "kind": "bad" if one.is_failed else "odd",
        "numbers": "\n".join(numbers),
    }
