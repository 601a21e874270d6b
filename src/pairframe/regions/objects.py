"""Tables of the objects and tracks of a series."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairframe.regions.flow_table import LabelFlows
from pairframe.units import Units

if TYPE_CHECKING:
    import pandas as pd

OBJECT_COLUMNS = (
    *("frame", "label", "track", "area_um2", "y_um", "x_um", "event", "parents", "share_from_parents"),
    *("growth_rate", "dy_um", "dx_um", "next_event", "children", "share_to_children"),
)


class Link(NamedTuple):
    """A row of the table of links."""

    frame: int
    source_label: int
    target_label: int
    mass: float
    share_of_source: float
    share_of_target: float
    dy_um: float
    dx_um: float


Relatives = dict[tuple[int, int], list[Link]]  # by frame and label


def measure_objects(labels: NDArray[np.integer], units: Units) -> pd.DataFrame:
    """Label, area, centroid and length (diagonal of the bounding box) of each object of a label image (H, W)."""
    import pandas as pd
    from scipy import ndimage

    ids, place = np.unique(labels[labels > 0], return_inverse=True)
    y, x = np.nonzero(labels)
    area = np.bincount(place, minlength=len(ids))
    numbered = np.zeros(labels.shape, dtype=np.int32)
    numbered[y, x] = place + 1
    sides = [[side.stop - side.start for side in box] for box in ndimage.find_objects(numbered)]
    centre = [np.bincount(place, weights=at + 0.5, minlength=len(ids)) / np.maximum(area, 1) for at in (y, x)]
    return pd.DataFrame(
        {
            "label": ids.astype(np.int64),
            "area_um2": area * units.px_area,
            "y_um": centre[0] * units.px_size,
            "x_um": centre[1] * units.px_size,
            "length_um": np.array([np.hypot(*box) for box in sides], dtype=np.float64) * units.px_size,
        }
    )


def object_table(measured: list[pd.DataFrame], links: pd.DataFrame, flows: list[LabelFlows]) -> pd.DataFrame:
    """One row per object and frame; columns as in `OBJECT_COLUMNS`.

    ``event`` says how an object came: first, appears, continues, splits (a daughter) or merges (from several). ``next_event``
    says how it goes on: last, vanishes, continues, splits or merges. The shares say how sure this is: of the object's mass
    that came from its parents (of one that appears: that was created), and that went to its children (of one that vanishes:
    that was destroyed). ``growth_rate`` is the log of the area of an object, with its siblings, over that of its parents.
    """
    import pandas as pd

    parents, children = _relatives(links)
    area = {
        (frame, label): one_area
        for frame, table in enumerate(measured)
        for label, one_area in zip(table["label"].tolist(), table["area_um2"].tolist(), strict=True)
    }
    created = [
        dict(zip(one.target_labels.tolist(), (one.created / one.target_mass).tolist(), strict=True)) for one in flows
    ]
    destroyed = [
        dict(zip(one.source_labels.tolist(), (one.destroyed / one.source_mass).tolist(), strict=True)) for one in flows
    ]
    rows: list[tuple[Any, ...]] = []
    for frame, table in enumerate(measured):
        for label, own_area, y, x in zip(
            *(table[name].tolist() for name in ("label", "area_um2", "y_um", "x_um")), strict=True
        ):
            came, went = parents.get((frame, label), []), children.get((frame, label), [])
            before = [link.source_label for link in came]
            after = [link.target_label for link in went]
            siblings = {t.target_label for k in before for t in children[frame - 1, k]}
            together = {s.source_label for k in after for s in parents[frame + 1, k]}
            event = "first" if frame == 0 else _event(before, siblings, "appears")
            next_event = "last" if frame + 1 == len(measured) else _next_event(after, together)
            mass = np.array([link.mass for link in came])
            dy, dx = (
                float((mass * [getattr(link, name) for link in came]).sum() / mass.sum()) if came else np.nan
                for name in ("dy_um", "dx_um")
            )
            growth = np.nan
            if came:
                family = {s.source_label for k in siblings for s in parents[frame, k]}
                growth = float(np.log(sum(area[frame, k] for k in siblings) / sum(area[frame - 1, k] for k in family)))
            from_parents = sum(link.share_of_target for link in came) if came else np.nan
            to_children = sum(link.share_of_source for link in went) if went else np.nan
            if event == "appears":
                from_parents = created[frame - 1].get(label, np.nan)
            if next_event == "vanishes":
                to_children = destroyed[frame].get(label, np.nan)
            rows.append(
                (
                    *(frame, label, 0, own_area, y, x, event, _text(before), min(from_parents, 1.0)),
                    *(growth, dy, dx, next_event, _text(after), min(to_children, 1.0)),
                )
            )
    objects = pd.DataFrame(rows, columns=list(OBJECT_COLUMNS))
    objects["track"] = _track_numbers(objects, parents, children)
    return objects


def track_table(objects: pd.DataFrame, links: pd.DataFrame) -> pd.DataFrame:
    """One row per track: first and last frame, and the track that it came from, 0 for none.

    A fused object has several parents: the one that gave it most mass counts.
    """
    import pandas as pd

    track = {
        (frame, label): number
        for frame, label, number in zip(*(objects[name].tolist() for name in ("frame", "label", "track")), strict=True)
    }
    parents, _ = _relatives(links)
    found = objects.groupby("track").agg(
        first_frame=("frame", "min"), last_frame=("frame", "max"), first_label=("label", "first")
    )
    parent = []
    for first_frame, first_label in zip(found["first_frame"].tolist(), found["first_label"].tolist(), strict=True):
        came = parents.get((first_frame, first_label), [])
        best = max(came, key=lambda link: link.mass, default=None)
        parent.append(0 if best is None else track[first_frame - 1, best.source_label])
    found["parent_track"] = np.array(parent, dtype=np.int64)
    table: pd.DataFrame = found.reset_index()[["track", "first_frame", "last_frame", "parent_track"]]
    return table if len(table) else pd.DataFrame(columns=table.columns, dtype=np.int64)


def _relatives(links: pd.DataFrame) -> tuple[Relatives, Relatives]:
    """Links into and out of each (frame, label)."""
    parents: Relatives = {}
    children: Relatives = {}
    for values in zip(*(links[name].tolist() for name in Link._fields), strict=True):
        link = Link(*values)
        parents.setdefault((link.frame + 1, link.target_label), []).append(link)
        children.setdefault((link.frame, link.source_label), []).append(link)
    return parents, children


def _event(before: list[int], siblings: set[int], none: str) -> str:
    if not before:
        return none
    if len(before) > 1:
        return "merges"
    return "splits" if len(siblings) > 1 else "continues"


def _next_event(after: list[int], together: set[int]) -> str:
    if not after:
        return "vanishes"
    if len(after) > 1:
        return "splits"
    return "merges" if len(together) > 1 else "continues"


def _track_numbers(objects: pd.DataFrame, parents: Relatives, children: Relatives) -> NDArray[np.int64]:
    """Numbers from 1: an object with one parent that has one child keeps the number of its parent."""
    number: dict[tuple[int, int], int] = {}
    n_tracks = 0
    for frame, label in zip(objects["frame"].tolist(), objects["label"].tolist(), strict=True):
        came = parents.get((frame, label), [])
        before = (frame - 1, came[0].source_label) if len(came) == 1 else None
        if before is not None and len(children[before]) == 1:
            number[frame, label] = number[before]
        else:
            n_tracks += 1
            number[frame, label] = n_tracks
    return np.array(list(number.values()), dtype=np.int64)


def _text(labels: list[int]) -> str:
    return " ".join(str(label) for label in labels)
