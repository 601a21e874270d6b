"""`PairTask`: one comparison to make, small enough to be sent to any worker. It names masks without reading them."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pairframe.errors import InputError, ManifestError, MaskError, StoreRowError
from pairframe.masks import CocoRle, Mask, canvas_shape, read_mask
from pairframe.masks.headers import volume_shape
from pairframe.notices import Notice
from pairframe.pipeline.memory_check import check_canvas_memory
from pairframe.pipeline.read import volume_options
from pairframe.problem import TransportConfig
from pairframe.results.schema import BY_NAME, checked_extra
from pairframe.units import PxSize

Scalar = str | int | float | bool | None
MAX_ID_LENGTH = 200
_UNSAFE_CATEGORIES = {"Cc", "Cs", "Zl", "Zp"}  # control characters, half characters, line ends
_DIRECTION_OVERRIDES = set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")  # make a name look like another


@dataclass(frozen=True)
class FileDigest:
    """Hash of a file or folder.

    Attributes
    ----------
    state : str
        Hash of sizes, times of change and inodes; as long as it is the same, the content need not be read again.
    sha256 : str
        Hash of the content.
    """

    state: str
    sha256: str


@dataclass(frozen=True)
class MaskRef:
    """The place of a mask.

    Parameters
    ----------
    spec : str
        As for `read_mask`, with an absolute path.
    named : str
        As the manifest names it.
    px_size_um : float or (float, float, float), optional
        Side of a pixel, or sides (z, y, x) of a voxel, if the manifest has it.
    rle : CocoRle, optional
        The mask itself, if the manifest holds it; then `spec` only names its cell.
    shape_hw : (H, W), optional
        Canvas of outlines, pixels, if the manifest has it.
    volume : bool, optional
        True for a volume of a stack of volumes, whose number `spec` has as its page; None: as the config or the file says.
    failure : str, optional
        Why there is no such mask, if an alignment could not write it: reading it raises an error with this reason.
    digest : FileDigest, optional
        Of its file, if that was hashed already.
    """

    spec: str
    named: str
    px_size_um: PxSize | None = None
    rle: CocoRle | None = None
    shape_hw: tuple[int, int] | None = None
    volume: bool | None = None
    failure: str | None = None
    digest: FileDigest | None = field(default=None, compare=False, repr=False)

    def read(self, *, density: bool = False, config: TransportConfig | None = None) -> Mask:
        """The mask; grey values as mass per pixel if `density` is true, as a volume if the config says so."""
        if self.failure is not None:
            raise MaskError(
                f"the aligned mask {self.named!r}",
                f"none, because its alignment failed: {self.failure}",
                "correct it and align again, or leave the frame out of the table",
            )
        if self.rle is None:
            options: dict[str, Any] = {"px_size_um": self.px_size_um} | (
                {} if config is None else volume_options(config)
            )
            if self.volume is not None:
                options["volume"] = self.volume
            if config is not None:
                check_canvas_memory(self.volume_shape(config), config)
            return read_mask(self.spec, density=density, shape_hw=self.shape_hw, **options)
        try:
            return Mask(self.rle.decode(), px_size_um=self.px_size_um, source=self.named, density=density)
        except MaskError as error:
            raise MaskError(error.expected, f"{error.got} in {self.named}", error.fix, error.field) from error

    def volume_shape(self, config: TransportConfig) -> tuple[int, int, int] | None:
        """Shape (Z, Y, X) if it is a volume, from the header of its file; None for an image or a file that cannot be read."""
        if self.rle is not None or self.failure is not None:
            return None
        said = True if isinstance(self.px_size_um, tuple) else config.volume if self.volume is None else self.volume
        try:
            return volume_shape(self.spec, volume=said, shape_hw=self.shape_hw)
        except (InputError, OSError):  # reading it raises the error
            return None

    def canvas_hw(self) -> tuple[int, int]:
        """Height and width of its canvas in pixels; of a file only the header is read."""
        return canvas_shape(self.spec, shape_hw=self.shape_hw) if self.rle is None else self.rle.shape_hw


@dataclass(frozen=True)
class PairTask:
    """Compare `source` with `target`.

    Parameters
    ----------
    carried : mapping
        Labels for the table.
    frames_apart : float, optional
        Frames of a series from source to target: 1 for neighbours. None if the two are of different series.
    notices : tuple of Notice
        Remarks about how the pair was found; its result has them too.
    structures : pair of mappings
        Further masks of source and target by column; see `Frame`.
    """

    pair_id: str
    source: MaskRef
    target: MaskRef
    carried: Mapping[str, Scalar] = field(default_factory=dict)
    frames_apart: float | None = 1.0
    notices: tuple[Notice, ...] = ()
    structures: tuple[Mapping[str, MaskRef], Mapping[str, MaskRef]] = field(default_factory=lambda: ({}, {}))

    def follows(self, other: PairTask) -> bool:
        """Whether the target of `other` is the source of this pair, as in a series: its solution is the best start."""
        return self.source.spec == other.target.spec

    def shares_mask_with(self, other: PairTask) -> bool:
        """Whether a solved `other` has solved a self-problem of this pair, and may be a start."""
        return self.source.spec in (other.source.spec, other.target.spec) or self.target.spec == other.target.spec


def hold_volumes(tasks: Sequence[PairTask], config: TransportConfig) -> bool:
    """Whether the first pair is one of volumes, from the headers of its files; all pairs of a cohort are alike."""
    return any(mask.volume_shape(config) is not None for task in tasks[:1] for mask in (task.source, task.target))


def check_volume_settings(tasks: Sequence[PairTask], config: TransportConfig) -> None:
    """Refuse settings that are for images only before any pair is read."""
    if not config.volume and hold_volumes(tasks, config):
        replace(config, volume=True)


def check_tasks(tasks: Sequence[PairTask]) -> None:
    """Refuse names that are unsafe or not unique, and labels that do not fit into the table."""
    for task in tasks:
        _check_id(task.pair_id)
        if "\0" in task.source.spec + task.target.spec:
            raise ManifestError(
                "file names without NUL characters", f"one in pair {task.pair_id!r}", "correct the path"
            )
    name, count = Counter(task.pair_id for task in tasks).most_common(1)[0] if tasks else ("", 0)
    if count > 1:
        raise ManifestError(
            "a unique name for every pair",
            f"{count} pairs called {ascii(name)[:80]}",
            "give each line another pair_id, or each frame of a series another frame",
        )
    for name in dict.fromkeys(name for task in tasks for name in task.carried):
        if name in BY_NAME:
            raise ManifestError(
                "labels that are not called like a column of the results",
                f"a label {name!r}",
                "rename it; docs/results.md lists the columns",
            )
    try:
        for task in tasks:
            checked_extra(task.carried)
    except StoreRowError as error:
        raise ManifestError(error.expected, error.got, error.fix) from error


def _check_id(pair_id: str) -> None:
    unsafe = [c for c in pair_id if unicodedata.category(c) in _UNSAFE_CATEGORIES or c in _DIRECTION_OVERRIDES]
    if not pair_id.strip() or pair_id != pair_id.strip() or unsafe:
        raise ManifestError(
            "a pair_id without control characters and without spaces at its ends",
            ascii(pair_id)[:80],
            "rename the pair",
        )
    if len(pair_id) > MAX_ID_LENGTH:
        raise ManifestError(
            f"a pair_id of at most {MAX_ID_LENGTH} characters",
            f"{len(pair_id)}: {ascii(pair_id)[:60]}...",
            "give the pairs shorter names in a column pair_id",
        )
