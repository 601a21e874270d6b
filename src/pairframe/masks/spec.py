"""The text that names a mask: ``PATH[/INNER][@PAGE][:LABEL]``."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pairframe.errors import FileError, InputError
from pairframe.masks.readers import INNER_PATHS, OUTLINES

Label = int | Literal["all"]

# Only whole numbers or "all" make a label, so the colon of C:\masks\a.tif is left alone.
_LABEL = re.compile(r"(?P<rest>.+):(?P<label>-?[0-9]+|all)", re.DOTALL)
_MOST_DIGITS = 255  # as many as a file name can have
_PAGE = re.compile(r"(?P<rest>.+)@(?P<page>-?[0-9]+)", re.DOTALL)


@dataclass(frozen=True)
class MaskSpec:
    """One image in a file, and the page and label to take from it.

    Parameters
    ----------
    path : Path
        The file, or the directory of a Zarr.
    inner : str or None
        Name within an .npz or .zarr, or of outlines.
    page : int or None
        0-based index into the flattened leading axes of a stack.
    label : int, "all" or None
        Id of a label image, or every positive pixel; None for an image that is a mask.
    """

    path: Path
    inner: str | None = None
    page: int | None = None
    label: Label | None = None

    def __post_init__(self) -> None:
        page, label = self.page, self.label
        if page is not None and (isinstance(page, bool) or not hasattr(page, "__index__") or page < 0):
            raise FileError("page to be a whole number >= 0", repr(page), "count pages from 0")
        is_id = not isinstance(label, bool) and hasattr(label, "__index__")
        if label is not None and label != "all" and not (is_id and int(label) > 0):
            raise FileError(
                'label to be a whole number >= 1 or "all"', repr(label), "choose an object; 0 is the background"
            )

    def __str__(self) -> str:
        inner = "" if self.inner is None else f"/{self.inner}"
        page = "" if self.page is None else f"@{self.page}"
        label = "" if self.label is None else f":{self.label}"
        return f"{self.path}{inner}{page}{label}"

    def narrowed(self, page: int | None, label: Label | None) -> MaskSpec:
        """Return the spec with the page and label added; raise an error if they contradict it."""
        if None not in (page, self.page) and page != self.page:
            raise FileError("one page", f"page={page!r} and {str(self)!r}", "name the page once")
        if None not in (label, self.label) and label != self.label:
            raise FileError("one label", f"label={label!r} and {str(self)!r}", "name the label once")
        return MaskSpec(
            self.path,
            self.inner,
            self.page if page is None else page,
            self.label if label is None else label,
        )


def parse_spec(text: str | os.PathLike[str]) -> MaskSpec:
    """Read ``labels.tif:3``, ``stack.tif@4:3``, ``img.zarr/labels/cells:all`` and the like.

    A file that exists under the longer name wins: ``odd@4`` is a file if there is one.
    Within an .npz or .zarr the last ``@`` and ``:`` always mean page and label.
    """
    text = os.fspath(text)
    container, inner = _split_container(text)
    if container is not None:
        inner, page, label = _readings(inner)[-1]
        return MaskSpec(Path(container), inner.strip("/") or None, page, label)
    readings = _readings(text)
    path, page, label = next((reading for reading in readings if path_exists(reading[0])), readings[-1])
    return MaskSpec(Path(path), None, page, label)


def needs_size(text: str | os.PathLike[str]) -> bool:
    """Whether the text names outlines, which do not know the size of their image."""
    try:
        return parse_spec(text).path.suffix.lower() in OUTLINES
    except InputError:
        return False


def path_exists(path: str | Path) -> bool:
    """Whether the file or folder exists; False for names that the system does not allow."""
    try:
        return Path(path).exists()
    except OSError:
        return False


def _readings(text: str) -> list[tuple[str, int | None, Label | None]]:
    """All ways to read ``text``, the longest path first."""
    found: list[tuple[str, int | None, Label | None]] = [(text, None, None)]
    label: Label | None = None
    if match := _LABEL.fullmatch(text):
        text = match["rest"]
        label = "all" if match["label"] == "all" else _number(match["label"], "label")
        found.append((text, None, label))
    if match := _PAGE.fullmatch(text):
        found.append((match["rest"], _number(match["page"], "page"), label))
    return found


def _number(digits: str, what: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise FileError(
            f"a {what} of at most {_MOST_DIGITS} digits",
            f"{len(digits)} characters after the file name, {digits[:10]}...",
            f"give the number of the {what}",
        )
    return int(digits)


def _split_container(text: str) -> tuple[str | None, str]:
    """Split after the first component that is an .npz, .zarr, .zip or .geojson and is followed by another."""
    suffixes = "|".join(map(re.escape, INNER_PATHS))
    candidates = [match.end() for match in re.finditer(rf"(?i:{suffixes})(?=[/\\].)", text)]
    if not candidates:
        return None, ""
    end = next((end for end in candidates if path_exists(text[:end])), candidates[0])
    container, inner = text[:end], text[end + 1 :]
    if not container.lower().endswith(".zarr") and Path(container).is_dir():
        # A folder of files that only looks like an archive.
        return None, ""
    return container, inner
