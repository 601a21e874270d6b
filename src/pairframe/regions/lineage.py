"""`lineage`: who continues as whom in a series of label images, from the flow of mass between consecutive frames."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairframe.engines import Status
from pairframe.errors import ArgumentError, MaskError
from pairframe.masks import Mask
from pairframe.pipeline import iter_results
from pairframe.problem import TransportConfig
from pairframe.problem.penalties import penalty_class
from pairframe.regions.flow_table import LabelFlows, flows_of
from pairframe.regions.labels import checked_labels
from pairframe.regions.links import LinkRule, links_of
from pairframe.regions.objects import measure_objects, object_table, track_table
from pairframe.regions.shared_motion import moved_labels, shared_motion_px
from pairframe.types import Float, Int
from pairframe.units import Units

if TYPE_CHECKING:
    import pandas as pd

# Of the typical length of the objects. Measured on crowded scenes: with a longer reach, the mass of a cell that vanishes
# moves on through its neighbours to where mass is needed, and takes their identities along.
_REACH = 0.5
# Motion shared with neighbours that were linked wrongly at first shows only in a later look.
_MOST_LOOKS = 4
_SAME_PX = 1  # a motion that changed by no more is not worth another look


@dataclass(frozen=True, eq=False, repr=False)
class Lineage:
    """Objects of a series, the links between them, and the tracks that follow from the links. Identities are proposals.

    Attributes
    ----------
    frames : tuple of (H, W) label images
    objects : DataFrame
        One row per object and frame; columns as in `OBJECT_COLUMNS`.
    links : DataFrame
        One row per link between consecutive frames; columns as in `LINK_COLUMNS`.
    tracks : DataFrame
        One row per track, which ends where an object divides, fuses or vanishes: ``track``, ``first_frame``, ``last_frame``,
        ``parent_track`` (0 for none).
    config : TransportConfig
        As used, with the reach.
    px_size_um : float or None
    unsolved : tuple of int
        Frames whose comparison with the next one is not certified.
    """

    frames: tuple[NDArray[np.integer], ...]
    objects: pd.DataFrame
    links: pd.DataFrame
    tracks: pd.DataFrame
    config: TransportConfig
    px_size_um: float | None
    unsolved: tuple[int, ...] = ()

    @property
    def units(self) -> Units:
        """The unit wherever a column says um."""
        return Units(self.px_size_um)

    @property
    def events(self) -> dict[str, int]:
        """How many objects continue, split, merge, appear and vanish; a fusion counts once."""
        came, went = self.objects["event"].value_counts(), self.objects["next_event"].value_counts()
        names = {"continues": came, "splits": went, "merges": came, "appears": came, "vanishes": went}
        return {name: int(counts.get(name, 0)) for name, counts in names.items()}

    def track_images(self) -> list[NDArray[np.integer]]:
        """The frames with every object's track instead of its label."""
        images = []
        for frame, labels in enumerate(self.frames):
            own = self.objects[self.objects["frame"] == frame]
            track = np.zeros(int(labels.max(initial=0)) + 1, dtype=np.int32)
            track[own["label"].to_numpy()] = own["track"].to_numpy()
            images.append(track[labels])
        return images

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {name}" for name, count in self.events.items())
        return f"Lineage({len(self.frames)} frames, {len(self.objects)} objects, {len(self.tracks)} tracks: {counts})"


def lineage(
    frames: ArrayLike | Sequence[ArrayLike],
    config: TransportConfig | None = None,
    *,
    px_size_um: float | None = None,
    rule: LinkRule | None = None,
    jobs: int | None = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Lineage:
    """Follow the objects of a series of label images.

    Parameters
    ----------
    frames : (T, H, W) integers, or T label images
        At least two, on one canvas; 0 is the background. Labels need not agree between frames.
    config : TransportConfig, optional
        Without a reach, it is half the typical length of the objects, with which a round object may move by a quarter of its
        diameter between frames. Use ``align="shift"`` for a drifting stage. The mass mode must be ``uniform``.
    px_size_um : float, optional
        Side of a pixel; that of the config wins. Without one, lengths are in pixels.
    rule : LinkRule, optional
        Which share of an object must flow to make a link.
    jobs : int, optional
        As for `compare_many`.
    progress : callable (done, total), optional
        Called after each pair of frames.
    """
    images = _checked_frames(frames)
    config, rule = TransportConfig() if config is None else config, LinkRule() if rule is None else rule
    if not config.mass.is_area:
        raise ArgumentError(
            'the mass mode "uniform" for a lineage', f"{str(config.mass_mode)!r}", "leave out mass_mode", "mass_mode"
        )
    if config.px_size_um is not None:
        px_size_um = config.units.px_size
    units = Units(px_size_um)
    measured = [measure_objects(labels, units) for labels in images]
    config = _with_reach(replace(config, px_size_um=px_size_um), measured)
    pairs = list(pairwise(images))
    flows, unsolved = _flows_between_frames(pairs, config, jobs, progress)
    known: dict[int, Int] = {}
    frames_left, n_before = list(range(len(flows))), len(pairs)
    for _ in range(_MOST_LOOKS - 1):
        motions: dict[int, Int] = {}
        for frame in frames_left:
            motion = shared_motion_px(
                measured[frame],
                measured[frame + 1],
                links_of(flows[frame], frame, rule),
                units.px_size,
                is_aligned=config.align != "none",
            )
            if motion is not None and (frame not in known or np.abs(motion - known[frame]).max() > _SAME_PX):
                motions[frame] = motion
        moved = [
            (moved_labels(images[frame], measured[frame]["label"].to_numpy(), motion), images[frame + 1])
            for frame, motion in motions.items()
        ]
        found, unsolved_now = _flows_between_frames(moved, config, jobs, progress, n_before)
        frames_left, n_before = [], n_before + len(moved)
        for number, (frame, motion) in enumerate(motions.items()):
            # A motion that does not explain more of the mass is not shared.
            if found[number].mass.sum() > flows[frame].mass.sum():
                by_label = dict(zip(measured[frame]["label"].tolist(), (motion * units.px_size).tolist(), strict=True))
                flows[frame] = found[number].after_motion(by_label)
                known[frame] = motion
                unsolved = unsolved - {frame} | ({frame} if number in unsolved_now else set())
                frames_left.append(frame)
    import pandas as pd

    links = pd.concat([links_of(one, frame, rule) for frame, one in enumerate(flows)], ignore_index=True)
    objects = object_table(measured, links, flows)
    return Lineage(
        tuple(images), objects, links, track_table(objects, links), config, px_size_um, tuple(sorted(unsolved))
    )


def _flows_between_frames(
    pairs: list[tuple[NDArray[np.integer], NDArray[np.integer]]],
    config: TransportConfig,
    jobs: int | None,
    progress: Callable[[int, int], None] | None,
    n_before: int = 0,
) -> tuple[list[LabelFlows], set[int]]:
    """The flows of each pair of label images, and the numbers of the pairs that are not certified."""
    flows: list[LabelFlows] = []
    unsolved = set()
    masks = [tuple(Mask(labels > 0, px_size_um=config.px_size_um) for labels in pair) for pair in pairs]
    for number, result in enumerate(iter_results(masks, config, jobs=jobs)):  # type: ignore[arg-type]
        if result.status == Status.max_iterations:
            unsolved.add(number)
        flows.append(flows_of(result, *pairs[number]))
        if progress is not None:
            progress(n_before + number + 1, n_before + len(pairs))
    return flows, unsolved


def _checked_frames(frames: ArrayLike | Sequence[ArrayLike]) -> list[NDArray[np.integer]]:
    if isinstance(frames, np.ndarray) and frames.ndim != 3:
        raise MaskError(
            "label images along a first axis, (T, H, W)", f"an array of shape {frames.shape}", "stack them", "frames"
        )
    images = [checked_labels(frame, f"frame {number}") for number, frame in enumerate(frames)]  # type: ignore[arg-type]
    if len(images) < 2:
        raise ArgumentError(
            "at least two frames", f"{len(images)}", "give the label images of a series, (T, H, W)", "frames"
        )
    for number, image in enumerate(images):
        if image.shape != images[0].shape:
            raise MaskError(
                f"frame {number} on the canvas of frame 0, {images[0].shape[0]} x {images[0].shape[1]} px",
                f"{image.shape[0]} x {image.shape[1]} px",
                "crop or pad all frames to one canvas",
                "frames",
            )
    return images


def _with_reach(config: TransportConfig, measured: list[pd.DataFrame]) -> TransportConfig:
    """With half the typical length of the labelled objects as the reach, unless the config says how far mass may move.

    The typical length of the connected pieces, which `compare` would take, is that of clusters in a crowded scene.
    """
    given = (config.reach_um, config.marginal_relaxation, config.moved_mass, config.moved_share)
    if any(value is not None for value in given) or all(penalty_class(name).is_exact for name in config.penalties_ab):
        return config
    lengths: Float = np.concatenate([one["length_um"].to_numpy() for one in measured])
    areas: Float = np.concatenate([one["area_um2"].to_numpy() for one in measured])
    if not lengths.size:
        return config
    order = np.argsort(lengths, kind="stable")
    below = np.cumsum(areas[order])
    typical = float(lengths[order[np.searchsorted(below, 0.5 * below[-1])]])
    return replace(config, reach_um=_REACH * typical)
