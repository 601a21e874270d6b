"""Clean: a mask comes in, the mask that the config asks for goes out."""

from __future__ import annotations

from dataclasses import replace

from pairframe.masks import Mask, clean_mask
from pairframe.notices import Notice
from pairframe.problem import TransportConfig


def cleaned(mask: Mask, config: TransportConfig) -> Mask:
    """The mask inverted, without small objects, with its largest object alone or without holes, as the config says."""
    if not config.cleans:
        return mask
    px_size_um = mask.px_size_um if config.px_size_um is None else config.px_size_um
    return clean_mask(
        replace(mask, px_size_um=px_size_um),
        invert=config.invert,
        keep_largest=config.largest,
        fill_holes=config.fill_holes,
        min_island_area_um2=config.min_area_um2,
    )


def cleaning_notices(before: Mask, after: Mask, name: str) -> list[Notice]:
    """What was done to the source or the target; none if its pixels are the same."""
    steps = after.history[len(before.history) :]
    if not steps or (before.values == after.values).all():
        return []
    return [Notice("cleaned", f"the {name} was cleaned: {', '.join(steps)}")]
