"""Links between the objects of two frames, proposed from the mass that flows between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pairframe import checks
from pairframe.errors import ArgumentError
from pairframe.regions.flow_table import LabelFlows
from pairframe.types import Bool

if TYPE_CHECKING:
    import pandas as pd

LINK_COLUMNS = (
    *("frame", "source_label", "target_label", "mass", "share_of_source", "share_of_target"),
    *("dy_um", "dx_um", "distance_um"),
)


@dataclass(frozen=True)
class LinkRule:
    """When a flow is a link.

    Parameters
    ----------
    most : float
        The flow is at least this share of one of its two objects: half of a divided object arrives as all of a daughter.
    least : float
        And at least this share of the other one: objects that touch exchange some mass through the blur.
    """

    most: float = 0.5
    least: float = 0.1

    def __post_init__(self) -> None:
        for name in ("most", "least"):
            value = checks.within(
                getattr(self, name), name, 0.0, 1.0, fix="a share of an object's mass, e.g. 0.5", error=ArgumentError
            )
            object.__setattr__(self, name, value)


def links_of(flows: LabelFlows, frame: int, rule: LinkRule) -> pd.DataFrame:
    """The links between the objects of `frame` and those of the next one; columns as in `LINK_COLUMNS`."""
    import pandas as pd

    of_source = flows.mass / flows.source_mass[flows.source]
    of_target = flows.mass / flows.target_mass[flows.target]
    source, target = flows.source_labels[flows.source], flows.target_labels[flows.target]
    kept: Bool = (np.maximum(of_source, of_target) >= rule.most) & (np.minimum(of_source, of_target) >= rule.least)
    kept &= (source > 0) & (target > 0)
    n = int(kept.sum())
    values = (
        *(np.full(n, frame), source[kept], target[kept], flows.mass[kept]),
        *(np.minimum(of_source[kept], 1.0), np.minimum(of_target[kept], 1.0)),
        *(flows.displacement_um[kept, 0], flows.displacement_um[kept, 1], flows.distance_um[kept]),
    )
    return pd.DataFrame(dict(zip(LINK_COLUMNS, values, strict=True)))
