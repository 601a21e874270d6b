"""`AlignSettings`: how a cohort is aligned, checked once."""

from __future__ import annotations

from dataclasses import dataclass

from pairframe import checks
from pairframe.alignment.align import KINDS, SEVERAL
from pairframe.errors import AlignError
from pairframe.units import checked_px_size


@dataclass(frozen=True)
class AlignSettings:
    """The settings that all masks of a cohort share.

    Parameters
    ----------
    canvas_hw : (H, W)
        Canvas of all masks, pixels.
    px_size_um : float, optional
        Side of its pixels; that of the reference if not given.
    landmark : str, optional
        Column of the table with a second mask, such as the yolk.
    kind, allow_flip, several
        See `align`. A scale that is fitted helps to find the pose. It is recorded and not applied.
    """

    canvas_hw: tuple[int, int]
    px_size_um: float | None = None
    landmark: str | None = None
    kind: str = "rigid"
    allow_flip: bool = False
    several: str = "shift"

    def __post_init__(self) -> None:
        hw = self.canvas_hw
        if not isinstance(hw, tuple | list) or len(hw) != 2:
            raise AlignError("canvas_hw to be two integers", checks.shown(hw), "e.g. (256, 576)", "canvas_hw")
        height, width = (checks.integer(side, "canvas_hw", 1, 100_000, error=AlignError) for side in hw)
        object.__setattr__(self, "canvas_hw", (height, width))
        if self.px_size_um is not None:
            object.__setattr__(self, "px_size_um", checked_px_size(self.px_size_um))
        checks.choice(self.kind, "kind", KINDS, error=AlignError)
        checks.choice(self.several, "several", SEVERAL, error=AlignError)
        object.__setattr__(self, "allow_flip", checks.boolean(self.allow_flip, "allow_flip", error=AlignError))

    @property
    def search(self) -> list[object]:
        """The settings that a pose depends on; the canvas is not among them."""
        return [self.kind, self.allow_flip, self.several, self.landmark is not None]
